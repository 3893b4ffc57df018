# SPDX-License-Identifier: BSD-3-Clause
"""What a run of 3 ranks makes of being killed, stopped, started twice, moved, of a network that fails, of small and read-only disks, and
of damage: kills.py --help. Every part ends with the bits of the undisturbed run, or says what is wrong."""
import argparse
import collections
import json
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

from nodes import TwoNodes
from sweep import ENVIRONMENT, gone, Place

LONG = ("--set", "solver.iterations=60", "--set", "output.checkpoint.iterations=1")
EVERY = ("--set", "output.checkpoint.iterations=1")


class Runs:
    def __init__(self, program, root):
        self.program, self.root, self.number = program, Path(root), 0

    def place(self):
        self.number += 1
        return Place(self.program, Path(self.program).parent / "libtessera_faults.so", self.root / f"place{self.number}")

    def start(self, place, *arguments, launcher=("mpirun",)):
        return subprocess.Popen([*launcher, "--oversubscribe", "--bind-to", "none", "-q", "-n", "3", self.program, "run",
                                 str(place.root / "job.yaml"), "--resume=auto", *arguments], cwd=place.root, env=ENVIRONMENT, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True, errors="replace")

    def straight(self, *arguments):
        place = self.place()
        code, said, seconds = place.run(*arguments)
        assert code == 0, said
        return place.result(), seconds


def iterations(place):
    return max((int(p.stem.split("-")[1]) for p in (place.root / "out/checkpoint").glob("iteration-*.h5")), default=0)


def kills(runs, number):
    """kill -9 of a random rank at a random moment, again and again, until each run is done."""
    wanted, seconds = runs.straight(*LONG)
    dice, counts, killed, unread = random.Random(1), collections.Counter(), 0, 0
    while killed < number:
        place = runs.place()
        while place.result() is None and killed < number:
            child = runs.start(place, *LONG)
            if dice.random() < 0.25:  # the start as well
                time.sleep(dice.uniform(0, 0.5) * seconds)
            else:  # by progress: a launch that goes on where another was killed is shorter than the whole run
                there = iterations(place) + 1 + dice.randrange(10)
                while iterations(place) < there and child.poll() is None:
                    time.sleep(0.005)
                time.sleep(dice.uniform(0, 0.03))
            before = iterations(place)
            ranks = place.left_running()
            if ranks:
                try:
                    os.kill(int(dice.choice(ranks)), signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
            said, _ = child.communicate(timeout=60)
            assert gone(place), "ranks left running"
            counts[child.returncode] += 1
            assert child.returncode in (0, 137, 3), (child.returncode, said)
            assert iterations(place) >= before, "a checkpoint was lost"
            unread += unreadable_traces(place)
            if killed % 50 == 0:
                print(f"{killed} kills, exit codes {dict(counts)}", flush=True)
        code, said, _ = place.run(*LONG)
        assert code == 0, said
        assert place.result() == wanted, "wrong bits"
        shutil.rmtree(place.root)
    assert unread == 0, f"{unread} traces cannot be read"
    return f"{killed} kills, every checkpoint and trace readable, the same bits; exit codes {dict(counts)}"


def unreadable_traces(place):
    try:
        import h5py
    except ImportError:
        return 0
    bad = 0
    for path in (place.root / "out").glob("trace*/rank-*.h5"):
        try:
            with h5py.File(path) as file:
                file["/iterations"][...], file["/phases"][...]
        except (OSError, KeyError) as error:
            print(f"{path}: {error}")
            bad += 1
    return bad


def stops(runs, _):
    """SIGSTOP of one rank and of all, for a while and for twice the watchdog's limit, then SIGCONT."""
    wanted, _ = runs.straight(*LONG)
    out = []
    for what, count, pause, limit in (("one rank", 1, 1, 20), ("all ranks", 3, 1, 20), ("all ranks, twice the limit", 3, 6, 3)):
        place = runs.place()
        child = runs.start(place, *LONG, "--set", f"watchdog={limit}")
        while len(place.left_running()) < 3 or iterations(place) < 3:
            assert child.poll() is None, child.communicate()
            time.sleep(0.05)
        ranks = [int(p) for p in place.left_running()][:count]
        for pid in ranks:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(pause)
        for pid in ranks:
            os.kill(pid, signal.SIGCONT)
        said, _ = child.communicate(timeout=60)
        assert child.returncode == 0, (what, child.returncode, said)
        assert place.result() == wanted
        out.append(f"{what}, {pause} s")
    return "went on: " + "; ".join(out)


def twice(runs, _):
    """Two launches of the same job, 0 to 5 s apart: one wins, the other says who has the folder, exit code 2."""
    wanted, seconds = runs.straight(*LONG)
    out = []
    for apart in (0, 0.05, 0.3, 1, 2, 5):
        place = runs.place()
        long = (*LONG[:1], "solver.iterations=400", *LONG[2:])
        first = runs.start(place, *long)
        time.sleep(apart)
        second = runs.start(place, *long)
        ends = []
        for _ in range(1200):
            ended = [c for c in (first, second) if c.poll() is not None]
            if ended:
                break
            time.sleep(0.05)
        loser = ended[0]
        said = loser.communicate()[0]
        assert loser.returncode == 2 and "is in use (tessera on" in said or "was made by another run" in said, (apart, loser.returncode, said)
        winner = second if loser is first else first
        assert winner.poll() is None
        said, _ = winner.communicate(timeout=120)
        assert winner.returncode == 0, said
        out.append(f"{apart:g} s")
        del ends
    return f"one of two launches won each time: {', '.join(out)} apart"


def moved(runs, _):
    """A folder that is moved while its run is stopped goes on where it is; one moved under a running run ends it cleanly."""
    wanted, _ = runs.straight(*LONG)
    place = runs.place()
    child = runs.start(place, *LONG)
    while iterations(place) < 5:
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGTERM)
    child.communicate(timeout=60)
    assert gone(place)
    (place.root / "out").rename(place.root / "elsewhere")
    done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-q", "-n", "3", runs.program, "run", "elsewhere", "--resume"], cwd=place.root,
                          capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0, done.stderr
    (place.root / "elsewhere").rename(place.root / "out")
    assert place.result() == wanted
    return "went on with the same bits"


