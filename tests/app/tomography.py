# SPDX-License-Identifier: BSD-3-Clause
"""Projections: pictures and volumes, on any ranks, from a scan and from a truth."""
import re

from harness import counted, distance, image, job, np, predicted, run, same, summary, tessera, work

RANKS = (2, 3, 5, 7)


def phantom(*size):
    """Ellipsoids, one inside of the other and one beside it; values up to 1."""
    axes = np.meshgrid(*[np.linspace(-1, 1, n) for n in size], indexing="ij")
    x, y = axes[-1], axes[-2]
    z = axes[0] if len(size) == 3 else 0 * x
    out = 0.5 * (x ** 2 / 0.8 + y ** 2 / 0.6 + z ** 2 < 0.8)
    out += 0.4 * ((x - 0.2) ** 2 + (y + 0.1) ** 2 + z ** 2 < 0.1)
    return (out - 0.3 * ((x + 0.4) ** 2 + y ** 2 + z ** 2 < 0.04)).astype(np.float32)[None]


def write(operator, rest, name="job.yaml", noise=0.3):
    return job(f"""\
schema: 1
problem:
  truth: truth.npy
  operator: {{type: tomography, {operator}}}
  noise: {{gaussian: {noise}}}
{rest}
output: {{folder: out, checkpoint: {{iterations: 2}}}}
""", name=name)


def on_any_ranks(path, least, most=1e-5):
    run(path, "--set", "output.folder=on-1", "--force")
    for ranks in RANKS:
        run(path, "--set", f"output.folder=on-{ranks}", "--force", ranks=ranks)
        assert distance(image(f"on-{ranks}"), image("on-1")) < most, (ranks, distance(image(f"on-{ranks}"), image("on-1")))
    before, after = summary("on-1")["psnr_start"], summary("on-1")["psnr"]
    print(f"PSNR {before:.2f} -> {after:.2f} dB")
    assert after > max(least, before + 0.5), (before, after)  # the start is a direct reconstruction where there is one


def tomography_of_pictures():
    """Parallel and fan beams: networks and total variation, bytes as predicted, a measurement file, resume."""
    np.save(work / "truth.npy", phantom(72, 88))
    on_any_ranks(write("views: {count: 60}", "solver: {iterations: 4}"), 25)
    path = write("views: {count: 48}, beam: fan, source_axis: 200, source_detector: 350, detector: {pitch: 2}",
                 "denoiser: {network: tv}\nsolver: {name: pgd, iterations: 30}")
    run(path, "--set", "output.folder=fan", ranks=3)
    assert predicted(path, 3)[0] <= counted("fan")  # the denoiser's inner iterations come on top
    path = write("views: {count: 48}", "denoiser: {network: none}\nsolver: {name: fista, iterations: 6}")
    for ranks in RANKS:
        run(path, "--set", f"output.folder=none-{ranks}", ranks=ranks)
        assert predicted(path, ranks)[0] == counted(f"none-{ranks}"), ranks
    run(path, "--set", "solver.iterations=4", "--set", "output.folder=half", ranks=3)
    run("half", "--resume", "--set", "solver.iterations=6", ranks=3)
    same("half", "none-3")

    # Line integrals through the middle of a disk of ones are its width; the angles are where they are said to be.
    y, x = np.mgrid[:65, :65] - 32
    np.save(work / "truth.npy", ((x ** 2 + y ** 2 < 20.5 ** 2) * 1.0).astype(np.float32)[None])
    path = write("views: {angles: [0, 37, 90]}, detector: {columns: 65}", "", noise=0.0001)
    code, out, err = tessera("simulate", path, "y.h5", ranks=2)
    assert code == 0, out + err
    import h5py
    with h5py.File(work / "y.h5") as f:
        sinogram = f["/measurements/0"][...].reshape(3, 65)
    assert np.abs(sinogram[:, 32] - 41).max() < 1.2 and np.abs(sinogram[:, :10]).max() < 0.01, sinogram[:, 32]
    measured = job("schema: 1\nproblem: {measurements: y.h5}\ndenoiser: {network: tv}\n"
                   "solver: {name: pgd, iterations: 5}\noutput: {folder: real}\n", name="real.yaml")
    run(measured, "--set", "output.folder=real-1")
    run(measured, "--set", "output.folder=real-4", ranks=4)
    assert image("real-1").shape[-2:] == (65, 65) and distance(image("real-4"), image("real-1")) < 1e-5


