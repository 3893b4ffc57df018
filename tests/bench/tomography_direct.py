#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""FBP and FDK against those of astra-toolbox and RTK on the same closed-form samples of a Shepp-Logan head: PSNR in dB against
the means over pixels.

    pip install astra-toolbox==2.5.0 itk-rtk==2.7.0.post1      # beside torch, numpy, h5py and PyYAML; what is missing is left out
    PYTHONPATH=python python tests/bench/tomography_direct.py parallel    (256 x 256, about a minute)
    PYTHONPATH=python python tests/bench/tomography_direct.py cone        (64^3, about two minutes)
"""
import sys
import time

import numpy as np

import tessera

# density, half axes (x, y, z), center, turned by degrees about z; lengths in units of the head's
HEAD = [(1, .69, .92, .81, 0, 0, 0, 0), (-.8, .6624, .874, .78, 0, -.0184, 0, 0), (-.2, .11, .31, .22, .22, 0, 0, -18),
        (-.2, .16, .41, .28, -.22, 0, 0, 18), (.1, .21, .25, .41, 0, .35, -.15, 0), (.1, .046, .046, .05, 0, .1, .25, 0),
        (.1, .046, .046, .05, 0, -.1, .25, 0), (.1, .046, .023, .05, -.08, -.605, 0, 0), (.3, .12, .05, .3, .35, -.4, .2, 30)]


def turned(points, degrees):
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.stack([c * points[..., 0] + s * points[..., 1], -s * points[..., 0] + c * points[..., 1], points[..., 2]], -1)


def integrals(start, ray, size, flat):
    """Of the head along rays of unit length; flat: its middle slice, without end along z."""
    out = np.zeros(ray.shape[:-1])
    for density, a, b, c, x, y, z, tilt in HEAD:
        if flat and z:
            z = 0
        half = np.array([a, b, np.inf if flat else c]) * size
        o, d = turned(start - np.array([x, y, z]) * size, tilt) / half, turned(ray, tilt) / half
        square, along, rest = (d * d).sum(-1), (o * d).sum(-1), (o * o).sum(-1) - 1
        out += density * 2 * np.sqrt(np.maximum(along ** 2 - square * rest, 0)) / square
    return out


def head(n, size, flat):
    """Means over pixels, (n, n) or (n, n, n)."""
    fine = (np.arange(3 * n) - (3 * n - 1) / 2) / 3
    out = []
    for k in range(1 if flat else n):
        heights = np.zeros(1) if flat else fine[3 * k : 3 * k + 3]
        z, y, x = np.meshgrid(heights, fine, fine, indexing="ij")
        values = np.zeros(x.shape)
        for density, a, b, c, x0, y0, z0, tilt in HEAD:
            p = turned(np.stack([x, y, z], -1) - np.array([x0, y0, 0 if flat else z0]) * size, tilt) / (np.array([a, b, c]) * size)
            values += density * ((p * p).sum(-1) <= 1)
        out.append(values.reshape(len(heights), n, 3, n, 3).mean((0, 2, 4)))
    return out[0] if flat else np.stack(out)


def ours(operator, y, window):
    return tessera.reconstruct(y, operator, noise=0.01, denoiser="none", settings={"solver": {"name": "fbp", "window": window}}).image


def parallel():
    n, columns = 256, 370
    size = 0.48 * n
    truth, s = head(n, size, True), np.arange(columns) - (columns - 1) / 2
    psnr = lambda x: -10 * np.log10(np.mean((x - truth) ** 2))
    try:
        import astra
    except ImportError:
        astra = None
    print("| views | noise | window | tessera | astra line | linear | strip |\n|---|---|---|---|---|---|---|")
    for views in (60, 180, 720):
        angles = np.arange(views) * np.pi / views
        across, along = (np.stack([f(angles), -g(angles), 0 * angles], -1) for f, g in ((np.cos, np.sin), (np.sin, lambda t: -np.cos(t))))
        clean = integrals(s[None, :, None] * across[:, None], np.broadcast_to(along[:, None], (views, columns, 3)), size, True)
        operator = tessera.operator({"type": "tomography", "detector": {"columns": columns}, "views": {"count": views}}, (n, n))
        for noise in (0, 0.02):
            y = clean + noise * clean.max() * np.random.default_rng(0).normal(size=clean.shape)
            for window in ("ram-lak", "hann"):
                cells = [f"{psnr(ours(operator, y, window)):.2f}"]
                for rule in ("line", "linear", "strip") if astra else ():
                    geometry, grid = astra.create_proj_geom("parallel", 1.0, columns, angles), astra.create_vol_geom(n, n)
                    settings = astra.astra_dict("FBP")
                    settings |= {"ProjectionDataId": astra.data2d.create("-sino", geometry, y), "ReconstructionDataId": astra.data2d.create("-vol", grid),
                                 "ProjectorId": astra.create_projector(rule, geometry, grid), "FilterType": window}
                    astra.algorithm.run(astra.algorithm.create(settings))
                    cells.append(f"{psnr(astra.data2d.get(settings['ReconstructionDataId'])):.2f}")
                print("|", " | ".join([str(views), f"{100 * noise:.0f} %", window, *cells]), "|", flush=True)


def rtk_fdk(rtk, itk, y, angles, pitch, axis, detector, n, cut):
    image = itk.Image[itk.F, 3]
    geometry = rtk.ThreeDCircularProjectionGeometry.New()
    for angle in angles:
        geometry.AddProjection(axis, detector, float(np.degrees(angle)))
    samples = itk.image_from_array(y.astype(np.float32))
    samples.SetSpacing([pitch, pitch, 1])
    samples.SetOrigin([-(y.shape[2] - 1) / 2 * pitch, -(y.shape[1] - 1) / 2 * pitch, 0])
    volume = rtk.ConstantImageSource[image].New()
    volume.SetSize([n] * 3)
    volume.SetSpacing([1] * 3)
    volume.SetOrigin([-(n - 1) / 2] * 3)
    fdk = rtk.FDKConeBeamReconstructionFilter[image].New()
    fdk.SetInput(0, volume.GetOutput())
    fdk.SetInput(1, samples)
    fdk.SetGeometry(geometry)
    fdk.GetRampFilter().SetTruncationCorrection(0)
    fdk.GetRampFilter().SetHannCutFrequency(cut)
    fdk.Update()
    return itk.array_from_image(fdk.GetOutput()).transpose(1, 0, 2)


def cone():
    n = 64
    columns, axis, detector, pitch, size = 2 * n, 4.0 * n, 8.0 * n, 1.25, 0.45 * n
    truth = head(n, size, False)
    middle = np.arange(n) - (n - 1) / 2
    seen = (middle[:, None] ** 2 + middle ** 2 < (0.47 * n) ** 2)[None] & (abs(middle) < 0.4 * n)[:, None, None]
    psnr = lambda x: -10 * np.log10(np.mean((x - truth)[seen] ** 2))
    try:
        import itk
        from itk import RTK as rtk
        rtk_fdk(rtk, itk, np.zeros((3, 8, 8)), [0, 1, 2], pitch, axis, detector, 4, 0)  # loads itself at the first call
    except ImportError:
        rtk = None
    off = (np.arange(columns) - (columns - 1) / 2) * pitch
    print("| views | noise | window | tessera | RTK | seconds | RTK |\n|---|---|---|---|---|---|---|")
    for views in (60, 180, 720):
        angles = np.arange(views) * 2 * np.pi / views
        clean = []
        for t in angles:
            source, u = axis * np.array([np.sin(t), np.cos(t), 0]), np.array([np.cos(t), -np.sin(t), 0])
            ray = (1 - detector / axis) * source + off[None, :, None] * u + off[:, None, None] * np.array([0, 0, 1]) - source
            clean.append(integrals(source, ray / np.linalg.norm(ray, axis=-1, keepdims=True), size, False))
        clean = np.stack(clean)
        operator = tessera.operator({"type": "tomography", "beam": "cone", "source_axis": axis, "source_detector": detector, "voxel": 1.0,
                                     "detector": {"rows": columns, "columns": columns, "pitch": pitch}, "views": {"count": views}}, (1, n, n, n))
        for noise in (0, 0.02):
            y = clean + noise * clean.max() * np.random.default_rng(0).normal(size=clean.shape)
            for window, cut in (("ram-lak", 0), ("hann", 1.0)):
                begin = time.perf_counter()
                cells, seconds = [f"{psnr(ours(operator, y[None], window)[0]):.2f}"], [f"{time.perf_counter() - begin:.2f}"]
                if rtk:
                    begin = time.perf_counter()
                    cells.append(f"{psnr(rtk_fdk(rtk, itk, y, angles, pitch, axis, detector, n, cut)):.2f}")
                    seconds.append(f"{time.perf_counter() - begin:.2f}")
                print("|", " | ".join([str(views), f"{100 * noise:.0f} %", window, *cells, *seconds]), "|", flush=True)


if __name__ == "__main__":
    kinds = {"parallel": parallel, "cone": cone}
    if len(sys.argv) != 2 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    kinds[sys.argv[1]]()
