# SPDX-License-Identifier: BSD-3-Clause
"""denoising_psnr.sh makes every row, from pictures that are drawn here, and the networks denoise: PROGRAM SOURCE."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

try:
    import h5py, numpy, safetensors.numpy, skimage.data, skimage.io, torch  # noqa: F401, E401
except ImportError as missing:
    print(f"skipped: {missing} (the packages come from .venv; run jobs/setup.sh)")
    sys.exit(77)

program, source = Path(sys.argv[1]), Path(sys.argv[2])
work = Path.cwd() / "denoising_psnr_test"
shutil.rmtree(work, ignore_errors=True)
for folder, picture in (("set12", skimage.data.camera()[100:172, 180:245]), ("set5", skimage.data.astronaut()[40:112, 130:195])):
    (work / folder).mkdir(parents=True)
    skimage.io.imsave(work / folder / "1.png", picture, check_contrast=False)
gray = source / "data/weights/drunet_small_gray.safetensors"
with safetensors.safe_open(gray, "np") as f:
    metadata = f.metadata() | {"sigma_range": "0.1,0.1"}
safetensors.numpy.save_file(safetensors.numpy.load_file(gray), work / "one.safetensors", metadata)
command = [source / "tests/bench/denoising_psnr.sh", "--data", work, "--work", work, "--build", program.parents[1], "--side", "64",
           "--no-stability", "--weights", f"Again={gray}:drunet:gray", "--weights", f"One={work}/one.safetensors:drunet:gray"]
done = subprocess.run(command, text=True, capture_output=True, stdin=subprocess.DEVNULL, env=os.environ | {"TESSERA_PYTHON": sys.executable})
assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

weights = json.loads((work / "weights.json").read_text())["weights"]
shipped = {f.stem for f in (source / "data/weights").glob("drunet_*.safetensors")}
assert set(weights) == shipped | {"Again", "One"}, set(weights)
one = weights.pop("One")
assert one["psnr"] == [None, weights["Again"]["psnr"][1], None], "weights for 0.1 are measured at 25/255 alone"
for name, row in weights.items():
    for level, noisy, reached in zip((15, 25, 50), row["noisy"], row["psnr"]):
        expected = -20 * numpy.log10(level / 255)
        assert abs(noisy - expected) < 0.3 and noisy + 5 < reached < 40, (name, level, noisy, reached)
    assert row["seconds"] > 0
assert weights["Again"]["psnr"] == weights["drunet_small_gray"]["psnr"], "the same weights, the same noise"
page = (work / "weights.md").read_text()
for word in (*weights, f"| One | - | {one['psnr'][1]:.2f} | - |", "BM3D, published", "Set12", "Set5"):
    assert word in page, word
