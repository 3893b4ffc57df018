#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Reading missing pixels (NaN) of a compressed FITS image with CFITSIO.
# Guess: NaN is NaN; passing no null value means "leave them as they are", and for a plain float image that is so.
# Really: in a tile-compressed float image NaN is stored as a reserved integer. Without a null value CFITSIO scales
#   that integer like any other: dead pixels return as ordinary finite numbers, status 0 and "any null" 0. With a
#   dither they may lie among the true values. Pass a null value of NaN, always.
# Seen 2026-11-27, CFITSIO 4.2.0 (Debian 12), file by astropy 8.0.2, 40 NaN in an image of mean 100:
#   plain 40 NaN; compressed, no null value 0 NaN, status 0, any null 0, the pixel reads -5.4e8 or, dithered as fpack
#   does, about 84; with a null value of NaN 40 NaN.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 astropy==8.0.2
debian_packages libcfitsio10
python <<'EOF'
import ctypes

import numpy
from astropy.io import fits

image = numpy.random.default_rng(1).normal(100, 5, (64, 64)).astype("f4")
image[10:14, 20:30] = numpy.nan
fits.writeto("plain.fits", image)
for name, method in ("compressed", -1), ("dithered", 2):
    fits.CompImageHDU(image, quantize_method=method).writeto(name + ".fits")

cfitsio = ctypes.CDLL("libcfitsio.so.10")


def read(name, null):
    file, status, any_null = ctypes.c_void_p(), ctypes.c_int(0), ctypes.c_int(-1)
    out = numpy.zeros(image.shape, "f4")
    cfitsio.ffiopn(ctypes.byref(file), name.encode(), 0, ctypes.byref(status))  # fits_open_image
    cfitsio.ffgpv(file, 42, ctypes.c_longlong(1), ctypes.c_longlong(out.size), null,  # fits_read_img, TFLOAT
                  out.ctypes.data_as(ctypes.c_void_p), ctypes.byref(any_null), ctypes.byref(status))
    cfitsio.ffclos(file, ctypes.byref(ctypes.c_int(0)))
    assert status.value == 0, status.value
    lost = numpy.isnan(out).sum()
    print(f"{name}, null value {'NaN' if null else 'none'}: {lost} NaN, any null {any_null.value}, {out[12, 25]}")
    return lost, any_null.value, out[12, 25]


nan = ctypes.byref(ctypes.c_float(numpy.nan))
assert read("plain.fits", None)[0] == 40
for name in "compressed.fits", "dithered.fits":
    seen, any_null, value = read(name, None)
    assert seen == 0 and any_null == 0 and numpy.isfinite(value)
    assert read(name, nan)[:2] == (40, 1)
assert 50 < value < 100  # the dithered one: nothing about it looks wrong
EOF
