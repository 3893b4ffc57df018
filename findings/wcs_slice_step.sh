#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Sky coordinates of every fourth pixel: astropy's wcs[::4, ::4] beside image[::4, ::4].
# Guess: the sliced coordinates belong to the sliced image.
# Really: not in two ways. The reference pixel is moved as for averaged blocks, so the positions are off by 1.5 of the
#   old pixels; and where the header has a CD matrix (most of them), the pixel size is not changed at all: only a
#   warning that cdelt is ignored hints at it, and far from the reference pixel a source is 3/4 of its distance away.
# Seen 2026-11-27, astropy 8.0.2, pixels of 3.6 arc seconds, pixel 80 of the image against pixel 20 of the slice
#   (the same pixel): off by 7.6 with CDELT and 116.5 arc seconds with CD.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 astropy==8.0.2
python -W ignore <<'EOF'
import numpy
from astropy.io.fits import Header
from astropy.wcs import WCS

common = {"CTYPE1": "RA---TAN", "CTYPE2": "DEC--TAN", "CRVAL1": 10.0, "CRVAL2": 20.0, "CRPIX1": 50.0, "CRPIX2": 50.0}
scales = {"CDELT": {"CDELT1": -0.001, "CDELT2": 0.001}, "CD": {"CD1_1": -0.001, "CD2_2": 0.001}}
off = {}
for name, scale in scales.items():
    whole = WCS(Header({**common, **scale}))
    part = whole[::4, ::4]
    off[name] = whole.pixel_to_world(80, 80).separation(part.pixel_to_world(20, 20)).arcsec
    print(f"{name}: off by {off[name]:.1f} arc seconds")
pixel = 3.6
assert numpy.isclose(off["CDELT"], 1.5 * pixel * 2**0.5, rtol=0.01)
assert off["CD"] > 20 * pixel
EOF
