# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of what every command says or refuses: missing values, binned samples, trainings that are stopped, launches."""
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np

from harness import (image, JOB, job, launch, photo, pictures, program, ranks_of, recorded, run, start, summary, tessera, TV,
                     wait_for, work)

ENDLESS = TV.replace("iterations: 4", "iterations: 100000, stop: {rounding: false}")


def stored(path):
    with h5py.File(work / path) as f:
        return f["/image"][...]


def missing_values():
    """NaN and infinite values stay where they are in denoise, are left out by compare, and refused where nothing is left of them."""
    yy, xx = np.mgrid[:64, :72]
    clean = (0.5 + 0.3 * np.sin(xx / 13) * np.cos(yy / 19)).astype(np.float32)
    noisy = clean + np.random.default_rng(0).normal(0, 0.05, clean.shape).astype(np.float32)
    holes = noisy.copy()
    holes[30, 31], holes[40, 5], holes[:3, 70:] = np.nan, np.inf, -np.inf
    missing = ~np.isfinite(holes)
    for name, values in (("clean", clean), ("noisy", noisy), ("holes", holes), ("none", np.full_like(clean, np.nan))):
        np.save(work / f"{name}.npy", values)
    for network, mode in (("tv", "auto"), ("drunet", "patch"), ("drunet", "layer"), ("drunet", "whole")):
        found = {}
        for ranks in (1, 3) if mode != "whole" else (1,):
            for name in ("noisy", "holes"):
                code, out, err = tessera("denoise", f"{name}.npy", "out.h5", "--force", "--network", network, "--sigma", 0.05, "--mode", mode,
                                         *(("--patch", 32) if mode == "patch" else ()), ranks=ranks)
                assert code == 0, err
                said = out.count("8 of 4608 samples are not numbers: they are filled from their neighbors")
                assert said == (name == "holes"), out
                found[name, ranks] = stored("out.h5")[0]
            assert np.isfinite(found["holes", ranks]).all()
            far = np.ones_like(missing)
            far[20:50, :45] = far[:14, 56:] = False  # the network looks at its surroundings
            assert abs(found["holes", ranks] - clean)[missing].max() < 0.2, (network, mode)
            if network == "tv":
                assert abs(found["holes", ranks] - found["noisy", ranks])[far].max() < 1e-2, (network, mode)
            assert abs(found["holes", ranks] - found["noisy", ranks]).mean() < 5e-3, (network, mode)
        assert abs(found["holes", ranks] - found["holes", 1]).max() < 1e-4, (network, mode)
    code, _, err = tessera("denoise", "none.npy", "out.h5", "--force", "--network", "tv", "--sigma", 0.05, ranks=2)
    assert code == 2 and err.count("all 4608 values of") == 1 and "none.npy are not numbers" in err, err
    # What run says of measured values.
    np.save(work / "dim.npy", noisy / 50)
    code, out, _ = tessera("denoise", "dim.npy", "dim.h5", "--network", "tv", "--sigma", 0.05, "--unit", "internal")
    assert code == 0 and ("fills little of the range" in out or "is taken for 1" in out), out

    mse = ((clean.astype(float) - noisy) ** 2)[~missing].mean()
    for ranks in (1, 3):
        code, out, _ = tessera("compare", "clean.npy", "holes.npy", ranks=ranks)
        assert code == 0 and "8 of 4608 values are not numbers in one of the files" in out, out
        assert abs(float(re.search(r"PSNR ([\d.]+)", out).group(1)) + 10 * np.log10(mse)) < 2e-3, out
        assert "SSIM nan" in out and "relative error nan" not in out, out
    code, _, err = tessera("compare", "clean.npy", "none.npy", ranks=2)
    assert code == 2 and "no value is a number in both" in err, err

    for truth, wanted in (("clean.npy", 0), ("holes.npy", 2)):
        path = job(f"problem: {{truth: {truth}, operator: {{type: blur, kernel: {{gaussian: {{sigma: 1}}}}}}}}\n")
        code, out, err = tessera("simulate", path, "y.h5", "--force", ranks=2)  # without noise, and no word of a solver
        assert code == wanted, out + err
    assert "holes.npy has 8 of 4608 values that are not numbers" in err, err
    _, err = run(job("problem: {measurements: noisy.npy, truth: holes.npy}\ndenoiser: {network: tv}\n"), expect=2)
    assert "leave problem.truth out" in err, err


