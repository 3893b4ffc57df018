# SPDX-License-Identifier: BSD-3-Clause
"""What is submitted is what runs and is recorded, once: submissions.py PROGRAM SOURCE. Needs no Slurm: its programs are
scripts of this test, the tasks of an array are started by it, in another locale where one can be made.
"""
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from harness import alone, pretend, summary

program, source = sys.argv[1], Path(sys.argv[2])
sys.path.insert(0, str(source / "jobs"))
import sweep_table  # noqa: E402

bench = alone("submissions")
said = bench.folder / "sbatch.txt"
queue = bench.folder / "queue.txt"
queue.write_text("")
path = {"PMI_KINDS": "none pmix", "PATH": pretend(
    bench.folder / "bin",
    # The number of the job counts up; each line of the file is one submission, quoted for a shell.
    sbatch=f'[[ " $* " == *" --test-only "* ]] && exit\nprintf "%q " "$@" >>{said}; echo >>{said}\n'
           f'echo "Submitted batch job $((16 + $(wc -l <{said})))"',
    sinfo='[[ "$*" == *"%P|%l"* ]] && echo "main*|1:00:00" || echo 4',
    squeue=f"cat {queue}",
    # As after sbatch --export=NONE: the ranks get what srun is told to pass on.
    srun='[[ $1 == --mpi=list ]] && echo $PMI_KINDS && exit\nwhile [[ $1 == -* ]]; do shift; done\n[[ $SLURM_EXPORT_ENV == ALL ]] && exec "$@"\nexec env -i "$@"')}


def submit(job, table, *options, expect=0):
    """(what was said, arguments of sweep.sbatch, options of sbatch) of a submission."""
    before = said.read_text().count("\n") if said.exists() else 0
    out = bench.shell("bash", "-c", 'exec "$@" 2>&1', "-", "jobs/submit.sh", job, "--ranks", 1, "--time", 5, "--sweep", table,
                      "--name", "a sweep", *options, expect=expect, **path)
    lines = said.read_text().splitlines() if said.exists() else []
    if len(lines) == before:
        return out, None, None
    words = shlex.split(lines[-1])
    script = words.index("jobs/sweep.sbatch")
    return out, words[script + 1:], words[:script]


def task(arguments, number, array=17, expect=0, **environment):
    """Log of a task of an array."""
    slurm = {"SLURM_JOB_ID": str(array), "SLURM_ARRAY_JOB_ID": str(array), "SLURM_ARRAY_TASK_ID": str(number), "SLURM_NTASKS": "1",
             "SLURM_EXPORT_ENV": "NONE"}
    return bench.shell("bash", "-c", 'exec "$@" 2>&1', "-", "bash", "jobs/sweep.sbatch", *arguments, expect=expect,
                       **path | slurm | environment)


def recorded(number):
    return json.loads((results / f"{number}.json").read_text())


# --- tables as spreadsheets write them ------------------------------------------------------------------------------------
def read(data, name="table.csv"):
    """(rows, or the message of what is wrong; notes)"""
    table = bench.folder / name
    table.write_bytes(data if isinstance(data, bytes) else data.encode())
    notes = []
    try:
        return sweep_table.read_table(table, notes.append), notes
    except ValueError as error:
        return str(error).removeprefix(str(bench.folder) + "/"), notes


two = [{"a.b": "0.05", "c": "10"}, {"a.b": "0.12", "c": "20"}]
plain = "a.b,c\n0.05,10\n0.12,20\n"
for data in (plain, "\ufeff" + plain.replace("\n", "\r\n"), plain.encode("utf-16"), plain.encode("utf-16-be"), plain.replace("\n", "\r"),
             plain.replace(",", "\t"), "sep=;\n" + plain.replace(",", ";"), " a.b ; c;;\n0,05;10;;\n0,12;20;;\n", '"a.b","c"\n"0.05","10"\n"0.12", 20\n'):
    assert read(data) == (two, []), (data, read(data))
assert read(plain + ",\n,,\n")[0] == two and "line 3 below the first holds no value" in read(plain + ",\n,,\n")[1][0]
assert read('a,b\n"{log: [0.1, 0.05]}",\n')[0] == [{"a": "{log: [0.1, 0.05]}"}]
assert read("a;b\n[0.1, 0.05];0,5\n")[0] == [{"a": "[0.1, 0.05]", "b": "0.5"}]
assert read("a\n{log: [0.1, 0.05]}\n", "one.tsv")[0] == [{"a": "{log: [0.1, 0.05]}"}]
for data, words in (("a,b\n0,05,1\n", "has 3 cells (the first line has 2) write decimal points"), ("a,b\n1\n", "an empty cell"),
                    ("a,a\n1,2\n", "a heads two columns"), ("a,,b\n1,2,3\n", "'' heads column 2"), ("\u200ba,b\n1,2\n", r"'\u200ba' heads"),
                    ("a;b\n[0,1, 0,05];1\n", "may be decimal, or part a list"), ("a;b\n1.000;0,5\n", "part thousands"),
                    ("a;b\n1,000;2\n", "part thousands"), ('a,b\n"x,2\n3,4\n', "double quote"), (b"PK\x03\x04\0\0", "export it as CSV"),
                    ("k\n\u00e4\n".encode("cp1252"), "CSV UTF-8"), ("a,b\n,\n", "has no rows"), ("", "has no rows"),
                    ("relative_to\n/x\n", "names its folders itself"), ("a;b,c\n1;2\n", "between its cells")):
    assert words in read(data)[0], (data, read(data))

