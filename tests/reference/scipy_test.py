# SPDX-License-Identifier: BSD-3-Clause
"""What `tessera simulate` writes against convolutions by scipy, for every boundary, kernel parity and method.

usage: scipy_test.py operators PROGRAM SOURCE_DIR
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from harness import h5py, job, np, tessera, work
from scipy import ndimage, signal

# scipy's and numpy's names of what lies beyond the image; scipy's "mirror" and numpy's "reflect" are our reflect.
BOUNDARIES = {"circular": ("wrap", "wrap"), "reflect": ("mirror", "reflect"), "replicate": ("nearest", "edge"),
              "zero": ("constant", "constant"), "valid": (None, None)}
SIDES, SIGMA = (48, 60), 1.6  # multiples of the factors 2, 3 and 4

rng = np.random.default_rng(1)
truth = rng.random((2, *SIDES), dtype=np.float32)
kernels = {name: rng.random(shape) for name, shape in (("odd", (5, 7)), ("even", (4, 6)), ("column", (9, 1)))}
kernels = {name: (k / k.sum()).astype(np.float32) for name, k in kernels.items()}


def blurred(x, kernel, boundary, center=None):
    """True convolution of one plane in double; `center`: the kernel's origin, size // 2 where nothing is said."""
    x, kernel = x.astype(np.float64), kernel.astype(np.float64)
    if boundary == "valid":
        return signal.convolve2d(x, kernel, mode="valid")
    center = center or [n // 2 for n in kernel.shape]
    beyond = [(n, n) for n in kernel.shape]
    full = signal.convolve2d(np.pad(x, beyond, mode=BOUNDARIES[boundary][1]), kernel, mode="full")
    y = full[tuple(slice(n + c, n + c + side) for n, c, side in zip(kernel.shape, center, x.shape))]
    if all(n % 2 for n in kernel.shape) and center == [n // 2 for n in kernel.shape]:  # a second way, from the other package
        other = ndimage.convolve(x, kernel, mode=BOUNDARIES[boundary][0], cval=0.0)
        assert np.abs(y - other).max() < 1e-12, boundary
    return y


def file(name, **more):
    return f"kernel: {{file: {name}.npy, normalize: false" + "".join(f", {k}: {v}" for k, v in more.items()) + "}"


parts, wanted = [], []  # text of an operator; its samples by scipy
for name, kernel in kernels.items():
    np.save(work / f"{name}.npy", kernel)
    for boundary in BOUNDARIES:
        for method in ("direct", "fft"):
            parts.append(f"{{type: blur, {file(name)}, boundary: {boundary}, method: {method}}}")
            wanted.append([blurred(plane, kernel, boundary) for plane in truth])
parts.append(f"{{type: blur, {file('even', center=[0, 5])}, boundary: replicate}}")
wanted.append([blurred(plane, kernels["even"], "replicate", [0, 5]) for plane in truth])
for factor, boundary, name in ((2, "circular", "odd"), (3, "reflect", "even"), (4, "zero", "odd")):
    parts.append(f"{{type: downsampling, factor: {factor}, {file(name)}, boundary: {boundary}}}")
    wanted.append([blurred(plane, kernels[name], boundary)[::factor, ::factor] for plane in truth])
for boundary in ("circular", "reflect", "replicate", "zero"):
    parts.append(f"{{type: blur, kernel: {{gaussian: {{sigma: {SIGMA}}}}}, boundary: {boundary}}}")
    mode = BOUNDARIES[boundary][0]  # scipy too cuts a Gaussian off at four standard deviations
    wanted.append([ndimage.gaussian_filter(plane.astype(np.float64), SIGMA, mode=mode, truncate=4) for plane in truth])

np.save(work / "truth.npy", truth)
path = job("schema: 1\nproblem:\n  truth: truth.npy\n  operator:\n    type: stack\n    parts:\n"
           + "".join(f"      - {p}\n" for p in parts) + "denoiser: {network: none}\noutput: {folder: out}\n")
for ranks in (1, 3):
    code, out, err = tessera("simulate", path, f"y{ranks}.h5", ranks=ranks)
    assert code == 0, out + err
    with h5py.File(work / f"y{ranks}.h5") as f:
        got = [f[f"measurements/{i}"][...].squeeze() for i in range(len(parts))]
    worst = 0
    for text, ours, theirs in zip(parts, got, wanted):
        assert ours.shape == np.stack(theirs).shape, (text, ours.shape)
        difference = np.abs(ours - np.stack(theirs)).max()
        assert difference < 2e-6, (ranks, text, difference)  # values up to 1 in float32
        worst = max(worst, difference)
    print(f"{len(parts)} operators on {ranks} ranks: largest difference {worst:.2e}")
# The comparison would show a kernel that is turned, or shifted by a pixel.
first = np.stack(wanted[0])
assert np.abs(first - blurred(truth[0], kernels["odd"][::-1, ::-1], "circular")).max() > 1e-2
assert np.abs(first - np.roll(first, 1, axis=-1)).max() > 1e-2
