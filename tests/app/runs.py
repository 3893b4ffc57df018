# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of runs that go straight through: the same image on any ranks, what is written, and bad input."""
import glob
import json
import os
import re
import subprocess
import sys

import h5py
import numpy as np

from harness import counted, distance, image, JOB, job, NETWORK, photo, pictures, predicted, run, source, summary, tessera, TV, work


def ranks_agree():
    """1, 2, 3, 4, 5, 7 ranks: the one-rank image to 1e-5, and as many bytes as predicted."""
    photo(83, 101)
    path = job()
    run(path)
    one = image("out")
    assert one.shape == (3, 83, 101) and np.isfinite(one).all()
    for ranks in (2, 3, 4, 5, 7):
        run(path, "--set", f"output.folder=out{ranks}", ranks=ranks)
        d = distance(image(f"out{ranks}"), one)
        told, _ = predicted(path, ranks)
        assert d < 1e-5, (ranks, d)
        assert told == counted(f"out{ranks}") > 0, (ranks, told, counted(f"out{ranks}"))
        assert summary(f"out{ranks}")["bytes_sent_per_iteration"] == told
        print(f"{ranks} ranks: relative difference {d:.1e}, {told} bytes per iteration as predicted")
    assert abs(summary("out7")["psnr"] - summary("out")["psnr"]) < 1e-4
    for ranks, depth in ((2, 1), (7, 2)):
        layer = ("--set", "denoiser.mode=layer", "--set", f"denoiser.halo_depth={depth}")
        run(path, "--force", "--set", f"output.folder=out{ranks}", *layer, ranks=ranks)
        d = distance(image(f"out{ranks}"), one)
        told, said = predicted(path, ranks, *layer)
        assert f"layer by layer, depth {depth}," in said, said
        assert d < 1e-5, (ranks, d)
        assert told == counted(f"out{ranks}") > 0, (ranks, told, counted(f"out{ranks}"))
        print(f"{ranks} ranks, layer by layer: relative difference {d:.1e}, {told} bytes per iteration as predicted")


def trained_weights():
    """Ten iterations at sigma 25/255 with trained weights: the one-rank image to 1e-5 in float32."""
    for height, width, counts in ((203, 97, (3, 7)), (161, 107, (4,)), (64, 64, (2,)), (20, 30, (5,))):
        pictures.imsave(work / "photo.png", pictures.photograph("retina.jpg")[300:300 + height, 400:400 + width])
        path = job(JOB.replace("iterations: 4, sigma: 0.1", "iterations: 10, sigma: 0.098"))
        run(path, "--force")
        for ranks in counts:
            run(path, "--force", "--set", "output.folder=parts", ranks=ranks)
            d = distance(image("parts"), image("out"))
            print(f"{height} x {width} on {ranks} ranks: relative difference {d:.1e}")
            assert d < 1e-5


def gradient_step():
    """gspnp: the objective falls in every iteration on any ranks and in any mode, and goes on."""
    steps = descends("gspnp", "step: 1000")
    assert steps[-1] < 1000, "such a step does not go down"


def proximal_denoiser():
    """proxpnp: likewise, with almost all of D, which is a proximal map here: no step is shortened."""
    steps = descends("proxpnp", "step: 1, lambda: 3.2")  # gamma = 3.2 / 1.8^2
    assert (steps == 1).all(), steps


