# SPDX-License-Identifier: BSD-3-Clause
"""Files that instruments and their programs write: netCDF4, hdf5storage (MATLAB 7.3), npy2bdv (BigDataViewer), pydicom
and astropy write them as this runs, and read what tessera makes of them. Imaris' files are made as its format's page has
them.

Usage: instruments_test.py TESSERA SOURCE
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
        print("skipped: no .venv-formats (jobs/setup.sh --tests installs netCDF4, npy2bdv, pydicom, astropy and others)")
        sys.exit(77)
    os.execv(python, [str(python), "-B", __file__, *sys.argv[1:]])

try:
    import h5py
    import hdf5storage
    import netCDF4
    import npy2bdv
    import numpy as np
    import pydicom
    from astropy.io import fits
    from astropy.wcs import WCS
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.sequence import Sequence
    from pydicom.uid import CTImageStorage, EnhancedCTImageStorage, ExplicitVRLittleEndian, ImplicitVRLittleEndian, RLELossless
except ImportError as e:
    print(f"skipped: .venv-formats is of an older set-up ({e}); jobs/setup.sh --tests completes it")
    sys.exit(77)

warnings.simplefilter("ignore")
rng = np.random.default_rng(5)
checked = 0


def made(source_file, *more, ranks=1, out="made.h5"):
    launch = [] if ranks == 1 else [str(source / "jobs/launch.sh"), "-n", str(ranks)]
    done = subprocess.run([*launch, program, "convert", source_file, out, "--force", *more], text=True, capture_output=True)
    assert done.returncode == 0, (source_file, done.stderr)
    return done.stdout


def expect(file, wanted, ranks=1):
    """All of it, as tessera's HDF5: (C, H, W) or (C, D, H, W)."""
    global checked
    made(file, "--type", "float64", ranks=ranks)
    with h5py.File("made.h5") as f:
        got, attributes = f["image"][:], dict(f["image"].attrs)
    wanted = np.asarray(wanted, dtype="float64")
    assert np.squeeze(got).shape == np.squeeze(wanted).shape, (file, got.shape, wanted.shape)
    assert np.array_equal(np.squeeze(got), np.squeeze(wanted), equal_nan=True), (file, np.nanmax(abs(np.squeeze(got) - np.squeeze(wanted))))
    checked += 1
    return attributes


def refused(file, *words):
    global checked
    done = subprocess.run([program, "convert", file, "refused.h5", "--force"], text=True, capture_output=True)
    assert done.returncode == 2 and all(w in done.stderr for w in words), (file, done.returncode, done.stderr)
    checked += 1


def matlab():
    for kind in ("u1", "i2", "u2", "f4", "f8"):
        picture, stack = (1000 * rng.random((24, 40))).astype(kind), (1000 * rng.random((24, 40, 9))).astype(kind)
        if os.path.exists("a.mat"):
            os.remove("a.mat")
        hdf5storage.savemat("a.mat", {"p": picture, "s": stack, "b": picture > 100, "t": "text", "z": picture + 1j}, format="7.3",
                            store_python_metadata=False)
        expect("a.mat:/p", picture)
        expect("a.mat:/s", np.moveaxis(stack, 2, 0))
        expect("a.mat:/s/slices", np.moveaxis(stack, 2, 0), ranks=2)
        expect("a.mat:/b", picture > 100)
    refused("a.mat:/t", "holds text")
    refused("a.mat:/z", "complex")
    refused("a.mat", "/p (40, 24)")


def netcdf():
    with netCDF4.Dataset("g.nc", "w") as d:
        for name, n in (("time", 3), ("lat", 20), ("lon", 30)):
            d.createDimension(name, n)
        for name, step in (("lat", 0.5), ("lon", 0.25)):
            v = d.createVariable(name, "f4", (name,))
            v[:] = step * np.arange(d.dimensions[name].size)
            v.units = "degrees_north"
        t = d.createVariable("t2m", "i2", ("time", "lat", "lon"), zlib=True, fill_value=-999)
        t.scale_factor, t.add_offset = 0.5, 270.0
        t.set_auto_maskandscale(False)
        stored = rng.integers(-900, 900, (3, 20, 30)).astype("i2")
        stored[:, 2, 3] = -999
        t[:] = stored
    wanted = np.where(stored == -999, np.nan, stored * 0.5 + 270)
    for k in range(3):
        attributes = expect(f"g.nc:/t2m/t{k}", wanted[k], ranks=1 + k % 2)
    assert attributes["pixel_0"] == 0.5 and attributes["pixel_1"] == 0.25 and attributes["unit"] == "deg", attributes
    refused("g.nc", "3 frames", "name one, counted from 0: g.nc:/t2m/t0")
    netCDF4.Dataset("old.nc", "w", format="NETCDF3_CLASSIC").close()
    refused("old.nc", "nccopy")


