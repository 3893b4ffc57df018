# SPDX-License-Identifier: BSD-3-Clause
"""restoration.sh --quick makes every row, and a network restores better than the Wiener filter: PROGRAM SOURCE."""
import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

try:
    import h5py, matplotlib, pandas, scipy, skimage  # noqa: F401, E401
except ImportError as missing:
    print(f"skipped: {missing} (the packages come from .venv; run jobs/setup.sh)")
    sys.exit(77)

program, source = Path(sys.argv[1]), Path(sys.argv[2])
work = Path.cwd() / "restoration_test"
shutil.rmtree(work, ignore_errors=True)
command = [source / "tests/bench/restoration.sh", "--quick", "--work", work, "--build", program.parents[1]]
done = subprocess.run([*command, "--without", "BM3D"], text=True, capture_output=True, stdin=subprocess.DEVNULL,
                      env=os.environ | {"TESSERA_RESTORATION_PYTHON": sys.executable})
assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

with open(work / "results.csv") as file:
    rows = list(csv.DictReader(file))
cells, methods = {r["cell"] for r in rows}, {r["method"] for r in rows}
assert len(cells) == 2, cells
assert methods == {"measurement", "Wiener", "Richardson-Lucy", "TV", "PnP hqs", "PnP admm"}, methods
found = {(r["cell"], r["picture"], r["method"]): float(r["psnr"]) for r in rows}
assert len(found) == len(rows) == 2 * 2 * 6, len(rows)

for (cell, picture, method), psnr in found.items():
    if method == "Richardson-Lucy" and "missing" in cell:
        assert psnr != psnr, (cell, picture, method, psnr)  # does not apply: NaN
    else:
        # Every method is worth something: better than the measurement, but not perfect.
        assert method == "measurement" or found[cell, picture, "measurement"] < psnr < 45, (cell, picture, method, psnr)
for picture in ("camera", "astronaut"):
    for cell in cells:
        for method in ("PnP hqs", "PnP admm"):
            assert found[cell, picture, method] > found[cell, picture, "Wiener"] + 0.3, (cell, picture, method, found)

page = (work / "results.md").read_text()
for word in ("Wiener", "| data |", "| RL |", "| TV |", "| hqs |", "| admm |", *cells, "Where PnP is not first"):
    assert word in page, word
chosen = {r["method"]: float(r["note"]) for r in rows if r["method"] in ("Wiener", "TV")}
assert all(value > 0 for value in chosen.values()) and len(chosen) == 2, chosen
