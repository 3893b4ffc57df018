#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The coarser levels of an OME-Zarr image of small counts (photons, electrons), written by ome-zarr.
# Guess: each level has about the mean of the one before; integers are rounded.
# Really: means of blocks are cut off to integers at every level, so that each loses about half a count: a stack of mean
#   1.5 is black at the fourth level. A viewer opens the coarse level first, and what is fitted to it (background,
#   gain, registration) is biased. Float data are right. Write float32, or compute on level 0 only.
# Seen 2026-11-27, ome-zarr 0.18.0, zarr 3.1.6, Poisson counts of mean 1.5 in uint16, means of the levels:
#   1.50 1.01 0.51 0.00 0.00; the same in float32: 1.50 at all five.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 zarr==3.1.6 ome-zarr==0.18.0
python -W ignore <<'EOF'
import numpy
import zarr
from ome_zarr.writer import write_image

counts = numpy.random.default_rng(0).poisson(1.5, (8, 256, 256)).astype("u2")
means = {}
for dtype in "uint16", "float32":
    write_image(counts.astype(dtype), dtype + ".zarr", axes="zyx")
    levels = zarr.open(dtype + ".zarr", mode="r")
    means[dtype] = [float(levels[name][:].mean()) for name in sorted(levels.array_keys())]
    print(dtype, *(f"{mean:.2f}" for mean in means[dtype]))
assert len(means["uint16"]) == 5
assert 0.9 < means["uint16"][1] < 1.1 and means["uint16"][3] < 0.01
assert numpy.allclose(means["float32"], counts.mean(), rtol=1e-3)
EOF
