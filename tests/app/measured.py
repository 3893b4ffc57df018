# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of measurements: what simulate writes, units, weights, noise, dark frames, and how data differ from the model."""
import re
import shutil

import h5py
import numpy as np

from harness import distance, image, job, NETWORK, photo, pictures, run, same, summary, tessera, work

SOLVER = "denoiser: {network: tv, tv: {iterations: 20}}\nsolver: {name: pgd, iterations: 3, sigma: 0.05}\noutput: {preview: none}\n"


def write(name, y, weights=None, **attributes):
    with h5py.File(work / name, "w") as f:
        f["measurements/0"] = np.asarray(y)
        if weights is not None:
            f["weights/0"] = np.asarray(weights)
        for key, value in attributes.items():
            f["measurements"].attrs[key] = value


def samples(name, part=0):
    with h5py.File(work / name) as f:
        return f[f"/measurements/{part}"][...]


def simulate(path, out, *arguments, ranks=1):
    code, said, err = tessera("simulate", path, out, *arguments, ranks=ranks)
    assert code == 0, said + err
    return samples(out)


def simulated_file():
    """A run on what simulate wrote gives bit for bit the run that simulates: nothing is said twice."""
    photo(80, 104)
    photo(64, 72, "gray.png", gray=True)
    rng = np.random.default_rng(0)
    np.save(work / "k.npy", rng.random((5, 7)))
    pictures.imsave(work / "m.png", (rng.random((64, 72)) < 0.7).astype(np.uint8) * 255)
    gaussian = "kernel: {gaussian: {sigma: [2, 1], angle: 30}}"
    cases = {
        "circular": ("photo.png", f"{{type: blur, {gaussian}}}", "{gaussian: 0.02}"),
        "valid": ("photo.png", f"{{type: blur, {gaussian}, boundary: valid}}", "{gaussian: 0.02}"),
        "stack": ("photo.png", f"{{type: stack, parts: [{{type: blur, kernel: {{file: k.npy}}}}, {{type: blur, {gaussian}, boundary: "
                  "reflect}]}", "{gaussian: 5.1, unit: file}"),
        "mask": ("gray.png", "{type: mask, keep: 0.5}", "{poisson: 0.01, gaussian: 0.02}"),
        "maskfile": ("gray.png", "{type: mask, file: m.png}", "{gaussian: 0.02}"),
        "coarse": ("photo.png", f"{{type: downsampling, factor: 3, {gaussian}}}", "{poisson: 0.005}"),
    }
    for name, (truth, operator, noise) in cases.items():
        problem = f"problem:\n  truth: {truth}\n  operator: {operator}\n  noise: {noise}\n  seed: 3\n"
        solver = SOLVER if name != "circular" else f"{NETWORK}\nsolver: {{name: hqs, iterations: 3, sigma: {{dpir: 0.02}}}}\n"
        if "valid" in operator:
            solver = solver.replace("preview: none", "preview: none, crop: false")
        path = job(problem + solver, f"{name}.yaml")
        simulate(path, f"{name}.h5", ranks=2)
        # Elsewhere, without the files that the operator came from.
        folder = work / f"far_{name}"
        folder.mkdir()
        shutil.move(work / f"{name}.h5", folder / "y.h5")
        real = "problem: {measurements: y.h5}\n" + solver
        (folder / "real.yaml").write_text(real)
        (folder / "scored.yaml").write_text(real.replace("measurements: y.h5", f"measurements: y.h5, truth: {work}/{truth}"))
        counts = (1, 3) if name in ("valid", "coarse", "maskfile") else (1,)
        for ranks in counts:
            run(path, "--set", f"output.folder={work}/fly_{name}{ranks}", ranks=ranks)
        for kept in ("k.npy", "m.png"):
            (work / kept).rename(work / f"{kept}.away")
        for ranks in counts:
            out, _ = run(folder / "real.yaml", "--set", f"output.folder={work}/file_{name}{ranks}", ranks=ranks)
            assert re.search(r"note: operator, noise, seed, scale and image size as .*y.h5 says", out), out
            same(f"file_{name}{ranks}", f"fly_{name}{ranks}")
            assert image(f"file_{name}{ranks}").max() > 2, "file units"
        if len(counts) > 1:
            run(folder / "scored.yaml", "--set", f"output.folder={work}/scored_{name}")
            assert summary(f"scored_{name}")["psnr"] == summary(f"fly_{name}1")["psnr"]
        for kept in ("k.npy", "m.png"):
            (work / f"{kept}.away").rename(work / kept)
        print(f"{name}: the same bits on {counts} ranks")
    out, _ = run(work / "far_circular/real.yaml", "--set", "problem.noise.gaussian=0.03", "--set", f"output.folder={work}/other")
    assert re.search(r"note: noise as the job says, not as .*y.h5 does", out), out


