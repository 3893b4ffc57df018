# SPDX-License-Identifier: BSD-3-Clause
"""Scripts that users call, started with a Python without packages: they go on with the tree's, or end in one line.

usage: own_python.py SOURCE_DIR
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

source = Path(sys.argv[1])
SCRIPTS = [f.stem for f in sorted((source / "jobs").glob("*.py")) if "from own_python import" in f.read_text()]


def bare(script, *arguments):
    """Without site-packages."""
    return subprocess.run([sys.executable, "-S", script, *arguments], text=True, capture_output=True, stdin=subprocess.DEVNULL)


def main():
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        shutil.copytree(source / "jobs", tree / "jobs")
        files = [tree / f"jobs/{name}.py" for name in SCRIPTS]
        cell = tree / "tests/support/cell.py"
        cell.parent.mkdir(parents=True)
        shutil.copyfile(source / "tests/support/cell.py", cell)

        def one_line(file):
            done = bare(file, "x")
            assert done.returncode == 2 and done.stderr.count("\n") == 1, (file.name, done)
            assert done.stderr.startswith(f"{file.stem}: ") and ".venv/bin/python" in done.stderr, done.stderr

        for file in [*files, cell]:
            one_line(file)

        # A .venv that lacks them too: still one line, and no second start.
        python = tree / ".venv/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
        python.chmod(0o755)
        for file in files:
            one_line(file)

        # One that has them gets the same words.
        python.write_text('#!/bin/sh\necho "with packages: $@"\n')
        for file in files:
            done = bare(file, "a b", "--c")
            assert done.returncode == 0 and done.stdout == f"with packages: {file} a b --c\n", done

        # A module of the site brings packages, or a home, for another Python: neither reaches a script that is started by name.
        site = tree / "site"
        for package in ("numpy", "h5py", "matplotlib", "pandas", "safetensors"):
            (site / package).mkdir(parents=True)
            (site / package / "__init__.py").write_text("raise ImportError('built for another Python')")
        python.write_text('#!/bin/sh\necho "with packages: ${PYTHONPATH-none} ${PYTHONHOME-none}"\n')
        for file in files:
            done = subprocess.run([file, "x"], text=True, capture_output=True, env=os.environ | {"PYTHONPATH": str(site), "PYTHONHOME": "/none"})
            assert (done.returncode, done.stdout) == (0, "with packages: none none\n"), (file, done)
    print(f"{len(SCRIPTS) + 1} scripts")


main()
