# SPDX-License-Identifier: BSD-3-Clause
"""Reads images in bands of rows: HDF5, .npy, pictures. Values as in the file, (channels, rows, columns).

Of a volume the three middle slices, side by side as one picture."""

import re
from pathlib import Path

import h5py
import numpy as np
from PIL import Image, ImageOps

MOST_DECODED = 400_000_000  # pixels of a picture, which is decoded as a whole


class Unreadable(Exception):
    """Why an image cannot be shown."""


class ImageFile:
    """shape (C, H, W); rows(lo, hi) gives float32 (C, hi - lo, W). volume: (D, H, W) where slices of one are shown."""

    def __init__(self, shape, rows, offset=None, factor=None, volume=None):
        self.shape, self.rows, self.offset, self.factor, self.volume = shape, rows, offset, factor, volume


def open_image(path):
    path = str(path)
    try:
        if match := re.fullmatch(r"(.*\.h5|.*\.hdf5)(?::(.*))?", path):
            return open_hdf5(match[1], match[2] or "/image")
        if match := re.fullmatch(r"(.*\.tiff?):/(.*)", path):
            return open_tiff(match[1], match[2])
        if not Path(path).is_file():
            raise Unreadable(f"{path} is not there")
        if path.endswith(".npy"):
            return open_array(np.load(path, mmap_mode="r"))
        return open_picture(path)
    except (OSError, LookupError, ValueError, Image.DecompressionBombError) as error:
        raise Unreadable(f"{path} cannot be read ({str(error)[:120]})") from None


def open_tiff(path, part):
    """Pages, and all of them with the axes that tifffile finds; other parts are tessera's alone."""
    import tifffile  # slow to import, seldom needed

    if part.isdigit():
        return open_array(tifffile.imread(path, key=int(part))[None])
    with tifffile.TiffFile(path) as file:
        series = file.series[0]
        axes = ["C" if a in "CS" else "Z" if a in "ZIQ" else a for a in series.axes]
        if part != "all" or sorted(axes) not in (["X", "Y", "Z"], ["C", "X", "Y"], ["C", "X", "Y", "Z"]):
            raise Unreadable(f"{path}:/{part} is a part that the report does not read")
        data = np.transpose(series.asarray(), [axes.index(a) for a in "CZYX" if a in axes])
    return open_array(data if "C" in axes else data[None])


def flat_shape(shape):
    """(C, H, W) of (H, W), (C, H, W) or (C, 1, H, W)."""
    if not 2 <= len(shape) <= 4:
        raise Unreadable(f"it has {len(shape)} axes")
    return (1, *shape) if len(shape) == 2 else (shape[0], *shape[-2:])


def is_volume(shape):
    return len(shape) == 4 and shape[1] != 1


def middle_slices(data, offset=None, factor=None):
    """Rows x columns, beside it rows x depth, below it depth x columns, of (C, D, H, W)."""
    channels, depth, height, width = data.shape
    page = np.zeros((channels, height + 1 + depth, width + 1 + depth), np.float32)
    page[:, :height, :width] = data[:, depth // 2]
    page[:, :height, width + 1 :] = np.moveaxis(np.asarray(data[:, :, :, width // 2]), 1, 2)
    page[:, height + 1 :, :width] = data[:, :, height // 2, :]
    return ImageFile(page.shape, lambda lo, hi: page[:, lo:hi], offset, factor, (depth, height, width))


def open_hdf5(path, name):
    with h5py.File(path) as file:
        data = file[name]
        if is_volume(data.shape):
            return middle_slices(data, data.attrs.get("offset"), data.attrs.get("factor"))
        shape = flat_shape(data.shape)
        offset, factor = data.attrs.get("offset"), data.attrs.get("factor")

    def rows(lo, hi):
        with h5py.File(path) as file:
            return file[name][..., lo:hi, :].astype(np.float32).reshape(shape[0], hi - lo, shape[2])

    return ImageFile(shape, rows, offset, factor)


def open_array(data):
    if is_volume(data.shape):
        return middle_slices(data)
    shape = flat_shape(data.shape)
    return ImageFile(
        shape, lambda lo, hi: np.asarray(data[..., lo:hi, :], np.float32).reshape(shape[0], hi - lo, shape[2])
    )


def open_picture(path):
    if path.lower().endswith((".tif", ".tiff")):
        import tifffile  # slow to import, seldom needed

        data = tifffile.imread(path)
        data = data if data.ndim == 2 else data[..., :3] if data.shape[-1] in (3, 4) else data[..., 0]
    else:
        Image.MAX_IMAGE_PIXELS = MOST_DECODED
        with Image.open(path) as picture:
            if picture.width * picture.height > MOST_DECODED:
                raise Unreadable(
                    f"{path} has more than {MOST_DECODED // 1_000_000} million pixels: as HDF5 it could be shown"
                )
            deep = picture.format == "PNG" and png_bits(path) == 16
            picture = ImageOps.exif_transpose(picture)
            if picture.mode in ("P", "1", "CMYK") or picture.mode.endswith("A") and picture.mode != "LA":
                picture = picture.convert("RGB")
            elif picture.mode == "LA":
                picture = picture.convert("L")
            data = np.asarray(picture)
        if deep and data.dtype == np.uint8:  # Pillow keeps the upper half of 16-bit colors
            data = data.astype(np.float32) * 257
    if data.ndim == 2:
        data = data[..., None]
    return open_array(np.moveaxis(data, -1, 0))


def png_bits(path):
    with open(path, "rb") as file:
        return file.read(25)[24]
