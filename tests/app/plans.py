# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of budgets, plans and tuned choices."""
import os
import re
import resource
import shutil
import subprocess
import sys
import time

import numpy as np

from harness import (JOB, NETWORK, TV, distance, image, job, photo, predicted, program, run, same, sanitized, summary, tessera,
                     work)


def keeps_its_memory():
    """A run with a budget stays below it, in smaller windows, with the same image; too small a budget is refused."""
    if sanitized:
        print("skipped: a sanitizer takes memory of its own, which nobody predicts")
        sys.exit(77)
    photo(400, 400)
    path = job()
    whole = ("--set", "denoiser.mode=whole")  # by themselves some processors are as fast in windows
    run(path, "--set", "solver.iterations=2", *whole)
    want, free = image("out"), summary("out")["peak_bytes_per_rank"][0]
    code, out, err = tessera("check", path, *whole)
    predicted, program = (1e6 * float(re.search(rf"([\d.]+) MB {what}", out).group(1))
                          for what in ("resident on the fullest rank", "program and libraries"))
    resident = summary("out")["resident_peak_bytes_per_rank"][0]
    print(f"{predicted / 1e6:.0f} MB resident predicted, {resident / 1e6:.0f} MB seen, {program / 1e6:.0f} MB of it the program")
    assert abs(predicted - resident) < 0.2 * resident, (predicted, resident)
    # What total variation keeps is in the prediction.
    convex = job("problem:\n  truth: {scene: {size: [1024, 1024], channels: 3}}\n  operator: {type: mask, keep: 0.5}\n"
                 "  noise: {gaussian: 0.01}\ndenoiser: {network: tv}\nsolver: {iterations: 2}\n"
                 "output: {folder: convex, preview: none, diagnostics: false}\n", "convex.yaml")
    run(convex)
    told = re.search(r"([\d.]+) MB resident on the fullest rank \(estimated: ([\d.]+) MB", tessera("check", convex)[1])
    told, seen = 1e6 * (float(told.group(1)) - float(told.group(2))), summary("convex")["peak_bytes_per_rank"][0]
    print(f"total variation: {told / 1e6:.0f} MB predicted, {seen / 1e6:.0f} MB seen")
    assert abs(told - seen) < 0.2 * seen, (told, seen)
    budget = 100e6
    assert free > 0.8 * budget, free  # else nothing is asked of it
    for extra, ranks in (([], 1), (["--set", "denoiser.averaging=cycle"], 1), ([], 2)):
        of_all = f"memory={(program + budget) / 1e6:.0f} MB"
        out, _ = run(path, "--set", of_all, "--set", "solver.iterations=2", "--force", *extra, ranks=ranks)
        peak = max(summary("out")["peak_bytes_per_rank"])
        print(f"{peak / 1e6:.1f} MB of {budget / 1e6:.0f} MB, without a budget {free / 1e6:.1f} MB")
        assert peak <= budget, peak
        if not extra:
            assert distance(image("out"), want) < 1e-5
        if ranks == 1:
            assert "patch, patch" in (work / "out/log.txt").read_text(), out
    for memory, reason in ((40e6, "leaves the network nothing"), (71e6, "takes more")):
        code, _, err = tessera("run", path, "--set", f"memory={(program + memory) / 1e6:.0f} MB", "--set", "scratch=never", "--force")
        assert code == 2 and reason in err, err
    # Nobody is refused who has room: some 14 images of 201 MB beside a network in small windows.
    large = job("problem:\n  truth: {scene: {size: [4096, 4096]}}\n  operator: {type: blur, kernel: {gaussian: {sigma: 1.6}}}\n"
                "  noise: {gaussian: 0.01}\n", "large.yaml")
    code, out, err = tessera("check", large, "--set", "memory=4 GB")
    assert code == 0 and "patch" in out, out + err


