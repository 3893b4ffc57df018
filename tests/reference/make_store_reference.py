#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Small Zarr stores as other programs write them, each in one file: tests/fuzz/corpus/zarr.

    python3 -m venv reference-venv
    reference-venv/bin/pip install zarr==3.1.6 tensorstore==0.1.86 ome-zarr==0.18.0 ngff-zarr==0.50.0
    reference-venv/bin/python tests/reference/make_store_reference.py

A file holds, one behind the other, a line "PATH BYTES" and so many bytes. Samples follow from their position
(value_of), so that tests/io/zarr_test.cpp knows them; each store is read again here, by the library that wrote it.
"""
import shutil
import tempfile
import warnings
from pathlib import Path

import ngff_zarr
import numpy as np
import tensorstore
import zarr
import zarr.codecs as codecs
from numcodecs import Blosc, GZip, Zlib, Zstd
from ome_zarr.format import FormatV04, FormatV05
from ome_zarr.writer import write_image, write_labels

warnings.simplefilter("ignore")
CORPUS = Path(__file__).resolve().parent.parent / "fuzz" / "corpus" / "zarr"


def value_of(shape, dtype):
    lin = np.arange(int(np.prod(shape))).reshape(shape)
    v = (31 * lin + 7 * (lin // 13)) % 251
    kind = np.dtype(dtype).kind
    if kind == "b":
        return v % 2 == 1
    if kind == "i":
        v = v - 125
    if kind == "f":
        v = v / 4 - 20
    return v.astype(dtype)


def pack(folder, name):
    CORPUS.mkdir(parents=True, exist_ok=True)
    with open(CORPUS / name, "wb") as out:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            data = path.read_bytes()
            out.write(f"{path.relative_to(folder)} {len(data)}\n".encode() + data)


def check(read, wanted):
    assert np.array_equal(read, wanted)


def main():
    top = Path(tempfile.mkdtemp())

    def two(name, shape, chunks, dtype, compressor, order="C", separator=".", **more):
        z = zarr.create_array(top / name, shape=shape, chunks=chunks, dtype=dtype, zarr_format=2,
                              compressors=compressor, order=order,
                              chunk_key_encoding={"name": "v2", "separator": separator}, **more)
        z[:] = value_of(shape, dtype)
        check(z[:], value_of(shape, dtype))
        return z

    two("v2_blosc_f", (5, 9, 11), (2, 4, 6), "<f4", Blosc("lz4", 5, 1), order="F")
    two("v2_zstd_big", (9, 11), (4, 6), ">i2", Zstd(3), separator="/")
    two("v2_zlib_half", (9, 11), (4, 6), "<f2", Zlib(1))
    two("v2_plain", (9, 11), (4, 6), ">f8", None)
    z = two("v2_gzip_fill", (9, 11), (4, 6), "|u1", GZip(5), fill_value=7)
    (top / "v2_gzip_fill" / "1.0").unlink()  # rows 4 to 8, columns 0 to 6
    assert (z[4:8, 0:6] == 7).all()

    def three(name, shape, chunks, dtype, *chain):
        z = zarr.create(store=top / name, shape=shape, chunks=chunks, dtype=dtype, zarr_format=3, codecs=list(chain))
        z[:] = value_of(shape, dtype)
        check(z[:], value_of(shape, dtype))

    little, big = codecs.BytesCodec(endian="little"), codecs.BytesCodec(endian="big")
    three("v3_blosc", (5, 9, 11), (2, 4, 6), "float32", little, codecs.BloscCodec(cname="zstd", typesize=4))
    three("v3_zstd_bool", (9, 11), (4, 6), "bool", codecs.BytesCodec(endian=None), codecs.ZstdCodec())
    three("v3_gzip_crc", (9, 11), (4, 6), "float64", big, codecs.GzipCodec(), codecs.Crc32cCodec())
    three("v3_turned", (5, 9, 11), (2, 4, 6), "int64", codecs.TransposeCodec(order=(1, 2, 0)), little,
          codecs.ZstdCodec())
    three("v3_shard_end", (5, 9, 11), (4, 8, 12), "uint16",
          codecs.ShardingCodec(chunk_shape=(2, 4, 6),
                               codecs=[codecs.TransposeCodec(order=(2, 0, 1)), little, codecs.ZstdCodec()],
                               index_location="end"))
    three("v3_shard_start", (9, 11), (8, 12), "int8",
          codecs.ShardingCodec(chunk_shape=(4, 6), codecs=[codecs.BytesCodec(endian=None)],
                               index_codecs=[little], index_location="start"))

    for name, driver in (("tensorstore_2", "zarr"), ("tensorstore_3", "zarr3")):
        t = tensorstore.open({"driver": driver, "kvstore": {"driver": "file", "path": str(top / name)}}, create=True,
                             dtype=tensorstore.uint16, shape=[9, 11],
                             chunk_layout=tensorstore.ChunkLayout(chunk_shape=[4, 6])).result()
        t[...] = value_of((9, 11), "uint16")
        check(t.read().result(), value_of((9, 11), "uint16"))

    for name, written, version in (("ome_zarr_04", FormatV04(), 2), ("ome_zarr_05", FormatV05(), 3)):
        group = zarr.open_group(top / name, mode="w", zarr_format=version)
        axes = [{"name": "t", "type": "time"}, {"name": "c", "type": "channel"}] + [
            {"name": a, "type": "space", "unit": "micrometer"} for a in "zyx"]
        shape = (1, 2, 3, 10, 12)
        omero = {"channels": [{"label": n, "color": "FFFFFF", "window": {"start": 0, "end": 9, "min": 0, "max": 9}}
                              for n in ("DAPI", "GFP")]}
        write_image(value_of(shape, "uint16"), group, axes=axes, fmt=written,
                    storage_options={"chunks": (1, 1, 2, 5, 12)}, scale_factors=[{"y": 2, "x": 2}])
        write_labels(value_of(shape, "uint8")[:, :1] % 3, group, "cells", fmt=written, axes="tczyx",
                     scale_factors=[{"y": 2, "x": 2}])
        if version == 2:
            group.attrs["omero"] = omero
        else:
            group.attrs["ome"] = {**group.attrs["ome"], "omero": omero}
        check(group["s0"][:], value_of(shape, "uint16"))
    for name, version in (("ngff_zarr_04", "0.4"), ("ngff_zarr_05", "0.5")):
        image = ngff_zarr.to_ngff_image(value_of((6, 10), "float32"), dims=("y", "x"), scale={"y": 0.5, "x": 0.25},
                                        translation={"y": 3.0, "x": -1.0},
                                        axes_units={"y": "micrometer", "x": "nanometer"})
        many = ngff_zarr.to_multiscales(image, scale_factors=[2], method=ngff_zarr.Methods.ITKWASM_BIN_SHRINK)
        ngff_zarr.to_ngff_zarr(str(top / name), many, version=version)
        check(zarr.open_group(top / name)["scale0/image"][:], value_of((6, 10), "float32"))

    for folder in sorted(top.iterdir()):
        pack(folder, folder.name)
        print(folder.name, (CORPUS / folder.name).stat().st_size)
    shutil.rmtree(top)


if __name__ == "__main__":
    main()