def viewer():
    stacks = rng.integers(0, 65536, (2, 9, 30, 40)).astype("u2")
    writer = npy2bdv.BdvWriter("v.h5", nchannels=2, subsamp=((1, 1, 1), (1, 2, 2)), blockdim=((4, 16, 16), (4, 8, 8)), overwrite=True,
                               compression="gzip")
    for c in range(2):
        writer.append_view(stacks[c], time=0, channel=c, voxel_size_xyz=(0.2, 0.2, 0.6), voxel_units="um")
    writer.write_xml()
    writer.close()
    attributes = expect("v.xml:/s1", stacks[1], ranks=3)
    assert [attributes[f"pixel_{k}"] for k in range(3)] == [0.6, 0.2, 0.2] and attributes["unit"] == "um"
    expect("v.h5:/t00000/s00/0/cells/slices", stacks[0])
    with h5py.File("v.h5") as f:
        half = f["t00000/s00/1/cells"][:].view("u2")
    attributes = expect("v.xml:/1/s0/t0", half)
    assert [attributes[f"pixel_{k}"] for k in range(3)] == [0.6, 0.4, 0.4]
    refused("v.xml", "2 setups")


def imaris():
    stack = rng.integers(0, 65536, (2, 2, 9, 30, 40)).astype("u2")
    with h5py.File("c.ims", "w") as f:

        def letters(group, **words):
            for key, text in words.items():
                group.attrs.create(key, np.array([c.encode() for c in text], dtype="S1"))

        letters(f.create_group("DataSetInfo/Image"), X="40", Y="30", Z="9", ExtMin0="-4", ExtMax0="4", ExtMin1="0", ExtMax1="6",
                ExtMin2="10", ExtMax2="15.4", Unit="um")
        for t in range(2):
            for c in range(2):
                group = f.create_group(f"DataSet/ResolutionLevel 0/TimePoint {t}/Channel {c}")
                letters(group, ImageSizeX="40", ImageSizeY="30", ImageSizeZ="9")
                padded = np.full((16, 32, 64), 7, "u2")
                padded[:9, :30, :40] = stack[t, c]
                group.create_dataset("Data", data=padded, chunks=(8, 16, 32), compression="gzip", compression_opts=2)
    attributes = expect("c.ims:/t1", stack[1], ranks=2)
    assert np.allclose([attributes[f"pixel_{k}"] for k in range(3)], [0.6, 0.2, 0.2], rtol=1e-12)
    expect("c.ims:/0/t0/c1/z8", stack[0, 1, 8])
    refused("c.ims", "2 time points")


def slice_of(array, syntax=ExplicitVRLittleEndian, kind=CTImageStorage, **words):
    data = Dataset()
    data.file_meta = FileMetaDataset()
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = kind
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID = pydicom.uid.generate_uid()
    data.file_meta.TransferSyntaxUID = syntax
    data.Modality, data.SeriesInstanceUID, data.PatientName = "CT", "1.2.3.4", "Nobody"
    data.Rows, data.Columns = array.shape[-2:]
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated = 8 * array.itemsize
    data.BitsStored, data.PixelRepresentation = data.BitsAllocated, int(array.dtype.kind == "i")
    for key, word in words.items():
        setattr(data, key, word)
    data.HighBit = data.BitsStored - 1
    data.PixelData = array.tobytes()
    return data


