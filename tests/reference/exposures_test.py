# SPDX-License-Identifier: BSD-3-Clause
"""Exposures of space telescopes as astropy writes them: SCI, ERR and DQ beside each other, flags by the names of JWST, of
HST and of the file's own MP_ cards, on one rank and two.

Usage: exposures_test.py TESSERA SOURCE
Runs in .venv-formats (jobs/setup.sh --tests); exit code 77: skipped, with the reason."""

import os
import pathlib
import subprocess
import sys
import warnings

program, source = sys.argv[1], pathlib.Path(sys.argv[2])
python = source / ".venv-formats/bin/python"
if pathlib.Path(sys.prefix).resolve() != python.parent.parent.resolve():
    if not python.exists():
        print("skipped: no .venv-formats (jobs/setup.sh --tests installs astropy and others)")
        sys.exit(77)
    os.execv(python, [str(python), "-B", __file__, *sys.argv[1:]])

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from astropy.io import fits  # noqa: E402

warnings.simplefilter("ignore")
os.makedirs("exposures", exist_ok=True)  # others run beside this one
os.chdir("exposures")
rng = np.random.default_rng(5)
shape = (64, 80)


def tessera(*words, ranks=1, code=0):
    launch = [] if ranks == 1 else [str(source / "jobs/launch.sh"), "-n", str(ranks)]
    done = subprocess.run([*launch, program, *words], text=True, capture_output=True)
    assert done.returncode == code, (words, done.stdout + done.stderr)
    return done.stdout + done.stderr


def ran(path, bad, weights="", ranks=1, code=0, sci="SCI"):
    """(samples that count 0, the result in units of the file, its header, what was said)."""
    pathlib.Path("job.yaml").write_text(
        f"problem:\n  measurements: {path}:/{sci}\n  bad: {bad}\n{weights}"
        "denoiser: {network: none}\nsolver: {name: pgd, iterations: 1}\n"
        "output: {folder: out, also: result.fits, diagnostics: false}\n")
    pathlib.Path("out/bad.png").unlink(missing_ok=True)
    said = tessera("run", "job.yaml", "--force", ranks=ranks, code=code)
    if code:
        return said
    mask = np.zeros(shape, bool)
    if pathlib.Path("out/bad.png").exists():
        tessera("convert", "out/bad.png", "bad.h5", "--force")
        with h5py.File("bad.h5") as f:
            mask = np.squeeze(f["image"][...]) < 128
    with fits.open("out/result.fits") as f:
        return mask, f[0].data.copy(), f[0].header, said


def exposure(dq, unit, packed=False, name="DQ"):
    """SCI has NaN where nothing was measured; the primary array is empty."""
    sci = (20 + rng.standard_normal(shape)).astype("f4")
    sci[40:43, 7] = np.nan
    first = fits.PrimaryHDU()
    first.header["TELESCOP"] = "any"
    science = fits.ImageHDU(sci, name="SCI")
    science.header["BUNIT"] = unit
    error = fits.ImageHDU(np.where(rng.random(shape) < 0.5, 0.5, 2).astype("f4"), name="ERR")
    flags = (fits.CompImageHDU if packed else fits.ImageHDU)(dq, name=name)
    return sci, fits.HDUList([first, science, error, flags])


def flagged(sci, path, dq, bits_of, unit, count_nan=3, name="DQ"):
    for bits, value in bits_of:
        wanted = dq & value != 0
        results = []
        for ranks in (1, 2) if bits == bits_of[0][0] else (2,):
            mask, result, header, said = ran(path, f"{{flags: '{path}:/{name}', bits: {bits}}}", ranks=ranks)
            assert np.array_equal(mask, wanted | np.isnan(sci)) or np.array_equal(mask, wanted), (path, bits, ranks, mask.sum(), wanted.sum(), said)
            assert f"{wanted.sum()} of 5120 samples have the flags" in said, (bits, said)
            assert header["BUNIT"] == unit and np.isfinite(result).all(), repr(header)
            good = ~(wanted | np.isnan(sci))
            assert np.allclose(result[good], sci[good], atol=1e-3), np.abs(result - sci)[good].max()
            results.append(result)
        assert np.allclose(results[0], results[-1], atol=1e-5)


