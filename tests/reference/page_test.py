# SPDX-License-Identifier: BSD-3-Clause
"""A page of docs as it stands: files that it names are written, its commands run, and the lines that it shows must come.

Usage: page_test.py TESSERA SOURCE PAGE
Runs in .venv-formats (jobs/setup.sh --tests); exit code 77: skipped, with the reason."""

import os
import pathlib
import re
import subprocess
import sys

program, source, page = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
scripts = source / ".venv-formats/bin"
packages = "import astropy, h5py, netCDF4, scipy, tifffile, zarr"
if subprocess.run([scripts / "python", "-c", packages], capture_output=True).returncode if (scripts / "python").exists() else True:
    print("skipped: no .venv-formats, or an older one (jobs/setup.sh --tests makes it)")
    sys.exit(77)

MOST_WORDS = 600  # of a page, its listings not counted
BLOCK = re.compile(r"^(?:`([\w./]+)`:\n\n)?```(\w*)\n(.*?)^```$", re.M | re.S)
text = (source / "docs" / page).read_text()
words = len(BLOCK.sub("", text).split())
assert words <= MOST_WORDS, f"{page} has {words} words, {MOST_WORDS} at most"

work = pathlib.Path(page).stem
subprocess.run(["rm", "-rf", work], check=True)
os.mkdir(work)
os.chdir(work)
os.symlink(source / "jobs", "jobs")
environment = {**os.environ, "PATH": f"{scripts}:{pathlib.Path(program).parent}:{os.environ['PATH']}"}
environment.setdefault("OMP_NUM_THREADS", "1")
printed, files, commands = "", 0, 0
for name, kind, block in BLOCK.findall(text):
    if name:
        pathlib.Path(name).write_text(block)
        files += 1
    elif kind == "bash":
        done = subprocess.run(["bash", "-ec", block], env=environment, text=True, capture_output=True)
        printed = done.stdout + done.stderr
        print(block, printed, sep="\n")
        assert done.returncode == 0, f"exit code {done.returncode}"
        commands += block.count("\n")
    elif not kind:
        for line in block.splitlines():
            assert line in printed.splitlines(), f"'{line}' was not printed"
assert files >= 3 and commands >= 4, (files, commands)
assert "warning" not in printed
print(f"{page}: {words} words, {files} files, {commands} commands")
