#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Exact zeros (a mask, blank sky, padding) in a float FITS image that is written compressed.
# Guess: a zero stays zero; rounding cannot move it.
# Really: the usual subtractive dither adds a random part of a step to every pixel, zeros too: not one zero is left
#   where a mask made of `image == 0` looks for 1280. Without dither (astropy's default) zeros stay, but small pixels
#   become zeros too. Only dither method 2 (fpack -qz) keeps exactly the zeros.
# Seen 2026-11-27, fitsio 1.4.2 (CFITSIO 4.6.0) and astropy 8.0.2, image with 1280 zeros and noise of 5: zeros read
#   back 0 with fitsio's default; astropy: default 1348, dither 1 0, dither 2 1280.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 astropy==8.0.2 fitsio==1.4.2
python <<'EOF'
import fitsio
import numpy
from astropy.io import fits

image = numpy.random.default_rng(1).normal(0, 5, (64, 64)).astype("f4")
image[:, :20] = 0
assert (image == 0).sum() == 1280
fitsio.write("fitsio.fits", image, compress="RICE")
zeros = {"fitsio": (fitsio.read("fitsio.fits") == 0).sum()}
for name, options in {"astropy": {}, "dither 1": {"quantize_method": 1}, "dither 2": {"quantize_method": 2}}.items():
    fits.CompImageHDU(image, **options).writeto("image.fits", overwrite=True)
    zeros[name] = (fits.getdata("image.fits") == 0).sum()
print("zeros read back of 1280:", {name: int(count) for name, count in zeros.items()})
assert zeros["fitsio"] == 0 and zeros["dither 1"] == 0 and zeros["dither 2"] == 1280 and zeros["astropy"] > 1280
EOF
