# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of photographs as people have them: light, clipped ends, noise that is not white, models that are wrong."""
import io
import re
import struct
import zlib

import numpy as np
from PIL import Image

from harness import distance, image, job, pictures, run, summary, tessera, work

END = "output: {folder: out, preview: p.png}\n"
BLUR = "problem: {measurements: y.png, operator: {type: blur, kernel: {file: k.npy}}}\n" + END


def light(v):
    return np.where(v <= 0.04045, v / 12.92, ((np.maximum(v, 0.04045) + 0.055) / 1.055) ** 2.4)


def stored(v):
    return np.where(v <= 0.0031308, 12.92 * v, 1.055 * np.maximum(v, 0.0031308) ** (1 / 2.4) - 0.055)


def said(text, *settings, ranks=1, expect=0):
    words = [word for setting in settings for word in ("--set", setting)]
    return "".join(run(job(text), "--force", *words, ranks=ranks, expect=expect))


def psnr(x, truth):
    return -10 * np.log10(np.mean((x[8:-8, 8:-8] - truth[8:-8, 8:-8]) ** 2))


def picture(name="astronaut.png", size=160):
    x = pictures.photograph(name) / 255
    return x[60 : 60 + size, 150 : 150 + size, :3]


def kernel(sigma):
    i = np.arange(13) - 6
    k = np.exp(-(i[:, None] ** 2 + i**2) / 2 / sigma**2)
    np.save(work / "k.npy", k / k.sum())
    return k / k.sum()


def blurred(x, k):
    n = x.shape[0] - 12
    return sum(k[a, b] * x[a : a + n, b : b + n] for a in range(13) for b in range(13))


def write_png(x, name="y.png", chunk=b""):
    Image.fromarray(np.rint(255 * x.clip(0, 1)).astype(np.uint8)).save(work / name)
    if chunk:
        data = (work / name).read_bytes()
        body = chunk[:4] + chunk[4:]
        (work / name).write_bytes(data[:33] + struct.pack(">I", len(chunk) - 4) + body + struct.pack(">I", zlib.crc32(body)) + data[33:])
    return np.asarray(Image.open(work / name)) / 255


def result(folder="out"):
    return np.moveaxis(image(folder), 0, -1) / 255


