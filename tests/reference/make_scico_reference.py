#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A deblurring by SCICO's own plug-and-play ADMM with SCICO's own DnCNN, kept beside this file.

    jobs/setup.sh --tests                 # makes .venv-scico
    .venv-scico/bin/python tests/reference/make_scico_reference.py

Writes scico.safetensors (the problem and the iterates) and scico_dncnn6L.mpk (the weights, as they lie in the wheel).
Of the package nothing is changed. --to, --variant and --seed make the same elsewhere, for another network and problem.
Each check that could make the reference useless is an assertion here. README.md lists the contents.
"""
import argparse
import hashlib
import importlib.metadata
import os
import shutil
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
import numpy as np
import scico.numpy as snp
from safetensors.numpy import save_file
from scico import functional, linop, loss
from scico.data import _flax_data_path
from scico.optimize.admm import ADMM, CircularConvolveSolver

FOLDER = Path(__file__).resolve().parent
SIDE, NOISE, RHO, ITERATES = 64, 0.03, 0.0625, (1, 3, 20)


def scene(seed):
    """Shading, two discs, a bar and a fine grating, drawn from a seed: (SIDE, SIDE), float64, in [0, 1]."""
    a = np.random.default_rng(seed).random(9)
    v, u = np.meshgrid(np.linspace(0, 1, SIDE), np.linspace(0, 1, SIDE), indexing="ij")
    p = 0.4 + 0.2 * np.sin(5 * u + 6 * a[0]) + 0.1 * np.cos(7 * v + 3 * u)
    p = np.where((u - a[1]) ** 2 + (v - a[2]) ** 2 < 0.05, 0.3 + 0.6 * a[3], p)
    p = np.where((u - a[4]) ** 2 + (v - a[5]) ** 2 < 0.02, 0.9 * a[6], p)
    p = np.where(abs(u - 0.3 * v - 0.4 * a[7]) < 0.05, 0.1 + 0.8 * a[8], p)
    return np.clip(p + 0.08 * np.sin(60 * u + 40 * v) * (v > 0.6), 0, 1)


def problem(seed):
    """truth, kernel (9 x 7, oblique and off its center, so that a flip or a shift shows), y; float32."""
    r, c = np.arange(-4, 5)[:, None], np.arange(-3, 4)[None, :]
    kernel = np.exp(-((r - 0.4) ** 2 / 8 + (c + 0.3) ** 2 / 4 - 0.12 * r * c))
    kernel = (kernel / kernel.sum()).astype(np.float32)
    truth = scene(seed).astype(np.float32)
    noise = np.random.default_rng(seed + 1).standard_normal(truth.shape)
    y = np.asarray(blur(kernel)(snp.array(truth))) + NOISE * noise
    return truth, kernel, y.astype(np.float32)


def blur(kernel):
    return linop.CircularConvolve(snp.array(kernel), input_shape=(SIDE, SIDE), h_center=[n // 2 for n in kernel.shape])


def admm(kernel, y, variant):
    """SCICO's z after 1 ... iterations, from x = z = y, u = 0; f = 1/2 |A x - y|^2, the prox of g the denoiser."""
    solver = ADMM(f=loss.SquaredL2Loss(y=snp.array(y), A=blur(kernel)), g_list=[functional.DnCNN(variant)],
                  C_list=[linop.Identity((SIDE, SIDE))], rho_list=[RHO], x0=snp.array(y),
                  subproblem_solver=CircularConvolveSolver())
    iterates = [y]
    for _ in range(ITERATES[-1]):
        solver.step()
        iterates.append(np.asarray(solver.z_list[0]))
    return iterates


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def psnr(image, truth):
    return -10 * np.log10(np.mean((image - truth) ** 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=FOLDER, help="folder of the files")
    parser.add_argument("--variant", default="6L", help="of SCICO's DnCNN")
    parser.add_argument("--seed", type=int, default=2, help="of picture and noise")
    args = parser.parse_args()

    truth, kernel, y = problem(args.seed)
    z = admm(kernel, y, args.variant)
    flipped = admm(kernel[::-1, ::-1], y, args.variant)
    moved = relative(z[-2], z[-1])
    print(f"{args.variant}: PSNR {psnr(y, truth):.2f} -> {psnr(z[-1], truth):.2f} dB, last movement {moved:.1e}, "
          f"with the kernel turned {relative(flipped[1], z[1]):.1e} off at first")
    assert psnr(z[-1], truth) > psnr(y, truth) + 1
    assert all(relative(z[k], z[-1]) > 1e-3 for k in ITERATES[:-1])  # else equal iterates would say little
    assert relative(flipped[1], z[1]) > 1e-2

    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("scico", "jax", "flax"))
    tensors = {"truth": truth, "kernel": kernel, "y": y, "rho": np.array(RHO)} | {f"z{k}": z[k] for k in ITERATES}
    save_file(tensors, args.to / "scico.safetensors", metadata={"source": f"{versions}, CPU", "variant": args.variant})
    shutil.copy(_flax_data_path(f"dncnn{args.variant}.mpk"), args.to / f"scico_dncnn{args.variant}.mpk")
    if args.to == FOLDER:
        files = sorted(f for f in FOLDER.iterdir() if f.suffix in (".safetensors", ".mpk"))
        (FOLDER / "SHA256SUMS").write_text("".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in files))


if __name__ == "__main__":
    main()
