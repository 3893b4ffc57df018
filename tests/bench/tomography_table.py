#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Scans of many kinds by every method, ours and those of other packages, from the same closed-form samples of a Shepp-Logan head:
PSNR in dB against the means over pixels, and seconds of CPU. The tables of docs/tomography_measured.md.

    pip install astra-toolbox==2.5.0 itk-rtk==2.7.0.post1 algotom==1.7.0 mbirjax==0.7.3   # beside torch, numpy, h5py, PyYAML; what is missing is left out
    PATH=build/release/bin:$PATH PYTHONPATH=python python tests/bench/tomography_table.py kinds [KIND...]    (20 minutes)
    ... align [KIND...]     40 drawn scans whose geometry is found in their samples (8 minutes)
    PYTHONPATH=python python tests/bench/tomography_table.py direct [parallel|cone]    FBP and FDK by views, noise and window (5 minutes)
"""
import importlib
import os
import sys
import tempfile

import numpy as np
import yaml

import tessera

PHOTONS, DEEPEST = 20000, 3.0  # of the kinds; the deepest line integral, in nepers
# density, half axes (x, y, z), center, turned by degrees about z; lengths in units of the head's
HEAD = [(1, .69, .92, .81, 0, 0, 0, 0), (-.8, .6624, .874, .78, 0, -.0184, 0, 0), (-.2, .11, .31, .22, .22, 0, 0, -18),
        (-.2, .16, .41, .28, -.22, 0, 0, 18), (.1, .21, .25, .41, 0, .35, -.15, 0), (.1, .046, .046, .05, 0, .1, .25, 0),
        (.1, .046, .046, .05, 0, -.1, .25, 0), (.1, .046, .023, .05, -.08, -.605, 0, 0), (.3, .12, .05, .3, .35, -.4, .2, 30)]


def package(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def has_rtk():
    try:
        from itk import RTK
        return hasattr(RTK, "ThreeDCircularProjectionGeometry")
    except ImportError:
        return False


def turned(points, degrees):
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.stack([c * points[..., 0] + s * points[..., 1], -s * points[..., 0] + c * points[..., 1], points[..., 2]], -1)


def integrals(start, ray, size, flat):
    """Of the head along rays; flat: its middle slice, without end along z."""
    ray = ray / np.linalg.norm(ray, axis=-1, keepdims=True)
    out = np.zeros(ray.shape[:-1])
    for density, a, b, c, x, y, z, tilt in HEAD:
        half = np.array([a, b, np.inf if flat else c]) * size
        o, d = turned(start - np.array([x, y, 0 if flat else z]) * size, tilt) / half, turned(ray, tilt) / half
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


class Scan:
    """Where rays go: a beam, angles, and for fans and cones distances; the detector stands `aside` columns to the right; `lean` in
    degrees; source and detector stand `off` columns aside of the axis together and climb by `climb` in a turn (a helix, evenly above
    and below the middle), the detector is turned by `rotation` degrees, and each view stands `shifts` columns to the right; lengths
    in voxels."""

    def __init__(self, beam, n, views, turn, aside=0, lean=0, high=None, wide=None, pitch=None, off=0.0, rotation=0.0, shifts=None, climb=0.0):
        self.beam, self.n, self.turn, self.aside, self.lean, self.flat = beam, n, turn, aside, lean, beam != "cone" and not high
        self.off, self.rotation, self.shifts = off, rotation, np.zeros(views) if shifts is None else shifts
        self.angles = np.arange(views) * np.radians(turn) / views
        self.heights = climb * (self.angles - self.angles.mean()) / (2 * np.pi)
        self.axis, self.detector, self.pitch = (4.0 * n, 8.0 * n, 1.25) if beam == "cone" else (2.0 * n, 4.0 * n, 1.6)
        if beam == "parallel":
            self.pitch = 1.0
        self.pitch = pitch or self.pitch
        self.columns = wide or (2 * n if beam == "cone" else int(1.445 * n) if beam == "parallel" else int(2.2 * n))
        self.rows = 1 if self.flat else high or 2 * n
        self.size = (0.48 if self.flat else 0.45) * n
        self.truth = head(n, self.size, self.flat)
        middle = np.arange(n) - (n - 1) / 2
        disk = middle[:, None] ** 2 + middle ** 2 < (0.47 * n) ** 2
        self.seen = (disk if self.flat else disk[None] & (abs(middle) < 0.4 * n)[:, None, None])

    def samples(self, finer=1):
        """Of rays to the middles of samples, or the means over `finer` places across a column and, of a cone, a row."""
        high = 1 if self.flat else finer
        u = ((np.arange(finer * self.columns) - (finer * self.columns - 1) / 2) / finer + self.aside) * self.pitch
        v = (np.arange(high * self.rows) - (high * self.rows - 1) / 2) / high * self.pitch
        out = []
        cr, sr = np.cos(np.radians(self.rotation)), np.sin(np.radians(self.rotation))
        for k, shift in enumerate(self.shifts):
            across, toward, down = self.frame(k)
            along, below = cr * across + sr * down, cr * down - sr * across
            at = (u + shift * self.pitch)[None, :, None] * along + v[:, None, None] * below
            if self.beam == "parallel":
                at = at - self.off * self.pitch * along
                out.append(integrals(at, np.broadcast_to(toward, at.shape), self.size, self.flat))
            else:
                middle = -self.off * self.pitch * self.axis / self.detector * across + np.array([0, 0, self.heights[k]])
                source = middle + self.axis * toward
                out.append(integrals(source, middle + at + (self.axis - self.detector) * toward - source, self.size, self.flat))
        return np.stack(out).reshape(len(self.angles), self.rows, high, self.columns, finer).mean((2, 4))

    def frame(self, view):
        """Along columns, toward the source, along rows; of length 1, of a detector that is not turned."""
        c, s, cl, sl = np.cos(self.angles[view]), np.sin(self.angles[view]), np.cos(np.radians(self.lean)), np.sin(np.radians(self.lean))
        return np.array([c, -s, 0]), np.array([s * cl, c * cl, sl]), np.array([-s * sl, -c * sl, cl])

    def vectors(self):
        """Source, detector, steps along columns and rows of each view, in a file, whose path this is."""
        rows = []
        for k, height in enumerate(self.heights):
            across, toward, down = self.frame(k)
            high = np.array([0, 0, height])
            rows.append([*(high + self.axis * toward), *(high + (self.axis - self.detector) * toward), *(self.pitch * across), *(self.pitch * down)])
        path = os.path.join(tempfile.mkdtemp(), "vectors.txt")
        np.savetxt(path, rows)
        return path

    def operator(self):
        if self.heights.any():
            return {"type": "tomography", "beam": self.beam, "views": {"geometry": self.vectors()}, "detector": {"rows": self.rows, "columns": self.columns}, "voxel": 1.0}
        o = {"type": "tomography", "beam": self.beam, "views": {"count": len(self.angles), "last": float(self.turn)},
             "detector": {"columns": self.columns, "pitch": self.pitch}}
        if self.beam == "parallel":
            return o | {"detector": o["detector"] | {"axis": -float(self.aside)} | ({} if self.flat else {"rows": self.rows})}
        o |= {"source_axis": self.axis, "source_detector": self.detector, "voxel": 1.0}
        o["detector"] |= {"shift": float(self.aside)} | ({"rows": self.rows} if self.beam == "cone" else {})
        return o | ({"lean": float(self.lean)} if self.lean else {})

    def shape(self):
        return (self.n, self.n) if self.flat else (1, self.n, self.n, self.n)

    def psnr(self, x):
        return -10 * np.log10(np.mean((np.asarray(x, float).reshape(self.truth.shape) - self.truth)[self.seen] ** 2))


def clocked(work):
    """The result and seconds of CPU, children's too."""
    before = os.times()
    result = work()
    after = os.times()
    return result, sum(after[:4]) - sum(before[:4])


