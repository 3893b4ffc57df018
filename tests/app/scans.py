# SPDX-License-Identifier: BSD-3-Clause
"""Scans as instruments write them: DXchange, NXtomo, arrays; counts, the axis, parts of a scan."""
import re

import h5py
import yaml
from harness import distance, image, job, np, pictures, run, same, tessera, work

RANKS = (2, 3, 4, 5, 7)
ELLIPSES = ((0.02, 0.0, 0.62, 0.5, 0.3, 1.0), (0.2, 0.15, 0.2, 0.1, 0.8, 0.8), (-0.25, 0.1, 0.1, 0.15, 0.0, -0.7),
            (0.1, -0.25, 0.12, 0.06, -0.4, 1.2), (-0.1, -0.05, 0.05, 0.05, 0.0, 1.5))


def sinogram(views, rows, columns, off, turn=180.0, density=0.03):
    """Line integrals (views, rows, columns) of ellipses that shrink from row to row, the axis `off` columns right of the middle."""
    angles = np.arange(views) * turn / views
    s = np.arange(columns) - (columns - 1) / 2 - off
    out = np.zeros((views, rows, columns))
    for row in range(rows):
        size = columns / 2 * (1 - 0.06 * row)
        for x, y, a, b, tilt, value in ELLIPSES:
            t = np.deg2rad(angles)[:, None]
            square = (a * size) ** 2 * np.cos(t + tilt) ** 2 + (b * size) ** 2 * np.sin(t + tilt) ** 2
            off_center = s - size * (x * np.cos(t) - y * np.sin(t))
            chord = np.sqrt(np.maximum(square - off_center ** 2, 0)) / square
            out[:, row] += density * value * 2 * a * b * size ** 2 * chord
    return angles, out


def counts(y, light=20000.0, dark=100.0, seed=1):
    """uint16 views, flats (5) and darks (4) of a detector whose columns differ."""
    random = np.random.default_rng(seed)
    gain = 1 + 0.2 * random.random(y.shape[1:])
    take = lambda mean: random.poisson(mean).astype(np.uint16)
    return (take(dark + light * gain * np.exp(-y)), take(np.broadcast_to(dark + light * gain, (5, *gain.shape))),
            take(np.full((4, *gain.shape), dark)))


def dxchange(name, views, flats, darks, theta=None, units="degrees"):
    with h5py.File(work / name, "w") as f:
        f["exchange/data"], f["exchange/data_white"], f["exchange/data_dark"] = views, flats, darks
        f["exchange/data"].attrs["axes"] = "theta:y:x"
        if theta is not None:
            f["exchange/theta"] = theta
            f["exchange/theta"].attrs["units"] = units


def nxtomo(name, views, flats, darks, theta, units="degree"):
    """Flats before and after, darks first, two views once more at the end, which image_key_control knows."""
    order = [(d, 2, 2, 0) for d in darks] + [(w, 1, 1, 0) for w in flats[:2]] + [(v, 0, 0, t) for v, t in zip(views, theta)]
    order += [(w, 1, 1, theta[-1]) for w in flats[2:]] + [(views[0], 0, -1, 0), (views[5], 0, -1, theta[5])]
    with h5py.File(work / name, "w", libver=("earliest", "v110")) as f:
        entry = f.create_group("entry")
        entry.attrs["NX_class"], entry.attrs["default"] = "NXentry", "data"
        f.attrs["default"] = "entry"
        detector = entry.create_group("instrument/detector")
        detector.create_dataset("data", data=np.stack([o[0] for o in order]), chunks=(1, *views.shape[1:]), compression="gzip")
        detector["image_key"], detector["image_key_control"] = [o[1] for o in order], [o[2] for o in order]
        entry["sample/rotation_angle"] = np.array([o[3] for o in order], float)
        entry["sample/rotation_angle"].attrs["units"] = units
        for name in ("data", "image_key"):
            entry[f"data/{name}"] = h5py.SoftLink(f"/entry/instrument/detector/{name}")
        entry["data/rotation_angle"] = h5py.SoftLink("/entry/sample/rotation_angle")
        entry["data"].attrs["signal"] = "data"


def scan(measurements, operator="", problem="", name="scan.yaml", rest="denoiser: {network: tv, tv: {iterations: 8}}\nsolver: {name: pgd, iterations: 6}"):
    return job(f"problem:\n  measurements: {measurements}\n  operator: {{type: tomography{', ' if operator else ''}{operator}}}\n"
               f"{problem}{rest}\noutput: {{folder: out}}\n", name=name)


def into(path, folder, ranks=1, *arguments):
    out, err = run(path, "--set", f"output.folder={folder}", "--force", *arguments, ranks=ranks)
    return out


def axis_of(folder):
    return float(re.search(r"axis: (\S+)", (work / folder / "resolved.yaml").read_text()).group(1))


