# SPDX-License-Identifier: BSD-3-Clause
"""Runs: in a process of their own, watched by their status file."""
from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any, Callable

from .core import named
from .jobs import Job, plain
from .program import CHECKPOINTED, STOPPED, Error, ask, environment, find_program, launcher, message
from .result import Result


class _Place:
    """A temporary folder that goes with this object."""

    def __init__(self, path: Path):
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)


def settings_of(settings: dict | None) -> list[str]:
    if settings is not None and not isinstance(settings, dict):
        raise Error(f"settings are of type {type(settings).__name__} (keys over the job's) pass a dict, {{'solver.iterations': 8}}")
    return [word for key, value in (settings or {}).items() for word in ("--set", f"{key}={_text(plain(value, str(key)))}")]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_text(v)}" for k, v in value.items()) + "}"
    if value is None:
        return "null"
    return str(value)


def _bar(show: bool | None):
    """A progress bar of tqdm where it is installed and somebody looks; else nothing."""
    if show is False or (show is None and not sys.stderr.isatty() and "ipykernel" not in sys.modules):
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(unit="iteration", leave=False)


def _watch(process: subprocess.Popen, output: Path, show: bool | None, callback: Callable[[dict], None] | None) -> None:
    bar, seen = _bar(show), None
    status = output / "status.json"
    try:
        while process.poll() is None:
            time.sleep(0.05)
            try:
                stamp = status.stat().st_mtime_ns
                if stamp == seen or not (bar is not None or callback):
                    continue
                state = Result(output).status
            except (OSError, ValueError, Error):
                continue
            seen = stamp
            if bar is not None:
                bar.total = state["iterations"]
                bar.update(state["iteration"] - bar.n)
                bar.set_postfix_str(f"chi2 {state['chi2']:.3g}" if state.get("chi2") is not None else "")
            if callback:
                callback(state)
    finally:
        if bar is not None:
            bar.close()


def _finish(folder: Path) -> None:
    """The picture of a run that was stopped: its checkpoint, without a further iteration."""
    done = Result(folder).status["iteration"]
    if done > 0 and not Result(folder).finished:
        ask(["run", str(folder), "--resume", "--set", f"solver.iterations={done}"])


def _end_with_us() -> None:
    """In the child: it gets SIGTERM, and writes its checkpoint, where Python is killed."""
    death = 1  # PR_SET_PDEATHSIG of Linux
    ctypes.CDLL(None).prctl(death, signal.SIGTERM)


def run(job: dict | str | Path, ranks: int = 1, *, folder: str | Path | None = None, settings: dict | None = None,
        resume: bool = False, force: bool = False, progress: bool | None = None,
        callback: Callable[[dict], None] | None = None) -> Result:
    """Runs a job and returns what it left.

    job: a dict with the keys of a job file, in which arrays (numpy, torch, xarray, dask) may stand for files and paths are
    relative to the current directory; or the path of a job file; with `resume` also the output folder of a run.
    ranks: MPI ranks on this machine. folder: where the results go; without it, what the job says, and without that a
    temporary folder that lives as long as the result. settings: keys over the job's, {"solver.iterations": 8}.
    force: write into a folder that holds something. progress: a bar (tqdm); None: where somebody looks.
    callback: called with status (a dict: iteration, iterations, residual, chi2, psnr, ...) as it changes.

    Ctrl-C ends the run after the iteration that it is in and returns what there is; the folder can go on with resume=True.
    Error: what the program refused, in its words.
    """
    program = find_program()
    command = launcher(program, ranks)
    place = Path(tempfile.mkdtemp(prefix="tessera-"))
    kept = _Place(place)
    if folder is None and isinstance(settings, dict) and "output.folder" in settings:
        folder = settings["output.folder"]
    own = {k: v for k, v in settings.items() if k != "output.folder"} if isinstance(settings, dict) else settings
    arguments = settings_of(own)
    last = False
    if resume and not isinstance(job, dict) and Path(job).is_dir():
        output, source = Path(job), Path(job)
    else:
        written = Job(job, place, place / "out")
        last, source = written.last, written.path
        if folder is not None:
            arguments += ["--set", f"output.folder={Path(folder).absolute()}"]
        elif not isinstance(job, dict):
            arguments += [] if _names_folder(source) else ["--set", f"output.folder={place / 'out'}"]
        output = Path(folder).absolute() if folder is not None else _output(source, place / "out")
    words = [*command, str(program), "run", str(source), *arguments]
    words += ["--resume"] if resume else ["--force"] if force else []
    with open(place / "said", "w+") as said:
        process = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment(),
                                   start_new_session=True, preexec_fn=_end_with_us)
        try:
            try:
                _watch(process, output, progress, callback)
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)
                process.wait()
        except BaseException:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
            raise
        said.seek(0)
        text = said.read()
    code = process.returncode
    stopped = code in (CHECKPOINTED, STOPPED) and (output / "status.json").exists()
    if code and not stopped:
        raise Error(named(message(text), place), code)
    if stopped:
        _finish(output)
    result = Result(output, last, kept)
    result.interrupted = stopped
    return result


def _section(path: Path) -> dict:
    import yaml

    try:
        tree = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError):
        return {}  # the program says what is wrong with it, and where
    section = tree.get("output") if isinstance(tree, dict) else None
    return section if isinstance(section, dict) else {}


def _names_folder(path: Path) -> bool:
    return "folder" in _section(path)


def _output(path: Path, otherwise: Path) -> Path:
    folder = _section(path).get("folder")
    return otherwise if folder is None else (path.absolute().parent / str(folder))


def _asked(command: str, job: dict | str | Path, arguments: list[str]) -> str:
    with tempfile.TemporaryDirectory(prefix="tessera-") as name:
        written = Job(job, Path(name), Path(name) / "out")
        try:
            return ask([command, str(written.path), *arguments])
        except Error as error:
            raise Error(named(str(error), Path(name)), error.code) from None


def check(job: dict | str | Path, settings: dict | None = None) -> str:
    """What `tessera check` says of a job: how its data are read, what is chosen, memory and time. Error: what it refuses."""
    return _asked("check", job, settings_of(settings))


def plan(job: dict | str | Path, *arguments: str, settings: dict | None = None) -> str:
    """What `tessera plan` predicts; further arguments as on the command line ("--ranks", "1,2,4")."""
    return _asked("plan", job, [*map(str, arguments), *settings_of(settings)])
