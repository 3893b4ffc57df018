# SPDX-License-Identifier: BSD-3-Clause
"""Pictures and table of the quickstart.

usage: show_quickstart.py photo FOLDER     copies the photograph from the scikit-image wheel to FOLDER/photo.png
       show_quickstart.py report FOLDER    prints PSNR and times, makes FOLDER/comparison.png
"""
import json
import pathlib
import shutil
import sys

import h5py
import numpy as np
import skimage
import skimage.io

ZOOM = np.s_[40:232, 130:322]  # the face: rows, columns


def read_picture(path):
    return skimage.io.imread(path)[..., :3]


def read_h5(path, name, about):
    """(C, H, W) -> (H, W, C), 8 bit; `about` has the attributes of units."""
    with h5py.File(path) as file:
        image, scale = file[name][:], file[about].attrs
        if scale["units"] == "internal":
            image = image * scale["factor"] + scale["offset"]
    return np.clip(np.rint(np.moveaxis(image, 0, -1)), 0, 255).astype(np.uint8)


def report(folder):
    runs = {"total variation": folder / "tv", "network": folder / "drunet"}
    summaries = {name: json.loads((path / "summary.json").read_text()) for name, path in runs.items()}
    network = summaries["network"]
    print(f"\n{'':24}{'PSNR':>10}{'SSIM':>9}{'seconds':>10}{'iterations':>12}")
    print(f"{'measurement':24}{network['psnr_start']:>7.2f} dB")
    for name, s in summaries.items():
        print(f"{name:24}{s['psnr']:>7.2f} dB{s['ssim']:>9.3f}{s['seconds']:>10.1f}{s['iterations']:>12}")

    pictures = [read_picture(folder / "photo.png"), read_h5(folder / "measurement.h5", "measurements/0", "measurements")]
    pictures += [read_h5(path / "reconstruction.h5", "image", "image") for path in runs.values()]
    gap = np.full((pictures[0].shape[0], 8, 3), 255, np.uint8)

    def row(images):
        height = images[0].shape[0]
        return np.hstack([part for image in images for part in (image, gap[:height])][:-1])

    zoomed = [np.repeat(np.repeat(p[ZOOM], 2, axis=0), 2, axis=1) for p in pictures]
    skimage.io.imsave(folder / "comparison.png", row(zoomed), check_contrast=False)
    skimage.io.imsave(folder / "measurement.png", pictures[1], check_contrast=False)
    print(f"\non {network['ranks']} ranks, {network['device']}")
    print(f"  result        {runs['network']}/reconstruction.png, .h5")
    print(f"  measurement   {folder}/measurement.png, .h5")
    print(f"  side by side  {folder}/comparison.png  (truth, measurement, total variation, network)")
    print(f"  trace         {runs['network']}/trace.h5")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("photo", "report"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "photo":
        shutil.copyfile(pathlib.Path(skimage.__file__).parent / "data/astronaut.png", folder / "photo.png")
    else:
        report(folder)


main()