# ---- other packages: each returns a volume or slice in our layout

def astra_slice(astra, scan, y, name, rule="linear", window=None, iterations=1):
    if scan.beam == "parallel":
        geometry = astra.create_proj_geom("parallel", scan.pitch, scan.columns, scan.angles)
    else:
        geometry = astra.create_proj_geom("fanflat", scan.pitch, scan.columns, scan.angles, scan.axis, scan.detector - scan.axis)
    grid = astra.create_vol_geom(scan.n, scan.n)
    settings = astra.astra_dict(name)
    settings |= {"ProjectionDataId": astra.data2d.create("-sino", geometry, y), "ReconstructionDataId": astra.data2d.create("-vol", grid),
                 "ProjectorId": astra.create_projector(rule + ("_fanflat" if scan.beam == "fan" else ""), geometry, grid)}
    settings |= {"FilterType": window} if window else {"option": {"MinConstraint": 0.0}}
    astra.algorithm.run(astra.algorithm.create(settings), iterations)
    out = astra.data2d.get(settings["ReconstructionDataId"]).copy()
    astra.clear()
    return out


def algotom_slice(scan, y, window, fourier=False):
    rec = importlib.import_module("algotom.rec.reconstruction")
    center, n = (scan.columns - 1) / 2 - scan.aside, scan.n
    # Its image turns about the column `center` of a square of columns; angles as ours.
    if fourier:
        out = rec.dfi_reconstruction(y.astype(np.float32), center, angles=scan.angles, ratio=None, filter_name=window, apply_log=False, ncore=1)
    else:
        out = rec.fbp_reconstruction(y.astype(np.float32), center, angles=scan.angles, ratio=None, filter_name=window, apply_log=False, gpu=False, ncore=1)
    first = (scan.columns - n) // 2
    return out[first : first + n, first : first + n]


