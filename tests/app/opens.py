# SPDX-License-Identifier: BSD-3-Clause
"""How often a run opens its files, counted by a preloaded library (opens.cpp)."""
import os
from collections import Counter
from pathlib import Path

from harness import h5py, job, np, pictures, program, sanitized, tessera, work
from scans import counts, dxchange, sinogram

JOB = """\
schema: 1
problem:
  measurements: in/{}
  operator: {}
{}denoiser: {{network: tv}}
solver: {{iterations: 2}}
output: {{folder: out}}
"""
BLUR = "{type: blur, kernel: {gaussian: {sigma: 1.2}}, boundary: reflect}"
# One of them is ours; cfitsio opens a file twice, first to see whether it is packed.
CFITSIO = 3


def fits(name, values):
    cards = ["SIMPLE  =                    T", "BITPIX  =                  -32", "NAXIS   =                    2",
             f"NAXIS1  = {values.shape[1]:20}", f"NAXIS2  = {values.shape[0]:20}", "END"]
    data = values.astype(">f4").tobytes()
    whole = "".join(c.ljust(80) for c in cards).ljust(2880).encode() + data.ljust(-(-len(data) // 2880) * 2880, b"\0")
    (work / "in" / name).write_bytes(whole)


def opened(path, ranks, *command):
    """{(rank, name): times}"""
    log = work / "in.opens"
    log.unlink(missing_ok=True)
    os.environ.update(LD_PRELOAD=str(Path(program).parent / "libtessera_opens.so"), TESSERA_OPENS=str(work / "in"))
    try:
        code, out, err = tessera(*command or ("run", "--force"), path, ranks=ranks)
        assert code == 0, out + err
    finally:
        del os.environ["LD_PRELOAD"]
    return Counter(tuple(line.split(" ", 1)) for line in log.read_text().splitlines())


def opened_once():
    if sanitized:
        print("nothing is preloaded before a sanitizer")
        return
    (work / "in").mkdir()
    rows, columns = np.mgrid[:48, :40]
    y = 0.5 + 0.3 * np.sin(columns / 5) * np.cos(rows / 7) + 0.02 * np.random.default_rng(1).standard_normal(rows.shape)
    eight = (255 * y.clip(0, 1)).astype(np.uint8)
    np.save(work / "in/y.npy", y.astype(np.float32))
    pictures.imsave(work / "in/y.png", np.stack([eight] * 3, -1))  # gray in three channels: looked at, then read
    pictures.imsave(work / "in/y.jpg", eight)
    pictures.imsave(work / "in/y.tif", (65535 * y.clip(0, 1)).astype(np.uint16))
    fits("y.fits", y)
    with h5py.File(work / "in/y.h5", "w") as f:
        f["image"] = y
    with h5py.File(work / "in/parts.h5", "w") as f:
        f["measurements/0"], f["weights/0"] = y, np.ones_like(y)
    one = {"y.npy": 1, "y.png": 1, "y.jpg": 1, "y.tif": 1, "y.fits": CFITSIO, "y.h5": 1, "parts.h5": 1}
    for name, times in one.items():
        seen = opened(job(JOB.format(name, BLUR, "")), 2)
        alone = name.endswith((".png", ".jpg"))  # decoded from the top, by rank 0
        wanted = {("0", name): times} | ({} if alone else {("1", name): times})
        assert seen == wanted, (name, seen)
    # Whatever else a job reads, on one rank too.
    more = "  truth: in/y.tif\n  weights: in/parts.h5:/weights/0\n  dark: in/dark.npy\n  flat: in/y.fits\n"
    np.save(work / "in/dark.npy", np.full(y.shape, 0.01, np.float32))
    for command in ((), ("check",)):
        seen = opened(job(JOB.format("y.npy", BLUR, more)), 1, *command)
        assert seen == {("0", n): one.get(n, 1) for n in ("y.npy", "y.tif", "parts.h5", "dark.npy", "y.fits")}, (command, seen)
    angles, lines = sinogram(24, 2, 40, 0.0)
    dxchange("in/scan.h5", *counts(lines), angles)
    for ranks in (1, 2):
        seen = opened(job(JOB.format("scan.h5", "{type: tomography}", "")), ranks)
        assert seen == {(str(r), "scan.h5"): 1 for r in range(ranks)}, seen
