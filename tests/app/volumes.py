# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of volumes."""
import shutil
import subprocess
import sys
import time

from harness import counted, distance, h5py, image, job, np, photo, predicted, run, same, source, summary, tessera, work


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
    code, _, err = tessera("check", write("{name: pgd}", network="{network: tv, tv: {weight: 0}}", name="bad.yaml"), ranks=2)
    assert code == 2 and "tv.weight is 0" in err, err


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
    assert "96 x 70 x 83 (the middle slices;" in page


def measured_stacks():
    """A blur with a measured stack of pages, as microscopes have them: scipy's convolution, on any ranks."""
    import tifffile
    from scipy.ndimage import gaussian_filter
    from scipy.signal import fftconvolve
    rng = np.random.default_rng(3)
    z, y, x = np.mgrid[0:30, 0:41, 0:37]
    v = 0.1 + 0.8 * ((z - 14) ** 2 + (y - 19) ** 2 + (x - 20) ** 2 < 9 ** 2) * ((z - 14) ** 2 + (y - 19) ** 2 + (x - 20) ** 2 > 6 ** 2)
    k = np.zeros((9, 8, 11))  # even along the rows, its middle between two taps
    k[4, 3:5, 5] = 0.5
    k = gaussian_filter(k, (1.6, 0.9, 0.9))
    tifffile.imwrite(work / "k.tif", (k / k.max() * 60000).astype(np.uint16), photometric="minisblack")
    taps = tifffile.imread(work / "k.tif").astype(float)
    taps /= taps.sum()
    clean = fftconvolve(v, taps, mode="valid")
    noisy = 100 + 4000 * (clean + 0.01 * rng.standard_normal(clean.shape))
    tifffile.imwrite(work / "y.tif", noisy.astype(np.uint16), photometric="minisblack")
    text = ("problem:\n  measurements: y.tif:/all\n  scale: {offset: 100, factor: 4000}\n"
            "  operator: {type: blur, kernel: {file: k.tif:/all}}\ndenoiser: {network: tv}\n"
            "solver: {name: fista, iterations: 40}\noutput: {folder: one}\n")
    path = job(text, name="stack.yaml")
    out, err = run(path)
    assert "center: " not in out + err and "middle between two taps, at [4.0, 3.5, 5.0]" in out, out
    # Larger than the measurement by the kernel, cropped to what it covers.
    one = image("one")
    assert one.shape == (1, 22, 34, 27), one.shape
    inside = v[4:-4, 3:-4, 5:-5]
    error = lambda a: np.sqrt(np.mean((a - inside) ** 2))
    found, start = error((one[0] - 100) / 4000), error((noisy - 100) / 4000)
    assert found < 0.6 * start, (found, start)
    for ranks, grid in ((2, [2, 1, 1]), (3, [1, 1, 3]), (5, [1, 5, 1]), (7, [7, 1, 1])):
        run(path, "--set", "output.folder=many", "--force", "--set", f"domain.grid={grid}", ranks=ranks)
        assert distance(image("many"), one) < 2e-5, (grid, distance(image("many"), one))
    # The blur of the program is that of scipy, whatever the boundary; a center moves it.
    np.save(work / "v.npy", v[None].astype(np.float32))
    made = job("problem: {truth: v.npy, operator: {type: blur, kernel: {file: k.tif:/all}, boundary: zero}}\n", name="made.yaml")
    same_size = fftconvolve(v, taps, mode="full")[4:34, 4:45, 5:42]
    for ranks in (1, 4):
        for method in ("fft", "direct"):
            code, out, err = tessera("simulate", made, "clean.h5", "--force", "--set", f"problem.operator.method={method}", ranks=ranks)
            assert code == 0, out + err
            with h5py.File(work / "clean.h5") as f:
                assert distance(f["/measurements/0"][...].reshape(same_size.shape), same_size) < 1e-6, (ranks, method)
    code, out, err = tessera("simulate", made, "clean.h5", "--force", "--set", "problem.operator.kernel.center=[4, 3, 5]")
    assert code == 0 and "middle between two taps" in out, out + err
    with h5py.File(work / "clean.h5") as f:
        assert distance(f["/measurements/0"][...].reshape(same_size.shape), fftconvolve(v, taps, mode="full")[4:34, 3:44, 5:42]) < 1e-6
    told, out = predicted(path, 6)
    # An array of three axes is a stack too.
    np.save(work / "k.npy", taps.astype(np.float32))
    code, out, err = tessera("simulate", made, "clean.h5", "--force", "--set", "problem.operator.kernel.file=k.npy")
    assert code == 0, out + err
    with h5py.File(work / "clean.h5") as f:
        assert distance(f["/measurements/0"][...].reshape(same_size.shape), same_size) < 1e-6
    # What is odd about a kernel is said as for pictures; what cannot be is refused.
    tifffile.imwrite(work / "bead.tif", (k / k.max() * 2000 + 400).astype(np.uint16), photometric="minisblack")
    tifffile.imwrite(work / "moved.tif", np.roll(taps, (2, 0, -3), (0, 1, 2)).astype(np.float32), photometric="minisblack")
    kernel, center = "problem.operator.kernel.file=", "problem.operator.kernel.center="
    for setting, wanted, why in ((kernel + "bead.tif:/all", 0, "stands on a pedestal: its rim is 400 all around"),
                                 (kernel + "moved.tif:/all", 0, "write 'center: [6, 4, 2]'"),
                                 (center + "[4, 4]", 2, "kernel.center has 2 numbers (the image is a volume) write slice, row and column"),
                                 ("problem.measurements=y.tif:/3", 2, "is a stack of 9 slices (the image is a picture of")):
        code, out, err = tessera("check", path, "--set", setting)
        assert code == wanted and why in out + err, (setting, code, out + err)


