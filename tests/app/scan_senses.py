# SPDX-License-Identifier: BSD-3-Clause
"""What samples of a scan say against its job: how far and which way views turn, how the beam opens; what is no view."""
import re

from harness import np, tessera
from scans import ELLIPSES, counts, dxchange, said_by, scan, sinogram


def fan(views, columns, source_axis, source_detector, way=1, density=0.03):
    """(views, 1, columns) of the ellipses, by a fan that turns one way or the other; columns of 1."""
    t = way * np.arange(views)[:, None] * 2 * np.pi / views
    u = np.arange(columns) - (columns - 1) / 2
    size = 0.42 * columns * source_axis / source_detector
    start = np.stack([source_axis * np.sin(t), source_axis * np.cos(t)])
    end = np.stack([-(source_detector - source_axis) * np.sin(t) + u * np.cos(t), -(source_detector - source_axis) * np.cos(t) - u * np.sin(t)])
    step = (end - start) / np.hypot(*(end - start))
    out = 0
    for x, y, a, b, tilt, value in ELLIPSES:
        c, s = np.cos(tilt), np.sin(tilt)
        px, py = start[0] - x * size, start[1] - y * size
        at = (c * px - s * py) / (a * size), (s * px + c * py) / (b * size)
        way_in = (c * step[0] - s * step[1]) / (a * size), (s * step[0] + c * step[1]) / (b * size)
        square, along = way_in[0] ** 2 + way_in[1] ** 2, at[0] * way_in[0] + at[1] * way_in[1]
        out = out + density * value * 2 * np.sqrt(np.maximum(along ** 2 - square * (at[0] ** 2 + at[1] ** 2 - 1), 0)) / square
    return out[:, None]


def scan_turns():
    """Both ends of a turn counted, and one; a fan for a parallel beam, turned the other way, of other distances; right ones get no line."""
    def off_center(views, turn):
        # Balls beside the axis: what turns is seen.
        t, s, out = np.arange(views)[:, None] * np.deg2rad(turn) / views, np.arange(96) - 47.5 - 2, 0
        for x, y, radius in ((0, 0, 40), (20, 5, 9), (-14, 18, 6), (-8, -24, 4), (15, -20, 7), (4, 9, 3), (30, 2, 4)):
            out = out + 0.02 * np.sqrt(np.maximum(radius ** 2 - (s - x * np.cos(t) + y * np.sin(t)) ** 2, 0))
        return np.repeat(out[:, None], 4, axis=1)

    both = off_center(123, 180 * 123 / 122)
    one = off_center(123, 180)
    whole = off_center(123, 360 * 123 / 122)
    last = r"write 'views: \{first: 0, last: %s"
    for name, y, said, theta, why in (
            ("both", both, "views: {count: 123}", None, r"the first view, mirrored, as half a turn later, stands -?0\.\d views behind the last, as they show, and 1\.0 .*both ends of the turn.*" + last % r"181\.4754"),
            ("right", both, "views: {count: 123, last: 181.47541}", None, None), ("listed", both, "", np.linspace(0, 180, 123), None),
            ("one", one, "views: {count: 123}", None, None), ("to_end", one, "", np.linspace(0, 180, 123), "the first view.* and 0.0 by their angles.*a step before.*" + last % "180}"),
            ("whole", whole, "views: {count: 123, last: 360}", None, "the first view, a turn later, .*" + last % r"362\.9508")):
        dxchange(f"{name}.h5", *counts(y, light=50000), theta)
        out = said_by("check", scan(f"{name}.h5", said), f"warning: {why}" if why else "scan ")
        assert why or "the first view" not in out and "taken to stand" not in out, (name, out)

    beam = "beam: fan, source_axis: %d, source_detector: %d"
    for way in (1, -1):
        dxchange(f"way{way}.h5", *counts(fan(120, 96, 150, 300, way)), np.arange(120) * 3.0)
    for ranks, name, said, why in (
            (1, "way1.h5", beam % (150, 300), None), (1, "way1.h5", "", r"not mirror images of each other.*opens by about (18|1[5-9]|2\d) degrees.*write 'beam: fan"),
            (2, "way-1.h5", beam % (150, 300), "if the views turn the other way.*last: -360"), (1, "way-1.h5", beam % (150, 300) + ", views: {first: 0, last: -360}", None),
            (3, "way1.h5", beam % (1500, 3000), r"if the beam opens by about (18|1[5-9]|2\d) degrees over the detector, not by 1\.8")):
        code, out, err = tessera("check", scan(name, said), ranks=ranks)
        assert code == 0 and re.search(f"warning: .*{why}" if why else "scan ", out + err), (name, said, out, err)
        assert why or not re.search("opposite sides are|mirror images", out + err), (name, out, err)
    # One whole turn of a parallel beam is none of these, also where it drifts.
    theta, y = sinogram(120, 1, 96, 2.0, turn=360.0)
    drifts = np.stack([np.interp(np.arange(96) - 3 * k / 120, np.arange(96), line) for k, line in enumerate(y[:, 0])])[:, None]
    for name, each in (("still", y), ("drifts", drifts)):
        dxchange(f"{name}.h5", *counts(each), theta)
        assert "opposite sides" not in said_by("check", scan(f"{name}.h5"), "scan ")
