# SPDX-License-Identifier: BSD-3-Clause
"""The photograph of docs/tutorial.md, made and restored by its own words: the figures and no warning.

usage: tutorial.py SOURCE_DIR TESSERA
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

try:
    import skimage  # noqa: F401
except ImportError:
    print("skipped: no scikit-image (set-up puts it into .venv)")
    sys.exit(77)

source, program = Path(sys.argv[1]), sys.argv[2]
page = (source / "docs/tutorial.md").read_text()
work = Path.cwd() / "tutorial_test"
shutil.rmtree(work, ignore_errors=True)
(work / "mine").mkdir(parents=True)
shutil.copyfile(source / "data/jobs/own_photo.yaml", work / "mine/job.yaml")
[example] = re.findall(r"<<'PYTHON'\n(.*?)^PYTHON$", page, re.S | re.M)
subprocess.run([sys.executable, "-c", example], cwd=work, check=True)


def said(*words):
    done = subprocess.run([program, *words], cwd=work, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


assert "warning" not in (text := said("run", "mine/job.yaml")), text
for picture in ("photo.png", "restored/reconstruction.png"):
    [told] = re.findall(rf"tessera compare mine/{picture} mine/sharp.png +# PSNR ([\d.]+) dB", page)
    found = re.search(r"PSNR (\S+) dB", said("compare", f"mine/{picture}", "mine/sharp.png"))[1]
    assert abs(float(found) - float(told)) < 0.05, (picture, found, told)
    print(picture, found)