class Rtk:
    """A scan in RTK's terms; slices are the middle of a few rows that are all alike."""

    def __init__(self, scan, y):
        import itk
        from itk import RTK
        self.itk, self.rtk, self.scan, self.image = itk, RTK, scan, itk.Image[itk.F, 3]
        self.geometry = RTK.ThreeDCircularProjectionGeometry.New()
        for angle, height in zip(scan.angles, scan.heights.tolist()):
            self.geometry.AddProjection(scan.axis, scan.detector, float(np.degrees(angle)), scan.aside * scan.pitch, height, float(-scan.lean), 0.0, 0.0, height)
        if scan.flat:
            y = np.repeat(y, 5, 1)
        self.samples = itk.image_from_array(np.ascontiguousarray(y, np.float32))
        self.samples.SetSpacing([scan.pitch, scan.pitch, 1])
        self.samples.SetOrigin([-(y.shape[2] - 1) / 2 * scan.pitch, -(y.shape[1] - 1) / 2 * scan.pitch, 0])

    def volume(self):
        n, high = self.scan.n, 1 if self.scan.flat else self.scan.n
        out = self.kept = self.rtk.ConstantImageSource[self.image].New()  # its output goes with it
        out.SetSize([n, high, n])
        out.SetSpacing([1] * 3)
        out.SetOrigin([-(n - 1) / 2, -(high - 1) / 2, -(n - 1) / 2])
        return out.GetOutput()

    def array(self, done):
        done.Update()
        return self.itk.array_from_image(done.GetOutput()).transpose(1, 0, 2)

    def fdk(self, window):
        samples = self.samples
        if self.scan.aside:
            wide = self.rtk.DisplacedDetectorImageFilter[self.image].New(Input=samples, Geometry=self.geometry)
            wide.Update()
            samples = wide.GetOutput()
        if self.scan.turn < 360:
            short = self.rtk.ParkerShortScanImageFilter[self.image].New(Input=samples, Geometry=self.geometry)
            short.InPlaceOff()
            short.Update()
            samples = short.GetOutput()
        fdk = self.rtk.FDKConeBeamReconstructionFilter[self.image].New()
        fdk.SetInput(0, self.volume())
        fdk.SetInput(1, samples)
        fdk.SetGeometry(self.geometry)
        fdk.GetRampFilter().SetTruncationCorrection(0)
        fdk.GetRampFilter().SetHannCutFrequency(float(window == "hann"))
        fdk.GetRampFilter().SetCosineCutFrequency(float(window == "cosine"))
        return self.array(fdk)

    def sirt(self, iterations):
        sart = self.rtk.SARTConeBeamReconstructionFilter[self.image, self.image].New()
        sart.SetInput(0, self.volume())
        sart.SetInput(1, self.samples)
        sart.SetGeometry(self.geometry)
        sart.SetNumberOfIterations(iterations)
        sart.SetNumberOfProjectionsPerSubset(len(self.scan.angles))
        sart.SetEnforcePositivity(True)
        sart.SetDisableDisplacedDetectorFilter(not self.scan.aside)
        return self.array(sart)

    def variation(self, alpha, gamma=10.0):
        kind = self.rtk.ADMMTotalVariationConeBeamReconstructionFilter[self.image]
        tv = kind.New()
        tv.SetInput(0, self.volume())
        tv.SetInput(1, self.samples)
        tv.SetGeometry(self.geometry)
        tv.SetAL_iterations(20)
        tv.SetCG_iterations(3)
        tv.SetAlpha(alpha)
        tv.SetBeta(gamma)
        tv.SetDisableDisplacedDetectorFilter(not self.scan.aside)
        return self.array(tv)


