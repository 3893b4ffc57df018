# SPDX-License-Identifier: BSD-3-Clause
"""What a user does with operators, a solver, a network and a format of the user's own.

Scenario, program and source as arguments.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "app"))
from harness import counted, distance, image, job, np, photo, predicted, run, same, scenario, summary, tessera, work  # noqa: E402

RANKS = (1, 2, 3, 5, 7)


def write_job(operator, solver="{name: drs, iterations: 6, sigma: 0.05, step: 1, step_length: 0.9}",
              denoiser="{network: sketch, weights: random, widths: [4]}"):
    return job(f"""\
schema: 1
problem:
  truth: photo.png
  operator: {operator}
  noise: {{gaussian: 0.01}}
denoiser: {denoiser}
solver: {solver}
output: {{folder: out, checkpoint: {{iterations: 3}}}}
""")


def everything(path, exact_bytes=False, plans=True):
    """check, plan, run on all numbers of ranks, resume, report."""
    for ranks in RANKS:
        run(path, "--set", f"output.folder=on-{ranks}", ranks=ranks)
        assert distance(image(f"on-{ranks}"), image("on-1")) < 1e-5, ranks
        if ranks in (1, 5):
            told, out = predicted(path, ranks)
            assert "checkpoint" in out and "samples" in out, out
            if exact_bytes:
                assert told == counted(f"on-{ranks}"), (told, counted(f"on-{ranks}"))
    if plans:
        code, out, err = tessera("plan", path, "--ranks", "1,4,64")
        assert code == 0 and out.count("x") > 3, out + err
    assert summary("on-1")["status"] == "limit" and np.isfinite(image("on-1")).all()
    before, after = summary("on-1")["psnr_start"], summary("on-1")["psnr"]
    print(f"PSNR {before:.2f} -> {after:.2f} dB")

    run(path, "--set", "solver.iterations=3", "--set", "output.folder=half", ranks=3)
    run("half", "--resume", "--set", "solver.iterations=6", ranks=3)
    same("half", "on-3")
    run(path, "--set", "solver.iterations=3", "--set", "output.folder=other", ranks=2)
    run("other", "--resume", "--set", "solver.iterations=6", ranks=5)
    assert distance(image("other"), image("on-1")) < 1e-5

    import subprocess
    from harness import source
    done = subprocess.run([sys.executable, "-B", str(source / "jobs/report.py"), *[f"on-{r}" for r in RANKS], "--out",
                           "report.html"], cwd=work, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (work / "report.html").stat().st_size > 10000


def difference():
    """A local operator with an option, a solver with an option, a network, all added from outside."""
    photo(60, 83, gray=True)
    everything(write_job("{type: difference, gain: 0.5}"))


def means():
    """A global operator: samples that belong to a detector."""
    photo(60, 83, gray=True)
    path = write_job("{type: means}", solver="{name: pgd, iterations: 6, sigma: 0.05}")
    everything(path, exact_bytes=True)
    # The means of the result's rows and columns are those of the truth, up to noise.
    from harness import pictures
    truth = pictures.imread(work / "photo.png") / 255.0
    path = write_job("{type: means}", solver="{name: fista, iterations: 300}", denoiser="{network: none}")
    run(path, "--set", "output.folder=fit", ranks=3)
    for axis in (0, 1):
        off = image("fit")[0].mean(axis) / 255 - truth.mean(axis)
        assert np.sqrt((off ** 2).mean()) < 0.02, off


def coils():
    """An operator composed of two: several maps of one image, then a mask; a denoiser that is a function."""
    photo(60, 83)
    for solver in ("{name: drs, iterations: 6, sigma: 0.05, step: 1, step_length: 0.9}",
                   "{name: pgd, iterations: 6, sigma: 0.02}"):
        import shutil
        for folder in work.glob("*"):
            if folder.is_dir():
                shutil.rmtree(folder)
        everything(write_job("{type: coils, coils: 3}", solver=solver, denoiser="{network: shrink}"),
                   exact_bytes=True)
    # With all samples kept and hardly any noise, the truth.
    path = write_job("{type: coils, kept: 1}", solver="{name: fista, iterations: 60}", denoiser="{network: none}")
    run(path, "--set", "output.folder=all", "--set", "problem.noise.gaussian=0.0001", ranks=2)
    assert summary("all")["psnr"] > 60, summary("all")["psnr"]


def blend():
    """A layer of three axes, added from outside with its network, on a volume."""
    z, y, x = np.mgrid[0:24, 0:40, 0:34]
    truth = (0.5 + 0.3 * np.sin(x / 5) * np.cos(y / 7) * np.sin(z / 3)).astype(np.float32)
    np.save(work / "volume.npy", truth[None])
    path = job("""\
