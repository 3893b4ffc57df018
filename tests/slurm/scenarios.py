# SPDX-License-Identifier: BSD-3-Clause
"""What can happen to a job under Slurm: scenarios.py SCENARIO PROGRAM SOURCE RECORD. Exit code 77: skipped, and why.

RECORD describes the running cluster (cluster.py start); without one the scenario starts a cluster of its own.
"""
import csv
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from cluster import Cluster, Impossible, alive, children_of, wait_until
from harness import Bench, ITERATIONS, JOB, LONG, distance, image, summary

scenario, program, source, record = sys.argv[1:5]


def reference(b):
    """The result of JOB on two ranks that nobody interrupted; made once for the whole suite."""
    kept = b.cluster.folder / "reference"
    if not (kept / "reconstruction.h5").exists():
        job = b.job("reference")
        number = b.submit(job, "--ranks", 2, "--set", f"output.folder={kept}")
        b.finished(number)
        assert "restart 0" in b.log(number) and "restart 1" not in b.log(number), b.log(number)
    return image(kept)


def same_bits(b, output):
    ours, theirs = image(output), reference(b)
    assert ours.tobytes() == theirs.tobytes(), f"{output} is {distance(ours, theirs):.2e} away from the uninterrupted run"


# --- the scenarios --------------------------------------------------------------------------------------------------------
def over_nodes(b):
    """A job over 2 and over 4 nodes: every node takes part, and the results agree."""
    numbers = {}
    for name, options in (("two", ["--ranks", 2]), ("four", ["--ranks", 4]),
                          ("filled", ["--ranks", 4, "--ranks-per-node", 2])):
        numbers[name] = b.submit(b.job(name), *options, "--set", "solver.iterations=12")
    for name, nodes, ranks in (("two", 2, 2), ("four", 4, 4), ("filled", 2, 4)):
        shown = b.finished(numbers[name])
        log = b.log(numbers[name])
        assert shown["NumNodes"] == str(nodes) and f"on {shown['NodeList']}" in log, (shown, log)
        assert summary(b.folder / f"{name}.out")["ranks"] == ranks
    assert distance(image(b.folder / "four.out"), image(b.folder / "two.out")) < 1e-5
    assert image(b.folder / "filled.out").tobytes() == image(b.folder / "four.out").tobytes()


def limits(b):
    """What the partition cannot run is refused before it waits for ever; what is asked for is said, and got."""
    job = b.job()
    for options, part in ((["--ranks", 9], "partition main cannot run this"), (["--ranks", 2, "--", "--mem=9000"], "4 of 4 cores and 4000 MB"),
                          (["--ranks", 2, "--", "--cpus-per-task=5"], "cannot run this"),
                          (["--ranks", 8, "--ranks-per-node", 8], "a rank needs one"),
                          (["--ranks", 2, "--", "-p", "nowhere"], "no partition 'nowhere'")):
        said = b.shell("jobs/submit.sh", job, "--time", 20, *options, expect=2)
        # The tests' one thread a rank is worth a warning of its own.
        lines = [line for line in said.splitlines() if "warning: OMP_NUM_THREADS" not in line]
        assert part in said and len(lines) <= 2, said
    said = b.shell("jobs/submit.sh", job, "--ranks", 2, "--time", 61, expect=2)
    assert "longer than partition main allows (1:00:00" in said, said
    assert not b.cluster.ask("squeue", "-h"), "nothing was submitted"
    number = b.submit(job, "--ranks", 4, "--ranks-per-node", 2, "--set", "solver.iterations=5")
    shown = b.finished(number)
    assert shown["NumNodes"] == "2" and shown["NumCPUs"] == "8" and shown["MinMemoryNode"].endswith("M"), shown
    log = b.log(number)
    assert re.search(r"4 ranks of 1 threads on 2 cores each, \d+ MB per node", log) and "1 thread each" in log, log


