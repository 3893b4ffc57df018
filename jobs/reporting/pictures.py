# SPDX-License-Identifier: BSD-3-Clause
"""Before, after, truth and error of a run, as pictures that fit on a page."""

import base64
import io
import math
import os
import subprocess
import tempfile

import numpy as np
from PIL import Image

from .image_files import Unreadable, on_page, open_image, sections

BAND = 1 << 24  # samples read at a time
NOTHING = 128  # between the slices of a volume
LOSSLESS = 256 * 256  # pixels; larger ones would make a page of 512 x 512 pixels 4.6 MB
# The colors of "magma": dark is no error; told apart with every kind of color vision.
MAGMA = [
    (0, 0, 4),
    (28, 16, 68),
    (79, 18, 123),
    (129, 37, 129),
    (181, 54, 122),
    (229, 80, 100),
    (251, 135, 97),
    (254, 194, 135),
    (252, 253, 191),
]


def shrink(rows, factor):
    """Means of factor x factor pixels (fewer at the end) of (C, rows, columns)."""
    if factor == 1:
        return rows
    count = np.add.reduceat(np.ones(rows.shape[1]), range(0, rows.shape[1], factor))[:, None] * np.add.reduceat(
        np.ones(rows.shape[2]), range(0, rows.shape[2], factor)
    )
    down = np.add.reduceat(rows, range(0, rows.shape[1], factor), axis=1, dtype=np.float64)
    return np.add.reduceat(down, range(0, rows.shape[2], factor), axis=2) / count


def bands(shape, factor):
    step = max(1, BAND // (shape[0] * shape[2]) // factor) * factor
    for low in range(0, shape[1], step):
        yield low, min(low + step, shape[1])


def small(image, offset, scale, side):
    """(C, h, w) in internal range, and by how much it was shrunk."""
    factor = max(1, math.ceil(max(image.shape[1:]) / side))
    parts = [shrink((image.rows(lo, hi) - offset) / scale, factor) for lo, hi in bands(image.shape, factor)]
    return np.concatenate(parts, axis=1), factor


def encode(pixels):
    """uint8 (h, w) or (h, w, 3) -> a data URI."""
    buffer = io.BytesIO()
    exact = pixels.shape[0] * pixels.shape[1] <= LOSSLESS
    Image.fromarray(pixels).save(buffer, "WEBP", lossless=exact, quality=50 if exact else 95, method=4, use_sharp_yuv=True)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def as_bytes(image):
    clean = np.nan_to_num(np.clip(image, 0, 1), nan=0.0)
    pixels = np.rint(clean * 255).astype(np.uint8)
    pixels[:, np.isnan(image).all(0)] = NOTHING
    return pixels[0] if pixels.shape[0] != 3 else np.moveaxis(pixels, 0, -1)


def colored(values, top):
    at = np.linspace(0, 1, len(MAGMA))
    level = np.clip(values / top, 0, 1)
    pixels = np.stack([np.interp(np.nan_to_num(level), at, [c[k] for c in MAGMA]) for k in range(3)], -1).astype(np.uint8)
    pixels[np.isnan(values)] = NOTHING
    return pixels


def figure(title, image, factor, caption, volume=None):
    """`volume`: (D, H, W) where its middle slices are shown."""
    note = f" Shown at 1/{factor} of its size, means of {factor} x {factor} pixels." if factor > 1 else ""
    return {
        "title": title,
        "src": encode(image),
        "width": image.shape[1],
        "height": image.shape[0],
        "caption": caption + note,
        "labels": sections(volume) if volume else [],
    }


def size_text(image):
    shape, volume = image.shape, image.volume
    size = " x ".join(map(str, volume)) + " (the middle slices; depth goes to the right, and downward)" if volume else f"{shape[1]} x {shape[2]}"
    return size + (
        ", gray" if shape[0] == 1 else "" if shape[0] == 3 else f", {shape[0]} channels, the first is shown"
    )


def error_map(result, truth, offset, scale, side, region=None):
    """(|after - truth|, mean over channels, shrunk; PSNR over the region: [[row, end], [column, end]])."""
    (top, bottom), (left, right) = region or ((0, result.shape[1]), (0, result.shape[2]))
    factor = max(1, math.ceil(max(result.shape[1:]) / side))
    parts, squares = [], 0.0
    for lo, hi in bands(result.shape, factor):
        e = (result.rows(lo, hi) - truth.rows(lo, hi)) / scale
        inside = e[:, max(top - lo, 0) : max(bottom - lo, 0), left:right]
        squares += float(np.nansum(np.square(inside, dtype=np.float64)))
        parts.append(shrink(np.abs(e).mean(axis=0, keepdims=True), factor)[0])
    values = result.shape[0] * (bottom - top) * (right - left)
    psnr = -10 * math.log10(squares / values) if squares > 0 else math.inf
    return np.concatenate(parts), psnr


def nice(value):
    """The next of 1, 2, 5 x 10^k."""
    if not value > 0:
        return 1e-6
    power = 10 ** math.floor(math.log10(value))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= value * 0.999)