def binned_samples():
    """Samples that are means of f x f pixels: the picture stands where the truth does, for any factor, kernel center and boundary."""
    yy, xx = np.mgrid[:120, :120]
    t = 0.5 + 0.2 * np.sin(xx / 6.3) * np.cos(yy / 7.7) + 0.2 * (np.hypot(yy - 60, xx - 55) < 25)

    def shift_of(z):
        """Where it stands best, and its error at the truth's place."""
        n = min(z.shape[0], 120)
        inner = slice(12, n - 12)
        e = {(dy, dx): np.sqrt(((z[inner, inner] - np.roll(t, (-dy, -dx), (0, 1))[inner, inner]) ** 2).mean())
             for dy in range(-2, 3) for dx in range(-2, 3)}
        return min(e, key=e.get), e[0, 0]

    for f, ranks in ((2, 1), (3, 2), (4, 5), (5, 3)):
        np.save(work / "y.npy", t.reshape(120 // f, f, 120 // f, f).mean((1, 3)).astype(np.float32))
        np.save(work / "box.npy", np.ones((f, f)))
        for boundary, extra in (("reflect", ""), ("valid", "")) if f != 3 else (("reflect", ""), ("reflect", ", center: [0, 2]"), ("valid", ", center: [2, 0]"),
                                                                                ("reflect", "PHASE"), ("valid", "WHOLE")):
            phase = ", phase: [1, 1]" if extra == "PHASE" else ""
            kernel = "{file: box.npy" + (extra if extra.startswith(",") else "") + "}"
            text = (f"problem:\n  measurements: y.npy\n  noise: {{gaussian: 0.003}}\n  operator: {{type: downsampling, factor: {f}{phase}, "
                    f"kernel: {kernel}, boundary: {boundary}}}\ndenoiser: {{network: tv}}\nsolver: {{name: hqs, iterations: 6}}\n")
            if extra == "WHOLE":
                text += "output: {crop: false}\n"
            out, _ = run(job(text), "--force", "--set", "output.folder=out", ranks=ranks)
            z = image("out")[0].astype(float)
            assert extra == "WHOLE" or z.shape == t.shape, (f, boundary, extra, z.shape)
            best, error = shift_of(z)
            assert best == (0, 0) and error < 0.05, (f, boundary, extra, best, error)
            assert "is centered at" not in out, out
    # A crop says where it begins; a sample that is centered elsewhere is told.
    np.save(work / "y.npy", t[1::3, 1::3].astype(np.float32))
    text = ("problem:\n  measurements: y.npy\n  noise: {gaussian: 0.003}\n  operator: {type: downsampling, factor: 3, "
            "kernel: {gaussian: {sigma: 0.8}}, boundary: BOUNDARY}\ndenoiser: {network: tv}\nsolver: {name: hqs, iterations: 2}\n")
    out, _ = run(job(text.replace("BOUNDARY", "reflect")), "--force", "--set", "output.folder=out", ranks=2)
    assert "centered at row 0, column 0 of the picture, where binned pixels would have theirs at row 1, column 1 " in out, out
    out, _ = run(job(text.replace("BOUNDARY", "reflect")), "--force", "--set", "output.folder=out", "--set", "problem.operator.phase=[1,1]")
    assert "is centered at" not in out and image("out").shape == (1, 120, 120) and shift_of(image("out")[0])[0] == (0, 0), out
    run(job(text.replace("BOUNDARY", "valid")), "--force", "--set", "output.folder=out")
    with h5py.File(work / "out/reconstruction.h5") as f:
        about = f["/image"].attrs
        assert about["origin_1"] == about["origin_2"] == 3 and f["/image"].shape == (1, 120, 120), dict(about)  # half the kernel's 7


def training(steps=100000, more=""):
    (work / "photographs").mkdir(exist_ok=True)
    photo(96, 96, name="photographs/a.png")
    return job(f"train:\n  network: {{name: drunet, channels: 3, widths: [8, 8, 16, 16], blocks: 1}}\n  photographs: [photographs]\n"
               f"  output: w.safetensors\n  steps: {steps}\n  crop: 32\n  batch: 4\n  log_every: 1\n{more}", "train.yaml")


def heartbeats_of(path):
    """Folders of the heartbeats of the ranks that train by this job file."""
    ranks = subprocess.run(["pgrep", "-f", f"^{re.escape(program)} train {re.escape(path)}"], text=True, capture_output=True).stdout.split()
    return {p for rank in ranks for p in re.findall(r"(/(?:dev/shm|tmp)/tessera-\d+-[^/\s]+)/", Path(f"/proc/{rank}/maps").read_text())}


def training_stops():
    """A training ends on signals as a run does: saved, 85 or 86, nothing left behind, and it goes on; one training per output."""
    path = training()
    done = 0
    for sent, ranks, wanted in ((signal.SIGUSR1, 2, 85), (signal.SIGTERM, 1, 86), (signal.SIGINT, 2, 86), (signal.SIGTERM, 3, 86)):
        log = open(work / "log", "w+")
        child = subprocess.Popen([launch, "-n", str(ranks), program, "train", path], cwd=work, text=True, stdout=log, stderr=subprocess.STDOUT,
                                 start_new_session=True)
        wait_for(lambda: (work / "log").read_text().count("  loss ") > 2 or child.poll() is not None)
        if ranks == 3:
            code, _, err = tessera("train", path, ranks=2)
            assert code == 2 and err.count("tessera: ") == 1 and "w.safetensors is in use (tessera on" in err and "another train.output" in err, err
        beats = heartbeats_of(path)
        assert ranks == 1 or beats, "no heartbeats"
        os.kill(child.pid, sent)
        assert child.wait(timeout=120) == wanted, (sent, child.returncode, (work / "log").read_text())
        said = (work / "log").read_text()
        at = int(re.search(r"stopped by a signal after step (\d+): the state is in \S*w.safetensors.state", said).group(1))
        assert f"steps {done} to" in said and at > done and said.count("asked to stop") == 1, said
        done = at
        assert sorted(p.name for p in work.glob("w.safetensors*")) == ["w.safetensors", "w.safetensors.curve.csv", "w.safetensors.state"]
        wait_for(lambda: not any(os.path.exists(p) for p in beats), 10)
    # A picture that 8 bits cannot hold is refused, one without contents is told.
    np_pictures = {"nan": np.full((64, 64), np.nan, np.float32), "counts": np.linspace(0, 4000, 4096, dtype=np.float32).reshape(64, 64),
                   "flat": np.full((64, 64), 0.25, np.float32)}
    for name, values in np_pictures.items():
        pictures.imsave(work / f"photographs/{name}.tif", values)
        code, out, err = tessera("train", training(done))
        if name == "flat":
            assert code == 0 and "1 of 2 pictures have one value everywhere, flat" in out, out + err
        else:
            assert code == 2 and f"{name}.tif" in err and "train.exclude" in err, err
        (work / f"photographs/{name}.tif").unlink()


def launched_by_others():
    """Programs of another MPI's launcher say so; binding for one process per node, and full shared memory, harm no run."""
    photo(64, 72)
    path = job(TV)
    for environment, speaks in (({"PMI_SIZE": "2", "PMI_RANK": "0"}, True), ({"PMI_SIZE": "2", "PMI_RANK": "1"}, False),
                                ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}, True), ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"}, False)):
        for command in (["run", path], ["train", training(2)], ["compare", "photo.png", "photo.png"]):
            done = subprocess.run([program, *command], cwd=work, text=True, capture_output=True, env=os.environ | environment, timeout=120)
            assert done.returncode == 2 and not done.stdout, done
            assert (f"{environment.get('PMI_SIZE', 4)} programs of one rank each" in done.stderr) == speaks and done.stderr.count("\n") == speaks, done
            if not speaks:
                break
    assert not (work / "out").exists() and not list(work.glob("w.safetensors*"))
    for environment in ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_JOB_ID": "7"}, {"SLURM_STEP_NUM_TASKS": "4", "TESSERA_ALONE": "1"},
                        {"SLURM_STEP_NUM_TASKS": "1", "PMI_SIZE": "1"}):  # a batch script's own shell; a farm; one task
        done = subprocess.run([program, "compare", "photo.png", "photo.png"], cwd=work, text=True, capture_output=True, env=os.environ | environment)
        assert done.returncode == 0, done

    cores = len(os.sched_getaffinity(0))
    for name, value in (("OMP_PROC_BIND", "true"), ("OMP_PLACES", "cores"), ("GOMP_CPU_AFFINITY", "0-1")):
        done = subprocess.run([launch, "-n", "2", program, "run", path, "--force"], cwd=work, text=True, capture_output=True, env=os.environ | {name: value})
        assert done.returncode == 0, done
        allowed = set()
        for rank in range(2):
            with h5py.File(work / f"out/trace/rank-{rank:05}.h5") as f:
                allowed.add(str(f.attrs["cores"]))
        assert cores == 1 or not any(a.isdigit() for a in allowed) or len(allowed) == 2, (name, allowed)

    script = 'mount -t tmpfs -o size=8m tmpfs /dev/shm && dd if=/dev/zero of=/dev/shm/left_over bs=64k 2>/dev/null; exec "$@"'
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0 or os.getuid() != 0:
        print("skipped: full shared memory (it takes root to have one)")
        sys.exit(77)
    for ranks in (1, 3):
        done = subprocess.run(["unshare", "--mount", "bash", "-c", script, "-", launch, "-n", str(ranks), program, "run", path, "--force"], cwd=work, text=True,
                              capture_output=True, timeout=240)
        assert done.returncode == 0 and summary("out")["iterations"] == 4, done


