# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of files that are not what they look like: masks, kernels, empty parts, counts, few bright samples."""
import re
import shutil

import h5py
import numpy as np
from PIL import Image

from harness import distance, image, job, pictures, run, tessera, work

TV = "denoiser: {network: tv, tv: {iterations: 30}}\n"
END = "output: {folder: out, preview: none}\n"


def said(text, *settings, ranks=1, expect=0):
    words = [word for setting in settings for word in ("--set", setting)]
    return "".join(run(job(text), "--force", *words, ranks=ranks, expect=expect))


def back_to(folder, iterations):
    """As if the run had been lost after so many iterations."""
    kept = work / folder / "checkpoint" / f"iteration-{iterations:07}.h5"
    assert kept.exists()
    for file in kept.parent.glob("*.h5"):
        if file != kept:
            file.unlink()


def rms(x, mask=slice(None)):
    return np.sqrt(np.mean(np.square(x[mask])))


def masks_are_marks():
    """A mask says 0 or not 0, whatever its type; a compressed one is told by its values, a gain is refused."""
    h, w = 128, 160
    yy, xx = np.mgrid[:h, :w]
    picture = (120 + 60 * np.sin(xx / 11) * np.cos(yy / 17) + 40 * (np.hypot(yy - 60, xx - 80) < 30)).clip(0, 255).astype(np.uint8)
    hole = (np.hypot(yy - 30, xx - 40) < 9) | (np.hypot(yy - 90, xx - 120) < 14) | (np.abs(yy - xx + 20) < 2)
    keep = ~hole
    pictures.imsave(work / "truth.png", picture)
    pictures.imsave(work / "photo.png", np.where(hole, 0, picture).astype(np.uint8))
    masks = {"bytes.npy": keep.astype(np.uint8), "words.npy": keep.astype(np.uint16), "wide.npy": keep * np.int64(65535),
             "bits.npy": keep, "white.npy": keep * np.float32(255), "minus.npy": -keep.astype(np.int16)}
    for name, array in masks.items():
        np.save(work / name, array)
    Image.fromarray((keep * 255).astype(np.uint8)).save(work / "mask.png")
    Image.fromarray(np.repeat((keep * 1)[..., None], 3, -1).astype(np.uint8)).save(work / "rgb.png")
    Image.fromarray(keep).save(work / "bit.png")
    Image.fromarray((keep * 255).astype(np.uint8)).save(work / "mask.jpg", quality=85)
    lossy = pictures.imread(work / "mask.jpg")
    assert (lossy[hole] > 0).sum() > 100 and ((lossy < 128) == hole).all(), "the fixture is a mask at half, and nowhere else"
    text = ("problem:\n  measurements: photo.png\n  truth: truth.png\n  operator: {type: mask, file: mask.png}\n"
            "  noise: {gaussian: 0.01}\n" + TV + "solver: {name: hqs, iterations: 12}\n" + END)
    out = said(text)
    best = image("out")
    assert f"note: {hole.sum()} of {h * w} samples are masked" in out and rms(best[0] - picture) < 6, out
    for name in (*masks, "rgb.png", "bit.png"):
        out = said(text, f"problem.operator.file={name}", ranks=2 if name == "bytes.npy" else 1)
        assert "note: mask" not in out and distance(image("out"), best) < 1e-6, (name, out)
    for ranks in (1, 2):
        out = said(text, "problem.operator.file=mask.jpg", ranks=ranks)
        assert re.search(r"note: mask \S+mask.jpg has values between 0 and 25\d .* from 12\d\S* on are taken for measured", out), out
        assert distance(image("out"), best) < 1e-6, "the compressed mask gives the same"
    # As weights, which then say nothing of the noise.
    plain = text.replace("{type: mask, file: mask.png}", "{type: identity}")
    out = said(plain, "problem.weights=mask.jpg", ranks=2)
    assert f"{hole.sum()} of {h * w} samples have weight 0" in out and "problem.weights has values between 0 and 25" in out, out
    # Gains, and marks the other way around.
    np.save(work / "gain.npy", 0.3 + 0.7 * np.hypot(yy, xx) / np.hypot(h, w))
    np.save(work / "missing.npy", hole)
    out = said(text, "problem.operator.file=gain.npy", ranks=2, expect=2)
    assert re.search(r"mask \S+gain.npy has many values from 0.3 to .* a sensitivity is problem.flat", out), out
    out = said(text, "problem.operator.file=missing.npy", ranks=2, expect=2)
    assert re.search(r"all samples that count have the value 0 while those that do not go from \d+ to \d+ \(the mask .* exchange", out), out
    # Simulated with a mask of 0 and 1 in 8 bits: the file has the marks, and gives the run that simulates on the fly.
    made = text.replace("  measurements: photo.png\n", "").replace("mask.png", "bytes.npy")
    said(made)
    fly = image("out")
    assert tessera("simulate", job(made, "made.yaml"), "y.h5", ranks=2)[0] == 0
    with h5py.File(work / "y.h5") as f:
        assert np.array_equal(f["masks/0"][...].squeeze(), keep.astype(np.float32))
    said("problem: {measurements: y.h5}\n" + TV + "solver: {name: hqs, iterations: 12}\n" + END)
    assert np.array_equal(image("out"), fly)