def result_of(run):
    """(image, offset, scale, what it is): the reconstruction, or the newest picture that a run without one left."""
    try:
        image = open_image(run.folder / "reconstruction.h5")
        return image, float(image.offset or 0), float(image.factor or 1), "reconstruction"
    except Unreadable as error:
        reason = error
    left = sorted(run.folder.glob("iteration-*.png"))
    if left:
        return open_image(left[-1]), 0.0, 255.0, f"snapshot after iteration {int(left[-1].stem.split('-')[1])}"
    raise Unreadable(f"There is no result ({reason}).")


class Album:
    """Makes the pictures of several runs. Large images take long to read: some are left out, and said to be."""

    AFFORDED = 1 << 29  # samples of all results together; some seconds

    def __init__(self, side, program=None, everything=False):
        self.side, self.scenes, self.left = side, Scenes(program), math.inf if everything else self.AFFORDED

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.scenes.folder.cleanup()

    def pictures_of(self, run):
        """([figure, ...], [what is missing, and why])."""
        try:
            size = math.prod(result_of(run)[0].shape)
        except Unreadable:
            size = 0
        if size > self.left:
            return [], [
                f"Left out, as reading it takes long ({size / 1e6:.0f} million values): --pictures all shows it."
            ]
        self.left -= size
        return pictures_of(run, self.side, self.scenes)


class Scenes:
    """Truths that are synthetic scenes, drawn by the program."""

    PATIENCE = 600  # seconds for one

    def __init__(self, program):
        self.program, self.known, self.folder = program, {}, tempfile.TemporaryDirectory()

    def image(self, job, shape):
        """The scene of a job whose result has this shape: what a run folder says is not drawn unseen."""
        rows, columns = job["problem.truth.scene.size"]
        if (rows, columns) != tuple(shape[1:]):
            raise Unreadable(f"the truth is a scene of {rows} x {columns}, the result {shape[1]} x {shape[2]}")
        words = [
            f"--size={rows}x{columns}",
            f"--seed={job.get('problem.truth.scene.seed', 0)}",
            f"--channels={job.get('problem.truth.scene.channels', 3)}",
        ]
        path = self.known.setdefault(tuple(words), f"{self.folder.name}/{len(self.known)}.h5")
        if not os.path.exists(path):
            if not self.program:
                raise Unreadable("the truth is a synthetic scene, which the program draws (--program names it)")
            try:
                done = subprocess.run(
                    [self.program, "scene", path, *words],
                    capture_output=True,
                    text=True,
                    stdin=subprocess.DEVNULL,
                    timeout=self.PATIENCE,
                )
            except subprocess.TimeoutExpired:
                raise Unreadable(f"drawing the synthetic scene took more than {self.PATIENCE} s") from None
            except OSError as error:
                raise Unreadable(
                    f"the truth is a synthetic scene, and {self.program} cannot be started ({error.strerror})"
                ) from None
            if done.returncode:
                raise Unreadable(
                    f"the truth is a synthetic scene, and '{self.program} scene' failed ({done.stderr.strip()[-200:]})"
                )
        return open_image(path)


