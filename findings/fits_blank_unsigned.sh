#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Missing pixels (BLANK) of an unsigned 16-bit FITS image, read by astropy.
# Guess: as for signed 16 bits: the array becomes float32 and the missing pixels NaN.
# Really: unsigned images (BZERO 32768, what cameras write) stay uint16, BLANK is not looked at, and the missing pixels
#   are counts like any other, here 0. uint=False gives NaN. No warning.
# Seen 2026-11-27, astropy 8.0.2: signed float32 [nan 1. 2.]; unsigned uint16 [0 1 2]; unsigned with uint=False
#   float32 [nan 1. 2.].
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 astropy==8.0.2
python -W error <<'EOF'
import numpy
from astropy.io import fits


def write(name, stored, **cards):
    fits.PrimaryHDU(numpy.array([stored], "i2")).writeto(name)
    with fits.open(name, mode="update", do_not_scale_image_data=True) as file:
        file[0].header.update(cards)


write("signed.fits", [-32768, 1, 2], BLANK=-32768)
write("unsigned.fits", [-32768, -32767, -32766], BLANK=-32768, BSCALE=1, BZERO=32768)
signed, unsigned = fits.getdata("signed.fits")[0], fits.getdata("unsigned.fits")[0]
asked = fits.getdata("unsigned.fits", uint=False)[0]
for values in signed, unsigned, asked:
    print(values.dtype, values)
assert numpy.isnan(signed[0]) and numpy.isnan(asked[0])
assert unsigned.dtype == "uint16" and unsigned.tolist() == [0, 1, 2]
EOF
