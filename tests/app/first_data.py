# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of a first run on one's own data: full scale, types and units of files, what is said of values and weights."""
import re

import h5py
import numpy as np

from harness import distance, image, job, photo, pictures, run, sanitized, source, summary, tessera, work
import cell  # of tests/support

QUICK = "denoiser: {network: tv, tv: {iterations: 20}}\nsolver: {iterations: 3}\n"
SCALED = "full scale: cell.tif (uint16) reaches 1767, 11 of 16 bits: 2047 is taken for 1"


def tiff(name, array):
    pictures.imsave(work / name, array)


def first_real_run():
    """The file, the kernel and the boundary, nothing else: the noise goes, the blur goes, counts come out."""
    truth, y = cell.make(work, 512)
    out, _ = run(work / "job.yaml", "--set", "output.preview=result.tif", ranks=2)
    assert "note: full scale: cell.tif (uint16) reaches 2007, 11 of 16 bits: 2047 is taken for 1" in out, out
    assert "warning" not in out.replace("chi2", ""), out
    counts = image("runs/job")[0]
    before, after = cell.psnr(y, truth), cell.psnr(counts, truth)
    print(f"{before:.2f} dB measured, {after:.2f} dB reconstructed")
    assert 38.7 < before < 38.9 and after > before + 1.7
    written = pictures.imread(work / "runs/job/result.tif")
    assert written.dtype == np.uint16 and np.abs(written - counts).max() <= 0.501, "counts, as the measurement"
    # Scored against a truth in the same counts, but of another type.
    run(work / "job.yaml", "--set", "problem.truth=truth.tif", "--set", "output.folder=scored", "--set", "output.preview=none")
    assert abs(summary("scored")["psnr"] - after - 20 * np.log10(2047 / 4000)) < 0.01, summary("scored")["psnr"]