def disks(runs, _):
    """A disk that fills up in the middle, and one that is read-only from the start."""
    if os.getuid() != 0:
        return "skipped: it takes root to mount"
    wanted, _ = runs.straight(*LONG)
    out = []
    for what in ("full", "read-only"):
        place = runs.place()
        mount = place.root / "out"
        mount.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", mount], check=True)
        try:
            if what == "read-only":
                subprocess.run(["mount", "-o", "remount,ro", mount], check=True)
                code, said, _ = place.run(*LONG)
                assert code == 2 and "Read-only file system" in said, (code, said)
                out.append("read-only: exit code 2")
                continue
            child = runs.start(place, *LONG)
            while iterations(place) < 3:
                assert child.poll() is None, child.communicate()
                time.sleep(0.02)
            try:
                with open(mount / "filler", "wb") as filler:
                    while filler.write(bytes(4096)):
                        filler.flush()
            except OSError:
                pass
            said, _ = child.communicate(timeout=90)
            assert child.returncode == 3 and "No space left" in said, (child.returncode, said)
            assert "could not be written" in said and "trace" in said or "goes on from" in said, said
            (mount / "filler").unlink()
            code, said, _ = place.run(*LONG)
            assert code == 0, said
            assert place.result() == wanted
            out.append("full: the iterations went on without checkpoints, exit code 3 at the result, --resume=auto the same bits")
        finally:
            subprocess.run(["umount", mount], check=True)
    return "; ".join(out)


def damage(runs, number):
    """A flipped bit at every place of the newest checkpoint (or at `number` of them): the run falls back, or refuses it."""
    program = runs.program
    place = runs.place()
    code, said, _ = place.run(*EVERY, "--set", "solver.iterations=4", "--set", "output.checkpoint.keep=1")
    assert code == 0, said
    newest = sorted((place.root / "out/checkpoint").glob("iteration-*.h5"))[-1]
    whole = newest.read_bytes()
    dice = random.Random(2)
    places = sorted(dice.sample(range(len(whole)), min(number, len(whole))))
    kinds = collections.Counter()
    resume = [program, "run", str(place.root / "out"), "--resume", "--set", "solver.iterations=4"]
    for at in places:
        flipped = bytearray(whole)
        flipped[at] ^= 1 << dice.randrange(8)
        newest.write_bytes(flipped)
        done = subprocess.run(resume, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""})
        if done.returncode == 2 and "is damaged" in done.stderr:
            kinds["refused"] += 1
        else:
            assert done.returncode == 0, (at, done.returncode, done.stderr)
            kinds["harmless"] += 1  # a byte that nothing means: the run had nothing left to do
    return f"{len(places)} of {len(whole)} places: {dict(kinds)}"