def photographs_are_light():
    """A picture that was blurred as light and stored as sRGB is told by its details, restored as light and stored again."""
    x, k = picture(), kernel(1.2)
    truth = x[6:-6, 6:-6]
    noise = 0.005 * np.random.default_rng(1).standard_normal(truth.shape)
    y = write_png(stored(blurred(light(x), k) + noise))
    out = said(BLUR)
    one = result()
    assert "light: y.png stores sRGB (its details show that it was blurred as light)" in out, out
    assert "clipped: " in out and "look saturated" not in out and "the picture explains the data" in out, out
    assert psnr(one, truth) > psnr(y, truth) + 3, (psnr(y, truth), psnr(one, truth))
    assert psnr(pictures.imread(work / "out/p.png") / 255.0, truth) > psnr(one, truth) - 0.1, "the picture is stored alike"
    resolved = (work / "out/resolved.yaml").read_text()
    assert "curve: srgb" in resolved, resolved
    said(BLUR, ranks=3)
    three = result()
    assert distance(three, one) < 1e-4, "the same on 3 ranks"
    run("out/resolved.yaml", "--force", "--set", f"output.folder={work / 'again'}", ranks=3)
    assert distance(result("again"), three) < 1e-6, "resolved.yaml gives the same run"
    # Stated.
    said(BLUR, "problem.scale.curve={gamma: 2.2}", "problem.noise={gaussian: 0.005}")
    assert psnr(result(), truth) > psnr(y, truth) + 2.5
    out = said(BLUR, "problem.scale.curve=none")
    assert re.search("no image explains the data|in places it is stronger", out), out
    assert psnr(result(), truth) > psnr(y, truth) - 0.3, "what no image explains counts as noise"
    out = said(BLUR, "problem.scale.curve=bright", expect=2)
    assert "auto, none, linear, srgb or {gamma" in out, out
    # Blurred as stored: the values are what they are, whatever a chunk says.
    y = write_png(blurred(x, k) + noise, chunk=b"sRGB\0")
    out = said(BLUR)
    assert "are taken as they are stored" in out and psnr(result(), truth) > psnr(y, truth) + 3, out
    # What the file says counts more than noise that was added to stored values.
    gamma = b"gAMA" + struct.pack(">I", 45455)
    short = ("denoiser.network=tv", "solver.name=hqs", "solver.iterations=1")

    def of_gamma(v, sigma, noise, seed):
        n, wide = v.shape[0] - 12, kernel(sigma)
        seen = blurred(v**2.2, wide).clip(0, 1) ** (1 / 2.2)
        write_png(seen + noise / 255 * np.random.default_rng(seed).normal(size=(n, n)), chunk=gamma)
        return v[6:-6, 6:-6]

    of_gamma(pictures.photograph("camera.png")[74:214, 144:284] / 255, 1.6, 1.5, 14)
    out = said(BLUR, *short)
    assert "light: y.png stores sRGB (its gAMA says so" in out, out
    # Little noise of stored values is not taken for that of photons, which dark places have none of.
    truth = of_gamma(pictures.photograph("astronaut.png")[90:230, 120:260, 1] / 255, 1.6, 0.5, 6)
    out = said(BLUR, ranks=2)
    level = re.search(r"note: noise: gaussian \S+ \((\S+) in file units\) of stored values", out)
    assert level and 0.5 < float(level[1]) < 0.7 and "no image explains" not in out, out
    y = pictures.imread(work / "y.png") / 255
    assert psnr(result()[..., 0], truth) > psnr(y, truth) + 5, (psnr(y, truth), psnr(result()[..., 0], truth))
    write_png(blurred(x, kernel(1.2)) + noise)
    # An array says nothing: its values are what they are, with a line where they show a curve.
    seen = blurred(light(x), k) + noise
    for name, array, ranks in (("stored", stored(seen), 2), ("light", seen, 1), ("as stored", blurred(x, k) + noise, 1)):
        np.save(work / "y.npy", np.rint(255 * np.moveaxis(array, -1, 0).clip(0, 1)).astype("u1"))
        out = said(BLUR.replace("y.png", "y.npy"), *short, ranks=ranks)
        assert ("warning: light: the details and the noise of y.npy show a photograph" in out) == (name == "stored"), (name, out)
    out = said(BLUR.replace("y.png", "y.npy"), *short, "problem.scale.curve=none")
    assert "light:" not in out, out
    # Denoising stays as stored; so does a TIFF that says nothing.
    out = said(BLUR.replace("{type: blur, kernel: {file: k.npy}}", "{type: identity}"), ranks=2)
    assert "light:" not in out, out


def noise_that_is_not_white():
    """Compressed, demosaicked or enlarged before it became a PNG: the level that restores is found, not that of the finest
    details; no result is below its input."""
    x, k = picture(), kernel(1.6)
    truth = x[6:-6, 6:-6]
    clean = blurred(x, k)
    noisy = clean + 0.005 * np.random.default_rng(2).standard_normal(clean.shape)

    def through(form, **how):
        file = io.BytesIO()
        Image.fromarray(np.rint(255 * noisy.clip(0, 1)).astype(np.uint8)).save(file, form, **how)
        file.seek(0)
        return np.asarray(Image.open(file).convert("RGB")) / 255

    def larger(v, f):
        n = round(v.shape[0] * f)
        return np.stack([np.asarray(Image.fromarray(v[..., c].astype(np.float32)).resize((n, n), Image.BICUBIC)) for c in range(3)], -1)

    for name, y, t in (("jpg", through("JPEG", quality=80), truth), ("webp", through("WEBP", quality=75), truth),
                       ("larger", larger(noisy, 1.5), larger(truth, 1.5))):
        y = write_png(y)
        out = said(BLUR, ranks=2 if name == "webp" else 1)
        level = float(re.search(r"noise: gaussian ([0-9.e-]+)", out).group(1))
        assert 0.004 < level < 0.04 and "scatter more than finer ones" in out, (name, out)
        assert psnr(result(), t) > psnr(y, t) + 0.3, (name, psnr(y, t), psnr(result(), t))
    # White noise is what it was, also where there is little of it.
    np.save(work / "y.npy", np.moveaxis(clean + 0.002 * np.random.default_rng(3).standard_normal(clean.shape), -1, 0).astype(np.float32))
    out = said(BLUR.replace("y.png", "y.npy"))
    level = float(re.search(r"noise: gaussian ([0-9.e-]+)", out).group(1))
    assert abs(level - 0.002) < 0.0002 and "scatter more than" not in out and summary("out")["chi2"] < 1.3, out


