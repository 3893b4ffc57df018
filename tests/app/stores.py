# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of formats that instruments write: results in them, `tessera convert` and `tessera info`."""
import json
import re
import shutil

import h5py
import numpy as np

from harness import job, run, tessera, work

TV = "denoiser: {network: tv, tv: {iterations: 5}}\n"


def store(name, array, scale, unit="micrometer", channels=None):
    """OME-Zarr 0.4, one level in one chunk, by hand."""
    axes = ["c", "z", "y", "x"][4 - array.ndim:]
    folder = work / name / "0"
    folder.mkdir(parents=True)
    (work / name / ".zgroup").write_text('{"zarr_format": 2}')
    kind = {"c": "channel"}
    meta = {"multiscales": [{"version": "0.4", "axes": [
        {"name": a, "type": kind.get(a, "space"), **({} if a == "c" else {"unit": unit})} for a in axes],
        "datasets": [{"path": "0", "coordinateTransformations": [
            {"type": "scale", "scale": [1 if a == "c" else scale[a] for a in axes]},
            {"type": "translation", "translation": [0 if a == "c" else 10 * scale[a] for a in axes]}]}]}]}
    if channels:
        meta["omero"] = {"channels": [{"label": c} for c in channels]}
    (work / name / ".zattrs").write_text(json.dumps(meta))
    (folder / ".zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": array.shape, "chunks": array.shape, "dtype": array.dtype.str, "compressor": None,
        "fill_value": 0, "order": "C", "filters": None, "dimension_separator": "/"}))
    place = folder.joinpath(*["0"] * array.ndim)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(array.tobytes())


def microscope(shape, top=4000):
    z, y, x = np.mgrid[:shape[0], :shape[1], :shape[2]]
    return (top / 2 + top / 3 * np.sin(x / 5) * np.cos(y / 7) + 3 * z).astype(np.uint16)


def results_in_stores():
    """The result once more as OME-Zarr, on one and two ranks, with the scales and places of the data."""
    stack = microscope((6, 40, 56))
    store("cell.ome.zarr", stack, {"z": 2, "y": 0.5, "x": 0.5})
    text = ("problem:\n  measurements: cell.ome.zarr\n  noise: {gaussian: 0.02}\n" + TV +
            "solver: {name: hqs, iterations: 2}\noutput: {folder: out, preview: none, also: cell.ome.zarr}\n")
    assert "pixels       2 x 0.5 x 0.5 \u00b5m\n" in tessera("check", job(text))[1]
    said = "".join(run(job(text), "--force"))
    assert "results in" in said and ": reconstruction.h5, cell.ome.zarr" in said, said
    first = {p.relative_to(work / "out"): p.read_bytes() for p in (work / "out/cell.ome.zarr").rglob("*") if p.is_file()}
    assert any(p.name == "zarr.json" for p in first), first.keys()
    with h5py.File(work / "out/reconstruction.h5") as f:
        wanted, units = f["image"][0], dict(f["image"].attrs)
        assert units["pixel_0"] == 2 and units["unit"] == "\u00b5m" and f["metadata"].attrs["translation"] == "20 5 5"
    assert tessera("convert", "out/cell.ome.zarr", "again.h5")[0] == 0
    with h5py.File(work / "again.h5") as f:
        assert np.array_equal(f["image"][0], wanted)
        assert {k: v for k, v in f["image"].attrs.items()} == units, (dict(f["image"].attrs), units)
        assert f["metadata"].attrs["translation"] == "20 5 5"
    run(job(text), "--force", "--set", "output.zarr=0.4", ranks=2)
    assert (work / "out/cell.ome.zarr/.zattrs").exists() and not (work / "out/cell.ome.zarr/zarr.json").exists()
    code, said, err = tessera("compare", "again.h5", "out/cell.ome.zarr")
    assert code == 0 and float(re.search(r"PSNR (\S+)", said).group(1)) > 90, said + err
    code, _, err = tessera("run", job(text), "--force", "--set", "output.also=cell.png")
    assert code == 2 and "output.also is cell.png (it must be the plain name of another .tif" in err, err