def units():
    """The same measurement in other units, with inverse variances in their squares, gives the same image."""
    photo(64, 72, gray=True)
    path = job("problem:\n  truth: photo.png\n  operator: {type: blur, kernel: {gaussian: {sigma: 1.2}}}\n  noise: {gaussian: 0.02}\n" + SOLVER)
    y = simulate(path, "y.h5").astype(np.float64)
    rng = np.random.default_rng(1)
    sigma = 0.02 * (1 + rng.random(y.shape))  # a level of its own for each sample
    even = np.full(y.shape, 0.02)
    blur = "  operator: {type: blur, boundary: circular, kernel: {gaussian: {sigma: 1.2}}}\n"
    for solver in ("pgd", "hqs"):
        text = SOLVER.replace("pgd", solver)
        found = {}
        for factor in (1, 256, 255, 65535, 0.001):
            for name, s in (("uneven", sigma), ("even", even)):
                write(f"{name}.h5", (y * factor).astype(np.float32), 1 / (s * factor) ** 2)
                path = job(f"problem:\n  measurements: {name}.h5\n  scale: {{factor: {factor}}}\n" + blur + text, "real.yaml")
                out, _ = run(path, "--force", "--set", "output.folder=out", ranks=2 if solver == "pgd" else 1)
                level = float(re.search(r"noise: from the weights, which are inverse variances; (\S+) on average", out).group(1))
                assert abs(level - np.sqrt(1 / np.mean(1 / s**2))) < 1e-3 * level, (level, factor)
                found[name, factor] = image("out") / np.float32(factor), summary("out")["chi2"]
        path = job("problem:\n  measurements: even.h5\n  weights: mask.npy\n  noise: {gaussian: 0.02}\n" + blur + text, "real.yaml")
        write("even.h5", y.astype(np.float32))
        np.save(work / "mask.npy", np.ones(y.shape, bool))
        run(path, "--force", "--set", "output.folder=out")
        assert np.array_equal(image("out"), found["even", 1][0]) or distance(image("out"), found["even", 1][0]) < 1e-6
        for name in ("uneven", "even"):
            one, chi2 = found[name, 1]
            assert np.array_equal(found[name, 256][0], one), "a power of two leaves the bits"
            for factor in (255, 65535, 0.001):
                d = distance(found[name, factor][0], one)
                print(f"{solver}, {name} weights, factor {factor}: relative difference {d:.1e}, chi2 {found[name, factor][1]:.5g} "
                      f"and {chi2:.5g}")
                assert d < 1e-5 and abs(found[name, factor][1] - chi2) < 1e-4 * chi2
    # Read noise and gain as a data sheet has them, in counts.
    text = blur + SOLVER
    write("counts.h5", (y * 4095 + 100).astype(np.float32))
    sheet = job("problem:\n  measurements: counts.h5\n  scale: {factor: 4095, offset: 100}\n"
                "  noise: {gaussian: 40.95, poisson: 8.19, unit: file}\n" + text, "sheet.yaml")
    inside = job("problem:\n  measurements: y1.h5\n  noise: {gaussian: 0.01, poisson: 0.002}\n" + text, "inside.yaml")
    write("y1.h5", y.astype(np.float32))
    run(sheet, "--set", "output.folder=sheet")
    run(inside, "--set", "output.folder=inside", ranks=3)
    assert distance((image("sheet") - 100) / 4095, image("inside")) < 1e-5
    assert "gaussian: 0.01" in (work / "sheet/resolved.yaml").read_text()
    # Weights are one over the variance of a local mean: the noise level is that of a weight of 1.
    level = re.search(r"poisson gain 0.002.*; (\S+) on average", (work / "inside/log.txt").read_text()).group(1)
    from scipy import ndimage  # half a second to load
    mean = ndimage.uniform_filter(y[0], 5, mode="constant") / ndimage.uniform_filter(np.ones_like(y[0]), 5, mode="constant")
    assert abs(float(level) - np.sqrt(1 / np.mean(1 / (0.002 * mean + 1e-4)))) < 1e-3 * float(level), level


