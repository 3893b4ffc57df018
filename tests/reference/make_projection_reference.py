#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Projections and adjoints by other packages, as projections_PACKAGE.safetensors.

    python3 -m venv projection-venv
    projection-venv/bin/pip install astra-toolbox==2.5.0 mbirjax==0.7.3 safetensors==0.8.0
    projection-venv/bin/python tests/reference/make_projection_reference.py astra mbirjax
    REFERENCE_VENV/bin/python tests/reference/make_projection_reference.py deepinv    # that of make_reference.py
    pip install itk-rtk==2.7.0.post1 safetensors==0.8.0, in one more, for the package rtk; astra-toolbox too for vectors

rtk's has `y`, any smooth samples, and `direct`, the volume that FDK makes of them with the plain ramp.
Each other case has `x`, `y` = A x, `v` (random), `adjoint` = A^T v where the package's pair is matched, and its scan in the
words of a job: `angles` (degrees), `scan` = beam (0 parallel, 1 fan, 2 cone), detector rows, columns, pitch, voxel,
detector.axis, source_axis, source_detector. Shapes are ours, (views, [rows,] columns) and ([D,] H, W). The body is
smooth, off the center, and wider than it is high; a point beside it says which way a package turns.
vectors has scans beyond a circle, whose `scan` goes on: detector.shift, row_shift, rotation, tilt, slant, lean (degrees),
helix. Those of astra have `rows`, 6 numbers a view, those of RTK `xml`, the text of the file that it writes.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

FOLDER = Path(__file__).resolve().parent


def body(*size):
    """Bumps without symmetry, smooth on the scale of a pixel; ([D,] H, W)."""
    at = np.meshgrid(*[np.arange(n) - (n - 1) / 2 for n in size], indexing="ij")
    x, y, z = at[-1], at[-2], at[0] if len(size) == 3 else 0 * at[-1]
    side = min(size[-2:])
    bump = lambda cx, cy, cz, r: np.exp(-((x - cx * side) ** 2 + (y - cy * side) ** 2 + (z - cz * side) ** 2) / (r * side) ** 2)
    return (bump(0.06, -0.12, 0.03, 0.16) + 0.7 * bump(-0.18, 0.1, -0.05, 0.1) + 0.5 * bump(0.2, 0.16, 0.06, 0.08)).astype(np.float32)


def case(name, x, y, angles, scan, v=None, adjoint=None):
    out = {"x": x, "y": y, "angles": np.asarray(angles, np.float64), "scan": np.asarray(scan, np.float64)}
    if v is not None:
        out |= {"v": v, "adjoint": adjoint}
        dot = abs((y.astype(float) * v).sum() - (x.astype(float) * adjoint).sum()) / abs((y.astype(float) * v).sum())
        assert dot < 1e-5, f"{name}: the pair is not matched, {dot}"
    print(name, {k: a.shape for k, a in out.items()})
    return {f"{name}.{k}": np.ascontiguousarray(a) for k, a in out.items()}


def astra_cases():
    import astra
    assert astra.__version__ == "2.5.0"
    rng = np.random.default_rng(1)
    degrees = np.array([0, 12, 37, 45, 61, 90, 101, 135, 150, 179.5, 200, 271, 333])
    angles = np.deg2rad(degrees)
    all = {}
    x = body(30, 41)
    volume = astra.create_vol_geom(30, 41)
    for name, scan, geometry in (
        ("parallel", [0, 1, 67, 0.8, 1, 0, 0, 0], astra.create_proj_geom("parallel", 0.8, 67, angles)),
        ("fan", [1, 1, 71, 1.5, 1, 0, 90, 160], astra.create_proj_geom("fanflat", 1.5, 71, angles, 90, 70)),
    ):
        projector = astra.create_projector("linear" if name == "parallel" else "line_fanflat", geometry, volume)
        y = astra.create_sino(x, projector)[1]
        v = rng.standard_normal(y.shape).astype(np.float32)
        back = astra.create_backprojection(v, projector)[1]
        # The fan's pixels are weighed by another rule: of random samples they say nothing.
        all |= case(name, x, y, degrees, scan, v, back) if name == "parallel" else case(name, x, y, degrees, scan)
    return all