schema: 1
problem: {truth: volume.npy, operator: {type: mask, keep: 0.6}, noise: {gaussian: 0.05}}
denoiser: {network: blended, weights: random}
solver: {name: pgd, iterations: 6}
output: {folder: out, checkpoint: {iterations: 3}}
""")
    everything(path, exact_bytes=True)
    # Its halo is of slices alone: blocks that are cut along rows and columns send nothing to it.
    for grid in ((3, 1, 1), (1, 3, 1)):
        run(path, "--set", "output.folder=cut", "--force", "--set", f"domain.grid={list(grid)}", ranks=3)
        assert distance(image("cut"), image("on-1")) < 1e-5
        assert (counted("cut") > 0) == (grid[0] > 1), (grid, counted("cut"))


def exposures():
    """Samples on three axes of an image with two."""
    photo(60, 83)
    everything(write_job("{type: exposures, exposures: 4}"))
    path = write_job("{type: exposures}", denoiser="{network: tv}")
    code, out, err = tessera("simulate", path, "y.h5", ranks=3)
    assert code == 0, out + err
    measured = job("schema: 1\nproblem: {measurements: y.h5, image: {size: [60, 83]}}\ndenoiser: {network: tv}\n"
                   "solver: {name: fista, iterations: 5, sigma: 0.02}\noutput: {folder: real}\n", name="real.yaml")
    for ranks in (1, 4):
        run(measured, "--set", f"output.folder=real-{ranks}", ranks=ranks)
    assert distance(image("real-4"), image("real-1")) < 1e-5


def write_plain(name, pixels, note="of the test"):
    """(C, H, W) of bytes, with the size of a pixel and a note."""
    size = f"{pixels.shape[0]} 1 {pixels.shape[1]} {pixels.shape[2]}"
    header = f"plain image\nsize {size}\ntype uint8\npixel 1 0.5 0.25 um\nnote {note}\n\n"
    (work / name).write_bytes(header.encode() + pixels.tobytes())


def read_plain(name):
    """The lines of the header, and the samples."""
    header, samples = (work / name).read_bytes().split(b"\n\n", 1)
    lines = dict(line.split(" ", 1) for line in header.decode().splitlines())
    size = [int(n) for n in lines["size"].split()]
    return lines, np.frombuffer(samples, {"uint8": np.uint8, "float32": np.float32}[lines["type"]]).reshape(size)[:, 0]


def small_images():
    """A rule: a small picture gets total variation, a larger one and one whose job names a denoiser do not."""
    for side, more, wanted in ((60, "", "tv"), (70, "", "drunet"), (60, "denoiser: {network: none}\n", "none")):
        photo(side, 83)
        path = job("schema: 1\nproblem: {truth: photo.png, operator: {type: identity}, noise: {gaussian: 0.05}}\n"
                   f"{more}output: {{folder: out-{side}}}\n")
        code, out, err = tessera("check", path)
        assert code == 0 and f"denoiser {wanted}" in out, out + err
        assert ("the picture is small" in out) == (wanted == "tv"), out
    path = job("schema: 1\nproblem: {truth: photo.png, operator: {type: identity}, noise: {gaussian: 0.05}}\n"
               "solver: {iterations: 3}\noutput: {folder: out}\n")
    run(path, ranks=2)
    assert "admm" in (work / "out/resolved.yaml").read_text()


def plain():
    """A file format: as truth, measurement, mask and preview; size of a pixel and text from file to file."""
    import h5py
    from harness import pictures
    photo(60, 83)
    rows = np.moveaxis(pictures.imread(work / "photo.png"), -1, 0)
    write_plain("photo.plain", rows)
    path = write_job("{type: blur, kernel: {gaussian: {sigma: 1.5}}}", denoiser="{network: tv}",
                     solver="{name: fista, iterations: 6, sigma: 0.02}")
    run(path, "--set", "output.folder=png", ranks=3)
    text = pathlib.Path(path).read_text().replace("photo.png", "photo.plain")
    path = job(text.replace("{folder: out,", "{folder: out, preview: result.plain,"))
    everything(path, plans=False)
    assert (image("on-3") == image("png")).all()
    for ranks in RANKS:
        lines, got = read_plain(f"on-{ranks}/result.plain")
        assert lines["type"] == "uint8" and lines["pixel"].split()[1:] == ["0.5", "0.25", "um"], lines
        assert lines["note"] == "of the test" and got.shape == rows.shape, lines
        assert (got == np.clip(np.rint(image(f"on-{ranks}")), 0, 255)).mean() > 0.999
        with h5py.File(work / f"on-{ranks}/reconstruction.h5") as f:
            said = f["image"].attrs
            assert (said["pixel_0"], said["pixel_1"], said["unit"]) == (0.5, 0.25, "um"), dict(said)
            assert f["metadata"].attrs["note"] == "of the test"
    # Measured, with a mask; and what else takes the name of an image.
    write_plain("mask.plain", np.where(rows[:1] > 20, 255, 0).astype(np.uint8))
    measured = job("schema: 1\nproblem:\n  measurements: photo.plain\n  operator: {type: mask, file: mask.plain}\n"
                   "  noise: {gaussian: 0.01}\ndenoiser: {network: tv}\n"
                   "solver: {name: fista, iterations: 5, sigma: 0.02}\noutput: {folder: real}\n", name="real.yaml")
    for ranks in (1, 4):
        run(measured, "--set", f"output.folder=real-{ranks}", ranks=ranks)
    assert distance(image("real-4"), image("real-1")) < 1e-5
    for arguments in (("denoise", "photo.plain", "clean.plain", "--network", "tv", "--sigma", "0.05"),
                      ("scene", "scene.plain", "--size", "40x56"), ("compare", "photo.plain", "clean.plain")):
        code, out, err = tessera(*arguments, ranks=3)
        assert code == 0, (arguments, out, err)
    assert read_plain("clean.plain")[0]["note"] == "of the test" and read_plain("scene.plain")[1].shape == (3, 40, 56)
    (work / "photo.plain").write_bytes((work / "photo.plain").read_bytes()[:-100])
    code, out, err = tessera("run", path, "--set", "output.folder=cut", ranks=3)
    assert code == 2 and "photo.plain ends before its last sample" in err and err.count("tessera:") == 1, (code, err)


def mixed_stack():
    """Local and global operators in one stack; an operator's own solver option; every data step that there is."""
    photo(60, 83)
    stack = "{type: stack, parts: [{type: mask, keep: 0.3}, {type: means}, {type: difference}]}"
    for solver, many in (("pgd", 4), ("admm", 7), ("drs", 3)):
        path = write_job(stack, solver=f"{{name: {solver}, iterations: 4, sigma: 0.05}}", denoiser="{network: tv}")
        for ranks in (1, many):
            run(path, "--set", f"output.folder={solver}-{ranks}", ranks=ranks)
            assert distance(image(f"{solver}-{ranks}"), image(f"{solver}-1")) < 2e-5, (solver, ranks)