def descends(solver, keys):
    """Its steps, in the trace."""
    photo(60, 75)
    text = JOB.replace(NETWORK, f"denoiser: {{network: gsdrunet, weights: {source / 'tests/reference/gsdrunet.safetensors'}}}")
    path = job(text.replace("{name: pgd, iterations: 4, sigma: 0.1}", f"{{name: {solver}, iterations: 12, {keys}}}"))
    run(path)
    with h5py.File(work / "out/trace/rank-00000.h5") as f:
        rows = f["/iterations"][...]
    assert len(rows) == 12 and (np.diff(rows["objective"]) <= 1e-6 * rows["objective"][1:]).all(), rows["objective"]
    print(f"{solver}: objective {rows['objective']}, step {rows['step']}")
    assert rows["objective"][-1] < 0.9 * rows["objective"][0]
    for ranks, mode in ((2, "patch"), (3, "layer"), (5, "auto")):
        run(path, "--set", f"output.folder=out{ranks}", "--set", f"denoiser.mode={mode}", ranks=ranks)
        d = distance(image(f"out{ranks}"), image("out"))
        print(f"{ranks} ranks, {mode}: relative difference {d:.1e}")
        assert d < 1e-5
    run(path, "--set", "output.folder=half", "--set", "solver.iterations=5")
    run(str(work / "half"), "--resume", "--set", "solver.iterations=12")
    assert (image("half") == image("out")).all()
    for change, reason in (("denoiser.network=drunet", "goes down on a potential"), ("denoiser.averaging=cycle", "is cycle"),
                           ("solver.bounds=[0, 1]", "solver.bounds"), ("solver.step=[2, 1]", "has 2 values")):
        more = ("--set", "denoiser.weights=auto") if "drunet" in change else ()
        _, err = run(path, "--set", change, *more, "--set", "output.folder=bad", expect=2)
        assert reason in err and not (work / "bad").exists(), err
    return rows["step"]


def whole_image_attention():
    """restormer: attention over the whole image, the same on any ranks; a patch is refused, auto knows."""
    photo(60, 75, gray=True)
    text = JOB.replace(NETWORK, f"denoiser: {{network: restormer, weights: {source / 'tests/reference/restormer.safetensors'}}}")
    path = job(text.replace("iterations: 4, sigma: 0.1", "iterations: 4"))
    run(path)
    for ranks in (2, 3, 7):
        run(path, "--set", f"output.folder=out{ranks}", ranks=ranks)
        d = distance(image(f"out{ranks}"), image("out"))
        told, said = predicted(path, ranks)
        print(f"{ranks} ranks: relative difference {d:.1e}, {told} bytes per iteration as predicted")
        assert d < 1e-5 and told == counted(f"out{ranks}") > 0, (d, told, counted(f"out{ranks}"))
        assert "layer by layer" in said, said
    _, err = run(path, "--set", "denoiser.mode=patch", "--set", "output.folder=bad", ranks=2, expect=2)
    assert "attends to the whole image" in err and not (work / "bad").exists(), err


def traced_network():
    """A TorchScript module that no row knows: denoised as torch does it, and the same run on any ranks."""
    import torch  # takes seconds, which the other scenarios do without
    f = torch.nn.functional

    class Foreign(torch.nn.Module):
        """With strides, a dilation, a slope, groups, and the noise level beside moved pixels."""

        def __init__(self):
            super().__init__()
            self.first, self.norm = torch.nn.Conv2d(4, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
            self.down, self.up = torch.nn.Conv2d(8, 12, 3, stride=2, padding=1), torch.nn.ConvTranspose2d(12, 8, 4, stride=2, padding=1)
            self.wide, self.last = torch.nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=4), torch.nn.Conv2d(16, 3, 1)

        def forward(self, x, sigma):
            level = sigma.view(-1, 1, 1, 1).expand(x.shape[0], 1, x.shape[2], x.shape[3])
            y = f.leaky_relu(self.norm(self.first(torch.cat([2 * x - 1, level], 1))), 0.2)
            return x - 0.1 * self.last(f.elu(self.wide(torch.cat([y, self.up(f.gelu(self.down(y)))], 1))))

    torch.manual_seed(0)
    module = Foreign()
    for _ in range(3):
        module(torch.rand(2, 3, 32, 32), torch.tensor([0.1]))  # statistics that are not the neutral ones
    torch.jit.trace(module.eval(), (torch.rand(1, 3, 32, 32), torch.tensor([0.1]))).save(str(work / "foreign.pt"))
    convert = [sys.executable, str(source / "jobs/convert_weights.py"), "foreign.pt", "foreign.safetensors", "--sigma", "0", "50/255"]
    print(subprocess.run(convert, cwd=work, check=True, capture_output=True, text=True).stdout)

    photo(60, 76)
    x = pictures.imread(work / "photo.png").astype(np.float32) / 255
    with torch.no_grad():
        wanted = module(torch.from_numpy(x).permute(2, 0, 1)[None], torch.tensor([0.1]))[0].numpy()
    for ranks in (1, 3):
        code, _, err = tessera("denoise", "photo.png", f"clean{ranks}.h5", "--network", "traced", "--weights", "foreign.safetensors", "--sigma", 0.1, ranks=ranks)
        assert code == 0, err
        with h5py.File(work / f"clean{ranks}.h5") as file:
            d = distance(file["image"][...], 255 * wanted)  # in the picture's units
        print(f"denoise on {ranks} ranks: relative difference to torch {d:.1e}")
        assert d < 1e-5
    path = job(JOB.replace(NETWORK, "denoiser: {network: traced, weights: foreign.safetensors}"))
    run(path)
    for ranks, mode in ((2, "patch"), (5, "layer"), (7, "auto")):
        run(path, "--set", f"output.folder=out{ranks}", "--set", f"denoiser.mode={mode}", ranks=ranks)
        d = distance(image(f"out{ranks}"), image("out"))
        told, _ = predicted(path, ranks, "--set", f"denoiser.mode={mode}")
        print(f"{ranks} ranks, {mode}: relative difference {d:.1e}")
        assert d < 1e-5 and told == counted(f"out{ranks}") > 0, (d, told, counted(f"out{ranks}"))
    for change, reason in (("denoiser.network=drunet", "weights of a traced"), ("denoiser.weights=random", "no layers of its own")):
        _, err = run(path, "--set", change, "--set", "output.folder=bad", expect=2)
        assert reason in err and not (work / "bad").exists(), err


