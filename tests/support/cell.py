#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A microscope's first picture: 12 bits in a 16-bit TIFF, counts with an offset, a kernel of its own, nothing else known.

usage: cell.py FOLDER [SIDE]

The green channel of scikit-image's retina.jpg (public domain) as counts, 100 + 4000 * green / 255, blurred by a tilted
15 x 15 kernel where all of it lies inside, with noise of 40 counts: FOLDER/truth.tif (float32, of SIDE pixels, 1411 where
nothing is said), cell.tif (uint16, 14 pixels smaller), psf.npy, and job.yaml, which says the files and the boundary alone.
"""
import pathlib
import sys

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "jobs"))
    from own_python import need

    need("numpy", "scipy", "skimage")

import numpy as np
from scipy import signal
from skimage import data, io

OFFSET, COUNTS, NOISE = 100, 4000, 40
JOB = """\
problem:
  measurements: cell.tif
  operator: {type: blur, kernel: {file: psf.npy}, boundary: valid}
"""


def kernel():
    x, y = np.meshgrid(np.arange(-7, 8), np.arange(-7, 8))
    along, across = x * np.cos(0.5) + y * np.sin(0.5), y * np.cos(0.5) - x * np.sin(0.5)
    k = np.exp(-(along**2) / (2 * 2.3**2) - across**2 / (2 * 1.15**2))
    return k / k.sum()


def make(folder, side=1411):
    """Truth and measurement in counts."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    first = (1411 - side) // 2
    green = data.retina()[first:first + side, first:first + side, 1]
    truth = OFFSET + COUNTS * (green / 255)
    y = signal.fftconvolve(truth, kernel(), mode="valid")
    y += NOISE * np.random.default_rng(0).standard_normal(y.shape)
    y = np.clip(np.rint(y), 0, 65535).astype(np.uint16)
    io.imsave(folder / "truth.tif", truth.astype(np.float32), check_contrast=False)
    io.imsave(folder / "cell.tif", y, check_contrast=False)
    np.save(folder / "psf.npy", kernel())
    (folder / "job.yaml").write_text(JOB)
    return truth, y


def psnr(image, truth):
    """Of an image of the measured region, in counts, whose white is 4000."""
    rim = (truth.shape[0] - image.shape[-1]) // 2
    inside = truth[rim:truth.shape[0] - rim, rim:truth.shape[1] - rim]
    return 10 * np.log10(COUNTS**2 / np.mean((image.astype(np.float64) - inside) ** 2))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    truth, y = make(sys.argv[1], *map(int, sys.argv[2:]))
    print(f"{sys.argv[1]}: {y.shape[0]} x {y.shape[1]}, {y.min()} to {y.max()}, {psnr(y, truth):.1f} dB")