def mbirjax_volume(mbirjax, scan, y, weights):
    shape = (len(scan.angles), scan.rows, scan.columns)
    if scan.beam == "cone":
        model = mbirjax.ConeBeamModel(shape, scan.angles, source_detector_dist=scan.detector / scan.pitch, source_iso_dist=scan.axis / scan.pitch,
                                      helical_z_shifts=scan.heights / scan.pitch)
        model.set_params(no_warning=True, det_channel_offset=-scan.aside, delta_voxel=1 / scan.pitch)
    else:
        model = mbirjax.ParallelBeamModel(shape, scan.angles)
        model.set_params(no_warning=True, delta_voxel=1.0)
    model.set_params(no_warning=True, verbose=0, recon_shape=(scan.n, scan.n, 1 if scan.flat else scan.n))
    x, _ = model.recon(y.astype(np.float32) / scan.pitch, weights=weights.astype(np.float32))
    return np.asarray(x).transpose(2, 0, 1)


def best(scan, tries):
    """Of settings that the peer leaves to its user: what the truth likes best, (PSNR, seconds of that one)."""
    done = [(scan.psnr(x), seconds) for x, seconds in map(clocked, tries)]
    return max(done)


def cell(done):
    return "" if done is None else f"{done[0]:.2f} ({done[1]:.1f})"


# ---- tables

COARSE = {"wide": 80, "high": 80, "pitch": 2.0}  # of volumes, whose peers take minutes
KINDS = {"parallel, 180 views": lambda: Scan("parallel", 256, 180, 180), "parallel, 45 views": lambda: Scan("parallel", 256, 45, 180),
         "fan, 180 views": lambda: Scan("fan", 256, 180, 360), "cone, 60 views": lambda: Scan("cone", 64, 60, 360, **COARSE),
         "half acquisition, 360 views": lambda: Scan("parallel", 256, 360, 360, aside=90, wide=256),
         "displaced cone, 60 views": lambda: Scan("cone", 64, 60, 360, aside=15, **COARSE | {"wide": 50}),
         "short scan, cone, 60 views over 220 degrees": lambda: Scan("cone", 64, 60, 220, **COARSE),
         "helix, cone climbing by 24 voxels a turn, 180 views over 3 turns": lambda: Scan("cone", 64, 180, 1080, climb=24.0, **COARSE | {"high": 40}),
         "laminography, cone leaning by 30 degrees, 60 views": lambda: Scan("cone", 64, 60, 360, lean=30, **COARSE | {"high": 100})}