def requeue(b):
    """USR1: checkpoint, exit code 85, requeued by scontrol; the result has the bits of the uninterrupted run."""
    job = b.job()
    number = b.under_way(b.folder / "job.out", b.submit(job, "--ranks", 2))
    b.shell("scancel", "-s", "USR1", number)
    b.wait_for_state(number, "PENDING")
    waiting = b.shell("build/release/bin/tessera", "status", b.folder / "job.out")
    assert "waiting" in waiting, waiting
    shown = b.finished(number)
    log = b.log(number)
    assert shown["Restarts"] == "1", shown
    assert "checkpointed, requeueing (restart 1 of at most 20)" in log and "DUE TO JOB REQUEUE" in log, log
    assert "restart 1 of at most 20" in log.split("DUE TO JOB REQUEUE")[1], log
    assert "finished" in b.shell("build/release/bin/tessera", "status", b.folder / "job.out")
    same_bits(b, b.folder / "job.out")


def requeue_by_exit(b):
    """A site whose Slurm requeues by exit code 85, and a bound on the restarts that the site file sets."""
    site = b.folder / "site.env"
    site.write_text("SITE_REQUEUE=exit\nSITE_RESTARTS=1\n")
    job = b.job()
    number = b.under_way(b.folder / "job.out", b.submit(job, "--ranks", 2, "--site", site))
    b.shell("scancel", "-s", "USR1", number)
    wait_until("the restart", LONG, lambda: b.show(number).get("Restarts") == "1")
    assert "DUE TO JOB REQUEUE" not in b.log(number), b.log(number)
    b.under_way(b.folder / "job.out", number, start=2)
    b.shell("scancel", "-s", "USR1", number)
    b.finished(number, "3:0", "FAILED")
    assert "checkpointed, not requeued: restarted 1 times" in b.log(number), b.log(number)
    # Submitted again it goes on.
    again = b.submit(job, "--ranks", 2)
    b.finished(again)
    same_bits(b, b.folder / "job.out")


def under_mpirun(b):
    """A cluster whose srun cannot start MPI: the batch script gets the signal and passes it on through mpirun."""
    site = b.folder / "site.env"
    site.write_text("SITE_LAUNCHER=mpirun\n")
    job = b.job()
    number = b.under_way(b.folder / "job.out", b.submit(job, "--ranks", 2, "--site", site))
    b.shell("scancel", "--batch", "--signal=USR1", number)
    shown = b.finished(number)
    assert shown["Restarts"] == "1" and "checkpointed, requeueing" in b.log(number), (shown, b.log(number))
    same_bits(b, b.folder / "job.out")


def time_limit(b):
    """Slurm itself sends USR1 before the time limit, the job is requeued and goes on."""
    job = b.job(text=JOB.replace(f"iterations: {ITERATIONS},", "iterations: 100000,"))
    number = b.number(b.shell("sbatch", "--nodes=2", "--ntasks=2", "--time=1", "--signal=USR1@59",
                              "jobs/reconstruct.sbatch", job))
    wait_until("the restart", LONG, lambda: b.show(number).get("Restarts") == "1")
    assert "checkpointed, requeueing" in b.log(number), b.log(number)
    b.wait_for_state(number, "RUNNING")
    b.shell("scancel", number)
    b.wait_for_state(number, "CANCELLED")


def preemption(b):
    """A more urgent job takes the nodes: SIGTERM, checkpoint, exit code 86; Slurm requeues, the bits are the same."""
    job = b.job()
    number = b.under_way(b.folder / "job.out", b.submit(job, "--ranks", 2))
    urgent = b.number(b.shell("sbatch", "--partition=urgent", "--nodes=4", "--exclusive", "--time=1",
                              f"--output={b.folder}/urgent.log", "--wrap", "sleep 2"))
    b.finished(urgent)
    shown = b.finished(number)
    assert shown["Restarts"] == "1", shown
    log = b.log(number)
    assert "checkpointed on SIGTERM; Slurm decides" in log and "DUE TO PREEMPTION" in log, log
    same_bits(b, b.folder / "job.out")


def cancel(b):
    """scancel: the job checkpoints, is gone at once and stays gone; submitted again it goes on."""
    job = b.job()
    number = b.under_way(b.folder / "job.out", b.submit(job, "--ranks", 2))
    b.shell("scancel", number)
    b.wait_for_state(number, "CANCELLED")
    wait_until("the end of its script", LONG, lambda: not b.processes(f"SLURM_JOB_ID={number}") or None)
    assert "checkpointed on SIGTERM" in b.log(number), b.log(number)
    time.sleep(2)
    assert b.show(number)["JobState"] == "CANCELLED" and b.show(number)["Restarts"] == "0", b.show(number)
    assert summary(b.folder / "job.out")["status"] == "stopped"
    again = b.submit(job, "--ranks", 2)
    b.finished(again)
    assert "resumed after" in b.log(again), b.log(again)
    same_bits(b, b.folder / "job.out")


