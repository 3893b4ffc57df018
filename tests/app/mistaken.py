# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of inputs that look right and are not: what is said of them, and that nothing is said of good ones."""
import re

import h5py
from harness import distance, image, job, np, tessera, work
from scans import counts, dxchange, said_by, scan, sinogram
from senses import said

END = "denoiser: {network: tv, tv: {iterations: 20}}\nsolver: {name: hqs, iterations: 4}\noutput: {folder: out, preview: none, diagnostics: false}\n"


def scans_mistaken():
    """Line integrals that are not linear, no darks, columns of another response, both ends of the turn, a slow creep, exchanged bytes."""
    theta, y = sinogram(90, 1, 96, 0)
    views, flats, darks = counts(y)
    odd = [f"warning: {text}" for text in ("views of one object", "there are no darks", "columns of the detector", "90 views are taken", "the views' centers", "the object moves", "views stand aside")]
    hard = -np.log((np.exp(-2.2 * y) + np.exp(-0.8 * y)) / 2)
    light = np.random.default_rng(2).poisson(1600 * np.ones((4, 1, 96)))
    some = np.where(np.random.default_rng(3).random(96) < 0.15, 1.15, 1)
    shakes = np.random.default_rng(6).normal(0, 0.8, 90)
    creep = 4 * np.exp(-np.arange(90) / 15)
    columns = np.arange(96)
    moved, shaken = (np.array([[np.interp(columns - m, columns, v[0])] for m, v in zip(by, y)]) for by in (creep, shakes))
    for name, file, words in (("good", (views, flats, darks), None), ("hard", counts(hard), r"less where .*the beam hardens"),
                              ("lit", (views, flats, (light + 100).astype(np.uint16)), "more where .*the darks are too bright"),
                              ("some", counts(y * some), r"columns of the detector .* not in proportion"), ("creeps", counts(moved), "centers of mass are up to"), ("shakes", counts(shaken), "views stand aside each by itself")):
        dxchange(f"{name}.h5", *file, theta)
        out = said_by("check", scan(f"{name}.h5"), f"(warning|note): .*{words}" if words else "scan ")
        assert words or not any(text in out for text in odd), out
    few = np.random.default_rng(7)  # noise makes masses and sums of squares larger together
    dim = few.poisson(400 * np.exp(-0.2 * y[:1].repeat(90, 0))), few.poisson(400 * np.ones((8, 1, 96))), np.zeros((4, 1, 96))
    dxchange("dim.h5", *(frames.astype(np.uint16) for frames in dim), theta)
    assert "views of one object" not in said_by("check", scan("dim.h5"), "scan ")
    dxchange("none.h5", views + np.uint16(900), flats + np.uint16(900), darks, theta)
    with h5py.File(work / "none.h5", "a") as f:
        del f["exchange/data_dark"]
    said_by("check", scan("none.h5"), r"warning: there are no darks, .* \d+ % too small")
    np.save(work / "s.npy", y[:, 0].astype(np.float32))
    for more, words in (("count: 90", None), ("count: 91", r"warning: 91 views .* write 'last: 182'"), ("count: 91, last: 180", None)):
        np.save(work / "s.npy", y[np.arange(91 if "91" in more else 90) % 90, 0].astype(np.float32))
        out = said_by("check", scan("s.npy", f"values: line_integrals, views: {{{more}}}"), words or "scan ")
        assert words or "views are taken" not in out, out
    for name, beam in (("share", 1), ("percent", 100), ("monitor", 7)):
        np.save(work / "s.npy", (beam * np.exp(-y[:, 0])).astype(np.float32))
        out = said_by("check", scan("s.npy", "values: transmission, views: {count: 90}"),
                      "scan " if beam == 1 else f"warning: a ray beside the object has {beam} in .*{'are percent' if beam == 100 else 'not divided out'}")
        assert beam > 1 or "a ray beside" not in out, out
    dxchange("bytes.h5", views.byteswap(), flats, darks, theta)
    for command in ("check", "run"):
        said_by(command, scan("bytes.h5"), "bytes.h5:/exchange/data looks as if the two bytes of each number were exchanged", 2)