def photograph_on_four():
    """The eight-blur stack on the 1411 x 1411 retina photograph, 4 ranks against 1; memory of the data."""
    path = job(f"""\
schema: 1
problem:
  truth: retina.png
  operator:
    type: stack
    parts:
      - {{type: blur, kernel: {{gaussian: {{sigma: ["1 %", "0.5 %"]}}}}, boundary: circular}}
    angles: {{first: 0, last: 180, count: 8}}
  noise: {{gaussian: 0.01}}
{NETWORK}
solver: {{name: pgd, iterations: 2, sigma: 0.05}}
output: {{folder: out, preview: none}}
""")
    pictures.imsave(work / "retina.png", pictures.photograph("retina.jpg"))
    run(path)
    run(path, "--set", "output.folder=out4", ranks=4)
    d = distance(image("out4"), image("out"))
    told, _ = predicted(path, 4)
    one, four = max(summary("out")["peak_data_bytes_per_rank"]), max(summary("out4")["peak_data_bytes_per_rank"])
    print(f"relative difference {d:.1e}; data per rank {four / 1e6:.0f} MB of {one / 1e6:.0f} MB = {four / one:.3f}; "
          f"{told} bytes per iteration predicted, {counted('out4')} counted")
    assert d < 1e-5
    assert four / one <= 0.36  # a quarter, halos, and buffers of messages that one rank alone does not have
    assert told == counted("out4")


def resolved_reproduces():
    photo()
    run(job(), ranks=2)
    text = (work / "out/resolved.yaml").read_text()
    assert "sha256" in text and "grid" in text
    run("out/resolved.yaml", "--set", f"output.folder={work}/again", ranks=2)
    assert (image("again") == image("out")).all()
    assert (work / "out/job.yaml").read_text() == JOB
    with h5py.File(work / "out/trace.h5") as f:
        assert len(f) == 2