def mbirjax_cases():
    import mbirjax
    degrees = np.array([0, 12, 37, 61, 90, 135, 150, 200, 271, 333], float)
    angles = np.deg2rad(degrees)
    x = body(13, 30, 41)
    recon = np.ascontiguousarray(x.transpose(1, 2, 0))
    all = {}
    for name, scan, model in (
        ("parallel3", [0, 13, 59, 1, 1, 0, 0, 0], mbirjax.ParallelBeamModel((len(angles), 13, 59), angles)),
        ("cone", [2, 31, 75, 1.5, 1, 0, 100, 180],
         mbirjax.ConeBeamModel((len(angles), 31, 75), angles, source_detector_dist=180.0, source_iso_dist=100.0)),
    ):
        model.set_params(no_warning=True, recon_shape=recon.shape, delta_voxel=1.0, use_ror_mask=False)
        if name == "cone":
            model.set_params(no_warning=True, delta_det_channel=1.5, delta_det_row=1.5)
            model.set_params(no_warning=True, recon_shape=recon.shape, delta_voxel=1.0, use_ror_mask=False)
        y = np.asarray(model.forward_project(recon))
        all |= case(name, x, y, degrees, scan)
    return all


def deepinv_cases():
    import deepinv
    import torch
    degrees = np.array([0, 12, 37, 61, 90, 135, 150, 179], float)
    # It pads 42 to 60 columns: with sides of another parity its axis would be half a pixel off.
    x = body(42, 42)
    physics = deepinv.physics.Tomography(angles=torch.tensor(degrees, dtype=torch.float32), img_width=42, circle=False, normalize=False)
    y = physics.A(torch.from_numpy(x)[None, None])[0, 0].numpy().T  # (columns, views)
    return case("deepinv", x, y, degrees, [0, 1, y.shape[1], 1, 1, 0, 0, 0])


def rtk_cases():
    import itk
    from itk import RTK as rtk
    views, rows, columns, pitch, axis, detector, size = 24, 21, 51, 2.0, 100.0, 180.0, (13, 30, 41)
    degrees = np.arange(views) * 360 / views
    at = np.meshgrid(degrees, np.arange(rows) - 8, np.arange(columns) - 22, indexing="ij")
    y = (np.exp(-(at[1] ** 2) / 40 - (at[2] - 6 * np.cos(np.deg2rad(at[0]))) ** 2 / 60) * (2 + np.sin(np.deg2rad(at[0])))).astype(np.float32)
    image = itk.Image[itk.F, 3]
    geometry = rtk.ThreeDCircularProjectionGeometry.New()
    for angle in degrees:
        geometry.AddProjection(axis, detector, float(angle))
    projections = itk.image_from_array(y)
    projections.SetSpacing([pitch, pitch, 1])
    projections.SetOrigin([-(columns - 1) / 2 * pitch, -(rows - 1) / 2 * pitch, 0])
    volume = rtk.ConstantImageSource[image].New()
    sides = [size[2], size[0], size[1]]  # theirs: the axis of rotation is the second one
    volume.SetSize(sides)
    volume.SetOrigin([-(n - 1) / 2 for n in sides])
    volume.SetSpacing([1, 1, 1])
    volume.SetConstant(0)
    fdk = rtk.FDKConeBeamReconstructionFilter[image].New()
    fdk.SetInput(0, volume.GetOutput())
    fdk.SetInput(1, projections)
    fdk.SetGeometry(geometry)
    fdk.GetRampFilter().SetTruncationCorrection(0)
    fdk.GetRampFilter().SetHannCutFrequency(0)
    fdk.Update()
    x = itk.array_from_image(fdk.GetOutput()).transpose(1, 0, 2)
    scan = [2, rows, columns, pitch, 1, 0, axis, detector]
    return {f"cone.{k}": np.ascontiguousarray(a) for k, a in
            {"y": y, "direct": x, "angles": degrees, "scan": np.asarray(scan, np.float64)}.items()}


def turn(axis, degrees):
    """About x, y or z, right-handed, of columns (x, y, z)."""
    c, s, (i, j) = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees)), [(1, 2), (2, 0), (0, 1)][axis]
    out = np.eye(3)
    out[i, i] = out[j, j] = c
    out[j, i], out[i, j] = s, -s
    return out