# --- the files that a job names, however it does ----------------------------------------------------------------------------
named = bench.folder / "named"
named.mkdir()
for name in ("a.h5", "b c.npy", "it's.png", "k=1.tif", "dark.npy", "w.safetensors", "unnamed.png"):
    (named / name).write_text(name)
(named / "job.yaml").write_text("""\
problem: # unnamed.png
  measurements: a.h5:/y  # it's a comment
  operator: [{type: blur, kernel: {file: "b c.npy"}}, {file: 'it''s.png'}]
output: {folder: ., preview: none}
""")
(named / "table.csv").write_text("denoiser.weights,solver.iterations\nw.safetensors,5\n")
listed = sweep_table.inputs(named / "job.yaml", named / "table.csv", ["--set", "solver.start=k=1.tif", "--set", f"problem={{dark: {named}/dark.npy}}"])
at, *files = [line.split(" ", 2) for line in listed.decode().splitlines()]
assert at == [str(named)], at
assert [line[2] for line in files] == [f"{named}/dark.npy", "a.h5", "b c.npy", "it's.png", "k=1.tif", "w.safetensors"], files
assert all(int(line[0]) == len(Path(line[2]).name) and int(line[1]) == (named / line[2]).stat().st_mtime_ns for line in files), files
(kept := bench.folder / "named.inputs").write_bytes(listed)
assert sweep_table.changed(kept) == b"", sweep_table.changed(kept)
(named / "w.safetensors").write_text("others")
(named / "dark.npy").unlink()
assert sweep_table.changed(kept) == f"{named}/dark.npy, w.safetensors".encode(), sweep_table.changed(kept)

# --- a sweep: the files change when it was submitted -----------------------------------------------------------------------
(bench.folder / "jöbs 1").mkdir()
job = bench.job("jöbs 1/photo", changes := """\
problem: {truth: ../photo.png, noise: {gaussian: 0.02}}
denoiser: {network: tv}
solver: {iterations: 2}
output: {preview: none, diagnostics: false}
""")
table = bench.folder / "rows.csv"
table.write_bytes("\ufeffdenoiser.tv.weight;solver.iterations\r\n0,05;3\r\n0,3;\r\n;\r\n".encode())
out, arguments, options = submit(job, table, "--", "--parsable")
assert {"--array=0-1", "--job-name=a sweep"} <= set(options) and "line 3 below the first holds no value" in out, (out, options)
identity = arguments[arguments.index("--submission") + 1]
sweep = bench.clone / "runs/a sweep"
results = sweep / identity
kept = table.read_bytes()
job.write_text(changes.replace("iterations: 2", "iterations: 7"))
table.write_text("denoiser.tv.weight\n0.9\n")

# A locale with decimal commas, where the machine can make one.
german = {}
if shutil.which("localedef") and Path("/usr/share/i18n/locales/de_DE").exists():
    (bench.folder / "locales").mkdir()
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "ISO-8859-1", bench.folder / "locales/de_DE.ISO-8859-1"], check=False)
    german = {"LOCPATH": f"{bench.folder}/locales", "LC_ALL": "de_DE.ISO-8859-1"} if made.returncode == 0 else {}
if not german:
    print("no locale with decimal commas could be made (localedef, package locales): tasks ran in this one")
log = task(arguments, 0, **german)
assert "done" in log and f"row 0 of {results}/submitted/table.csv" in log and "Traceback" not in log, log
assert summary(results / "0")["iterations"] == 3 and "weight: 0.05" in (results / "0/resolved.yaml").read_text()
assert recorded(0)["settings"] == {"denoiser.tv.weight": "0.05", "solver.iterations": "3"} and recorded(0)["exit_code"] == 0
assert 0 < recorded(0)["wall_seconds"] < 600, recorded(0)
assert (sweep / "17").resolve() == results, "the array's number is a name of its folder"
assert bench.shell(program, "status", sweep).count("finished") == 1, "a run has one row"

# What a record cannot be written to does not end the task; a program that may not have the folder writes no record.
(results / "1.json.tmp").mkdir()
log = task(arguments, 1)
assert "no record of row 1" in log and summary(results / "1")["iterations"] == 2, log
assert "weight: 0.3" in (results / "1/resolved.yaml").read_text()
(results / "1.json.tmp").rmdir()
refuses = bench.folder / "refuses"
refuses.write_text("#!/bin/sh\nexit 2\n")
refuses.chmod(0o755)
(results / "1/owner.json").write_text("{}")
task(["--program", refuses, *arguments], 1, expect=2)
assert not (results / "1.json").exists()
(results / "1/owner.json").unlink()
task(["--program", refuses, *arguments], 1, expect=2)
assert recorded(1)["exit_code"] == 2