def one_problem():
    """A measurement split into two halves of the information, the parts in another order, and other solvers: one result."""
    photo(28, 36, gray=True)
    blur = "{type: blur, boundary: circular, kernel: {gaussian: {sigma: %s}}}"
    path = job(f"problem:\n  truth: photo.png\n  operator: {blur % 1.2}\n  noise: {{gaussian: 0.02}}\n" + SOLVER)
    y = simulate(path, "y.h5").astype(np.float64)
    other = simulate(job(f"problem:\n  truth: photo.png\n  operator: {blur % 0.8}\n  noise: {{gaussian: 0.02}}\n" + SOLVER, "other.yaml"), "z.h5")
    write("one.h5", y)

    def result(name, measurements, operator, noise, solver, ranks=1):
        with h5py.File(work / f"{name}.h5", "w") as f:
            for k, part in enumerate(measurements):
                f[f"measurements/{k}"] = np.asarray(part, np.float32)
        run(job(f"problem:\n  measurements: {name}.h5\n  operator: {operator}\n  noise: {{gaussian: {noise}}}\n"
                f"denoiser: {{network: tv, tv: {{iterations: 2000, tolerance: 1e-7}}}}\nsolver: {solver}\noutput: {{preview: none}}\n", "p.yaml"),
            "--force", "--set", f"output.folder={name}", ranks=ranks)
        return image(name), summary(name)

    for solver in ("{name: pgd, iterations: 6}", "{name: hqs, iterations: 6}", "{name: admm, iterations: 6, lambda: 0.5}",
                   "{name: fista, iterations: 6, sigma: 0.01}", "{name: red, iterations: 6}"):
        whole, a = result("whole", [y], blur % 1.2, 0.02, solver)
        halves, b = result("halves", [y, y], f"{{type: stack, parts: [{blur % 1.2}, {blur % 1.2}]}}", 0.02 * 2**0.5, solver, ranks=2)
        first, _ = result("first", [y, other], f"{{type: stack, parts: [{blur % 1.2}, {blur % 0.8}]}}", 0.02, solver)
        second, _ = result("second", [other, y], f"{{type: stack, parts: [{blur % 0.8}, {blur % 1.2}]}}", 0.02, solver)
        print(f"{solver}: halves {distance(halves, whole):.1e}, order {distance(second, first):.1e}, chi2 {a['chi2']:.4f} {b['chi2']:.4f}")
        assert distance(halves, whole) < 2e-5 and distance(second, first) < 2e-5
    # With a convex prior one lambda has one minimizer, whatever the solver and its step.
    found = {}
    for name, keys in (("pgd", "iterations: 400"), ("fista", "iterations: 150"), ("admm", "iterations: 150, sigma: 0.04"),
                       ("pgd2", "iterations: 700, step: 0.5")):
        found[name], s = result(name, [y], blur % 1.2, 0.02, f"{{name: {name.rstrip('2')}, {keys}, lambda: 2}}"
                                if "sigma" not in keys and "step" not in keys else f"{{name: {name.rstrip('2')}, {keys}, lambda: 2}}")
        assert s["lambda"] == 2, s
    for name in ("fista", "admm", "pgd2"):
        print(f"{name} from pgd: {distance(found[name], found['pgd']):.1e}")
        assert distance(found[name], found["pgd"]) < 3e-3, name


def settles():
    """A thousand iterations of every solver with the shipped weights end at their best, the residual at rounding."""
    photo(40, 48)
    cases = [(solver, "auto") for solver in ("hqs", "admm")] + [(solver, "0.02") for solver in ("pgd", "fista", "red")]
    for solver, sigma in cases:
        path = job("problem:\n  truth: photo.png\n  operator: {type: blur, kernel: {gaussian: {sigma: 1.6}}}\n  noise: {gaussian: 0.01}\n"
                   f"solver: {{name: {solver}, iterations: 1000, sigma: {sigma}, stop: {{rounding: false}}}}\n"
                   "output: {folder: out, preview: none, checkpoint: {keep: 0}}\n")
        run(path, "--force")
        with h5py.File(work / "out/trace/rank-00000.h5") as f:
            table = f["iterations"][...]
        s = summary("out")
        print(f"{solver}, sigma {sigma}: best {table['psnr'].max():.2f} dB, written {s['psnr']:.2f} (iteration {s['written_iteration']}), "
              f"residual {table['residual'][99]:.1e} after 100, {table['residual'][-1]:.1e} at the end, {s['status']}")
        assert s["status"] == "limit" and len(table) == 1000, s
        assert s["psnr"] > table["psnr"].max() - 0.2
        assert table["residual"][-100:].mean() < max(2e-5, 0.5 * table["residual"][99:199].mean())