def plan_and_tune():
    """tessera plan agrees with tessera check; tune on 2 ranks stores a choice that run takes, and a stale one it does not."""
    photo(64, 72)
    os.environ["TESSERA_TUNED"] = str(work / "cache/tuned.yaml")
    path = job()
    told, _ = predicted(path, 4, "--set", "denoiser.mode=patch")
    code, out, err = tessera("plan", path, "--ranks", "1,4", "--machine", "v100", "--csv", "plan.csv", "--set",
                             "denoiser.mode=patch", ranks=2)
    assert code == 0 and out.count("PREDICTED") == 1, out + err
    header, one, four = [line.split(",") for line in (work / "plan.csv").read_text().splitlines()]
    row = dict(zip(header, four))
    assert row["measured"] == "predicted machine" and int(row["bytes_sent"]) == told, (row, told)
    assert dict(zip(header, one))["efficiency"] == "1.000000"
    code, _, err = tessera("plan", path, "--machine", "v1000")
    assert code == 2 and "did you mean v100?" in err, err
    code, _, err = tessera("plan", path, "--machine", "v100", "--set", "denoiser.precision=bfloat16")
    assert code == 2 and "has no bfloat16" in err, err

    # What is to go to a file goes there alone; what cannot be stored has been measured all the same.
    cache, os.environ["TESSERA_TUNED"] = os.environ["TESSERA_TUNED"], "/proc/none/tuned.yaml"
    code, out, err = tessera("tune", path, "--seconds", 0.1, "--candidates", 1, "--machine", "here.yaml", ranks=2)
    assert code == 0 and "best:" in out and "note: the choice could not be stored: cannot write /proc/none/tuned.yaml" in out, out + err
    assert "machine could not" not in out and "measured: true" in (work / "here.yaml").read_text(), out
    os.environ["TESSERA_TUNED"] = cache

    code, out, err = tessera("tune", path, "--seconds", 0.2, "--candidates", 3, ranks=2)
    assert code == 0 and "best:" in out and "bfloat16" in out and "stored in" in out, out + err
    np.save(work / "none.npy", np.full((64, 72), np.nan, np.float32))
    code, out, err = tessera("tune", path, "--set", "problem.truth=none.npy", "--candidates", 1, ranks=2)
    assert code == 2 and "none.npy has" in err, out + err
    entry = (work / "cache/tuned.yaml").read_text()
    mode = re.search(r"choice: \{mode: (\w+), patch: (\d+), batch: (\d+)", entry)
    out, _ = run(path, ranks=2)
    assert f"mode {mode.group(1)} chosen as tuned" in out, out
    resolved = (work / "out/resolved.yaml").read_text()
    assert f"mode: {mode.group(1)}" in resolved and "mode: auto" not in resolved, resolved
    assert summary("out")["bytes_sent_per_iteration"] > 0

    (work / "cache/tuned.yaml").write_text(entry.replace('torch: "', 'torch: "0.'))
    out, _ = run(path, "--force", ranks=2)
    assert "the tuned choice is stale: torch was 0." in out and "by the cost model from this computer" in out, out
    (work / "cache/tuned.yaml").write_text("nonsense: [")
    out, _ = run(path, "--force", ranks=2)
    assert "tuned.yaml cannot be read" in out and "by the cost model" in out, out
    # A row for the launch that was measured, and what to do for the other one.
    code, out, err = tessera("plan", path, "--ranks", "1,2")
    assert code == 0 and "this computer, measured with 2 ranks of " in out, out + err
    assert "no row for 1 rank (" in out and "tune" in out and not re.search(r"^64x72 +1 ", out, re.M), out
    code, out, err = tessera("plan", path, "--ranks", "2", "--threads", 77)
    assert code == 0 and "a typical CPU" in out, out  # of 77 threads: another launch
    for arguments, words in ((["--ranks", "0"], "0 is not above 0"), (["--precision", "fp16"], "did you mean float16?"),
                             (["--sizes", "64"], "of the tables of --strong and --weak")):
        code, out, err = tessera("plan", path, *arguments)
        assert code == 2 and words in err and len(err) < 300, err