def dicom():
    ct = rng.integers(-2048, 2048, (6, 24, 32)).astype("i2")
    for syntax in (ExplicitVRLittleEndian, ImplicitVRLittleEndian):
        folder = pathlib.Path(f"ct_{syntax.is_implicit_VR}")
        folder.mkdir(exist_ok=True)
        for k in range(6):  # oblique, names in another order, each slice with a slope of its own
            turn = np.array([0.8, 0.6, 0, -0.36, 0.48, 0.8])
            place = np.array([-100.0, 50, 20]) + 2.5 * k * np.cross(turn[:3], turn[3:])
            slice_of(ct[k], syntax, BitsStored=12, ImagePositionPatient=[f"{v:.8g}" for v in place],
                     ImageOrientationPatient=[str(v) for v in turn], PixelSpacing=["0.7", "0.5"], RescaleIntercept="-1024",
                     RescaleSlope=str(0.5 + k / 8)).save_as(folder / f"IM{5 * k % 6}", enforce_file_format=True)
        read = sorted((pydicom.dcmread(p) for p in folder.iterdir()),
                      key=lambda d: float(np.dot(d.ImagePositionPatient, np.cross(d.ImageOrientationPatient[:3], d.ImageOrientationPatient[3:]))))
        attributes = expect(str(folder), [pydicom.pixels.apply_rescale(d.pixel_array, d) for d in read], ranks=1 + int(syntax.is_implicit_VR))
        assert np.allclose([attributes[f"pixel_{k}"] for k in range(3)], [2.5, 0.7, 0.5], rtol=1e-7) and attributes["unit"] == "mm"
    (folder / "IM2").unlink()
    refused(str(folder), "2.5 mm apart", "5: uneven, or one is missing")

    frames = rng.integers(0, 65536, (5, 16, 20)).astype("u2")
    shared, each = Dataset(), []
    orientation, measures = Dataset(), Dataset()
    orientation.ImageOrientationPatient, measures.PixelSpacing = ["1", "0", "0", "0", "1", "0"], ["0.4", "0.3"]
    shared.PlaneOrientationSequence, shared.PixelMeasuresSequence = Sequence([orientation]), Sequence([measures])
    order = [3, 0, 4, 1, 2]
    for k in order:
        place, values, own = Dataset(), Dataset(), Dataset()
        place.ImagePositionPatient = ["0", "0", str(1.5 * k)]
        values.RescaleSlope, values.RescaleIntercept, values.RescaleType = "2", "-7", "HU"
        own.PlanePositionSequence, own.PixelValueTransformationSequence = Sequence([place]), Sequence([values])
        each.append(own)
    many = slice_of(frames, kind=EnhancedCTImageStorage, NumberOfFrames=5, SharedFunctionalGroupsSequence=Sequence([shared]),
                    PerFrameFunctionalGroupsSequence=Sequence(each))
    many.save_as("many.dcm", enforce_file_format=True)
    attributes = expect("many.dcm", 2.0 * frames[np.argsort(order)] - 7, ranks=2)
    assert np.allclose([attributes[f"pixel_{k}"] for k in range(3)], [1.5, 0.4, 0.3])
    expect("many.dcm:/1", 2.0 * frames[1] - 7)
    colors = rng.integers(0, 256, (16, 20, 3)).astype("u1")
    rgb = slice_of(colors[:, :, 0].copy(), SamplesPerPixel=3, PhotometricInterpretation="RGB", PlanarConfiguration=0)
    rgb.PixelData = colors.tobytes()
    rgb.save_as("rgb.dcm", enforce_file_format=True)
    expect("rgb.dcm", np.moveaxis(colors, 2, 0))
    packed = slice_of(frames[0])
    packed.compress(RLELossless)
    packed.save_as("packed.dcm", enforce_file_format=True)
    refused("packed.dcm", "RLE Lossless")


def coordinates(name):
    """Of pixels of 3.6 seconds of arc or more, so that 1e-9 pixels are more than the last digits of degrees."""
    w = WCS(naxis=2)
    w.wcs.crpix, w.wcs.crval = [20.3, 33.7], [150.1, 2.2]
    w.wcs.ctype = ["RA---TAN-SIP", "DEC--TAN-SIP"] if name == "sip" else ["RA---TAN", "DEC--TAN"]
    if name in ("cd", "sip"):
        w.wcs.cd = [[-1e-3, 2e-4], [3e-4, 1.2e-3]]
    if name == "pc":
        w.wcs.cdelt, w.wcs.pc = [-1e-3, 1.1e-3], [[0.8, -0.6], [0.6, 0.8]]
    if name == "crota":
        w.wcs.cdelt = [-1e-3, 1e-3]
    header = w.to_header()
    if name in ("cd", "sip"):  # astropy writes PC
        for i in (1, 2):
            for j in (1, 2):
                header.remove(f"PC{i}_{j}", ignore_missing=True)
                header[f"CD{i}_{j}"] = w.wcs.cd[i - 1][j - 1]
            header.remove(f"CDELT{i}", ignore_missing=True)
    if name == "crota":
        header["CROTA2"] = 33.0
    if name == "sip":
        header["A_ORDER"], header["B_ORDER"] = 2, 2
        header["A_2_0"], header["A_1_1"], header["B_0_2"], header["B_2_0"] = 2.1e-4, -3e-5, 1.5e-4, 4e-5
    header["LTV1"], header["LTM1_1"] = -100.0, 1.0
    return header


