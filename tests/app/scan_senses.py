# SPDX-License-Identifier: BSD-3-Clause
"""What samples of a scan say against its job: how far and which way views turn, how the beam opens; what is no view."""
import re

from harness import distance, image, np, tessera, work
from scans import ELLIPSES, counts, dxchange, into, said_by, scan, sinogram


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


def scan_strays():
    """Specks and dead columns of line integrals, views of no object, views that return, light that jumps: each said; none of them where it is right."""
    random = np.random.default_rng(3)
    theta, y = sinogram(120, 1, 96, 2.0)
    lines = y[:, 0] + random.normal(0, 0.01, (120, 96))
    stray, dead, wires, every = lines.copy(), lines.copy(), lines.copy(), "views: {count: 120}, values: line_integrals, detector: {axis: 2}"
    at = random.permutation(lines.size)[:40]
    stray.flat[at] += np.where(np.arange(40) % 2, 4, -1.5)
    dead[:, 40], dead[:, 61:63] = 0, 7
    for by, phase in ((30, 0.2), (12, 2.0), (21, 4.0)):
        on = 49.5 + by * np.cos(np.deg2rad(theta) + phase)
        wires += 1.5 * np.maximum(0, 1 - abs(np.arange(96) - on[:, None]))
    rest = ("denoiser: {network: none}\nsolver: {name: sirt, iterations: 30}", "  noise: {gaussian: 0.02}\n")
    for name, array, why in (("lines", lines, None), ("wires", wires, None), ("stray", stray, r"(\d+) samples stand far off their neighbors in one view alone"),
                             ("dead", dead, r"(\d+) samples are in columns that never change")):
        np.save(work / f"{name}.npy", array.astype(np.float32))
        for ranks in (1, 3) if why else (1,):
            said = into(scan(f"{name}.npy", every, rest[1], "look.yaml", rest[0]), f"{name}-{ranks}", ranks)
            found = re.search(why or "samples stand far off|columns that never change|object moves", said)
            assert bool(found) == bool(why), (name, said)
            assert not why or (33 <= int(found.group(1)) <= 44 if name == "stray" else int(found.group(1)) == 360), (name, found)
            assert distance(image(f"{name}-{ranks}"), image(f"{name}-1")) < 1e-5
        if why:
            off = distance(image(f"{name}-1"), image("lines-1"))
            assert off < 0.1, (name, off)

    # Flats among the views; a scan that goes back at its end; right ones beside them.
    views, flats, darks = counts(y)
    back = counts(np.concatenate([y, y[[60, 0]]]))[0]
    for name, frames, angles, said, why in (
            ("mixed", np.concatenate([views, flats]), None, "views: {count: 125}", "5 of 125 views show no object"), ("back", back, None, "views: {count: 122}", r"the last 2 views are like (59|60|61) and [01] \(counted from 0\), at other angles"),
            ("named", back, np.append(theta, (90, 0)), "", None), ("plain", views, theta, "", None)):
        dxchange(f"{name}.h5", frames, flats, darks, angles)
        out = said_by("check", scan(f"{name}.h5", said), f"warning: {why}" if why else "scan ")
        assert why or not re.search("no object|counted from 0", out), (name, out)
    dxchange("pi.h5", views, flats, darks, np.deg2rad(theta), "degrees")
    said_by("check", scan("pi.h5"), "views.unit is auto .*their attribute says degrees", 2)
    said_by("check", scan("pi.h5", "views: {unit: radians}"), "from 0 to 178.5 degrees")

    # An object wider than the detector under a beam that jumps, and under one that does not.
    wide = sinogram(120, 1, 224, 0)[1][:, :, 64:160] * 0.4
    for name, light, why in (("dip", np.where(np.arange(120) // 15 == 3, 0.7, 1), r"2 views differ from the one before by up to 0\.3\d in all columns alike, the first of them view 45"), ("steady", np.ones(120), None)):
        frames = random.poisson(20000 * light[:, None, None] * np.exp(-wide)).astype(np.uint16)
        dxchange(f"{name}.h5", frames, random.poisson(20000 * np.ones((6, 1, 96))).astype(np.uint16), np.zeros((2, 1, 96), np.uint16), np.arange(120) * 1.5)
        out = said_by("check", scan(f"{name}.h5"), f"warning: {why}" if why else "scan ")
        assert why or "in all columns alike" not in out, out

    # A slab, whose ends are those of no background; a detector that already stands aside by a part.
    tilts = np.arange(-60, 61, 2.0)
    slab = 0.4 / np.cos(np.deg2rad(tilts))[:, None] + 0.3 * sinogram(61, 1, 96, 0, 122.0)[1][:, 0] + random.normal(0, 0.01, (61, 96))
    np.save(work / "slab.npy", slab.astype(np.float32))
    np.savetxt(work / "tilts.txt", tilts)
    assert "background" not in said_by("check", scan("slab.npy", "views: {file: tilts.txt}"), "wider than the detector")
    dxchange("aside.h5", *counts(fan(120, 96, 150, 300)[:, :, 12:]), np.arange(120) * 3.0)
    for shift in (0, -3):
        out = said_by("check", scan("aside.h5", f"beam: fan, source_axis: 150, source_detector: 300, detector: {{shift: {shift}}}"), r"detector: \{axis: 0, shift: (\S+)\}")
        assert abs(float(re.search(r"axis: 0, shift: (\S+)\}", out).group(1)) - 6) < 0.2, out