def real_data():
    """Measurements of both kinds of operators, simulated into a file, reconstructed from it on other ranks."""
    photo(60, 83, gray=True)
    path = write_job("{type: stack, parts: [{type: means}, {type: identity}]}", denoiser="{network: tv}")
    code, out, err = tessera("simulate", path, "y.h5", ranks=3)
    assert code == 0 and "2 measurements" not in err and "3 measurements" in out, out + err
    measured = job("schema: 1\nproblem: {measurements: y.h5}\ndenoiser: {network: tv}\n"
                   "solver: {name: fista, iterations: 5, sigma: 0.02}\noutput: {folder: real}\n", name="real.yaml")
    for ranks in (1, 4):
        run(measured, "--set", f"output.folder=real-{ranks}", ranks=ranks)
    assert distance(image("real-4"), image("real-1")) < 1e-5


def side_by_side():
    """Two jobs in one program on halves of four ranks, and then each the other's: bits and traces of each alone."""
    import harness
    import subprocess
    photo(60, 83)
    first = job(harness.JOB, name="first.yaml")
    second = job(harness.TV.replace("iterations: 4", "iterations: 6"), name="second.yaml")
    alone = str(harness.Path(harness.program).with_name("tessera"))
    for path, folder in ((first, "first"), (second, "second")):
        done = subprocess.run([harness.launch, "-n", "2", alone, "run", path, "--set", f"output.folder={folder}"], cwd=work,
                              text=True, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr
    code, out, err = tessera(first, second, str(work), ranks=4)
    assert code == 0, out + err
    columns = ["iteration", "phase", "parent", "bytes_sent", "bytes_received", "messages"]
    for folder, wanted in (("first-0", "first"), ("first-1", "second"), ("second-0", "first"), ("second-1", "second")):
        same(folder, wanted)
        ours, theirs = harness.phases(folder), harness.phases(wanted)
        assert len(ours) == len(theirs) == 2
        for a, b in zip(ours, theirs):
            a, b = a[a["iteration"] >= 0], b[b["iteration"] >= 0]
            assert len(a) > 20 and all((a[c] == b[c]).all() for c in columns), (folder, len(a), len(b))
            # Clocks and peaks are the run's own.
            assert 0 <= a["start"].min() and a["start"].max() < 600 and a["peak_bytes"].max() < 1.1 * b["peak_bytes"].max()
        assert summary(folder)["iterations"] == summary(wanted)["iterations"]


def mistakes():
    """Names, keys and limits of the additions are checked like those of the program."""
    photo(40, 40)
    cases = ((("{type: diference}",), {}, "did you mean difference?"),
             (("{type: difference, gian: 2}",), {}, "did you mean problem.operator.gain?"),
             (("{type: difference, gain: -1}",), {}, "gain is -1 (it must be a number > 0"),
             (("{type: means, gain: 2}",), {}, "it acts only for type difference"),
             (("{type: difference}",), {"solver": "{name: drs, step_length: 3}"},
              "step_length is 3 (it must be a number > 0, <= 2"),
             (("{type: difference}",), {"solver": "{name: pgd, step_length: 1}"}, "it acts only for solver.name drs"),
             (("{type: difference}",), {"denoiser": "{network: sketch}"}, "no weights of sketch are shipped"))
    for operator, rest, reason in cases:
        path = write_job(*operator, **rest)
        for command, ranks in (("check", 1), ("run", 2)):
            code, _, err = tessera(command, path, ranks=ranks)
            assert code == 2 and reason in err and err.count("tessera:") == 1, (reason, code, err)


{f.__name__: f for f in (blend, difference, means, coils, exposures, plain, small_images, mixed_stack, real_data, side_by_side, mistakes)}[scenario]()