def folder_moves():
    """A running run's folder is renamed: one word of where to go on, none that contradicts it; commands can be copied."""
    photo(64, 72)
    folder = "with a space"
    path = job(ENDLESS)
    often = ("--set", "output.checkpoint.iterations=1")
    child = start(path, "--set", f"output.folder={folder}", *often, ranks=1)
    wait_for(lambda: len(recorded(folder)) > 3 or child.poll() is not None)
    os.kill(child.pid, signal.SIGTERM)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 86, (child.returncode, out, err)
    command = re.search(r"'(tessera run .* --resume)' goes on", out).group(1)
    assert shlex.split(command) == ["tessera", "run", str(work / folder), "--resume"], command

    child = start(path, "--set", "output.folder=here", *often, ranks=2)
    wait_for(lambda: len(recorded("here")) > 3 or child.poll() is not None)
    (work / "here").rename(work / "there")
    out, err = child.communicate(timeout=60)
    assert child.returncode == 3 and "owner.json is gone (somebody removed it, or moved" in err, (child.returncode, out, err)
    assert "--force" not in out + err and not ranks_of("here"), out + err
    steps = max(int(p.stem.split("-")[1]) for p in (work / "there/checkpoint").glob("iteration-*.h5"))
    (work / "there/owner.json").unlink()
    shutil.rmtree(work / "here", ignore_errors=True)
    run("there", "--resume", "--set", f"solver.iterations={steps + 1}", ranks=2)


