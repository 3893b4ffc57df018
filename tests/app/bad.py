# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of problem.bad: what is bad in data is found, stars and photographs stay, flags by name."""
import numpy as np

import pictures
from harness import image, job, run, work

TEXT = ("problem: {measurements: y.npy, bad: all}\ndenoiser: {network: none}\nsolver: {name: pgd, iterations: 1}\n"
        "output: {folder: out, diagnostics: false}\n")


def found(y, *settings, text=TEXT, ranks=1, expect=0):
    """(mask of samples that count 0, what was said)."""
    np.save(work / "y.npy", y.astype("f4"))
    (work / "out/bad.png").unlink(missing_ok=True)
    out = "".join(run(job(text), "--force", *[w for s in settings for w in ("--set", s)], ranks=ranks, expect=expect))
    picture = work / "out/bad.png"
    return (pictures.imread(picture) < 128 if picture.exists() else np.zeros(y.shape[-2:], bool)), out


def stars(r, shape, width, count):
    yy, xx = np.mgrid[:shape[0], :shape[1]]
    sky = np.full(shape, 0.05)
    for y, x, flux in zip(r.uniform(0, shape[0], count), r.uniform(0, shape[1], count), 0.1 * (1 + r.pareto(1.5, count))):
        sky += min(flux, 10) * np.exp(-((yy - y) ** 2 + (xx - x) ** 2) / (2 * width**2))
    return sky