def found_keys(folder):
    return yaml.safe_load((work / folder / "resolved.yaml").read_text())["problem"]["operator"]


def scan_files():
    """One scan in every form is one reconstruction; its axis is found; on any ranks."""
    off = -5.3
    theta, y = sinogram(60, 3, 64, off)
    views, flats, darks = counts(y)
    dxchange("dx.h5", views, flats, darks, theta)
    nxtomo("nx.nxs", views, flats, darks, np.deg2rad(theta), "radian")
    np.save(work / "views.npy", views)
    np.save(work / "fortran.npy", np.asfortranarray(views))
    np.save(work / "flats.npy", flats)
    np.save(work / "dark.npy", darks.mean(0))
    np.savetxt(work / "theta.txt", theta, header="angles of the views")
    with h5py.File(work / "other.h5", "w") as f:
        f["some/place"] = np.moveaxis(views, 0, 1)
        f["some/place"].attrs["axes"] = "y:theta:x"
        f["some/angles"] = np.deg2rad(theta)
        f["some/angles"].attrs["units"] = "rad"
    pictures.imsave(work / "pages.tif", views)
    said = into(scan("dx.h5"), "dx")
    assert image("dx").shape == (1, 3, 64, 64) and np.isfinite(image("dx")).all()
    assert "DXchange: line integrals are -log((counts - dark) / (flat - dark)), of 5 flats and 4 darks, averaged" in said, said
    assert "leaves the range" not in said and "warning: the measurement" not in said, said
    assert abs(axis_of("dx") - off) < 0.1, axis_of("dx")
    for ranks in RANKS:
        into(scan("dx.h5"), f"dx-{ranks}", ranks)
        assert axis_of(f"dx-{ranks}") == axis_of("dx") and distance(image(f"dx-{ranks}"), image("dx")) < 1e-5, ranks
    extra = "  flat: flats.npy\n  dark: dark.npy\n"
    for name, operator, problem, most in (
            ("nx.nxs", "", "", 1e-5), ("nx.nxs:/entry/instrument/detector/data", "", "", 1e-5),
            ("nx.nxs:/entry/data/data", "", "", 1e-5),
            ("views.npy", "views: {file: theta.txt}", extra, 0), ("fortran.npy", "views: {count: 60}", extra, 1e-6),
            ("pages.tif", "views: {count: 60}", extra, 1e-6),
            ("views.npy", "views: {last: 180}", "  flat: dx.h5:/exchange/data_white\n  dark: dx.h5:/exchange/data_dark\n", 1e-6),
            ("other.h5:/some/place", "", extra, 1e-5), ("views.npy", "views: {file: other.h5:/some/angles}", extra, 1e-5)):
        into(scan(name, operator, problem), "form", 2)
        assert distance(image("form"), image("dx-2")) <= most, (name, operator, distance(image("form"), image("dx-2")))

    # What the run wrote down gives the same run, and nothing but the file and where results go need be said.
    run("dx/resolved.yaml", "--set", f"output.folder={work / 'again'}")
    same("again", "dx")
    run(scan("dx.h5", "detector: {rows: 1}", rest=""), "--set", "output.folder=short", "--set", "solver.iterations=2")
    assert image("short").shape[-2:] == (64, 64)
    sinogram_shown = pictures.imread(work / "dx/measurement.png")
    assert sinogram_shown.shape[:2] == (60, 64) and sinogram_shown.max() == 255 and 5 < sinogram_shown.mean() < 200
    assert pictures.imread(work / "dx/residual.png").shape[:2] == (60, 64) and (work / "dx/geometry.png").exists()