def thick_slices():
    """Every third slice of a blurred volume, and two light sheets, each with a kernel of its own: scipy's samples, proximal
    steps on any ranks, more than what the data show."""
    from scipy.ndimage import gaussian_filter
    z, y, x = np.mgrid[0:27, 0:34, 0:30]
    v = 0.1 + 0.8 * (abs(np.hypot(np.hypot(z - 13, y - 17), x - 15) - 8) < 2.5)
    np.save(work / "v.npy", v[None].astype(np.float32))
    thick = ("problem:\n  truth: v.npy\n"
             "  operator: {type: downsampling, factor: [3, 1, 1], kernel: {gaussian: {sigma: [1.3, 0.9, 0.9]}}, boundary: zero}\n")
    clean = job(thick, name="clean.yaml")
    line = lambda s: np.exp(-np.arange(-int(s / 0.3 + 1), int(s / 0.3 + 1) + 1) ** 2 / 2 / s ** 2)
    blurred = v.astype(np.float32).astype(float)
    for axis, s in enumerate((1.3, 0.9, 0.9)):
        blurred = np.apply_along_axis(lambda t: np.convolve(t, line(s) / line(s).sum(), mode="same"), axis, blurred)
    for ranks, method, first in ((1, "fft", 0), (1, "direct", 2), (4, "fft", 1), (5, "direct", 0)):
        code, out, err = tessera("simulate", clean, "clean.h5", "--force", "--set", f"problem.operator.method={method}",
                                 "--set", f"problem.operator.phase=[{first}, 0, 0]", ranks=ranks)
        assert code == 0, out + err
        with h5py.File(work / "clean.h5") as f:
            assert distance(f["/measurements/0"][...].reshape(-1, 34, 30), blurred[first::3]) < 1e-6, (ranks, method, first)
    path = job(thick + "  noise: {gaussian: 0.01}\ndenoiser: {network: tv}\nsolver: {name: hqs, iterations: 6}\noutput: {folder: one}\n")
    run(path)
    one = image("one")
    code, out, err = tessera("simulate", path, "noisy.h5")
    assert code == 0, out + err
    with h5py.File(work / "noisy.h5") as f:
        seen = f["/measurements/0"][...].reshape(-1, 34, 30)
    near = np.repeat(seen, 3, axis=0)
    error = lambda a: np.sqrt(np.mean((a - v) ** 2))
    assert error(one[0]) < 0.6 * error(near), (error(one[0]), error(near))
    for ranks, grid in ((2, [2, 1, 1]), (3, [1, 3, 1]), (5, [5, 1, 1]), (7, [1, 1, 7])):
        run(path, "--set", "output.folder=many", "--force", "--set", f"domain.grid={grid}", ranks=ranks)
        assert distance(image("many"), one) < 2e-5, (grid, distance(image("many"), one))
    cut = ("--set", "denoiser={network: none}", "--set", "solver={name: fista, iterations: 2}", "--set", "domain.grid=[2, 1, 2]")
    told, out = predicted(path, 4, *cut)
    run(path, "--set", "output.folder=bytes", *cut, ranks=4)
    assert told == counted("bytes"), (told, counted("bytes"))
    # Two sheets: what one smears along a row the other has sharp.
    sheets = ("problem:\n  truth: v.npy\n  operator:\n    type: stack\n    parts:\n"
              "    - {type: blur, kernel: {file: a.npy}, boundary: reflect}\n    - {type: blur, kernel: {file: b.npy}, boundary: reflect}\n"
              "  noise: {gaussian: 0.01}\ndenoiser: {network: tv}\nsolver: {name: admm, iterations: 6}\noutput: {folder: both}\n")
    k = np.zeros((9, 9, 9))
    k[4, 4, 4] = 1
    np.save(work / "a.npy", gaussian_filter(k, (0.7, 0.7, 2.0)).astype(np.float32))
    np.save(work / "b.npy", gaussian_filter(k, (2.0, 0.7, 0.7)).astype(np.float32))
    both = job(sheets, name="sheets.yaml")
    run(both)
    two = image("both")
    run(both, "--set", "output.folder=many", "--force", "--set", "domain.grid=[2, 1, 2]", ranks=4)
    assert distance(image("many"), two) < 2e-5, distance(image("many"), two)
    single = job(sheets.replace("    - {type: blur, kernel: {file: b.npy}, boundary: reflect}\n", ""), name="single.yaml")
    run(single, "--set", "output.folder=alone")
    assert error(two[0]) < 0.9 * error(image("alone")[0]), (error(two[0]), error(image("alone")[0]))
    for setting, why in (("problem.operator.factor=[2, 2]", "factor has two numbers"),
                         ("problem.operator.factor=[1, 1, 1]", "keeps every sample"),
                         ("problem.operator.factor=17", "factor"),
                         ("problem.operator.phase=[3, 0, 0]", "is 3 on axis 0"),
                         ("problem.operator.phase=[0, 0]", "factor has three")):
        code, out, err = tessera("check", path, "--set", setting)
        assert code == 2 and why in out + err, (setting, code, out + err)
    np.save(work / "p.npy", v[13, :, :].astype(np.float32))
    picture = job("problem:\n  truth: p.npy\n  operator: {type: downsampling, factor: [1, 2, 2], kernel: {gaussian: {sigma: 1}}}\n  noise: {gaussian: 0.01}\n", name="p.yaml")
    code, out, err = tessera("check", picture)
    assert code == 2 and "factor has three numbers (the image is a picture of 34 x 30)" in out + err, out + err