def grain_is_not_kept():
    """Noise that compression hides is larger than it shows: where a trial of the network leaves grain, more is taken. A
    printed page's own fine details are none. Denoising where there is next to no noise takes nothing away."""
    x, k = picture("chelsea.png"), kernel(1)
    truth = x[6:-6, 6:-6]
    clean = blurred(x, k)
    noisy = clean + 0.01 * np.random.default_rng(1).standard_normal(clean.shape)
    file = io.BytesIO()
    Image.fromarray(np.rint(255 * noisy.clip(0, 1)).astype(np.uint8)).save(file, "WEBP", quality=90)
    file.seek(0)
    y = write_png(np.asarray(Image.open(file).convert("RGB")) / 255)
    out = said(BLUR)
    one = result()
    assert "would be full of grain" in out and psnr(one, truth) > psnr(y, truth) + 0.5, (out, psnr(y, truth), psnr(one, truth))
    assert "would be full of grain" in said(BLUR, ranks=3) and distance(result(), one) < 1e-4
    page = pictures.photograph("page.png")[:160, 60:220, None] / 255
    clean = blurred(page, k)
    y = write_png((clean + 0.002 * np.random.default_rng(2).standard_normal(clean.shape))[..., 0])[..., None]
    out = said(BLUR)
    assert "full of grain" not in out and psnr(result(), page[6:-6, 6:-6]) > psnr(y, page[6:-6, 6:-6]) + 6, out
    np.save(work / "y.npy", np.moveaxis(x + 0.002 * np.random.default_rng(3).standard_normal(x.shape), -1, 0).astype(np.float32))
    said("problem: {measurements: y.npy, noise: {gaussian: 0.002}, operator: {type: identity}}\n" + END)
    assert psnr(np.moveaxis(image("out"), 0, -1), x) > 53.9, psnr(np.moveaxis(image("out"), 0, -1), x)


def wrong_models_do_no_harm():
    """A boundary that is none, a noise stated at half: the data say it, and the result is the better one."""
    x, k = picture(size=140).mean(-1), kernel(2)
    truth = x[6:-6, 6:-6]
    y = blurred(x, k) + 0.01 * np.random.default_rng(4).standard_normal(truth.shape)
    np.save(work / "y.npy", y.astype(np.float32))
    text = BLUR.replace("y.png", "y.npy").replace("{file: k.npy}}", "{file: k.npy}, boundary: circular}")
    out = said(text)
    one = image("out")[0]
    assert "whose kernel reaches across count 0" in out and psnr(one, truth) > psnr(y, truth) + 1, (out, psnr(one, truth))
    said(text, ranks=2)
    assert distance(image("out"), one[None]) < 1e-4
    # A kernel that is too wide overshoots at edges; the picture's own does not.
    blocks = np.kron(np.random.default_rng(6).random((18, 18)) < 0.5, np.ones((8, 8))) * 0.96 + 0.02
    y = blurred(blocks, kernel(1.6))
    np.save(work / "y.npy", (y + 0.005 * np.random.default_rng(7).standard_normal(y.shape)).astype(np.float32))
    for sigma in (1.6, 2.1):
        kernel(sigma)
        out = said(BLUR.replace("y.png", "y.npy"), ranks=2 if sigma == 1.6 else 1)
        assert ("while the data lie within (it overshoots" in out) == (sigma == 2.1), (sigma, out)
    np.save(work / "y.npy", (x + 0.1 * np.random.default_rng(5).standard_normal(x.shape)).astype(np.float32))
    text = "problem: {measurements: y.npy, noise: {gaussian: 0.05}, operator: {type: identity}}\n" + END
    out = said(text)
    assert "problem.noise says 0.05" in out and psnr(image("out")[0], x) > 27, (out, psnr(image("out")[0], x))


