# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of volumes."""
import shutil
import subprocess
import sys

from harness import distance, h5py, image, job, np, predicted, run, same, source, summary, tessera, work


def volume():
    """Balls and bars in 96 x 70 x 83 voxels, which no block divides evenly."""
    z, y, x = np.mgrid[0:96, 0:70, 0:83]
    v = 0.1 + 0.6 * ((z - 40) ** 2 + (y - 30) ** 2 + (x - 35) ** 2 < 22 ** 2)
    v += 0.25 * ((abs(y - 50) < 6) & (abs(x - 60) < 8)) - 0.3 * ((z - 45) ** 2 + (y - 32) ** 2 + (x - 30) ** 2 < 8 ** 2)
    return v.astype(np.float32)


def truth():
    with h5py.File(work / "v.h5", "w") as f:
        f["image"] = volume()[None]


def write(solver, network="{network: tv, tv: {iterations: 24}}", problem="truth: v.h5", more="", name="job.yaml",
          boundary="reflect"):
    return job(f"""\
schema: 1
problem:
  {problem}
  operator: {{type: blur, kernel: {{gaussian: {{sigma: [1.5, 1.0, 0.7]}}}}, boundary: {boundary}}}
  noise: {{gaussian: 0.02}}
denoiser: {network}
solver: {solver}
output: {{folder: out, checkpoint: {{iterations: 2}}}}
{more}""", name=name)


def volume_on_many_ranks():
    """Each solver, with and without a prior, on 1 to 7 ranks cut along any axes; the blur is that of scipy."""
    truth()
    for solver, network, boundary, grids in (("pgd", "tv", "reflect", ([7, 1, 1], [1, 2, 2])),
                                             ("fista", "none", "circular", ([2, 1, 2], [1, 5, 1], [3, 2, 1])),
                                             ("hqs", "tv", "zero", ([1, 1, 3],)),
                                             ("admm", "tv", "valid", ([2, 1, 1], [1, 5, 1]))):
        prior = "{network: tv, tv: {iterations: 16}}" if network == "tv" else "{network: none}"
        sigma = ", sigma: 0.05" if network == "tv" else ""
        path = write(f"{{name: {solver}, iterations: 2{sigma}}}", prior, boundary=boundary)
        run(path, "--set", "output.folder=one", "--force")
        for grid in grids:
            ranks = grid[0] * grid[1] * grid[2]
            run(path, "--set", "output.folder=many", "--force", "--set", f"domain.grid={grid}", ranks=ranks)
            assert distance(image("many"), image("one")) < 1e-5, (solver, grid, distance(image("many"), image("one")))
        assert summary("one")["psnr"] > summary("one")["psnr_start"] or network == "none", (solver, summary("one"))
        assert (work / "one/reconstruction.png").is_file() and (work / "one/measurement.png").is_file()
    told, out = predicted(path, 12)
    assert "96 x 70 x 83" in out and "depth" in out, out

    from scipy.ndimage import gaussian_filter1d
    code, out, err = tessera("simulate", path, "clean.h5", "--set", "problem.noise.gaussian=0", "--set",
                             "problem.operator.boundary=reflect", "--set", "denoiser={network: none}", "--set",
                             "solver={name: pgd}", ranks=3)
    assert code == 0, err
    wanted = volume().astype(np.float64)
    for axis, sigma in enumerate((1.5, 1.0, 0.7)):
        wanted = gaussian_filter1d(wanted, sigma, axis=axis, mode="mirror", radius=int(sigma / 0.3 + 1))
    with h5py.File(work / "clean.h5") as f:
        assert distance(f["/measurements/0"][...].reshape(wanted.shape), wanted) < 1e-6


def volume_of_pages():
    """A volume from a TIFF of many pages, cut along any axis; a page alone and pages that differ are told apart."""
    import tifffile
    levels = (volume() * 40000).astype(np.uint16)
    tifffile.imwrite(work / "v.tif", levels)
    truth()
    path = write("{name: pgd, iterations: 2, sigma: 0.05}", problem='truth: "v.tif:/all"', more="")
    run(path, "--set", "output.folder=one")
    for grid in ([2, 2, 1], [1, 1, 3]):
        run(path, "--set", "output.folder=many", "--force", "--set", f"domain.grid={grid}", ranks=grid[0] * grid[1] * grid[2])
        assert distance(image("many"), image("one")) < 1e-5, grid
    assert image("one").shape == (1, 96, 70, 83)
    for problem, reason in (("truth: v.tif", "v.tif:/all, a volume of them"), ('truth: "v.tif:/3"', "write those of rows")):
        code, _, err = tessera("check", write("{name: pgd, iterations: 2}", problem=problem, name="bad.yaml"))
        assert code == 2 and reason in err, err
    tifffile.imwrite(work / "odd.tif", levels[0])
    tifffile.imwrite(work / "odd.tif", levels[0, :50], append=True)
    code, _, err = tessera("check", write("{name: pgd}", problem='truth: "odd.tif:/all"', name="bad.yaml"), ranks=2)
    assert code == 2 and "pages that differ" in err, err
    for more, reason in (("{network: drunet}", "and it is for pictures"),
                         ("{network: tv, tv: {weight: 0}}", "tv.weight is 0")):
        code, _, err = tessera("check", write("{name: pgd}", network=more, name="bad.yaml"), ranks=2)
        assert code == 2 and reason in err, err


def volume_goes_on():
    """Stopped and resumed on the same and on other ranks; measured, with masked voxels; shown by slices in the report."""
    truth()
    path = write("{name: admm, iterations: 4, sigma: 0.05}")
    run(path, "--set", "output.folder=straight", ranks=3)
    run(path, "--set", "output.folder=half", "--set", "solver.iterations=2", ranks=3)
    shutil.copytree(work / "half", work / "other")
    run("half", "--resume", "--set", "solver.iterations=4", ranks=3)
    same("half", "straight")
    run("other", "--resume", "--set", "solver.iterations=4", ranks=5)
    assert distance(image("other"), image("straight")) < 1e-5

    masked = job("""\
schema: 1
problem: {truth: v.h5, operator: {type: mask, keep: 0.4}, noise: {gaussian: 0.02}}
denoiser: {network: tv}
solver: {name: fista, iterations: 3, sigma: 0.05}
output: {folder: masked}
""", name="masked.yaml")
    code, out, err = tessera("simulate", masked, "y.h5", ranks=4)
    assert code == 0, err
    measured = job("schema: 1\nproblem: {measurements: y.h5}\ndenoiser: {network: tv}\n"
                   "solver: {name: fista, iterations: 3, sigma: 0.05}\noutput: {folder: real}\n", name="real.yaml")
    for ranks in (1, 5):
        run(measured, "--set", f"output.folder=real-{ranks}", ranks=ranks)
    run(masked, ranks=2)
    assert distance(image("real-5"), image("real-1")) < 1e-5
    assert distance(image("real-1"), image("masked")) < 1e-4

    done = subprocess.run([sys.executable, "-B", str(source / "jobs/report.py"), "straight", "half", "--out", "report.html"],
                          cwd=work, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (work / "report.html").read_text()
    assert "96 x 70 x 83 (the middle slices)" in page
