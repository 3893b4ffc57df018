# SPDX-License-Identifier: BSD-3-Clause
"""The program, and how it is started."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

BAD_INPUT, FAILED, CHECKPOINTED, STOPPED = 2, 3, 85, 86


class Error(Exception):
    """What the program refused, or why it failed, in its own words: <problem> (<why>) <what to do>. `code`: its exit code."""

    def __init__(self, message: str, code: int = BAD_INPUT):
        super().__init__(message)
        self.code = code


INSTALLED = Path(__file__).resolve().parent / "bin"  # of a wheel


def find_program() -> Path:
    """$TESSERA, else that of this package, else the build of the clone that it lies in, else `tessera` on the PATH."""
    named = os.environ.get("TESSERA")
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise Error(f"TESSERA is {named} (no program is there) name the built program, build/release/bin/tessera")
        return Path(named).resolve()
    for built in (INSTALLED / "tessera", Path(__file__).resolve().parents[2] / "build/release/bin/tessera"):
        if os.access(built, os.X_OK):
            return built
    on_path = shutil.which("tessera")
    if on_path:
        return Path(on_path).resolve()
    raise Error("no program tessera was found (it is neither in $TESSERA nor on the PATH) build it with jobs/quickstart.sh and "
                "set TESSERA to build/release/bin/tessera of that clone")


def environment() -> dict[str, str]:
    """Of programs that are started: with the Open MPI that pip installed, where it did."""
    out, folder = dict(os.environ), Path(sys.prefix) / "lib"
    if (folder / "libmpi.so.40").exists():
        out["LD_LIBRARY_PATH"] = ":".join(filter(None, (str(folder), out.get("LD_LIBRARY_PATH"))))
    return out


def launcher(program: Path, ranks: int) -> list[str]:
    """The command before the program on so many ranks: launch.sh of the program's clone, else mpirun."""
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise Error(f"ranks is {ranks!r} (a run has one rank or more) write a whole number")
    for script in (program.parent / "tessera-launch", *(folder / "jobs/launch.sh" for folder in program.parents)):
        if script.exists():
            return [str(script), "-n", str(ranks)]
    if ranks == 1:
        return []
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        raise Error(f"ranks is {ranks} (there is no launcher: neither jobs/launch.sh beside {program} nor mpirun on the PATH) "
                    "install Open MPI, or write ranks=1")
    return [mpirun, "-n", str(ranks)]


def main() -> None:
    """The command `tessera` of an installed package."""
    program = find_program()
    os.execve(program, [str(program), *sys.argv[1:]], environment())


def launch() -> None:
    """The command `tessera-launch`: jobs/launch.sh."""
    script = INSTALLED / "tessera-launch"
    os.execve(script, [str(script), *sys.argv[1:]], environment())


def message(text: str) -> str:
    """Of what a failed run said, its last word without the progress."""
    lines = [line for line in text.splitlines() if line.strip()]
    own = [line.removeprefix("tessera: ").removeprefix("error: ") for line in lines
           if not line.startswith(("iteration ", "note: ", "---", "prterun", "mpirun"))]
    return own[-1] if own else "the run failed without a word"


def raised(error: BaseException) -> str:
    """A line of what was raised."""
    return str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error} (a function that was passed raised it) correct it"


def ask(arguments: list[str], folder: Path | str = ".", ranks: int = 1) -> str:
    """What a command prints. Error: what it refused."""
    program = find_program()
    done = subprocess.run([*launcher(program, ranks), str(program), *arguments], cwd=folder, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, errors="replace", env=environment())
    if done.returncode:
        raise Error(message(done.stderr or done.stdout), done.returncode)
    return done.stdout