def splits_total_variation():
    """By its own levels hqs comes near to the minimizer of total variation, as admm does, and not to a smooth picture."""
    photo(160, 176)
    for operator in ("{type: blur, kernel: {gaussian: {sigma: 1.6}}}", "{type: mask, keep: 0.5}"):
        path = job(f"problem:\n  truth: photo.png\n  operator: {operator}\n  noise: {{gaussian: 0.01}}\ndenoiser: {{network: tv}}\n"
                   "output: {preview: none, diagnostics: false}\n")
        psnr = {}
        for name in ("hqs", "admm"):
            run(path, "--force", "--set", "output.folder=out", "--set", f"solver.name={name}")
            psnr[name] = summary("out")["psnr"]
        print(f"{operator}: hqs {psnr['hqs']:.2f} dB, admm {psnr['admm']:.2f}")
        assert psnr["hqs"] > psnr["admm"] - 2, psnr  # a picture at 4 r is 7 dB below


def weights_keep_the_prior():
    """The case that lost 3 dB by correct weights: hqs and admm, with and without, in any units, on 1 and 4 ranks."""
    pictures.imsave(work / "astronaut.png", pictures.photograph("astronaut.png")[:256, 128:384])
    blur = "  operator: {type: blur, boundary: circular, kernel: {gaussian: {sigma: 1.6}}}\n"
    y = simulate(job("problem:\n  truth: astronaut.png\n" + blur + "  noise: {gaussian: 0.02}\n" + SOLVER), "y.h5")
    cases = [("hqs, iterations: 8", 255, 4), ("hqs, iterations: 8", 65535, 1), ("admm, iterations: 10", 255, 1),
             ("hqs, iterations: 8, sigma: dpir", 255, 4)]
    for keys, factor, ranks in cases:
        write("even.h5", (y * factor).astype(np.float32))
        write("weighted.h5", (y * factor).astype(np.float32), np.full(y.shape, 1 / (0.02 * factor) ** 2, np.float32))
        psnr = {}
        for name in ("even", "weighted"):
            noise = f"  noise: {{gaussian: {0.02 * factor}, unit: file}}\n" if name == "even" else ""
            run(job(f"problem:\n  truth: astronaut.png\n  measurements: {name}.h5\n  scale: {{factor: {factor}}}\n{noise}{blur}"
                    f"{NETWORK}\nsolver: {{name: {keys}}}\noutput: {{preview: none}}\n"), "--force", "--set", "output.folder=out", ranks=ranks)
            psnr[name] = summary("out")["psnr"]
        print(f"{keys}, factor {factor}, {ranks} ranks: {psnr['even']:.3f} dB, with weights {psnr['weighted']:.3f}")
        assert min(psnr.values()) > 30.5 and abs(psnr["even"] - psnr["weighted"]) < 1e-3, psnr


def noise_of_measurements():
    """Where nothing is said the noise is estimated, said, and written down; resolved.yaml gives the same run."""
    photo(256, 256)
    path = job("problem:\n  truth: photo.png\n  operator: {type: blur, kernel: {gaussian: {sigma: 1.6}}}\n  noise: {gaussian: 0.02}\n" + SOLVER)
    y = simulate(path, "sim.h5")
    write("y.h5", y * np.float32(255), factor=255.0)
    path = job("problem:\n  measurements: y.h5\n  operator: {type: blur, boundary: circular, kernel: {gaussian: {sigma: 1.6}}}\n" + SOLVER, "real.yaml")
    out, _ = run(path, "--set", "output.folder=out", ranks=3)
    said = re.search(r"note: noise: gaussian (\S+) \((\S+) in file units\), estimated from the data, standard error (\S+) %", out)
    assert said, out
    assert re.search(r"note: scale as .*y.h5 says", out), out
    sigma, error = float(said.group(1)), float(said.group(3)) / 100
    print(f"estimated {sigma} for 0.02, standard error {error:.1%}")
    assert abs(sigma - 0.02) < 0.05 * 0.02 and error < 0.02
    text = (work / "out/resolved.yaml").read_text()
    assert re.search(r"gaussian: 0\.0(19|20)\d{6,}", text) and "# noise: gaussian" in text, text
    run("out/resolved.yaml", "--set", f"output.folder={work}/again", ranks=3)
    same("again", "out")
    for ranks in (1, 4):
        run(path, "--set", f"output.folder=out{ranks}", ranks=ranks)
        assert re.search(r"gaussian: \S+", (work / f"out{ranks}/resolved.yaml").read_text()).group(0) in text, "the same bits on any ranks"
    code, _, err = tessera("run", path, "--set", "problem.noise.poisson=0.1", "--set", "problem.weights=w.npy", "--set", "output.folder=no")
    assert code == 2, err
    np.save(work / "w.npy", np.linspace(1, 2, y.size, dtype=np.float32).reshape(y.shape))
    code, _, err = tessera("run", path, "--set", "problem.noise.poisson=0.1", "--set", "problem.weights=w.npy", "--set", "output.folder=no")
    assert code == 2 and "problem.noise.poisson stands beside weights" in err, err