def samples_mistaken():
    """Full counters, exchanged bytes, speckle, weights of each sample itself."""
    r = np.random.default_rng(1)
    yy, xx = np.mgrid[:96, :128]
    truth = 0.5 + 0.3 * np.sin(xx / 9) * np.cos(yy / 7) + 0.15 * (np.hypot(yy - 50, xx - 60) < 20)
    text = "problem: {measurements: y.npy}\n" + END
    full = r.random(truth.shape) < 0.001
    assert 5 < full.sum() < 30
    for bits, kind in ((20, "i4"), (12, "u2"), (24, "f4"), (18, "u4")):
        np.save(work / "y.npy", np.where(full, 2**bits - 1, r.poisson(60 * truth)).astype(kind))
        out = said(text, ranks=2 if bits == 20 else 1)
        assert f"{full.sum()} of {full.size} samples have {2**bits - 1}, far above all others, which marks masked pixels or a full counter" in out, out
        assert np.abs(image("out")[0] - 60 * truth).max() < 60, bits
    noisy = (3000 * truth + r.normal(0, 15, truth.shape)).round()
    for name, array, right in (("u2", noisy.astype("u2"), True), ("i2", (noisy - 1500).astype("i2"), True), ("noise", r.integers(0, 65536, truth.shape).astype("u2"), True),
                               ("u2", noisy.astype("u2").byteswap(), False), ("i2", (noisy - 1500).astype("i2").byteswap(), False)):
        np.save(work / "y.npy", array)
        code, out, err = tessera("run", job(text), "--force", "--set", "solver.iterations=1", ranks=2 if name == "u2" else 1)
        assert code == (0 if right else 2) and ("bytes of each number were exchanged" in err) == (not right), (name, right, out, err)
        assert right or re.search("write a.byteswap", err)
    # Speckle, also above an offset; the noise of photons is none.
    large = 0.2 + 0.8 * (np.hypot(yy - 50, xx - 60) < 30) + 0.6 * (xx > 90)
    for name, array, ranks in (("speckle", large * r.gamma(8, 1 / 8, large.shape), 2), ("photons", r.poisson(200 * large) / 200, 1)):
        np.save(work / "y.npy", array.astype("f4"))
        out = said(text, ranks=ranks)
        assert ("warning: the noise grows in proportion to the signal, 0.3" in out) == (name == "speckle"), (name, out)
        assert name == "photons" or np.sqrt(np.mean((image("out")[0] - large) ** 2)) < 0.6 * np.std(array - large)
    # 1 / max(counts, 1), and of what is counted on average.
    few = r.poisson(8 * truth)
    np.save(work / "y.npy", few.astype("f4"))
    for name, weights in (("own", 1 / np.maximum(few, 1)), ("mean", 1 / (8 * truth))):
        np.save(work / "w.npy", weights.astype("f4"))
        out = said(text.replace("y.npy", "y.npy, weights: w.npy"), ranks=2 if name == "own" else 1)
        assert ("warning: the weights are a function of each sample itself" in out) == (name == "own"), out
    # Numbers beyond the largest of their type begin again at 0; limited ones do not, nor does a drawing of two values.
    bright = 1.25 * truth + 0.01 * r.standard_normal(truth.shape)
    for kind, top in (("u1", 255), ("u2", 65535)):
        for name, array, wrong in (("wrapped", np.rint(top * bright).astype(int), True), ("limited", np.rint(top * bright.clip(0, 1)), False),
                                   ("drawn", top * (truth > 0.5), False)):
            np.save(work / "y.npy", array.astype(kind))
            out = said(text.replace("y.npy", "y.npy, noise: {gaussian: 0.01}"), ranks=2 if kind == "u1" else 1)
            assert ("beyond its largest begin again at its smallest" in out) == wrong, (kind, name, out)
    # Salt and pepper count 0; what a camera's range cuts off are bounds, wherever it lies.
    dots = r.random(truth.shape)
    for name, array, ranks in (("dots", np.where(dots < 0.02, 0, np.where(dots > 0.98, 1, truth + 0.03 * r.standard_normal(truth.shape))), 2),
                               ("cut", 2 * truth - 0.5 + 0.03 * r.standard_normal(truth.shape), 1), ("even", r.random(truth.shape), 1),
                               ("lines", r.random(len(truth))[:, None] * 1.2 - 0.1 + 0.02 * r.standard_normal(truth.shape), 1)):
        np.save(work / "y.npy", np.rint(255 * array.clip(0, 1)).astype("u1"))
        out = said(text, ranks=ranks)
        assert ("note: impulses: " in out) == (name == "dots") and (name in ("even", "lines") or ("note: clipped: " in out) == (name == "cut")), (name, out)
        assert name != "dots" or np.sqrt(np.mean((image("out")[0] / 255 - truth) ** 2)) < 0.02
    # A bit that is stuck; steps of 8 have lower ones that are all 0.
    for name, array, ranks in (("always", noisy.astype(int) | 128, 2), ("never", noisy.astype(int) & ~256, 1), ("whole", noisy.astype(int), 1), ("steps", noisy.astype(int) & ~7, 1)):
        np.save(work / "y.npy", array.astype(np.uint16))
        told = re.search(r"warning: bit (\d+) of the measurement is ([01]) in all samples", said(text, ranks=ranks))
        assert (told and told.groups()) == {"always": ("7", "1"), "never": ("8", "0")}.get(name), name
    # Rows that are the means of those beside them.
    for name, kind, ranks in (("fields", "f4", 2), ("fields", "u2", 1), ("all", "f4", 1)):
        stretched = noisy.copy()
        if name == "fields":
            stretched[1:-1:2] = (noisy[:-2:2] + noisy[2::2]) / 2
        np.save(work / "y.npy", stretched.astype(kind))
        out = said(text, ranks=ranks)
        assert ("rows 1, 3, ... of the measurement are the means of those above and below" in out) == (name == "fields"), (name, kind, out)
    # Half of the samples below 0, where noise is said in parts of white: what is written is what helps.
    np.save(work / "y.npy", (noisy - 1500).astype("f4"))
    text = text.replace("y.npy", "y.npy, noise: {gaussian: 0.01}")
    advice = re.search(r"leaves the range: .* write '(offset: -[\d.]+, factor: [\d.]+)' in problem.scale", said(text, ranks=2))
    assert advice and "leaves the range" not in said(text.replace("y.npy", f"y.npy, scale: {{{advice[1]}}}"))


