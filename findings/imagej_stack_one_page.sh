#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An ImageJ stack of more than 4 GB (here a small one in the same form).
# Guess: TIFF is TIFF: a reader gets all slices, or an error.
# Really: ImageJ writes such a stack as one page; that more slices follow in the file stands only as text, images=N, in
#   the description. Readers that do not know this give the first slice, with no warning. tifffile knows it.
# Seen 2026-11-27, stack of 10 by tifffile 2026.3.3 (truncate=True writes that form at any size), slices found: tifffile
#   10, OpenCV 5.0.0 1, Pillow 13.0.0 1, SimpleITK 2.5.7 1, libvips 8.18.7 1.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 tifffile==2026.3.3 pyvips==3.2.0 opencv-python-headless==5.0.0.93 \
  pillow==13.0.0 simpleitk==2.5.7
python_packages pyvips-binary==8.18.7
python <<'EOF'
import cv2
import numpy
import pyvips
import SimpleITK
import tifffile
from PIL import Image

stack = numpy.arange(10 * 20 * 30, dtype="u2").reshape(10, 20, 30)
tifffile.imwrite("stack.tif", stack, imagej=True, truncate=True, metadata={"axes": "ZYX"})
assert "images=10" in tifffile.TiffFile("stack.tif").pages[0].description
assert (tifffile.imread("stack.tif") == stack).all()
itk = SimpleITK.ReadImage("stack.tif").GetSize()
slices = {
    "OpenCV": len(cv2.imreadmulti("stack.tif", flags=cv2.IMREAD_UNCHANGED)[1]),
    "Pillow": Image.open("stack.tif").n_frames,
    "SimpleITK": itk[2] if len(itk) > 2 else 1,
    "libvips": pyvips.Image.new_from_file("stack.tif", n=-1).height // 20,
}
print("slices found of 10:", slices)
assert set(slices.values()) == {1}
EOF