def pictures_of(run, side, scenes):
    figures, missing = [], []
    try:
        result, offset, scale, what = result_of(run)
    except Unreadable as error:
        result = None
        missing.append(str(error))
    figures += before_of(run, side, missing, result.volume if result else None)
    if result is None:
        return figures, missing
    after, factor = small(result, offset, scale, side)
    score = f", PSNR {run.number('psnr'):.2f} dB" if math.isfinite(run.number("psnr")) else ""
    figures.append(figure("after", as_bytes(after), factor, f"The {what}, {size_text(result)}{score}.", result.volume))
    try:
        truth, called = truth_of(run, scenes, result.shape)
        if truth.shape != result.shape:
            raise Unreadable(f"the truth is {size_text(truth)}, the result {size_text(result)}")
        shown, factor = small(truth, offset_of(run, offset), scale_of(run, scale), side)
        figures.append(figure("truth", as_bytes(shown), factor, called, truth.volume))
        error, psnr = error_map(
            in_units(result, offset, scale),
            in_units(truth, offset_of(run, offset), scale_of(run, scale)),
            0,
            1,
            side,
            None if result.volume else run.summary.get("scored_region"),
        )
        top = nice(float(np.nanpercentile(error, 99.8)))
        figures.append(
            figure(
                "error",
                colored(error, top),
                factor,
                "|after - truth|, mean of the channels; the image's range is 0 to 1.",
                result.volume,
            )
            | {"ramp": {"colors": [f"rgb{c}" for c in MAGMA], "ends": ["0", f"{top:g} and more"]}}
        )
        if what == "reconstruction" and not result.volume and abs(psnr - run.number("psnr")) > 0.1:
            missing.append(
                f"The PSNR of these files is {psnr:.2f} dB, the run said {run.number('psnr'):.2f} dB: "
                "the truth was changed since, or its depth is not read as the run did."
            )
    except Unreadable as error:
        if run.job.get("problem.truth") or run.job.get("problem.truth.scene.size"):  # else nobody misses it
            missing.append(f"No error picture: {error}.")
    return figures, missing


def in_units(image, offset, scale):
    class Scaled:
        shape = image.shape

        @staticmethod
        def rows(lo, hi):
            return (image.rows(lo, hi) - np.float32(offset)) / np.float32(scale)

    return Scaled


def offset_of(run, otherwise):
    return float(run.job.get("problem.scale.offset", otherwise))


def scale_of(run, otherwise):
    given = run.job.get("problem.scale.factor")
    return float(given) if isinstance(given, (int, float)) else otherwise


def truth_of(run, scenes, shape):
    """(image, what it is)."""
    path = run.job.get("problem.truth")
    if run.job.get("problem.truth.scene.size"):
        return scenes.image(run.job, shape), f"Synthetic scene, seed {run.job.get('problem.truth.scene.seed', 0)}."
    if not isinstance(path, str):
        raise Unreadable("the job has no truth")
    return open_image(path), f"{os.path.basename(path)}."


def before_of(run, side, missing, volume):
    """The measurement, as the run kept it, or the measured picture that the job names. Of a volume it stands where its slice does."""
    given = run.job.get("problem.measurements")
    sinogram = run.job.get("problem.operator.type") == "tomography"
    kept = "The sinogram, of a volume that of the middle row" if sinogram else "The measurement"
    for path, what in ((run.folder / "measurement.png", kept), (given, f"{given}")):
        if not path or str(path).endswith((".h5", ".hdf5")):
            continue
        try:
            image = open_image(path)
        except Unreadable:
            continue
        if volume and not image.volume and not sinogram:
            image = on_page(image, volume) or image
        shown, factor = small(image, 0, 255.0, side)
        parts = int(run.job.get("problem.operator.angles.count", 0)) or len(
            run.job.get("problem.operator.parts") or [0]
        )
        first = f", the first of {parts}" if parts > 1 else ""
        start = run.number("psnr_start")
        score = f"; the start of the iteration has {start:.2f} dB" if math.isfinite(start) else ""
        return [figure("before", as_bytes(shown), factor, f"{what}{first}, {size_text(image)}{score}.", image.volume)]
    missing.append(
        "No picture of the measurement: measurement.png is not in the folder (runs write it where they write a "
        "preview, for gray and color images up to 4096 x 4096)."
    )
    return []