def samples_no_blur_made():
    """Behind a blur: tracks of cosmic rays count 0 while stars stay; a full well is named where it spoils the result."""
    r = np.random.default_rng(2)
    g = np.arange(-8, 9)
    k = np.exp(-(g[:, None] ** 2 + g**2) / 2 / 1.8**2)
    k /= k.sum()
    scene = 300 + 2000 * (r.random((144, 144)) < 0.002) / k.max() + 1500 * (np.hypot(*(np.mgrid[:144, :144] - 70)) < 40)
    y = np.real(np.fft.ifft2(np.fft.fft2(scene) * np.fft.fft2(np.pad(k, (0, 127)))))[16:, 16:]
    np.save(work / "k.npy", k)
    counted = r.poisson(y)
    tracks = np.zeros(y.shape, bool)
    for _ in range(12):
        row, column, angle = *r.integers(8, 120, 2), r.uniform(0, np.pi)
        for step in range(r.integers(1, 9)):
            tracks[min(127, max(0, int(row + step * np.sin(angle)))), min(127, max(0, int(column + step * np.cos(angle))))] = True
    text = "problem: {measurements: y.npy, operator: {type: blur, kernel: {file: k.npy}}}\ndenoiser: {network: tv, tv: {iterations: 20}}\nsolver: {name: hqs, iterations: 5}\noutput: {folder: out, preview: none}\n"
    found = {}
    for name, ranks in (("clean", 1), ("hit", 1), ("hit", 2)):
        np.save(work / "y.npy", (counted + (3000 * tracks if name == "hit" else 0)).astype("f4"))
        out = said(text, ranks=ranks)
        hits = re.search(r"note: (\d+) samples stand above their neighbors as no point does", out)
        assert bool(hits) == (name == "hit") and (not hits or 0.9 < int(hits[1]) / tracks.sum() < 1.3), (name, out)
        found[name, ranks] = image("out")
    assert distance(found["hit", 1], found["clean", 1]) < 0.15 and distance(found["hit", 2], found["hit", 1]) < 1e-3
    bright = r.poisson(60000 * (y / y.max()).clip(0, 1) ** 0.3)
    for name, most in (("whole", 1e9), ("full", 42000 * (1 + 0.006 * r.standard_normal(y.shape)))):
        np.save(work / "y.npy", np.minimum(bright, most).astype(np.uint16))
        out = said(text)
        assert ("pile up between" in out) == (name == "full"), (name, out)


