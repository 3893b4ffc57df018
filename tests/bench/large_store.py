#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A volume larger than memory from one OME-Zarr to another: beads under a Gaussian, written by zarr-python by blocks, restored
by ranks with a fixed memory each, opened by the reference reader. Counted: what the ranks read of the store, what is resident.

  tests/bench/large_store.py PROGRAM                          20 GB, 4 ranks of 2 GiB
  tests/bench/large_store.py PROGRAM --size 8MB --memory 300MiB        seconds

Needs 25 times the size free in --folder, nearly all of it for the scratch files of the ranks: ten images in float32."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from large import bytes_of, skip_in_memory, source

python = source / ".venv-formats/bin/python"
if Path(sys.prefix).resolve() != python.parent.parent.resolve():
    if not python.exists():
        print("skipped: no .venv-formats (jobs/setup.sh --tests installs zarr and ome-zarr)")
        sys.exit(77)
    os.execv(python, [str(python), "-B", *sys.argv])

import numpy as np  # noqa: E402
import zarr  # noqa: E402

STORE = "beads.ome.zarr"
JOB = """\
problem:
  measurements: beads.ome.zarr
  operator: {{type: blur, kernel: {{gaussian: {{sigma: [1.5, 1.2, 1.2]}}}}, boundary: reflect}}
  noise: {{poisson: 1, gaussian: 20, unit: file}}
  scale: {{offset: 100, factor: 4000}}
solver: {{name: richardson_lucy, iterations: {iterations}}}
memory: {memory}
scratch: always
scratch_folder: {folder}
output: {{folder: out, preview: none, diagnostics: false, also: restored.ome.zarr, checkpoint: {{keep: 0}}}}
"""