def bad_input():
    """Through the launcher, on 3 ranks: exit code 2, one message, nothing written."""
    photo()
    (work / "broken.png").write_bytes((work / "photo.png").read_bytes()[:60])
    np.save(work / "nothing.npy", np.zeros((3, 3)))
    start = np.zeros((3, 80, 104), np.float32)
    start[1, 40, 7] = np.nan
    np.save(work / "start.npy", start)
    gaussian = "{gaussian: {sigma: [2.0, 1.0], angle: 30}}"
    cases = [
        (JOB.replace(gaussian, "{file: nothing.npy, normalize: false}"), "is 0 everywhere (nothing would be measured)"),
        (JOB.replace("iterations: 4", "iterations: 4, start: start.npy"), "the start of the iteration is not finite"),
        (JOB.replace("iterations: 4", "iteration: 4"), "did you mean solver.iterations?"),
        (JOB.replace("photo.png", "nowhere.png"), "nowhere.png"),
        (JOB.replace("photo.png", "broken.png"), "broken.png"),
        (JOB.replace("sigma: 0.1}", "sigma: 0.1, step: 5}"), "solver.step is 5"),
        (JOB + "domain: {grid: [2, 2]}\n", "domain.grid is [2, 2]"),
        (JOB.replace("drunet_small_color", "nosuch"), "nosuch"),
        (JOB + "device: cuda\n", "device is cuda"),
        (JOB.replace("noise: {gaussian: 0.02}", "noise: {gaussian: -1}"), "noise"),
    ]
    if os.path.exists("/dev/nvidia0"):
        cases = [c for c in cases if "device: cuda" not in c[0]]
    for text, part in cases:
        code, out, err = tessera("run", job(text), ranks=3)
        said = [line for line in err.splitlines() if line.startswith("tessera:")]
        assert code == 2, (part, code, out, err)
        assert len(said) == 1 and part in said[0], (part, err)
        assert not (work / "out").exists(), part
        print(said[0])
    code, out, err = tessera("run", "nosuch.yaml", ranks=2)
    assert code == 2 and "nosuch.yaml" in err, err
    code, out, err = tessera("reconstruct", "job.yaml", ranks=2)
    assert code == 2 and "no command reconstruct (they are run, check," in err and "tessera --help" in err, err


def folder_is_kept():
    photo()
    path = job()
    (work / "out").mkdir()
    (work / "out/mine.txt").write_text("keep")
    _, err = run(path, ranks=2, expect=2)
    assert "a run never overwrites" in err and "--force" in err, err
    assert os.listdir(work / "out") == ["mine.txt"]
    (work / "blocked/job.yaml").mkdir(parents=True)
    _, err = run(path, "--force", "--set", "output.folder=blocked", ranks=3, expect=3)
    assert err.count("tessera: rank 0 failed: cannot rename") == 1 and "job.yaml" in err, err
    run(path, "--force", ranks=2)
    first = image("out")
    run(path, "--force")
    assert (work / "out/mine.txt").read_text() == "keep"
    assert len(glob.glob(str(work / "out/trace/rank-*.h5"))) == 1, "the traces of the run before are gone"
    assert distance(image("out"), first) < 1e-5


def odd_folder_name():
    """Names of files are bytes: one that is no UTF-8 must not stop a run at its first checkpoint."""
    folder = work / os.fsdecode(b"M\xfcnchen")
    folder.mkdir()
    photo(64, 72)
    (work / "photo.png").rename(folder / "photo.png")
    path = job(TV, f"{folder.name}/job.yaml")
    run(path, ranks=2)
    run(path, "--resume", "--set", "solver.iterations=6", ranks=2)
    assert summary(folder / "out")["iterations"] == 6
    told = json.loads(tessera("status", "--json", folder / "out")[1])
    assert told["state"] == "finished", told
    _, err = run(folder / "nosuch.yaml", ranks=2, expect=2)
    assert "nosuch.yaml" in err, err


