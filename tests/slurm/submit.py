# SPDX-License-Identifier: BSD-3-Clause
"""jobs/submit.sh without a Slurm: submit.py PROGRAM SOURCE. What it would submit, and what it refuses."""
import json
import shlex
from pathlib import Path

from harness import alone, pretend

bench = alone("submit")
job = bench.job()
table = bench.folder / "table.csv"
table.write_text('solver.iterations,solver.sigma\n6,0.05\n7,"{log: [0.1, 0.05]}"\n8,\n')
gpus = bench.folder / "gpus.env"
gpus.write_text("SITE_PARTITION=fast\nSITE_ACCOUNT=abc\nSITE_GPUS_PER_NODE=4\nSITE_GPU_OPTION=--gres=gpu:x:4\n"
                "SITE_MEMORY_PER_GPU=40\nSITE_CORES_PER_NODE=64\nSITE_OPTIONS='--qos=normal --mem=0'\n")


def dry(*arguments, **environment):
    """The sbatch command line that would run, as a list."""
    said = bench.shell("jobs/submit.sh", "--dry-run", *arguments, **environment)
    command = shlex.split(said.splitlines()[-1])
    assert command[0] == "sbatch" and "rank" in said, said
    return command


def refused(*arguments, code=2):
    return bench.shell("jobs/submit.sh", "--dry-run", *arguments, expect=code)


plain = dry(job, "--ranks", 4, "--time", 30, "--set", "solver.iterations=9")
assert {"--nodes=4", "--ntasks=4", "--ntasks-per-node=1", "--time=30", "--job-name=job"} <= set(plain), plain
kept = plain[plain.index("jobs/reconstruct.sbatch") + 1:]  # a copy, which says where the original's paths begin
assert Path(kept[0]).parent.parent == bench.clone / "runs/submitted" and Path(kept[0]).name == job.name, plain
assert kept[1:] == ["--set", f"relative_to='{job.parent}'", "--set", "solver.iterations=9"], plain
assert not (bench.clone / "runs").exists(), "nothing is kept of what is only shown"
assert "--signal=USR1@300" in plain, plain  # no run has told yet how long an iteration takes
assert "--signal=USR1@30" in dry(job, "--ranks", 4, "--time", 1)

# Memory: what is predicted for the ranks of a node, with the site's margin; what somebody asks for replaces it.
def megabytes(command):
    return [int(option[6:-1]) for option in command if option.startswith("--mem=")]


small = bench.folder / "small.env"
for margin, ranks in ((1, 1), (3, 1), (3, 2)):
    small.write_text(f"SITE_MEMORY_MARGIN={margin}\nSITE_RANKS_PER_NODE={ranks}\nSITE_CORES_PER_NODE=8\n")
    command = dry(job, "--ranks", 4, "--time", 30, "--site", small)
    assert f"--cpus-per-task={8 // ranks}" in command, command
    if margin * ranks == 1:
        once = megabytes(command)[0]
    # What the program takes before it begins is measured each time: some 2 MB more or less.
    assert once > 10 and abs(megabytes(command)[0] / (margin * ranks * once) - 1) < 0.03, (once, command)
assert abs(megabytes(plain)[0] / (1.25 * once) - 1) < 0.03, (once, plain)
asked = dry(job, "--ranks", 4, "--time", 30, "--", "--mem-per-cpu", "700")
assert not megabytes(asked) and asked[asked.index("--mem-per-cpu") + 1] == "700", asked

full = dry(job, "--ranks", 6, "--time", "1-0", "--site", gpus, "--", "--begin=now+60")
assert {"--nodes=2", "--ntasks=6", "--ntasks-per-node=4", "--cpus-per-task=16", "--partition=fast", "--account=abc",
        "--gres=gpu:x:4", "--qos=normal", "--mem=0", "--begin=now+60"} <= set(full), full
assert full[full.index("--site") + 1] == str(gpus), full

array = dry(job, "--ranks", 2, "--time", 30, "--sweep", table, "--at-once", 2)
assert "--array=0-2%2" in array and "jobs/sweep.sbatch" in array, array
study = dry(job, "--ranks", "1,2,4", "--time", 30, "--strong", "--study", "--repeats 2")
assert "--mem=0" in study and "--ntasks=4" in study and "--signal=B:USR1@300" in study and study[study.index("--repeats") + 1] == "2", study
through = bench.folder / "mpirun.env"
through.write_text("SITE_LAUNCHER=mpirun\n")
assert "--signal=B:USR1@300" in dry(job, "--ranks", 4, "--time", 30, "--site", through)
assert "--time=0:30:00" in dry(job, "--ranks", 4, "--time", "0:30:00")

