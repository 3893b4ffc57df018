# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of what must not be lost: two programs in one folder, a disk that fills up, a job that is suspended, leftovers."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from harness import (image, JOB, job, launch, photo, program, ranks_of, recorded, run, same, source, start, tessera, TV, wait_for,
                     work)

ENDLESS = TV.replace("iterations: 4", "iterations: 100000, stop: {rounding: false}")
OFTEN = ("--set", "output.checkpoint.iterations=1")


def checkpoints(folder):
    return sorted(int(p.stem.split("-")[1]) for p in (work / folder / "checkpoint").glob("iteration-*.h5"))


def two_launches():
    """The same job twice: one has the folder, the other says who, and changes nothing. A dead owner's folder is taken over."""
    photo(64, 72)
    path = job(ENDLESS)
    for how in ("--force", "--resume=auto"):
        children = [start(path, "--set", "output.folder=out", *OFTEN, how, ranks=2) for _ in range(2)]
        wait_for(lambda: any(c.poll() is not None for c in children))
        loser = next(c for c in children if c.poll() is not None)
        winner = next(c for c in children if c is not loser)
        _, err = loser.communicate()
        assert loser.returncode == 2 and err.count("tessera: ") == 1 and "out is in use (tessera on" in err, (loser.returncode, err)
        wait_for(lambda: len(recorded("out")) > 3)
        _, err = run(path, "--set", "output.folder=out", "--force", expect=2)  # later, too
        assert "is in use" in err, err
        before = checkpoints("out")
        owner = json.loads((work / "out/owner.json").read_text())
        os.kill(owner["pid"], signal.SIGKILL)
        winner.communicate(timeout=60)
        assert (work / "out/owner.json").exists() and before[-1] <= checkpoints("out")[-1]
    run(path, "--set", "output.folder=out", "--set", f"solver.iterations={checkpoints('out')[-1] + 2}", "--resume=auto", ranks=2)
    assert not (work / "out/owner.json").exists()

    # An owner on another host: it is watched. Silent, it is taken over, and finds out; touched, it is refused.
    child = start(path, "--set", "output.folder=far", *OFTEN, ranks=1)
    wait_for(lambda: len(recorded("far")) > 3)
    owner = json.loads((work / "far/owner.json").read_text()) | {"process": "elsewhere 1 2", "host": "other"}
    (work / "far/owner.json").write_text(json.dumps(owner))  # as a second host would see it; the child still owns it
    _, err = run(path, "--set", "output.folder=far", "--resume=auto", expect=2)
    assert "far is in use (tessera on other" in err, err
    os.kill(owner["pid"], signal.SIGSTOP)  # a lost node
    code, out, err = tessera("run", path, "--set", "output.folder=far", "--resume=auto", "--set", f"solver.iterations={checkpoints('far')[-1] + 2}")
    assert code == 0 and "seeing for 30 s whether it still is" in err, (code, out, err)
    kept = {p: p.read_bytes() for p in (work / "far").rglob("*.h5") if "trace" not in str(p)}
    os.kill(owner["pid"], signal.SIGCONT)  # and it comes back
    _, err = child.communicate(timeout=60)
    assert child.returncode == 3 and "owner.json is gone" in err, (child.returncode, err)
    assert kept == {p: p.read_bytes() for p in (work / "far").rglob("*.h5") if "trace" not in str(p)}