def dark_and_flat():
    """y = (file - dark) / flat, weights times flat squared; saturation is judged on what the detector gave."""
    photo(64, 72, gray=True)
    path = job("problem:\n  truth: photo.png\n  noise: {gaussian: 0.02}\n" + SOLVER)
    y = simulate(path, "y.h5")[0].astype(np.float64) * 1000
    rng = np.random.default_rng(2)
    dark, flat = 40 + 10 * rng.random(y.shape), 0.5 + rng.random(y.shape)
    flat[5, 7] = 0
    flat[6, 8] = np.nan
    flat /= np.mean(flat[flat > 0])
    raw = y * flat + dark
    top = np.quantile(raw[np.isfinite(raw)], 0.95)
    for name, array in (("raw", raw), ("dark", dark), ("flat", flat * 7)):
        np.save(work / f"{name}.npy", array)
    text = "  scale: {factor: 1000}\n" + SOLVER
    frames = f"problem:\n  measurements: raw.npy\n  dark: dark.npy\n  flat: flat.npy\n  noise: {{gaussian: 0.02}}\n  saturation: {top / 1000}\n"
    out, _ = run(job(frames + text, "frames.yaml"), "--set", "output.folder=frames", ranks=3)
    assert "1 of 4608 samples have no sensitivity" in out and "1 of 4608 samples are not numbers" in out, out
    good = np.isfinite(flat) & (flat > 0)
    use = good & ~(raw.astype(np.float32) / np.float32(1000) >= np.float32(top / 1000))
    assert f"{(np.isfinite(raw) & (raw.astype(np.float32) / np.float32(1000) >= np.float32(top / 1000))).sum()} of 4608 samples are saturated" in out, out
    np.save(work / "clean.npy", np.where(use, y, 0))
    np.save(work / "w.npy", np.where(use, (flat / 20) ** 2, 0))
    run(job("problem:\n  measurements: clean.npy\n  weights: w.npy\n" + text, "plain.yaml"), "--set", "output.folder=plain")
    d = distance(image("frames"), image("plain"))
    print(f"relative difference {d:.1e}")
    assert d < 1e-5
    assert abs(summary("frames")["chi2"] / summary("plain")["chi2"] - 1) < 1e-4
    # One dark frame and one flat field of a stack count for all of its slices.
    stack = rng.random((4, 12, 14)) + 1
    frame, field = 0.1 * rng.random((12, 14)), 0.5 + rng.random((12, 14))
    for name, array in (("stack", stack), ("frame", frame), ("field", field), ("frames4", np.stack([frame] * 4)), ("fields4", np.stack([field] * 4))):
        np.save(work / f"{name}.npy", array)
    for end, ranks in (("", 3), ("s4", 1)):
        run(job(f"problem:\n  measurements: stack.npy\n  dark: frame{end}.npy\n  flat: field{end}.npy\n  operator: {{type: identity}}\n"
                f"  noise: {{gaussian: 0.02}}\n  scale: {{factor: 1}}\n{SOLVER}", "stack.yaml"), "--set", f"output.folder=stack{end}", ranks=ranks)
    assert distance(image("stack"), image("stacks4")) < 1e-6
    # Of a gain, the inverse of a flat field, the picture tells.
    yy, xx = np.mgrid[:96, :112]
    falls = 1 - 0.4 * ((yy - 48) ** 2 + (xx - 56) ** 2) / 48**2 / 2
    scene = 1 + sum(v * ((abs(yy - a) < h) & (abs(xx - b) < w)) for a, b, h, w, v in zip(*rng.integers(0, 100, (2, 12)), *rng.integers(4, 20, (2, 12)), rng.normal(0, 0.1, 12)))
    for name, array in (("dim", scene * falls + rng.normal(0, 0.02, scene.shape)), ("falls", falls), ("gain", 1 / falls)):
        np.save(work / f"{name}.npy", array)
    for name, ranks in (("falls", 1), ("gain", 1), ("gain", 2)):
        out = "".join(run(job(f"problem: {{measurements: dim.npy, flat: {name}.npy, noise: {{gaussian: 0.02}}}}\n{SOLVER}", "dim.yaml"), "--set", f"output.folder={name}{ranks}", ranks=ranks))
        assert ("problem.flat looks like a gain, the inverse of a flat field" in out) == (name == "gain"), out


