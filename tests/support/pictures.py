# SPDX-License-Identifier: BSD-3-Clause
"""Pictures in files. As skimage.io, which takes half a second of a core to load."""
from pathlib import Path

import imageio.v3
import skimage  # for the place of its photographs
import tifffile


def imread(path):
    return tifffile.imread(path) if Path(path).suffix == ".tif" else imageio.v3.imread(path)


def imsave(path, array):
    """A TIFF of three dimensions is color where the last has 3, else pages."""
    if Path(path).suffix == ".tif":
        color = array.ndim == 3 and array.shape[-1] == 3
        tifffile.imwrite(path, array, photometric="rgb" if color else "minisblack")
    else:
        imageio.v3.imwrite(path, array)


def photograph(name):
    """One that comes with scikit-image, such as astronaut.png."""
    return imread(Path(skimage.__file__).parent / "data" / name)