def commands_stop():
    """Every command ends on every signal that ends a run, with its exit code, one line, and nothing left half done."""
    photo(64, 72)
    path = job(JOB)
    large = job("problem: {truth: {scene: {seed: 1, size: [6000, 6000]}}, operator: {type: blur, kernel: {gaussian: {sigma: 6}}}, noise: {gaussian: 0.02}}\n", "large.yaml")

    def up(child, ranks):
        """Whether all ranks listen."""
        found = subprocess.run(["pgrep", "-f", f"^{re.escape(program)} "], text=True, capture_output=True).stdout.split()
        caught = 0
        for rank in found:
            try:
                if os.readlink(f"/proc/{rank}/cwd") == str(work):
                    caught += bool(int(re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{rank}/status").read_text())[1], 16) & 1 << signal.SIGXCPU - 1)
            except OSError:
                pass
        return caught == ranks or child.poll() is not None

    for sent, ranks, wanted, words in ((signal.SIGUSR1, 2, 85, ("simulate", large, "y.h5")), (signal.SIGTERM, 2, 86, ("scene", "s.h5", "--size", "20000x20000")),
                                       (signal.SIGHUP, 1, 86, ("scene", "s.png", "--size", "20000x20000")), (signal.SIGXCPU, 1, 86, ("tune", path, "--seconds", "60")),
                                       (signal.SIGINT, 2, 86, ("probe", path, "--passes", "100000")), (signal.SIGHUP, 2, 86, ("run", path, "--set", "output.checkpoint.keep=0", "--set", "solver.iterations=100000")),
                                       (signal.SIGXCPU, 2, 86, ("denoise", "s_large.npy", "d.h5", "--sigma", "0.1"))):
        if words[0] == "denoise":
            np.save(work / "s_large.npy", np.zeros((3, 4000, 4000), np.float32))
        child = subprocess.Popen([launch, "-n", str(ranks), program, *words], cwd=work, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            wait_for(lambda: up(child, ranks))
            time.sleep(0.3)
            assert child.poll() is None, child.communicate()
            os.kill(child.pid, sent)
            out, err = child.communicate(timeout=60)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
        assert child.returncode == wanted, (words, sent, child.returncode, out, err)
        assert [line[:18] for line in err.splitlines() if line] == ["tessera: ended by "], (words, err)
        assert not list(work.glob("*.tmp")) and not list(work.glob("*.h5")) and not list(work.glob("s.png")), words
