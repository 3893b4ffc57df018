#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The non-uniform Fourier transform of sigpy, often the reference in papers on MRI reconstruction.
# Guess: with default settings it agrees with the exact sum to single precision or so.
# Really: the defaults (oversampling 1.25, kernel of 4) are for speed: the relative error is 0.7 %, larger than many
#   differences that get compared, and the same for complex128. Its adjoint matches it to rounding, so that an adjoint
#   test does not find it. oversamp=2, width=6 gives 7e-6.
# Seen 2026-11-27, sigpy 0.1.27, finufft 2.5.1, 64 x 64, 500 random points, against the sum written out:
#   default 6.9e-3, oversamp=2 width=4 6.3e-4, oversamp=2 width=6 6.8e-6; finufft's default 1.4e-6.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 sigpy==0.1.27 finufft==2.5.1
python -W ignore <<'EOF'
import finufft
import numpy
import sigpy

n, random = 64, numpy.random.default_rng(0)
image = random.standard_normal((n, n)) + 1j * random.standard_normal((n, n))
points = random.uniform(-n / 2, n / 2, (500, 2))
rows, columns = numpy.exp(-2j * numpy.pi / n * points.T[:, :, None] * (numpy.arange(n) - n // 2))
exact = numpy.einsum("pi,ij,pj->p", rows, image, columns) / n


def error(result):
    return numpy.linalg.norm(result - exact) / numpy.linalg.norm(exact)


default = sigpy.nufft(image, points)
weights = random.standard_normal(500) + 0j
adjoint = sigpy.nufft_adjoint(weights, points, oshape=image.shape)
y, x = (numpy.ascontiguousarray(2 * numpy.pi / n * axis) for axis in points.T)
errors = {
    "sigpy": error(default),
    "sigpy 2, 6": error(sigpy.nufft(image, points, oversamp=2, width=6)),
    "finufft": error(finufft.nufft2d2(y, x, image) / n),
}
print({name: f"{value:.1e}" for name, value in errors.items()}, default.dtype)
assert numpy.isclose(numpy.vdot(weights, default), numpy.vdot(adjoint, image), rtol=1e-10)
assert default.dtype == "complex128" and 3e-3 < errors["sigpy"] < 2e-2
assert errors["sigpy 2, 6"] < 1e-4 and errors["finufft"] < 1e-5
EOF