def bad_is_found():
    """Hot, dead, lines, cosmic rays and tiles of a star field; the same on two ranks; nothing of clean pictures."""
    r = np.random.default_rng(5)
    h, w, sigma = 192, 224, 0.01
    yy, xx = np.mgrid[:h, :w]
    sky = stars(r, (h, w), 1.0, 80)
    clean = sky + sigma * r.standard_normal((h, w))
    mask, out = found(clean)
    assert mask.mean() <= 1e-4, (mask.sum(), out)
    camera = pictures.photograph("camera.png")[100:100 + h, 150:150 + w] / 255
    camera = camera + sigma * r.standard_normal((h, w))
    mask, out = found(camera, "problem.bad=[hot, dead, columns, rows, missing_tiles]")
    assert mask.mean() <= 1.5e-4, (mask.sum(), out)
    mask, out = found(camera, "problem.bad=[cosmic_rays]")  # of its sharpest part; 1e-4 of the whole
    assert mask.mean() <= 8e-4, (mask.sum(), out)
    y, places = clean.copy(), r.permutation(h * w)[:120]
    hot, dead = np.zeros((h, w), bool), np.zeros((h, w), bool)
    hot.flat[places[:60]], dead.flat[places[60:]] = True, True
    y[hot] += 10 * sigma
    y[dead] -= 10 * sigma
    y[:, 150] = 0.3 + sigma * r.standard_normal(h)
    y[:, 40:42] -= 6 * sigma
    y[70, 96:] = 0  # from the right end on
    track = (np.abs(yy - 20 - 0.4 * (xx - 170)) < 0.5) & (xx > 165) & (xx < 185)
    y[track] += 0.8
    y[120:140, 60:90] = 0
    lines = np.zeros((h, w), bool)
    lines[:, [40, 41, 150]] = lines[70, 96:] = True
    tile = np.zeros((h, w), bool)
    tile[120:140, 60:90] = True
    masks = []
    for ranks in (1, 2, 3):
        mask, out = found(y, ranks=ranks)
        masks.append(mask)
        assert "column 150" in out and "column 40, column 41" in out and "row 70 from column 96 to 223" in out, out
        assert "1 missing tile" in out and mask[lines | tile].all(), out
    assert (masks[0] == masks[1]).all() and (masks[0] == masks[2]).all()
    rest = ~(lines | tile)
    assert mask[track & rest].mean() >= 0.8, mask[track & rest].mean()
    for kind in (hot, dead):
        assert mask[kind & rest].mean() >= 0.85, mask[kind & rest].mean()
    near = track | np.roll(track, 1, 0) | np.roll(track, -1, 0) | np.roll(track, 1, 1) | np.roll(track, -1, 1)
    assert (mask & rest & ~hot & ~dead & ~near).mean() <= 2e-4, (mask & rest & ~hot & ~dead & ~near).sum()
    assert np.isfinite(image("out")).all()
    # Only what is asked for; a volume, whose columns are the camera's.
    mask, out = found(y, "problem.bad=[columns]")
    assert "bad samples: column 150, column 40, column 41; 576 samples count 0" in out and mask.sum() == 3 * h, out
    stack = np.stack([clean[:96, :112] + sigma * r.standard_normal((96, 112)) for _ in range(5)])[None]
    stack[:, :, :, 30] += 8 * sigma
    stack[0, 3, 50, 60] += 20 * sigma
    for ranks in (1, 2):
        _, out = found(stack, "problem.bad={hot: true, columns: true}", ranks=ranks)
        assert "1 hot, column 30" in out, out
    # Behind a blur a spot may be no sharper than the kernel.
    blurred = np.fft.ifft2(np.fft.fft2(stars(r, (h, w), 0.3, 40)) * np.fft.fft2(np.fft.ifftshift(
        np.exp(-((yy - h // 2) ** 2 + (xx - w // 2) ** 2) / (2 * 1.6**2)) / (2 * np.pi * 1.6**2)))).real
    y = blurred + 0.003 * r.standard_normal((h, w))
    text = TEXT.replace("bad: all", "operator: {type: blur, kernel: {gaussian: {sigma: 1.6}}, boundary: circular}, bad: [cosmic_rays]")
    mask, out = found(y, text=text)
    assert mask.mean() <= 1e-4, out
    rays = np.zeros((h, w), bool)
    for row, column in zip(r.integers(8, h - 8, 12), r.integers(8, w - 8, 12)):
        rays[row, column:column + 2] = True
    y[rays] += 0.06
    mask, out = found(y, text=text, ranks=2)
    assert mask[rays].mean() >= 0.9 and (mask & ~rays).mean() <= 5e-4, (mask[rays].mean(), (mask & ~rays).sum(), out)


def flags_by_name():
    """Flags of bad samples by number, by the names of telescopes, by the file's own; what is none is refused."""
    r = np.random.default_rng(6)
    y = 0.5 + 0.01 * r.standard_normal((64, 80))
    flags = np.zeros((64, 80), np.int32)
    flags[3, 4] |= 1
    flags[5, 6:9] |= 4 + 2048
    flags[10] |= 2
    np.save(work / "dq.npy", flags)
    ask = "problem.bad={flags: dq.npy, bits: %s}"
    for bits, mask in (("[DO_NOT_USE]", flags & 1), ("[hot, 1]", flags & 2049), ("[6]", flags & 6), ("[SATURATED, JUMP_DET]", flags & 6)):
        for ranks in (1, 2):
            got, out = found(y, ask % bits, ranks=ranks)
            assert (got == (mask != 0)).all() and f"{(mask != 0).sum()} of 5120 samples have the flags" in out, (bits, out)
    got, out = found(y, "problem.bad={flags: dq.npy}")
    assert (got == (flags != 0)).all(), out
    got, out = found(y, "problem.bad={flags: dq.npy, hot: true, bits: [HOTPIX]}")
    assert not got.any() and "none found of hot" in out, out
    for setting, words in ((ask % "[HOTT]", "no flag that JWST or HST has) did you mean HOT?"), (ask % "[0]", "bits are 1, 2, 4"),
                           ("problem.bad=[hott]", "must be all, or a list of hot, dead, columns"),
                           ("problem.bad={hott: true}", "did you mean problem.bad.hot?"),
                           ("problem.bad={bits: [1]}", "problem.bad.bits"), ("problem.bad={flags: y.npy}", "are no whole numbers")):
        _, out = found(y, setting, ranks=2 if "HOTT" in setting else 1, expect=2)
        assert words in out, (setting, out)