def volume_by_planes():
    """A shipped network of pictures sees a volume plane by plane: on any ranks and cuts, in every mode, resumed, planned
    and shown as pictures are."""
    np.save(work / "v.npy", volume()[None, 28:52, 14:44, 20:46])
    problem = """\
schema: 1
problem:
  truth: v.npy
  operator: {type: blur, kernel: {gaussian: {sigma: [1.2, 1.2, 1.2]}}, boundary: reflect}
  noise: {gaussian: 0.03}
"""
    path = job(problem + "denoiser: {network: drunet}\nsolver: {name: pgd, iterations: 2, sigma: 0.05}\n"
               "output: {folder: out, checkpoint: {iterations: 1}}\n")
    results = {}
    for planes, grid, modes in (("all", [1, 2, 2], ("patch", "layer")), ("axial", [7, 1, 1], ("layer",)),
                                ("[coronal, sagittal]", [3, 1, 1], ("patch",))):
        kind = ["--set", f"denoiser.planes={planes}"]
        run(path, *kind, "--set", "output.folder=one", "--force")
        results[planes] = image("one")
        assert summary("one")["psnr"] > summary("one")["psnr_start"] + 1, summary("one")
        ranks = grid[0] * grid[1] * grid[2]
        for mode in modes:
            how = [*kind, "--set", f"domain.grid={grid}", "--set", f"denoiser.mode={mode}"]
            run(path, *how, "--set", "output.folder=many", "--force", ranks=ranks)
            assert distance(image("many"), image("one")) < 1e-5, (planes, grid, mode)
            told, out = predicted(path, ranks, *how)
            assert told == counted("many"), (told, counted("many"), planes, grid, mode)
            assert f"in planes ({planes})" in out or planes.startswith("["), out
    assert distance(results["all"], results["axial"]) > 1e-3
    small = ["--set", "denoiser.mode=patch", "--set", "denoiser.patch=16", "--set", "denoiser.batch=3"]
    run(path, *small, "--set", "output.folder=small")
    assert distance(image("small"), results["all"]) < 1e-5

    turns = ["--set", "denoiser.averaging=cycle", "--set", "solver.iterations=4"]
    run(path, *turns, "--set", "output.folder=straight", ranks=2)
    run(path, *turns, "--set", "output.folder=half", "--set", "solver.iterations=2", ranks=2)
    run("half", "--resume", "--set", "solver.iterations=4", ranks=2)
    same("half", "straight")
    code, _, err = tessera("run", "half", "--resume", "--set", "solver.iterations=5", "--set", "denoiser.planes=axial", ranks=2)
    assert code == 2 and "denoiser.planes" in err, err
    done = subprocess.run([sys.executable, "-B", str(source / "jobs/report.py"), "straight", "--out", "report.html"],
                          cwd=work, text=True, capture_output=True)
    assert done.returncode == 0 and "24 x 30 x 26 (the middle slices;" in (work / "report.html").read_text(), done.stderr
    code, out, err = tessera("plan", path, "--ranks", "1,4")
    assert code == 0 and "drunet" in out, out + err

    # Square pixels decide where the job does not.
    for pixel, planes in (([1, 1, 1], "all"), ([4, 1, 1], "axial"), ([1, 4, 1], "coronal")):
        code, out, err = tessera("check", path, "--set", f"problem.image.pixel={pixel}")
        assert code == 0 and f"in planes ({planes})" in out, out + err
    code, out, err = tessera("denoise", "v.npy", "plain.h5", "--sigma", "0.05", "--planes", "axial,sagittal", ranks=2)
    assert code == 0, err
    with h5py.File(work / "plain.h5") as f:
        assert f["image"].shape == (1, 24, 30, 26)

    photo()
    flat = problem.replace("v.npy", "photo.png").replace("[1.2, 1.2, 1.2]", "1.2")
    for text, setting, reason in ((flat, "all", "the image is a picture"),
                                  (problem, "[axial, axial]", "a list of different ones"),
                                  (problem, "axiel", "did you mean axial?")):
        bad = job(text + f"denoiser: {{network: drunet, planes: {setting}}}\noutput: {{folder: bad}}\n", name="bad.yaml")
        code, _, err = tessera("check", bad)
        assert code == 2 and reason in err, err
    code, _, err = tessera("check", path, "--set", "denoiser={network: tv, planes: all}")
    assert code == 2 and "denoiser.planes" in err and "it acts only" in err, err


