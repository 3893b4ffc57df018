#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A z stack of three or four slices written by tifffile.
# Guess: a stack of n slices becomes n pages whatever n is, and in the ImageJ and OME modes n slices.
# Really: with n = 3 or 4 it becomes one page, a color picture whose red, green and blue are the slices (one more is
#   "transparency"); 2 or 5 slices are pages. In the ImageJ and OME modes any n become channels, one z. Say
#   photometric="minisblack" in the first case and metadata={"axes": "ZYX"} in the others. A job that crops stacks
#   meets the change of kind in the smallest ones only. (A DeprecationWarning, which Python hides by default, says that
#   this is to change.)
# Seen 2026-11-27, tifffile 2026.3.3, float32, pages for n = 2, 3, 4, 5: 2, 1, 1, 5; ImageJ: channels=5, no slices;
#   OME: SizeC="5" SizeZ="1".
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 tifffile==2026.3.3
python <<'EOF'
import numpy
import tifffile


def written(slices, name="stack.tif", **options):
    tifffile.imwrite(name, numpy.zeros((slices, 20, 30), "f4"), **options)
    return tifffile.TiffFile(name)


pages = [len(written(n).pages) for n in (2, 3, 4, 5)]
page = written(3).pages[0]
imagej, ome = written(5, imagej=True).imagej_metadata, written(5, "stack.ome.tif").ome_metadata
print("pages of 2, 3, 4, 5 slices", pages, "photometric", page.photometric.name, "ImageJ", imagej)
assert pages == [2, 1, 1, 5] and page.photometric.name == "RGB" and page.planarconfig.name == "SEPARATE"
assert imagej["channels"] == 5 and "slices" not in imagej
assert 'SizeC="5" SizeZ="1"' in ome
assert [len(written(n, photometric="minisblack").pages) for n in (3, 4)] == [3, 4]
assert written(5, imagej=True, metadata={"axes": "ZYX"}).imagej_metadata["slices"] == 5
EOF
