#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A numpy mask (bool) written by tifffile and read by another library.
# Guess: True is white and reads as 1 or 255, or the reader says that it does not know the type.
# Really: tifffile writes 1 bit with 0 as white, and turns it back itself. The others follow the tag as a picture, so
#   that every True reads as 0 and every False as 255 or True: the mask is inverted. Write uint8.
# Seen 2026-11-27, tifffile 2026.3.3; share of pixels equal to the mask: tifffile 1.0, OpenCV 5.0.0 0.0,
#   Pillow 13.0.0 0.0, fabio 2026.6.0 0.0, libvips 8.18.7 0.0.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 tifffile==2026.3.3 pyvips==3.2.0 opencv-python-headless==5.0.0.93 \
  pillow==13.0.0 fabio==2026.6.0
python_packages pyvips-binary==8.18.7
python <<'EOF'
import cv2
import fabio
import numpy
import pyvips
import tifffile
from PIL import Image

mask = numpy.zeros((8, 16), bool)
mask[2:4, 3:9] = True
tifffile.imwrite("mask.tif", mask)
readers = {
    "tifffile": tifffile.imread,
    "OpenCV": lambda name: cv2.imread(name, cv2.IMREAD_UNCHANGED),
    "Pillow": Image.open,
    "fabio": lambda name: fabio.open(name).data,
    "libvips": lambda name: pyvips.Image.new_from_file(name).numpy(),
}
equal = {name: float(((numpy.asarray(read("mask.tif")) > 0) == mask).mean()) for name, read in readers.items()}
print("share of pixels equal to the mask:", equal)
assert equal.pop("tifffile") == 1
assert set(equal.values()) == {0.0}
EOF
