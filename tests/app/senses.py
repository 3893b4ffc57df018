# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of what files mean and data show: weights up to a factor, flags, kernels of other pixels, values far from 0."""
import re

import h5py
import numpy as np

from harness import distance, image, job, run, work

PASS = "denoiser: {network: none}\nsolver: {name: pgd, iterations: 1}\noutput: {folder: out, preview: none, diagnostics: false}\n"
TV = "denoiser: {network: tv}\nsolver: {name: hqs, iterations: 6}\noutput: {folder: out, preview: none, diagnostics: false}\n"


def said(text, *settings, ranks=1, expect=0):
    words = [word for setting in settings for word in ("--set", setting)]
    return "".join(run(job(text), "--force", *words, ranks=ranks, expect=expect))


def weights_held_against_data():
    """Weights that are known up to a factor get the data's level, those that fit stay; flags of bad samples are refused."""
    r = np.random.default_rng(4)
    h, w = 96, 128
    yy, xx = np.mgrid[:h, :w]
    truth = 0.5 + 0.3 * np.sin(xx / 15) * np.cos(yy / 12)
    seconds = 500.0 * (1 + (xx > 40) + (xx > 80) + (yy > 50))
    sigma = 0.6 / np.sqrt(seconds)
    y = truth + sigma * r.standard_normal((h, w))
    np.save(work / "y.npy", y.astype("f4"))
    for name, weights in (("ivar", 1 / sigma**2), ("relative", seconds / seconds.max()), ("hours", seconds / 3600), ("large", seconds * 1e9),
                          ("seconds", seconds)):
        np.save(work / f"{name}.npy", weights.astype("f4"))
    text = "problem: {measurements: y.npy, weights: ivar.npy}\n" + TV
    found = {}
    for name in ("ivar", "relative", "hours", "large", "seconds"):
        out = said(text, f"problem.weights={name}.npy", ranks=2 if name == "hours" else 1)
        found[name] = image("out")
        assert ("level shown by the data" in out) == (name in ("relative", "hours", "large")), out
        assert ("which are inverse variances" in out) == (name in ("ivar", "seconds")), out
        assert ("known up to a factor" in out) == (name == "seconds"), out
        assert ("note: problem.weights" in out and "if they are codes" in out) == (name == "seconds") and "warning: problem.weights" not in out, out
    for name in ("relative", "hours", "large"):
        assert distance(found[name], found["ivar"]) < 3e-3, (name, distance(found[name], found["ivar"]))
    np.save(work / "rms.npy", np.where(r.random((h, w)) < 0.01, 1e30, sigma).astype("f4"))  # bad ones as SExtractor marks them
    assert "times the middle one" in said(text, "problem.weights=rms.npy", ranks=2, expect=2)
    for name, power in (("deviation", 1), ("variance", 2)):  # not their inverse
        np.save(work / f"{name}.npy", (sigma**power).astype("f4"))
        assert f"these look like {'standard deviations' if power == 1 else 'variances'}" in said(
            text, f"problem.weights={name}.npy", ranks=power, expect=2)
    # Rows or columns that take turns.
    for name, gain, words in (("rows", np.where(yy % 2, 1, 0.85), "every second row of"),
                              ("pairs", np.where(xx // 2 % 2, 1, 0.3), "every second pair of columns of")):
        np.save(work / f"{name}.npy", (truth * gain + 0.02 * r.standard_normal((h, w))).astype("f4"))
        out = said(text.replace(", weights: ivar.npy", ""), f"problem.measurements={name}.npy", ranks=2)
        assert f"warning: {words} the measurement lies" in out, out
    out = said(text, ranks=2)
    assert "every second" not in out and "all along" not in out, "nothing takes turns here"
    flawed = y.copy()
    flawed[:, 40] = 0.2  # a dead column; an edge is none
    flawed[:, 90:] += 0.3
    np.save(work / "flawed.npy", flawed.astype("f4"))
    assert "warning: column 40 of the measurement differs from those" in said(text, "problem.measurements=flawed.npy", ranks=2)
    stack = np.stack([truth * (0.3 if k % 2 else 1) + 0.02 * r.standard_normal((h, w)) for k in range(8)])
    np.save(work / "turns.npy", stack[None, :, ::2, ::2].astype("f4"))
    assert "warning: every second slice of" in said(text.replace("y.npy, weights: ivar.npy", "turns.npy"), "solver.iterations=1", ranks=2)
    # Numbers that wrapped around, hot samples at one value.
    dim = np.rint(2000 * (truth - 0.3)).astype(np.int32)
    assert 0.05 < (dim < 0).mean() < 0.5
    np.save(work / "wrapped.npy", dim.astype(np.uint16))
    out = said(text.replace(", weights: ivar.npy", ""), "problem.measurements=wrapped.npy", ranks=2)
    assert re.search(rf"warning: {(dim < 0).sum()} samples of the measurement lie from \d+ to 65535, .* a.view\('int16'\)", out), out
    np.save(work / "hot.npy", np.where(r.random((h, w)) < 0.01, 3e4, 1000 * y).astype("f4"))
    out = said(text.replace(", weights: ivar.npy", ""), "problem.measurements=hot.npy")
    assert "clipped:" not in out and "at its largest value, 30000" in out, out
    # Samples that do not count set no scale: flagged ones of 3000 beside a picture of 0 to 1.
    bad = r.random((h, w)) < 0.02
    for name, array in (("hot", np.where(bad, 3000, y)), ("weighed", np.where(bad, 0, 1 / sigma**2)), ("good", ~bad)):
        np.save(work / f"{name}.npy", array.astype("f4"))
    for more in (["problem.weights=weighed.npy"], ["problem.weights=null", "problem.operator={type: mask, file: good.npy}"]):
        out = said(text, "problem.measurements=hot.npy", *more, ranks=2)
        assert "full scale" not in out and np.sqrt(np.mean((image("out")[0] - truth) ** 2)) < sigma.mean(), (more, out)
    # Noise that differs over the picture without a map of it: the larger level, and where.
    np.save(work / "halves.npy", (truth + np.where(xx < 64, 0.02, 0.08) * r.standard_normal((h, w))).astype("f4"))
    out = said(text.replace(", weights: ivar.npy", ""), "problem.measurements=halves.npy", ranks=2)
    assert re.search(r"noise: gaussian 0.08\d*, estimated from the data where they have most noise", out), out
    assert "columns 64 and 127), and the larger one is taken" in out, out
    # A detector's flags: 1 is bad, 4 was corrected.
    bad, jump = r.random((h, w)) < 0.02, r.random((h, w)) < 0.05
    y[bad] = r.choice([-50.0, 200.0, 3000.0], bad.sum())
    np.save(work / "y.npy", y.astype("f4"))
    np.save(work / "dq.npy", (bad * 1 + jump * 4).astype(np.uint32))
    np.save(work / "bad.npy", bad)
    np.save(work / "good.npy", ~bad)
    for ranks in (1, 2):
        out = said(text, "problem.weights=dq.npy", ranks=ranks, expect=2)
        assert re.search(r"samples count with weights of 1, 4, 5, and lie scattered .*the weights \S*dq.npy say which samples are bad", out), out
    out = said(text, "problem.weights=bad.npy", "problem.noise.gaussian=0.02", expect=2)
    assert "quality flags" in out, out
    mask = "problem: {measurements: y.npy, operator: {type: mask, file: bad.npy}, noise: {gaussian: 0.02}}\n" + TV
    assert "the marks of the mask say which samples are bad" in said(mask, ranks=2, expect=2)
    said(text, "problem.weights=good.npy", "problem.noise.gaussian=0.02", "problem.scale.factor=1")
    assert np.abs(image("out")[0] - truth).max() < 0.3
    # Scratches whose values scatter, marked by 1; wider than they are, too. Codes of classes as weights.
    scene = truth + 0.02 * r.standard_normal((h, w))
    scratch = (np.abs(xx - 30 - yy // 3) < 2) | (np.abs(xx - 90 + yy // 4) < 2)
    for name, marks in (("scratch", scratch), ("wide", (np.abs(xx - 30 - yy // 3) < 4) | (np.abs(xx - 90 + yy // 4) < 4))):
        np.save(work / "y.npy", np.where(scratch, 0.95 + 0.02 * r.random((h, w)), scene).astype("f4"))
        np.save(work / "bad.npy", marks)
        assert "look like scratches or writing" in said(mask, ranks=2, expect=2), name
    cloud = np.hypot(yy - 40, xx - 50) < 20
    np.save(work / "y.npy", np.where(cloud, 0.95 + 0.02 * r.random((h, w)), scene).astype("f4"))
    for name, codes in (("two", 1 + cloud), ("qa", 21824 + 456 * cloud)):
        np.save(work / f"{name}.npy", codes.astype(np.uint16))
        assert "codes of classes or quality, it seems" in said(text, f"problem.weights={name}.npy", ranks=2, expect=2), name
    np.save(work / "less.npy", (2 - cloud).astype(np.uint16))
    out = said(text, "problem.weights=less.npy", ranks=2)
    assert re.search("warning: .*codes of classes .* count 0.5 times as much", out) and "these look like" not in out, out
    with h5py.File(work / "codes.h5", "w") as f:
        for name, meanings in (("codes", "clear cloud"), ("good", "cloud clear")):
            d = f.create_dataset(name, data=np.uint8(cloud == (name == "codes")))
            d.attrs["flag_values"], d.attrs["flag_meanings"] = np.uint8([0, 1]), meanings
    assert "holds codes, as its attributes say (flag_values 0 clear, 1 cloud" in said(text, "problem.weights=codes.h5:/codes", expect=2)
    said(text, "problem.weights=codes.h5:/good", "problem.noise.gaussian=0.02")
    # A tenth that is kept of a picture is no flag, nor a region of it.
    np.save(work / "y.npy", truth.astype("f4") + 0.02 * r.standard_normal((h, w)).astype("f4"))
    np.save(work / "bad.npy", r.random((h, w)) < 0.1)
    said(mask)
    np.save(work / "bad.npy", np.hypot(yy - 40, xx - 50) < 20)
    said(mask)


def pixels_of_another_size():
    """A kernel whose file states other pixels than the data's is resampled to these, on every axis; other files are compared."""
    def bead(size, sigma):
        g = [np.exp(-0.5 * ((np.arange(n) - n // 2) / s) ** 2) for n, s in zip(size, sigma)]
        return g[0][:, None, None] * g[1][:, None] * g[2]

    def write(name, array, *pixel, unit="um"):
        with h5py.File(work / f"{name}.h5", "w") as f:
            d = f.create_dataset("image", data=array.astype("f4"))
            d.attrs["unit"] = unit
            for k, size in enumerate(pixel):
                d.attrs[f"pixel_{k}"] = size

    r = np.random.default_rng(3)
    write("stack", 100 + r.random((1, 12, 24, 24)), 0.3, 0.1, 0.1)
    write("same", bead((9, 13, 13), (1.2, 1.5, 1.5))[None], 0.3, 0.1, 0.1)
    write("nano", bead((9, 13, 13), (1.2, 1.5, 1.5))[None], 300, 100, 100, unit="nm")
    write("slices", bead((15, 13, 13), (1.8, 1.5, 1.5))[None], 0.2, 0.1, 0.1)
    write("fine", bead((27, 25, 25), (3.6, 3, 3))[None], 0.1, 0.05, 0.05)
    write("coarse", bead((9, 7, 7), (1.2, 0.75, 0.75))[None], 0.3, 0.2, 0.2)
    text = "problem: {measurements: stack.h5, operator: {type: blur, kernel: {file: same.h5}, boundary: reflect}, noise: {gaussian: 0.1}}\n" + PASS
    found = {}
    for name in ("same", "nano", "slices", "fine", "coarse"):
        out = said(text, f"problem.operator.kernel.file={name}.h5", ranks=2 if name == "fine" else 1)
        found[name] = image("out")
        resampled = re.search(r"kernel \S*h5 has pixels of (\S+ x \S+ x \S+) um, the image of 0.3 x 0.1 x 0.1 um, .* resampled to (\d+ x \d+ x \d+) taps", out)
        assert bool(resampled) == (name in ("slices", "fine", "coarse")), out
        assert distance(found[name], found["same"]) < (1e-6 if name == "nano" else 0.01), (name, distance(found[name], found["same"]))
    # As Fiji says it, and as scales with units beside the axes do.
    with h5py.File(work / "others.h5", "w") as f:
        for name in ("sizes", "scaled"):
            d = f.create_dataset(name, data=bead((27, 25, 25), (3.6, 3, 3)))
            if name == "sizes":
                d.attrs["element_size_um"] = [0.1, 0.05, 0.05]
            for k, step in enumerate((100.0, 50.0, 50.0) if name == "scaled" else ()):
                scale = f.create_dataset("zyx"[k], data=step * np.arange(d.shape[k]) + 7)
                scale.attrs["units"] = "nm"
                scale.make_scale("zyx"[k])
                d.dims[k].attach_scale(scale)
        # A detector's frame, and another of one that says no unit.
        for group, unit in (("instrument/detector", "m"), ("instrument/other", "")):
            f[f"{group}/frame"] = bead((1, 25, 25), (1, 3, 3))[0]
            for size in ("x_pixel_size", "y_pixel_size"):
                f[f"{group}/{size}"] = [0.05e-6]
                f[f"{group}/{size}"].attrs["units"] = unit
            f[f"{group[11:]}/data"] = h5py.SoftLink(f"/{group}/frame")
    write("flat", 100 + r.random((24, 24)), 0.1, 0.1)
    for name, right in (("instrument/detector/frame", True), ("detector/data", True), ("other/data", False)):
        out = said(text, "problem.measurements=flat.h5", f"problem.operator.kernel.file=others.h5:/{name}")
        assert ("pixels of 5e-08 x 5e-08 m, the image of 0.1 x 0.1 um" in out) == right, (name, out)
    for name in ("sizes", "scaled"):
        out = said(text, f"problem.operator.kernel.file=others.h5:/{name}", ranks=2 if name == "scaled" else 1)
        assert "it is resampled to 9 x 13 x 13 taps" in out and distance(image("out"), found["fine"]) < 1e-5, out
    out = said(text, "problem.operator.kernel.file=slices.h5", "problem.image.pixel=[0.2, 0.1, 0.1]", "problem.image.unit=um")
    assert "resampled" not in out, "the job says what the image's pixels are"
    write("weights", np.ones((1, 12, 24, 24)), 0.2, 0.1, 0.1)
    out = said(text, "problem.weights=weights.h5:/image")
    assert "weights.h5:/image has pixels of 0.2 x 0.1 x 0.1 um, the measurement of 0.3 x 0.1 x 0.1 um" in out, out
    # An array of three axes is a stack, and no line says that it is channels.
    np.save(work / "stack.npy", bead((9, 7, 7), (1.2, 1, 1)))
    assert "channels" not in said(text, "problem.operator.kernel.file=stack.npy")
    write("plain", 100 + r.random((12, 24, 24)))
    out = said(text, "problem.measurements=plain.h5", expect=2)
    assert "(1, 12, 24, 24)" in out, out


def values_far_from_zero():
    """Differences of large numbers are kept: they are read, and written, less an offset that a line says."""
    yy, xx = np.mgrid[:64, :80]
    y = 50 * np.sin(xx / 9) + np.random.default_rng(3).normal(0, 5, xx.shape)
    text = "problem: {measurements: y.npy, noise: {gaussian: 5, unit: file}}\n" + PASS
    for base, kind in ((1e9, "f8"), (2**28, "u4"), (-1e9, "f8"), (2**40, "i8"), (1e5, "f4")):
        np.save(work / "y.npy", (np.rint(y) + base).astype(kind))
        out = said(text, ranks=2 if base == 1e9 else 1)
        far = base != 1e5
        assert ("lies far from 0" in out) == far, (base, out)
        assert np.abs(image("out")[0] - np.rint(y) - base).max() < (0.01 if far else 0.5), (base, kind)
    out = said(text, "problem.scale.offset=1e5", "problem.scale.factor=100")
    assert "outside of 99" not in out and np.abs(image("out")[0] - np.rint(y) - 1e5).max() < 0.01, out
    np.save(work / "y.npy", (np.rint(y) + 2**60).astype(np.float64).astype(np.uint64))
    assert "write it less 11529215" in said(text, expect=2)
    np.save(work / "y.npy", y + 1e9)
    assert "write 'offset: 99" in said(text, "problem.scale.factor=100")


def values_of_both_signs():
    """Hounsfield units, phases and decibels fill the range by their least and largest values, unless the job counts from 0."""
    r = np.random.default_rng(5)
    yy, xx = np.mgrid[:96, :112]
    away = np.hypot(yy - 48, xx - 56)
    head = np.where(away < 40, 40 + 60 * np.sin(xx / 9) * np.cos(yy / 7), -1000)
    text = "problem: {measurements: y.npy}\n" + TV
    line = "is taken for 0 and "
    kinds = {"head": (head + 25 * r.standard_normal(head.shape)).round().astype("i2"),
             "padded": np.where(away > 50, -2000, head + 25 * r.standard_normal(head.shape)).round().astype("i2"),
             "phase": (3 * np.sin(xx / 14) * np.cos(yy / 11) + 0.1 * r.standard_normal(head.shape)).astype("f4"),
             "decibels": (-30 + 20 * np.sin(xx / 14) + r.standard_normal(head.shape)).astype("f4")}
    for name, y in kinds.items():
        np.save(work / "y.npy", y)
        out = said(text, ranks=3 if name == "padded" else 1)
        assert line in out and "leaves the range" not in out and "of the image lies outside" not in out, (name, out)
        found = image("out")[0]
        said(text, ranks=2)
        assert distance(image("out")[0], found) < 1e-5
        # As the same numbers above 0.
        seen = y if name != "padded" else y[away <= 50]
        low, high = np.sort(seen.ravel())[[1, -2]].astype(float)
        said(text, f"problem.scale.offset={low}", f"problem.scale.factor={high - low}")
        assert np.abs(image("out")[0] - found)[away < 38].max() < 0.05 * (high - low), name
    np.save(work / "y.npy", kinds["phase"])
    for more in ("problem.noise.gaussian=0.03", "solver.bounds=[-1, 1]", "solver.sigma=0.05", "problem.scale.factor=3"):
        assert line not in said(text, more), more
    assert line in said(text, "problem.noise.gaussian=0.1", "problem.noise.unit=file")
    # A truth of both signs is simulated and found again.
    np.save(work / "truth.npy", head.astype("i2"))
    for ranks in (1, 2):
        said("problem: {truth: truth.npy, operator: {type: identity}, noise: {gaussian: 0.02}}\n" + TV, ranks=ranks)
        assert np.sqrt(np.mean((image("out")[0] - head) ** 2)) < 0.02 * 1100
    # A few wild samples are no second sign.
    wild = (0.5 + 0.3 * np.sin(xx / 9) * np.cos(yy / 7) + 0.02 * r.standard_normal(head.shape)).astype("f4")
    wild[r.random(head.shape) < 0.005] = -5 + 0.1 * r.random()
    wild[3, 4:9] = -6, -5.5, -4, -3, -2
    np.save(work / "y.npy", wild)
    assert line not in said(text)
    # A mark below numbers above 0, and numbers of 16 bits without a sign, are no second sign.
    np.save(work / "y.npy", np.where(away > 50, -9999, 300 + 50 * np.sin(xx / 9) + 2 * r.standard_normal(head.shape)).astype("f4"))
    assert line not in said(text)
    np.save(work / "y.npy", (32768 + 30000 * np.sin(xx / 9) * np.cos(yy / 7) + 99 * r.standard_normal(head.shape)).round().astype("u2").view("i2"))
    out = said(text)
    assert line not in out and "uint16 in a file of int16" in out, out