def real_data():
    """simulate writes what run makes itself; from a file the unknown is larger and the result is cropped."""
    photo()
    path = job(JOB.replace("boundary: circular", "boundary: valid"))
    assert tessera("simulate", path, "y.h5", ranks=3)[0] == 0
    code, _, err = tessera("simulate", path, "y.h5")
    assert code == 2 and "never overwrites" in err
    with h5py.File(work / "y.h5") as f:
        y = f["/measurements/0"][...]
        assert y.ndim == 3 and y.shape[0] == 3 and y.shape[1] < 80, y.shape
        about = f["/measurements"].attrs
        assert -0.2 < y.min() and 0.5 < y.max() < 1.2 and about["units"] == "internal" and about["factor"] == 255
        file_units = y * 255
    with h5py.File(work / "y.h5", "w") as f:  # as a detector's file, which says nothing of itself
        f["/measurements/0"] = file_units
    real = re.sub(r"truth: photo.png", "measurements: y.h5", JOB).replace("  noise: {gaussian: 0.02}\n  seed: 3\n", "")
    real = real.replace(", boundary: circular", "").replace("problem:\n", "problem:\n  scale: {factor: 255}\n")
    for ranks in (1, 4):
        run(job(real, "real.yaml"), "--set", f"output.folder=real{ranks}", ranks=ranks)
        assert image(f"real{ranks}").shape == y.shape, "cropped to the measured region"
    assert distance(image("real4"), image("real1")) < 1e-5
    run(job(real, "real.yaml"), "--set", "output.folder=whole", "--set", "output.crop=false")
    assert image("whole").shape == (3, 80, 104), image("whole").shape
    # The same unknown comes out as from the simulation itself.
    run(path, "--set", "output.folder=simulated")
    assert distance(image("whole"), image("simulated")) < 1e-5


def kernel_files():
    """A kernel per channel from a file, sampled from a given phase, by the definition; proximal steps on any ranks."""
    photo(80, 96)
    x = pictures.imread(work / "photo.png").astype(np.float64).transpose(2, 0, 1)
    kernels = np.random.default_rng(1).random((3, 5, 4))
    np.save(work / "kernels.npy", kernels)
    np.save(work / "gray.npy", np.repeat(kernels[:1], 3, axis=0))
    np.save(work / "two.npy", kernels[:2])

    def measured(kernels, factor=1, phase=(0, 0)):
        y = np.zeros_like(x)
        for c, k in enumerate(kernels / kernels.sum((1, 2), keepdims=True)):
            for i in range(5):
                for j in range(4):
                    y[c] += k[i, j] * np.roll(x[c], (i - 2, j - 2), (0, 1))
        return y[:, phase[0]::factor, phase[1]::factor]

    text = """\
problem:
  truth: photo.png
  operator: {type: TYPE, kernel: {file: FILE}, boundary: circular}
denoiser: {network: tv}
solver: {name: hqs, iterations: 3, step: 30, sigma: 0.05}
output: {folder: out}
"""
    coarse = text.replace("type: TYPE", "type: downsampling, factor: 2, phase: [1, 0]")
    cases = (("blur", text.replace("TYPE", "blur").replace("FILE", "kernels.npy"), measured(kernels)),
             ("gray", text.replace("TYPE", "blur").replace("FILE", "gray.npy"), measured(kernels[[0, 0, 0]])),
             ("coarse", coarse.replace("FILE", "kernels.npy"), measured(kernels, 2, (1, 0))))
    for name, case, expected in cases:
        path = job(case, f"{name}.yaml")
        assert tessera("simulate", path, f"{name}.h5", ranks=3)[0] == 0
        with h5py.File(work / f"{name}.h5") as f:
            y = f["/measurements/0"][...]
        assert distance(y / y.mean(), expected / expected.mean()) < 1e-6, name
        for ranks in (1, 3):
            run(path, "--force", "--set", f"output.folder={name}{ranks}", ranks=ranks)
        assert distance(image(f"{name}3"), image(f"{name}1")) < 1e-5, name
    _, err = run(job(text.replace("TYPE", "blur").replace("FILE", "two.npy"), "two.yaml"), expect=2)
    assert "has 2 channels that differ (the image has 3)" in err, err
    _, err = run(job(coarse.replace("[1, 0]", "[2, 0]").replace("FILE", "gray.npy"), "phase.yaml"), expect=2)
    assert "phase.yaml:3: problem.operator.phase is 2 on axis 0" in err, err