def plan_counts_conjugate_gradients():
    """What a data step takes is counted on a small scene, and is about what a run takes; a run before it tells itself."""
    photo(240, 250)
    path = job(JOB.replace("circular", "valid").replace("pgd, iterations: 4, sigma: 0.1", "hqs, iterations: 8"))

    def counted():
        code, out, err = tessera("plan", path, "--ranks", "1", "--csv", "plan.csv")
        assert code == 0, out + err
        header, row = [line.split(",") for line in (work / "plan.csv").read_text().splitlines()]
        return float(dict(zip(header, row))["inner_iterations"]), out

    before, out = counted()
    assert "on a small scene" in out, out
    run(path)
    prox = summary("out")["prox"]
    taken = prox["iterations"] / prox["calls"]
    print(f"conjugate gradients per data step: {before:.3g} on a small scene, {taken:.3g} in the run")
    assert prox["missed"] == 0 and 0.6 < before / taken < 1.7, (before, taken)
    after, out = counted()
    assert abs(after / taken - 1) < 1e-3 and "as in the last run" in out, (after, taken, out)
    # That run says nothing of another operator.
    job(JOB.replace("circular", "valid").replace("pgd, iterations: 4, sigma: 0.1", "hqs, iterations: 8")
        .replace("[2.0, 1.0]", "[3.0, 3.0]"))
    assert "on a small scene" in counted()[1]


def check_of_many_ranks():
    """Beyond 64 ranks one of each kind is looked at: no minutes for a hundred thousand."""
    path = job(JOB.replace("truth: photo.png", "truth: {scene: {size: [2048, 2048]}}"))
    begin = time.time()
    code, out, err = tessera("check", path, "--ranks", "30000")
    took = time.time() - begin
    assert code == 0 and "kinds of ranks looked at" in out, out + err
    print(f"30000 ranks: {took:.1f} s")
    assert took < (300 if sanitized else 60), took