def tomography_of_volumes():
    """Parallel and cone beams of a volume under total variation; slabs of a parallel beam send nothing."""
    np.save(work / "truth.npy", phantom(14, 36, 40))
    tv = "denoiser: {network: tv, tv: {iterations: 8}}\nsolver: {name: pgd, iterations: 25}"
    on_any_ranks(write("views: {count: 40}", tv), 20)
    on_any_ranks(write("views: {count: 36}, beam: cone, source_axis: 150, source_detector: 300, detector: {pitch: 2}", tv), 20)
    path = write("views: {count: 24}", "denoiser: {network: none}\nsolver: {name: fista, iterations: 4}")
    for grid, sends in (([4, 1, 1], False), ([1, 2, 2], True)):
        run(path, "--set", "output.folder=cut", "--set", f"domain.grid={grid}", "--force", ranks=4)
        assert (counted("cut") > 0) == sends, (grid, counted("cut"))


def tomography_in_one_pass():
    """FBP as scikit-image has it, FDK of a ball, SIRT; each on any ranks; scans that have no direct reconstruction."""
    from skimage.transform import iradon
    np.save(work / "truth.npy", phantom(65, 65))
    path = write("views: {count: 90}, detector: {columns: 65}", "", noise=0.001)
    code, out, err = tessera("simulate", path, "y.h5", ranks=2)
    assert code == 0, out + err
    import h5py
    with h5py.File(work / "y.h5") as f:
        sinogram = f["/measurements/0"][...].reshape(90, 65)
    inside = np.hypot(*(np.mgrid[:65, :65] - 32)) < 31
    for window, theirs in (("ram-lak", "ramp"), ("hann", "hann"), ("cosine", "cosine")):
        measured = job("schema: 1\nproblem: {measurements: y.h5}\nsolver: {name: fbp, window: %s}\noutput: {folder: one}\n" % window,
                       name="fbp.yaml")
        run(measured, "--force")
        assert summary("one")["iterations"] == 1, summary("one")
        wanted = iradon(sinogram.T, theta=np.arange(90) * 2.0, filter_name=theirs)
        off = np.sqrt(np.mean((image("one")[0] - wanted)[inside] ** 2) / np.mean(wanted[inside] ** 2))
        print(f"{window}: {off:.4f} from scikit-image")
        assert off < 0.03, (window, off)
    for ranks in RANKS:  # of the last window
        run(measured, "--set", f"output.folder=on-{ranks}", "--force", ranks=ranks)
        assert distance(image(f"on-{ranks}"), image("one")) < 1e-6, ranks

    # A ball of 1 and SIRT of it, a fan's disk of 1; a fan over half a turn has no direct reconstruction, nor has a blur.
    z, y, x = np.mgrid[:24, :28, :28] - np.array([11.5, 13.5, 13.5]).reshape(3, 1, 1, 1)
    np.save(work / "truth.npy", ((x ** 2 + y ** 2 + z ** 2 < 81) * 1.0).astype(np.float32)[None])
    cone = "beam: cone, source_axis: 200, source_detector: 400, detector: {pitch: 2}, views: {count: 60}"
    for solver in ("{name: fbp}", "{name: sirt, iterations: 30, bounds: nonnegative}"):
        path = write(cone, f"solver: {solver}", noise=0.01)
        run(path, "--set", "output.folder=one", "--force")
        ball = image("one")[0][9:15, 10:18, 10:18]
        print(f"{solver}: {ball.mean():.4f} in a ball of 1, {summary('one')['psnr']:.2f} dB")
        assert abs(ball.mean() - 1) < 0.02 and summary("one")["psnr"] > 18, (ball.mean(), summary("one"))
        for ranks in RANKS:
            run(path, "--set", f"output.folder=on-{ranks}", "--force", ranks=ranks)
            assert distance(image(f"on-{ranks}"), image("one")) < 1e-5, (solver, ranks)
    np.save(work / "truth.npy", phantom(30, 40))
    fan = "views: {count: 180}, beam: fan, source_axis: 100, source_detector: 200, detector: {columns: 96}"
    y, x = np.mgrid[:40, :44] - np.array([19.5, 21.5]).reshape(2, 1, 1)
    np.save(work / "truth.npy", (((x - 3) ** 2 + (y + 4) ** 2 < 144) * 1.0).astype(np.float32)[None])
    path = write(fan, "solver: {name: fbp}", noise=0.01)
    run(path, "--set", "output.folder=one", "--force")
    disk = image("one")[0][11:21, 20:30]
    assert abs(disk.mean() - 1) < 0.01 and summary("one")["psnr"] > 20, (disk.mean(), summary("one"))
    for ranks in RANKS:
        run(path, "--set", f"output.folder=on-{ranks}", "--force", ranks=ranks)
        assert distance(image(f"on-{ranks}"), image("one")) < 1e-5, ranks
    for operator, solver, reason in ((fan.replace("count: 180", "count: 9, last: 180"), "{name: fbp}", "is a fan beam over less than a full turn"), ("views: {count: 9}", "{name: fbp, iterations: 3}", "solver.iterations"),
                                     ("views: {count: 9}", "{name: sirt, step: 0.1}", "solver.step")):
        code, _, err = tessera("check", write(operator, f"solver: {solver}"))
        assert code == 2 and reason in err, (solver, err)
    code, _, err = tessera("check", job("schema: 1\nproblem: {truth: truth.npy, operator: {type: blur, kernel: {gaussian: {sigma: 1}}}, noise: {gaussian: 0.1}}\n"
                                        "solver: {name: fbp}\noutput: {folder: out}\n", name="blur.yaml"))
    assert code == 2 and "has no direct reconstruction" in err, err