def masked_and_nan():
    photo(64, 72, gray=True)
    text = f"""\
schema: 1
problem:
  truth: photo.png
  operator: {{type: mask, keep: 0.5}}
  noise: {{poisson: 0.01}}
  seed: 7
denoiser: {{network: tv, tv: {{weight: 0.15}}}}
solver: {{name: hqs, iterations: 15, start: adjoint}}
output: {{folder: out}}
"""
    out, _ = run(job(text))
    assert "are masked and count 0" in out, out
    run(job(text), "--set", "output.folder=out5", ranks=5)
    assert distance(image("out5"), image("out")) < 1e-5
    assert summary("out")["psnr"] > summary("out")["psnr_start"] + 15, "samples weigh as the inverse of their variance"
    # Poisson counts are bitwise the same on any ranks.
    for ranks in (1, 2, 3, 5, 7):
        assert tessera("simulate", "job.yaml", f"y{ranks}.h5", ranks=ranks)[0] == 0
        with h5py.File(work / f"y{ranks}.h5") as f, h5py.File(work / "y1.h5") as g:
            assert (f["/measurements/0"][...] == g["/measurements/0"][...]).all(), ranks
    with h5py.File(work / "y1.h5", "r+") as f:
        f["/measurements/0"][0, 5:9, 7:12] = np.nan
        f["/measurements/0"][0, 20, 20:30] = 400
    holes = text.replace("truth: photo.png", "measurements: y1.h5\n  saturation: 1.4")
    holes = holes.replace("  noise: {poisson: 0.01}\n  seed: 7\n", "").replace("folder: out", "folder: holes")
    out, _ = run(job(holes, "holes.yaml"), ranks=3)
    assert "samples are not numbers and count 0" in out and "samples are saturated and count 0" in out, out
    assert np.isfinite(image("holes")).all() and image("holes").max() < 300


def scene_without_files():
    """A scene as truth: the same measurement bits on any number of ranks, equal to the scene as a file."""
    text = JOB.replace("truth: photo.png", "truth: {scene: {seed: 4, size: [83, 101]}}")
    path = job(text)
    values = []
    for ranks in (1, 5):
        code, out, err = tessera("simulate", path, f"y{ranks}.h5", ranks=ranks)
        assert code == 0, out + err
        with h5py.File(work / f"y{ranks}.h5") as f:
            values.append(f["/measurements/0"][...])
        assert np.array_equal(values[0], values[-1]), ranks
    assert values[0].shape == (3, 83, 101) and values[0].std() > 0.05
    code, out, err = tessera("scene", "scene.h5", "--size", "83x101", "--seed", 4, ranks=2)
    assert code == 0, out + err
    code, out, err = tessera("simulate", path, "file.h5", "--set", "problem.truth=scene.h5")
    assert code == 0, out + err
    with h5py.File(work / "file.h5") as f:
        assert np.array_equal(f["/measurements/0"][...], values[0])
    run(path, ranks=2)
    assert summary("out")["psnr"] > 15
    run("out/resolved.yaml", "--set", "output.folder=again", ranks=2)
    assert np.array_equal(image("out/again"), image("out"))
    code, out, err = tessera("scene", "scene.png", "--size", "83")
    assert code == 2 and "2048x3072" in err, err
    code, out, err = tessera("scene", "huge.h5", "--size", "1073741824x1073741824", ranks=2)
    assert code == 3 and "frame #" not in err and err.count("tessera: ") == 1, err


def denoise_and_compare():
    photo(70, 90)
    code, out, err = tessera("denoise", "photo.png", "clean.png", "--network", "tv", "--sigma", 0.1, "--noise", 0.1, ranks=3)
    assert code == 0, err
    before, after = map(float, re.search(r"PSNR ([\d.]+) dB -> ([\d.]+) dB", out).groups())
    assert 19 < before < 21 and after > before + 4, out
    code, out, err = tessera("compare", "photo.png", "clean.png", ranks=2)
    scored = float(re.search(r"PSNR ([\d.]+)", out).group(1))
    assert abs(scored - after) < 0.1, (out, after)
    assert tessera("denoise", "photo.png", "clean.png", "--network", "tv", "--sigma", 0.1)[0] == 2
    code, out, _ = tessera("info", ranks=2)
    assert code == 0 and "torch" in out