def lines_no_blur_made():
    """Behind a blur: rows or columns with offsets of their own, a mosaic of 6 x 6 colors, holes whose mark was mixed into their rims."""
    r = np.random.default_rng(4)
    g = np.arange(-6, 7)
    k = np.exp(-(g[:, None] ** 2 + g**2) / 2 / 1.6**2)
    np.save(work / "k.npy", k / k.sum())
    yy, xx = np.mgrid[:108, :120]
    blurred = 0.5 + 0.3 * np.sin(xx / 9) * np.cos(yy / 7)
    noisy = 3000 * blurred + r.normal(0, 15, blurred.shape)
    colors = np.array([["GBRGRB".index(c) % 3 for c in row] for row in ("GBGGRG", "RGRBGB", "GBGGRG", "GRGGBG", "BGBRGR", "GRGGBG")])
    mosaic = noisy * np.array([1, 0.65, 0.5])[np.tile(colors, (18, 20))]
    text = "problem: {measurements: y.npy, operator: {type: blur, kernel: {file: k.npy}}}\n" + END.replace("iterations: 4}", "iterations: 1}")
    lines = ("rows of the measurement have an offset of their own each, of about", "columns of the measurement have an offset of their own each, of about",
             "warning: every third row and every third column")
    for name, array, ranks in (("clean", noisy, 1), ("rows", noisy + r.normal(0, 30, (108, 1)), 2), ("columns", noisy + r.normal(0, 30, 120), 1), ("mosaic", mosaic, 2)):
        np.save(work / "y.npy", array.astype("f4"))
        out = said(text, ranks=ranks)
        shown = [line in out for line in lines]
        assert shown == [name == "rows", name == "columns", name == "mosaic"], (name, out)
        if name in ("rows", "columns"):
            assert 20 < float(re.search(r"each, of about ([\d.]+)", out)[1]) < 40, out
    for name, step, where in (("gain", 1 + 0.1 * (xx >= 60), "columns from 60 on lie"), ("smooth", 1 + 0.1 / (1 + np.exp(60.0 - xx)), None)):
        np.save(work / "y.npy", (noisy * step).astype("f4"))
        out = said(text, ranks=2 if where else 1)
        assert ("all along and from one to the next" in out) == bool(where) and (not where or where in out), (name, out)
    hole = np.zeros(noisy.shape, bool)
    for row, column, radius in ((30, 40, 9), (70, 90, 14)):
        hole |= np.hypot(yy - row, xx - column) < radius
    rim = ~hole & (np.roll(hole, 1, 0) | np.roll(hole, -1, 0) | np.roll(hole, 1, 1) | np.roll(hole, -1, 1))
    share = np.where(rim, r.uniform(0.3, 1, hole.shape), 0)
    found = {}
    for name, ranks in (("cut", 1), ("blended", 1), ("blended", 2)):
        mixed = noisy * (1 - share) - 9999 * share if name == "blended" else noisy
        np.save(work / "y.npy", np.where(hole, np.nan, mixed).astype("f4"))
        out = said(text, ranks=ranks)
        told = re.search(r"note: (\d+) samples beside missing ones lie far below all others", out)
        assert bool(told) == (name == "blended") and (not told or int(told[1]) == rim.sum()), out
        assert "pile up between" not in out, out
        found[name, ranks] = image("out")
    assert distance(found["blended", 1], found["cut", 1]) < 0.05 and distance(found["blended", 2], found["blended", 1]) < 1e-3


