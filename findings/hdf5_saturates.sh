#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Storing a float picture into an integer HDF5 dataset by h5py, or reading one as another type.
# Guess: numpy's rules: numpy warns about NaN and about what does not fit.
# Really: the HDF5 library converts, by rules of its own and without a word: what does not fit becomes the nearest
#   limit, and NaN becomes 0 (in signed types the most negative number). A dead pixel marked NaN is then a count of 0,
#   and an overexposed one is just white; `array.astype` and `dataset.astype` of the same numbers differ.
# Seen 2026-11-27, h5py 3.16.0 (HDF5 2.0.0), numpy 2.4.6: [-3.7 300.7 nan inf] is stored in uint8 as [0 255 0 255] and
#   read by dataset.astype('int32') as [-3 300 -2147483648 2147483647], both without a warning.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 h5py==3.16.0
python -W error <<'EOF'
import h5py
import numpy

picture = numpy.array([-3.7, 300.7, numpy.nan, numpy.inf])
try:
    picture.astype("u1")
    raise SystemExit("numpy no longer warns")
except RuntimeWarning as warning:
    print("numpy:", warning)
with h5py.File("picture.h5", "w") as file:
    stored = file.create_dataset("stored", picture.shape, "u1")
    stored[:] = picture
    converted = file.create_dataset("float", data=picture).astype("i4")[:]
    print("stored as uint8", stored[:], "read as int32", converted)
    assert stored[:].tolist() == [0, 255, 0, 255]
    assert converted.tolist() == [-3, 300, -(2**31), 2**31 - 1]
EOF