def kinds(wanted):
    astra, algotom, jax = package("astra"), package("algotom"), package("mbirjax")
    rtk = has_rtk()
    print("| | FBP, FDK | SIRT | total variation | network | direct: astra / algotom / RTK | SIRT: astra / RTK | TV: RTK | mbirjax |\n|---" + "|---" * 8 + "|")
    for name, make in KINDS.items():
        if wanted and not any(name.startswith(w) for w in wanted):
            continue
        scan = make()
        clean = scan.samples(4 if scan.flat else 3)
        unit = DEEPEST / clean.max()
        counts = np.random.default_rng(len(scan.angles)).poisson(PHOTONS * np.exp(-unit * clean)).clip(1)
        y, weights = -np.log(counts / PHOTONS) / unit, counts * unit ** 2
        picture = [1, *clean[:, 0].shape] if scan.flat else [1, *clean.shape]
        base = {"measurements": y.astype(np.float32).reshape(picture), "weights": weights.astype(np.float32).reshape(picture), "operator": scan.operator(),
                "scale": {"factor": 1}, "noise": {"gaussian": float(weights.mean() ** -0.5)}, "image": {"size": [scan.n] * (2 if scan.flat else 3)}}

        def ours(solver, denoiser=None, weighted=True):
            job = {"problem": {key: value for key, value in base.items() if weighted or key != "weights"}, "device": "cpu", "solver": solver} | ({"denoiser": denoiser} if denoiser else {})
            try:
                done, seconds = clocked(lambda: tessera.run(job, ranks=1, progress=False))
            except tessera.Error as error:
                print(name, solver, str(error)[:300], file=sys.stderr)
                return None
            return scan.psnr(done.image), seconds

        steps = (50, 100, 200, 400) if scan.flat else (30, 100)  # of SIRT, whose rays all weigh alike, as in the other packages
        network = {"network": "drunet"} if scan.flat else {"network": "drunet", "planes": "all"}
        cells = [max(filter(None, (ours({"name": "fbp", "window": w}) for w in ("hann", "ram-lak"))), default=None),
                 max(ours({"name": "sirt", "iterations": k, "bounds": "nonnegative"}, weighted=False) for k in steps),
                 ours({"name": "admm", "iterations": 60, "bounds": "nonnegative"}, {"network": "tv"}),
                 ours({"bounds": "nonnegative"}, network)]
        direct, sirt, tv, mbir = [], [], [], ""
        whole = scan.aside == 0
        if astra and scan.flat and whole:
            flat = y[:, 0]
            if scan.beam == "parallel":
                direct.append(cell(best(scan, [lambda w=w, r=r: astra_slice(astra, scan, flat, "FBP", r, w) for w in ("hann", "ram-lak") for r in ("line", "linear", "strip")])))
            rule = "linear" if scan.beam == "parallel" else "line"
            sirt.append(cell(best(scan, [lambda k=k: astra_slice(astra, scan, flat, "SIRT", rule, None, k) for k in steps])))
        if algotom and scan.beam == "parallel" and whole:
            direct.append(cell(best(scan, [lambda w=w, f=f: algotom_slice(scan, y[:, 0], w, f) for w in ("hann", None) for f in (False, True)])))
        if rtk and scan.beam != "parallel":
            there = Rtk(scan, y)
            if not scan.lean and not scan.heights.any():
                direct.append(cell(best(scan, [lambda w=w: there.fdk(w) for w in ("ram-lak", "hann")])))
            if not scan.flat:
                sirt.append(cell(best(scan, [lambda k=k: there.sirt(k) for k in steps])))
                try:
                    tv.append(cell(best(scan, [lambda a=a: there.variation(a) for a in (1, 10)])))
                except RuntimeError as error:  # of a helix: it asks for views that it has not read
                    print(name, "RTK's total variation:", str(error)[-300:], file=sys.stderr)
        if jax and scan.beam != "fan" and whole and not scan.lean and scan.turn != 220:
            mbir = cell(best(scan, [lambda: mbirjax_volume(jax, scan, y, weights)]))
        print("|", " | ".join([name, *map(cell, cells), *(" / ".join(peer) for peer in (direct, sirt, tv)), mbir]), "|", flush=True)