def kernels_are_looked_at():
    """A kernel with the camera's offset and other faults is said in run, check and simulate; a good one gives no line."""
    i = np.arange(21) - 10
    psf = np.exp(-(i[:, None] ** 2 + i[None] ** 2) / 8)
    noise = np.random.default_rng(4).normal(0, 5, psf.shape)
    for name, array in (("bead.npy", (psf * 2000 + 100 + noise).round().astype(np.uint16)), ("good.npy", psf * 2000 + noise),
                        ("nan.npy", np.where(i == 3, np.nan, psf)), ("zero.npy", psf * 0), ("even.npy", psf[:-1, :-1])):
        np.save(work / name, array)
    y = 1000 + 300 * np.random.default_rng(1).standard_normal((76, 92))
    np.save(work / "y.npy", y.astype(np.float32))
    text = ("problem:\n  measurements: y.npy\n  operator: {type: blur, kernel: {file: bead.npy}, boundary: valid}\n"
            + TV + "solver: {name: hqs, iterations: 2}\n" + END.replace("}", ", diagnostics: false}"))
    warning = r"warning: kernel \S*bead.npy stands on a pedestal: its rim is \d+\S* all around, its peak 2\d\d\d, and 4\d % of its sum"
    for ranks in (1, 2):
        out = said(text, ranks=ranks)
        assert len(re.findall(warning, out)) == 1, out
    code, out, _ = tessera("check", job(text))
    assert code == 0 and re.search(warning, out), out
    for name in ("good.npy", "even.npy"):
        out = said(text, f"problem.operator.kernel.file={name}")
        assert ": kernel" not in out, out
    for name, why in (("nan.npy", r"nan.npy has 21 of 441 taps that are not numbers"), ("zero.npy", r"zero.npy is 0 everywhere")):
        out = said(text, f"problem.operator.kernel.file={name}", ranks=2, expect=2)
        assert re.search(why, out) and "normalize" not in out, out
    made = text.replace("measurements: y.npy", "truth: y.npy\n  noise: {gaussian: 0.01}")
    code, out, err = tessera("simulate", job(made, "made.yaml"), "y.h5", ranks=2)
    assert code == 0 and re.search(warning, out), out + err
    # The kernel that only makes the data is looked at too.
    other = made.replace("bead.npy", "good.npy").replace("noise:", "simulate: {kernel: {file: bead.npy}}\n  noise:")
    assert re.search(warning, said(other)), "of problem.simulate.kernel"
    # Of a bent kernel the picture tells whether it is turned by half a turn, mirrored or transposed; it is not asked of one that is symmetric.
    bent = np.zeros((13, 13))
    for s in np.linspace(0, 1, 200):
        bent[int(6 + 5 * np.sin(2.6 * s - 1.9)), int(1.5 + 9 * s)] += 1 - 0.7 * s
    spread = np.exp(-0.7 * (np.arange(-3, 4)[:, None] ** 2 + np.arange(-3, 4) ** 2))
    bent = sum(w * np.roll(np.roll(bent, r - 3, 0), c - 3, 1) for (r, c), w in np.ndenumerate(spread))
    r = np.random.default_rng(2)
    scene = sum(v * ((np.abs(np.arange(172)[:, None] - y0) < a) & (np.abs(np.arange(172) - x0) < b))
                for y0, x0, a, b, v in zip(*r.integers(6, 166, (2, 60)), *r.integers(3, 20, (2, 60)), r.normal(0, 0.2, 60)))
    blurred = np.fft.irfft2(np.fft.rfft2(scene) * np.fft.rfft2(bent / bent.sum(), scene.shape), scene.shape)[12:, 12:]
    np.save(work / "shaken.npy", (0.5 + blurred + r.normal(0, 0.01, blurred.shape)).astype(np.float32))
    for name, kernel, remedy in (("bent", bent, ""), ("turned", bent[::-1, ::-1], "numpy.flip(kernel)"), ("rows", bent[::-1], "numpy.flip(kernel, -2)"),
                                 ("columns", bent[:, ::-1], "numpy.flip(kernel, -1)"), ("transposed", bent.T, "numpy.swapaxes(kernel, -1, -2)")):
        np.save(work / f"{name}.npy", kernel)
        out = said(text, "problem.measurements=shaken.npy", f"problem.operator.kernel.file={name}.npy", ranks=1 if name == "columns" else 2)
        assert f"write it as {remedy}," in out if remedy else "the kernel looks" not in out, (name, out)
    # Kernels of single channels in another order than the channels are said by what each channel has and has not.
    step = np.arange(-8, 9)
    spots = np.array([np.exp(-(step[:, None] ** 2 + step**2) / (2 * s * s)) for s in (0.9, 1.6, 2.4)])
    spots /= spots.sum((1, 2), keepdims=True)
    color = np.array([np.fft.irfft2(np.fft.rfft2(scene) * np.fft.rfft2(k, scene.shape), scene.shape)[16:, 16:] for k in spots])
    np.save(work / "color.npy", (0.5 + color + r.normal(0, 0.01, color.shape)).astype(np.float32))
    for name, order, ranks in (("rgb", [0, 1, 2], 2), ("bgr", [2, 1, 0], 2), ("grb", [1, 0, 2], 1)):
        np.save(work / f"{name}.npy", spots[order])
        out = said(text, "problem.measurements=color.npy", f"problem.operator.kernel.file={name}.npy", ranks=ranks)
        assert ("look exchanged" in out) == (name != "rgb"), (name, out)
    volume = text.replace("y.npy", "v.npy")
    np.save(work / "v.npy", np.ones((1, 8, 16, 16), np.float32))
    assert re.search(warning, said(volume, "problem.noise.gaussian=0.1", "solver.iterations=1")), "slice by slice"