def tomography_with_proximal_steps():
    """hqs of a cone beam, 20 iterations: conjugate gradients with their preconditioner, the same on 1 and 4 ranks, with total
    variation and with the shipped network plane by plane."""
    np.save(work / "truth.npy", phantom(18, 26, 28))
    for prior in ("tv, tv: {iterations: 10}", "drunet, planes: all"):
        path = write("views: {count: 40}, beam: cone, source_axis: 120, source_detector: 240, detector: {pitch: 2}",
                     f"denoiser: {{network: {prior}}}\nsolver: {{name: hqs, iterations: 20}}")
        out, _ = run(path, "--set", "output.folder=on-1", "--force")
        assert "nan" not in out, out
        for ranks in (2, 4):
            run(path, "--set", f"output.folder=on-{ranks}", "--force", ranks=ranks)
            print(f"{prior}, {ranks} ranks: {distance(image(f'on-{ranks}'), image('on-1')):.1e} from 1")
            assert distance(image(f"on-{ranks}"), image("on-1")) < 1e-5, ranks


def tomography_mistakes():
    """What a scan cannot be, in one message."""
    np.save(work / "truth.npy", phantom(30, 40))
    cases = (("beam: parallel", "views is missing"), ("views: {count: 9, angles: [1, 2]}", "views.angles is written beside count"),
             ("views: {count: 9}, beam: fan", "source_axis is missing"), ("views: {count: 9}, beam: spiral", "parallel, fan"),
             ("views: {count: 9}, source_axis: 9", "acts on nothing"),
             ("views: {count: 9}, beam: cone, source_axis: 90, source_detector: 80", "the detector stands behind the axis"),
             ("views: {count: 9}, beam: fan, source_axis: 10, source_detector: 80, voxel: 1", "source"))
    for operator, reason in cases:
        path = write(operator, "")
        for command, ranks in (("check", 1), ("run", 2)):
            code, _, err = tessera(command, path, ranks=ranks)
            assert code == 2 and reason in err and err.count("tessera:") == 1, (operator, code, err)
            assert re.search(r"\(.*\)", err), err