def scan_parts():
    """Rows and every n-th view of a scan are the scan that has nothing else."""
    theta, y = sinogram(90, 5, 48, 2.2, turn=360.0)
    views, flats, darks = counts(y)
    dxchange("all.h5", views, flats, darks, theta)
    dxchange("row.h5", views[::3, 3:4], flats[:, 3:4], darks[:, 3:4], theta[::3])
    dxchange("rows.h5", views[:, 1:4], flats[:, 1:4], darks[:, 1:4], theta)
    dxchange("flat.h5", views[::3, 3], flats[:, 3], darks[:, 3], theta[::3])  # of one row: (views, columns)
    for ranks in (1, 3):
        into(scan("all.h5", "views: {every: 3}, detector: {first_row: 3, rows: 1}"), "part", ranks)
        assert image("part").shape == (1, 48, 48)
        for name in ("row.h5", "flat.h5"):
            into(scan(name), "whole", ranks)
            same("part", "whole")
        into(scan("all.h5", "detector: {first_row: 1, rows: 3, axis: 2.2}"), "part", ranks)
        into(scan("rows.h5", "detector: {axis: 2.2}"), "whole", ranks)
        same("part", "whole")
    # Line integrals: (views, columns), (views, 1, columns), and what simulate writes, without a word on columns.
    np.save(work / "two.npy", y[:, 2].astype(np.float32))
    np.save(work / "three.npy", y[:, 2:3].astype(np.float32))
    for name in ("two", "three"):
        said = into(scan(f"{name}.npy", "views: {last: 360}"), name)
        assert image(name).shape == (1, 48, 48) and "leaves the range" not in said and "smallest value" not in said, said
    same("two", "three")
    assert abs(axis_of("two") - 2.2) < 0.1, axis_of("two")
    # A fan's, with 0 where nothing is known; of a source so far away these are a fan's, whose rays are seen from both sides.
    fan = "beam: fan, source_axis: 20000, source_detector: 20100, voxel: 1, "
    said = into(scan("two.npy", fan + "views: {last: 100}"), "fan")
    assert "taken to be in the middle" in said and axis_of("fan") == 0, said
    said = into(scan("two.npy", fan + "views: {last: 360}"), "fan")
    assert "by rays from both sides, to about 0.0" in said and abs(axis_of("fan") - 2.2) < 0.1, said
    # Views that stand aside are found by reprojection, and go on from resolved.yaml as they are.
    aside = np.round(1.5 * np.sin(2.4 * np.arange(len(y)) ** 2))
    shaken = np.stack([np.roll(view, -int(by)) for view, by in zip(y[:, 2], aside)])
    np.save(work / "shaken.npy", shaken.astype(np.float32))
    turns = np.stack([f(np.arange(len(y)) * 2 * np.pi / len(y)) for f in (np.ones_like, np.cos, np.sin)], 1)
    for kind in ("", fan):
        shaken_job = scan("shaken.npy", kind + "align: shifts, views: {last: 360}, detector: {axis: 2.2}")
        said = into(shaken_job, "found")
        off = np.array(found_keys("found")["views"]["shifts"]) - aside
        off -= turns @ np.linalg.lstsq(turns, off, rcond=None)[0]
        assert "found by reprojection" in said and np.sqrt(np.mean(off ** 2)) < 0.15, (kind, off)
        into(shaken_job, "part", 3)
        assert found_keys("part")["views"]["shifts"] == found_keys("found")["views"]["shifts"] and distance(image("part"), image("found")) < 1e-5
    run(work / "found/resolved.yaml", "--set", f"output.folder={work / 'again'}")
    assert distance(image("again"), image("found")) < 1e-6


def scan_turned():
    """How a cone's detector is turned is found in its frames, on any ranks; what has no such rays is refused, and so is a fan."""
    c, s, radius = np.cos(np.deg2rad(2.4)), np.sin(np.deg2rad(2.4)), np.array([26, 8, 6, 4, 5])
    balls = np.array([(0, 0, 0), (-12, 8, 9), (13, -8, -12), (3, 15, 2), (-6, -14, -4)])
    u, v, y = 1.3 * (np.arange(72) - 35.5), 1.3 * (np.arange(56) - 27.5)[:, None], []
    for t in np.deg2rad(6.0 * np.arange(60)):
        across, toward = np.array([np.cos(t), -np.sin(t), 0]), np.array([np.sin(t), np.cos(t), 0])
        way = (c * u - s * v)[..., None] * across + (s * u + c * v)[..., None] * np.array([0, 0, 1]) - 250 * toward
        off = balls - 150 * toward
        rest = 1 - ((off ** 2).sum(-1) - (way @ off.T) ** 2 / (way ** 2).sum(-1)[..., None]) / radius ** 2
        y.append((16 / 15 * radius * np.maximum(rest, 0) ** 2.5).sum(-1))
    np.save(work / "cone.npy", (np.array(y) + np.random.default_rng(1).normal(0, 0.05, (60, 56, 72))).astype(np.float32))
    cone = "beam: cone, source_axis: 150, source_detector: 250, views: {last: 360}, values: line_integrals, "
    for ranks in (1, 2, 3):
        said = into(scan("cone.npy", cone + "detector: {pitch: 1.3}, align: both", rest="solver: {name: fbp}"), f"turned-{ranks}", ranks)
        assert "by rays from opposite sides: detector.rotation" in said and abs(found_keys("turned-1")["detector"]["rotation"] - 2.4) < 0.15, said
        assert "found by rays from both sides" in said and np.std(found_keys("turned-1")["views"]["shifts"]) < 0.1, found_keys("turned-1")
        assert found_keys(f"turned-{ranks}") == found_keys("turned-1") and distance(image(f"turned-{ranks}"), image("turned-1")) < 1e-5
    for words, why in ((cone + "lean: 30, align: rotation", "align asks for a rotation (lean is 30"), (cone.replace("cone", "fan") + "align: both", "align is both (a fan's rows"),
                       (cone + "helix: 9, align: shifts", "align asks for shifts (helix is 9")):
        code, out, err = tessera("check", scan("cone.npy", words))
        assert code == 2 and why in err, (words, err)


