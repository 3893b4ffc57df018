# SPDX-License-Identifier: BSD-3-Clause
"""Makes one call of one rank fail, again and again, in a run of 3 ranks with checkpoints, snapshots and traces: sweep.py --help.

The run survives (same bits, exit code 0), or it ends within a limit with exit code 2, 3, 85 or 86, one line that says why, no
rank left running, and `--resume=auto` goes on to the same bits. Anything else is an error."""
import argparse
import collections
import concurrent.futures
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RANKS = 3
LIMIT = 240  # seconds, on a machine that others use too; the watchdog's is 60
JOB = """\
schema: 1
problem:
  truth: {scene: {size: [20, 24], seed: 1, channels: 1}}
  operator: {type: blur, kernel: {gaussian: {sigma: [1.2, 0.9], angle: 30}}, boundary: zero}
  noise: {gaussian: 0.02}
denoiser: {network: tv, tv: {iterations: 4, weight: 0.2}}
solver: {name: pgd, iterations: 8, stop: {rounding: false}}
watchdog: 60
output: {folder: out, snapshots: 4, diagnostics: false, checkpoint: {iterations: 2}}
"""
DISK = ("ENOSPC", "EDQUOT", "EIO", "EINTR", "EROFS", "EFBIG", "short", "ENOSPC every", "EIO every", "sleep=0.3")
ERRORS = {"open": ("EMFILE", "EACCES", "EIO", "EINTR", "ENOSPC", "EMFILE every", "ENOENT"), "write": DISK, "pwrite": DISK,
          "read": ("EIO", "EINTR", "short", "EIO every"), "fsync": ("EIO", "EINTR", "EINVAL", "ENOSPC", "EINVAL every", "EIO every", "sleep=0.5"),
          "rename": ("EIO", "ENOSPC", "EACCES", "EROFS"), "ftruncate": ("EIO", "ENOSPC", "EINTR"), "flock": ("ENOLCK", "EINTR", "EIO"),
          "close": ("EIO", "ENOSPC", "EINTR"), "mkdir": ("ENOSPC", "EACCES"), "unlink": ("EIO", "EACCES"), "new": ("alloc", "alloc every")}
MPI = ("MPI",)
# What the one line says, by the fault.
SAYS = {"ENOSPC": "No space left", "EDQUOT": "quota", "EIO": "Input/output error", "EROFS": "Read-only", "EFBIG": "too large",
        "EMFILE": "Too many open files", "EACCES": "Permission denied", "ENOENT": "No such file", "alloc": "memory", "EINVAL": "Invalid argument"}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "TESSERA_TERMINAL": "0", "OMPI_MCA_mpi_yield_when_idle": "1",
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "CUDA_VISIBLE_DEVICES": ""}
if not shutil.which("ssh"):  # mpirun looks for it, even for ranks on this host alone, and gives up
    ENVIRONMENT["OMPI_MCA_plm"] = "isolated"


class Place:
    """A folder of one disturbed run."""

    def __init__(self, program, library, root):
        self.program, self.library, self.root = program, library, Path(root)
        self.root.mkdir(parents=True)
        (self.root / "job.yaml").write_text(JOB)

    def run(self, *arguments, fault=None, clock=None):
        """(exit code, or None after the limit, what it said, seconds). clock: seconds by which the date jumps back and forth."""
        environment = {**ENVIRONMENT, "TESSERA_PATIENCE": "2"}
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-q", "-n", str(RANKS)]
        if fault or clock:
            environment |= {"TESSERA_FAULT": fault} if fault else {"TESSERA_FAULT_CLOCK": str(clock)}
            environment |= {"TESSERA_FAULT_FOLDER": str(self.root), "TESSERA_FAULT_LOG": str(self.root.with_suffix(".log")),
                            "TESSERA_FAULT_PROGRAM": self.program}
            command += ["-x", f"LD_PRELOAD={self.library}"]
        begin = time.time()
        child = subprocess.Popen([*command, self.program, "run", str(self.root / "job.yaml"), "--resume=auto", *arguments], cwd=self.root, env=environment,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors="replace",
                                 start_new_session=True)
        try:
            said, _ = child.communicate(timeout=LIMIT)
            return child.returncode, said, time.time() - begin
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            self.left_running(kill=True)
            return None, child.communicate()[0], time.time() - begin

    def left_running(self, kill=False):
        found = subprocess.run(["pgrep", "-f", f"^{re.escape(self.program)} run {re.escape(str(self.root))}/job.yaml"], text=True,
                               capture_output=True).stdout.split()
        if kill:
            for pid in found:
                os.kill(int(pid), signal.SIGKILL)
        return found

    def result(self):
        path = self.root / "out/reconstruction.h5"
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def gone(place):
    """Whether all ranks end, in a few seconds."""
    for _ in range(50):
        if not place.left_running():
            return True
        time.sleep(0.1)
    return False


