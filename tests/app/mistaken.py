# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of inputs that look right and are not: what is said of them, and that nothing is said of good ones."""
import re

import h5py
from harness import image, job, np, tessera, work
from scans import counts, dxchange, said_by, scan, sinogram
from senses import said

END = "denoiser: {network: tv, tv: {iterations: 20}}\nsolver: {name: hqs, iterations: 4}\noutput: {folder: out, preview: none, diagnostics: false}\n"


def scans_mistaken():
    """Line integrals that are not linear, no darks, columns of another response, both ends of the turn, a slow creep, exchanged bytes."""
    theta, y = sinogram(90, 1, 96, 0)
    views, flats, darks = counts(y)
    odd = [f"warning: {text}" for text in ("views of one object", "there are no darks", "columns of the detector", "90 views are taken", "the views' centers", "the object moves")]
    hard = -np.log((np.exp(-2.2 * y) + np.exp(-0.8 * y)) / 2)
    light = np.random.default_rng(2).poisson(1600 * np.ones((4, 1, 96)))
    some = np.where(np.random.default_rng(3).random(96) < 0.15, 1.15, 1)
    creep = 4 * np.exp(-np.arange(90) / 15)
    columns = np.arange(96)
    moved = np.array([[np.interp(columns - m, columns, v[0])] for m, v in zip(creep, y)])
    for name, file, words in (("good", (views, flats, darks), None), ("hard", counts(hard), r"less where .*the beam hardens"),
                              ("lit", (views, flats, (light + 100).astype(np.uint16)), "more where .*the darks are too bright"),
                              ("some", counts(y * some), r"columns of the detector .* not in proportion"), ("creeps", counts(moved), "centers of mass are up to")):
        dxchange(f"{name}.h5", *file, theta)
        out = said_by("check", scan(f"{name}.h5"), f"warning: .*{words}" if words else "scan ")
        assert words or not any(text in out for text in odd), out
    dxchange("none.h5", views + np.uint16(900), flats + np.uint16(900), darks, theta)
    with h5py.File(work / "none.h5", "a") as f:
        del f["exchange/data_dark"]
    said_by("check", scan("none.h5"), r"warning: there are no darks, .* \d+ % too small")
    np.save(work / "s.npy", y[:, 0].astype(np.float32))
    for more, words in (("count: 90", None), ("count: 91", r"warning: 91 views .* write 'last: 182'"), ("count: 91, last: 180", None)):
        np.save(work / "s.npy", y[np.arange(91 if "91" in more else 90) % 90, 0].astype(np.float32))
        out = said_by("check", scan("s.npy", f"values: line_integrals, views: {{{more}}}"), words or "scan ")
        assert words or "views are taken" not in out, out
    dxchange("bytes.h5", views.byteswap(), flats, darks, theta)
    for command in ("check", "run"):
        said_by(command, scan("bytes.h5"), "bytes.h5:/exchange/data looks as if the two bytes of each number were exchanged", 2)


def samples_mistaken():
    """Full counters, exchanged bytes."""
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
