#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A TIFF whose channels are stored plane after plane (PlanarConfiguration 2) and are not RGB, read by libvips.
# Guess: libvips reads it, or says that it cannot, as it does for the tiled kind.
# Really: the planes are taken for interleaved pixels: each row of the result mixes rows and channels, no error, no
#   warning, right shape and right type. RGB in the same layout is read right. Multi-channel microscopes and
#   spectral cameras write such files; read them by libtiff.
# Seen 2026-11-27, libvips 8.18.7 (pyvips-binary; Debian 12's 8.14.1 gives the same), file by tifffile 2026.3.3,
#   channel 0 is 0 1 2 3 4 5 / 6 7 8 9 10 11 / ...: read as 0 1 2 3 4 5 / 2 3 4 5 6 7 / ...
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 tifffile==2026.3.3 pyvips==3.2.0
python_packages pyvips-binary==8.18.7  # after pyvips, which may have built itself against a libvips of the system
python <<'EOF'
import numpy
import pyvips
import tifffile

assert [pyvips.version(i) for i in range(3)] == [8, 18, 7]
channels = numpy.arange(3 * 4 * 6, dtype="u2").reshape(3, 4, 6)
read = {}
for photometric in "minisblack", "rgb":
    tifffile.imwrite("image.tif", channels, photometric=photometric, planarconfig="separate")
    assert (tifffile.imread("image.tif") == channels).all()
    read[photometric] = numpy.moveaxis(pyvips.Image.new_from_file("image.tif", access="sequential").numpy(), -1, 0)
    print(photometric, read[photometric][0, :2].tolist())
    pyvips.cache_set_max(0)
assert (read["rgb"] == channels).all()
assert read["minisblack"].shape == channels.shape
assert read["minisblack"][0, :2].tolist() == [[0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 6, 7]]
EOF