def scan_counts():
    """Dead columns, counts without signal and NaN say nothing; counts weigh; half the light is the same image."""
    theta, y = sinogram(72, 1, 56, 0.0)
    views, flats, darks = counts(y[:, :1], light=3000)
    clean = scan("clean.h5", "detector: {axis: 0}")
    dxchange("clean.h5", views, flats, darks, theta)
    said = into(clean, "clean")
    assert "the counts say how samples compare" in said and "say nothing" not in said, said
    bad = views.astype(np.float32)
    flats_bad = flats.astype(np.float32)
    flats_bad[:, 0, 20] = darks[:, 0, 20].mean() - 1  # a column without light
    bad[7, 0, 11] = np.nan
    bad[8, 0, 30:33] = 50  # below the dark
    dxchange("bad.h5", bad, flats_bad, darks, theta)
    out = {}
    for ranks in (1, 2, 5):
        said = into(scan("bad.h5", "detector: {axis: 0}"), f"bad-{ranks}", ranks)
        dead = 72 + 1 + 3
        assert f"{dead} of {72 * 56} samples say nothing" in said, said
        out[ranks] = image(f"bad-{ranks}")
        assert np.isfinite(out[ranks]).all()
        assert distance(out[ranks], out[1]) < 1e-5
    assert distance(out[1], image("clean")) < 0.1, distance(out[1], image("clean"))
    # A share of the beam: flats of 1 and darks of 0 need not be written.
    np.save(work / "share.npy", np.exp(-y[:, 0]).astype(np.float32))
    np.save(work / "line.npy", y[:, 0].astype(np.float32))
    into(scan("share.npy", "views: {count: 72}, values: transmission, detector: {axis: 0}", "  noise: {gaussian: 0.02}\n"), "share")
    into(scan("line.npy", "views: {count: 72}, detector: {axis: 0}", "  noise: {gaussian: 0.02}\n"), "line")
    assert distance(image("share"), image("line")) < 0.2


def scan_mistakes():
    """What does not fit, by the key that is wrong."""
    theta, y = sinogram(24, 2, 40, 1.0)
    views, flats, darks = counts(y)
    dxchange("dx.h5", views, flats, darks, theta)
    dxchange("mute.h5", views, flats, darks)
    dxchange("short.h5", views, flats, darks, theta[:-1])
    dxchange("small.h5", views, flats[:, :, :-1], darks, theta)
    np.save(work / "counts.npy", views)
    np.save(work / "line.npy", y.astype(np.float32))
    np.save(work / "turned.npy", np.moveaxis(y, 0, 1).astype(np.float32))
    np.save(work / "radians.npy", np.deg2rad(theta))
    np.save(work / "list.npy", theta)
    (work / "words.txt").write_text("0 1 two 3\n")
    with h5py.File(work / "two.nxs", "w") as f:
        for k in range(2):
            f[f"entry{k}/instrument/detector/data"] = views
            f[f"entry{k}/instrument/detector/image_key"] = np.zeros(24, int)
            f[f"entry{k}/sample/rotation_angle"] = theta
    count = "views: {count: 24}"
    cases = (
        ("mute.h5", "", "", "problem.operator.views is missing"), ("short.h5", "", "", "has 23 angles"),
        ("dx.h5", "views: {count: 30}", "", "has 30 angles"), ("dx.h5", "detector: {columns: 41}", "", "detector.columns is 41"),
        ("dx.h5", "detector: {first_row: 2}", "", "detector.first_row is 2"), ("dx.h5", "detector: {rows: 3}", "", "detector.rows is 3"),
        ("dx.h5", "detector: {first_row: 1, rows: 2}", "", "write 1 at most"),
        ("dx.h5", "detector: {axis: 20}", "", "detector.axis is 20"), ("small.h5", "", "", "flats of 2 x 39"),
        ("dx.h5", "beam: cone, source_axis: 100, source_detector: 150, detector: {rows: 1}", "", "leaves out rows"),
        ("dx.h5", "beam: fan, source_axis: 20, source_detector: 50, voxel: 1", "", "source_axis is 20"),
        ("dx.h5", "voxel: 1000", "", "voxel is 1000 beside a detector.pitch of 1"), ("dx.h5", "voxel: 1.0e-30", "", "voxel is 1e-30"),
        ("dx.h5", "detector: {shift: 5}", "", "detector.shift acts on nothing"),
        ("dx.h5", "beam: cone, source_axis: 1000, source_detector: 1001", "", "the detector would stand inside of it"),
        ("counts.npy", count, "", "values is auto"), ("counts.npy", count + ", values: transmission", "", "problem.flat is missing"),
        ("line.npy", count, "  dark: line.npy\n", "problem.dark is given"), ("turned.npy", count, "", "write it with the views first"),
        ("line.npy", "views: {file: radians.npy}", "", "views.unit is auto"), ("line.npy", "views: {file: words.txt}", "", "has two"),
        ("line.npy", "views: {file: list.npy, count: 24}", "", "views.file is written beside count"),
        ("line.npy", "views: {first: 5, last: 5}", "", "views.last is 5"),
        ("two.nxs", "", "", "holds 2 scans"), ("dx.h5", "", "  likelihood: {type: poisson}\n", "likelihood.type is poisson"),
        ("dx.h5", "", "  image: {size: [40, 40]}\n", "detector.rows is 2"),
        ("dx.h5", "detector: {rows: 1}", "  image: {size: [3, 40, 40]}\n", "one row is of a picture"))
    for name, operator, problem, reason in cases:
        path = scan(name, operator, problem)
        for command, ranks in (("check", 1), ("run", 2)):
            code, out, err = tessera(command, path, ranks=ranks)
            assert code == 2 and reason in err and err.count("tessera:") == 1, (name, operator, code, out, err)
            assert re.search(r"\(.*\)", err), err
        assert not (work / "out").exists()
    for operator in ("detector: {first_row: 1}", "values: transmission"):
        np.save(work / "truth.npy", np.ones((1, 20, 20), np.float32))
        code, _, err = tessera("check", job(f"problem: {{truth: truth.npy, operator: {{type: tomography, views: {{count: 9}}, {operator}}}, "
                                            "noise: {gaussian: 0.1}}\noutput: {folder: out}\n"))
        assert code == 2 and "acts on nothing" in err, err