def judge(program, library, folder, fault, wanted):
    """(kind, words) of one fault."""
    place = Place(program, library, folder)
    code, said, seconds = place.run(fault=fault)
    struck = place.root.with_suffix(".log").exists()
    last = said.strip().splitlines()[-3:]
    if code is None:
        return "hung", f"{said[-600:]}"
    if not gone(place):
        place.left_running(kill=True)
        return "ranks left running", str(last)
    if code == 0:
        if place.result() != wanted:
            return "wrong bits", str(last)
        return ("survived" if struck else "not struck"), ""
    if code not in (2, 3, 85, 86):
        return f"exit code {code}", said[-900:]
    lines = [line for line in said.splitlines() if re.match(r"tessera: |rank \d+ (waited|has not)", line)]
    if not lines:
        return "said nothing", said[-600:]
    call, _, _, what = fault.split()[:4]
    name = SAYS.get(what, call if what == "MPI" else "")
    if what == "ENOENT":  # the owner's file is no more there: said in words of its own
        lines = [line.replace("is gone (", "is gone (No such file, ") for line in lines]
    named = any(name in line or ": write error)" in line for line in lines)  # libpng's words for all of them
    checkpoints = sorted((place.root / "out/checkpoint").glob("iteration-*.h5"))
    reached = [int(m) for m in re.findall(r"iteration (\d+)", lines[0])]
    code, said, _ = place.run()
    if code != 0:
        return f"resume: exit code {code}", f"{lines} then {said[-600:]}"
    if place.result() != wanted:
        return "resume: wrong bits", str(lines)
    left = [p.name for p in place.root.rglob("*.tmp")] + [p.name for p in place.root.rglob("owner.json")]
    if left:
        return "resume: left behind", str(left)
    lost = bool(reached) and checkpoints and reached[0] > int(checkpoints[-1].stem.split("-")[1])
    kind = "ended cleanly" + (", work since the last checkpoint lost" if lost else "")
    return kind if named else "ended cleanly, fault not named", f"{lines[0]}"


def plan(counts, number, seed):
    """Faults, spread evenly over kinds of calls and ranks, each call of each rank at random places."""
    cells = []
    for (rank, call), count in sorted(counts.items()):
        for what in ERRORS.get(call, MPI):
            cells.append((rank, call, count, what))
    dice = random.Random(seed)
    dice.shuffle(cells)
    chosen, seen = [], set()
    while len(chosen) < number:
        before = len(chosen)
        for rank, call, count, what in cells:
            fault = f"{call} {rank} {dice.randint(1, count)} {what}"
            if fault not in seen and len(chosen) < number:
                seen.add(fault)
                chosen.append(fault)
        if len(chosen) == before and len(seen) >= sum(c[2] for c in cells):
            break
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("library")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--only", help="one fault, such as 'write 1 17 ENOSPC': shows all that was said")
    parser.add_argument("--folder", help="where the runs write (a new folder in /dev/shm)")
    given = parser.parse_args()
    program, given.library = os.path.realpath(given.program), os.path.realpath(given.library)
    root = Path(given.folder or tempfile.mkdtemp(prefix="tessera-faults-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    try:
        straight = Place(program, given.library, root / "straight")
        code, said, seconds = straight.run(fault="none -1 0 count")
        assert code == 0, said
        wanted = straight.result()
        counts = collections.Counter()
        for line in (root / "straight.log").read_text().splitlines():
            rank, call, count, _ = line.split()
            counts[int(rank), call] += int(count)
        assert len(counts) > 20, "the library counts nothing: is it loaded?"
        if given.only:
            place = Place(program, given.library, root / "only")
            print(place.run(fault=given.only))
            print(judge(program, given.library, root / "again", given.only, wanted))
            return 0
        faults = plan(counts, given.faults, given.seed)
        print(f"a run takes {seconds:.1f} s and makes {sum(counts.values())} calls that may fail; {len(faults)} faults", flush=True)
        table, calls, bad = collections.Counter(), collections.defaultdict(collections.Counter), 0

        def one(item):
            number, fault = item
            folder = root / str(number)
            try:
                return fault, *judge(program, given.library, folder, fault, wanted)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                folder.with_suffix(".log").unlink(missing_ok=True)

        begin = time.time()
        with concurrent.futures.ThreadPoolExecutor(given.at_once) as pool:
            for fault, kind, words in pool.map(one, enumerate(faults)):
                table[kind] += 1
                calls[fault.split()[0]][kind] += 1
                good = kind.startswith(("survived", "not struck", "ended cleanly")) and kind != "ended cleanly, fault not named"
                bad += not good
                print(f"{'' if good else 'BAD '}{fault}: {kind} {words}", flush=True)
        kinds = sorted(table, key=table.get, reverse=True)
        print(f"\n| call | {' | '.join(kinds)} |\n|{'---|' * (len(kinds) + 1)}")
        for call, row in sorted(calls.items()):
            print(f"| {call} | {' | '.join(str(row[k]) for k in kinds)} |")
        print(f"| all | {' | '.join(str(table[k]) for k in kinds)} |")
        print(f"{len(faults)} faults in {time.time() - begin:.0f} s, seed {given.seed}: {bad} bad", flush=True)
        return 1 if bad else 0
    finally:
        if not given.folder:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