def gray_saved_as_color():
    """Three equal channels are one measurement, whatever the type; what differs, or is asked for, stays color."""
    x = picture(size=96).mean(-1)
    one = np.rint(255 * (x + 0.05 * np.random.default_rng(6).standard_normal(x.shape)).clip(0, 1)).astype(np.uint8)
    three = np.stack([one] * 3, -1)
    text = "problem: {measurements: Y, operator: {type: identity}}\ndenoiser: {network: tv}\n" + END
    Image.fromarray(one).save(work / "gray.png")
    said(text.replace("Y", "gray.png"))
    right = image("out")
    Image.fromarray(three).save(work / "three.png")
    Image.fromarray(three).save(work / "three.tif")
    np.save(work / "three.npy", np.moveaxis(three, -1, 0))
    for name, ranks in (("three.png", 1), ("three.tif", 2), ("three.npy", 1)):
        out = said(text.replace("Y", name), ranks=ranks)
        assert f"gray: the three channels of {name} are the same" in out and "1 x 96 x 96" in out, (name, out)
        assert image("out").shape == right.shape and distance(image("out"), right) < 1e-5, name
    run("out/resolved.yaml", "--force", "--set", f"output.folder={work / 'again'}")
    assert distance(image("again"), right) < 1e-5, "resolved.yaml gives the same run"
    # A compression and a rounding lie between them, or a weak color: gray; truth and weights are read alike.
    near = three.astype(int) + np.random.default_rng(7).integers(-1, 2, three.shape) * (np.random.default_rng(8).random(x.shape) < 0.5)[..., None]
    Image.fromarray(near.clip(0, 255).astype(np.uint8)).save(work / "near.png")
    Image.fromarray(np.rint(255 * np.stack([x] * 3, -1)).astype(np.uint8)).save(work / "truth.png")
    np.save(work / "w.npy", np.ones((3, *x.shape), np.float32))
    text_near = text.replace("Y", "near.png, weights: w.npy, truth: truth.png")
    out = said(text_near, ranks=2)
    assert "near.png are the same but for 2 at most" in out and summary("out")["psnr"] > 27, out
    assert np.abs(image("out") - right).mean() < 1, np.abs(image("out") - right).mean()
    for ranks, pair in ((2, ("truth.png", "out/reconstruction.h5")), (1, ("out/reconstruction.h5", "truth.png"))):
        code, out = tessera("compare", *pair, ranks=ranks)[:2]
        assert code == 0 and "note: the channels of truth.png are the same: its gray was compared" in out, out
        assert abs(float(re.search(r"PSNR (\S+)", out)[1]) - summary("out")["psnr"]) < 0.01, out
    # A mask that was made of stored rows lies the wrong way beside a picture that is turned.
    turn = Image.Exif()
    turn[274] = 3
    Image.fromarray(one).save(work / "turned.jpg", exif=turn)
    Image.fromarray(np.where(x > 0.3, 255, 0).astype(np.uint8)).save(work / "mask.png")
    for name, says in (("turned.jpg", True), ("gray.png", False)):
        for how in (text.replace("Y", f"{name}, weights: mask.png"), text.replace("Y", name).replace("identity", "mask, file: mask.png")):
            assert (f"note: {work / name} is turned as its EXIF orientation says, {work / 'mask.png'} says none" in said(how)) == says, how
    # Transparent corners are none of the picture, unless all of it is: then nobody meant it.
    for hole, missing in ((np.s_[:30, :40], 1200), (np.s_[:], 0)):
        seen = np.full(one.shape, 255, np.uint8)
        seen[hole] = 0
        Image.fromarray(np.stack([np.where(seen == 0, 0, one) if missing else one, seen], -1), "LA").save(work / "alpha.png")
        out = said(text.replace("Y", "alpha.png"), ranks=2 if missing else 1)
        assert "alpha channel dropped" in out and (f"{missing} of {one.size} samples are not numbers" in out) == (missing > 0), out
    # Colors: asked for, seen, or told apart by the weights.
    assert "gray:" not in said(text.replace("Y", "three.png, image: {channels: 3}")) and image("out").shape[0] == 3
    tinted = three.copy()
    tinted[:10, :10, 0] //= 2
    Image.fromarray(tinted).save(work / "tinted.png")
    assert "gray:" not in said(text.replace("Y", "tinted.png"), ranks=2) and image("out").shape[0] == 3
    out = said(text.replace("Y", "tinted.png, image: {channels: 1}"), expect=2)
    assert "problem.image.channels is 1 (the channels of tinted.png differ) leave it out" in out, out
    assert tessera("compare", "tinted.png", "gray.png", ranks=2)[0] == 2
    weights = np.ones((3, *x.shape), np.float32)
    weights[0, :4] = 0
    np.save(work / "w.npy", weights)
    assert "gray:" not in said(text.replace("Y", "three.png, weights: w.npy")) and image("out").shape[0] == 3
