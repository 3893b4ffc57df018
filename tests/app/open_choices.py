# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of what a job leaves open: how good the shortest one is, and what its data decide."""
import re

import numpy as np

from harness import distance, image, job, pictures, run, summary, tessera, work
from looks import END, back_to, said


def shortest_job():
    """problem and output, nothing else: far above the measurement, and the residual is that of the noise."""
    i = np.arange(13) - 6

    def gaussian(sigma):
        k = np.exp(-(i[:, None] ** 2 + i[None] ** 2) / 2 / sigma**2)
        return k / k.sum()

    def made(name, sigma, noise):
        """Writes y.npy, and k.npy if it is blurred; the sharp picture where y is, and the measurement's PSNR."""
        x = pictures.photograph(name) / 255.0
        x = x[..., :3] @ [0.2125, 0.7154, 0.0721] if x.ndim == 3 else x
        x = x[20:276, 20:276]
        k = gaussian(sigma) if sigma else np.pad([[1.0]], 6)
        if sigma:
            np.save(work / "k.npy", k)
        y = sum(k[a, b] * x[a : a + 244, b : b + 244] for a in range(13) for b in range(13))
        y += noise * np.random.default_rng(7).standard_normal(y.shape)
        np.save(work / "y.npy", y.astype(np.float32))
        return x[6:250, 6:250], psnr(y, x[6:250, 6:250])

    def psnr(image, truth):
        return -10 * np.log10(np.mean((image[8:-8, 8:-8] - truth[8:-8, 8:-8]) ** 2))

    blur = "problem: {measurements: y.npy, operator: {type: blur, kernel: {file: k.npy}}}\n" + END
    identity = "problem: {measurements: y.npy, operator: {type: identity}}\n" + END
    # Above what a Wiener filter or total variation reach here with the strength that the truth likes best.
    for name, sigma, noise, gain in (("astronaut.png", 1, 0.01, 4.5), ("coins.png", 1, 0.001, 7.6), ("camera.png", 2.5, 0.01, 3.7)):
        truth, start = made(name, sigma, noise)
        said(blur, ranks=2 if noise == 0.001 else 1)
        chi2 = summary("out")["chi2"]
        assert psnr(image("out")[0], truth) > start + gain and 0.5 < chi2 < 1.5, (name, start, psnr(image("out")[0], truth), chi2)
    truth, start = made("chelsea.png", 0, 0.1)
    out = said(identity)
    one = psnr(image("out")[0], truth)
    assert "solver hqs, 1 iteration" in out and one > start + 8, (start, one)
    for iterations in (8, 16):
        said(identity, f"solver={{name: admm, iterations: {iterations}}}")
        assert psnr(image("out")[0], truth) > one - 0.5, (iterations, one, psnr(image("out")[0], truth))


