#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python part of compare_engines.sh: the engines, a process each, and the table.

`run` starts for every network, size and precision all engines, asks them in turn for a pass, and takes the wall
seconds from question to answer, of all alike. What an engine gives is held against torch's float32. The engines speak
as turns.hpp does: how many rows they have and the name of each, then a line for every line that they get.
"""

import argparse
import os
import platform
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path

SHIPPED, FULL = ["drunet_small_color", "drunet_small_gray", "drunet_wide_gray"], "full"
SIGMA = 0.1
BFLOAT16_INSTRUCTIONS = {"avx512_bf16", "amx_bf16", "bf16"}


def network(weights, precision):
    """deepinv's DRUNet; widths and blocks are read off the weights. Images are float32 on both sides."""
    import torch
    from deepinv.models import DRUNet

    widths = [weights[f"m_up{k}.0.weight"].shape[1] for k in (1, 2, 3)] + [weights["m_up3.0.weight"].shape[0]]
    blocks = sum(key.startswith("m_body.") for key in weights) // 2
    channels = weights["m_tail.weight"].shape[0]
    if blocks == 1:  # it makes no list of one
        weights = {key.replace("m_body.0.", "m_body."): weight for key, weight in weights.items()}

    class Pass(torch.nn.Module):
        def __init__(self):
            super().__init__()
            with torch.device("meta"):  # deepinv's own start takes half a minute
                self.drunet = DRUNet(channels, channels, nc=widths, nb=blocks, pretrained=None)
            self.drunet.load_state_dict(weights, assign=True)
            self.dtype = getattr(torch, precision)
            self.to(self.dtype).eval().requires_grad_(False)

        def forward(self, image):
            x = image.to(self.dtype)
            return self.drunet(x, torch.full_like(x[:, :1], SIGMA)).float()

    return Pass()


# Each engine is a function that makes the function that runs a pass.
def deepinv(weights, image, precision, threads, folder):
    import torch

    net, x = network(weights, precision), torch.from_numpy(image)
    return lambda: net(x).numpy()


def torch_eager(weights, image, precision, threads, folder, change=lambda net: net):
    import torch

    net = change(network(weights, precision).to(memory_format=torch.channels_last))
    x = torch.from_numpy(image).to(memory_format=torch.channels_last)
    return lambda: net(x).numpy()


def torch_compiled(*given):
    import torch

    return torch_eager(*given, change=lambda net: torch.compile(net, options={"freezing": True}))


def openvino(weights, image, precision, threads, folder):
    import openvino as ov
    import torch

    hint = {"float32": ov.Type.f32, "bfloat16": ov.Type.bf16}[precision]
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": hint,
        "INFERENCE_NUM_THREADS": threads,
        "ENABLE_HYPER_THREADING": True,  # else one thread a core, whatever the number
    }
    exported = torch.export.export(network(weights, "float32"), (torch.from_numpy(image),))
    compiled = ov.Core().compile_model(ov.convert_model(exported), "CPU", settings)
    if compiled.get_property("INFERENCE_PRECISION_HINT") != hint:  # it says so only when it is asked
        sys.exit(f"none (without instructions for {precision} it computes in float32)")
    if (taken := compiled.get_property("INFERENCE_NUM_THREADS")) != threads:
        sys.exit(f"takes {taken} threads, not {threads}")
    request = compiled.create_infer_request()
    return lambda: request.infer([image], share_inputs=True, share_outputs=True)[0]


def onnxruntime(weights, image, precision, threads, folder):
    import onnxruntime as ort
    import torch

    file, net = str(folder / "network.onnx"), network(weights, precision)
    # Opset 22 is the first whose convolutions may be bfloat16.
    torch.onnx.export(net, (torch.from_numpy(image),), file, dynamo=True, verbose=False, opset_version=22)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.force_spinning_stop", "1")  # else it spins into the next one's turn
    session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: image})[0]


ENGINES = {
    "torch": ("torch, channels_last", torch_eager),
    "compile": ("torch.compile", torch_compiled),
    "openvino": ("OpenVINO", openvino),
    "onnxruntime": ("ONNX Runtime", onnxruntime),
    "deepinv": ("deepinv", deepinv),
}