def same_sky(old, new, step, first):
    """A pixel k of new, counted from 0, is step k + first of old, to 1e-9 pixels."""
    global checked
    k = rng.random((50, 2)) * 40
    step, first = np.array(step, dtype=float), np.array(first, dtype=float)
    a = WCS(old).all_pix2world(k * step + first, 0)
    b = WCS(new).all_pix2world(k, 0)
    off = np.abs(a - b) / 1e-3
    assert off.max() < 1e-9, (off.max(), repr(new))
    checked += 1


def sky():
    picture = rng.random((64, 48)).astype("f4")
    kernel = np.ones((5, 7)) / 35
    np.save("psf.npy", kernel)
    np.save("bin.npy", np.full((2, 2), 0.25))
    for name in ("cd", "pc", "crota", "sip"):
        header = coordinates(name)
        header["OBJECT"], header["EXPTIME"], header["NOTE"], header["FILTER"], header["OK"] = "M 51", 30.5, "it's " + 29 * "long " + "text", "007", True
        header["CCDSEC"] = "[1:48,1:64]"  # which a crop makes untrue
        fits.writeto("sky.fits", picture, header, overwrite=True)
        made("sky.fits", "--region", "10:60,7:40", out="part.fits", ranks=2)
        with fits.open("part.fits") as f:
            f.verify("exception")
            assert np.array_equal(f[0].data, picture[10:60, 7:40])
            same_sky(header, f[0].header, [1, 1], [7, 10])
            for key in ("OBJECT", "EXPTIME", "NOTE", "FILTER", "OK"):
                assert f[0].header[key] == header[key], (key, f[0].header[key])
            assert f[0].header["LTV1"] == -107 and "CCDSEC" not in f[0].header
        made("part.fits", out="part.h5")
        made("part.h5", "--region", "3:50,1:30", out="again.fits")
        same_sky(header, fits.getheader("again.fits"), [1, 1], [8, 13])
        if name in ("cd", "sip"):
            for boundary, crop, place in (("valid", "true", [0, 0]), ("valid", "false", [-3, -2]), ("reflect", "true", [0, 0])):
                kept = f", crop: {crop}" if boundary == "valid" else ""
                same_sky(header, ran(f"{{type: blur, kernel: {{file: psf.npy}}, boundary: {boundary}}}", kept), [1, 1], place)
        cube = header.copy()
        cube["WCSAXES"], cube["CTYPE3"], cube["CRPIX3"], cube["CRVAL3"] = 3, "FREQ", 1.0, 1e9
        cube["CDELT3" if name in ("pc", "crota") else "CD3_3"] = 1e6
        fits.writeto("cube.fits", np.stack([picture, picture + 1, picture + 2]), cube, overwrite=True)
        made("cube.fits:/0/2", "--region", "4:40,:", out="plane.fits")
        plane = fits.getheader("plane.fits")
        assert np.allclose([plane[f"CRPIX{k}"] for k in (1, 2, 3)], [20.3, 29.7, -1]), repr(plane)
        assert np.array_equal(fits.getdata("plane.fits"), picture[4:40] + 2)
        # Means of 2 x 2: the first sample is the middle of the first two pixels.
        same_sky(header, ran("{type: downsampling, factor: 2, kernel: {file: bin.npy}, boundary: reflect}"), [0.5, 0.5], [-0.25, -0.25])