# --- the same again -------------------------------------------------------------------------------------------------------
other, arguments, _ = submit(job, table)
assert arguments[arguments.index("--submission") + 1] != identity and "goes on" not in other, "another table is another sweep"
job.write_text(changes)
table.write_bytes(kept)
queue.write_text(f"17 RUNNING|tessera-{identity}\n18 RUNNING|tessera-0123456789\n")
out, arguments, _ = submit(job, table, expect=2)
assert "this sweep is array 17 RUNNING" in out and "scancel 17" in out and arguments is None, out
queue.write_text("")
out, arguments, options = submit(job, table, "--at-once", 3, "--", "--parsable")
assert "--array=1%3" in options and f"goes on with what is in {results}; rows to compute: 1" in out, (out, options)
assert "nothing to do" in task(arguments, 1, array=19), "it went on from the checkpoint at its end"
assert recorded(1)["exit_code"] == 0
assert "row 0 is finished" in task(arguments, 0, array=19)
out, arguments, _ = submit(job, table, "--", "--parsable")
assert "all 2 rows are finished" in out and out.splitlines()[-1] == "19" and arguments is None, out
assert (sweep / "19").resolve() == results
rows = bench.shell(bench.clone / ".venv/bin/python", "jobs/collect.py", sweep / "17", "-o", bench.folder / "rows_of.csv", **german)
assert "2 runs" in rows and "failed" not in rows, rows
shutil.rmtree(results / "0")  # what was taken away is computed again
assert "--array=0" in submit(job, table)[2]
# Other data under the same name: another sweep, whose rows are all computed; the data brought back, the old one.
photo = bench.folder / "photo.png"
picture, at = photo.read_bytes(), photo.stat()
os.utime(photo, ns=(at.st_atime_ns, at.st_mtime_ns + 1000))
out, arguments, options = submit(job, table)
assert "--array=0-1" in options and "goes on" not in out and identity not in arguments, (out, options)
photo.write_bytes(picture + b"more")
os.utime(photo, ns=(at.st_atime_ns, at.st_mtime_ns))
assert identity not in submit(job, table)[1]
photo.write_bytes(picture)
os.utime(photo, ns=(at.st_atime_ns, at.st_mtime_ns))
arguments = submit(job, table)[1]
assert identity in arguments
# Between its submission and the start of a task, or between two tasks.
os.utime(photo, ns=(at.st_atime_ns, at.st_mtime_ns + 1000))
log = task(arguments, 0, expect=2)
assert "../photo.png changed since the sweep was submitted" in log and recorded(0)["exit_code"] == 2, log
os.utime(photo, ns=(at.st_atime_ns, at.st_mtime_ns))
assert "the job says relative_to" in submit(job, table, "--set", "relative_to=/", expect=2)[0]

# --- one job --------------------------------------------------------------------------------------------------------------
for environment, options, words in (({}, (), "cores per rank: 4, threads per rank: 1 (OMP_NUM_THREADS)"),
                                    ({}, ("--", "--export=NONE"), "cores per rank: 4, threads per rank: 4"),
                                    ({"SBATCH_EXPORT": "NONE"}, (), "cores per rank: 4, threads per rank: 4")):
    out = bench.shell("bash", "-c", 'exec "$@" 2>&1', "-", "jobs/submit.sh", job, "--ranks", 1, "--time", 5, *options, **path | environment)
    assert words + "," in out, (words, out)
out = bench.shell("jobs/submit.sh", job, "--ranks", 1, "--time", 5, expect=2, **path | {"PMI_KINDS": "none pmi2"})
assert "srun has no PMIx" in out and "SITE_LAUNCHER=mpirun" in out, out
words = shlex.split(said.read_text().splitlines()[-1])
copy = Path(words[words.index("jobs/reconstruct.sbatch") + 1])
assert copy.read_text() == changes and copy.name == "photo.yaml" and copy.parent.parent == bench.clone / "runs/submitted", copy
assert words[-2:] == ["--set", f"relative_to='{job.parent}'"], words
note = ["bash", "-c", 'source jobs/batch.sh; note_changes "$1"', "-", copy]
assert bench.shell(*note) == ""
os.utime(photo, ns=(at.st_atime_ns, at.st_mtime_ns + 1000))
assert "note: ../photo.png changed since this job was submitted" in bench.shell(*note)
os.utime(photo, ns=(at.st_atime_ns, at.st_mtime_ns))

# --- a signal between the start of a command and its number -----------------------------------------------------------------
for signal in ("USR1", "TERM") * 3:
    end = bench.shell("bash", "-c", f"""source jobs/batch.sh; SITE_LAUNCHER=mpirun; set -T
trap '[[ -n $sent || $BASH_COMMAND != child=* ]] || {{ sent=1; kill -{signal} $$; }}' DEBUG
supervise bash -c 'trap "exit 85" USR1; for ((i = 0; i < 200; ++i)); do sleep 0.05; done'
echo "$sent $code" """)
    assert end in ("1 85\n", "1 138\n"), (signal, end)  # 138: before the command could take it
print("passed")