def files_converted():
    """Type, sizes, names and places go along; parts lie where they lay; what does not fit is said."""
    stack = np.stack([microscope((3, 30, 41)), microscope((3, 30, 41), 900)])
    store("two.zarr", stack, {"z": 3, "y": 0.25, "x": 0.25}, channels=["DAPI", "GFP"])
    for ranks in (1, 2):
        code, said, err = tessera("convert", "two.zarr", "two.ome.zarr", "--force", ranks=ranks)
        assert code == 0 and "two.ome.zarr: 2 channels, 3 x 30 x 41, uint16" in said, said + err
        assert tessera("convert", "two.ome.zarr", "two.h5", "--force", ranks=ranks)[0] == 0
        with h5py.File(work / "two.h5") as f:
            assert np.array_equal(f["image"][:], stack) and list(f["image"].attrs["channel_names"]) == ["DAPI", "GFP"]
            assert f["metadata"].attrs["translation"] == "30 2.5 2.5"
        code, said, err = tessera("convert", "two.zarr:/c1", "part.tif", "--region", "1:3,5:25,:40", "--force", ranks=ranks)
        assert code == 0 and "1 channel, 2 x 20 x 40, uint16" in said, said + err
        assert tessera("convert", "part.tif:/all", "part.h5", "--force")[0] == 0
        with h5py.File(work / "part.h5") as f:
            assert np.array_equal(f["image"][0], stack[1, 1:3, 5:25, :40]) and f["image"].attrs["pixel_0"] == 3
            assert f["metadata"].attrs["translation"] == "33 3.75 2.5", "one slice of 3 and five rows of 0.25 further"
    np.save(work / "wide.npy", np.arange(12, dtype=np.float64).reshape(3, 4) * (1 + 1e-12))
    code, said, _ = tessera("convert", "wide.npy", "wide.tif")
    assert code == 0 and "note: wide.npy is float64, wide.tif holds it as float32, rounded to 24 bits" in said, said
    for arguments, words in (
            (("two.zarr", "no.png"), "2 channels (a picture is gray or RGB)"),
            (("wide.npy", "wide.tif"), "wide.tif exists (convert never overwrites)"),
            (("wide.npy", "no.png"), "wide.npy holds float64 (PNG has 8 and 16 bits without sign"),
            (("wide.npy", "no.tif", "--zarr", "0.4"), "--zarr is 0.4 (no.tif is TIFF)"),
            (("wide.npy", "no.tif", "--region", "0:9,0:2"), "0:9 is no part of 0:3"),
            (("wide.npy", "no.tif", "--region", "0:2"), "1 ranges"),
            (("wide.npy", "no.tif", "--region", "a:2,0:1"), "a:2 is no range"),
            (("none.zarr", "no.tif"), "cannot read none.zarr")):
        code, _, err = tessera("convert", *arguments, ranks=2 if arguments[0] == "two.zarr" else 1)
        assert code == 2 and words in err and not (work / "no.tif").exists(), (arguments, err)


def files_described():
    """`tessera info FILE` of one image and of several, with the keys that open the parts."""
    store("two.zarr", np.stack([microscope((3, 30, 41)), microscope((3, 30, 41), 900)]), {"z": 3, "y": 0.25, "x": 0.25},
          channels=["DAPI", "GFP"])
    code, said, err = tessera("info", "two.zarr")
    for words in (r"file +two.zarr, OME-Zarr, \d", r"image +2 channels, 3 slices of 30 x 41, uint16",
                  r"pixels +z 3 \u00b5m, y 0.25 \u00b5m, x 0.25 \u00b5m", r"channels +DAPI, GFP",
                  r"packed +not packed, chunks of \(2, 3, 30, 41\)", r"range +\d+ to \d+, mean \d+",
                  r"text +translation: 30 2.5 2.5", r"parts +two.zarr:/0  \(2, 3, 30, 41\), uint16"):
        assert code == 0 and re.search(words, said), (words, said + err)
    np.save(work / "ramp.npy", np.tile(np.arange(64, dtype=np.float32), (64, 1)))
    code, said, _ = tessera("info", "ramp.npy", "--picture", "text")
    drawn = said.splitlines()[-5]
    assert code == 0 and drawn.startswith("  ") and drawn.rstrip().endswith("@"), said
    with h5py.File(work / "many.h5", "w") as f:
        f.create_dataset("a/b", data=np.full((4, 5), np.nan, np.float32), chunks=(2, 5), compression="gzip")
        f["c"] = np.zeros((3, 4, 5), np.uint8)
    code, said, err = tessera("info", "many.h5")
    assert code == 0 and "many.h5:/a/b  (4, 5)" in said and "many.h5:/c  (3, 4, 5)" in said and "shown" in said, said + err
    assert "no value is a number" in tessera("info", "many.h5:/a/b")[1]
    assert "chunks of (2, 5), deflate" in tessera("info", "many.h5:/a/b")[1]
    code, _, err = tessera("info", "none.tif")
    assert code == 2 and "none.tif" in err, err


