#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How the shortest job does on pictures as people have them: blurred as light and stored as sRGB, compressed before they
became a PNG, demosaicked, enlarged. Beside each its input and the same job with the true curve and noise stated.

  .venv/bin/python tests/bench/photographs.py PROGRAM [--half rule|check] [--only f01,g03]     (ten minutes of a core)
  .venv/bin/python tests/bench/photographs.py PROGRAM --draw 40 --seed 1 --pictures FOLDER     (any photographs)

Pictures come from the scikit-image wheel, files from numpy and Pillow. PSNR in dB of stored values, without a rim of 8
pixels. Cases `f` chose the rules, cases `g` were set aside until they stood; cases `d` are drawn, picture, blur, noise and
losses, from a folder of photographs of 256 x 256 pixels or more. The exit code says whether no result lies below its input. With
--work the files stay there."""

import argparse
import dataclasses
import io
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import scipy.ndimage
import scipy.signal
import skimage.io
from PIL import Image

RIM = 8
FOLDER = None  # of drawn cases


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    picture: str
    operator: str  # b1: Gaussian of 1 pixel; mo: motion; id: denoising
    light: bool  # whether light was blurred
    noise: float  # of light, else of stored values; white 1
    process: str  # bits 8, bits 16, jpg 80, webp 80, demosaic, bic 1.5: enlarged


def cases():
    rows = {
        "f": [("astronaut", "b1", True, 0.003, "bits 16"), ("chelsea", "mo", True, 0.01, "bits 8"),
              ("coffee", "b16", True, 0.003, "bits 8"), ("camera", "b25", True, 0.01, "bits 8"),
              ("astronaut", "b16", True, 0.005, "jpg 80"), ("coffee", "mo", True, 0.005, "jpg 95"),
              ("astronaut", "b1", False, 0.005, "jpg 60"), ("chelsea", "b16", False, 0.005, "webp 80"),
              ("coffee", "b25", False, 0.01, "webp 60"), ("camera", "b1", False, 0.005, "jpg 80"),
              ("astronaut", "b16", False, 0.01, "demosaic"), ("chelsea", "b25", False, 0.01, "lan 2"),
              ("coffee", "b1", False, 0.01, "bic 1.5"), ("chelsea", "id", False, 0.01, "bil 2"),
              ("astronaut", "id", False, 0.005, "jpg 80"), ("camera", "mo", False, 0.01, "bits 8")],
        "g": [("retina", "b1", True, 0.003, "bits 16"), ("rocket", "mo", True, 0.01, "bits 8"),
              ("motorcycle_right", "b16", True, 0.003, "bits 8"), ("coins", "b25", True, 0.01, "bits 8"),
              ("ihc", "b16", True, 0.005, "jpg 80"), ("motorcycle_right", "mo", True, 0.005, "jpg 95"),
              ("rocket", "b1", False, 0.005, "jpg 60"), ("ihc", "b16", False, 0.005, "webp 80"),
              ("motorcycle_right", "b25", False, 0.01, "webp 60"), ("coins", "b1", False, 0.005, "jpg 80"),
              ("motorcycle_right", "b16", False, 0.01, "demosaic"), ("ihc", "b25", False, 0.01, "lan 2"),
              ("rocket", "b1", False, 0.01, "bic 1.5"), ("ihc", "id", False, 0.01, "bil 2"),
              ("rocket", "id", False, 0.005, "jpg 80"), ("brick", "mo", False, 0.01, "bits 8")],
    }
    return [Case(f"{half}{k + 1:02}", *row) for half, all_of in rows.items() for k, row in enumerate(all_of)]


def drawn(folder, n, seed):
    """Enlarged ones are denoised: a kernel is in pixels of the file."""
    rng = np.random.default_rng(seed)
    names = sorted(p.name for p in folder.iterdir() if p.suffix in (".jpg", ".png", ".tif"))
    losses = ["bits 8", "bits 8", "bits 16", "jpg 95", "jpg 85", "jpg 70", "jpg 60", "webp 90", "webp 70", "demosaic"]
    out = []
    for k in range(n):
        operator = str(rng.choice(["b1", "b16", "b25", "mo", "id"], p=[0.25, 0.25, 0.15, 0.25, 0.1]))
        larger = ["bil 1.25", "bic 1.5", "lan 2", "bil 2", "bic 3"] if operator == "id" else []
        out.append(Case(f"d{k + 1:02}", str(rng.choice(names)), operator, operator != "id" and bool(rng.random() < 0.5),
                        float(rng.choice([0.003, 0.005, 0.01, 0.02])), str(rng.choice(losses + larger))))
    return out


def light(stored):
    v = np.maximum(stored, 0.0)
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def stored(of_light):
    v = np.maximum(of_light, 0.0)
    return np.where(v <= 0.0031308, 12.92 * v, 1.055 * v ** (1 / 2.4) - 0.055)


def picture(name, size=256):
    file = FOLDER / name if FOLDER else next(Path(skimage.__file__).parent.glob(f"data/{name}.[pj][np]g"))
    x = skimage.io.imread(file) / 255
    x = x[..., :3] if x.ndim == 3 else x
    top, left = (x.shape[0] - size) // 2, (x.shape[1] - size) // 2
    return x[top : top + size, left : left + size]


def kernel(operator):
    if operator == "id":
        return np.ones((1, 1))
    if operator == "mo":
        k = np.zeros((15, 15))
        for t in np.linspace(0, 1, 200):
            k[round(3 + 8 * t), round(2 + 10 * t - 3 * np.sin(3 * t) * t)] += 1
        k = scipy.ndimage.gaussian_filter(k, 0.6)
    else:
        sigma = {"b1": 1.0, "b16": 1.6, "b25": 2.5}[operator]
        i = np.arange(-int(np.ceil(3.5 * sigma)), int(np.ceil(3.5 * sigma)) + 1)
        k = np.exp(-(i[:, None] ** 2 + i**2) / 2 / sigma**2)
    return k / k.sum()


def planes(f, x):
    return f(x) if x.ndim == 2 else np.stack([f(x[..., c]) for c in range(3)], axis=-1)


def coded(x, form, quality):
    file = io.BytesIO()
    Image.fromarray(np.rint(255 * x.clip(0, 1)).astype(np.uint8)).save(file, form, quality=quality)
    file.seek(0)
    return np.asarray(Image.open(file).convert("RGB" if x.ndim == 3 else "L")) / 255


def demosaicked(x):
    """Bilinear, from a mosaic of red, green, green, blue."""
    seen = np.zeros(x.shape)
    seen[0::2, 0::2, 0] = seen[0::2, 1::2, 1] = seen[1::2, 0::2, 1] = seen[1::2, 1::2, 2] = 1
    cross = np.array([[0, 1, 0], [1, 4, 1], [0, 1, 0]]) / 4
    square = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 4
    return np.stack([scipy.ndimage.convolve(x[..., c] * seen[..., c], k, mode="mirror")
                     for c, k in enumerate((square, cross, square))], axis=-1)


class File:
    """What a user has of a case: stored values, what they would be without noise and losses, and the truth."""

    def __init__(self, case):
        x, k = picture(case.picture), kernel(case.operator)
        to = stored if case.light else lambda v: v
        clean = planes(lambda c: scipy.signal.convolve(c, k, "valid"), light(x) if case.light else x)
        noisy = clean + case.noise * np.random.default_rng(int(case.name[1:])).standard_normal(clean.shape)
        m = k.shape[0] // 2
        self.truth, self.ideal, self.bits = x[m : x.shape[0] - m, m : x.shape[1] - m], to(clean), 8
        kind, _, amount = case.process.partition(" ")
        y = to(demosaicked(noisy) if kind == "demosaic" else noisy)
        if kind in ("jpg", "webp"):
            y = coded(y, {"jpg": "JPEG", "webp": "WEBP"}[kind], int(amount))
        if kind in ("bil", "bic", "lan"):
            how = {"bil": Image.BILINEAR, "bic": Image.BICUBIC, "lan": Image.LANCZOS}[kind]
            shape = [round(s * float(amount)) for s in y.shape[:2]]
            larger = lambda c: np.asarray(Image.fromarray(c.astype(np.float32)).resize((shape[1], shape[0]), how), float)
            y, self.ideal, self.truth = (planes(larger, v) for v in (y, self.ideal, self.truth))
        if kind == "bits":
            self.bits = int(amount)
        self.y = np.rint((2**self.bits - 1) * y.clip(0, 1)) / (2**self.bits - 1)
        self.rms = np.sqrt(np.mean((self.y - self.ideal) ** 2))

    def score(self, x):
        rim = (slice(RIM, -RIM), slice(RIM, -RIM))
        return -10 * np.log10(np.mean((x[rim] - self.truth[rim]) ** 2))


def write_png(path, x, bits):
    """With nothing but samples in it: no word of light."""
    rows = np.rint((2**bits - 1) * x).astype(">u2" if bits == 16 else np.uint8)
    lines = rows.reshape(x.shape[0], -1).view(np.uint8).reshape(x.shape[0], -1)
    data = np.concatenate([np.zeros((x.shape[0], 1), np.uint8), lines], axis=1).tobytes()
    chunk = lambda name, body: struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    head = struct.pack(">IIBBBBB", x.shape[1], x.shape[0], bits, 2 if x.ndim == 3 else 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def restored(program, folder, case, file, said=""):
    """PSNR of the shortest job, with `said` below problem, and what its log says of the noise."""
    folder.mkdir(parents=True, exist_ok=True)
    write_png(folder / "y.png", file.y, file.bits)
    np.save(folder / "kernel.npy", kernel(case.operator))
    operator = "{type: identity}" if case.operator == "id" else "{type: blur, kernel: {file: kernel.npy}}"
    (folder / "job.yaml").write_text(f"problem:\n  measurements: y.png\n  operator: {operator}\n{said}output: {{folder: out, preview: none}}\n")
    done = subprocess.run([program, "run", "job.yaml", "--force"], cwd=folder, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, env=dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive"))
    if done.returncode:
        sys.exit(f"{case.name}: {done.stderr.strip()}")
    with h5py.File(folder / "out" / "reconstruction.h5") as f:
        x = np.moveaxis(f["image"][:] / f["image"].attrs["factor"], 0, -1)
    x = x[..., 0] if file.truth.ndim == 2 else x
    cut = [(a - b) // 2 for a, b in zip(x.shape, file.truth.shape)]
    x = x[cut[0] : cut[0] + file.truth.shape[0], cut[1] : cut[1] + file.truth.shape[1]]
    found = re.search(r"noise: (?:gaussian|poisson gain) ([0-9.e-]+)", done.stdout)
    return file.score(x), float(found.group(1)) if found else float("nan"), "stores sRGB" in done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("--half", choices=["rule", "check", "both"], default="both")
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    parser.add_argument("--work", type=Path, help="where files and results stay; else they are removed")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="so many drawn cases in place of both halves")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    parser.add_argument("--pictures", type=Path, help="the folder they are drawn from")
    o = parser.parse_args()
    if o.draw and not (o.pictures and o.pictures.is_dir()):
        parser.error("--draw wants --pictures FOLDER, with photographs in it")
    global FOLDER
    FOLDER = o.pictures if o.draw else None
    chosen = drawn(FOLDER, o.draw, o.seed) if o.draw else [c for c in cases() if o.half == "both" or c.name[0] == {"rule": "f", "check": "g"}[o.half]]
    chosen = [c for c in chosen if not o.only or c.name in o.only.split(",")]
    below, gaps = [], {"f": [], "g": [], "d": []}
    print("| case | what | true noise | input | default | all stated | gap |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        work = o.work or Path(temporary)
        for case in chosen:
            file = File(case)
            white = case.process.startswith("bits")
            said = f"  noise: {{gaussian: {case.noise if white else 255 * file.rms:.5g}{'' if white else ', unit: file'}}}\n"
            said += f"  scale: {{curve: {'srgb' if case.light else 'none'}}}\n"
            own, found, curve = restored(o.program.resolve(), work / case.name, case, file)
            stated, *_ = restored(o.program.resolve(), work / f"{case.name}-stated", case, file, said)
            entry = file.score(file.y)
            gaps[case.name[0]].append(stated - own)
            if own < entry:
                below.append(case.name)
            print(f"| {case.name} | {case.picture} {case.operator}, {'light' if case.light else 'stored values'}; {case.process} | "
                  f"{file.rms:.4f} | {entry:.2f} | **{own:.2f}**{' light' if curve else ''}, {found:.4f} | {stated:.2f} | {stated - own:.2f} |",
                  flush=True)
    for half, title in (("f", "by which the rules were chosen"), ("g", "set aside"), ("d", "drawn")):
        if gaps[half]:
            print(f"\nHalf {title}: {np.mean(gaps[half]):.2f} dB below the same with curve and noise stated on average, "
                  f"{max(gaps[half]):.2f} at worst.")
    print(f"\nBelow their input: {', '.join(below) or 'none'}.")
    sys.exit(1 if below else 0)


if __name__ == "__main__":
    main()
