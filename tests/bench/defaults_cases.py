# SPDX-License-Identifier: BSD-3-Clause
"""For defaults.py: what the shortest job is tried on. Pictures come from the scikit-image wheel or from formulas, the
measurements from numpy; nothing is made by tessera. Images are (H, W) or (C, H, W), white is 1."""

import dataclasses
from pathlib import Path

import numpy as np
import scipy.ndimage
import scipy.signal
import skimage.color
import skimage.data
import skimage.io
import skimage.transform

import restoration_methods as methods

RIM = 8  # pixels at the border of what was measured that are not scored


@dataclasses.dataclass(frozen=True)
class Case:
    """rule: the half by which the rule was chosen; the other half was not looked at before it stood; r, c or n begins its
    name: the two halves, and those of neither."""

    name: str
    picture: str
    operator: str  # b1: Gaussian of 1 pixel; br; mo, mt: motion; de: out of focus; sr2, sr3: coarser; in50: half missing; id
    noise: float  # standard deviation, white 1; of counts: 0
    rule: bool
    peak: float = 0  # counts at white
    file: str = "npy"  # npy, png, jpg75: how the measurement is stored; u16: counts of 16 bits
    size: int = 256
    color: bool = False
    wrong: str = ""  # kernel 1.1, kernel 0.75, noise 0.5, noise 2, boundary

    @property
    def is_right(self):
        return not self.wrong


def _cases():
    rows = [
        # name, picture, operator, noise, then what differs
        ("astronaut", "b1", 0.01, {}), ("camera", "b25", 0.01, {}), ("retina", "br", 0.01, {}),
        ("fluorescence", "b1", 0, {"peak": 20}), ("text", "mo", 0.03, {}), ("phantom", "b25", 0.003, {}),
        ("grass", "b1", 0.03, {}), ("coffee", "sr2", 0.003, {}), ("camera", "in50", 0.01, {}),
        ("chelsea", "id", 0.1, {}), ("coins", "mo", 0.1, {}), ("stars", "b1", 0.003, {}),
        ("astronaut", "b16", 0.02, {"color": True}), ("chelsea", "mo", 0.01, {"color": True}),
        ("fluorescence", "b16", 0, {"peak": 1000, "file": "u16"}), ("hubble", "b1", 0.01, {}),
        ("brick", "sr3", 0.01, {}), ("volume", "b16", 0.02, {"size": 48}),
        ("rocket", "b1", 0.01, {"size": 1024}), ("camera", "b1", 0.01, {"file": "jpg90"}),
        ("astronaut", "b1", 0.01, {"wrong": "kernel 1.1"}), ("camera", "b16", 0.01, {"wrong": "kernel 0.9"}),
        ("coins", "b16", 0.01, {"wrong": "kernel 1.25"}), ("chelsea", "b1", 0.02, {"wrong": "noise 2"}),
        ("camera", "b16", 0.01, {"wrong": "noise 0.5"}), ("astronaut", "b25", 0.01, {"wrong": "boundary"}),
    ]
    checks = [
        ("chelsea", "mo", 0.01, {}), ("coins", "b1", 0.001, {}), ("retina", "b25", 0.003, {}),
        ("fluorescence", "br", 0, {"peak": 200}), ("stars", "b16", 0.01, {}), ("phantom", "id", 0.03, {}),
        ("gravel", "b25", 0.1, {}), ("brick", "sr2", 0.01, {}), ("astronaut", "in30", 0.03, {}),
        ("moon", "id", 0.01, {}), ("rocket", "b1", 0, {"peak": 1000}), ("text", "b16", 0.01, {}),
        ("coffee", "b1", 0.02, {"color": True}), ("astronaut", "in50", 0.01, {"color": True}),
        ("stars", "b1", 0, {"peak": 300, "file": "u16"}), ("hubble", "mo", 0.003, {}),
        ("coffee", "sr3", 0.01, {}), ("volume", "b1", 0.05, {"size": 48}),
        ("astronaut", "mo", 0.02, {"size": 512}), ("coins", "mo", 0.01, {"file": "png"}),
        ("rocket", "b1", 0.01, {"wrong": "kernel 0.9"}), ("coffee", "b16", 0.01, {"wrong": "kernel 1.1"}),
        ("astronaut", "b16", 0.01, {"wrong": "kernel 0.75"}), ("coins", "b1", 0.02, {"wrong": "noise 0.5"}),
        ("chelsea", "b25", 0.01, {"wrong": "noise 2"}), ("rocket", "b16", 0.01, {"wrong": "boundary"}),
    ]
    # Neither chose a rule: what a rule for time must not cost (defaults.sh --older BUILD --half new).
    new = [
        ("motorcycle_left", "b12", 0.01, {}), ("ihc", "b12", 0.01, {"color": True}), ("clock_motion", "b20", 0.01, {}),
        ("microaneurysms", "de", 0.01, {"size": 96}), ("cell", "de", 0.003, {}), ("text", "b12", 0.02, {"size": 160}),
        ("motorcycle_left", "de", 0.003, {}), ("ihc", "mt", 0.02, {}), ("clock_motion", "b12", 0.05, {}),
        ("motorcycle_right", "mt", 0.01, {"color": True}), ("cell", "b20", 0.001, {}), ("ihc", "sr2", 0.01, {}),
        ("fluorescence", "de", 0, {"peak": 100}), ("stars", "b12", 0, {"peak": 2000, "file": "u16"}),
        ("phantom", "de", 0.01, {}), ("fluorescence", "b20", 0, {"peak": 3000, "file": "u16"}),
        ("motorcycle_left", "b12", 0.01, {"file": "png"}), ("camera", "de", 0.02, {"size": 400}),
        ("coffee", "mt", 0.005, {"color": True, "size": 384}), ("moon", "b20", 0.005, {}),
        ("gravel", "de", 0.01, {}), ("volume", "b12", 0.02, {"size": 40}),
        ("motorcycle_right", "sr3", 0.005, {}), ("astronaut", "de", 0.005, {"size": 500}),
    ]
    out = []
    for letter, half in (("r", rows), ("c", checks), ("n", new)):
        for k, (picture, operator, noise, rest) in enumerate(half):
            out.append(Case(f"{letter}{k + 1:02}", picture, operator, noise, letter == "r", **rest))
    return out


