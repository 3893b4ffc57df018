#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The four jobs of docs/your_data.md (a phone's JPEG, a raw file made linear, a star field, a scan of a print) on pictures
that numpy and Pillow make: PSNR of the file and of the result, and the lines of the log that say what was taken.

  .venv/bin/python tests/bench/four_pictures.py PROGRAM [--work FOLDER]     (a minute of a core)

PSNR in dB of stored values, peak 1 (of the star field: its brightest sample), without a rim of 8 pixels."""
import argparse
import re
import subprocess
import tempfile
from pathlib import Path

import h5py
import numpy as np
import scipy.ndimage
import skimage.data
import skimage.io
from PIL import Image, PngImagePlugin

RIM = 8


def light(stored):
    return np.where(stored <= 0.04045, stored / 12.92, ((stored + 0.055) / 1.055) ** 2.4)


def stored(light_):
    v = np.clip(light_, 0, None)
    return np.clip(np.where(v <= 0.0031308, v * 12.92, 1.055 * v ** (1 / 2.4) - 0.055), 0, 1)


def blurred(x, sigma):
    return scipy.ndimage.gaussian_filter(x, (sigma, sigma, 0)[:x.ndim], truncate=6)


def phone(folder, r):
    truth = skimage.data.astronaut() / 255
    seen = stored(blurred(light(truth), 1.6) + 0.004 * r.standard_normal(truth.shape))
    exif = Image.Exif()
    exif[0x010F] = "Maker"
    exif[0x0110] = "Phone"
    Image.fromarray(np.round(255 * seen).astype(np.uint8)).save(folder / "phone.jpg", quality=90, exif=exif)
    return truth, skimage.io.imread(folder / "phone.jpg") / 255, 255, "phone.jpg", 1.6, ""


def raw(folder, r):
    import tifffile
    truth = light(skimage.data.coffee() / 255)
    electrons = 4000
    seen = r.poisson(np.clip(blurred(truth, 1.6), 0, 1) * electrons) / electrons + 0.001 * r.standard_normal(truth.shape)
    file = np.round(np.clip(seen, 0, 1) * 65535).astype(np.uint16)
    tifffile.imwrite(folder / "raw.tif", file, photometric="rgb")
    return truth, file / 65535, 65535, "raw.tif", 1.6, ""


def stars(folder, r):
    sky = np.full((320, 320), 20.0)
    sky[r.integers(12, 308, 150), r.integers(12, 308, 150)] += 10 ** r.uniform(2.5, 5.5, 150)
    file = (r.poisson(blurred(sky, 2.0)) + r.normal(0, 3, sky.shape)).astype(np.float32)
    np.save(folder / "stars.npy", file)
    peak = sky.max()
    return sky / peak, file / peak, peak, "stars.npy", 2.0, ", noise: {poisson: 1, gaussian: 3, unit: file}"


def scan(folder, r):
    truth = skimage.data.chelsea() / 255
    paper = scipy.ndimage.gaussian_filter(r.standard_normal(truth.shape[:2]), 0.7)[..., None]
    seen = stored(blurred(light(truth), 1.2) + 0.004 * paper / paper.std() + 0.002 * r.standard_normal(truth.shape))
    about = PngImagePlugin.PngInfo()
    about.add(b"sRGB", b"\0")
    Image.fromarray(np.round(255 * seen).astype(np.uint8)).save(folder / "print.png", pnginfo=about)
    return truth, skimage.io.imread(folder / "print.png") / 255, 255, "print.png", 1.2, ""


def psnr(a, truth):
    inner = (slice(RIM, -RIM), slice(RIM, -RIM))
    return -10 * np.log10(np.mean((a[inner] - truth[inner]) ** 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--work")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.work or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        worse = 0
        for make in (phone, raw, stars, scan):
            truth, file, white, name, sigma, more = make(folder, np.random.default_rng(7))
            job = folder / f"{make.__name__}.yaml"
            job.write_text(f"schema: 1\nproblem: {{measurements: {name}, operator: {{type: blur, kernel: {{gaussian: "
                           f"{{sigma: {sigma}}}}}}}{more}}}\noutput: {{folder: {make.__name__}}}\n")
            done = subprocess.run([arguments.program, "run", job, "--force"], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            with h5py.File(folder / make.__name__ / "reconstruction.h5") as f:
                image = f["image"][...] / white
            image = np.moveaxis(image, 0, -1) if truth.ndim == 3 else image.reshape(truth.shape) if image.size == truth.size else image[0]
            off = [(a - b) // 2 for a, b in zip(truth.shape, image.shape)]  # what `valid` leaves of the border
            same = tuple(slice(o, o + n) for o, n in zip(off, image.shape))
            before, after = psnr(file[same], truth[same]), psnr(image, truth[same])
            worse += after < before
            print(f"{make.__name__}: {before:.2f} -> {after:.2f} dB")
            for line in done.stdout.splitlines():
                if re.match(r"(note: (light|noise|solver|clipped|denoiser)|warning|the picture|with care|not to be)", line):
                    print("  " + line)
        return 1 if worse else 0


if __name__ == "__main__":
    raise SystemExit(main())