def larger_than_memory():
    """With its state in a file a run makes the same bits, whatever the problem, on any ranks, and resumes into memory and
    back; what is resident stays below what the job allows; where no file can be, it says so before anything starts."""
    if subprocess.run(["stat", "-f", "-c", "%T", work], text=True, capture_output=True).stdout.strip() in ("tmpfs", "ramfs"):
        print("skipped: the build lies in memory, where no scratch file may")
        sys.exit(77)
    photo(300, 412)
    cases = {"blur": JOB.replace(NETWORK, NETWORK.replace("{", "{mode: patch, patch: 96, ", 1)).replace("boundary: circular", "boundary: reflect"),
             "closed": JOB.replace(NETWORK, NETWORK.replace("{", "{mode: patch, patch: 96, ", 1)).replace("name: pgd", "name: hqs"),
             "counts": TV.replace("name: pgd, iterations: 4, sigma: 0.1", "name: fista, iterations: 4"),
             "scan": "problem:\n  truth: gray.png\n  operator: {type: tomography, views: {count: 9}}\n  noise: {gaussian: 0.01}\n"
                     "denoiser: {network: tv}\nsolver: {iterations: 2}\noutput: {folder: out, diagnostics: false}\n"}
    photo(600, 600, name="gray.png", gray=True)
    disk = ("--set", f"scratch_folder={work}", "--set", "scratch=always")
    for name, text in cases.items():
        path = job(text, f"{name}.yaml")
        for ranks in (1, 3):
            run(path, "--set", f"output.folder={name}{ranks}", ranks=ranks)
            out, _ = run(path, "--set", f"output.folder={name}{ranks}-disk", *disk, ranks=ranks)
            assert f"lies in a scratch file in {work}" in out and "scratch file of" in out, out
            same(f"{name}{ranks}", f"{name}{ranks}-disk")
            told = summary(f"{name}{ranks}-disk")["scratch"]
            assert len(told["bytes_per_rank"]) == ranks and min(told["bytes_per_rank"]) > 5e5, told
            assert "scratch" not in summary(f"{name}{ranks}")
    assert not [p for p in work.iterdir() if "scratch" in p.name], "the file has no name"
    # From memory to the file, and back.
    for first, then in ((disk, ()), ((), disk)):
        shutil.rmtree(work / "parts", ignore_errors=True)
        run(str(work / "blur.yaml"), "--set", "output.folder=parts", "--set", "solver.iterations=2", *first, ranks=3)
        run(str(work / "blur.yaml"), "--set", "output.folder=parts", "--resume", *(then or ("--set", "scratch=never")), ranks=3)
        same("parts", "blur3")
    # A disk that fills up (here a limit of the process that nobody foresees): what was written before is good.
    shutil.rmtree(work / "parts")
    run(str(work / "blur.yaml"), "--set", "output.folder=parts", "--set", "solver.iterations=2")
    full = subprocess.run([program, "run", str(work / "blur.yaml"), "--set", "output.folder=parts", "--resume", *disk], cwd=work,
                          text=True, capture_output=True, restore_signals=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20)))
    assert full.returncode == 3 and re.search(r"has no room for .* resume from the last checkpoint", full.stderr), (full.returncode, full.stderr)
    run(str(work / "blur.yaml"), "--set", "output.folder=parts", "--resume", *disk)
    same("parts", "blur1")
    if not sanitized:  # which takes memory of its own
        large = job("problem:\n  truth: {scene: {size: [1500, 1500], channels: 3}}\n  operator: {type: blur, kernel: {gaussian: {sigma: 1.6}}}\n"
                    "  noise: {gaussian: 0.02}\nsolver: {iterations: 1}\noutput: {folder: large, preview: none, diagnostics: false}\n", "large.yaml")
        told = tessera("check", large, "--set", "memory=450 MiB")[1]
        assert re.search(r"memory +471.9 MB resident .*as the job says", told) and re.search(r"scratch +up to \d+\.\d MB", told), told
        foreseen, unit = re.search(r"disk .* read and ([\d.]+) (\w+) written", told).groups()
        foreseen = float(foreseen) * {"MB": 1e6, "GB": 1e9}[unit]
        out, _ = run(large, "--set", "memory=450 MiB")
        resident, file = summary("large")["resident_peak_bytes_per_rank"][0], summary("large")["scratch"]["bytes_per_rank"][0]
        print(f"{resident / 1e6:.0f} MB resident of 472 MB, {file / 1e6:.0f} MB in the file")
        assert resident < 1.15 * 450 * 2**20 and file > 200e6, (resident, file)  # beside other tests its thread is late
        told = summary("large")["scratch"]
        print(f"{told['written_per_iteration'] / 1e6:.0f} MB written in an iteration, {foreseen / 1e6:.0f} MB foreseen")
        if subprocess.run(["stat", "-f", "-c", "%T", work], text=True, capture_output=True).stdout.strip() == "ext2/ext3":
            assert 0.6 * foreseen < told["written_per_iteration"] < 1.6 * foreseen, (told, foreseen)
    for more, reason in ((("scratch_folder=/nowhere",), "is not there"), (("problem.truth={scene: {size: [900000, 900000]}}",), "left \\(the state of 1 rank"),
                         (("memory=1 MiB",), "a window of the scratch file")):
        _, err = run(str(work / "counts.yaml"), "--set", "output.folder=none", *disk, *(w for m in more for w in ("--set", m)), expect=2)
        assert re.search(reason, err) and not (work / "none").exists(), err
    if os.path.isdir("/dev/shm"):
        _, err = run(str(work / "counts.yaml"), "--set", "output.folder=none", *disk, "--set", "scratch_folder=/dev/shm", expect=2)
        assert "is in memory" in err, err