def disk_fills_up():
    """Checkpoints, traces and snapshots end with a note each; the iterations go on; --resume=auto makes the same image."""
    photo(64, 72)
    path = job(TV.replace("iterations: 4", "iterations: 150, stop: {rounding: false}").replace("folder: out", "folder: out, diagnostics: false, snapshots: 2"))
    run(path, "--set", "output.folder=straight", ranks=2)
    (work / "small").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", work / "small"], capture_output=True).returncode != 0:
        print("skipped: a small disk cannot be mounted here (it takes root)")
        sys.exit(77)
    try:
        child = start(path, "--set", f"output.folder={work}/small/out", *OFTEN, ranks=2)
        wait_for(lambda: len(recorded("small/out")) > 3 or child.poll() is not None)
        try:
            with open(work / "small/filler", "wb", buffering=0) as filler:
                while filler.write(bytes(4096)):
                    pass
        except OSError:
            pass
        out, err = child.communicate(timeout=120)
        assert child.returncode == 3 and "No space left" in err, (child.returncode, err)
        assert "could not be written" in out and "there are no snapshots from iteration" in out, out
        assert "iteration 150/150" in out or "iterations" in out, out
        (work / "small/filler").unlink()
        run(path, "--set", f"output.folder={work}/small/out", *OFTEN, "--resume=auto", ranks=2)
        assert (image("small/out") == image("straight")).all()
    finally:
        subprocess.run(["umount", work / "small"], check=True)


def suspended():
    """All ranks are stopped for longer than the watchdog's limit, and go on: nobody was silent."""
    photo(64, 72)
    path = job(ENDLESS)
    child = start(path, "--set", "output.folder=out", "--set", "watchdog=2", ranks=2)
    wait_for(lambda: len(recorded("out")) > 3 or child.poll() is not None)
    for sent in (signal.SIGSTOP, signal.SIGCONT):
        for pid in ranks_of("out --set watchdog=2"):
            os.kill(pid, sent)
        time.sleep(5)
    assert child.poll() is None, child.communicate()
    seen = len(recorded("out"))
    wait_for(lambda: len(recorded("out")) > seen)
    os.kill(child.pid, signal.SIGTERM)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 86, (child.returncode, err)


def left_over():
    """What a killed program left unfinished stands in nobody's way, and is removed."""
    photo(64, 72)
    path = job(TV)
    for folder in ("out", "out/checkpoint", "out/trace"):
        (work / folder).mkdir()
    names = ["out/resolved.yaml.0123abcd.tmp", "out/measurement.png.raw.0123abcd.tmp", "out/checkpoint/iteration-0000002.h5.0123abcd.tmp",
             "out/trace/rank-00000.h5.0123abcd.tmp"]
    for name in names:
        (work / name).write_text("unfinished")
    run(path, "--resume=auto", ranks=2)
    assert not list((work / "out").rglob("*.tmp")), list((work / "out").rglob("*.tmp"))


def other_user():
    """Another user of the node, while a job runs: there are no heartbeats to be seen, and that user cannot write into the output folder."""
    if os.getuid() != 0:
        print("skipped: it takes root to be somebody else")
        sys.exit(77)
    photo(64, 72)
    path = job(ENDLESS)
    child = start(path, "--set", "output.folder=out", ranks=2)
    wait_for(lambda: len(recorded("out")) > 3)
    owner = json.loads((work / "out/owner.json").read_text())["pid"]
    beats = {Path(p) for p in re.findall(r"/(?:dev/shm|tmp)/tessera-0-\S+", Path(f"/proc/{owner}/maps").read_text())}
    assert beats, "no heartbeats in shared memory"
    folder = next(iter(beats)).parent
    assert not folder.exists(), "mapped, and gone"

    tries = {"kill": lambda: os.kill(owner, signal.SIGTERM), "take the owner's file": lambda: (work / "out/owner.json").unlink(),
             "write its status": lambda: open(work / "out/status.json", "a"), "write a checkpoint": lambda: (work / "out/checkpoint/iteration-9999999.h5").touch()}
    reader, writer = os.pipe()
    somebody = os.fork()
    if somebody == 0:  # no other program: that user may not be let in to where Python is
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        done = []
        for name, attempt in tries.items():
            try:
                attempt()
                done.append(name)
            except OSError:
                pass
        os.write(writer, json.dumps(done).encode())
        os._exit(0)
    os.waitpid(somebody, 0)
    assert json.loads(os.read(reader, 4096)) == [], "what another user could do"
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 86, (child.returncode, out, err)
    assert not folder.exists()


NODE = """\
if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then shift 2; exec "$@"; fi
exec unshare --mount --uts sh -ec 'hostname other; mount -t tmpfs none "$1"; eval "$2"; shift 2; exec "$@"' - "$@"
"""