def node_loss(b):
    """A node dies without a word: the job goes on elsewhere from its last periodic checkpoint."""
    job = b.job()
    number = b.checkpointed(b.folder / "job.out", b.submit(job, "--ranks", 2))
    nodes = b.cluster.ask("scontrol", "show", "hostnames", b.show(number)["NodeList"]).split()
    node = next(n for n in nodes if n != b.show(number)["BatchHost"])  # not the script's
    daemon = b.cluster.data["pids"][node]
    os.kill(daemon, signal.SIGKILL)
    # Its tasks fall silent too, sockets open, as those of a machine without power do.
    silent = [pid for pid in b.processes(f"SLURMD_NODENAME={node}") if pid != daemon]
    assert silent, "no task of the job on the lost node"
    for pid in silent:
        os.kill(pid, signal.SIGSTOP)
    try:
        # What Slurm does by itself after SlurmdTimeout.
        b.shell("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
        wait_until("the restart", LONG, lambda: b.show(number).get("Restarts") == "1")
    finally:
        for pid in silent:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        b.cluster.start_node(node)
        # Refused where the node came back by itself.
        b.cluster.ask("sh", "-c", f"scontrol update NodeName={node} State=RESUME || true")
    b.finished(number)
    log = b.log(number)
    assert "NODE FAILURE" in log, log
    same_bits(b, b.folder / "job.out")


def sweep(b):
    """An array over a table: a folder per task; the last task, which has the array's number, is requeued alone."""
    settings = b.folder / "table.csv"
    settings.write_text(f'solver.iterations,solver.sigma\n6,0.05\n7,"{{log: [0.1, 0.05]}}"\n{ITERATIONS},\n')
    array = b.submit(b.job(), "--ranks", 2, "--sweep", settings, "--folder", b.folder / "sweep", "--at-once", 2)
    results = b.folder / "sweep" / array
    last = f"{array}_2"
    b.under_way(results / "2", last)
    assert b.show(last)["JobId"] == array, b.show(last)
    for task in (0, 1):
        b.wait_for_state(f"{array}_{task}", "COMPLETED")
    b.shell("scancel", "-s", "USR1", last)
    assert b.finished(last)["Restarts"] == "1"
    for task, iterations in ((0, 6), (1, 7), (2, ITERATIONS)):
        assert b.show(f"{array}_{task}")["Restarts"] == ("1" if task == 2 else "0")
        assert summary(results / str(task))["iterations"] == iterations
    same_bits(b, results / "2")
    python = b.clone / ".venv/bin/python"
    b.shell(python, "jobs/collect.py", results, "-o", b.folder / "sweep.csv")
    rows = table(b.folder / "sweep.csv")
    assert [(r["solver.iterations"], r["iterations"], r["exit_code"]) for r in rows] == [
        (n, n, "0") for n in ("6", "7", str(ITERATIONS))], rows
    assert rows[1]["solver.sigma"] == "{log: [0.1, 0.05]}" and float(rows[0]["seconds_per_iteration"]) > 0, rows


def study(b):
    """A scaling study that meets its time limit makes the missing runs after the restart; a run that fails is a row."""
    job = b.job()
    number = b.submit(job, "--ranks", "1,2", "--strong", "--folder", b.folder / "study",
                      "--study", "--modes auto,whole --repeats 1 --iterations 200 --warmup 2")
    b.under_way(b.folder / "study/ranks2-run0", number)  # the second of four
    assert (b.folder / "study/ranks1-run0.json").exists() and not (b.folder / "study/ranks2-run0.json").exists()
    b.shell("scancel", "--batch", "--signal=USR1", number)
    shown = b.finished(number)
    log = b.log(number)
    assert shown["Restarts"] == "1" and "interrupted at run 2 of 4" in log, (shown, log)
    assert log.count("1/4 ranks1-run0") == 2 and log.count("2/4 ranks2-run0") == 1, log  # the first was not made again
    rows = table(b.folder / "study/scaling.csv")
    assert [(Path(r["folder"]).name, r["exit_code"]) for r in rows] == [
        ("ranks1-run0", "0"), ("ranks2-run0", "0"), ("whole-ranks1-run0", "0"), ("whole-ranks2-run0", "2")], rows
    failed = rows[3]
    assert "whole" in failed["error"] and failed["status"] == "failed" and not failed["seconds_per_iteration"], failed
    assert all(r["warmup"] == "2" and int(r["iterations"]) == 200 for r in rows[:3]), rows


def failures(b):
    """Bad input: exit code 2 and its message. A killed rank: the launcher's code. Neither is requeued."""
    job = b.job()
    bad = b.number(b.shell("sbatch", "--nodes=2", "--ntasks=2", "--time=5", "jobs/reconstruct.sbatch", job,
                           "--set", "solver.iteration=3"))
    killed = b.submit(b.job("killed"), "--ranks", 2, "--name", "killed")
    b.finished(bad, "2:0", "FAILED")
    assert "did you mean solver.iterations" in b.log(bad) and "bad input" in b.log(bad), b.log(bad)
    b.checkpointed(b.folder / "killed.out", killed)
    ranks = [pid for pid in b.processes(f"SLURM_JOB_ID={killed}")
             if Path(f"/proc/{pid}/exe").exists() and os.path.samefile(f"/proc/{pid}/exe", b.program)]
    assert len(ranks) == 2, ranks
    os.kill(ranks[1], signal.SIGKILL)
    b.finished(killed, "137:0", "FAILED")
    assert "a rank was killed (exit code 137)" in b.log(killed) and "sacct --jobs" in b.log(killed), b.log(killed)
    b.finished(b.submit(b.job("killed"), "--ranks", 2))  # goes on from its last checkpoint
    same_bits(b, b.folder / "killed.out")


def binding(b):
    """Each way in which Slurm shows GPUs to a rank: bind.sh leaves it one, ranks of a node have different ones."""
    if not b.cluster.data["gpus"]:
        print("skipped:", b.cluster.data["no_gpus"])
        return 77
    seen = "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"
    for options in (["--gpus-per-task=1"], ["--gpus-per-node=2", "--gpu-bind=single:1"],
                    ["--gpus-per-node=2", "--gpu-bind=map_gpu:0,1"], ["--gpus-per-node=2"], ["--gres=gpu:2"],
                    ["--gpus-per-task=1", "--gpu-bind=none"]):
        out = b.shell("srun", "-N2", "-n4", "--ntasks-per-node=2", *options, "jobs/bind.sh", "bash", "-c", seen)
        ranks = sorted(tuple(line.split(" ", 1)) for line in out.splitlines())
        nodes = sorted({node for node, _ in ranks})
        assert len(nodes) == 2 and ranks == [(node, gpu) for node in nodes for gpu in "01"], (options, ranks)
    # Without GPUs nothing is hidden, and the program still starts.
    out = b.shell("srun", "-N1", "-n2", "jobs/bind.sh", "bash", "-c", "echo ${CUDA_VISIBLE_DEVICES-unset}")
    assert out.split() == ["unset", "unset"], out
    said = b.shell("bash", "-c", "srun -N1 -n2 --gpus-per-node=2 jobs/bind.sh true 2>&1", TESSERA_BIND="verbose")
    assert "rank 0 of 2 on the node: GPU 0" in said and "rank 1 of 2 on the node: GPU 1" in said, said


def orphaned(b):
    """A cluster whose owner is killed ends by itself, its jobs too."""
    owner = subprocess.Popen(["sleep", "1000"])
    other = Cluster(f"{record}.orphaned")
    try:
        other.start(owner.pid)
        environment = os.environ | other.environment
        subprocess.run(["sbatch", "--nodes=2", f"--output={b.folder}/log", "--wrap", "srun sleep 1000"], check=True,
                       env=environment, capture_output=True)
        marker = other.marker
        wait_until("the job's tasks", LONG, lambda: sum(name_of(pid) == "sleep" for pid in children_of(marker)) == 2)
        pids = list(other.data["pids"].values())
        owner.kill()
        owner.wait()
        # A process that has ended has a pid until its parent looks.
        wait_until("the end of all", LONG, lambda: not (other.record.exists() or other.folder.exists() or
                                                        children_of(marker) or any(map(alive, pids))))
    finally:
        owner.kill()
        if other.record.exists():
            other.stop()


def guide(b):
    """docs/slurm.md as a new user goes through it: its commands, in order and as they stand, in one shell."""
    text = (b.clone / "docs/slurm.md").read_text()
    blocks = re.findall(r"```bash\n(.*?)```", text, re.S)
    assert len(blocks) == 11, f"{len(blocks)} blocks of commands: what the new ones do is to be checked below"
    parts = [f"echo '=== {i}'\n{block}" for i, block in enumerate(blocks)]
    out = b.shell("bash", "-euo", "pipefail", "-c", "\n".join(parts) + '\necho "=== numbers $job $first"',
                  USER="somebody")
    said = re.split(r"^=== .*\n", out, flags=re.M)[1:]
    job, first = re.search(r"^=== numbers (\d+) (\d+)$", out, re.M).groups()
    print(out)

    assert "lead time" in said[0] and "on the fullest rank" in said[0], said[0]
    submitted = next(line for line in said[0].splitlines() if line.startswith("sbatch --chdir"))
    assert "--cpus-per-task=4" in submitted and re.search(r"--mem=\d+M ", submitted), submitted
    assert job in said[0].split(submitted)[1], said[0]
    assert "running" in said[1] and not said[2].strip(), said[1:3]
    assert "finished" in said[3] and "400/400" in said[3] and "Restarts=1" in said[3], said[3]
    log = (b.clone / f"runs/logs/quickstart_tv-{job}.log").read_text()  # Slurm forgets jobs after five minutes
    assert "2 ranks of 1 threads on 4 cores each" in log and "as planned, this job goes on by itself" in log, log
    assert "Exited with exit code" not in log, log
    run = b.clone / "runs/quickstart/tv"
    result = summary(run)
    assert result["iterations"] == 404 and result["psnr"] > result["psnr_start"] + 2, result

    assert summary(b.clone / "runs/first")["status"] == summary(b.clone / "runs/second")["status"] == "limit"
    wait_until("the mail", 60, (b.cluster.folder / "mail").exists)
    assert f"Job_id={first}" in (b.cluster.folder / "mail").read_text()

    assert said[6].count("finished") == 3, said[6]
    rows = table(b.clone / "runs/weights_result.csv")
    assert [float(r["denoiser.tv.weight"]) for r in rows] == [0.05, 0.12, 0.3] and len({r["psnr"] for r in rows}) == 3, rows
    for study, sizes in (("strong", [(512, 512)] * 3), ("weak", [(128, 128), (128, 256), (256, 256)])):
        rows = table(b.clone / f"runs/{study}/scaling.csv")
        assert len(rows) == (6 if study == "strong" else 3), rows
        for row in rows:
            ranks = int(row["ranks"])
            assert row["exit_code"] == "0" and row["study"] == study, row
            assert (int(row["rows"]), int(row["columns"])) == sizes[[1, 2, 4].index(ranks)], row
            assert 0 < float(row["seconds_min"]) <= float(row["seconds_per_iteration"]) <= float(row["seconds_max"]), row
            assert float(row["wall_seconds"]) > float(row["loop_seconds"]) + float(row["startup_seconds"]), row
    for page in ("report.html", "scaling.html"):
        assert (b.clone / "runs" / page).stat().st_size > 100_000, page


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


SCENARIOS = [over_nodes, limits, requeue, requeue_by_exit, under_mpirun, time_limit, preemption, cancel, node_loss, sweep,
             study, failures, binding, orphaned, guide]


def main():
    try:
        import h5py  # noqa: F401
        import skimage  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing} (jobs/setup.sh puts it into .venv)")
        return 77
    own = not Path(record).exists()
    cluster = Cluster(f"{record}.{scenario}" if own else record)
    try:
        if own:
            cluster.start(os.getpid())
        bench = Bench(cluster, Path.cwd() / f"slurm_{scenario}", source, program)
        begin = time.monotonic()
        code = {f.__name__: f for f in SCENARIOS}[scenario](bench)
        print(f"{scenario}: {'skipped' if code else 'passed'} after {time.monotonic() - begin:.1f} s")
        return code or 0
    except Impossible as reason:
        print(f"skipped: {reason}")
        return 77
    finally:
        if own:
            cluster.stop()
        else:
            cluster.clear()


if __name__ == "__main__":
    sys.exit(main())
