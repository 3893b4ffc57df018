# SPDX-License-Identifier: BSD-3-Clause
"""Reads images in bands of rows: HDF5, .npy, pictures. Values as in the file, (channels, rows, columns).

Of a volume the three middle slices, side by side as one picture; what lies between them, and is no slice, is not a number."""

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


def gap(volume):
    """Pixels between the slices of a volume."""
    return max(2, max(volume) // 32)


def empty_page(channels, volume):
    depth, height, width = volume
    return np.full((channels, height + gap(volume) + depth, width + gap(volume) + depth), np.nan, np.float32)


def sections(volume):
    """(what it is, its left edge, its upper edge) of each slice on the page, in parts of the page."""
    depth, height, width = volume
    right, below = width + gap(volume), height + gap(volume)
    return [
        (f"slice {depth // 2}", 0, 0),
        (f"column {width // 2}", right / (right + depth), 0),
        (f"row {height // 2}", 0, below / (below + depth)),
    ]


def middle_slices(data, offset=None, factor=None):
    """Rows x columns, beside it rows x depth, below it depth x columns, of (C, D, H, W)."""
    channels, *volume = data.shape
    depth, height, width = volume
    page = empty_page(channels, volume)
    page[:, :height, :width] = data[:, depth // 2]
    page[:, :height, -depth:] = np.moveaxis(np.asarray(data[:, :, :, width // 2]), 1, 2)
    page[:, -depth:, :width] = data[:, :, height // 2, :]
    return ImageFile(page.shape, lambda lo, hi: page[:, lo:hi], offset, factor, tuple(volume))


def on_page(image, volume):
    """A picture of a volume's middle slice, or of the middle of it, where that slice stands on the page; None where it is no such
    picture."""
    channels, height, width = image.shape
    top, left = (volume[1] - height) // 2, (volume[2] - width) // 2
    if top < 0 or left < 0 or 2 * height < volume[1] or 2 * width < volume[2]:
        return None
    page = empty_page(channels, volume)
    page[:, top : top + height, left : left + width] = image.rows(0, height)
    return ImageFile(page.shape, lambda lo, hi: page[:, lo:hi], image.offset, image.factor, volume)


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
