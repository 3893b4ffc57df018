#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A TIFF of half floats (16 bits, IEEE) read by SimpleITK.
# Guess: the values, or a refusal, as for float64.
# Really: the sample format is not looked at for 16 bits: the picture is uint16 and its values are the bit patterns:
#   1.0 is 15360, 2.0 is 16384. Roughly a logarithm of the picture, so that it still looks like one.
# Seen 2026-11-27, SimpleITK 2.5.7, file by tifffile 2026.3.3: [0 0.5 1 2] read as 16-bit unsigned integer
#   [0 14336 15360 16384]; float64 is refused.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 tifffile==2026.3.3 simpleitk==2.5.7
python <<'EOF'
import numpy
import SimpleITK
import tifffile

tifffile.imwrite("half.tif", numpy.array([[0, 0.5, 1, 2]], "f2"))
assert tifffile.imread("half.tif").tolist() == [[0, 0.5, 1, 2]]
image = SimpleITK.ReadImage("half.tif")
values = SimpleITK.GetArrayFromImage(image).ravel().tolist()
print(image.GetPixelIDTypeAsString(), values)
assert image.GetPixelID() == SimpleITK.sitkUInt16 and values == [0, 14336, 15360, 16384]
tifffile.imwrite("double.tif", numpy.array([[0, 0.5, 1, 2]], "f8"))
try:
    SimpleITK.ReadImage("double.tif")
except RuntimeError:
    pass
else:
    raise SystemExit("float64 is read now")
EOF
