# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of what files mean and data show: weights up to a factor, flags, kernels of other pixels, values far from 0."""
import re

import h5py
import numpy as np

from harness import distance, image, job, run, summary, work

PASS = "denoiser: {network: none}\nsolver: {name: pgd, iterations: 1}\noutput: {folder: out, preview: none, diagnostics: false}\n"
TV = "denoiser: {network: tv}\nsolver: {name: hqs, iterations: 6}\noutput: {folder: out, preview: none, diagnostics: false}\n"


def said(text, *settings, ranks=1, expect=0):
    words = [word for setting in settings for word in ("--set", setting)]
    return "".join(run(job(text), "--force", *words, ranks=ranks, expect=expect))


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