def plates():
    """A plate is described by its fields and refused as a whole; its table is a sweep, each row of which runs."""
    import csv
    stack = microscope((2, 24, 40))
    wells = ("A/1", "A/2", "B/2")
    for k, well in enumerate(wells):
        for field in ("0", "1"):
            store(f"plate.ome.zarr/{well}/{field}", stack + 50 * k, {"z": 2, "y": 0.5, "x": 0.5})
        (work / "plate.ome.zarr" / well / ".zgroup").write_text('{"zarr_format": 2}')
        (work / "plate.ome.zarr" / well / ".zattrs").write_text(json.dumps({"well": {"images": [{"path": "0"}, {"path": "1"}], "version": "0.4"}}))
    plate = {"name": "drugs", "rows": [{"name": n} for n in "AB"], "columns": [{"name": n} for n in "12"], "version": "0.4",
             "wells": [{"path": w, "rowIndex": "AB".index(w[0]), "columnIndex": int(w[2]) - 1} for w in wells]}
    (work / "plate.ome.zarr/.zattrs").write_text(json.dumps({"plate": plate}))
    for folder in ("", "/A", "/B"):
        (work / f"plate.ome.zarr{folder}/.zgroup").write_text('{"zarr_format": 2}')
    out = tessera("info", "plate.ome.zarr", "--picture", "none")[1]
    assert "plate 'drugs' of 2 rows and 2 columns with 3 wells and 6 fields" in out, out
    assert re.search(r"plate.ome.zarr:/A/1/0  well A1, field 0, \(2, 24, 40\), uint16", out) and "/B/2/1  well B2, field 1" in out, out
    text = "problem:\n  measurements: plate.ome.zarr\n  noise: {gaussian: 0.02}\n" + TV + "solver: {name: hqs, iterations: 1}\noutput: {folder: out, preview: none}\n"
    for ranks in (1, 2):
        code, out, err = tessera("run", job(text), "--force", ranks=ranks)
        assert code == 2 and "name a field: " in err and ":/A/1/0" in err and "--table problem.measurements" in err, err
    assert "is a well of 2 fields" in tessera("run", job(text.replace("plate.ome.zarr", "plate.ome.zarr:/A/2")))[2]
    code, table, _ = tessera("info", "plate.ome.zarr", "--table", "problem.measurements")
    rows = list(csv.reader(table.splitlines()))
    assert code == 0 and rows[0] == ["problem.measurements"] and len(rows) == 7, table
    run(job(text), "--force", "--set", f"problem.measurements={rows[6][0]}")
    assert tessera("info", "plate.ome.zarr:/A/1/0", "--table", "problem.measurements")[0] == 2
    plate["wells"][0]["path"] = "../x"
    (work / "plate.ome.zarr/.zattrs").write_text(json.dumps({"plate": plate}))
    assert "names the path '../x'" in tessera("info", "plate.ome.zarr")[2]