def empty_parts():
    """What a mosaic was filled with is no noise and no sky; images without neighbors say what to write."""
    h, w = 160, 200
    r = np.random.default_rng(7)
    yy, xx = np.mgrid[:h, :w]
    y = 200 * np.exp(-((yy - 90) ** 2 + (xx - 120) ** 2) / 20) + r.normal(0, 2, (h, w))
    gaps = (np.abs(xx - 100) < 8) | (np.abs(yy - 70) < 6) | (np.abs(xx - yy - 60) < 4)
    text = "problem: {measurements: y.npy}\n" + TV + "solver: {name: hqs, iterations: 2}\n" + END

    def noise(array, *settings, ranks=1):
        np.save(work / "y.npy", array)
        out = said(text, *settings, ranks=ranks)
        return float(re.search(r"note: noise: gaussian \S+ \((\S+) in file units\)", out).group(1)), out

    for name, empty in (("gaps", gaps), ("corner", (yy < 60) & (xx < 90)), ("most", yy < 110)):
        for fill in (0, -3e4):
            found, out = noise(np.where(empty, fill, y).astype(np.float32), "problem.scale.factor=200", ranks=1 + (name == "gaps"))
            assert abs(found - 2) < 0.1, (name, fill, found)
            looks = rf"has \d+ samples .* of exactly {fill} side by side, without noise .* give them weight 0" if fill == 0 else \
                r"samples are exactly -30000, side by side and far below all others .* an empty part, which counts 0"
            assert len(re.findall(looks, out)) == 1, out
    # A drawing's ground is none.
    np.save(work / "y.npy", (np.hypot(yy - 80, xx - 100) < 40) | (yy > 130))
    assert "empty part" not in said(text, "problem.noise.gaussian=0.1")
    # Nor is where no photon came.
    for level, dark in ((0.3, 0.02), (1.5, 0.05), (5, 0.1)):
        np.save(work / "y.npy", r.poisson(np.where(xx > 120, dark, level)).astype(np.uint16))
        out = said(text)
        assert "empty part" not in out and "poisson gain" in out, (level, out)
    # Dots without a value count 0, few of them are said, and black in a picture is black.
    depth = 3000 + 900 * np.sin(xx / 21) * np.cos(yy / 17) + r.normal(0, 20, (h, w))
    dots = r.random((h, w)) < 0.1
    for name, array, ranks in (("dots", np.where(dots, 0, depth), 3), ("few", np.where(dots & (xx < 9) & (yy < 25), 0, depth), 1), ("black", (depth - 2100).clip(0), 1)):
        np.save(work / "y.npy", array.round().astype(np.uint16))
        out = said(text, ranks=ranks)
        assert (f"note: {dots.sum()} of {h * w} samples are exactly 0, far below all others" in out) == (name == "dots") and ("count 0; weights" in out) == (name == "dots"), out
        assert ("look dead or clipped" in out) == (name == "few"), out
        assert name != "dots" or np.abs(image("out")[0] - depth)[dots].mean() < 60, out
    # 8 bits with little noise repeat themselves, and are no empty parts.
    found, out = noise((100 + 20 * np.sin(xx / 40) + r.normal(0, 0.8, (h, w))).round().astype(np.uint8))
    assert 0.75 < found < 0.95 and "side by side" not in out, out
    for array, why in ((np.full((40, 50), 7, np.float32), "have one value"), (np.ones((1, 1), np.float32), "one sample counts"),
                       (np.repeat(np.repeat(y, 2, 0), 2, 1), "enlarged by repeating its pixels")):
        np.save(work / "y.npy", array)
        out = said(text, "problem.scale.factor=200", ranks=2, expect=2)
        assert why in out and "'noise: {gaussian: 0.01}'" in out, out
    for shape in ((1, 256), (256, 1)):
        noise(y.ravel()[:256].reshape(shape), "problem.scale.factor=200", ranks=2)


