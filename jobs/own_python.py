# SPDX-License-Identifier: BSD-3-Clause
"""Scripts that are started with a Python that lacks their packages, or with those that PYTHONPATH brings for another Python, go
on with that of the tree's .venv. (PYTHONHOME would end any but its own before the first line: their own first line unsets it.)

    if __name__ == "__main__":
        need("numpy", "h5py")       # before these are imported
"""
import importlib.util
import os
import sys
from pathlib import Path

TRIED = "TESSERA_OWN_PYTHON"  # set for the Python that a script has begun anew with


def need(*packages):
    """Returns where all packages are there. Otherwise the script begins anew, or ends with one line and exit code 2."""
    tried = os.environ.pop(TRIED, None)
    python = Path(__file__).resolve().parent.parent / ".venv/bin/python"
    foreign = not tried and "PYTHONPATH" in os.environ and python.exists()
    missing = next((name for name in packages if importlib.util.find_spec(name) is None), None)
    if missing is None and not foreign:
        return
    if python.exists() and not tried:
        os.environ[TRIED] = "1"
        os.environ.pop("PYTHONPATH", None)
        os.environ.pop("PYTHONHOME", None)
        os.execv(python, [str(python), *sys.argv])
    print(f"{Path(sys.argv[0]).stem}: {missing} is not installed (it comes with the project's .venv) run jobs/setup.sh, then "
          f".venv/bin/python {sys.argv[0]}", file=sys.stderr)
    sys.exit(2)
