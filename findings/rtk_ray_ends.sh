#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The usual forward projector of RTK (Joseph's), the toolkit behind most cone-beam reconstruction.
# Guess: a ray straight through a volume of N voxels of 1 mm and density 1 sums up to N mm, the volume's extent as ITK itself
#   counts it, from the outer face of the first voxel to that of the last.
# Really: it is N - 1. The ray begins and ends at the centers of the outer voxels, and half of each is lost: a body that fills
#   its grid, a slab, a patient wider than the image, comes out too thin by a voxel, 3 % of 32 voxels, as if it were less
#   dense. One empty layer around it, and the sum is right; so tests with a body in the middle of a grid never see it.
# Seen 2026-11-30, itk-rtk 2.7.0.post1, itk 5.4.7: 8 -> 7.0, 32 -> 31.0, 64 -> 63.0; with an empty layer 8.0, 32.0, 64.0.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 itk==5.4.7 itk-rtk==2.7.0.post1
libraries=$(find venv -path '*/nvidia/*/lib' -type d -printf '%p:')
LD_LIBRARY_PATH=$folder/${libraries//:venv/:$folder/venv}${LD_LIBRARY_PATH:-} python <<'EOF'
import itk
import numpy as np
from itk import RTK as rtk


def middle_ray(voxels, empty):
    """The sum along the middle ray of a parallel beam through a cube of density 1 with so many empty layers around it."""
    side = voxels + 2 * empty
    cube = np.zeros((side,) * 3, np.float32)
    cube[(slice(empty, empty + voxels),) * 3] = 1
    volume = itk.image_from_array(cube)
    volume.SetSpacing([1.0] * 3)
    volume.SetOrigin([-(side - 1) / 2] * 3)
    geometry = rtk.ThreeDCircularProjectionGeometry.New()
    geometry.AddProjection(1000.0, 0.0, 0.0)  # source to detector 0: parallel
    rays = itk.image_from_array(np.zeros((1, 5, 5), np.float32))
    rays.SetOrigin([-2, -2, 0])
    kind = itk.Image[itk.F, 3]
    project = rtk.JosephForwardProjectionImageFilter[kind, kind].New()
    project.SetGeometry(geometry)
    project.SetInput(0, rays)
    project.SetInput(1, volume)
    project.Update()
    return float(itk.array_from_image(project.GetOutput())[0, 2, 2])


for n in (8, 32, 64):
    bare, wrapped = middle_ray(n, 0), middle_ray(n, 1)
    print(f"{n} voxels of 1 mm: {bare:.3f} mm, with an empty layer around them {wrapped:.3f} mm")
    assert abs(bare - (n - 1)) < 1e-3 and abs(wrapped - n) < 1e-3
EOF