def scans_of_microscopes():
    """.txrm: views, angles and the reference of a compound file, in any order of sectors; damaged ones end in a message."""
    import compound
    r = np.random.default_rng(3)
    views, angles = 110, np.linspace(0, 180, 110, endpoint=False)
    disk = np.hypot(*np.meshgrid(np.arange(64) - 31.5, np.arange(64) - 31.5)) < 20
    chord = 2 * np.sqrt(np.maximum(0, 20**2 - (np.arange(64) - 31.5) ** 2))
    beam = np.full((3, 64), 20000, np.uint16)
    counts = (20000 * np.exp(-0.02 * chord) + r.normal(0, 30, (views, 3, 64))).astype(np.uint16)
    text = ("problem:\n  measurements: scan.txrm\n  operator: {type: tomography, detector: {axis: 0}}\n"
            "solver: {name: fbp}\noutput: {folder: out, preview: none}\n")
    found = []
    for way, ranks in (({}, 1), ({"scatter": True}, 2), ({"version": 4}, 1)):
        data = compound.txm(counts, angles, beam, **way)
        (work / "scan.txrm").write_bytes(data)
        run(job(text), "--force", ranks=ranks)
        with h5py.File(work / "out/reconstruction.h5") as f:
            found.append(np.squeeze(f["image"][...])[1])
    assert all(np.abs(f - found[0]).max() < 1e-4 for f in found)
    inside = found[0][16:48, 16:48][disk[16:48, 16:48]]
    assert abs(inside.mean() * 1.5 - 0.02) < 0.001, inside.mean()  # per micrometer, of which a column has 1.5
    out = tessera("info", "scan.txrm", "--picture", "none")[1]
    for words in ("110 slices of 3 x 64, uint16", "1.5 \u00b5m", "110 from 0 to 178.364 degrees", "source      40 mm", "detector    60 mm", ":/reference"):
        assert words in out, (words, out)
    volume = r.random((5, 20, 30), dtype="f4")
    (work / "volume.txm").write_bytes(compound.txm(volume))
    for part, wanted in (("", volume), (":/3", volume[3])):
        assert tessera("convert", "volume.txm" + part, "again.h5", "--force", ranks=2)[0] == 0
        with h5py.File(work / "again.h5") as f:
            assert np.array_equal(np.squeeze(f["image"][...]), wanted)
    data = compound.txm(counts, angles, beam)
    loop = bytearray(data)  # the first sector's next one is itself
    at = 512 * (1 + int.from_bytes(data[76:80], "little"))
    loop[at:at + 4] = (0).to_bytes(4, "little")
    for bad in (data[:3000], data[:len(data) // 2], bytes(loop), data[:44] + b"\xff\xff\xff\x7f" + data[48:], data[:60] + b"\xff" * 8 + data[68:]):
        (work / "bad.txrm").write_bytes(bad)
        code, out, err = tessera("info", "bad.txrm", "--picture", "none")
        assert code == 2 and "cannot read" in err, (code, out, err)


def cone_of_balls(columns, rows, views, pixel, source, detector):
    """Counts of a microscope's cone beam, micrometers: a large ball at the axis and a dense one aside, the stage turning
    by the angle; and where the dense one stands, in voxels down and right of the middle."""
    angle = np.arange(views) * 360 / views
    pitch, at, total = pixel * (source + detector) / source, (8 * pixel, 12 * pixel), 0
    u, v = np.meshgrid(pitch * (np.arange(columns) - (columns - 1) / 2), pitch * (np.arange(rows) - (rows - 1) / 2))
    for (y, x), radius, density in (((0, 0), 24, 0.004), (at, 5, 0.03)):
        lines = []
        for t in -np.radians(angle):  # of source and detector, as in the tests of projectors
            ray = np.stack([u * np.cos(t) - (source + detector) * np.sin(t), -u * np.sin(t) - (source + detector) * np.cos(t), v], -1)
            ray /= np.linalg.norm(ray, axis=-1, keepdims=True)
            to = np.array([x - source * np.sin(t), y - source * np.cos(t), 0])
            off = to - (ray @ to)[..., None] * ray
            lines.append(2 * np.sqrt(np.clip((radius * pixel) ** 2 - (off**2).sum(-1), 0, None)))
        total = total + density / pixel * np.array(lines)
    return angle, (40000 * np.exp(-total)).round().astype(np.uint16), np.full((rows, columns), 40000, np.uint16)


def microscopes_state_geometry():
    """A .txrm's pixel, distances and beam are the geometry; what the job says otherwise holds, and is told."""
    import compound
    angle, counts, beam = cone_of_balls(64, 9, 120, 500.0, 60000.0, 90000.0)
    text = "problem:\n  measurements: scan.txrm\n%s  operator: {type: tomography%s}\nsolver: {name: fbp}\noutput: {folder: out, preview: none}\n"

    def made(keys="", image="", ranks=1, **way):
        way = {"pixel": 500.0, "source": -60.0, "detector": 90.0} | way
        (work / "scan.txrm").write_bytes(compound.txm(counts, angle, beam, **way))
        out, err = run(job(text % (image, keys)), "--force", ranks=ranks)
        with h5py.File(work / "out/reconstruction.h5") as f:
            return np.squeeze(f["image"][...]), dict(f["image"].attrs), out + err

    def place(volume):
        """Of the dense ball, down and right of the middle; and how sharp it is."""
        slab = volume[volume.shape[0] // 2] * 500
        y, x = np.unravel_index(np.argmax(slab), slab.shape)
        inside = np.hypot(*np.meshgrid(np.arange(64) - 31.5 - 12, np.arange(64) - 31.5 - 8)) < 4
        return y - 31.5, x - 31.5, slab[inside].mean(), slab[inside].std()

    first, attributes, said = made()
    y, x, mean, spread = place(first)
    assert abs(y - 8) < 4 and abs(x - 12) < 4 and abs(mean - 0.034) < 0.002 and spread < 0.003, (y, x, mean, spread)
    assert abs(attributes["pixel_1"] - 500) < 1e-3 and attributes["unit"] in ("um", "\u00b5m"), attributes
    assert "cone beam, source_axis 60000, source_detector 150000, detector.pitch 1250 um" in said, said
    resolved = (work / "out/resolved.yaml").read_text()
    assert "beam: cone" in resolved and re.search(r"pitch: 1250\b", resolved) and 'unit: "um"' in resolved, resolved
    for ranks in (2, 3):
        assert np.abs(made(ranks=ranks)[0] - first).max() < 1e-6 * np.abs(first).max()
    # What resolved.yaml says again is no contradiction.
    shutil.copy(work / "out/resolved.yaml", work / "again.yaml")
    out, err = run("again.yaml", "--force", ranks=3)
    assert "differs from what" not in out + err and "cone beam, source_axis" not in out + err, out + err
    # In another unit; the same by hand, with the same numbers in it.
    other, attributes, said = made(image="  image: {unit: mm}\n", source=np.full(120, -60.0))
    assert np.allclose(other, 1000 * first, rtol=1e-4, atol=1e-5 * np.abs(other).max()) and abs(attributes["pixel_1"] - 0.5) < 1e-6
    own = ", beam: cone, source_axis: 60, source_detector: 150, detector: {pitch: 1.25}"
    hand, _, said = made(own, "  image: {unit: mm}\n")
    assert np.allclose(hand, other, rtol=1e-4, atol=1e-5 * np.abs(other).max()) and "differs from what" not in said, said
    for keys, image, words in ((own.replace("60", "90"), "  image: {unit: mm}\n", "source_axis 90 (the file: 60)"),
                               (own, "", ""), (own.replace("1.25", "2.5"), "", "times the pitch"),
                               (", detector: {pitch: 500}", "", "beam parallel (the file: cone)"),
                               ("", "  image: {unit: px}\n", "problem.image.unit is px")):
        _, _, said = made(keys, image)
        assert words in said and ("differs from what" in said) == (words not in ("", "problem.image.unit is px")), (keys, said)
    # Beams that are parallel: by what the file says, by a zone plate, by distances; and what states none.
    for way, words in (({"more": {"ImageInfo/XrayGeometry": 0}}, "parallel beam, detector.pitch 500 um"),
                       ({"more": {"ConfigZonePlates/Name": b"zone plate"}}, "parallel beam, detector.pitch 500 um"),
                       ({"source": -3e7, "more": {"ImageInfo/XrayGeometry": 1}}, "parallel beam, detector.pitch 500 um"),
                       ({"source": 0.0}, "parallel beam, detector.pitch 500 um"),
                       ({"more": {"ImageInfo/XrayGeometry": 1}}, "cone beam, source_axis 60000"),
                       ({"source": 0.0, "more": {"ImageInfo/XrayGeometry": 1}}, "states a cone without distances"),
                       ({"source": np.linspace(-60, -70, 120)}, "states distances that differ between views"),
                       ({"pixel": 0.0}, "states no pixel size")):
        _, attributes, said = made(ranks=2, **way)
        assert words in said and ("pixel_1" in attributes) == ("states" not in words), (way, said, attributes)
