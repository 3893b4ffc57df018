# SPDX-License-Identifier: BSD-3-Clause
"""Whether a result fits its data: the `diagnostics` of summary.json and its two pictures. docs/metrics.md."""

import math

from .image_files import Unreadable, open_image
from .pictures import as_bytes, encode, small

# What the pictures are drawn in; where nobody knows the noise, the residual's own mean square.
NOISE = {"levels": "noise levels", "level": "the noise level", "white": "the noise", "blue": ", the image fits noise"}
OWN = {
    "levels": "times its root mean square",
    "level": "its own root mean square (the noise level is not known)",
    "white": "its mean over the image (the noise level is not known)",
    "blue": "",
}
# Colors of chi2.png at 0, 1 and 3 (src/app/run/diagnostics.cpp).
CHI2_RAMP = "linear-gradient(to right, rgb(33,102,172), rgb(247,247,247) 33.3%, rgb(178,24,43))"
GRAY_RAMP = "linear-gradient(to right, #000, #fff)"
PICTURES = [
    (
        "residual.png",
        "Residual",
        GRAY_RAMP,
        ["-4", "0", "4 {levels}"],
        "(A x - y) over {level}, first part. Noise without structure is what is left of a good result; edges "
        "that are seen here are missing from it, or were never in the data.",
    ),
    (
        "chi2.png",
        "chi2 over the image",
        CHI2_RAMP,
        ["0", "1", "2", "3 and more"],
        "Mean of the squared residual over tiles. White: as large as {white}. Blue: smaller{blue}. "
        "Red: larger, something is missing.",
    ),
]


def shown(value, form):
    return form.format(value) if isinstance(value, (int, float)) and math.isfinite(value) else "unknown"


def share(value):
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return "unknown"
    return "< 0.1 %" if 0 < value < 1e-3 else f"{100 * value:.3g} %"


def facts(d):
    """[(what, value, more)] of a run's diagnostics."""
    parts = d.get("parts") or []
    known = d.get("noise_sigma") is not None
    tiles, image, denoiser = d.get("chi2_tiles") or {}, d.get("image") or {}, d.get("denoiser")
    rows = [
        (
            "chi2 per sample",
            shown(d.get("chi2"), "{:.3f}" if known else "{:.3g}"),
            (
                f"1 is the noise level, {d['noise_sigma']:.3g}"
                if known
                else "the noise level is not known: squared units of the data"
            ),
        ),
        (
            "chi2 over the image",
            f"{shown(tiles.get('low'), '{:.3g}')} to {shown(tiles.get('high'), '{:.3g}')}",
            f"5 % and 95 % of the tiles of {tiles.get('side', '?')} x {tiles.get('side', '?')} samples",
        ),
    ]
    if parts:
        worst = max(parts, key=lambda p: abs(p["correlation"]))
        lag = worst["correlation_lag"]
        rows.append(
            (
                "Correlation of the residual",
                f"{worst['correlation']:.3f}",
                f"largest, at lag ({lag[0]}, {lag[1]}); white noise has {worst['correlation_white']:.2g}",
            )
        )
        off = max(parts, key=lambda p: abs(p["mean"]))
        rows.append(("Mean of the residual", f"{off['mean']:.3f}", f"its deviation is {off['deviation']:.3f}"))
        clipped = max(parts, key=lambda p: max(p["at_smallest"], p["at_largest"]))
        rows.append(
            (
                "At the ends of the range",
                share(clipped["at_largest"]),
                f"of the samples have the largest value, {share(clipped['at_smallest'])} the smallest",
            )
        )
    outside = image.get("below_0", math.nan) + image.get("above_1", math.nan)
    rows.append(
        (
            "Image outside of [0, 1]",
            share(outside),
            f"values from {shown(image.get('smallest'), '{:.3g}')} to {shown(image.get('largest'), '{:.3g}')}",
        )
    )
    if denoiser:
        rows.append(
            (
                "Gain of the denoiser",
                shown(denoiser.get("last_gain"), "{:.3f}"),
                f"of small changes, after {denoiser.get('passes')} passes at sigma {denoiser.get('sigma', 0):.3g}; "
                f"largest seen {shown(denoiser.get('largest_gain'), '{:.3f}')}",
            )
        )
    return rows


def fit_of(run, side, with_pictures=True):
    """What the page shows of one run: facts, warnings, parts, pictures; None where the run has no diagnostics."""
    d = run.summary.get("diagnostics")
    if not isinstance(d, dict):
        return None
    pictures = []
    words = NOISE if d.get("noise_sigma") is not None else OWN
    for name, title, ramp, ends, caption in PICTURES if with_pictures else []:
        try:
            image, factor = small(open_image(run.folder / name), 0, 255.0, side)
        except Unreadable:
            continue
        means = factor > 1 and name == "residual.png"  # a tile of the map stays what it is
        note = f" Shown at 1/{factor} of its size, means of {factor} x {factor} samples." if means else ""
        source = encode(as_bytes(image))
        pictures.append(
            {
                "title": title,
                "src": source,
                "ramp": ramp,
                "ends": [end.format(**words) for end in ends],
                "caption": caption.format(**words) + note,
            }
        )
    return {
        "facts": facts(d),
        "warnings": [str(w) for w in d.get("warnings") or []],
        "parts": d.get("parts") or [],
        "pictures": pictures,
    }