def jwst():
    """DQ is uint32: int32 with BZERO 2^31, whose highest bit is that of reference pixels."""
    for packed in (False, True):
        dq = np.zeros(shape, np.uint32)
        dq[3, 4] |= 1
        dq[5, 6:9] |= 4 + 2048
        dq[10, :40] |= 2
        dq[:, 79] |= np.uint32(2**31)
        dq[50, 9] |= np.uint32(2**31 + 512)
        sci, file = exposure(dq, "MJy/sr", packed)
        file.writeto("jwst.fits", overwrite=True)
        stored = fits.open("jwst.fits", do_not_scale_image_data=True)["DQ"]
        assert packed or (stored.header["BITPIX"] == 32 and stored.header["BZERO"] == 2**31)
        assert "uint32" in tessera("info", "jwst.fits:/DQ", "--picture", "none")
        flagged(sci, "jwst.fits", dq, (("[DO_NOT_USE]", 1), ("[jump_det, HOT]", 4 + 2048), ("[REFERENCE_PIXEL]", 2**31),
                                       ("[SATURATED, NON_SCIENCE, 1]", 2 + 512 + 1), ("[2147483648, 4]", 2**31 + 4)), "MJy/sr")
        mask = ran("jwst.fits", "{flags: 'jwst.fits:/DQ'}")[0]
        assert mask.sum() in ((dq != 0).sum(), ((dq != 0) | np.isnan(sci)).sum())
    said = ran("jwst.fits", "{flags: 'jwst.fits:/DQ', bits: [HOTT]}", code=2)
    assert "no flag that JWST or HST has) did you mean HOT?" in said, said
    for name, words in (("SCI", "no whole numbers"), ("NONE", "jwst.fits:/1 (SCI")):
        said = ran("jwst.fits", f"{{flags: 'jwst.fits:/{name}', bits: [1]}}", code=2)
        assert words in said, said
    # Flags are no weights.
    said = ran("jwst.fits", "{hot: true}", weights="  weights: jwst.fits:/DQ\n", code=2)
    assert "weights" in said, said


def hst():
    """DQ is int16; two chips in a file, which EXTVER tells apart."""
    files, chips = [fits.PrimaryHDU()], []
    for chip in (1, 2):
        dq = np.zeros(shape, np.int16)
        dq[7 + chip, 3:9] |= 16
        dq[20:22, chip] |= 256
        dq[30, 40:44] |= 8192
        sci, file = exposure(dq, "ELECTRONS")
        for hdu in file[1:]:
            hdu.ver = chip
        files += file[1:]
        chips.append((sci, dq))
    fits.HDUList(files).writeto("hst.fits", overwrite=True)
    for chip, (sci, dq) in enumerate(chips, 1):
        for bits, value in (("[HOTPIX]", 16), ("[SATPIXEL, DATAREJECT]", 256 + 8192), ("[hotpix, 256]", 16 + 256)):
            for ranks in (chip,):
                mask, result, header, said = ran("hst.fits", f"{{flags: 'hst.fits:/DQ,{chip}', bits: {bits}}}", ranks=ranks, sci=f"SCI,{chip}")
                wanted = dq & value != 0
                assert f"{wanted.sum()} of 5120 samples have the flags" in said and mask[wanted].all(), said
                assert not mask[~wanted & ~np.isnan(sci)].any() and header["BUNIT"] == "ELECTRONS" and np.isfinite(result).all()


def own_cards():
    """MP_NAME = bit, as LSST writes them, long names by HIERARCH, behind a long header."""
    mask = np.zeros(shape, np.int32)
    mask[3, 3:8] |= 1
    mask[9, 9] |= 1 << 3
    mask[12, 1:7] |= 1 << 5
    sci, file = exposure(mask, "nJy", name="MASK")
    header = file["MASK"].header
    for k in range(300):
        header[f"KEY{k}"] = k
    for name, bit in (("BAD", 0), ("SAT", 1), ("CR", 3), ("DETECTED_NEGATIVE", 5), ("HOT", 4)):
        header[f"{'HIERARCH ' if len(name) > 5 else ''}MP_{name}"] = bit
    file.writeto("lsst.fits", overwrite=True)
    # The file's own HOT is bit 4, which no sample has; that of JWST would be 2048.
    flagged(sci, "lsst.fits", mask, (("[BAD]", 1), ("[cr, DETECTED_NEGATIVE]", 8 + 32), ("[SAT, 1]", 1)), "nJy", name="MASK")
    assert not (ran("lsst.fits", "{flags: 'lsst.fits:/MASK', bits: [HOT]}")[0] & ~np.isnan(sci)).any()
    said = ran("lsst.fits", "{flags: 'lsst.fits:/MASK', bits: [DO_NOT_USE]}", code=2)
    assert "no flag that the file's MP_ cards have" in said, said


jwst()
hst()
own_cards()
print("exposures: passed")
