# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of budgets, plans and tuned choices."""
import os
import re

from harness import distance, image, job, photo, predicted, run, summary, tessera, work


def keeps_its_memory():
    """A run with a budget stays below it, in smaller windows, with the same image; too small a budget is refused."""
    photo(400, 400)
    path = job()
    run(path, "--set", "solver.iterations=2")
    want, free = image("out"), summary("out")["peak_bytes_per_rank"][0]
    budget = 125e6
    assert free > 0.8 * budget, free  # else nothing is asked of it
    for extra, ranks in (([], 1), (["--set", "denoiser.averaging=cycle"], 1), ([], 2)):
        out, _ = run(path, "--set", "memory=125 MB", "--set", "solver.iterations=2", "--force", *extra, ranks=ranks)
        peak = max(summary("out")["peak_bytes_per_rank"])
        print(f"{peak / 1e6:.1f} MB of {budget / 1e6:.0f} MB, without a budget {free / 1e6:.1f} MB")
        assert peak <= budget, peak
        if not extra:
            assert distance(image("out"), want) < 1e-5
        if ranks == 1:
            assert "patch, patch" in (work / "out/log.txt").read_text(), out
    for memory, reason in (("60 MB", "leaves the network nothing"), ("100 MB", "takes more")):
        code, _, err = tessera("run", path, "--set", f"memory={memory}", "--force")
        assert code == 2 and reason in err, err


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

    code, out, err = tessera("tune", path, "--seconds", 0.2, "--candidates", 3, "--machine", "here.yaml", ranks=2)
    assert code == 0 and "best:" in out and "bfloat16" in out, out + err
    assert "measured: true" in (work / "here.yaml").read_text()
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
    code, out, err = tessera("plan", path, "--ranks", "2")
    assert code == 0 and "measured on this computer" not in out, out  # measured with 2 ranks per host, asked with 1