def colors():
    """Channels are planes of the last axis, named by cards; coordinates of the sky stay, whatever form they have."""
    for name in ("cd", "pc", "crota", "sip"):
        sky_header = coordinates(name)
        for count, names in ((2, ["DAPI", "it's GFP"]), (3, []), (3, ["red", "green", "blue"]), (5, [f"band {k}" for k in range(5)])):
            if name != "cd" and (count, names) != (3, []):
                continue
            picture = rng.random((count, 37, 29)).astype("f4")
            with h5py.File("colors.h5", "w") as f:
                f["image"] = picture
                if names:
                    f["image"].attrs["channel_names"] = names
                f.create_group("metadata").attrs["wcs"] = "\n".join(str(card) for card in sky_header.cards)
            same_bytes = []
            for ranks in (1, 2, 3):
                made("colors.h5", "--region", "5:37,2:29", out="colors.fits", ranks=ranks)
                same_bytes.append(pathlib.Path("colors.fits").read_bytes())
            assert same_bytes[0] == same_bytes[1] == same_bytes[2]
            with fits.open("colors.fits") as f:
                f.verify("exception")
                header = f[0].header
                assert header["NAXIS"] == 3 and np.array_equal(f[0].data, picture[:, 5:, 2:])
                assert header["CTYPE3"] == ("RGB" if count == 3 else "CHANNEL"), repr(header)
                assert [header.get(f"CHAN{k + 1}") for k in range(count)] == (names or [None] * count)
                world = WCS(header, naxis=2)  # astropy has distortions in two dimensions alone
                if name != "sip":
                    assert np.allclose(WCS(header).all_pix2world([[3, 4, count - 1]], 0)[0, 2], count)
                    world = WCS(header).celestial
                k = rng.random((9, 2)) * 25
                a, b = WCS(sky_header).all_pix2world(k + [2, 5], 0), world.all_pix2world(k, 0)
                assert np.abs(a - b).max() < 1e-12, (name, np.abs(a - b).max())
            shown = subprocess.run([program, "info", "colors.fits", "--picture", "none"], text=True, capture_output=True).stdout
            assert f"{count} channels, 32 x 27, float32" in shown and all(n in shown for n in names), shown
            attributes = expect("colors.fits", picture[:, 5:, 2:], ranks=2)
            assert list(attributes.get("channel_names", [])) == names, attributes
            expect(f"colors.fits:/0/{count - 1}", picture[-1, 5:, 2:])
            if name == "cd" and count == len(names):  # out of a run, whose data are such a file
                color_result(count, names, sky_header)
    volume = rng.random((2, 4, 11, 13)).astype("f4")
    with h5py.File("volume.h5", "w") as f:
        f["image"] = volume
        f["image"].attrs["channel_names"] = ["a", "b"]
    made("volume.h5", out="volume.fits", ranks=2)
    assert fits.getdata("volume.fits").shape == (2, 4, 11, 13) and fits.getheader("volume.fits")["CTYPE4"] == "CHANNEL"
    assert list(expect("volume.fits:/all", volume, ranks=3)["channel_names"]) == ["a", "b"]
    # The other way around, as radio telescopes have them, and of another kind.
    turned = fits.PrimaryHDU(np.ascontiguousarray(np.moveaxis(volume, 0, 1)))
    turned.header["CTYPE3"] = "STOKES"
    turned.writeto("turned.fits", overwrite=True)
    expect("turned.fits:/all", volume, ranks=2)
    picture = rng.integers(0, 256, (24, 30, 3), dtype="u1")
    planes = np.moveaxis(picture, 2, 0)
    with h5py.File("photo.h5", "w") as f:
        f["image"] = planes
    made("photo.h5", "--type", "uint8", out="photo.png")
    made("photo.png", out="photo.fits")
    assert fits.getdata("photo.fits").dtype == np.uint8 and np.array_equal(fits.getdata("photo.fits"), planes)


def color_result(count, names, sky_header):
    headers = []
    for ranks in (1, 2, 3):
        made("colors.fits", out="sky.fits")
        headers.append((ran("{type: identity}", ranks=ranks), fits.getdata("runs/job/result.fits")))
    for header, data in headers:
        assert data.shape == (count, 32, 27) and np.allclose(data, headers[0][1], atol=1e-5)
        assert [header.get(f"CHAN{k + 1}") for k in range(count)] == (names or [None] * count), repr(header)
        a, b = (WCS(h, naxis=2).all_pix2world([[9, 4]], 0) for h in (fits.getheader("colors.fits"), header))
        assert np.abs(a - b).max() < 1e-12


def ran(operator, output="", ranks=1):
    """The header of one iteration's result."""
    pathlib.Path("job.yaml").write_text(f"""
problem:
  measurements: sky.fits
  operator: {operator}
  noise: {{gaussian: 0.1}}
denoiser: {{network: tv}}
solver: {{iterations: 1}}
output: {{also: result.fits, diagnostics: false, checkpoint: {{keep: 0}}{output}}}
""")
    launch = [] if ranks == 1 else [str(source / "jobs/launch.sh"), "-n", str(ranks)]
    done = subprocess.run([*launch, program, "run", "job.yaml", "--force"], text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return fits.getheader("runs/job/result.fits")


matlab()
netcdf()
viewer()
imaris()
dicom()
sky()
colors()
assert checked > 50, checked
print(f"{checked} files agree")