def open_choices():
    """What a job leaves open follows from its data: a prior for volumes and spectra, a mask's rule, a noise that is too small."""
    r = np.random.default_rng(3)
    np.save(work / "v.npy", (0.5 + 0.2 * np.sin(np.arange(12 * 40 * 44) / 99).reshape(1, 12, 40, 44) + r.normal(0, 0.05, (1, 12, 40, 44))).astype(np.float32))
    np.save(work / "two.npy", (0.5 + 0.2 * np.sin(np.arange(2 * 60 * 64) / 99).reshape(2, 60, 64) + r.normal(0, 0.05, (2, 60, 64))).astype(np.float32))
    plain = "problem: {measurements: v.npy, operator: {type: identity}}\n" + END
    for name, note, solver in (("v.npy", "", "solver hqs, 1 iteration"),
                               ("two.npy", "note: denoiser tv: the image has 2 channels", "solver admm, 60 iterations")):
        out = said(plain, f"problem.measurements={name}", ranks=2)
        assert note in out and ("denoiser tv" in out) == (note != "") and solver in out, out
        assert tessera("check", job(plain), "--set", f"problem.measurements={name}")[0] == 0

    photo = pictures.photograph("camera.png")[100:292, 100:308] / 255.0
    psnr = lambda folder="out": -10 * np.log10(np.mean((image(folder)[0, 8:-8, 8:-8] - photo[8:-8, 8:-8]) ** 2))
    # Samples that are missing, as NaN or by weights, get what a mask of them gets.
    keep = r.random(photo.shape) < 0.6
    y = (photo + r.normal(0, 0.03, photo.shape)).astype(np.float32)
    np.save(work / "nan.npy", np.where(keep, y, np.nan))
    np.save(work / "y.npy", np.where(keep, y, 0))
    np.save(work / "keep.npy", keep.astype(np.uint8))
    said("problem: {measurements: y.npy, operator: {type: mask, file: keep.npy}}\n" + END)
    best = psnr()
    assert best > 26, best
    for measured in ("nan.npy", "y.npy, weights: keep.npy"):
        text = f"problem: {{measurements: {measured}, operator: {{type: identity}}}}\n" + END
        out = said(text, ranks=1 + (measured == "nan.npy"))
        assert "note: solver admm, 16 iterations, as for a mask" in out and abs(psnr() - best) < 0.1, (best, psnr(), out)
    np.save(work / "few.npy", np.where(r.random(photo.shape) < 0.95, y, np.nan))
    out = said(text.replace("y.npy, weights: keep.npy", "few.npy"))
    assert "as for a mask" not in out and "solver hqs, 5 iterations" in out, "a few holes in much noise"
    # What the job says of the solver holds; a resumed run goes on as it began.
    assert "as for a mask" not in said(text, "solver.iterations=2")
    said(text, "solver.iterations=2", "solver.name=admm")
    nan = text.replace("y.npy, weights: keep.npy", "nan.npy")
    said(nan, "output.folder=whole")
    said(nan, "output.folder=half", "output.checkpoint.iterations=4", "output.checkpoint.keep=9")
    back_to("half", 4)
    run(job(nan), "--resume", "--set", "output.folder=half", "--set", "output.checkpoint.iterations=4")
    assert np.array_equal(image("half"), image("whole"))

    # Noise that is stated as half of what the data have: said, and mended where the program chose the solver.
    i = np.arange(9) - 4
    k = np.exp(-(i[:, None] ** 2 + i[None] ** 2) / 2)
    k /= k.sum()
    np.save(work / "k.npy", k)
    sharp = pictures.photograph("coins.png")[20:240, 60:300] / 255.0
    y = sum(k[a, b] * sharp[a : a + 212, b : b + 232] for a in range(9) for b in range(9))
    y += 0.02 * np.random.default_rng(5).standard_normal(y.shape)
    np.save(work / "y.npy", y.astype(np.float32))
    photo = sharp[4:-4, 4:-4]
    blur = "problem: {measurements: y.npy, operator: {type: blur, kernel: {file: k.npy}}}\n" + END
    line = r"warning: problem.noise says 0.01, the finest details of the measurement scatter by 0[.]0(19|2)\S* "
    said(blur)
    best = psnr()
    for ranks in (1, 3):
        out = said(blur, "problem.noise.gaussian=0.01", ranks=ranks)
        assert re.search(line + ".*the solver that was chosen takes what the data show", out) and psnr() > best - 0.1, (best, psnr(), out)
        if ranks == 3:
            assert distance(image("out"), first) < 1e-4
        first = image("out")
    for stated in (0.02, 0.015, 0.04):
        assert "finest details" not in said(blur, f"problem.noise.gaussian={stated}", "solver.iterations=1"), stated
    out = said(blur, "problem.noise.gaussian=0.01", "solver.name=hqs", "solver.iterations=2")
    assert re.search(line, out) and "takes what" not in out and abs(summary("out")["noise"] - 0.01) < 1e-6, out
    # The same run from its resolved job, and resumed by its folder.
    said(blur, "problem.noise.gaussian=0.01", "solver.iterations=6", "output.folder=six")
    run(str(work / "six" / "resolved.yaml"), "--set", f"output.folder={work / 'same'}")
    assert np.array_equal(image("same"), image("six"))
    said(blur, "problem.noise.gaussian=0.01", "solver.iterations=6", "output.folder=three", "output.checkpoint.iterations=3", "output.checkpoint.keep=9")
    back_to("three", 3)
    run("three", "--resume")
    assert np.array_equal(image("three"), image("six"))

    # The first iterations in 16 bits: nearly the same picture, and a resumed run's is the same where they have ended or not.
    early = ("denoiser.early_precision=bfloat16", "output.checkpoint.iterations=1", "output.checkpoint.keep=9")
    said(blur)
    said(blur, *early, "output.folder=early")
    rounded = image("early")
    assert 0 < distance(rounded, image("out")) < 0.02 and abs(psnr("early") - best) < 0.03, (psnr("early"), best)
    for done in (2, 4):
        back_to("early", done)
        run("early", "--resume")
        assert np.array_equal(image("early"), rounded), done
    for more, words in ((["denoiser.averaging=cycle"], "cycle: two networks"), (["solver.sigma=0.1", "solver.name=hqs"], "does not fall by itself")):
        code, _, err = tessera("run", job(blur), "--force", "--set", early[0], *[w for m in more for w in ("--set", m)])
        assert code == 2 and words in err, err
