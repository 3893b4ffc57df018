# SPDX-License-Identifier: BSD-3-Clause
"""Scripts that are started with a Python that lacks their packages go on with that of the tree's .venv.

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
    missing = next((name for name in packages if importlib.util.find_spec(name) is None), None)
    if missing is None:
        return
    python = Path(__file__).resolve().parent.parent / ".venv/bin/python"
    if python.exists() and not tried:
        os.environ[TRIED] = "1"
        os.execv(python, [str(python), *sys.argv])
    print(f"{Path(sys.argv[0]).stem}: {missing} is not installed (it comes with the project's .venv) run jobs/setup.sh, then "
          f".venv/bin/python {sys.argv[0]}", file=sys.stderr)
    sys.exit(2)
