#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A float result saved by nibabel with the affine and header of the integer volume that it came from.
# Guess: the header brings geometry; the data keep their precision, as the array is float64.
# Really: the header brings the type too. The result is quantized to it, with one scale for the whole volume: uint8
#   leaves 256 levels between minimum and maximum, and one bright voxel leaves four for all the others. NaN becomes a
#   number. Reading gives float64 again, so nothing shows. Set header.set_data_dtype, or pass dtype=.
# Seen 2026-11-27, nibabel 5.4.2, noise of standard deviation 0.001 with the header of a uint8 volume: 215 levels; with
#   one voxel of 1.0: 4 levels and an rms error of 1.08 of the noise.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 nibabel==5.4.2
python -W error <<'EOF'
import nibabel
import numpy

random = numpy.random.default_rng(0)
source = nibabel.Nifti1Image(random.integers(0, 200, (16, 16, 8)).astype("u1"), numpy.eye(4))
result = random.normal(0, 1e-3, source.shape)


def saved_and_read(data, **options):
    nibabel.save(nibabel.Nifti1Image(data, source.affine, source.header, **options), "result.nii")
    back = nibabel.load("result.nii")
    return back.get_data_dtype(), back.get_fdata()


dtype, back = saved_and_read(result)
levels = len(numpy.unique(back))
result[0, 0, 0] = 1
_, bright = saved_and_read(result)
rms = numpy.sqrt(((bright - result) ** 2).mean()) / 1e-3
print(f"stored as {dtype}: {levels} levels; with a bright voxel {len(numpy.unique(bright))}, rms error {rms:.2f} sigma")
assert dtype == "u1" and levels <= 256 and len(numpy.unique(bright)) < 10 and rms > 0.5
_, right = saved_and_read(result, dtype="f4")
assert numpy.allclose(right, result, rtol=1e-6, atol=0)
result[0, 0, 0] = numpy.nan
assert numpy.isfinite(saved_and_read(result)[1]).all()
EOF
