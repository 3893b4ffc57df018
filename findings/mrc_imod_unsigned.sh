#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An 8-bit MRC volume of IMOD, read by mrcfile or SimpleITK.
# Guess: the numbers that IMOD shows, 0 to 255.
# Really: mode 0 is signed in the standard, and IMOD's older files hold unsigned bytes in it and say so by a stamp and
#   a flag of their own. Neither reader looks at them, and mrcfile calls the file valid: every voxel above 127 comes
#   back negative, so that the brightest become the darkest.
# Seen 2026-11-27, mrcfile 1.5.4, SimpleITK 2.5.7, bytes 0 127 128 255 with IMOD's stamp and its bit for signed bytes
#   unset: both read 0 127 -128 -1.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 mrcfile==1.5.4 simpleitk==2.5.7
python -W error <<'EOF'
import struct

import mrcfile
import numpy
import SimpleITK

stored = numpy.array([[[0, 127, 128, 255]]], "u1")
with mrcfile.new("imod.mrc") as file:
    file.set_data(stored.view("i1"))
with open("imod.mrc", "r+b") as file:
    file.seek(152)
    file.write(struct.pack("<ii", 1146047817, 0))  # "IMOD", no flag: bytes are unsigned
assert mrcfile.validate("imod.mrc")
read = mrcfile.open("imod.mrc").data.ravel().tolist()
other = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage("imod.mrc")).ravel().tolist()
print("mrcfile", read, "SimpleITK", other)
assert read == other == [0, 127, -128, -1]
EOF
