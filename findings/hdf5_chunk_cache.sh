#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Reading the rows of a compressed HDF5 dataset one after another, where one chunk is the whole picture.
# Guess: the chunk is decompressed once and kept, or at worst a somewhat larger chunk is somewhat slower.
# Really: a chunk larger than the chunk cache, 1 MiB unless set, is never kept: every read of a row decompresses all of
#   it. One row more than 1 MiB turns 1 decompression into one for each row. Detector frames are larger than that:
#   read whole chunks, or set H5Pset_chunk_cache. (HDF5 2.0's cache is 8 MiB: the cliff stands there.)
# Seen 2026-11-27, HDF5 1.10.8 (Debian 12), float32 rows of 512, one chunk, calls of the filter while its rows are read
#   after writing and reopening: 512 rows (1.000 MiB) 1, 513 rows (1.002 MiB) 513.
source "$(dirname "$0")/support.sh"
debian_packages libhdf5-103-1
cat >rows.py <<'EOF'
import ctypes

hdf5, calls = ctypes.CDLL("libhdf5_serial.so.103"), 0
Call = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t,
                        ctypes.c_void_p, ctypes.c_void_p)


class Filter(ctypes.Structure):  # H5Z_class2_t
    _fields_ = [("version", ctypes.c_int), ("number", ctypes.c_int), ("encodes", ctypes.c_uint),
                ("decodes", ctypes.c_uint), ("name", ctypes.c_char_p), ("can_apply", ctypes.c_void_p),
                ("set_local", ctypes.c_void_p), ("call", Call)]


@Call
def count(flags, elements, values, size, buffer_size, buffer):  # changes nothing, counts decompressions
    global calls
    calls += bool(flags & 0x100)
    return size


def call(name, *arguments):
    function = hdf5[name]
    function.restype = ctypes.c_int64
    result = function(*(ctypes.c_int64(a) if isinstance(a, int) else a for a in arguments))
    assert result >= 0, name
    return result


def pair(*values):
    return (ctypes.c_uint64 * 2)(*values)


def decompressions(rows, columns=512):
    global calls
    number = ctypes.c_int64.in_dll
    real, buffer = number(hdf5, "H5T_NATIVE_FLOAT_g").value, (ctypes.c_float * (rows * columns))()
    file = call("H5Fcreate", b"x.h5", 2, 0, 0)
    space, settings = call("H5Screate_simple", 2, pair(rows, columns), None), call(
        "H5Pcreate", number(hdf5, "H5P_CLS_DATASET_CREATE_ID_g").value)
    call("H5Pset_chunk", settings, 2, pair(rows, columns))
    call("H5Pset_filter", settings, 300, 0, 0, None)
    data = call("H5Dcreate2", file, b"data", real, space, 0, settings, 0)
    call("H5Dwrite", data, real, 0, 0, 0, buffer)
    call("H5Dclose", data)
    data, row, calls = call("H5Dopen2", file, b"data", 0), call("H5Screate_simple", 2, pair(1, columns), None), 0
    for i in range(rows):
        call("H5Sselect_hyperslab", space, 0, pair(i, 0), None, pair(1, columns), None)
        call("H5Dread", data, real, row, space, 0, buffer)
    call("H5Dclose", data)
    call("H5Fclose", file)
    print(f"{rows} rows, {rows * columns / 2**18:.3f} MiB: decompressed {calls} times")
    return calls


call("H5open")
call("H5Zregister", ctypes.byref(Filter(1, 300, 1, 1, b"counts", None, None, count)))
assert decompressions(512) == 1
assert decompressions(513) == 513
EOF
python3 rows.py
