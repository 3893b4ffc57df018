# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of Ctrl-C on a terminal of their own, of launchers, and of what `tessera status` makes of runs that ended."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import time

from harness import image, JOB, job, launch, np, photo, program, ranks_of, recorded, run, same, start, summary, tessera, TV, wait_for, work

ENDLESS = JOB.replace("iterations: 4", "iterations: 100000, stop: {rounding: false}")


def on_terminal(command, presses, limit=120):
    """A command on a new terminal, Ctrl-C pressed whenever the next question is true: (exit code, what it showed)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(work)
        os.execv(command[0], command)
    shown, presses, end = b"", list(presses), time.time() + limit
    while True:
        assert time.time() < end, (command, shown)
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                part = os.read(terminal, 65536)
            except OSError:  # its last process is gone
                break
            if not part:
                break
            shown += part
        if presses and presses[0](shown):
            presses.pop(0)
            os.write(terminal, b"\x03")
    assert not presses, shown
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode(errors="replace")


def ctrl_c():
    """Ctrl-C keeps the work on 1 and 3 ranks and says so in one line; the next one ends at once, and leaves nobody behind."""
    photo()
    path = job(ENDLESS)
    for ranks in (1, 3):
        command = [launch, "-n", str(ranks), program, "run", path, "--set", f"output.folder=out{ranks}"]
        code, shown = on_terminal(command, [lambda _: len(recorded(f"out{ranks}")) > 3])
        assert code == 86, (ranks, code, shown)
        assert shown.count("asked to stop") == 1 and "got SIG" not in shown, shown
        assert f"'tessera run {work}/out{ranks} --resume' goes on" in shown, shown
        s = summary(f"out{ranks}")
        assert s["status"] == "stopped" and s["ended_by"] == "signal" and s["iterations"] > 3, s
        assert (work / f"out{ranks}/checkpoint/iteration-{s['iterations']:07}.h5").exists()
        print(f"{ranks} ranks: Ctrl-C after {s['iterations']} iterations, exit code {code}")
        if ranks == 1:
            out, _ = run("out1", "--resume", "--set", f"solver.iterations={s['iterations'] + 1}")
            assert "resumed after" in out and "cost model" not in out, out  # the windows that it began with
    # A data step that takes for ever: who presses again is not made to wait.
    slow = job(TV.replace("iterations: 4", "iterations: 3").replace("iterations: 20", "iterations: 1000000, tolerance: 0"), "slow.yaml")
    for ranks, wanted in ((1, -signal.SIGINT), (3, 130)):
        command = [launch, "-n", str(ranks), program, "run", slow, "--set", f"output.folder=slow{ranks}"]
        begins = (work / f"slow{ranks}/status.json").exists
        code, shown = on_terminal(command, [lambda _: begins(), lambda shown: b"asked to stop" in shown])
        assert code == wanted, (ranks, code, shown)
        wait_for(lambda: not ranks_of(f"slow{ranks}"), 20)  # they were killed, and take a moment to be gone
        told = json.loads(tessera("status", "--json", f"slow{ranks}")[1])
        assert told["state"] == "lost" and "ended without a word" in told["message"], told

    # The same by a signal to the launcher alone; a launcher that is killed takes its ranks with it.
    for sent, wanted in ((signal.SIGTERM, 86), (signal.SIGUSR1, 85), (signal.SIGKILL, -9)):
        folder = f"sent{int(sent)}"
        child = start(path, "--set", f"output.folder={folder}", ranks=2)
        wait_for(lambda: len(recorded(folder)) > 3 or child.poll() is not None)
        os.kill(child.pid, sent)
        _, err = child.communicate(timeout=60)
        assert child.returncode == wanted, (sent, child.returncode, err)
        wait_for(lambda: not ranks_of(folder), 20)


def reader_gone():
    """A run whose output nobody reads any more (a pager that was left, a terminal that died) goes on to its end."""
    photo()
    path = job(JOB)
    run(path, "--set", "output.folder=heard")
    child = start(path, "--set", "output.folder=unheard", ranks=1)
    child.stdout.close()
    child.stderr.close()
    assert child.wait(timeout=120) == 0, child.returncode
    same("heard", "unheard")


def launchers():
    """A program that is not there, or takes no signals: one message, no crash of the launcher."""
    done = subprocess.run([launch, "-n", "2", "tesera", "run"], text=True, capture_output=True, cwd=work)
    assert done.returncode == 2 and "no program tesera" in done.stderr and not done.stdout, done
    bind = launch.replace("launch.sh", "bind.sh")
    done = subprocess.run([launch, "-n", "2", bind, "tesera", "run"], text=True, capture_output=True, cwd=work)
    assert done.returncode == 2 and done.stderr.count("no program tesera") == 2, done
    code, shown = on_terminal([launch, "-n", "2", shutil.which("bash"), "-c", "echo begun; sleep 100"],
                              [lambda shown: shown.count(b"begun") == 2])
    assert code == 130, (code, shown)


def many_rows():
    """status of folders that are missing, broken, empty, full of runs, copied, killed just now: a row each, 2 for the bad."""
    photo(64, 72)
    path = job(TV)
    for name in ("sweep/9", "sweep/10"):
        run(path, "--set", f"output.folder={name}")
    (work / "broken").mkdir()
    (work / "broken/status.json").write_text("{")
    (work / "empty").mkdir()
    (work / "sweep/9/status.json").unlink()  # as where only results were copied
    code, out, err = tessera("status", "nowhere", "broken", "empty", "sweep")
    rows = [(line.split()[0], line.split()[-1]) for line in out.splitlines()[1:] if not line.startswith(" ")]
    assert rows == [("missing", "nowhere"), ("unreadable", "broken"), ("waiting", "empty"), ("finished", "sweep/9"),
                    ("finished", "sweep/10")], out
    assert code == 2 and err.count("tessera: nowhere: no such folder") == 1, err
    assert tessera("status", "sweep", "empty")[0] == 0

    endless = job(ENDLESS, "endless.yaml")
    child = start(endless, "--set", "output.folder=killed", ranks=2)
    wait_for(lambda: len(recorded("killed")) > 3 or child.poll() is not None)
    watcher = subprocess.Popen([program, "status", "--watch", "killed", "sweep"], cwd=work, text=True, stdout=subprocess.PIPE)
    wait_for(lambda: select.select([watcher.stdout], [], [], 0)[0])
    assert watcher.poll() is None, "it watches while a run runs"
    pid = json.loads((work / "killed/status.json").read_text())["pid"]
    assert pathlib.Path(f"/proc/{pid}/comm").read_text() == "tessera\n", "what ps calls it"
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: pid not in ranks_of("killed"))
    told = json.loads(tessera("status", "--json", "killed")[1])
    assert told["state"] == "lost" and "ended without a word" in told["message"], told
    out, _ = watcher.communicate(timeout=30)
    assert watcher.returncode == 0 and re.search("running.*killed(.|\n)*lost.*killed", out), out
    child.communicate(timeout=60)
    # Another boot, container or host: its process cannot be looked at, and only silence tells.
    status = json.loads((work / "killed/status.json").read_text())
    for changes, state in (({"updated": int(time.time())}, "running"), ({"updated": 0}, "lost")):
        (work / "killed/status.json").write_text(json.dumps(status | {"process": "elsewhere 1 2"} | changes))
        os.utime(work / "killed/status.json", (changes["updated"],) * 2)
        assert json.loads(tessera("status", "--json", "killed")[1])["state"] == state


def resume_from_folder():
    """`tessera run FOLDER --resume` knows the job with every --set, on other ranks too; before a checkpoint it starts."""
    photo(64, 72)
    path = job(JOB)
    changed = ("--set", "solver.sigma=0.07", "--set", "problem.seed=9")
    run(path, *changed, "--set", "solver.iterations=9", "--set", "output.folder=straight", ranks=2)
    run(path, *changed, "--set", "output.folder=parts", ranks=2)
    _, err = run(path, "--set", "output.folder=parts", "--set", "solver.iterations=9", "--resume", ranks=2, expect=2)
    assert f"tessera run {work}/parts --resume" in err and "problem.seed, solver.sigma" in err, err
    _, err = run("parts", expect=2)
    assert "parts is a folder" in err and "--resume" in err, err
    run("parts", "--resume", "--set", "solver.iterations=6", ranks=2)
    (work / "parts").rename(work / "moved")
    run("moved", "--resume", "--set", "solver.iterations=9", ranks=2)
    same("moved", "straight")
    assert (work / "moved/job.yaml").read_text() == JOB and not (work / "parts").exists()
    run("moved", "--resume", "--set", "solver.iterations=10", ranks=3)
    out, _ = run("moved", "--resume", ranks=1)
    assert "finished after 10 iterations" in out, "the last --set is remembered"
    (work / "early/checkpoint").mkdir(parents=True)  # lost before its first checkpoint
    shutil.copy(work / "moved/checkpoint/job.yaml", work / "early/checkpoint")
    run("early", "--resume=auto", ranks=3)
    assert abs(image("early") - image("moved")).max() < 1e-2
    (work / "moved/checkpoint/job.yaml").unlink()
    _, err = run("moved", "--resume", expect=2)
    assert "moved keeps no job" in err, err
    # What the data decided holds: bounds of a picture of 8 bits, a noise that a wrong model raised, a solver for holes.
    measured = ("schema: 1\nproblem: {{measurements: photo.png{mask}, operator: {operator}}}\n"
                "output: {{folder: full, checkpoint: {{iterations: 4, keep: 9}}}}\n")
    for operator, mask, ranks, told in (
            ("{type: blur, boundary: circular, kernel: {gaussian: {sigma: 6}}}", "", 2, "no image explains"),
            ("{type: identity}", ", weights: weights.npy", 3, "as for a mask")):
        photo(96, 88, gray=bool(mask))
        np.save(work / "weights.npy", (np.arange(96 * 88).reshape(96, 88) % 5 > 1).astype(np.float32))
        path = job(measured.format(operator=operator, mask=mask), "measured.yaml")
        out, _ = run(path, "--force", ranks=ranks)
        assert told in out and out.count("note: mode ") <= 1, out
        shutil.rmtree(work / "rest", ignore_errors=True)
        shutil.copytree(work / "full", work / "rest")
        for later in sorted((work / "rest/checkpoint").glob("*.h5"))[1:]:
            later.unlink()
        out, _ = run("rest", "--resume", ranks=ranks)
        assert "resumed after 4 iterations" in out, out
        same("rest", "full")
        assert [(work / f / "resolved.yaml").read_text().split("\n#")[0].replace("/rest", "/full")
                for f in ("rest", "full")].count((work / "full/resolved.yaml").read_text().split("\n#")[0]) == 2


def moves_nothing():
    """Without an operator the first iteration is the last that moves anything: the run says so and ends; or not, if told."""
    photo()
    text = re.sub("  operator: .*\n", "", JOB).replace("iterations: 4", "iterations: 50")
    out, _ = run(job(text), ranks=2)
    s = summary("out")
    assert s["status"] == "converged" and s["ended_by"] == "rounding" and s["iterations"] < 10, s
    assert out.count("by float32's rounding alone") == 1, out
    told, _ = run("out", "--resume", ranks=2)
    assert "nothing to do (solver.stop.rounding: false to go on)" in told, told
    run("out", "--resume", "--set", "solver.stop.rounding=false", ranks=2)
    run(job(text), "--set", "solver.stop={rounding: false}", "--set", "output.folder=all", ranks=2)
    same("out", "all")
    s = summary("all")
    assert s["ended_by"] == "iterations" and s["iterations"] == 50, s
