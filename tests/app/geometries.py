# SPDX-License-Identifier: BSD-3-Clause
"""Scans beyond a circle with an upright detector: by keys, and by files of other packages."""
import json
import re
import struct

import h5py
from harness import distance, image, job, np, run, source, summary, tessera, work
from scipy.io import savemat


def references():
    """tests/reference/projections_vectors.safetensors, by name."""
    data = (source / "tests/reference/projections_vectors.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return {key: np.frombuffer(data[8 + size + at["data_offsets"][0]:8 + size + at["data_offsets"][1]],
                               {"F32": np.float32, "F64": np.float64}[at["dtype"]]).reshape(at["shape"])
            for key, at in json.loads(data[8:8 + size]).items() if key != "__metadata__"}


def simulated(operator, truth, shape, ranks=1):
    np.save(work / "truth.npy", truth[None])
    path = job(f"problem: {{truth: truth.npy, operator: {{type: tomography, {operator}}}, noise: {{gaussian: 1.0e-7}}}}\noutput: {{folder: out}}\n", name="make.yaml")
    code, out, err = tessera("simulate", path, "y.h5", "--force", ranks=ranks)
    assert code == 0, out + err
    with h5py.File(work / "y.h5") as f:
        return f["/measurements/0"][...].reshape(shape)


def refused(operator, reason, truth="truth.npy", ranks=(1,)):
    path = job(f"problem: {{truth: {truth}, operator: {{type: tomography, {operator}}}, noise: {{gaussian: 0.1}}}}\noutput: {{folder: out}}\n", name="bad.yaml")
    for command, n in zip(("check", "run"), ranks):
        code, out, err = tessera(command, path, ranks=n)
        assert code == 2 and reason in err and err.count("tessera:") == 1 and re.search(r"\(.*\)", err), (operator, code, out, err)