def nodes_differ():
    """Rank 1 has a scratch folder of its own, as on another node: one line with its host before the first iteration, or the same result."""
    if os.getuid() != 0 or subprocess.run(["unshare", "--mount", "--uts", "true"], capture_output=True).returncode != 0:
        print("skipped: it takes root to be two nodes")
        sys.exit(77)
    scratch, keep = work / "scratch", work / "keep"
    scratch.mkdir(), keep.mkdir()
    rng = np.random.default_rng(1)
    new, old = (rng.random((48, 64), dtype=np.float32) for _ in range(2))
    for name, values in (("new.npy", new), ("old.npy", old), ("short.npy", new[:40]), ("w.npy", np.ones_like(new)), ("w_old.npy", 1 - np.eye(48, 64, dtype=np.float32))):
        np.save(keep / name, values)
    for name in ("drunet_small_gray", "drunet_wide_gray"):
        shutil.copyfile(source / f"data/weights/{name}.safetensors", keep / f"{name}.safetensors")
    shutil.copyfile(keep / "new.npy", scratch / "y.npy")
    shutil.copyfile(keep / "w.npy", scratch / "w.npy")
    shutil.copyfile(keep / "drunet_small_gray.safetensors", scratch / "net.safetensors")
    path = job("problem: {measurements: scratch/y.npy, noise: {gaussian: 0.02}}\ndenoiser: {network: tv}\n"
               "solver: {name: admm, iterations: 2}\ndomain: {grid: [2, 1]}\noutput: {folder: out, preview: none, diagnostics: false}\n")
    (work / "node.sh").write_text(NODE)

    def two(fill, *words, command="run", of=path):
        done = subprocess.run([launch, "-n", "2", "sh", work / "node.sh", scratch, fill, program, command, of, *words], cwd=work, text=True, capture_output=True, timeout=240)
        return done.returncode, done.stdout + done.stderr

    at = f"cp {keep}"
    good = f"{at}/new.npy {scratch}/y.npy; {at}/w.npy {scratch}/w.npy; {at}/drunet_small_gray.safetensors {scratch}/net.safetensors"
    weights, network = ("--set", "problem.weights=scratch/w.npy"), ("--set", "denoiser={network: drunet, weights: scratch/net.safetensors}")
    for fill, words, file, named in ((f"{good}; {at}/old.npy {scratch}/y.npy", (), "y.npy", "on other (rank 1)"), (f"{good}; {at}/short.npy {scratch}/y.npy", (), "y.npy", "on other (rank 1)"),
                                     ("true", (), "y.npy", "nothing on other (rank 1)"), (f"{good}; {at}/w_old.npy {scratch}/w.npy", weights, "w.npy", "on other (rank 1)"),
                                     (f"{good}; {at}/drunet_wide_gray.safetensors {scratch}/net.safetensors", network, "net.safetensors", "on other (rank 1)")):
        code, said = two(fill, *words)
        assert code == 2 and said.count("tessera: ") == 1 and f"scratch/{file} is not the same file on all nodes" in said and named in said, (code, said)
        assert not (work / "out").exists()
    code, said = two("true", "--set", "problem={truth: scratch/y.npy, noise: {gaussian: 0.02}}")
    assert code == 2 and "there is no file" in said and "[rank 1, on other]" in said, (code, said)
    code, said = two(f"{at}/old.npy {scratch}/y.npy", keep / "new.npy", command="compare", of=scratch / "y.npy")
    assert code == 2 and "not the same file" in said, (code, said)
    code, said = two(good, "--set", "output.folder=scratch/new/out")
    assert code == 2 and "scratch/new/out is another folder here, or none" in said and "[rank 1, on other]" in said, (code, said)
    assert not (scratch / "new").exists(), "a refused run leaves no folder behind"
    # Copies with other times are the same file; nothing is made of halves.
    code, said = two(good, *weights)
    assert code == 0, (code, said)
    run(path, *weights, "--set", "output.folder=shared", ranks=2)
    same("out", "shared")