def rtk_project(x, views, rows, columns, pitch):
    """Joseph's rule of RTK, and the file of its geometry. views: (source, middle, u, v) each, our x, y, z."""
    import itk
    from itk import RTK as rtk
    import tempfile
    image = itk.Image[itk.F, 3]
    geometry = rtk.ThreeDCircularProjectionGeometry.New()
    theirs = lambda a: [float(a[0]), float(a[2]), float(a[1])]
    for source, middle, u, v in views:
        assert geometry.AddProjection(theirs(source), theirs(middle), theirs(u), theirs(v))
    volume = itk.image_from_array(np.ascontiguousarray(x.transpose(1, 0, 2)))
    volume.SetOrigin([-(n - 1) / 2 for n in (x.shape[2], x.shape[0], x.shape[1])])
    samples = itk.image_from_array(np.zeros((len(views), rows, columns), np.float32))
    samples.SetSpacing([pitch[1], pitch[0], 1])
    samples.SetOrigin([-(columns - 1) / 2 * pitch[1], -(rows - 1) / 2 * pitch[0], 0])
    forward = rtk.JosephForwardProjectionImageFilter[image, image].New()
    forward.SetInput(0, samples)
    forward.SetInput(1, volume)
    forward.SetGeometry(geometry)
    forward.Update()
    with tempfile.NamedTemporaryFile(suffix=".xml") as file:
        writer = rtk.ThreeDCircularProjectionGeometryXMLFileWriter.New()
        writer.SetFilename(file.name)
        writer.SetObject(geometry)
        writer.WriteFile()
        text = Path(file.name).read_bytes()
    return itk.array_from_image(forward.GetOutput()), np.frombuffer(text, np.uint8)


def vector_cases():
    import astra
    all = {}
    degrees = np.array([0, 12, 37, 90, 135, 200, 271.0])
    x = body(22, 29)
    volume, shift, near, far, pitch = astra.create_vol_geom(22, 29), 4.3, 90, 160, 1.5
    for beam in ("parallel", "fan"):
        rows = []
        for t in np.deg2rad(degrees):
            u, toward = np.array([np.cos(t), np.sin(t)]), np.array([np.sin(t), -np.cos(t)])
            source, middle, step = (toward, 0 * u, 1) if beam == "parallel" else (near * toward, (near - far) * toward, pitch)
            rows.append([*source, *(middle + shift * step * u), *(step * u)])
        flat = "parallel_vec" if beam == "parallel" else "fanflat_vec"
        geometry = astra.create_proj_geom(flat, 61, np.array(rows))
        projector = astra.create_projector("linear" if beam == "parallel" else "line_fanflat", geometry, volume)
        y = astra.create_sino(x, projector)[1]
        # A parallel beam's detector that stands aside sees the axis on the other side.
        scan = [0, 1, 61, 1, 1, -shift, 0, 0, 0] if beam == "parallel" else [1, 1, 61, pitch, 1, 0, near, far, shift]
        all |= case(f"astra_{beam}", x, y, degrees, scan + [0] * 6) | {f"astra_{beam}.rows": np.array(rows)}
    # RTK's rays end at voxel centers: nothing is left at the volume's faces.
    x = body(9, 20, 25)
    for axis, n in enumerate(x.shape):
        x *= (np.sin(np.pi * np.arange(n) / (n - 1)) ** 2).astype(np.float32).reshape([-1 if d == axis else 1 for d in range(3)])
    for name, (shift, row_shift, rotation, tilt, slant, lean, helix) in (
        ("shifted", (3.2, -1.6, 0, 0, 0, 0, 0)), ("turned", (2.1, 0, 4, 0, 0, 0, 0)), ("tilted", (0, 1.2, 3, -7, 11, 0, 0)),
        ("lamino", (0, 0, 0, 0, 0, 25, 0)), ("helix", (0, 0, 0, 0, 0, 0, 5))):
        rows, columns, steps = (27 if lean else 19), 37, (1.4, 1.7)
        views = []
        for t in degrees:
            # At 0 degrees across is x, the source stands at y, rows of the detector go down z; a positive turn about z takes y to -x.
            leaning = turn(0, lean)
            detector = turn(2, slant) @ turn(0, -tilt) @ turn(1, -rotation)
            frame = turn(2, -t) @ leaning
            u, v = frame @ detector @ [1, 0, 0], frame @ detector @ [0, 0, 1]
            source, middle = frame @ [0, near, 0], frame @ [0, near - far, 0]
            rise = np.array([0, 0, helix * t / 360])
            views.append((source + rise, middle + rise + shift * steps[1] * u + row_shift * steps[0] * v, u, v))
        y, xml = rtk_project(x, views, rows, columns, steps)
        scan = [2, rows, columns, steps[1], 1, 0, near, far, shift, row_shift, rotation, tilt, slant, lean, helix, steps[0]]
        all |= case(f"rtk_{name}", x, y, degrees, scan) | {f"rtk_{name}.xml": xml.astype(np.float32)}
    return all


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="+", choices=("astra", "mbirjax", "deepinv", "rtk", "vectors"))
    for package in parser.parse_args().packages:
        tensors = {"astra": astra_cases, "mbirjax": mbirjax_cases, "deepinv": deepinv_cases, "rtk": rtk_cases, "vectors": vector_cases}[package]()
        save_file(dict(sorted(tensors.items())), FOLDER / f"projections_{package}.safetensors")


if __name__ == "__main__":
    main()