def geometry_files():
    """ASTRA's vectors in every form, RTK's files, keys: samples as of these packages; SIRT on 1 and 3 ranks; what is no geometry."""
    known = references()
    for beam in ("parallel", "fan"):
        rows, x, y = (known[f"astra_{beam}.{what}"] for what in ("rows", "x", "y"))
        np.save(work / "rows.npy", rows)
        np.savetxt(work / "rows.csv", rows, delimiter=",")
        with h5py.File(work / "rows.h5", "w") as f:
            f["vectors"] = rows
        kind = "parallel_vec" if beam == "parallel" else "fanflat_vec"
        (work / "rows.json").write_text(json.dumps({"type": kind, "DetectorCount": 61, "Vectors": rows.tolist()}))
        for name in ("rows.npy", "rows.csv", "rows.h5:/vectors", "rows.json"):
            said = "" if name == "rows.json" else f"beam: {beam}, detector: {{columns: 61}}, "
            off = distance(simulated(f"{said}views: {{geometry: '{name}'}}, voxel: 1", x, y.shape), y)
            assert off < (3e-6 if beam == "parallel" else 0.03), (name, off)  # the fan's pixels are weighed by another rule
    for name in ("shifted", "turned", "tilted", "lamino", "helix"):
        x, y, scan = (known[f"rtk_{name}.{what}"] for what in ("x", "y", "scan"))
        (work / f"{name}.xml").write_bytes(bytes(known[f"rtk_{name}.xml"].astype(np.uint8)))
        detector = f"rows: {y.shape[1]}, columns: {y.shape[2]}, pitch: [1.4, 1.7]"
        angles = known[f"rtk_{name}.angles"].tolist()
        shift, row_shift, rotation, tilt, slant, lean, helix = scan[8:15]
        keys = (f"beam: cone, source_axis: 90, source_detector: 160, views: {{angles: {angles}}}, helix: {helix}, lean: {lean}, "
                f"detector: {{{detector}, shift: {shift}, row_shift: {row_shift}, rotation: {rotation}, tilt: {tilt}, slant: {slant}}}")
        for operator, ranks in ((f"views: {{geometry: {name}.xml}}, detector: {{{detector}}}", 1), (keys, 3)):
            off = distance(simulated(f"{operator}, voxel: 1", x, y.shape, ranks), y)
            assert off < (2e-3 if name == "lamino" else 3e-5), (name, operator, off)
        np.save(work / "y.npy", y)
        path = job(f"problem: {{measurements: y.npy, operator: {{type: tomography, values: line_integrals, views: {{geometry: {name}.xml}}, detector: {{pitch: [1.4, 1.7]}}, voxel: 1}}, "
                   f"image: {{size: [9, 20, 25]}}, noise: {{gaussian: 0.001}}}}\nsolver: {{name: sirt, iterations: 20}}\noutput: {{folder: one}}\n")
        run(path, "--force")
        if name in ("tilted", "lamino"):
            run(path, "--force", "--set", "output.folder=three", ranks=3)
            assert distance(image("three"), image("one")) < 1e-5
        off = np.sqrt(np.mean((image("one")[0] - x) ** 2) / np.mean(x ** 2))
        print(f"{name}: {off:.3f} of the body after 20 iterations from 7 views")
        assert off < 0.45, (name, off)
    code, out, err = tessera("check", path)
    assert code == 0 and "a helix" in out and "not for fbp: it is a helix" in out and "magnification 1.778" in out, out + err

    # A circle in ASTRA's words is the same as in ours, in 3-D turned the other way.
    np.save(work / "truth.npy", x[None])
    angles = np.deg2rad([0, 20, 50, 130])
    dicts = {"parallel3d": {"DetectorSpacingX": 1.2, "DetectorSpacingY": 1.0, "DetectorRowCount": 9, "DetectorColCount": 37}}
    dicts["cone"] = dicts["parallel3d"] | {"DetectorRowCount": 19, "DistanceOriginSource": 90.0, "DistanceOriginDetector": 70.0}
    for kind, words in dicts.items():
        (work / "circle.json").write_text(json.dumps({"type": kind, "ProjectionAngles": angles.tolist()} | words))
        shape = (4, words["DetectorRowCount"], 37)
        by_file = simulated("views: {geometry: circle.json}, voxel: 1", x, shape)
        # ASTRA's frame is ours with rows mirrored, seen from the other side.
        rest = "" if kind == "parallel3d" else "beam: cone, source_axis: 90, source_detector: 160, "
        ours = simulated(f"{rest}views: {{angles: [0, 20, 50, 130]}}, detector: {{rows: {shape[1]}, columns: 37, pitch: [1.0, 1.2]}}, voxel: 1", np.ascontiguousarray(x[:, ::-1]), shape)
        assert distance(by_file, ours) < 1e-5, (kind, distance(by_file, ours))
        words = {"type": kind, "ProjectionAngles": angles} | words | ({"option": {"VoxelSuperSampling": 1}} if kind == "cone" else {})
        savemat(work / "circle.mat", {"proj_geom": words} if kind == "cone" else words, do_compression=kind == "cone")
        assert (simulated("views: {geometry: circle.mat}, voxel: 1", x, shape) == by_file).all(), kind

    # Nikon's file: distances, detector and angles; the object stands aside.
    words = {"SrcToObject": 90, "SrcToDetector": 160, "DetectorPixelsX": 37, "DetectorPixelsY": 19, "DetectorPixelSizeX": 1.7, "DetectorPixelSizeY": 1.4,
             "Projections": 4, "AngularStep": 90, "InitialAngle": 0, "ObjectOffsetX": 0.5, "ObjectRoll": 0, "ObjectTilt": 0}
    text = "[XTekCT]\n" + "".join(f"{key}={value}\n" for key, value in words.items()) + "[CTPro]\nVersion=V6\n"
    (work / "scan.xtekct").write_text(text)
    point = np.zeros((9, 20, 25), np.float32)
    point[6, 4, 18] = 1  # before the middle, right of it, below it
    y = simulated("views: {geometry: scan.xtekct}, voxel: 1", point, (4, 19, 37))
    seen = [np.array(np.unravel_index(v.argmax(), v.shape)) - (9, 18) for v in y]
    print("Nikon: row and column of a point in four views", [s.tolist() for s in seen])
    assert all(s[0] > 0 for s in seen) and seen[0][1] * seen[2][1] < 0 and seen[1][1] * seen[3][1] < 0, seen

    np.save(work / "flat.npy", np.ones((1, 20, 20), np.float32))
    (work / "few.csv").write_text("0, 1, 0, 0, 1\n")
    (work / "nan.csv").write_text("0, 1, 0, 0, 0, 0, 1, nan, 0, 0, 0, 1\n")
    (work / "torn.xml").write_bytes((work / "helix.xml").read_bytes()[:2000])
    (work / "other.xml").write_text("<?xml version=\"1.0\"?><scan/>")
    (work / "changed.xml").write_text((work / "helix.xml").read_text().replace("<SourceToIsocenterDistance>90<", "<SourceToIsocenterDistance>95<", 1))
    (work / "odd.json").write_text('{"type": "cyl_cone_vec", "Vectors": [[0]]}')
    (work / "torn.json").write_text('{"type": "cone_vec", "Vectors": [[0, 1')
    (work / "short.json").write_text('{"type": "cone_vec", "DetectorRowCount": 9, "DetectorColCount": 9, "Vectors": [[0, 1, 0, 0, 0, 0]]}')
    (work / "rows.mat").write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    savemat(work / "vol.mat", {"vol_geom": {"GridRowCount": 9}})
    (work / "less.xtekct").write_text(text.replace("SrcToObject=90\n", ""))
    for name, reason in (("few.csv", "5 a row"), ("nan.csv", "not finite"), ("torn.xml", "has no </"), ("other.xml", "only RTK's"), ("changed.xml", "not of its parameters"),
                         ("odd.json", "the type cyl_cone_vec"), ("torn.json", "is no JSON"), ("short.json", "Vectors of 6 numbers"), ("less.xtekct", "no number SrcToObject"), ("rows.mat", "no file of MATLAB's versions 5"), ("vol.mat", "no geometry of ASTRA")):
        refused(f"views: {{geometry: {name}}}, detector: {{rows: 9, columns: 37}}", reason)
    np.save(work / "fan.npy", known["astra_fan.rows"])
    refused("views: {geometry: fan.npy}, detector: {columns: 61}", "lie opposite of the detector", "flat.npy")
    refused("views: {geometry: torn.xml}, detector: {rows: 19, columns: 37}", "has no </", ranks=(1, 2))
    refused("views: {geometry: helix.xml, count: 7}, detector: {rows: 19, columns: 37}", "is written beside count")
    refused("views: {geometry: helix.xml}, beam: fan, detector: {rows: 19, columns: 37}", "is of a cone beam")
    refused("views: {geometry: helix.xml}, lean: 5, detector: {rows: 19, columns: 37}", "acts on nothing")
    refused("views: {geometry: circle.json}, detector: {rows: 19, columns: 40}", "whose detector has 37 columns")
    refused("views: {geometry: helix.xml}, detector: {pitch: 1.7}", "detector.columns is auto")
    refused("views: {count: 9}, beam: fan, source_axis: 90, source_detector: 160, detector: {tilt: 5}", "write 'beam: cone'")
    refused("views: {count: 9}, detector: {rotation: 2}", "is a picture", "flat.npy")
    np.save(work / "y.npy", np.ones((5, 19, 37), np.float32))
    code, _, err = tessera("check", path)
    assert code == 2 and "has 7 vectors" in err, err