def network(runs, number):
    """Ranks 0 and 1 on a node, rank 2 on another, whose network fails at random moments: for a second, and for good."""
    if os.getuid() != 0 or not shutil.which("ip"):
        return "skipped: it takes root and iproute2 to make nodes"
    long = (*LONG[:1], "solver.iterations=400", *LONG[2:])
    dice, said_so, longest, limit = random.Random(3), collections.Counter(), 0, 3
    with tempfile.TemporaryDirectory(prefix="tessera-network-") as folder, TwoNodes(Path(folder)) as nodes:
        runs = Runs(runs.program, folder)  # nodes have a /dev/shm of their own
        wanted, _ = runs.straight(*long)

        def cut_off(place, watchdog):
            child = runs.start(place, *long, "--set", f"watchdog={watchdog}", launcher=nodes.launcher(2))
            there = iterations(place) + 1 + dice.randrange(100)
            while iterations(place) < there:
                assert child.poll() is None, child.communicate()
                time.sleep(0.005)
            time.sleep(dice.uniform(0, 0.05))
            nodes.cut()
            return child

        def ends_well(place, child):
            said, _ = child.communicate(timeout=120)
            assert child.returncode == 0, (child.returncode, said)
            assert place.result() == wanted, "wrong bits"

        for i in range(number):
            place = runs.place()
            child = cut_off(place, 60)
            time.sleep(1)
            nodes.mend()
            ends_well(place, child)

            place = runs.place()
            child = cut_off(place, limit)
            begin = time.time()
            while place.left_running():
                assert time.time() - begin < 60, "ranks left running"
                time.sleep(0.1)
            longest = max(longest, time.time() - begin)
            nodes.end_launcher()
            said, _ = child.communicate(timeout=60)
            words = said + "".join(path.read_text() for path in (place.root / "out/log").glob("rank-*.txt"))
            found = re.search(r"rank \d waited \d+ s for (?:rank \d|the others) in (\w+), iteration \d+ \(", words)
            assert found, words
            said_so[found[1]] += 1
            nodes.mend()
            ends_well(place, runs.start(place, *long, launcher=nodes.launcher(2, nodes.NAMES[:: -1 if i % 2 else 1])))
    return (f"{number} times for a second: went on, the same bits; {number} times for good: all ranks ended within {longest:.0f} s (the watchdog's "
            f"limit is {limit} s), and said where: {dict(said_so)}; --resume=auto from either node the same bits")


def clocks(runs, _):
    """The date jumps back and forth by a minute, an hour, a year, on each rank at other moments: nothing but dates that are shown may change."""
    wanted, _ = runs.straight(*LONG)
    out = []
    for seconds in (60, 3600, 31536000):
        place = runs.place()
        code, said, took = place.run(*LONG, clock=seconds)
        readings = [int(line.split()[2]) for line in place.root.with_suffix(".log").read_text().splitlines() if " clock " in line]
        assert len(readings) == 3 and readings[0] > 20, readings  # rank 0 dates its log and its status
        assert code == 0, (seconds, code, said)
        assert place.result() == wanted, "wrong bits"
        table = json.loads((place.root / "out/summary.json").read_text())
        assert 0 < table["seconds"] < took, (table["seconds"], took)
        out.append(f"{seconds} s ({sum(readings)} readings)")
    return f"the same bits, and durations below the run's: {', '.join(out)}"


PARTS = {part.__name__: part for part in (kills, stops, twice, moved, network, disks, clocks, damage)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--places", type=int, default=200)
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="tessera-kills-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    bad = 0
    try:
        for name in [given.only] if given.only else PARTS:
            begin = time.time()
            try:
                number = {"damage": given.places, "network": given.cuts}.get(name, given.kills)
                said = PARTS[name](Runs(os.path.realpath(given.program), root / name), number)
                print(f"{name}: {said} ({time.time() - begin:.0f} s)", flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                bad += 1
                print(f"BAD {name}: {error}", flush=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