def beads(origin, shape, side):
    """Beads on a lattice that is shifted by place, blurred, with noise; any block alone, the same numbers."""
    step = 24
    axes = [np.arange(o, o + n) for o, n in zip(origin, shape)]
    lines = [np.exp(-0.5 * (((a + step // 2) % step - step // 2) / s) ** 2) for a, s in zip(axes, (2.2, 1.8, 1.8))]
    noise = np.random.default_rng([*origin]).standard_normal(shape, dtype="f4")
    picture = 300 + 3000 * lines[0][:, None, None] * lines[1][:, None] * lines[2] + 20 * noise
    return np.clip(picture, 0, 65535).astype(np.uint16)


def make(path, shape, chunk):
    group = zarr.open_group(str(path), mode="w", zarr_format=3)
    array = group.create_array("0", shape=shape, chunks=chunk, dtype="uint16")
    for corner in np.ndindex(*(-(-n // c) for n, c in zip(shape, chunk))):
        low = [k * c for k, c in zip(corner, chunk)]
        size = [min(c, n - o) for c, n, o in zip(chunk, shape, low)]
        array[tuple(slice(o, o + n) for o, n in zip(low, size))] = beads(low, size, shape)
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{
        "axes": [{"name": a, "type": "space", "unit": "micrometer"} for a in "zyx"],
        "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [0.3, 0.1, 0.1]}]}]}]}


def bytes_below(path):
    return sum(p.stat().st_size for p in Path(path).rglob("*") if p.is_file())


def run_ranks(program, ranks, work):
    """Bytes of the chunks that all ranks opened, each time they did, and the seconds it took."""
    start = time.time()
    opens = next(Path(program).parent.glob("*tessera_opens.so"))  # tests/app/opens.cpp
    done = subprocess.run([str(source / "jobs/launch.sh"), "-n", str(ranks), program, "run", "job.yaml", "--force"], text=True,
                          capture_output=True, cwd=work,
                          env={**os.environ, "LD_PRELOAD": str(opens), "TESSERA_OPENS": str(work / STORE), "OMP_NUM_THREADS": "1"})
    if done.returncode:
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    names = [line.split(" ", 1)[1] for line in (work / f"{STORE}.opens").read_text().splitlines()]
    return sum((work / STORE / name).stat().st_size for name in names if (work / STORE / name).is_file()), time.time() - start


def check_result(path, shape, before):
    """By the reference reader: axes, scales and levels; by zarr-python: values of some blocks, and against the data."""
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader
    (node,) = [n for n in Reader(parse_url(str(path)))() if n.data]
    assert [a["name"] for a in node.metadata["axes"]][-3:] == ["z", "y", "x"], node.metadata["axes"]
    scale = node.metadata["coordinateTransformations"][0][0]["scale"]
    assert np.allclose(scale[-3:], [0.3, 0.1, 0.1]), scale
    assert node.data[0].shape[-3:] == shape and len(node.data) > 1, [d.shape for d in node.data]
    finest = zarr.open_array(str(path) + "/" + node.metadata.get("datasets", [{"path": "0"}])[0]["path"], mode="r")
    sharper = 0
    for z in (0, shape[0] // 2, shape[0] - 24):
        # a whole period of the lattice, so that what blur has spread is in it
        at = (slice(z, z + 24), slice(48, 96), slice(shape[2] - 96, shape[2] - 48))
        got, data = np.asarray(finest[(0,) * (finest.ndim - 3) + at]), np.asarray(before[at], "f4")
        assert np.isfinite(got).all() and abs(got.mean() / data.mean() - 1) < 0.02, (z, got.mean(), data.mean())
        sharper += got.max() > 1.1 * data.max()
    assert sharper >= 2, "the beads are no sharper than in the data"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("program")
    a.add_argument("--size", type=bytes_of, default=bytes_of("20GB"), help="of the volume as it is stored, uint16")
    a.add_argument("--memory", default="2 GiB")
    a.add_argument("--ranks", type=int, default=4)
    a.add_argument("--iterations", type=int, default=3)
    a.add_argument("--folder", help="where files lie (a temporary one)")
    o = a.parse_args()
    skip_in_memory(o.folder)
    o.program = os.path.abspath(o.program)
    n = round((o.size / 32) ** (1 / 3))
    shape = (n, 4 * n, 4 * n)
    chunk = (max(8, min(64, n // 8)), *[max(32, min(128, n // 2))] * 2)  # many in the part of a rank, whatever the size
    with tempfile.TemporaryDirectory(dir=o.folder) as folder:
        work = Path(folder)
        start = time.time()
        make(work / STORE, shape, chunk)
        stored, made = bytes_below(work / STORE), time.time() - start
        (work / "job.yaml").write_text(JOB.format(iterations=o.iterations, memory=o.memory, folder=work))
        read, seconds = run_ranks(o.program, o.ranks, work)
        summary = json.loads((work / "out/summary.json").read_text())
        ratio = read / stored
        resident, memory = max(summary["resident_peak_bytes_per_rank"]), bytes_of(o.memory)
        disk = summary.get("scratch", {})
        print(f"{shape[0]} x {shape[1]} x {shape[2]}, {np.prod(shape) * 2 / 1e9:.3g} GB ({stored / 1e9:.3g} GB stored, made in {made:.0f} s); "
              f"{o.ranks} ranks, memory {o.memory}: read {ratio:.2f} of the store, resident {resident / 1e6:.0f} MB "
              f"({100 * resident / memory:.0f} %), scratch {sum(disk.get('bytes_per_rank', [0])) / 1e9:.2f} GB, "
              f"{summary['seconds_per_iteration']:.3g} s per iteration, {seconds:.0f} s in all", flush=True)
        check_result(work / "out/restored.ome.zarr", shape, zarr.open_array(str(work / STORE / "0"), mode="r"))
        assert disk, "nothing lay in a scratch file"
        assert resident <= 1.25 * memory, (resident, memory)  # a page fault brings a megabyte, while others wait for cores
        # Chunks are read whole, those at the seams of parts by each rank that needs them: 2 x 2 parts at most meet so.
        seams = sum(c / m * 2 for c, m in zip(chunk, shape))
        assert 0.9 < ratio < 1.1 + seams, (ratio, seams)


if __name__ == "__main__":
    main()