def scan_in_words():
    """What check says of a scan."""
    theta, y = sinogram(24, 2, 40, 4.0)
    dxchange("dx.h5", *counts(y), theta)
    code, out, err = tessera("check", scan("dx.h5"))
    assert code == 0, err
    assert "scan         parallel beam, 24 views from 0 to 172.5 degrees, detector of 2 x 40 of pitch 1\n" in out, out
    column, off = map(float, re.search(r"the axis of rotation is at column (\S+), (\S+) right of the middle", out).groups())
    assert abs(off - 4) < 0.2 and abs(column - off - 19.5) < 1e-9, out
    radius, outside = re.search(r"a disk of radius (\S+) around the axis and a height of 2 there .*about (\d+) %", out).groups()
    assert abs(float(radius) - 16) < 0.2 and 25 < int(outside) < 40, out
    code, out, err = tessera("check", scan("dx.h5", "beam: cone, source_axis: 100, source_detector: 200"), "--picture", "scan.png")
    # The image is green amid the first panel (a line from the side), sources go all around, and the first view's detector is blue on the other side.
    drawn, (green, orange, blue) = pictures.imread(work / "scan.png").astype(int), ((168, 222, 163), (217, 94, 0), (31, 89, 191))
    at = lambda color: np.argwhere(abs(drawn[:480] - color).sum(2) < 12)
    assert drawn.shape == (544, 960, 3) and np.allclose(at(green).mean(0), 240, atol=12), at(green).mean(0)
    source, detector = (max(p[0] for p in at(c) if p[1] < 480) for c in (orange, blue))
    assert source > 400 > 100 > min(p[0] for p in at(blue)) and detector < source, (source, detector)
    assert code == 0 and "magnification 2: 0.5 at the axis" in out, out + err
    code, out, err = tessera("check", scan("dx.h5"), "--picture", "scan.gif")
    assert code == 2 and ".png" in err, err
    aside = "beam: fan, source_axis: 100, source_detector: 200, detector: {rows: 1, axis: %d, shift: %d}"
    code, out, err = tessera("check", scan("dx.h5", aside % (-9, 0)))
    assert code == 0 and "write 'detector: {axis: 0, shift: 9}'" in out, out + err
    code, out, err = tessera("check", scan("dx.h5", aside % (0, 9)))
    assert code == 0 and "stand aside" not in out and re.search(r"a disk of radius 10.\d* around", out), out + err
    run(scan("dx.h5", "detector: {rows: 1, pitch: 0.5}", "  image: {unit: mm}\n"), "--set", "output.folder=mm")
    with h5py.File(work / "mm/reconstruction.h5") as f:
        assert "mm" in repr({**f["image"].attrs, **f.attrs}), dict(f["image"].attrs)
    code, out, err = tessera("check", scan("dx.h5", "detector: {rows: 1, axis: 0}"), "--ranks", 4)
    assert code == 0 and "a disk of radius 20 around the axis (voxels)" in out and re.search(r"about (1[5-9]|2\d) % of the pixels", out), out + err