def parts_that_no_blur_made():
    """Bars, marks, a dark outside and corners beside a blurred picture count 0, and its noise is that of the picture."""
    r = np.random.default_rng(11)
    i = np.arange(13) - 6
    k = np.exp(-(i[:, None] ** 2 + i**2) / 2 / 1.6**2)
    k /= k.sum()
    np.save(work / "k.npy", k)
    x = pictures.photograph("camera.png")[80:232, 150:302].astype(float)
    n = x.shape[0] - 12
    y = sum(k[a, b] * x[a : a + n, b : b + n] for a in range(13) for b in range(13)) * 0.8 + 20 + r.normal(0, 2, (n, n))
    yy, xx = np.mgrid[:n, :n]
    text = "problem: {measurements: y.png, operator: {type: blur, kernel: {file: k.npy}}, scale: {curve: none}}\n" + TV + \
        "solver: {name: hqs, iterations: 1}\n" + END

    def look(picture, *settings, ranks=1):
        Image.fromarray(picture.round().clip(0, 255).astype(np.uint8)).save(work / "y.png")
        out = said(text, *settings, ranks=ranks)
        found = re.search(r"note: (\d+) of \d+ samples are not of the blurred picture: (.*?)[.] Their", out)
        level = re.search(r"note: noise: gaussian \S+ \((\S+) in file units\)", out)
        return (int(found[1]), found[2]) if found else None, float(level[1]) if level else None, out

    bars = np.pad(y, ((11, 17), (0, 0)))
    marked = y.copy()
    marked[100:104, 80:120] = marked[10:22, 12:14] = marked[10:22, 18:20] = 255
    turned = np.where(xx + yy < 60, 255, y)
    outside = np.where(np.hypot(yy - 70, xx - 70) > 66, 4 + r.normal(0, 1.5, y.shape), y)
    for picture, wanted, words, ranks in ((bars, 28 * n, "rows 0 to 10 at 0, rows 151 to 167 at 0", 2),
                                          (marked, 42 * 6 + 2 * 14 * 4, "marks burnt in at 255", 1), (turned, 60 * 61 / 2, "corners or an outside at 255", 1),
                                          (outside, (np.hypot(yy - 70, xx - 70) > 66).sum(), "corners or an outside at 4", 2)):
        found, level, out = look(picture, ranks=ranks)
        assert found and abs(found[0] - wanted) <= 0.08 * wanted + 20 and found[1] == words and 1.8 < level < 2.2, (words, found, level, out)
    # Weights decide otherwise; blurred lamps, black scenes and pictures without any of it are as they were.
    Image.fromarray(np.ones(bars.shape, np.uint8)).save(work / "w.png")
    assert look(bars, "problem.weights=w.png")[0] is None
    sky = np.full_like(x, 2.0)
    for row, column, light in ((40, 50, 4e4), (90, 100, 2e5), (60, 120, 3e3)):
        sky[row : row + 3, column : column + 3] = light
    dark = np.where(np.arange(x.shape[0])[:, None] < 60, 0, x)
    for scene in (x, sky, dark):
        seen = sum(k[a, b] * scene[a : a + n, b : b + n] for a in range(13) for b in range(13)) + r.normal(0, 2, (n, n))
        found, _, out = look(seen)
        assert found is None, out


