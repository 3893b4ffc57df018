# SPDX-License-Identifier: BSD-3-Clause
"""What a TIFF or a FITS says of its axes, channels and missing data, in whole runs."""
import h5py
import numpy as np
from harness import image, job, run, tessera, work

PASS = "denoiser: {network: none}\nsolver: {name: pgd, iterations: 1}\noutput: {preview: none, diagnostics: false}\n"


def write_fits(path, stored, **cards):
    """One image extension behind an empty primary, or several: a list of (name, array)."""
    def header(*pairs):
        text = "".join(f"{k:<8}= {f'{v:<20}' if isinstance(v, str) and len(v) > 1 else f'{v:>20}'}".ljust(80) for k, v in pairs)
        text += "END".ljust(80)
        return text.ljust(-(-len(text) // 2880) * 2880).encode()

    out = header(("SIMPLE", "T"), ("BITPIX", 8), ("NAXIS", 0), ("EXTEND", "T"))
    for name, a in stored:
        big = a.astype(a.dtype.newbyteorder(">")).tobytes()
        bits = a.dtype.itemsize * (-8 if a.dtype.kind == "f" else 8)
        axes = [(f"NAXIS{k + 1}", n) for k, n in enumerate(reversed(a.shape))]
        out += header(("XTENSION", "'IMAGE   '"), ("BITPIX", bits), ("NAXIS", a.ndim), *axes, ("PCOUNT", 0), ("GCOUNT", 1),
                      ("EXTNAME", f"'{name:<8}'"), *cards.items())
        out += big.ljust(-(-len(big) // 2880) * 2880, b"\0")
    (work / path).write_bytes(out)


def tagged_files():
    import tifffile
    from PIL import Image
    rng = np.random.default_rng(1)
    planes = rng.integers(0, 60000, (4, 2, 48, 60), dtype=np.uint16)
    bands = planes[:3, 0]
    tifffile.imwrite(work / "planar.tif", bands, photometric="minisblack", planarconfig="separate")
    tifffile.imwrite(work / "dyes.tif", np.moveaxis(planes[:, 0], 0, -1), photometric="minisblack", planarconfig="contig",
                     compression="zlib")
    tifffile.imwrite(work / "hyper.tif", planes, imagej=True, metadata={"axes": "ZCYX"})
    tifffile.imwrite(work / "one.tif", planes[:, 0], imagej=True, metadata={"axes": "ZYX"}, truncate=True)
    gray = (planes[0, 0] // 256).astype(np.uint8)
    k = np.arange(256)
    fire = np.stack([np.clip(3 * k - 255 * c, 0, 255) for c in range(3)]).astype(np.uint16) * 257
    tifffile.imwrite(work / "fire.tif", gray, photometric="palette", colormap=fire)
    tifffile.imwrite(work / "double.tif", planes[0, 0].astype(np.float64))
    # A color map for each page; a plane that kept the description of its stack; a volume in one page.
    maps = np.stack([(k[:, None] * step % 256) for step in ((7, 31, 57), (91, 13, 73))]).astype(np.uint8)
    indexed = [Image.fromarray(gray).convert("P") for _ in maps]
    for page, colors in zip(indexed, maps):
        page.putdata(gray.ravel().tolist())
        page.putpalette(colors.tobytes())
    indexed[0].save(work / "indexed.tif", save_all=True, append_images=indexed[1:])
    tifffile.imwrite(work / "single.tif", gray, description="ImageJ=1.54f\nimages=10\nslices=10\n", metadata=None)
    for name, c0, c1 in (("signed.tif", -32768, 1), ("density.tif", 3, 0.5)):
        tifffile.imwrite(work / name, gray.astype(np.uint16), description=f"ImageJ=1.54f\ncf=0\nc0={c0}\nc1={c1}\nvunit=a\n", metadata=None)
    tifffile.imwrite(work / "bricks.tif", np.stack([gray] * 16), tile=(16, 16, 16), volumetric=True, photometric="minisblack")
    sky = rng.normal(10, 1, (48, 60)).astype(np.float32)
    write_fits("mef.fits", [("SCI", sky), ("ERR", sky + 1), ("IV", np.stack([sky, sky + 2]))])
    blank = planes[0, 0].astype(np.int16)
    blank[5:9, 7:20] = -99
    write_fits("blank.fits", [("SCI", blank)], BLANK=-99)
    # What changes what samples mean, and is not followed: a line. A thumbnail alone is no picture.
    write_fits("full.fits", [("SCI", sky)], SATURATE=12.5)
    write_fits("raw.fits", [("SCI", sky)], TRIMSEC="'[1:50,3:48]'", BIASSEC="'[51:60,1:48]'")
    write_fits("cut.fits", [("SCI", sky)], DATASEC="'[11:70,1:48]'")  # of the frame before it was cut
    Image.fromarray(gray).save(work / "moving.png", save_all=True, append_images=[Image.fromarray(255 - gray)])
    with h5py.File(work / "words.h5", "w") as f:
        for name in ("white", "index", "counts"):
            f[name] = gray
        f["white"].attrs["IMAGE_WHITE_IS_ZERO"] = np.uint8(1)
        f["index"].attrs["IMAGE_SUBCLASS"] = np.bytes_("IMAGE_INDEXED")
        f["counts_errors"] = sky
    with tifffile.TiffWriter(work / "raw.tif") as tiff:
        tiff.write(gray[::4, ::4], subfiletype=1, photometric="minisblack", metadata=None, subifds=1)
        tiff.write(planes[0, 0], photometric="minisblack", metadata=None)
    for path, code, words in (("full.fits", 0, "saturated, as its header says"), ("raw.fits", 0, "what lies outside of [1:50,3:48] was not exposed"), ("moving.png", 0, "the first of 2 frames is read"),
                              ("words.h5:/white", 0, "not inverted"), ("words.h5:/index", 0, "indices of a palette"),
                              ("words.h5:/counts", 0, "stand in /counts_errors, and are not used"), ("raw.tif", 2, "in a directory below")):
        got, out, err = tessera("check", job(f"problem: {{measurements: '{path}', operator: {{type: identity}}}}\n" + PASS))
        assert got == code and words in out + err, (path, got, out, err)
    swapped = np.moveaxis(planes, 1, 0)
    wanted = {"planar.tif": (bands, ""),
              "dyes.tif": (planes[:, 0], "dyes.tif: 4 samples of a pixel are its channels"),
              "dyes.tif:/c2": (planes[2:3, 0], ""),
              "hyper.tif:/all": (swapped, "hyper.tif: 2 channels, 4 slices, as its ImageJ description says"),
              "hyper.tif:/c1": (swapped[1:], ""),
              "one.tif:/all": (planes[None, :, 0], "4 slices"),
              "fire.tif": (gray[None], "the indices of its palette are taken"),
              "double.tif": (planes[0, :1], ""),
              "indexed.tif:/all": (np.moveaxis(maps[:, gray], -1, 0), "indexed.tif: palette expanded to RGB"),
              "single.tif": (gray[None], "single.tif: its ImageJ description says 10 slices, and it holds 1 plane"),
              "signed.tif": (gray[None] - 32768.0, "values are the stored numbers less 32768, as ImageJ's calibration says"),
              "density.tif": (gray[None] * 0.5 + 3, "values are the stored numbers times 0.5 plus 3"),
              "cut.fits": (sky[None], ""),
              "mef.fits:/ERR": (sky[None] + 1, ""),
              "mef.fits:/3/1": (sky[None] + 2, ""),
              "mef.fits:/IV/channels": (np.stack([sky, sky + 2]), "")}
    for ranks in (1, 2):
        for path, (values, said) in wanted.items():
            out, _ = run(job(f"problem: {{measurements: '{path}', operator: {{type: identity}}, noise: {{gaussian: 0.1}}}}\n" + PASS),
                         "--force", "--set", "output.folder=out", ranks=ranks)
            got = image("out")
            assert got.shape == values.shape and np.abs(got - values).max() < 0.02, (path, got.shape, values.shape)
            assert said in out, (path, out)
    for path, reason in (("mef.fits", "mef.fits holds 3 images (one is read) say which: "), ("hyper.tif", "hyper.tif:/c0"),
                         ("mef.fits:/IV", "has 2 planes (one picture is read) say which: "), ("one.tif", "has 4 pages"),
                         ("single.tif:/all", "single.tif, which is that plane"), ("bricks.tif", "bricks.tif holds 16 slices in one page")):
        code, _, err = tessera("check", job(f"problem: {{measurements: '{path}', operator: {{type: identity}}}}\n" + PASS), ranks=2)
        assert code == 2 and reason in err, err

    # A mask of numpy's bool: what is True is measured. BLANK says that a sample is missing.
    mask = rng.random((48, 60)) < 0.7
    tifffile.imwrite(work / "mask.tif", mask)
    text = "problem: {truth: double.tif, operator: {type: mask, file: mask.tif}, noise: {gaussian: 0.01}}\n" + PASS
    out, _ = run(job(text), "--force", "--set", "output.folder=masked", ranks=2)
    assert "mask.tif: " in out and "not inverted" in out, out
    error = np.abs(image("masked")[0] - planes[0, 0])
    assert error[mask].max() < 0.1 * 60000 and error[~mask].max() > 20000, (error[mask].max(), error[~mask].max())
    out, _ = run(job("problem: {measurements: blank.fits, operator: {type: identity}, noise: {gaussian: 0.01}}\n" + PASS),
                 "--set", "output.folder=blank", ranks=2)
    assert "52 of 2880 samples are not numbers and count 0" in out, out

    # Flags beside the extension that is measured: said, unless they are used, or of another size.
    dq = (rng.random((48, 60)) < 0.05).astype("i2")
    write_fits("exposure.fits", [("SCI", rng.random((48, 60)).astype("f4")), ("DQ", dq)])
    write_fits("other.fits", [("SCI", rng.random((48, 60)).astype("f4")), ("DQ", dq[:40])])
    for path, more, right in (("exposure.fits:/SCI", "", True), ("exposure.fits:/1", "", True), ("exposure.fits:/SCI", ", bad: {flags: 'exposure.fits:/DQ'}", False),
                              ("other.fits:/SCI", "", False), ("mef.fits:/SCI", "", False), ("exposure.fits:/DQ", "", False)):
        code, out, err = tessera("check", job(f"problem: {{measurements: '{path}', operator: {{type: identity}}, noise: {{gaussian: 0.1}}{more}}}\n" + PASS), ranks=2)
        assert code == 0 and ("exposure.fits:/DQ lies beside the measurement" in out + err) == right, (path, out, err)