def said_by(command, path, reason, code=0):
    got, out, err = tessera(command, path)
    assert got == code and re.search(reason, out + err), (path, reason, got, out, err)
    if code:
        assert err.count("tessera:") == 1, err
    return out + err


def off_from(folder, truth):
    return distance(image(folder)[0], truth)


def scan_looks():
    """What a scan shows is looked at: values, angles, the beam, views and samples that say nothing, how wide the object is."""
    theta, y = sinogram(90, 1, 64, 2.5)
    views, flats, darks = counts(y)
    pure = ("denoiser: {network: none}\nsolver: {name: sirt, iterations: 30}", "  noise: {gaussian: 0.02}\n")
    clean = scan("clean.h5", "", pure[1], "clean.yaml", pure[0])
    dxchange("clean.h5", views, flats, darks, theta)
    said = into(clean, "clean")
    assert "left out" not in said and "zingers" not in said and "wider than" not in said and "warning: the flats" not in said, said
    clean = image("clean")[0]

    def compare(name, most, operator="", ranks=1):
        said = into(scan(name, operator, pure[1], "look.yaml", pure[0]), "look", ranks)
        off = distance(image("look")[0], clean)
        assert off < most, (name, off, said)
        return said

    # Shares of the beam that nobody has called so; angles that no view stands at, or in an unknown unit.
    np.save(work / "share.npy", np.exp(-y[:, 0]).astype(np.float32))
    said_by("check", scan("share.npy", "views: {count: 90}"), "values is auto .*values: transmission", 2)
    said_by("check", scan("share.npy", "views: {count: 90}, values: line_integrals"), "scan ")
    for name, angles, units, reason in (
            ("rad", np.deg2rad(theta), None, r"views.unit is auto .*rad.h5:/exchange/theta go from 0 to 3.1"),
            ("mrad", 1e3 * np.deg2rad(theta), "mrad", "are in mrad"), ("nan", np.full(90, np.nan), "degrees", "nan.h5:/exchange/theta holds no angle"),
            ("some", np.where(theta == 6, np.nan, theta), "degrees", "some.h5:/exchange/theta holds an angle"), ("still", 0 * theta, "degrees", "90 times the angle 0")):
        dxchange(f"{name}.h5", views, flats, darks, angles, units or "")
        for command in ("check", "run"):
            said_by(command, scan(f"{name}.h5"), reason, 2)
    said_by("check", scan("rad.h5", "views: {unit: radians}"), "from 0 to 178 degrees")
    turned = scan("mute.npy", "views: {count: 90}, detector: {axis: 2.5}")
    np.save(work / "mute.npy", np.ascontiguousarray(y[:, 0].T).astype(np.float32))
    said_by("check", turned, "has 90 angles .*its columns are as many: write it with the views first", 2)
    said_by("check", scan("mute.npy", "views: {last: 180}, values: line_integrals"), "warning: .*mute.npy looks transposed")

    # The camera stopped before the end; hung; had its shutter closed.
    stopped, hung = views.copy(), views.copy()
    stopped[75:], stopped[3] = 0, darks[0]
    hung[60:75] = hung[59]
    dxchange("stopped.h5", stopped, flats, darks, theta)
    dxchange("hung.h5", hung, flats, darks, theta)
    said = compare("stopped.h5", 0.3)
    assert "16 of 90 views show nothing" in said and "by the views' centers of mass" in said and abs(axis_of("look") - 2.5) < 0.2, said
    assert "15 of 90 views are the one before once more" in compare("hung.h5", 0.3)
    assert compare("stopped.h5", 0.3, ranks=3) and abs(axis_of("look") - 2.5) < 0.2

    # A column at the camera's largest value; one that a flat alone has there; bright specks in flats and views.
    stuck, specks, hit = views.copy(), flats.copy(), views.copy()
    full = flats.copy()
    stuck[:, 0, 20] = full[:, 0, 20] = 65535
    specks[1, 0, 25], specks[3, 0, 40] = 60000, 65535
    random = np.random.default_rng(2)
    hit[random.integers(0, 90, 20), 0, random.integers(8, 56, 20)] = random.integers(40000, 65000, 20)
    dxchange("stuck.h5", stuck, full, darks, theta)
    dxchange("specks.h5", views, specks, darks, theta)
    dxchange("hit.h5", hit, flats, darks, theta)
    assert "90 of 5760 samples say nothing (90 saturated)" in compare("stuck.h5", 0.12)
    compare("specks.h5", 0.02)
    for ranks in (1, 2):
        said = compare("hit.h5", 0.06, ranks=ranks)
        assert 17 <= int(re.search(r"(\d+) zingers", said).group(1)) <= 22, said

    # A beam that decays, which flats after the views tell; flats of another exposure; one with the shutter closed.
    decay = np.linspace(1, 0.7, 90)[:, None, None]
    random = np.random.default_rng(3)
    dim = [random.poisson(100 + v * np.ones((n, 1, 64))).astype(np.uint16) for n, v in ((2, 20000), (3, 14000))]
    weak = random.poisson(100 + 20000 * decay * np.exp(-y)).astype(np.uint16)
    nxtomo("decay.nxs", weak, np.concatenate(dim), darks, theta)
    assert "the beam changed by 4" in compare("decay.nxs", 0.12)
    shut = flats.copy()
    shut[2] = darks[0]
    dxchange("shut.h5", views, shut, darks, theta)
    assert "1 of 5 flats differ from the others" in compare("shut.h5", 0.02)
    dxchange("both.h5", weak, np.concatenate(dim), darks, theta)
    said_by("check", scan("both.h5"), "warning: the flats differ by 4")
    dxchange("other.h5", views, (1.5 * flats).astype(np.uint16), darks, theta)
    said_by("check", scan("other.h5"), "warning: both ends of all views are at 0.4")
    dxchange("first.h5", weak, dim[0], darks, theta)
    said_by("check", scan("first.h5"), "warning: the ends of the views go from 0.0.* to 0.3")

    # Light that changes from view to view; flats that are full.
    gain, random = 1 + 0.2 * np.random.default_rng(1).random(y.shape[1:]), np.random.default_rng(5)  # that of the flats
    for name, light in (("trembles.h5", 1 + 0.05 * random.normal(size=90)), ("dims.h5", np.where(np.arange(90) // 9 == 4, 0.4, 1))):
        dxchange(name, (random.poisson(20000 * gain * light[:, None, None] * np.exp(-y)) + 100).astype(np.uint16), flats, darks, theta)
        said_by("check", scan(name), r"warning: \d+ of 90 views have .* more than the others at both of their ends")
    assert "of 90 views have" not in said_by("check", scan("clean.h5"), "scan ")
    dxchange("full.h5", views, np.full_like(flats, 65535), darks, theta)
    said_by("run", scan("full.h5"), "all 5760 samples count 0", 2)

    # Flats and darks exchanged; what is no count beside flats; gains that changed since; an object that drifts, or slips.
    dxchange("exchanged.h5", views, darks[:, :, :], flats, theta)
    said_by("run", scan("exchanged.h5"), r"flats are of the beam alone .* the two are exchanged\) exchange problem.flat", 2)
    for name, floats, why in (("integrals.h5", y, "write 'values: line_integrals'"), ("shares.h5", np.exp(-y), "write 'values: transmission'")):
        dxchange(name, floats.astype(np.float32), flats, darks, theta)
        said_by("check", scan(name), f"its flats are at .*{why}", 2)
    said_by("check", scan("integrals.h5", "values: line_integrals"), "scan ")
    said = into(scan("shares.h5", "values: transmission", pure[1], "look.yaml", pure[0]), "look", 2)
    assert "flats and darks are not used" in said and off_from("look", clean) < 0.1, said
    random = np.random.default_rng(6)
    later = random.poisson(100 + 20000 * gain * (1 + 0.03 * random.normal(size=64)) * np.exp(-y)).astype(np.uint16)
    even = random.poisson(100 + 20000 * gain * np.ones((5, 1, 1))).astype(np.uint16)
    dxchange("gains.h5", later, even, darks, theta)
    random = np.random.default_rng(9)
    hard = random.poisson(100 + 20000 * gain * np.exp(-(y - 0.1 * y ** 2))).astype(np.uint16)
    dxchange("hard.h5", hard, even, darks, theta)
    bent = re.search(r"the beam hardens.*'hardening: (\[1, 0\.\d+\])'", said_by("check", scan("hard.h5"), "warning: views of one object have one mass")).group(1)
    off = [distance(image("look")[0], clean) for keys in ("", f"hardening: {bent}", "hardening: [1, 0.07, 0.04]") for said in [into(scan("hard.h5", keys, pure[1], "look.yaml", pure[0]), "look")]]
    print("hardening:", bent, np.round(off, 3))
    assert max(off[1:]) < 0.5 * off[0], off
    said_by("check", scan("hard.h5", "hardening: [0, 1]"), "begins with 0", 2)
    said_by("check", scan("gains.h5", "rings: keep"), "warning: columns of the detector differ from their neighbors alike in all views, by 0.0[234].*rings: remove")
    off = {keys: distance(image("look")[0], clean) for keys in ("rings: keep", "rings: remove", "") for said in [into(scan("gains.h5", keys, pure[1], "look.yaml", pure[0]), "look")]
           if keys or "note: columns of the detector differ" in said}
    print("rings:", {keys or "auto": round(d, 3) for keys, d in off.items()})
    assert off[""] == off["rings: remove"] < 0.7 * off["rings: keep"], off
    into(scan("gains.h5", "", pure[1], "look.yaml", pure[0]), "on-3", 3)
    assert distance(image("on-3"), image("look")) < 1e-5
    theta, small = sinogram(90, 2, 96, 0)
    for name, moved, why in (("drift.h5", 5 * np.arange(90) / 89, r"warning: the object moves by (4.[89]|5.[012]) columns"),
                             ("slip.h5", 5.0 * (np.arange(90) > 40), "warning: .*columns")):
        columns = np.arange(96)
        dxchange(name, *counts(np.array([[np.interp(columns - m, columns, line) for line in v] for m, v in zip(moved, small)])), theta)
        said_by("check", scan(name), why)
    dxchange("still.h5", *counts(small), theta)
    for name in ("still.h5", "clean.h5"):
        said = said_by("check", scan(name), "scan ")
        assert "the object moves" not in said and "a sine" not in said and "alike in all views" not in said, said

    # The minus of the logarithm forgotten; the order of names, and none; frames on their side; sinograms; an object in the flats.
    lines = np.random.default_rng(7).normal(0, 0.005, (90, 96)) + small[:, 0]
    for name, array, why in (("minus", -lines, "the line integrals are negative as a whole"), ("lines", lines, None),
                             ("names", lines[sorted(range(90), key=str)], "the views are not in the order of their angles, but as names"),
                             ("mixed", lines[np.random.default_rng(8).permutation(90)], "the views are not in the order of their angles .*put them in that order")):
        np.save(work / f"{name}.npy", array.astype(np.float32))
        said = said_by("check", scan(f"{name}.npy", "values: line_integrals, views: {count: 90}"), f"warning: {why}" if why else "scan ")
        assert why or "warning: the" not in said, said
    size = 0.4 + 0.6 * np.sin(np.pi * np.arange(48) / 47)
    stack = np.stack([[np.interp((np.arange(48) - 23.5) / z, np.arange(48) - 23.5, line, 0, 0) * z for z in size * (size > 0.41)[:] + 1e-9] for line in sinogram(48, 1, 48, 0)[1][:, 0]])
    for name, array, why in (("upright", stack, None), ("lying", stack.swapaxes(1, 2), "the axis of rotation lies along the rows"), ("sinograms", stack.swapaxes(0, 1), "sinograms.npy looks like sinograms")):
        np.save(work / f"{name}.npy", array.astype(np.float32))
        said = said_by("check", scan(f"{name}.npy", "values: line_integrals, views: {count: 48}, detector: {first_row: 20, rows: 1}"), f"warning: .*{why}" if why else "scan ")
        assert why or "lies along" not in said and "sinograms" not in said, said
    shaded = flats * np.where(np.arange(64) > 50, 0.8, 1)
    dxchange("shaded.h5", views, shaded.astype(np.uint16), darks, theta)
    said_by("check", scan("shaded.h5"), "warning: one end of all views is at -0.2.* the object stood in them")

    # Wider than the detector; over a turn about an axis near its end; slices whose axis leans.
    theta, wide = sinogram(90, 1, 128, 0)
    dxchange("wide.h5", *counts(wide[:, :, 36:92]), theta)
    size = int(re.search(r"wider than the detector .*image: \{size: \[(\d+), ", said_by("check", scan("wide.h5"), "wider")).group(1))
    assert 76 <= size <= 120, size
    assert "wider" not in said_by("check", scan("wide.h5", "", "  image: {size: [%d, %d]}\n" % (size, size)), "scan")
    theta, whole = sinogram(180, 1, 120, 0, turn=360.0)
    dxchange("half.h5", *counts(whole[:, :, 48:], seed=4), theta)
    for rest in ("solver: {name: fbp}", pure[0]):
        said = into(scan("half.h5", "", pure[1], "look.yaml", rest), "half", 2)
        assert abs(axis_of("half") + 24) < 0.3 and "half a turn apart" in said, said
        side = image("half").shape[-1]
        assert 74 <= side <= 100, side
        middle = image("half")[0, side // 2 - 8:side // 2 + 8, side // 2 - 32:side // 2 - 26]
        assert abs(middle.mean() / 0.03 - 1) < 0.05, middle.mean()
    tilted = np.concatenate([sinogram(60, 1, 64, 0.15 * (row - 12))[1] for row in range(24)], axis=1)
    dxchange("tilted.h5", *counts(tilted), np.arange(60) * 3.0)
    turn = re.search(r"the axis of rotation leans: .*'rotation: (8\.\d+)'", said_by("check", scan("tilted.h5"), "warning: the axis of rotation leans")).group(1)
    assert "leans" not in said_by("check", scan("tilted.h5", f"detector: {{rotation: {turn}}}"), "scan ")