def counts_and_stars():
    """Under a Poisson likelihood zeros are data; few bright samples far above the noise are said where that is so."""
    h, w, n = 96, 112, 9
    t = np.zeros((h, w))
    t[20:40, 30:60], t[60:64], t[80, 90] = 8, 20, 200
    i = np.arange(n) - n // 2
    k = np.exp(-(i[:, None] ** 2 + i[None] ** 2) / 2 / 1.3 ** 2)
    k /= k.sum()
    kernel = np.zeros((h, w))
    kernel[:n, :n] = k
    mean = np.fft.irfft2(np.fft.rfft2(t) * np.fft.rfft2(np.roll(kernel, (-(n // 2),) * 2, (0, 1))), t.shape).clip(0)
    counts = np.random.default_rng(4).poisson(mean)
    assert (counts == 0).mean() > 0.8
    np.save(work / "k.npy", k)
    text = ("problem:\n  measurements: counts.npy\n  scale: {factor: 20}\n  noise: {poisson: 1, unit: file}\n"
            "  likelihood: {type: poisson}\n  operator: {type: blur, kernel: {file: k.npy}, boundary: circular}\n"
            "denoiser: {network: tv, tv: {weight: 0.05}}\nsolver: {name: admm, iterations: 60, bounds: nonnegative}\n" + END)
    for kind in (np.uint16, np.float32):
        np.save(work / "counts.npy", counts.astype(kind))
        out = said(text, ranks=1 + (kind == np.uint16))
        assert "smallest value" not in out and "give dead ones" not in out and abs(image("out").sum() - counts.sum()) < 0.04 * counts.sum(), out
    # Counts that a background was subtracted from.
    np.save(work / "counts.npy", (np.random.default_rng(5).poisson(mean + 3) - 3).astype(np.float32))
    out = said(text, ranks=2)
    assert "subtract the background" not in out and "as likelihood.background" in out, out
    # Richardson and Lucy's iteration beside numpy's, on any ranks: sky and counts as they are, 0 at half of the samples.
    np.save(work / "counts.npy", counts.astype(np.float32))
    lucy = ("problem:\n  measurements: counts.npy\n  scale: {factor: 20}\n  noise: {poisson: 1, unit: file}\n"
            "  likelihood: {background: 0.5}\n  operator: {type: blur, kernel: {file: k.npy}, boundary: circular}\n"
            "solver: {name: richardson_lucy, iterations: 30}\n" + END)
    spectrum = np.fft.rfft2(np.roll(kernel, (-(n // 2),) * 2, (0, 1)))
    A = lambda x: np.fft.irfft2(np.fft.rfft2(x) * spectrum, x.shape)
    back = lambda x: np.fft.irfft2(np.fft.rfft2(x) * spectrum.conj(), x.shape)
    shifted, b = counts + 20 * 0.5, 20 * 0.5  # background: in internal units

    def iterated(start, c):
        x = np.maximum(back(start), 1e-3 * rms(back(start)))
        for _ in range(30):
            x = x * back(c / (A(x) + b))
        return x

    x = iterated(counts, shifted)
    for ranks in (1, 2, 3, 5):
        out = said(lucy, ranks=ranks)
        assert distance(image("out")[0], x) < 2e-5 and image("out").min() >= 0, (ranks, distance(image("out")[0], x))
        assert "solver richardson_lucy, 30 iterations, denoiser none" in out, out
    # Beyond the rim of the data pixels that next to nothing sees stay calm.
    far = np.arange(-8, 9) ** 2
    np.save(work / "wide.npy", np.exp(-np.add.outer(far, far) / 4.5).astype(np.float32))
    said(lucy.replace("k.npy", "wide.npy").replace("circular", "valid"), "output.crop=false", ranks=2)
    assert image("out").shape[1] == counts.shape[0] + 16 and image("out").max() < t.max(), image("out").max()
    for more, why in (("denoiser.network=tv", "has no denoising step"), ("problem.likelihood.type=gaussian", "is for counts"),
                      ("solver.step=0.5", "acts on nothing")):
        assert why in said(lucy, more, expect=2), more
    # A few samples below zero are noise around a camera's offset.
    few = np.where(np.add.outer(np.arange(counts.shape[0]), np.arange(counts.shape[1])) % 50 == 0, -11.0, counts)
    np.save(work / "counts.npy", few.astype(np.float32))
    out = said(lucy, ranks=2)
    assert f"note: {(few < 0).sum()} samples lie below zero, as noise around an offset does, and count as zero" in out, out
    assert distance(image("out")[0], iterated(few, np.maximum(few + b, 0))) < 1e-4, out
    np.save(work / "counts.npy", (counts - 12).astype(np.float32))
    out = said(lucy, ranks=2, expect=2)
    assert re.search(r"\d+ samples lie below zero .* take 'solver: {name: admm}', or write .*likelihood.background", out), out
    # Stars of 3,000,000 counts on a sky of 100: white is 1e5, the noise 1e-4 of it.
    h, w = 128, 144
    yy, xx = np.mgrid[:h, :w]
    r = np.random.default_rng(11)
    sky = np.full((h, w), 100.0)
    for m in range(13):
        cy, cx, f = r.uniform(16, h - 16), r.uniform(16, w - 16), 300 * 10 ** (m / 3)
        sky += f * np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 2 / 1.8 ** 2) / (2 * np.pi * 1.8 ** 2)
    np.save(work / "stars.npy", (r.poisson(sky) + r.normal(0, 3, sky.shape)).astype(np.float32))
    stars = ("problem: {measurements: stars.npy, operator: {type: blur, kernel: {gaussian: {sigma: 1.2}}}}\n"
             "solver: {name: hqs, iterations: 1}\n" + END)
    note = r"warning: the measurement has few bright samples far above its noise: .* 'name: richardson_lucy, iterations: 100' in solver"
    assert re.search(note, said(stars, "denoiser.network=drunet", ranks=2)), "a network that the job names"
    # Counts of stars are richardson_lucy's: its image holds what was drawn.
    drawn = stars.replace("solver: {name: hqs, iterations: 1}\n", "")
    for ranks in (1, 2):
        out = said(drawn, ranks=ranks)
        assert "note: solver richardson_lucy, 100 iterations: " in out and "solver richardson_lucy, 100 iterations, denoiser none" in out, out
        if ranks == 2:
            assert distance(image("out"), lucy) < 1e-4
        lucy = image("out")
    assert lucy.min() >= 0 and abs(lucy.sum() / sky.sum() - 1) < 0.02, lucy.sum() / sky.sum()
    # So are those on a dark sky, whose zeros no camera cut off.
    dark = (sky - 100) / 300
    np.save(work / "stars.npy", r.poisson(dark).astype(np.uint16))
    out = said(drawn)
    assert "note: solver richardson_lucy, 100 iterations: " in out and "clipped" not in out and abs(image("out").sum() / dark.sum() - 1) < 0.03, out
    np.save(work / "stars.npy", (r.poisson(sky) + r.normal(0, 3, sky.shape)).astype(np.float32))
    # With iterations that the job says, a network that nobody named gives way to total variation, the same on any ranks,
    # and a resumed run does not choose anew.
    line = r"note: denoiser tv: \S+ % of the samples lie above an eighth of the brightest"
    shortest = drawn
    for ranks in (1, 3):
        out = said(shortest, "solver.iterations=60", ranks=ranks)
        assert len(re.findall(line, out)) == 1 and "solver admm, 60 iterations, denoiser tv" in out, out
        assert not re.search(note, out)
        result = image("out")[0]
        assert rms(result - sky, sky < 101) < 4 and result.min() > 80, (rms(result - sky, sky < 101), result.min())
        if ranks == 3:
            assert distance(result, first) < 1e-5
        first = result
    assert re.search(r"network: tv", (work / "out" / "resolved.yaml").read_text())
    said(shortest, "solver.iterations=8", "output.folder=straight")
    said(shortest, "solver.iterations=8", "output.folder=half", "output.checkpoint.iterations=4", "output.checkpoint.keep=9")
    back_to("half", 4)
    shutil.copytree(work / "half", work / "again")
    run(job(shortest), "--resume", "--set", "solver.iterations=8", "--set", "output.folder=half")
    run("again", "--resume")
    for folder in ("half", "again"):
        assert np.array_equal(image(folder), image("straight")), folder
    assert "few bright" not in said(stars, "denoiser.network=tv"), "total variation"
    # A gain that is not known is asked for.
    assert "write 'noise: {poisson: GAIN, unit: file}'" in said(drawn, "problem.noise={gaussian: 12, unit: file}", ranks=2)
    photo = pictures.photograph("camera.png")[60:188, 150:294] / np.float32(255)
    np.save(work / "stars.npy", photo)
    assert "few bright" not in said(stars, "problem.noise.gaussian=1e-4"), "a photograph without noise"


def compressed_and_few():
    """Noise whose finest details JPEG took, and whole counts most of which are 0: both are found from the data."""
    photo = pictures.photograph("camera.png")[100:356, 100:356] / 255.0
    i = np.arange(9) - 4
    k = np.exp(-(i[:, None] ** 2 + i[None] ** 2) / 2)
    k /= k.sum()
    np.save(work / "k.npy", k)
    blurred = sum(k[a, b] * photo[a : a + 248, b : b + 248] for a in range(9) for b in range(9))
    y = blurred + np.random.default_rng(3).normal(0, 0.01, blurred.shape)
    bytes_ = np.rint(255 * y.clip(0, 1)).astype(np.uint8)
    text = "problem: {measurements: y.png, truth: truth.npy, operator: {type: blur, kernel: {file: k.npy}}}\n" + END
    np.save(work / "truth.npy", (255 * photo).astype(np.float32))

    def found(out):
        return float(re.search(r"note: noise: gaussian ([0-9.e-]+)", out)[1])

    quality = lambda: -10 * np.log10(np.mean((image("out")[0, 16:-16, 16:-16] / 255 - photo[16:-16, 16:-16]) ** 2))
    Image.fromarray(bytes_).save(work / "y.png")
    out = said(text)
    plain = quality()
    assert abs(found(out) - 0.01) < 0.001 and "JPEG" not in out, out
    start = -10 * np.log10(np.mean((y[12:-12, 12:-12] - photo[16:-16, 16:-16]) ** 2))
    assert plain > start + 4, (plain, start)
    for percent in (75, 85, 95):
        Image.fromarray(bytes_).save(work / "y.jpg", quality=percent)
        out = said(text, "problem.measurements=y.jpg", ranks=1 + (percent == 85))
        assert 0.007 < found(out) < 0.013 and "JPEG has taken the finest details" in out, (percent, out)
        assert quality() > start + 1.5, (percent, quality(), start)
    assert "chi2 is" not in said(text, "problem.measurements=y.jpg", "problem.noise.gaussian=0.02", "output.diagnostics=true"), "JPEG took the noise"
    Image.fromarray(bytes_).save(work / "y.jpg", quality=100, subsampling=0)
    out = said(text, "problem.measurements=y.jpg")
    assert abs(found(out) - 0.01) < 0.001 and "JPEG has taken" not in out, out
    # Photons: 5, 20 and 1,000 at white, most samples of a dark picture are 0. Stated or found, with either likelihood.
    dark = (0.02 + 0.98 * photo**3)
    mean = sum(k[a, b] * dark[a : a + 248, b : b + 248] for a in range(9) for b in range(9)).clip(0)
    for white in (5, 20, 1000):
        counts = np.random.default_rng(white).poisson(mean * white)
        np.save(work / "counts.npy", counts.astype(np.uint16))
        few = (f"problem:\n  measurements: counts.npy\n  scale: {{factor: {white}}}\n"
               "  operator: {type: blur, kernel: {file: k.npy}}\n" + END)

        def error():
            return np.sqrt(np.mean((image("out")[0, 8:-8, 8:-8] / white - dark[12:-12, 12:-12]) ** 2))

        out = said(few, ranks=2 if white == 20 else 1)
        unstated = error()
        if white < 1000:
            assert re.search(r"note: noise: poisson gain \S+ \(1 in file units\).*whole counts that scatter as photons do", out), out
        said(few, "problem.noise={poisson: 1, unit: file}")
        stated = error()
        said(few, "problem.noise={poisson: 1, unit: file}", "problem.likelihood.type=poisson")
        poisson = error()
        noise = np.sqrt(np.mean((counts[8:-8, 8:-8] / white - dark[12:-12, 12:-12]) ** 2))
        assert stated < 1.03 * unstated and poisson < 1.1 * stated and stated < 0.6 * noise, (white, noise, unstated, stated, poisson)
    # One that was a JPEG before it became a PNG is told by its finest details.
    Image.fromarray(bytes_).save(work / "y.jpg", quality=85)
    Image.open(work / "y.jpg").save(work / "y.png")
    out = said(text, ranks=2)
    level = re.search(r"noise: gaussian ([0-9.]+).*scatter more than finer ones", out)
    assert level and 0.005 < float(level[1]) < 0.04, out
    # A photograph whose ends do not meet, said to be circular, and one whose ends do.
    Image.fromarray(bytes_).save(work / "y.png")
    circle = "problem: {measurements: y.png, operator: {type: blur, kernel: {file: k.npy}, boundary: circular}}\nsolver: {iterations: 1}\n" + END
    for ranks in (1, 3):
        assert re.search(r"warning: the first and the last \w+ of the measurement do not meet: .* as good as 'boundary: valid'", said(circle, ranks=ranks))
    ring = np.fft.irfft2(np.fft.rfft2(photo) * np.fft.rfft2(np.pad(k, ((0, 247), (0, 247)))), photo.shape)
    Image.fromarray(np.rint(255 * (ring + np.random.default_rng(4).normal(0, 0.01, ring.shape)).clip(0, 1)).astype(np.uint8)).save(work / "y.png")
    assert "do not meet" not in said(circle, ranks=3)
