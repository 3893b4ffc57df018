# SPDX-License-Identifier: BSD-3-Clause
"""Every study on tiny sizes: studies.py PROGRAM SOURCE. Exit code 77: skipped, with the reason."""
import csv
import math
import shutil
import subprocess
import sys
import time
from pathlib import Path

program, source = sys.argv[1], Path(sys.argv[2])
try:
    import h5py
    import skimage
except ImportError as missing:
    print(f"skipped: {missing} (readers and photographs come from .venv; run jobs/setup.sh)")
    sys.exit(77)

sys.path.insert(0, str(source / "tests/support"))
from programs import limit  # noqa: E402

work = Path.cwd() / "studies"
shutil.rmtree(work, ignore_errors=True)
work.mkdir()

SHAPE = {"network", "step", "height", "width", "peak_bytes", "weight_bytes", "model_bytes", "seconds"}
COLUMNS = {
    "shape": SHAPE,
    "batch": {"network", "patch", "batch", "peak_bytes", "patches_per_second", "images_per_second", "limit"},
    "layers": {"layer", "variant", "layout", "batch", "side", "bytes", "seconds", "bandwidth_share", "backward_seconds", "backward_bandwidth_share"},
    "kernels": {"kind", "variant", "bytes", "seconds", "bandwidth", "share"},
    "precision": {"image", "precision", "seconds", "peak_bytes", "psnr", "psnr_change"},
    "loader": {"precision", "batch", "workers", "loader_images_per_second", "training_images_per_second", "images_per_second",
               "seconds", "wait_share", "limit"},
    "halo": {"transport", "channels", "width", "bytes", "seconds", "bandwidth", "hidden_fraction"},
}


def study(name, *arguments, ranks=1, folder=None):
    launch = [str(source / "jobs/launch.sh"), "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*launch, program, "study", name, "--out", folder or name, *map(str, arguments)], cwd=work, text=True,
                          capture_output=True, timeout=limit(program, 240), stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def table(name):
    with open(work / name / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def check(name, *arguments, ranks=1):
    code, out, err = study(name, *arguments, ranks=ranks)
    assert code == 0, out + err
    rows = table(name)
    assert rows and COLUMNS[name] <= set(rows[0]), rows[:1]
    for row in rows:
        for key, text in row.items():
            try:
                assert math.isfinite(float(text)), (key, row)
            except ValueError:
                assert text and text not in ("nan", "inf"), (key, row)
    assert all(float(row["seconds"]) > 0 for row in rows if row.get("variant") != "folded")
    with h5py.File(work / name / f"{name}.h5") as file:
        stored = file["rows"][...]
        assert file.attrs["tessera_version"]
    assert list(stored.dtype.names) == list(rows[0]) and len(stored) == len(rows)
    for row, record in zip(rows, stored):
        for key, text in row.items():
            value = record[key].decode() if isinstance(record[key], bytes) else record[key]
            assert text == value if isinstance(value, str) else math.isclose(float(text), value, rel_tol=1e-7), key
    assert out.count("\n") > len(rows) and "jobs/plot_study.py" in out  # the table, and how to draw it
    print(f"{name}: {len(rows)} rows")
    return rows


rows = check("shape", "--scale", 64, "--network", "dncnn")
assert {row["step"] for row in rows} == {"64", "68"} and len(rows) == 17 + 16
for row in rows:  # what the model says is what was measured
    assert abs(float(row["model_error"])) < 0.05, row
rows = check("batch", "--scale", 64, "--network", "dncnn")
assert {row["batch"] for row in rows} == {"1", "2", "4", "8", "16"}
rows = check("kernels", "--scale", 32)
# How much slower strides are is the machine's to say (its caches may hold everything, another program may take its memory's time).
copies = [row for row in rows if row["kind"] == "copy"]
assert [row["variant"] for row in copies] == ["coalesced", "every 2", "every 4", "every 16", "every 64"], copies
for row in copies:
    assert row["bytes"] == copies[0]["bytes"] and math.isclose(float(row["bandwidth"]), float(row["bytes"]) / float(row["seconds"]), rel_tol=1e-4), row
    assert math.isclose(float(row["share"]), float(row["bandwidth"]) / float(copies[0]["bandwidth"]), rel_tol=1e-4), row
assert {row["kind"] for row in rows} >= {"copy", "launch"}, rows

rows = check("layers", "--scale", 32)
assert {row["layout"] for row in rows} == {"NCHW", "NHWC"} and len({row["layer"] for row in rows}) == 6
for row in rows:
    assert (float(row["backward_seconds"]) > 0) == (row["variant"] != "folded"), row
photograph = Path(skimage.__file__).parent / "data/astronaut.png"
rows = check("precision", "--scale", 32, "--image", photograph)
assert float(rows[0]["psnr"]) > float(rows[0]["psnr_noisy"]) + 5
assert all(abs(float(row["psnr_change"])) < 0.5 for row in rows)
rows = check("loader", "--scale", 64, "--image", photograph, "--price", 2.5)
assert all(math.isclose(float(row["price_per_1000"]), 1000 / float(row["images_per_second"]) * 2.5 / 3600, rel_tol=1e-4) for row in rows), rows
assert {row["precision"] for row in rows} == {"float32", "bfloat16"} and {"0", "1", "2"} <= {row["workers"] for row in rows}
for row in rows:
    slower = min(("loader", "training"), key=lambda stage: float(row[f"{stage}_images_per_second"]))
    assert row["limit"] == slower and 0 <= float(row["wait_share"]) < 1 and float(row["dead_leaves"]) == 0.1, row
check("halo", "--scale", 16, ranks=2)

# What cannot be asked.
code, _, err = study("halo", folder="alone")
assert code == 2 and "launch.sh -n 2" in err, err
code, _, err = study("precision", ranks=2, folder="many")
assert code == 2 and "without a launcher" in err and not (work / "many").exists(), err
code, _, err = study("kernels", "--price", 2, folder="priced")
assert code == 2 and "runs no pictures" in err and not (work / "priced").exists(), err
code, _, err = study("color")
assert code == 2 and "shape, batch" in err and "loader" in err, err
code, _, err = study("loader", "--device", "cuda", folder="cuda")
assert code == 2 and "device is cuda" in err and not (work / "cuda").exists(), err
code, _, err = study("loader", "--image", "nowhere", folder="nowhere")
assert code == 2 and "there is no folder nowhere" in err, err
code, _, err = study("shape", "--scale", 64, "--network", "dncnn")
assert code == 2 and "never overwrites" in err, err

# A killed study keeps its rows.
child = subprocess.Popen([program, "study", "layers", "--scale", "32", "--out", "killed"], cwd=work,
                         stdout=subprocess.DEVNULL)
path = work / "killed/layers.csv"
until = time.time() + 60
while time.time() < until and not (path.exists() and len(path.read_text().splitlines()) > 4):
    time.sleep(0.01)
child.kill()
child.wait()
kept = [line for line in path.read_text().splitlines() if line][1:]
with h5py.File(work / "killed/layers.h5") as file:
    stored = len(file["rows"])
assert len(kept) >= 4 and abs(stored - len(kept)) <= 1, (stored, len(kept))

try:
    import matplotlib  # noqa: F401
except ImportError as missing:
    print(f"no pictures: {missing} (run jobs/setup.sh)")
    sys.exit(77)
for name in COLUMNS:
    subprocess.run([sys.executable, source / "jobs/plot_study.py", work / name], check=True)
    for form in ("png", "svg", "pdf"):
        assert (work / name / f"{name}.{form}").stat().st_size > 5000, form
print("studies: passed")