# What tessera refuses is refused here, in its own words.
assert "did you mean solver.iterations" in refused(job, "--ranks", 2, "--time", 30, "--set", "solver.iteration=3")
table.write_text("solver.iterations\n5\nmany\n")
assert "row 1 of" in refused(job, "--ranks", 2, "--time", 30, "--sweep", table)
table.write_text("solver.iterations,output.folder\n5,x\n")
assert "output.folder is a column" in refused(job, "--ranks", 2, "--time", 30, "--sweep", table)
table.write_text("solver.sigma,solver.iterations\n{log: [0.1, 0.05]},5\n")
assert "double quotes" in refused(job, "--ranks", 2, "--time", 30, "--sweep", table)
# A table or a job that is not there, or is none: one line, not the words of another program.
for options in ((job, "--sweep", bench.folder / "nope.csv"), (job, "--sweep", bench.folder / "no/folder.csv"), (job, "--sweep", bench.folder),
                (bench.folder,)):
    said = refused(*options, "--ranks", 2, "--time", 30)
    assert f"submit: cannot read {options[-1]} (it is the " in said and len(said.splitlines()) == 1, said
# The copy of a table has the suffix of its name, not of a folder's.
(bench.folder / "tab.d").mkdir()
for name, copy in (("tab.d/table", "table"), ("tab.d/a.b.tsv", "table.tsv")):
    (bench.folder / name).write_text("solver.iterations\n5\n")
    words = dry(job, "--ranks", 2, "--time", 30, "--sweep", bench.folder / name)
    kept = Path(words[words.index("--submission") + 3])
    assert kept.name == copy and kept.parent.name == "submitted" and kept.parent.parent.parent == bench.clone / "runs/job", words
# A partition of so many nodes that what follows a pipe has ended long before sinfo has said all.
many = {"sinfo": '[[ "$*" == *"%P|%l"* ]] && { echo "main*|1:00:00"; seq -f "p%g|1:00" 20000; } || seq 60000 -1 4', "srun": "echo pmix",
        "sbatch": "exit 0"}
assert "--cpus-per-task=4" in dry(job, "--ranks", 2, "--time", 30, PATH=pretend(bench.folder / "bin", **many))
# Memory: the same job on a GPU of 100 kB.
small.write_text("SITE_GPUS_PER_NODE=4\nSITE_MEMORY_PER_GPU=0.0001\n")
said = refused(job, "--ranks", 4, "--time", 30, "--site", small)
assert "more than a GPU of 0.0001 GiB" in said, said
small.write_text("SITE_RANKS_PER_NODE=2\nSITE_MEMORY_PER_NODE=0.0002\n")
assert "a rank's share of a node, 1/2" in refused(job, "--ranks", 4, "--time", 30, "--site", small)
# Time: shorter than two iterations and a checkpoint, as soon as a run in the job's folder has told how long they take.
def told(seconds):
    """A folder as a run leaves it whose iterations take that long."""
    out = bench.folder / "job.out"
    out.mkdir(exist_ok=True)
    (out / "summary.json").write_text(json.dumps({"seconds_per_iteration": seconds, "checkpoint_seconds": 10.0, "ranks": 4}))


told(100)
assert "two iterations and a checkpoint take 210 s: it would never get on" in refused(job, "--ranks", 4, "--time", 3)
assert "--signal=USR1@210" in dry(job, "--ranks", 4, "--time", 4)
assert "--signal=USR1@420" in dry(job, "--ranks", 4, "--time", 60)
told(1)
assert "--signal=USR1@60" in dry(job, "--ranks", 4, "--time", 60)
assert "no time that Slurm knows" in refused(job, "--ranks", 4, "--time", "soon")
# Before any run has told, the cost model does, for a machine that is described; features of the network count as memory.
(bench.folder / "job.out/summary.json").unlink()
small.write_text("SITE_GPUS_PER_NODE=4\nSITE_MACHINE=v100\n")
assert "--signal=USR1@60" in dry(job, "--ranks", 4, "--time", 60, "--site", small)
small.write_text("SITE_GPUS_PER_NODE=4\nSITE_MEMORY_PER_GPU=0.003\n")  # 3 MB: the check alone says half a megabyte
assert "more than a GPU of 0.003 GiB" in refused(job, "--ranks", 4, "--time", 30, "--site", small)
# Sites and options.
assert "no site file jobs/sites/nowhere.env" in refused(job, "--ranks", 4, "--time", 30, "--site", "nowhere")
small.write_text("SITE_GPUS=4\n")
assert "sets SITE_GPUS (no script reads it)" in refused(job, "--ranks", 4, "--time", 30, "--site", small)
assert "two ranks would share a GPU" in refused(job, "--ranks", 8, "--time", 30, "--site", gpus, "--ranks-per-node", 8)
assert "a list is for --strong and --weak" in refused(job, "--ranks", "1,2", "--time", 30)
assert "--ranks and --time are needed" in refused(job)
assert "unknown option --rank" in refused(job, "--rank", 4)
for site in sorted((bench.clone / "jobs/sites").glob("*.env")):
    modules = {"TESSERA_PROGRAM": str(bench.program)}
    if "SITE_CONTAINER" in site.read_text():
        continue  # its program lies in a container that is not here
    assert dry(job, "--ranks", 4, "--time", 60, "--site", site.stem, **modules)
print("passed")
