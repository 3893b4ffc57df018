# SPDX-License-Identifier: BSD-3-Clause
"""Forward projections and adjoints of other packages for tomography.sh: tomography_peers.py CASE [SIDE [VIEWS]].

The body, the cases and the lines that are printed are those of bench_projector (projector.cpp): (1 - r^2)^2 inside of a
ball, error relative to its closed form. astra measures parallel2 (1 thread, as it is), mbirjax parallel3 and cone;
the second call is timed, after compilation. VIEWS: fewer of them where a whole scan takes minutes.
"""
import sys
import time

import numpy as np


def timed(work):
    work()
    best = None
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        seconds = time.perf_counter() - wall, time.process_time() - cpu
        best = seconds if best is None else tuple(map(min, best, seconds))
    return result, best


def ball(side, flat):
    at = np.arange(side) - 0.5 * (side - 1)
    radius, center = 0.4 * side, (0.05 * side, -0.03 * side, 0 if flat else 0.02 * side)
    square = (at[None, :] - center[0]) ** 2 + (at[:, None] - center[1]) ** 2
    if not flat:
        square = square[None] + ((at - center[2]) ** 2)[:, None, None]
    square = square / radius**2
    return np.where(square < 1, (1 - square) ** 2, 0).astype(np.float32), radius, np.array(center)


def integral(radius, center, points, ways):
    off = points - center
    along = (off * ways).sum(-1) ** 2 / (ways * ways).sum(-1)
    square = ((off * off).sum(-1) - along) / radius**2
    return np.where(square < 1, 16 / 15 * radius * np.maximum(1 - square, 0) ** 2.5, 0)


def rays(beam, angle, side, rows, columns):
    """Points on the detector and directions, (rows, columns, 3)."""
    across, toward = np.array([np.cos(angle), -np.sin(angle), 0]), np.array([np.sin(angle), np.cos(angle), 0])
    u, v = np.arange(columns) - 0.5 * (columns - 1), np.arange(rows) - 0.5 * (rows - 1)
    middle = toward * (-2.0 * side if beam == "cone" else 0)
    points = middle + u[None, :, None] * across + v[:, None, None] * np.array([0, 0, 1.0])
    return points, points - 2.0 * side * toward if beam == "cone" else np.broadcast_to(toward, points.shape)


def show(name, side, what, seconds, voxel_views, error=None):
    tail = "" if error is None else f"  error {error:.2e}"
    rate = 1e-9 * voxel_views / seconds[0]
    print(f"{name:<16} {side:5d} {what} {seconds[0]:8.3f} s wall {seconds[1]:8.3f} s cpu  {rate:6.2f} G voxel views/s{tail}",
          flush=True)


def astra_case(side):
    import astra
    views = 720 * side // 1024
    x, radius, center = ball(side, True)
    angles = np.pi * np.arange(views) / views
    volume = astra.create_vol_geom(side, side)
    scan = astra.create_proj_geom("parallel", 1.0, side * 3 // 2, angles)
    exact = np.stack([integral(radius, center, *rays("parallel", a, side, 1, side * 3 // 2))[0] for a in angles])
    for kind in ("linear", "line", "strip"):
        projector = astra.create_projector(kind, scan, volume)
        (number, y), forward = timed(lambda: astra.create_sino(x, projector))
        error = np.linalg.norm(y - exact) / np.linalg.norm(exact)
        show("astra " + kind, side, "forward", forward, x.size * views, error)
        _, back = timed(lambda: astra.create_backprojection(y, projector))
        show("astra " + kind, side, "adjoint", back, x.size * views)
        astra.data2d.clear()


def mbirjax_case(case, side, views):
    import mbirjax
    beam = "cone" if case == "cone" else "parallel"
    rows, columns = (2 * side, 2 * side) if beam == "cone" else (side, side * 368 // 256)
    turn = 2 * np.pi if beam == "cone" else np.pi
    angles = turn * np.arange(views) / views
    if beam == "cone":
        model = mbirjax.ConeBeamModel((views, rows, columns), angles, source_detector_dist=4.0 * side,
                                      source_iso_dist=2.0 * side)
    else:
        model = mbirjax.ParallelBeamModel((views, rows, columns), angles)
    model.set_params(no_warning=True, recon_shape=(side, side, side), delta_voxel=1.0, use_ror_mask=False)
    x, radius, center = ball(side, False)
    x = np.ascontiguousarray(x.transpose(1, 2, 0))
    y, forward = timed(lambda: np.asarray(model.forward_project(x)))
    error = norm = 0.0
    for k in range(views):
        exact = integral(radius, center, *rays(beam, angles[k], side, rows, columns))
        error += ((y[k] - exact) ** 2).sum()
        norm += (exact**2).sum()
    name = f"mbirjax, {views}"
    show(name, side, "forward", forward, x.size * views, np.sqrt(error / norm))
    _, back = timed(lambda: np.asarray(model.back_project(y)))
    show(name, side, "adjoint", back, x.size * views)


if __name__ == "__main__":
    case = sys.argv[1]
    if case == "parallel2":
        astra_case(int(sys.argv[2]) if len(sys.argv) > 2 else 1024)
    else:
        mbirjax_case(case, int(sys.argv[2]) if len(sys.argv) > 2 else 256,
                     int(sys.argv[3]) if len(sys.argv) > 3 else {"parallel3": 360, "cone": 30}[case])