def ours_direct(operator, y, window):
    return tessera.reconstruct(y, operator, noise=0.01, denoiser="none", settings={"solver": {"name": "fbp", "window": window}}).image


def direct_parallel():
    astra, algotom = package("astra"), package("algotom")
    print("| views | noise | window | tessera | astra line | linear | strip | algotom | its Fourier |\n|---" + "|---" * 8 + "|")
    for views in (60, 180, 720):
        scan = Scan("parallel", 256, views, 180, wide=370)
        clean, operator = scan.samples()[:, 0], tessera.operator(scan.operator(), scan.shape())
        for noise in (0, 0.02):
            y = clean + noise * clean.max() * np.random.default_rng(0).normal(size=clean.shape)
            for window in ("ram-lak", "cosine", "hann"):
                found = [ours_direct(operator, y, window)]
                found += [astra_slice(astra, scan, y, "FBP", rule, window) for rule in ("line", "linear", "strip") if astra]
                cells = [f"{scan.psnr(x):.2f}" for x in found]
                if algotom and window != "cosine":  # which it lacks
                    cells += [f"{scan.psnr(algotom_slice(scan, y, window if window == 'hann' else None, f)):.2f}" for f in (False, True)]
                print("|", " | ".join([str(views), f"{100 * noise:.0f} %", window, *cells]), "|", flush=True)


def direct_cone():
    rtk = has_rtk()
    print("| views | noise | window | tessera | RTK | CPU s | RTK |\n|---|---|---|---|---|---|---|")
    for views in (60, 180, 720):
        scan = Scan("cone", 64, views, 360)
        clean, operator = scan.samples(), tessera.operator(scan.operator(), scan.shape())
        for noise in (0, 0.02):
            y = clean + noise * clean.max() * np.random.default_rng(0).normal(size=clean.shape)
            for window in ("ram-lak", "cosine", "hann"):
                done = [clocked(lambda: ours_direct(operator, y[None], window))]
                done += [clocked(lambda: Rtk(scan, y).fdk(window))] if rtk else []
                print("|", " | ".join([str(views), f"{100 * noise:.0f} %", window, *(f"{scan.psnr(x):.2f}" for x, _ in done), *(f"{s:.2f}" for _, s in done)]), "|", flush=True)


def drawn_scan(kind, seed):
    """A scan whose geometry differs from what it is taken for, and which keys say so."""
    random = np.random.default_rng(seed)
    off, views = float(random.uniform(-12, 12)), int(random.integers(120, 240))
    if kind == "axis of a fan":
        return Scan("fan", 128, views, int(random.choice([240, 360])), off=off), {"axis": off}, "none"
    if kind == "axis of a cone":
        return Scan("cone", 64, views, 360, off=off, **COARSE | {"wide": 104}), {"axis": off}, "none"
    if kind == "rotation of a cone":
        rotation = float(random.uniform(-1.5, 1.5))
        return Scan("cone", 64, views, 360, off=off, rotation=rotation, **COARSE | {"wide": 104}), {"axis": off, "rotation": rotation}, "rotation"
    if kind.startswith("rotation"):
        rotation = float(random.uniform(-3, 3))
        scan = Scan("parallel", 48, views, int(random.choice([180, 360])), off=off / 3, high=48, wide=80, rotation=rotation)
        return scan, {"axis": scan.off, "rotation": rotation}, "rotation"
    shifts = random.normal(size=views)
    base = np.stack([np.ones(views), *(f(np.arange(views) * np.radians(180 if "parallel" in kind else 360) / views) for f in (np.cos, np.sin))], 1)
    shifts -= base @ np.linalg.lstsq(base, shifts, rcond=None)[0]  # what an axis or the object elsewhere would do
    scan = Scan("parallel", 128, views, 180, off=off / 2, shifts=shifts) if "parallel" in kind else Scan("fan", 128, views, 360, off=off / 2, shifts=shifts)
    return scan, {"axis": scan.off, "shifts": shifts}, "shifts"


