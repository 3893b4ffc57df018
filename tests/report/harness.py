# SPDX-License-Identifier: BSD-3-Clause
"""What the tests share: the source folder, an empty folder to work in, packages that may be missing, scripts of jobs/."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(sys.argv.pop(1))
WORK = Path.cwd() / Path(sys.argv[0]).stem


def need(*packages):
    """Ends the test as skipped where a package cannot be imported."""
    try:
        for package in packages:
            importlib.import_module(package)
    except ImportError as missing:
        print(f"skipped: {missing} (set-up puts it into .venv)")
        sys.exit(77)


def empty_work():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()


def script(name, *arguments):
    """A finished script of jobs/, run as users run it."""
    return subprocess.run(
        [sys.executable, "-B", str(SOURCE / "jobs" / name), *map(str, arguments)],
        cwd=WORK,
        text=True,
        capture_output=True,
        timeout=200,
    )