def _wheel(name, size, color):
    file = next(Path(skimage.__file__).parent.glob(f"data/{name}.[pj][np]g"))
    x = skimage.io.imread(file)
    x = x[..., :3] / 255 if x.ndim == 3 else x / 255
    if min(x.shape[:2]) < size:
        x = skimage.transform.rescale(x, 1.01 * size / min(x.shape[:2]), channel_axis=2 if x.ndim == 3 else None)
    top, left = (x.shape[0] - size) // 2, (x.shape[1] - size) // 2
    x = x[top : top + size, left : left + size]
    if color:
        return np.moveaxis(x, -1, 0)
    return (skimage.color.rgb2gray(x) if x.ndim == 3 else x)[None]


def _fluorescence(size, seed):
    """Dark ground, filaments and spots: what a microscope of labelled cells sees."""
    r = np.random.default_rng(seed)
    x = np.zeros((size, size))
    for _ in range(size // 12):
        at, angle = r.uniform(0, size, 2), r.uniform(0, 6.3)
        for _ in range(size):
            at, angle = at + [np.sin(angle), np.cos(angle)], angle + r.normal(0, 0.06)
            y0, x0 = at.astype(int)
            if 0 <= y0 < size and 0 <= x0 < size:
                x[y0, x0] = max(x[y0, x0], 0.35)
    for _ in range(size // 6):
        y0, x0 = r.integers(0, size, 2)
        x[y0, x0] += r.uniform(1, 4)
    x = scipy.ndimage.gaussian_filter(x, 0.9)
    return (0.02 + 0.95 * x / x.max())[None]


def _stars(size, seed):
    r = np.random.default_rng(seed)
    x = np.zeros((size, size))
    for flux in 0.02 * 10 ** r.uniform(0, 3, size // 4):
        y0, x0 = r.integers(4, size - 4, 2)
        x[y0, x0] += flux
    x = scipy.ndimage.gaussian_filter(x, 0.8)
    return np.minimum(0.01 + x / np.sort(x.ravel())[-3], 1.0)[None]


def _volume(size, seed):
    r = np.random.default_rng(seed)
    grid = np.mgrid[:size, :size, :size]
    x = np.full((size, size, size), 0.1)
    for _ in range(14):
        center, radius = r.uniform(0, size, 3), r.uniform(3, 10)
        x[((grid - center[:, None, None, None]) ** 2).sum(axis=0) < radius**2] = r.uniform(0.2, 1)
    return x[None]


def picture(case):
    """The area that is to be reconstructed, (C, H, W) or (1, D, H, W)."""
    seed = 7 + case.rule
    if case.picture == "fluorescence":
        return _fluorescence(case.size, seed)
    if case.picture == "stars":
        return _stars(case.size, seed)
    if case.picture == "volume":
        return _volume(case.size, seed)
    if case.picture == "phantom":
        x = skimage.transform.resize(skimage.data.shepp_logan_phantom(), (case.size, case.size), anti_aliasing=True)
        return x[None]
    name = {"text": "page", "hubble": "hubble_deep_field"}.get(case.picture, case.picture)
    return _wheel(name, case.size, case.color)


KERNELS = {"b1": 1.0, "b12": 1.2, "b16": 1.6, "b20": 2.0, "b25": 2.5}


def kernel(operator, stretch=1.0):
    """stretch: of its width; for a kernel that is not the true one."""
    if operator in KERNELS:
        return methods.gaussian(KERNELS[operator] * stretch)
    if operator == "br":
        i = np.arange(25) - 12
        g = np.exp(-(i[:, None] ** 2 / 2 / 2.0**2 + i[None] ** 2 / 2 / 1.6**2) / stretch**2)
        return g / g.sum()
    if operator == "mo":
        return methods.hand_shake()
    if operator == "de":  # out of focus: a disk of 3 pixels, its rim shared by area
        i = (np.arange(7 * 8) + 0.5) / 8 - 3.5
        fine = (np.hypot(i[:, None], i[None]) < 3 * stretch).astype(float)
        return fine.reshape(7, 8, 7, 8).sum(axis=(1, 3)) / fine.sum()
    if operator == "mt":
        return np.rot90(methods.hand_shake()).copy()
    if operator.startswith("sr"):
        return methods.gaussian(1.2 if operator == "sr2" else 1.6, 13)
    return methods.DELTA


class Measured:
    """What the camera saw of a case: y, (C, h, w); how it lies in the area; the truth that is scored."""

    def __init__(self, case):
        self.case, self.area = case, picture(case)
        self.seed = 100 + int(case.name[1:]) + 50 * case.rule
        self.factor = int(case.operator[2]) if case.operator.startswith("sr") else 1
        self.mask = None
        rng = np.random.default_rng(self.seed)
        if case.operator.startswith("in"):
            self.mask = rng.random(self.area.shape[1:]) < int(case.operator[2:]) / 100
        self.kernel = kernel(case.operator)
        if case.picture == "volume":
            sigma = KERNELS[case.operator]
            clean, self.origin = scipy.ndimage.gaussian_filter(self.area[0], sigma, mode="mirror", truncate=4)[None], 0
        else:
            clean = np.stack([scipy.signal.convolve(c, self.kernel, "valid") for c in self.area])
            clean, self.origin = clean[:, :: self.factor, :: self.factor], self.kernel.shape[0] // 2
        if case.peak:
            self.y = rng.poisson(np.maximum(clean, 0) * case.peak) / case.peak
        else:
            self.y = clean + case.noise * rng.standard_normal(clean.shape)
        if self.mask is not None:
            self.y = self.y * self.mask

    @property
    def truth(self):
        """On the pixels that samples surround, as the program crops its result."""
        if self.origin == 0:
            return self.area
        n = [self.factor * (s - 1) + 1 for s in self.y.shape[1:]]
        o = self.origin
        return self.area[:, o : o + n[0], o : o + n[1]]

    def score(self, image):
        """PSNR of an image that begins where `truth` does, without the rim."""
        both = [slice(None), *(slice(min(a, b)) for a, b in zip(image.shape[1:], self.truth.shape[1:]))]
        image, truth = np.asarray(image, float)[tuple(both)], self.truth[tuple(both)]
        rim = (slice(None), *(slice(RIM, -RIM) for _ in truth.shape[1:]))
        return -10 * np.log10(np.mean((image[rim] - truth[rim]) ** 2))


CASES = _cases()
