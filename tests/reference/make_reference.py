#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reference outputs of deepinv 0.5.0 and torch 2.11.0, written once beside this file as safetensors.

    python3 -m venv reference-venv
    reference-venv/bin/pip install deepinv==0.5.0 torch==2.11.0
    reference-venv/bin/python tests/reference/make_reference.py

CPU, one thread, every random number seeded. Each check that could make a reference useless is an assertion
here: adjoints pass the dot test, every weight tensor matters, the loops below equal deepinv's own solvers.
README.md lists the contents; --check compares a new run with the committed files, byte by byte, instead of writing.
"""

import argparse
import copy
import hashlib
import json
import math
import struct
import sys
from pathlib import Path

import deepinv
import torch
from deepinv.loss.metric import PSNR, SSIM
from deepinv.models import DRUNet, DnCNN, FFDNet, GSDRUNet, Restormer, SCUNet, UNet
from deepinv.models.GSPnP import GSPnP
from deepinv.optim import ADMM, GD, HQS, L2, PGD, PnP, RED
from deepinv.optim.dpir import get_DPIR_params
from deepinv.physics import Blur, BlurFFT, Downsampling, Inpainting, stack
from deepinv.physics.functional import gaussian_blur

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "jobs"))
from conversion import networks as known  # noqa: E402

F64 = torch.float64
DTYPES = {torch.float16: "F16", torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def save(name, tensors, out, **metadata):
    """The safetensors format: header length, JSON header, data; in order of name, so bytes are reproducible."""
    header = {"__metadata__": {"source": f"deepinv {deepinv.__version__}, torch {torch.__version__}, CPU", **metadata}}
    data = b""
    for key in sorted(tensors):
        t = tensors[key]
        t = torch.as_tensor(t, dtype=F64) if isinstance(t, (int, float)) else t.detach().contiguous()
        raw = t.numpy().tobytes()
        header[key] = {"dtype": DTYPES[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    out[name + ".safetensors"] = struct.pack("<Q", len(text)) + text + data


def scene(channels, height, width, seed):
    """Smooth shading, two discs, a bar and a fine grating: (1, C, H, W), float64, in [0, 1]."""
    g = torch.Generator().manual_seed(seed)
    r = torch.rand(64, generator=g, dtype=F64)
    v, u = torch.meshgrid(
        torch.linspace(0, 1, height, dtype=F64), torch.linspace(0, 1, width, dtype=F64), indexing="ij"
    )
    planes = []
    for c in range(channels):
        a = r[8 * c : 8 * c + 8]
        p = 0.35 + 0.25 * a[0] * torch.sin(5 * u + 6 * a[1]) + 0.2 * a[2] * torch.cos(7 * v * a[3] + 3 * u)
        p = torch.where((u - r[40]) ** 2 + (v - r[41]) ** 2 < 0.04, 0.2 + 0.7 * a[4], p)
        p = torch.where((u - r[42]) ** 2 + (v - r[43]) ** 2 < 0.02, 0.9 * a[5], p)
        p = torch.where((u - 0.3 * v - 0.4 * r[44]).abs() < 0.05, 0.1 + 0.8 * a[6], p)
        p = p + 0.08 * torch.sin(40 * u + 25 * v) * (v > 0.6)
        planes.append(p.clamp(0, 1))
    return torch.stack(planes)[None]


def normal(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def uniform(shape, seed):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


# ---------------------------------------------------------------------------------------------- networks


class SmallHeads(SCUNet):
    """SCUNet with attention heads of 3 channels in place of 32, so that a network of few weights has several."""

    head_dim = property(lambda self: 3, lambda self, value: None)


def train(net, channels, steps, seed):
    """A short training, so that the weights look like trained ones and a PnP iteration stays bounded."""
    with torch.no_grad():
        for key, w in net.state_dict().items():
            if isinstance(net, SCUNet):  # attention as sharp as that of trained weights
                w.mul_(50 if key.endswith("params") else 4 if "embedding" in key else 3 if "msa.linear" in key else 1)
            if w.ndim == 4 and isinstance(net, (DRUNet, GSPnP)):
                w.mul_(4)  # deepinv's start is so small that the deep levels would hardly matter
    net.train()
    net.detach = False  # of a GSPnP: its output depends on its weights
    adam = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(steps):
        clean = torch.cat([scene(channels, 32, 32, seed + 1000 * step + i) for i in range(4)]).float()
        sigma = torch.rand(4, 1, 1, 1) * 0.2
        loss = (net(clean + sigma * torch.randn_like(clean), sigma) - clean).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    net.eval().requires_grad_(False)
    net.detach = True
    return net


def denoise64(net, x, sigma):
    """The network in double; sigma as a double tensor, because a Python number becomes a float32 plane."""
    net, x, sigma = copy.deepcopy(net).double(), x.double(), torch.full((x.shape[0],), sigma, dtype=F64)
    if not isinstance(net, GSPnP):
        return net(x, sigma)
    x.requires_grad_()  # its forward() works in float32 alone; alpha is 1
    n = net.student_grad(x, sigma)
    return (n + torch.autograd.grad(n, x, x - n)[0]).detach()


def network_reference(name, net, channels, height, width, sigma, out, stored=torch.float32):
    for w in net.state_dict().values():
        w.copy_(w.to(stored))
    x = (scene(channels, height, width, 7) + sigma * normal((1, channels, height, width), 8)).float()
    y32, y64 = net(x, sigma), denoise64(net, x, sigma)
    assert relative(y32.double(), y64) < 2e-6, name
    for key, w in net.state_dict().items():  # a tensor that does not matter would be tested in vain
        if not w.is_floating_point():
            continue
        kept = w.clone()
        w.mul_(0.5)
        change = relative(denoise64(net, x, sigma), y64)
        assert change > 2e-5, f"{name}: halving {key} changes the output by {change:.1e} only"
        w.copy_(kept)
    assert relative(denoise64(net, x, sigma), y64) == 0
    print(f"{name}: {sum(w.numel() for w in net.state_dict().values())} weights, |D(x) - x| / |x| = {relative(y32, x):.3f}")
    weights = {key: w.to(stored) for key, w in net.state_dict().items() if w.is_floating_point()}
    network = known.identify(weights, None)
    _, tensors, about = network.named({**known.PUBLISHED[network.name], **network.known})
    save(name, {key: w.to(stored) for key, w in tensors.items()}, out, **({"residual": about["residual"]} if network.name == "unet" else {}))
    save(name + "_io", {"input": x[0], "sigma": sigma, "output": y32[0], "output64": y64[0]}, out)


def networks(out):
    torch.manual_seed(0)
    drunet = dict(nc=[4, 8, 12, 16], nb=2, pretrained=None)
    color = train(DRUNet(3, 3, **drunet), 3, 400, 1)
    gray = train(DRUNet(1, 1, **drunet), 1, 400, 2)
    network_reference("drunet_color", color, 3, 40, 48, 0.08, out)
    network_reference("drunet_gray", gray, 1, 64, 40, 0.05, out)
    network_reference("dncnn", train(DnCNN(3, 3, depth=7, nf=8, pretrained=None), 3, 300, 3), 3, 37, 45, 0.1, out)
    unet = train(UNet(1, 1, channels_per_scale=[4, 8, 12, 16]), 1, 300, 4)
    network_reference("unet", unet, 1, 48, 64, 0.1, out)
    small = train(UNet(3, 3, channels_per_scale=[6, 10], batch_norm=False), 3, 150, 5)
    network_reference("unet_plain", small, 3, 30, 42, 0.1, out)
    network_reference("gsdrunet", train(GSDRUNet(nb=2, nc=[4, 8, 12, 16]), 3, 300, 6), 3, 40, 48, 0.08, out)
    ffdnet = FFDNet(5, 8, 3, norm="batch_norm", last_conv_bias=False, pretrained=None)
    network_reference("ffdnet", train(ffdnet, 3, 300, 7), 3, 34, 46, 0.1, out)
    network_reference("ffdnet_plain", train(FFDNet(6, 8, 1, pretrained=None), 1, 300, 8), 1, 46, 34, 0.06, out)
    torch.manual_seed(0)  # whatever networks come before
    scunet = SmallHeads(1, config=[2] * 7, dim=6, pretrained=None)
    network_reference("scunet", train(scunet, 1, 60, 9), 1, 64, 128, 0.1, out, stored=torch.float16)
    torch.manual_seed(0)
    restormer = Restormer(1, 1, dim=4, num_blocks=(1, 2, 1, 1), num_refinement_blocks=2, pretrained=None)
    network_reference("restormer", train(restormer, 1, 100, 10), 1, 40, 56, 0.1, out, stored=torch.float16)
    return gray


# --------------------------------------------------------------------------------------------- operators


def operator_reference(physics, x, seed):
    """x, A x, v, A^T v, the proximal point of (z, y) at gamma, |A|^2; all double."""
    y = physics.A(x)
    parts = list(y) if isinstance(y, deepinv.utils.TensorList) else [y]
    vs = [normal(p.shape, seed + 10 + i) for i, p in enumerate(parts)]
    v = deepinv.utils.TensorList(vs) if len(parts) > 1 else vs[0]
    back = physics.A_adjoint(v)
    forward = sum((a * b).sum() for a, b in zip(parts, vs))
    assert abs(forward - (x * back).sum()) < 1e-12 * x.norm() * math.sqrt(sum(b.square().sum() for b in vs))
    tensors = {"x": x[0], "adjoint": back[0]}
    for i, (p, w) in enumerate(zip(parts, vs)):
        tensors[f"y{i}"], tensors[f"v{i}"] = p[0], w[0]
    # 1 / gamma is exact in float32, where deepinv keeps it for stacks.
    z, gamma = uniform(x.shape, seed + 1), 2.0
    up = 1e9  # the prox is linear in (z, y); deepinv's CG adds 1e-8 to its denominators, which is little then
    p = physics.prox_l2(up * z, up * y, gamma, max_iter=500, tol=1e-13) / up
    optimality = physics.A_adjoint(physics.A(p) - y) * gamma + p - z  # 0 at the minimizer
    assert optimality.norm() < 1e-10 * z.norm(), optimality.norm() / z.norm()
    tensors |= {"z": z[0], "prox": p[0], "gamma": gamma}
    torch.manual_seed(seed)
    tensors["norm_squared"] = physics.compute_sqnorm(torch.zeros_like(x), max_iter=5000, tol=1e-13, verbose=False).reshape(())
    return tensors


def prefixed(prefix, tensors):
    return {f"{prefix}.{k}": v for k, v in tensors.items()}


def operators(out):
    kernels = {}
    for name, sigma, angle in [("isotropic", (1.2, 1.2), 0), ("rows", (2.0, 0.7), 0), ("oblique", (0.6, 1.5), 30), ("steep", (1.1, 0.4), -70)]:
        k = gaussian_blur(sigma=sigma, angle=float(angle), dtype=F64).squeeze()
        kernels |= prefixed(name, {"sigma": torch.tensor(sigma, dtype=F64), "angle": angle, "kernel": k})
    save("operators_gaussian", kernels, out)

    x = scene(2, 19, 23, 11)
    odd = uniform((1, 1, 5, 7), 12)  # no symmetry: a flipped or shifted kernel shows
    even = uniform((1, 1, 4, 6), 13)
    odd, even = odd / odd.sum(), even / even.sum()
    for padding in ["circular", "reflect", "replicate", "constant", "valid"]:
        tensors = {}
        for name, kernel in [("odd", odd), ("even", even)]:
            physics = Blur(filter=kernel, padding=padding)
            tensors |= prefixed(name, operator_reference(physics, x, 20) | {"kernel": kernel[0, 0]})
            if padding == "circular":
                fourier = operator_reference(BlurFFT(img_size=(2, 19, 23), filter=kernel), x, 20)
                for key in ("y0", "adjoint", "prox", "norm_squared"):
                    assert relative(fourier[key], tensors[f"{name}.{key}"]) < 1e-9, key
        save("operators_blur_" + ("zero" if padding == "constant" else padding), tensors, out)

    tensors = {}
    for name, factor, shape, padding, kernel in [
        ("two_circular", 2, (20, 26), "circular", odd),
        ("three_circular", 3, (21, 18), "circular", even),
        ("four_reflect", 4, (20, 24), "reflect", odd),
        ("two_valid", 2, (20, 25), "valid", even),
        ("three_uneven", 3, (19, 23), "replicate", odd),  # sides are no multiples of the factor
    ]:
        physics = Downsampling(img_size=(1, *shape), filter=kernel, factor=factor, padding=padding)
        case = operator_reference(physics, scene(1, *shape, 14), 30) | {"kernel": kernel[0, 0], "factor": factor}
        tensors |= prefixed(name, case)
    save("operators_downsampling", tensors, out)

    mask = (uniform((1, 1, 19, 23), 15) < 0.6).double()
    tensors = operator_reference(Inpainting(img_size=(2, 19, 23), mask=mask.expand(1, 2, 19, 23)), x, 40)
    save("operators_mask", tensors | {"mask": mask[0, 0]}, out)

    parts = stack(
        Blur(filter=odd, padding="circular"),
        Blur(filter=even, padding="reflect"),
        Blur(filter=odd, padding="valid"),
        Downsampling(img_size=(1, 19, 23), filter=even, factor=2, padding="circular"),
    )
    tensors = operator_reference(parts, scene(1, 19, 23, 16), 50)
    save("operators_stack", tensors | {"odd": odd[0, 0], "even": even[0, 0]}, out)


# ----------------------------------------------------------------------------------------------- solvers


def solvers(gray, out):
    """The first and the last iterate of each solver, in double, from x = A^T y; written as the papers write them."""
    height, width, noise, count = 64, 48, 0.03, 8
    truth = scene(1, height, width, 21)
    kernel = gaussian_blur(sigma=(1.6, 0.8), angle=25.0, dtype=F64).reshape(1, 1, 13, 13)
    physics = BlurFFT(img_size=(1, height, width), filter=kernel)
    y = physics.A(truth) + noise * normal(truth.shape, 22)
    fidelity, net = L2(), gray.double()

    def tensor(value):
        return torch.tensor([value], dtype=F64)

    def D(v, sigma):
        return net(v, torch.as_tensor(sigma, dtype=F64).reshape(1))

    step, sigma, lam, beta, gamma = 0.875, 5 / 128, 0.25, 0.75, 4.0  # exact in float32, where deepinv keeps them
    at, start = {}, physics.A_adjoint(y)
    sigmas, gammas, count_dpir = get_DPIR_params(noise)
    assert count_dpir == count

    x = start
    for k in range(count):
        x = D(x - step * fidelity.grad(x, y, physics), sigma)
        at["pgd", k + 1] = x
    x = start
    for k in range(count):
        x = D(fidelity.prox(x, y, physics, gamma=gammas[k].double()), sigmas[k].double())
        at["hqs", k + 1] = x
    x, z = start, torch.zeros_like(start)
    for k in range(count):
        u = fidelity.prox(x - z, y, physics, gamma=gamma)
        x = D(u + z, sigma)
        z = z + beta * (u - x)
        at["admm", k + 1] = x
    x = start
    for k in range(count):
        x = x - step * (fidelity.grad(x, y, physics) + lam * (x - D(x, sigma)))
        at["red", k + 1] = x

    # deepinv's own solvers, same start.
    common = dict(data_fidelity=fidelity, max_iter=count, g_param=tensor(sigma))
    own = {
        "pgd": PGD(prior=PnP(net), stepsize=step, **common),
        "admm": ADMM(prior=PnP(net), stepsize=gamma, beta=beta, **common),
        "red": GD(prior=RED(net), stepsize=step, lambda_reg=lam, **common),
        "hqs": HQS(
            prior=PnP(net),
            data_fidelity=fidelity,
            max_iter=count,
            params_algo={"stepsize": [g.double() for g in gammas], "g_param": [tensor(s.double()) for s in sigmas], "lambda": 1.0},
        ),
    }
    init = {"admm": (start, torch.zeros_like(start))}
    for name, solver in own.items():
        theirs = solver(y, physics, init=init.get(name, (start,)))
        assert relative(at[name, count], theirs) < 1e-12, (name, relative(at[name, count], theirs))
        print(f"{name}: PSNR {PSNR()(start, truth).item():.2f} -> {PSNR()(theirs, truth).item():.2f} dB, last movement {relative(at[name, count - 1], at[name, count]):.1e}")
    net.float()

    problem = {"truth": truth[0], "kernel": kernel[0, 0], "y": y[0], "start": start[0], "noise": noise}
    problem |= {"step": step, "sigma": sigma, "lambda": lam, "beta": beta, "gamma": gamma, "iterations": count}
    problem |= {"dpir.sigma": sigmas.double(), "dpir.gamma": gammas.double()}
    save("solvers_problem", problem, out)
    for name in own:
        save("solvers_" + name, {f"x{k}": at[name, k][0] for k in (1, count)}, out)


# ----------------------------------------------------------------------------------------------- metrics


def metrics(out):
    tensors = {}
    for name, channels, height, width, sigma in [("color", 3, 32, 40, 0.07), ("gray", 1, 33, 47, 0.2)]:
        truth = scene(channels, height, width, 31)
        image = truth + sigma * normal(truth.shape, 32)  # leaves [0, 1]: neither score clamps
        psnr, ssim = PSNR()(image, truth), SSIM()(image, truth)
        print(f"metrics {name}: PSNR {psnr.item():.3f} dB, SSIM {ssim.item():.4f}")
        case = {"truth": truth[0], "image": image[0], "psnr": psnr.reshape(()), "ssim": ssim.reshape(())}
        tensors |= prefixed(name, case)
    save("metrics", tensors, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed files, write nothing")
    options = parser.parse_args()
    assert deepinv.__version__ == "0.5.0" and torch.__version__.split("+")[0] == "2.11.0", "other versions than the README says"
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    out = {}
    gray = networks(out)
    operators(out)
    solvers(gray, out)
    metrics(out)

    assert max(map(len, out.values())) < 250_000 and sum(map(len, out.values())) < 3_000_000
    if options.check:
        other = [name for name, data in out.items() if (FOLDER / name).read_bytes() != data]
        sys.exit(f"differ from the committed files: {', '.join(other)}" if other else 0)
    for name, data in out.items():
        (FOLDER / name).write_bytes(data)
    files = sorted(f for f in FOLDER.iterdir() if f.suffix in (".safetensors", ".mpk"))  # also those of SCICO
    (FOLDER / "SHA256SUMS").write_text("".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in files))


if __name__ == "__main__":
    main()