def regular_pictures():
    """Lattices, fringes, fabrics and hatches all over a picture are no noise and no offsets of lines; an enlarged picture's noise stays colored."""
    from scipy import ndimage
    r = np.random.default_rng(7)
    yy, xx = np.mgrid[:160, :168]
    turned = 2 * np.pi * (xx / 2 + yy * 0.866) / 5
    lattice = 0.4 + 0.15 * np.cos(2 * np.pi * xx / 5) + 0.15 * np.cos(turned)
    pictures = {"lattice": (lattice, 1.2), "squares": (0.2 + 0.6 * ((yy // 8 + xx // 8) % 2), 1.2), "hatch": (0.8 - 0.6 * ((xx + yy) % 7 < 1), 0),
                "blinds": (0.3 + 0.4 * (yy % 10 < 5), 1.2), "threads": (0.5 + 0.3 * np.sin(xx / 1.7), 0)}
    for name, (picture, blur) in pictures.items():
        operator = f", operator: {{type: blur, kernel: {{gaussian: {{sigma: {blur}}}}}}}" if blur else ""
        y = ndimage.gaussian_filter(picture, blur) if blur else picture
        np.save(work / "y.npy", np.rint(255 * (y + 0.02 * r.standard_normal(y.shape)).clip(0, 1)).astype("u1"))
        out = said(f"problem: {{measurements: y.npy{operator}}}\n" + END.replace("iterations: 4}", "iterations: 1}"), ranks=2 if name in ("lattice", "hatch") else 1)
        assert 0.017 < float(re.search(r"note: noise: gaussian ([\d.]+)", out)[1]) < 0.025 and "offset of their own" not in out, (name, out)
    # Of few samples of a lattice, those a period apart tell.
    for share, ranks in ((0.5, 3), (0.2, 1)):
        known = r.random(xx.shape) < share
        np.save(work / "m.npy", known.astype("u1"))
        np.save(work / "y.npy", np.where(known, lattice + 0.02 * r.standard_normal(xx.shape), 0).astype("f4"))
        out = said("problem: {measurements: y.npy, operator: {type: mask, file: m.npy}}\n" + END, ranks=ranks)
        assert 0.015 < float(re.search(r"note: noise: gaussian ([\d.]+)", out)[1]) < 0.027, (share, out)
    # Eight amplifiers, and noise that was enlarged with its picture.
    still = 0.5 + 0.2 * np.sin(xx / 19) * np.cos(yy / 17)
    np.save(work / "y.npy", (still + 0.05 * r.standard_normal(8)[xx % 8] + 0.02 * r.standard_normal(xx.shape)).astype("f4"))
    assert "columns of the measurement have an offset of their own" in said("problem: {measurements: y.npy}\n" + END)
    large = ndimage.zoom(still[:64, :64] + 0.04 * r.standard_normal((64, 64)), 2.5, order=3)
    np.save(work / "y.npy", large.astype("f4"))
    assert "details of more than a pixel scatter more than finer ones" in said("problem: {measurements: y.npy}\n" + END)


def lines_that_do_not_go_on():
    """Behind a blur: a frame that was filled and repeated lines count 0; shifted parts, lost rows, fields of a video, jitter are said."""
    r = np.random.default_rng(5)
    g = np.arange(-6, 7)
    k = np.exp(-(g[:, None] ** 2 + g**2) / 2 / 1.7**2)
    k /= k.sum()
    np.save(work / "k.npy", k)
    scene = np.kron(r.random((27, 30)), np.ones((4, 4)))
    y = 3000 * np.real(np.fft.ifft2(np.fft.fft2(scene) * np.fft.fft2(k, scene.shape)))[12:, 12:]
    noisy = (y + r.normal(0, 12, y.shape)).round()
    text = "problem: {measurements: y.npy, operator: {type: blur, kernel: {file: k.npy}}}\n" + END.replace("iterations: 4}", "iterations: 1}")
    copies = [f"note: {what} of the measurement are exact copies" for what in ("rows 0 to 8, 87 to 95, columns 0 to 8, 99 to 107", "rows 20, 60, columns 33")]
    words = ("does not go on from one row to the next around row 5", "does not go on from one column to the next around column 5", "warning: every second row of the measurement shows another",
             "times as much as samples along them")
    bars = np.tile(y[:1], (96, 1))  # all rows alike, without noise
    twice = noisy[np.r_[0:20, 19, 21:60, 59, 61:96]]
    twice[:, 33] = twice[:, 32]
    for name, array, ranks in (("clean", noisy, 2), ("bars", bars, 1), ("frame", np.pad(noisy[9:-9, 9:-9], 9, mode="symmetric"), 2), ("edge", np.pad(noisy[9:-9, 9:-9], 9, mode="edge"), 1),
                               ("twice", twice, 3), ("roll", np.roll(noisy, 50, 0), 2), ("part", np.hstack([noisy[:, :50], np.roll(noisy[:, 50:], 3, 0)]), 1),
                               ("fields", np.where(np.arange(96)[:, None] % 2, np.roll(noisy, 3, 1), noisy)[:, 3:], 2), ("jitter", np.array([np.roll(row, r.integers(-1, 2)) for row in noisy])[:, 2:-2], 1)):
        np.save(work / "y.npy", array.astype(np.uint16 if name in ("frame", "twice") else "f4"))
        out = said(text, *(["problem.noise.gaussian=0.004"] if name == "bars" else []), ranks=ranks)
        shown = [line in out for line in (*copies, *words)]
        assert shown == [name in ("frame", "edge"), name == "twice", name == "roll", name == "part", name == "fields", name == "jitter"], (name, shown, out)