def serve(folder, engine, weights, precision, threads):
    """One engine, made when the first pass is asked for, whose result goes to ENGINE.npy."""
    import deepinv.models  # noqa: F401  (seconds that are no engine's)
    import numpy as np
    import torch
    from safetensors.torch import load_file

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    torch.set_num_threads(threads)
    tensors = {key: tensor.float() for key, tensor in load_file(weights).items()}
    image = np.load(folder / "image.npy")[None]
    print(f"1\n{engine}", file=answers)
    once = None
    with torch.no_grad():
        for k, _ in enumerate(sys.stdin):
            try:
                once = once or ENGINES[engine][1](tensors, image, precision, threads, folder)
                y = once()
                if k == 0:
                    np.save(folder / f"{engine}.npy", y[0])
            except Exception as failed:  # noqa: BLE001  (it is a row of the table)
                sys.exit(f"{type(failed).__name__}: {str(failed).strip().partition(chr(10))[0]}")
            print("done", file=answers)


class Left(Exception):
    """Why an engine has no figures."""


class Program:
    def __init__(self, command, folder, threads, limit):
        self.limit, self.said = limit, tempfile.TemporaryFile(dir=folder)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.said, "bufsize": 0}
        own = {"OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive", "TORCHINDUCTOR_CACHE_DIR": folder / "new"}
        self.process = subprocess.Popen(command, env={**os.environ, **own}, start_new_session=True, **pipes)
        try:
            # Where memory runs out, an engine goes and not this program.
            Path(f"/proc/{self.process.pid}/oom_score_adj").write_text("1000")
            for _ in range(int(self.line())):
                self.line()
            self.first = self.seconds()
        except BaseException:
            self.end()
            raise

    def line(self):
        if not select.select([self.process.stdout], [], [], self.limit)[0]:
            raise Left(f"over {self.limit} s")
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.said.seek(0)
            said = self.said.read().decode(errors="replace").split("\n")
            last = next((text for text in reversed(said) if text.strip()), "")
            if code == -signal.SIGKILL:
                raise Left("killed, out of memory?")
            raise Left(last or (signal.strsignal(-code) if code < 0 else f"exit code {code}"))
        return line

    def seconds(self):
        begin = time.perf_counter()
        with suppress(BrokenPipeError):  # line() says why
            self.process.stdin.write(b"0\n")
        self.line()
        return time.perf_counter() - begin

    def end(self):
        """With all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.said):
            file.close()


class Table:
    def __init__(self, asked):
        self.asked, self.folder, self.bin = asked, asked.folder, (asked.build / "bin").resolve()
        # A program that takes no precision ignores the word; its float32 must not pass for something else.
        probe = [self.bin / "bench_network_pass", SHIPPED[0], "64", "turns", "no precision"]
        self.takes_precision = b"no precision" in subprocess.run(probe, input=b"", capture_output=True).stderr

    def start(self, engine, weights, side, precision):
        threads = str(self.asked.threads)
        command = [sys.executable, __file__, "serve", self.folder, engine, weights, precision, threads]
        if engine == "tessera":
            if precision != "float32" and not self.takes_precision:
                raise Left("not available (bench_network_pass takes no precision)")
            command = [self.bin / "bench_network_pass", weights, str(side), "turns"]
            command += [precision] if precision != "float32" else []
        return Program(command, self.folder, threads, self.asked.limit)

    def tessera_image(self, weights, precision):
        """bench_network_pass shows no image; the program runs the same network in the same way."""
        import h5py
        import numpy as np

        out = self.folder / "tessera.h5"
        command = [self.bin / "tessera", "denoise", self.folder / "image.npy", out, "--force", "--mode", "whole"]
        command += ["--weights", weights, "--sigma", str(SIGMA), "--precision", precision]
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.asked.threads)}
        subprocess.run(command, check=True, capture_output=True, timeout=self.asked.limit, env=environment)
        with h5py.File(out) as file:
            np.save(self.folder / "tessera.npy", file["image"][:].reshape(np.load(self.folder / "image.npy").shape))

    def difference(self, engine):
        import numpy as np

        files = self.folder / f"{engine}.npy", self.folder / "exact.npy"
        if not all(file.exists() for file in files):
            return "-"
        given, exact = map(np.load, files)
        return f"{np.abs(given - exact).max() / np.abs(exact).max():.1e}"

    def cell(self, network, weights, side, precision):
        names = {"tessera": "tessera"} | {name: ENGINES[name][0] for name in self.asked.engines}
        programs, times, left = {}, {}, {}
        try:
            for engine in names:
                (self.folder / f"{engine}.npy").unlink(missing_ok=True)
                try:
                    programs[engine] = self.start(engine, weights, side, precision)
                    if engine == "tessera":
                        self.tessera_image(weights, precision)
                except Left as why:
                    left[engine] = str(why)
                except subprocess.SubprocessError as failed:
                    print(f"no image by tessera: {failed} {(failed.stderr or b'').decode()}", file=sys.stderr)
            for turn in range(self.asked.rounds):
                order, first = list(programs), turn % max(len(programs), 1)
                order = (order[first:] + order[:first])[:: 1 if turn % 2 == 0 else -1]
                for engine in order:
                    try:
                        times.setdefault(engine, []).append(programs[engine].seconds())
                    except Left as why:
                        left[engine] = str(why)
                        times.pop(engine, None)
                        programs.pop(engine).end()
        finally:
            for program in programs.values():
                program.end()
        for engine, title in names.items():
            row = [network, str(side), precision, title]
            if engine in left:
                row += [" ".join(left[engine].replace("|", "/").split())[:100], "-", "-", "-", "-"]
            else:
                row += [f"{programs[engine].first:.1f}", f"{statistics.median(times[engine]):.3f}", "-", "-"]
                ratios = [own / ours for own, ours in zip(times[engine], times.get("tessera", []))]
                if ratios:
                    row[-2:] = [f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"]
                row.append(self.difference(engine))
            print(f"| {' | '.join(row)} |", flush=True)

    def run(self):
        import numpy as np

        print("| network | side | precision | engine | first, s | s | to tessera | least to most | difference |")
        print(f"|{'---|' * 9}", flush=True)
        for network in self.asked.networks:
            weights = Path("data/weights", f"{network}.safetensors").resolve()
            if network == FULL:
                weights = full_width(self.folder / "full.safetensors")
            for side in self.asked.sizes:
                shape = (1 if network.endswith("gray") else 3, side, side)
                np.save(self.folder / "image.npy", np.random.default_rng(0).random(shape, dtype=np.float32))
                (self.folder / "exact.npy").unlink(missing_ok=True)
                try:
                    self.start("torch", weights, side, "float32").end()
                    (self.folder / "torch.npy").rename(self.folder / "exact.npy")
                except Left as why:
                    print(f"torch gives no image to compare with: {why}", file=sys.stderr)
                for precision in self.asked.precisions:
                    self.cell(network, weights, side, precision)

    def about(self):
        """What ran where; made first, so that a package that is missing is missed at once."""
        model, flags = processor()
        sets = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags]
        if not flags & BFLOAT16_INSTRUCTIONS:
            sets.append("no bfloat16 instructions: --precisions bfloat16 runs it all the same")
        tessera = subprocess.run([self.bin / "tessera", "--version"], capture_output=True, text=True).stdout
        needed = ["torch", "deepinv", *(name for name in ("openvino", "onnxruntime") if name in self.asked.engines)]
        try:
            versions = ", ".join(f"{name} {metadata.version(name)}" for name in [*needed, "safetensors", "h5py"])
        except metadata.PackageNotFoundError as missing:
            refuse(f"no package {missing.name} in {sys.prefix} (it takes part) install it, or name another --python")
        return (
            f"{model} ({', '.join(sets)}), {self.asked.threads} threads, {self.asked.rounds} rounds; "
            f"tessera {tessera.partition(chr(10))[0]}, {versions}, Python {platform.python_version()}. Wall seconds, "
            "medians; first: the first pass, with what the engine makes of the network before; to tessera: ratio in "
            "the same round, median; difference: from torch's float32, the largest, as a share of its maximum."
        )


def refuse(problem):
    print(problem, file=sys.stderr)
    sys.exit(2)


def processor():
    """(name, instruction sets)"""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    found = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return found.get("model name", platform.machine()), set(found.get("flags", found.get("Features", "")).split())


def full_width(file):
    """The published widths for color, with random weights: weak ones on branches beside the identity."""
    import numpy as np
    from safetensors.numpy import save_file

    widths, shapes = (64, 128, 256, 512), {"m_head": (64, 4, 3, 3), "m_tail": (3, 64, 3, 3)}

    def stage(name, width, first):
        for block in range(first, first + 4):
            shapes.update({f"{name}.{block}.res.{k}": (width, width, 3, 3) for k in (0, 2)})

    for k, (fine, coarse) in enumerate(zip(widths, widths[1:]), 1):
        shapes |= {f"m_down{k}.4": (coarse, fine, 2, 2), f"m_up{k}.0": (coarse, fine, 2, 2)}
        stage(f"m_down{k}", fine, 0)
        stage(f"m_up{k}", fine, 1)
    stage("m_body", 512, 0)
    random, weights = np.random.default_rng(0), {}
    for name, shape in shapes.items():
        scale = (0.3 if ".res." in name else 1.0) / np.sqrt(np.prod(shape[1:]))
        weights[f"{name}.weight"] = random.standard_normal(shape, dtype=np.float32) * np.float32(scale)
    save_file(weights, file)
    return file


def options(words):
    parser = argparse.ArgumentParser(description=__doc__)
    precisions = ["float32", "bfloat16"] if processor()[1] & BFLOAT16_INSTRUCTIONS else ["float32"]
    parser.add_argument("what", choices=["check", "run"])
    parser.add_argument("folder", type=Path, help="for files that may go")
    parser.add_argument("--networks", type=lambda text: text.split(","), default=[*SHIPPED, FULL])
    parser.add_argument("--sizes", type=lambda text: text.split(","), default=["512", "1024", "2048"])
    parser.add_argument("--precisions", type=lambda text: text.split(","), default=precisions)
    parser.add_argument("--engines", type=lambda text: text.split(","), default=list(ENGINES))
    parser.add_argument("--threads", default=str(len(os.sched_getaffinity(0))))
    parser.add_argument("--rounds", default="3")
    parser.add_argument("--limit", default="120")
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    asked = parser.parse_args(words)

    known = {"networks": [*SHIPPED, FULL], "precisions": ["float32", "bfloat16"], "engines": list(ENGINES)}
    for option, names in known.items():
        for name in getattr(asked, option):
            if name not in names:
                refuse(f"unknown name '{name}' in --{option} (there is none) known are {', '.join(names)}")
    for option in ("sizes", "threads", "rounds", "limit"):
        given = getattr(asked, option)
        for number in given if option == "sizes" else [given]:
            if not (number.isascii() and number.isdigit() and int(number) > 0):
                refuse(f"'{number}' in --{option} is no positive whole number (it counts something) write one")
            if option == "sizes" and (int(number) % 8 or int(number) < 32):
                refuse(f"side {number} (the network halves it three times) write a multiple of 8, 32 or more")
        setattr(asked, option, [int(side) for side in given] if option == "sizes" else int(given))
    for program in ("bench_network_pass", "tessera"):
        if not os.access(asked.build / "bin" / program, os.X_OK):
            refuse(f"no {asked.build}/bin/{program} (nothing to measure) build it: cmake --build --preset release")
    return asked


def main():
    if sys.argv[1:2] == ["serve"]:
        folder, engine, weights, precision, threads = sys.argv[2:]
        return serve(Path(folder), engine, weights, precision, int(threads))
    asked = options(sys.argv[1:])
    if asked.what == "run":
        table = Table(asked)
        about = table.about()
        table.run()
        print(f"\n{about}")


if __name__ == "__main__":
    main()