def no_inverse_crime():
    """Data on a finer grid, with another boundary and kernel, quantized and clipped: against scipy, on any ranks."""
    from scipy import ndimage
    photo(96, 120)
    truth = np.moveaxis(pictures.imread(work / "photo.png").astype(np.float64) / 255, -1, 0)
    base = ("problem:\n  truth: photo.png\n  operator: OPERATOR\n  noise: {gaussian: 0}\n  simulate: HOW\n" + SOLVER)

    def kernel(sigma):
        c = int(sigma / 0.3 + 1)
        x = np.exp(-np.arange(-c, c + 1) ** 2 / (2 * sigma**2))
        return np.outer(x, x) / x.sum() ** 2

    def blurred(x, k, mode):
        return np.stack([ndimage.convolve(c, k, mode=mode) for c in x])

    def made(operator, how, ranks):
        path = job(base.replace("OPERATOR", operator).replace("HOW", how))
        y = simulate(path, "y1.h5", "--force")
        assert np.array_equal(simulate(path, "yn.h5", "--force", ranks=ranks), y), (how, ranks)
        return y

    blur = "{type: blur, kernel: {gaussian: {sigma: 1.6}}}"
    valid = blur.replace("blur, ", "blur, boundary: valid, ")
    for name, mode, ranks in (("reflect", "mirror", 3), ("replicate", "nearest", 7), ("zero", "constant", 2)):
        y = made(blur, f"{{boundary: {name}}}", ranks)
        assert np.abs(y - blurred(truth, kernel(1.6), mode)).max() < 1e-6, name
    y = made(blur, "{kernel: {gaussian: {sigma: 2.5}}}", 5)
    assert np.abs(y - blurred(truth, kernel(2.5), "wrap")).max() < 1e-6
    c = kernel(1.6).shape[0] // 2
    y = made(valid, "{kernel: {gaussian: {sigma: 2.5}}, boundary: replicate}", 7)
    assert np.abs(y - blurred(truth, kernel(2.5), "nearest")[:, c:-c, c:-c]).max() < 1e-6, "sampled where the model has its samples"

    def mean(x, n):
        return x.reshape(3, x.shape[1] // n, n, x.shape[2] // n, n).mean((2, 4))

    for n, ranks in ((2, 3), (3, 7)):
        y = made(blur, f"{{finer: {n}, boundary: reflect}}", ranks)
        assert np.abs(y - mean(blurred(truth, kernel(1.6 * n), "mirror"), n)).max() < 1e-6, n
    coarse = blur.replace("blur", "downsampling, factor: 2")
    y = made(coarse, "{finer: 2}", 4)
    assert np.abs(y - mean(blurred(truth, kernel(3.2), "wrap"), 2)[:, ::2, ::2]).max() < 1e-6
    y = made(blur, "{bits: 4, clip: true}", 3)
    assert np.abs(y - np.round(blurred(truth, kernel(1.6), "wrap") * 15) / 15).max() < 1e-6 and len(np.unique(y)) <= 16
    # The unknown and its score are on the coarser grid.
    run(job(base.replace("OPERATOR", blur).replace("HOW", "{finer: 2, bits: 8}")), "--set", "output.folder=out", ranks=2)
    assert image("out").shape == (3, 48, 60)
    start = summary("out")["psnr"]
    assert abs(start - 10 * np.log10(1 / np.mean((image("out") / 255 - mean(truth, 2)) ** 2))) < 0.05, start
    code, _, err = tessera("run", job(base.replace("OPERATOR", blur).replace("HOW", "{finer: 7}")), "--set", "output.folder=no", ranks=2)
    assert code == 2 and "no multiple of it" in err, err