def volumes_of_256():
    """256 x 256 x 256 voxels, with the shipped network of volumes and with one of pictures by planes: on 1, 2, 3, 5, 7
    ranks, stopped and resumed, and shown by slices."""
    z, y, x = np.mgrid[0:256, 0:256, 0:256].astype(np.float32) / 256
    v = 0.1 + 0.5 * ((z - 0.4) ** 2 + (y - 0.5) ** 2 + (x - 0.45) ** 2 < 0.09)
    v += 0.3 * (np.sin(60 * x) * np.sin(50 * y) * np.sin(40 * z) > 0.5) * (z > 0.6)
    np.save(work / "v.npy", v[None].astype(np.float32))
    path = job("""\
schema: 1
problem:
  truth: v.npy
  operator: {type: blur, kernel: {gaussian: {sigma: [1.2, 1.2, 1.2]}}, boundary: reflect}
  noise: {gaussian: 0.05}
solver: {name: pgd, iterations: 2, sigma: 0.1}
output: {folder: out, checkpoint: {iterations: 1}}
""")

    def run(*arguments, ranks=1):
        code, out, err = tessera("run", *arguments, ranks=ranks, timeout=1200)
        assert code == 0, out + err

    for network, kind in (("drunet3d", ["--set", "denoiser.network=drunet3d"]),
                          ("drunet", ["--set", "denoiser={network: drunet, planes: axial}"])):
        begin = time.monotonic()
        run(path, *kind, "--set", f"output.folder={network}")
        assert summary(network)["psnr"] > summary(network)["psnr_start"] + 0.5, summary(network)
        print(network, "1 rank", round(time.monotonic() - begin, 1), "s")
        for ranks in (2, 3, 5, 7):
            begin = time.monotonic()
            run(path, *kind, "--set", "output.folder=many", "--force", ranks=ranks)
            off = distance(image("many"), image(network))
            print(network, ranks, "ranks", round(time.monotonic() - begin, 1), "s, relative difference", off)
            assert off < 1e-5, (network, ranks, off)
        run(path, *kind, "--set", "output.folder=half", "--force", "--set", "solver.iterations=1", ranks=7)
        run("half", "--resume", "--set", "solver.iterations=2", ranks=7)
        same("half", "many")
    done = subprocess.run([sys.executable, "-B", str(source / "jobs/report.py"), "drunet", "drunet3d", "--out", "report.html"],
                          cwd=work, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (work / "report.html").read_text().count("256 x 256 x 256 (the middle slices)") >= 1
