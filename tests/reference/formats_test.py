#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Files that the reference readers wrote, read by tessera, and files of tessera's, read by them.

    formats_test.py PROGRAM SOURCE

Runs in .venv-formats (jobs/setup.sh --tests); exit code 77: skipped, with the reason."""
import os
import subprocess
import sys
import warnings
from pathlib import Path

program, source = sys.argv[1], Path(sys.argv[2])
python = source / ".venv-formats/bin/python"
if Path(sys.prefix).resolve() != python.parent.parent.resolve():
    if not python.exists():
        print("skipped: no .venv-formats (jobs/setup.sh --tests installs zarr, ome-zarr, nibabel, mrcfile, astropy, tifffile)")
        sys.exit(77)
    os.execv(python, [str(python), "-B", __file__, *sys.argv[1:]])

import mrcfile  # noqa: E402
import nibabel  # noqa: E402
import numpy as np  # noqa: E402
import tifffile  # noqa: E402
import zarr  # noqa: E402
import zarr.codecs as codecs  # noqa: E402
from astropy.io import fits  # noqa: E402
from numcodecs import Blosc, GZip, Zlib, Zstd  # noqa: E402
from ome_zarr.io import parse_url  # noqa: E402
from ome_zarr.reader import Reader  # noqa: E402

warnings.simplefilter("ignore")
rng = np.random.default_rng(4)
checked = 0


def convert(source_file, out, *more):
    done = subprocess.run([program, "convert", source_file, out, "--force", *more], text=True, capture_output=True)
    assert done.returncode == 0, (source_file, out, done.stderr)


def expect(file, wanted, name="read.zarr"):
    """What tessera makes of a file, as its own Zarr, which zarr-python reads."""
    global checked
    convert(file, name)
    got = zarr.open_group(name, mode="r")["0"][:]
    wanted = np.asarray(wanted)
    assert got.shape == wanted.shape and np.array_equal(got, wanted.astype(got.dtype), equal_nan=True), (file, got.shape, wanted.shape)
    checked += 1


def drawn(shape, kind):
    kind = np.dtype(kind)
    if kind.kind == "b":
        return rng.random(shape) > 0.5
    if kind.kind in "ui":
        limit = np.iinfo(kind)
        return rng.integers(max(limit.min, -2**40), min(limit.max, 2**40), shape, dtype=np.int64).astype(kind)
    return (100 * rng.random(shape) - 30).astype(kind)


def stores():
    two = {"none": None, "lz4": Blosc("lz4", 5, 1), "bits": Blosc("zstd", 3, 2), "blosclz": Blosc("blosclz", 9, 0),
           "zstd": Zstd(3), "zlib": Zlib(1), "gzip": GZip(5)}
    kinds = ["|b1", "|u1", "|i1", "<u2", ">u2", "<i2", ">i4", "<u4", "<i8", "<f2", ">f2", "<f4", ">f4", "<f8"]
    for k, (name, packed) in enumerate(two.items()):
        for order, separator in ("C.", "F/"):
            array = drawn((5, 37, 53), kinds[(3 * k + (order == "F")) % len(kinds)])
            path = f"two_{name}_{order}.zarr"
            z = zarr.create_array(path, shape=array.shape, chunks=(2, 16, 20), dtype=array.dtype, zarr_format=2, compressors=packed, overwrite=True,
                                  order=order, chunk_key_encoding={"name": "v2", "separator": separator})
            z[:] = array
            expect(path, array)
    chains = {"blosc": [codecs.BloscCodec(cname="lz4", shuffle="bitshuffle")], "gzip": [codecs.GzipCodec()],
              "both": [codecs.ZstdCodec(), codecs.Crc32cCodec()], "none": []}
    for k, (name, chain) in enumerate(chains.items()):
        array = drawn((5, 37, 53), ["uint16", "float32", "int32", "float16"][k])
        plain = [codecs.BytesCodec(endian="big" if k % 2 else "little"), *chain]
        shard = codecs.ShardingCodec(chunk_shape=(2, 16, 20), codecs=[codecs.TransposeCodec(order=(2, 0, 1)), *plain],
                                     index_location=("start", "end")[k % 2])
        for path, chunks, whole in ((f"three_{name}.zarr", (2, 16, 20), plain), (f"shard_{name}.zarr", (4, 32, 40), [shard])):
            z = zarr.create(store=path, shape=array.shape, chunks=chunks, dtype=array.dtype, zarr_format=3, codecs=whole, overwrite=True)
            z[:] = array
            expect(path, array)
    global checked
    volume = drawn((70, 130, 66), "float32")
    np.save("volume.npy", volume[None])
    for version in ("0.4", "0.5"):
        convert("volume.npy", f"ours_{version}.ome.zarr", "--zarr", version)
        (image,) = list(Reader(parse_url(f"ours_{version}.ome.zarr"))())
        assert np.array_equal(np.asarray(image.data[0]), volume) and len(image.data) == 3
        half = volume[:70, :130, :66].reshape(35, 2, 65, 2, 33, 2).mean((1, 3, 5))
        assert np.allclose(np.asarray(image.data[1]), half, atol=1e-5)
        assert image.metadata["coordinateTransformations"][1][1] == {"type": "translation", "translation": [0.5, 0.5, 0.5]}
        checked += 1


def grids():
    global checked
    affine = np.array([[0, 2, 0, -5], [-1.5, 0, 0, 7], [0, 0, 3, 11], [0, 0, 0, 1.0]])
    for kind in ("u1", "i2", "<u2", "i4", "f4", "f8"):
        for second, packed in ((False, False), (True, True)):
            array = drawn((7, 9, 11), kind)
            image = (nibabel.Nifti2Image if second else nibabel.Nifti1Image)(array.T, affine)
            path = "a.nii.gz" if packed else "a.nii"
            nibabel.save(image, path)
            expect(path, array)
            convert(path, "b.nii")
            ours = nibabel.load("b.nii")
            assert np.allclose(ours.get_fdata().T, array) and np.allclose(ours.affine, affine), kind
            if kind in ("u1", "<u2", "f4"):
                assert ours.get_data_dtype() == np.dtype(kind)
            checked += 1
    for kind in ("i1", "i2", "u2", "f4", "f2"):
        array = drawn((7, 9, 11), kind)
        with mrcfile.new("a.mrc", overwrite=True) as f:
            f.set_data(array)
            f.voxel_size = (1.5, 2, 2.5)
            f.header.origin = (3, 4, 5)
        expect("a.mrc", array)
        convert("a.mrc", "b.mrc")
        assert mrcfile.validate("b.mrc")
        with mrcfile.open("b.mrc") as f:
            assert np.array_equal(f.data, array.astype(f.data.dtype)) and f.voxel_size.tolist() == (1.5, 2, 2.5)
            assert f.header.origin.tolist() == (3, 4, 5) and f.is_volume()
        checked += 1


def pictures():
    global checked
    for kind in ("u1", "u2", "f4", "i4", "f8"):
        array = drawn((40, 50), kind)
        fits.writeto("a.fits", array, overwrite=True)
        expect("a.fits", array)
        tifffile.imwrite("a.tif", array)
        expect("a.tif", array)
        np.save("a.npy", array)
        expect("a.npy", array)
        if kind in ("u1", "u2", "f4"):
            convert("a.fits", "b.tif")
            assert np.array_equal(tifffile.imread("b.tif"), array) and tifffile.imread("b.tif").dtype == array.dtype
            checked += 1
    volume = drawn((4, 40, 50), "u2")
    tifffile.imwrite("v.tif", volume, imagej=True, metadata={"axes": "ZYX"})
    expect("v.tif:/all", volume)


stores()
grids()
pictures()
assert checked > 60, checked
print(f"{checked} files agree")