def geometry_keys():
    """The axis through a pixel's middle, as scikit-image and algotom have it; FBP and FDK of detectors that stand aside and are turned."""
    from skimage.transform import radon
    n = 64
    y, x = np.mgrid[:n, :n]
    picture = (np.hypot(x - 36, y - 25) < 14) * 0.6 + np.exp(-((x - 24) ** 2 + (y - 40) ** 2) / 20)
    np.save(work / "truth.npy", picture[None].astype(np.float32))
    np.save(work / "sinogram.npy", radon(picture, np.arange(90) * 2.0, circle=True).T.astype(np.float32))
    psnr = {}
    for name, keys in (("middle", "detector: {axis: 0.5}"), ("pixel", "detector: {axis: 0.5}, rotation_center: 0.5")):
        path = job(f"problem: {{measurements: sinogram.npy, truth: truth.npy, operator: {{type: tomography, values: line_integrals, views: {{count: 90}}, {keys}}}, noise: {{gaussian: 0.01}}}}\n"
                   f"solver: {{name: fbp, window: ram-lak}}\noutput: {{folder: {name}}}\n")
        run(path, "--force")
        psnr[name] = summary(name)["psnr"]
    run(path, "--force", "--set", "output.folder=three", ranks=3)
    assert distance(image("three"), image(name)) < 1e-6
    print(f"of scikit-image's radon: {psnr['middle']:.2f} dB about the middle, {psnr['pixel']:.2f} about a pixel")
    assert psnr["pixel"] > psnr["middle"] + 4, psnr

    z, y, x = np.mgrid[:20, :26, :26] - np.array([9.5, 12.5, 12.5]).reshape(3, 1, 1, 1)
    np.save(work / "truth.npy", ((((x - 3) ** 2 + (y + 2) ** 2 + z ** 2) < 49) * 1.0).astype(np.float32)[None])
    cone = "beam: cone, source_axis: 120, source_detector: 200, views: {count: 60}, detector: {rows: 49, columns: 61, pitch: [0.9, 1.1]%s}, voxel: 1%s"
    for name, operator in (("plain", cone % ("", "")), ("aside", cone % (", shift: 3.3, row_shift: -2.2", "")),
                           ("turned", cone % (", rotation: 5, tilt: -6, slant: 4", "")), ("off", cone % (", rotation: 5", ", rotation_center: [1.5, -2]")),
                           ("level", "views: {count: 60}, detector: {rows: 29, columns: 61, pitch: [0.8, 0.7], rotation: 4}, voxel: [1, 1, 1]")):
        path = job(f"problem: {{truth: truth.npy, operator: {{type: tomography, {operator}}}, noise: {{gaussian: 0.01}}}}\nsolver: {{name: fbp}}\noutput: {{folder: {name}}}\n")
        run(path, "--force")
        ball = image(name)[0][7:13, 8:14, 13:19]
        print(f"{name}: {ball.mean():.4f} in a ball of 1, {summary(name)['psnr']:.2f} dB")
        assert abs(ball.mean() - 1) < 0.02 and summary(name)["psnr"] > 19, (name, ball.mean(), summary(name)["psnr"])
        if name in ("turned", "off", "level"):
            run(path, "--force", "--set", "output.folder=three", ranks=3)
            assert distance(image("three"), image(name)) < 1e-5, name
    path = job("problem: {truth: truth.npy, operator: {type: tomography, lean: 30, views: {count: 40, last: 360}}, noise: {gaussian: 0.01}}\n"
               "solver: {name: fbp}\noutput: {folder: lean}\n")
    code, _, err = tessera("check", path)
    assert code == 2 and "rays that lean" in err, err