def align(wanted):
    """FBP and FDK with what the samples tell of the geometry, with the true one, and as it is taken for, Poisson counts."""
    print("| | scans | as it is taken for, dB | found | true | worst loss | off by, worst | said to about |\n|---" + "|---" * 7 + "|")
    for kind, count in {"axis of a fan": 8, "axis of a cone": 6, "rotation of a parallel": 6, "rotation of a cone": 10, "shifts, parallel": 5, "shifts, fan": 5}.items():
        if wanted and not any(kind.startswith(w) for w in wanted):
            continue
        rows = []
        for seed in range(count):
            scan, true, word = drawn_scan(kind, 100 + seed)
            clean = scan.samples(4 if scan.flat else 3)
            unit = DEEPEST / clean.max()
            y = -np.log(np.random.default_rng(seed).poisson(PHOTONS * np.exp(-unit * clean)).clip(1) / PHOTONS) / unit
            shape = y[:, 0].shape if scan.flat else y.shape

            def psnr(align, **said):
                o = scan.operator() | {"values": "line_integrals", "align": align, "voxel": 1.0}
                o["detector"] = {k: v for k, v in o["detector"].items() if k not in ("axis", "shift", "columns")} | {k: float(v) for k, v in said.items() if k != "shifts"}
                if "shifts" in said:
                    o["views"] = o["views"] | {"shifts": [float(v) for v in said["shifts"]]}
                size = [scan.n] * (2 if scan.flat else 3)
                done = tessera.run({"problem": {"measurements": y.astype(np.float32).reshape(shape), "operator": o, "image": {"size": size}, "noise": {"gaussian": 0.01}},
                                    "device": "cpu", "solver": {"name": "fbp", "window": "hann"}}, ranks=1, progress=False)
                return scan.psnr(done.image), done

            taken = psnr("none", axis=true["axis"] if "shifts" in true or "rotation" in true else 0.0)[0]
            (found, done), (best, _) = psnr(word), psnr("none", **true)
            used = yaml.safe_load((done.folder / "resolved.yaml").read_text())["problem"]["operator"]
            key = "shifts" if "shifts" in true else "rotation" if "rotation" in true else "axis"
            got = np.array(used["views"]["shifts"]) if key == "shifts" else used["detector"][key]
            off = float(np.sqrt(np.mean((got - true[key]) ** 2)))
            said = [float(w.split("to about ")[1].split()[0].rstrip("):,;")) for w in done.notices if "to about " in w] or [np.nan]
            rows.append((taken, found, best, best - found, off, said[-1]))
            print(kind, seed, *(f"{v:.3f}" for v in rows[-1]), file=sys.stderr, flush=True)
        mean = np.mean(rows, 0)
        print("|", " | ".join([kind, str(count), *(f"{v:.2f}" for v in mean[:3]), f"{max(r[3] for r in rows):.2f}", f"{max(r[4] for r in rows):.3f}", f"{mean[5]:.3f}"]), "|", flush=True)


if __name__ == "__main__":
    asked = sys.argv[2:]
    if sys.argv[1:2] in (["kinds"], ["align"]):
        {"kinds": kinds, "align": align}[sys.argv[1]](asked)
    elif sys.argv[1:2] == ["direct"] and all(a in ("parallel", "cone") for a in asked):
        for name in asked or ("parallel", "cone"):
            {"parallel": direct_parallel, "cone": direct_cone}[name]()
    else:
        sys.exit(__doc__)
