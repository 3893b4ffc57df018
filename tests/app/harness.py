# SPDX-License-Identifier: BSD-3-Clause
"""What the scenarios share: an empty folder to work in, jobs, runs of the program, and what a run leaves behind."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

scenario, program, source = sys.argv[1], sys.argv[2], Path(sys.argv[3])
sys.path.insert(0, str(source / "tests/support"))
import programs  # noqa: E402
try:
    import h5py
    import numpy as np
    import pictures
except ImportError as missing:
    print(f"skipped: {missing} (the pictures and readers come from .venv; run jobs/setup.sh)")
    sys.exit(77)

work = Path.cwd() / f"whole_runs_{scenario}"
shutil.rmtree(work, ignore_errors=True)
work.mkdir()
launch = str(source / "jobs/launch.sh")
# Small pictures gain nothing from a second thread, and other tests run beside this one. What is about threads, or large:
if scenario not in ("launchers", "photograph_on_four", "documented_jobs", "volumes_of_256", "plan_and_tune", "plan_counts_conjugate_gradients"):
    os.environ.setdefault("OMP_NUM_THREADS", "1")
sanitized = programs.sanitized(program)

NETWORK = "denoiser: {network: drunet, weights: drunet_small_color}"
JOB = f"""\
schema: 1
problem:
  truth: photo.png
  operator: {{type: blur, kernel: {{gaussian: {{sigma: [2.0, 1.0], angle: 30}}}}, boundary: circular}}
  noise: {{gaussian: 0.02}}
  seed: 3
{NETWORK}
solver: {{name: pgd, iterations: 4, sigma: 0.1}}
output: {{folder: out}}
"""
TV = JOB.replace(NETWORK, "denoiser: {network: tv, tv: {iterations: 20, weight: 0.2}}")


def photo(height=80, width=104, name="photo.png", gray=False):
    """A crop of a real photograph; sizes that the network's alignment need not divide."""
    picture = pictures.photograph("camera.png" if gray else "astronaut.png")
    pictures.imsave(work / name, picture[60:60 + height, 150:150 + width])


def job(text=JOB, name="job.yaml"):
    (work / name).write_text(text)
    return str(work / name)


def tessera(*arguments, ranks=1, timeout=programs.limit(program, 240)):
    done = subprocess.run([launch, "-n", str(ranks), program, *map(str, arguments)], cwd=work, text=True,
                          capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, errors="replace")
    return done.returncode, done.stdout, done.stderr


def run(*arguments, ranks=1, expect=0):
    code, out, err = tessera("run", *arguments, ranks=ranks)
    assert code == expect, f"exit code {code}, wanted {expect}\n{out}\n{err}"
    return out, err


def image(folder):
    with h5py.File(work / folder / "reconstruction.h5") as f:
        return f["/image"][...]


def summary(folder):
    return json.loads((work / folder / "summary.json").read_text())


def distance(a, b):
    assert a.shape == b.shape, (a.shape, b.shape)
    return np.linalg.norm((a - b).astype(np.float64).ravel()) / np.linalg.norm(b.astype(np.float64).ravel())


def phases(folder):
    rows = []
    for name in sorted(glob.glob(str(work / folder / "trace" / "rank-*.h5"))):
        with h5py.File(name) as f:
            rows.append(f["/phases"][...])
    return rows


def predicted(path, ranks, *arguments):
    code, out, err = tessera("check", path, "--ranks", ranks, *arguments)
    assert code == 0, out + err
    return int(re.search(r"bytes per iteration: (\d+)", out).group(1)), out


def counted(folder):
    """Bytes that all ranks sent in one iteration, from the trace."""
    total = 0
    for rows in phases(folder):
        inside = rows[rows["iteration"] == 1]
        assert len(inside) > 0
        total += int(inside["bytes_sent"].sum())
    return total


def recorded(folder, rank=0):
    """Iterations in a rank's trace, also while the run writes it."""
    try:
        with h5py.File(work / folder / f"trace/rank-{rank:05}.h5") as f:
            return f["/iterations"]["iteration"].tolist()
    except (OSError, KeyError):
        return []


def same(a, b):
    assert image(a).tobytes() == image(b).tobytes(), (a, b, distance(image(a), image(b)))


def start(*arguments, ranks):
    return subprocess.Popen([launch, "-n", str(ranks), program, "run", *map(str, arguments)], cwd=work, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True)


def ranks_of(folder):
    """Process ids of the ranks of this scenario that write into a folder: other scenarios may run beside it."""
    def ours(pid):
        try:
            return os.readlink(f"/proc/{pid}/cwd") == str(work)
        except OSError:
            return False
    found = subprocess.run(["pgrep", "-f", f"^{re.escape(program)} run .*folder={folder}( |$)"], text=True, capture_output=True).stdout
    return [int(p) for p in found.split() if ours(p)]


def wait_for(what, seconds=120):
    end = time.time() + seconds
    while not what():
        assert time.time() < end, "waited too long"
        time.sleep(0.05)