def phase_contrast():
    """Paganin's filter undoes what it is the inverse of, of pictures and volumes, on 1 and 3 ranks; what it wants."""
    from scipy.fft import dctn, idctn
    z, y, x = np.mgrid[:8, :32, :32] - np.array([3.5, 15.5, 15.5]).reshape(3, 1, 1, 1)
    body = 1.0 * ((x / 9) ** 2 + ((y - 3) / 7) ** 2 + (z / 3.2) ** 2 < 1)
    lines = 0.05 * simulated("views: {count: 30}, detector: {columns: 48}", body.astype(np.float32), (30, 8, 48))
    keys = dict(delta_beta=200, energy=20, distance=0.4, pixel=2)
    strength = np.pi * 200 * 1.239842e-3 / 20 * 400 / 4  # pi lambda z (delta / beta) / pixel^2
    f = [np.arange(n) / (2 * n) for n in (8, 48)]
    share = np.stack([idctn(dctn(v) * (1 + strength * (f[0][:, None] ** 2 + f[1] ** 2))) for v in np.exp(-lines.astype(float))])
    assert np.abs(share - np.exp(-lines)).max() > 0.05 and share.min() > 0.01, share.min()
    np.save(work / "share.npy", share.astype(np.float32))
    np.save(work / "plain.npy", np.exp(-lines).astype(np.float32))
    say = "paganin: {" + ", ".join(f"{k}: {v}" for k, v in keys.items()) + "}"
    for detector in ("axis: 0", "axis: 0, first_row: 3, rows: 1"):
        def made(name, folder, more="", ranks=1):
            path = job(f"problem: {{measurements: {name}.npy, operator: {{type: tomography, values: transmission, views: {{count: 30}}, detector: {{{detector}}}{more}}}, noise: {{gaussian: 0.01}}}}\n"
                       f"solver: {{name: fbp}}\noutput: {{folder: {folder}}}\n", name="phase.yaml")
            run(path, "--force", ranks=ranks)
            return image(folder)
        wanted, left = made("plain", "plain"), made("share", "left")
        for ranks in (1, 3):
            off = distance(made("share", f"on-{ranks}", ", " + say, ranks), wanted)
            print(f"{detector}, {ranks} ranks: {off:.1e} from a scan without phases, {distance(left, wanted):.2f} as it is")
            assert off < 4e-3 and off < 0.1 * distance(left, wanted), off
    refused("views: {count: 9}, paganin: {energy: 20}", "paganin.delta_beta is missing")
    refused(f"views: {{count: 9}}, {say}", "acts on nothing")