def types_and_units():
    """One measurement in all types of numbers: one image, in the units of its file and, in a TIFF, of its type."""
    _, y = cell.make(work, 200)
    text = cell.JOB + QUICK + "output: {preview: result.tif}\n"
    (work / "stack.h5").unlink(missing_ok=True)
    files = {"cell.tif": y, "int32.tif": y.astype(np.int32), "uint32.tif": y.astype(np.uint32), "int16.npy": y.astype(np.int16)}
    for name, array in files.items():
        tiff(name, array) if name.endswith(".tif") else np.save(work / name, array)
        out, _ = run(job(text.replace("cell.tif", name)), "--force", "--set", f"output.folder={name}.out", ranks=2)
        assert f"full scale: {name} (" in out and "2047 is taken for 1" in out, out
        assert distance(image(f"{name}.out"), image("cell.tif.out")) < 1e-6, name
        written = pictures.imread(work / f"{name}.out/result.tif")
        assert written.dtype == (np.uint16 if name == "cell.tif" else np.float32), (name, written.dtype)
        assert np.abs(written - image("cell.tif.out")[0]).max() < 0.51
    # Floats have no full scale: about [0, 1] they are taken as they are, else as their values say.
    for factor, said in ((1 / 2047, None), (1.0, 1703.0), (1e-5, 0.01703)):
        np.save(work / "float.npy", y * factor)
        out, _ = run(job(text.replace("cell.tif", "float.npy")), "--force", "--set", "output.folder=float", ranks=3)
        found = re.search(r"full scale: float.npy .float64, a type without one. reaches \S+ and all but one .* below (\S+),", out)
        assert (found is None) if said is None else abs(float(found.group(1)) / said - 1) < 1e-6, out
        top = np.sort(y, axis=None)[-1 - y.size // 10000] * factor
        resolved = float(re.search(r"factor: (\S+)", (work / "float/resolved.yaml").read_text()).group(1))
        assert abs(resolved / (1 if said is None else top) - 1) < 1e-6, (resolved, top)
        written = pictures.imread(work / "float/result.tif")
        assert written.dtype == np.float32 and np.array_equal(written, image("float")[0])
    with h5py.File(work / "float/reconstruction.h5") as f:
        about = dict(f["image"].attrs)
        assert about["units"] == "file" and about["factor"] == resolved and about["offset"] == 0, about
    # Pages, and what cannot be read.
    pictures.imsave(work / "pages.tif", np.stack([y + 50 * k for k in range(5)]).astype(np.uint16))
    _, err = run(job(text.replace("cell.tif", "pages.tif")), "--force", expect=2)
    assert "pages.tif has 5 pages (one image is read) say which" in err, err
    run(job(text.replace("cell.tif", "pages.tif:/2")), "--force", "--set", "output.folder=page", ranks=2)
    assert abs(image("page").mean() - image("cell.tif.out").mean() - 100) < 1
    tiff("complex.tif", y.astype(np.complex64))
    _, err = run(job(text.replace("cell.tif", "complex.tif")), "--force", expect=2)
    assert "complex.tif holds complex samples (real numbers are read) write their parts" in err, err
    _, err = run(job(text), "--force", "--set", "output.preview_bits=8", expect=2)
    assert "preview_bits is 8 (a TIFF is in the units of the data, in which 0 and 1 inside are 0 and 2047)" in err, err


def range_of_values():
    """Values that are probably not meant are said, and what to write."""
    photo(128, 128, gray=True)
    picture = pictures.imread(work / "photo.png").astype(np.float32)
    picture += 3 * np.random.default_rng(0).standard_normal(picture.shape, dtype=np.float32)  # the photograph itself is saturated

    def said(array, *arguments, ranks=1):
        np.save(work / "y.npy", array)
        text = "problem: {measurements: y.npy, noise: {gaussian: 0.02}}\n" + QUICK + "output: {preview: none, diagnostics: false}\n"
        return run(job(text), "--force", "--set", "output.folder=out", *arguments, ranks=ranks)[0]

    factor = ("--set", "problem.scale.factor=65535")
    assert "warning" not in said(picture, "--set", "problem.scale.factor=255")
    assert re.search(r"warning: the measurement fills little of the range: .* 'factor: data'", said(picture * 16, *factor, ranks=3))
    assert re.search(r"little of the range: all but one .* between 3\S+ and 3\S+, .* 'offset: 3\S+, factor: \d+", said(picture * 16 + 32768, *factor, ranks=2))
    assert re.search(r"warning: the measurement leaves the range: \d\d+\.?\d* % of the samples are far outside of 0 to 1,",
                     said(picture, "--set", "problem.scale.factor=1"))
    hot = picture.copy()
    hot[3, 3] = 4e4  # a hot pixel
    assert "warning" not in said(hot * 16, "--set", "problem.scale.factor=data", ranks=3)
    factor = float(re.search(r"factor: (\S+)", (work / "out/resolved.yaml").read_text()).group(1))
    assert picture.size // 10000 == 1 and factor == np.sort(hot, axis=None)[-2] * 16 < 4300, factor
    _, y = cell.make(work, 200)
    dead = y.copy()
    dead[np.arange(20), 7 * np.arange(20)] = 0
    out = said(dead, ranks=2)
    assert "warning: the measurement has 20 samples at its smallest value, 0, and 0 near it (they look dead or clipped" in out, out
    clipped = np.minimum(y, 1500)
    advice = re.search(r"has \d+ samples at its largest value, 1500, .*write 'saturation: (\S+)' in problem", said(clipped))
    assert f"{(clipped == 1500).sum()} of" not in said(y) and "saturated" not in said(y)
    out = said(clipped, "--set", f"problem.saturation={advice.group(1)}")
    count = int(re.search(r"note: (\d+) of 34596 samples are saturated", out).group(1))
    assert (clipped == 1500).sum() <= count <= (clipped > 1480).sum() and "warning" not in out, out
    # A result that leaves its data: a step of hqs that believes dead pixels.
    tiff("cell.tif", dead)
    text = cell.JOB + "solver: {name: hqs, iterations: 8, sigma: {dpir: 0.005}}\noutput: {preview: none}\n"
    out, _ = run(job(text), "--force", "--set", "output.folder=out")
    assert re.search(r"warning: the result reaches -\d+\S* to \d+\S*, the data 0 to 1767, in file units \(dead or hot", out), out


def masks_and_sizes():
    """Weights of 0 and 255 are a mask, other pairs are held against the data; sizes that do not fit name both files."""
    _, y = cell.make(work, 200)
    text = cell.JOB + QUICK + "output: {preview: none}\n"
    mask = np.full(y.shape, 255, np.uint8)
    mask[50:60, 50:60] = 0
    for name, array in (("bytes.tif", mask), ("bits.npy", mask > 0), ("sevens.npy", mask / 255 * 7)):
        tiff(name, array) if name.endswith(".tif") else np.save(work / name, array)
    out, _ = run(job(text), "--set", "problem.weights=bytes.tif", "--set", "output.folder=bytes", ranks=3)
    assert "100 of 34596 samples have weight 0" in out and "the weights are 0 and 255 only: they are taken for a mask" in out, out
    run(job(text), "--set", "problem.weights=bits.npy", "--set", "output.folder=bits", ranks=3)
    assert distance(image("bytes"), image("bits")) < 1e-6
    out, _ = run(job(text), "--set", "problem.weights=sevens.npy", "--set", "output.folder=sevens")
    assert re.search(r"warning: the weights are 0 and 7 only, .* noise of 0.378 in file units; the data show about (39|40)", out), out
    good = np.where(mask > 0, 1 / 40.0**2, 0)
    np.save(work / "good.npy", good)
    out, _ = run(job(text), "--set", "problem.weights=good.npy", "--set", "output.folder=good")
    assert "the weights are 0 and" not in out, out
    for arguments, part in (
            (["problem.truth=truth.tif", "problem.operator.boundary=circular"],
             r"cell.tif is 186 x 186 and the truth 200 x 200 \(.* boundary circular\) write 'boundary: valid', which does"),
            (["problem.truth=cell.tif"],
             r"cell.tif is 186 x 186 and the truth 186 x 186 .* give a truth of 200 x 200, .* write 'boundary: reflect'"),
            (["problem.image.size=[190, 190]"], r"and problem.image.size 190 x 190 .* give the size of 200 x 200, which valid needs"),
            (["problem.weights=truth.tif"], r"truth.tif holds .*200.* \(the measurement is .*186.*one value for each")):
        _, err = run(job(text), *[a for argument in arguments for a in ("--set", argument)], "--set", "output.folder=no", ranks=2, expect=2)
        assert re.search(part, err), err
    np.save(work / "three.npy", np.random.default_rng(0).random((3, 5, 5)))
    _, err = run(job(text), "--set", "problem.operator.kernel.file=three.npy", "--set", "output.folder=no", expect=2)
    assert "three.npy has 3 channels that differ (the image has 1)" in err, err


def denoise_in_units():
    """denoise writes the type and units of its input where the format holds them; sigma in either unit."""
    _, y = cell.make(work, 200)
    tiff("float.tif", y.astype(np.float32))
    tiff("bytes.png", (y // 8).astype(np.uint8))
    common = ("--network", "tv", "--force")
    for into, out, kind in (("cell.tif", "a.tif", np.uint16), ("cell.tif", "a.png", np.uint16), ("float.tif", "b.tif", np.float32),
                            ("bytes.png", "c.png", np.uint8), ("bytes.png", "c.tif", np.uint8)):
        code, said, err = tessera("denoise", into, out, "--sigma", 40 if y.max() > 255 and into != "bytes.png" else 5, "--unit", "file", *common, ranks=2)
        assert code == 0, err
        a, b = pictures.imread(work / into).astype(float), pictures.imread(work / out)
        assert b.dtype == kind, (out, b.dtype)
        assert abs(b.mean() - a.mean()) < 0.01 * a.mean() and b.std() < a.std(), (a.mean(), b.mean())
    code, said, _ = tessera("denoise", "float.tif", "b.jpg", "--sigma", 0.02, *common)
    assert code == 0 and "b.jpg holds 8 bits, white is 1703 of float.tif (float32)" in said, said
    assert tessera("denoise", "cell.tif", "a.h5", "--sigma", 40 / 2047, *common)[0] == 0
    with h5py.File(work / "a.h5") as f:
        assert f["image"].attrs["factor"] == 2047 and np.abs(f["image"][0] - pictures.imread(work / "a.tif")).max() < 0.6
    code, _, err = tessera("denoise", "cell.tif", "no.tif", "--sigma", 12, *common)
    assert code == 2 and "--sigma is 12 (white is 1) write --unit file" in err, err
    assert re.search(r"^pictures +libvips [\d.]+, libtiff [\d.]+, cfitsio [\d.]+$", tessera("info")[1], re.M)
    code, said, err = tessera("denoise", "cell.tif", "no.tif", "--sigma", 0.3)
    assert code == 0 and "sigma 0.3 lies outside [0, 0.1961]" in said, said + err
    # compare takes what is white from the file that says it.
    code, said, _ = tessera("compare", "cell.tif", "a.h5")
    assert code == 0 and "white is 2047 and 2047" in said and float(re.search(r"PSNR (\S+)", said).group(1)) > 30, said
    equal = tessera("compare", "a.h5", "a.h5")[1]
    assert "PSNR inf dB" in equal, equal
    tiff("near.tif", (pictures.imread(work / "float.tif") / 2047).astype(np.float32))
    tiff("nearer.tif", (pictures.imread(work / "float.tif") / 2047 + 1e-5).astype(np.float32))
    said = tessera("compare", "near.tif", "nearer.tif")[1]
    assert 99.9 < float(re.search(r"PSNR (\S+)", said).group(1)) < 100.1, "no cap at 80 dB: " + said
    code, said, _ = tessera("compare", "near.tif", "a.h5")
    assert code == 0 and "their scales differ: write --range 1" in said, said


def documented_jobs():
    """Every job of the README and of docs/ runs as it stands, and reaches the figures that stand in its first line.

    Under sanitizers, where all of it takes more than 15 minutes, three iterations of each, which have other figures.
    """
    settings = ["output.diagnostics=false", *(["solver.iterations=3"] if sanitized else [])]
    words = [word for setting in settings for word in ("--set", setting)]
    pictures.imsave(work / "photo.png", pictures.photograph("astronaut.png"))
    cell.make(work, 512)
    z, y, x = np.mgrid[:24, :40, :36]
    ball = 9000 + 30000 * ((z - 12) ** 2 + (y - 20) ** 2 + (x - 18) ** 2 < 90)
    pictures.imsave(work / "stack.tif", (ball + np.random.default_rng(1).normal(0, 300, ball.shape)).astype(np.uint16))
    r = np.mgrid[:9, :9, :9] - 4
    pictures.imsave(work / "bead.tif", (60000 * np.exp(-(r ** 2).sum(0) / 4)).astype(np.uint16))
    y, x = np.mgrid[:64, :64] - 31.5
    np.save(work / "phantom.npy", ((x ** 2 + y ** 2 < 600) * 0.5 + (abs(x - 5) + abs(y) < 9) * 0.3).astype(np.float32))
    elsewhere = ("tooth.h5", "bars-data.tif", "bead-data.tif")  # published data
    runs, figures, wrong = 0, 0, []
    for page in (source / "README.md", *sorted((source / "docs").glob("*.md"))):
        if page.stem in ("light_sheet", "telescope", "ct"):  # these run with their files: reference_page_*
            continue
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.S):
            if not re.search(r"^problem:", block, re.M) or any(name in block for name in elsewhere):
                continue
            huge = "32768" in block  # a scene needs no file; its size is what the example is about
            path = job(block.replace("32768", "256"), f"{page.stem}_{runs}.yaml")
            out, _ = run(path, "--set", f"output.folder={work}/{page.stem}_{runs}", *words, ranks=2)
            s = summary(f"{page.stem}_{runs}")
            for name, key in (("PSNR", "psnr"), ("the start has", "psnr_start")):
                if said := re.search(rf"^#.*{name} ([\d.]+)", block, re.M):
                    if not sanitized and abs(float(said.group(1)) - s[key]) >= 0.03:
                        wrong.append(f"{page.name}: {said.group(0)}, found {s[key]:.2f}")
                    figures += 1
            assert s["status"] in ("limit", "converged") and (huge or "leaves the range" not in out), out
            runs += 1
    assert not wrong, "\n".join(wrong)
    assert runs >= 10 and figures >= 14, (runs, figures)
