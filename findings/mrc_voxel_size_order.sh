#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The voxel size of an MRC file written by mrcfile.
# Guess: a property that was set stays set: 2 Angstrom remain 2 Angstrom.
# Really: the file stores the size of the whole box, and later calls divide it anew. set_image_stack() after voxel_size
#   multiplies z by the number of sections, and set_data() with finer data over the old ones keeps the box, so that the
#   voxel shrinks. Set the voxel size last.
# Seen 2026-11-27, mrcfile 1.5.4, voxel_size = 2 on 5 x 8 x 8: after set_image_stack() z is 10; after set_data() of
#   10 x 16 x 16 all are 1; set_image_stack() first and voxel_size second: 2.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 mrcfile==1.5.4
python -W error <<'EOF'
import mrcfile
import numpy


def voxel(*steps):
    with mrcfile.new("x.mrc", overwrite=True) as file:
        file.set_data(numpy.zeros((5, 8, 8), "f4"))
        for step in steps:
            step(file)
    with mrcfile.open("x.mrc") as file:
        return tuple(float(v) for v in file.voxel_size.tolist())


def size(file):
    file.voxel_size = 2.0


def stack(file):
    file.set_image_stack()


def finer(file):
    file.set_data(numpy.zeros((10, 16, 16), "f4"))


print("size, stack:", voxel(size, stack), "size, finer:", voxel(size, finer), "stack, size:", voxel(stack, size))
assert voxel(size) == voxel(stack, size) == voxel(finer, size) == (2, 2, 2)
assert voxel(size, stack) == (2, 2, 10)
assert voxel(size, finer) == (1, 1, 1)
EOF
