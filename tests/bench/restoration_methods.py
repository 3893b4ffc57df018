# SPDX-License-Identifier: BSD-3-Clause
"""For restoration.py, with nothing of tessera in it: measurements made by numpy, and the methods of others.

Images are (C, H, W) in 0 to 1. An area of H x W pixels is what may be reconstructed. A measurement of it is
y = (kernel * area), only the samples that need nothing from outside, every `factor`-th of them on both axes, or the
pixels of a mask; then noise, and what a camera does to it.
"""

import dataclasses

import numpy as np
import scipy.fft
import scipy.interpolate
import scipy.ndimage
import scipy.signal

DELTA = np.ones((1, 1))


def gaussian(sigma, size=25):
    """The papers' Gaussian: 25 x 25 samples of the density, sum 1."""
    x = np.arange(size) - size // 2
    g = np.exp(-(x**2) / (2 * sigma**2))
    k = np.outer(g, g)
    return k / k.sum()


def hand_shake(size=19):
    """A camera's path by formula, drawn with a pen of one pixel: a motion blur that needs no file."""
    t = np.linspace(-1, 1, 400)[:, None, None]
    row, column = 6.0 * t + 1.5 * np.sin(4 * t), 3.5 * np.sin(2.2 * t + 0.4) - 1.0
    grid = np.arange(size) - size // 2
    pen = np.exp(-((grid[None, :, None] - row) ** 2 + (grid[None, None, :] - column) ** 2) / (2 * 0.6**2))
    k = pen.sum(axis=0)
    return k / k.sum()


@dataclasses.dataclass
class Camera:
    """What happens to the noisy samples. bits 0: nothing."""

    noise: float  # standard deviation, of the range 0 to 1
    bits: int = 8
    exposure: float = 1.0  # values above 1 / exposure are cut off

    def take(self, clean, seed):
        y = self.exposure * clean + self.noise * np.random.default_rng(seed).standard_normal(clean.shape)
        if not self.bits:
            return y
        levels = 2**self.bits - 1
        return np.rint(np.clip(y, 0, 1) * levels) / levels

    @property
    def sigma(self):
        """Of noise and rounding together."""
        return (self.noise**2 + (1 / (2**self.bits - 1)) ** 2 / 12 if self.bits else self.noise**2) ** 0.5


class Measurement:
    """Samples y (C, h, w), and where they lie: sample (i, j) is pixel (origin + factor i, origin + factor j) of the
    blurred area; for a mask (bool, the area's size) y has the area's size too."""

    def __init__(self, area, kernel, camera, seed, factor=1, mask=None, circular=False):
        self.kernel, self.factor, self.mask, self.circular = kernel, factor, mask, circular
        self.area, self.camera = area.shape[1:], camera
        if circular:
            blurred, self.origin = scipy.ndimage.convolve(area, kernel[None], mode="wrap"), 0
        else:
            blurred = np.stack([scipy.signal.convolve(c, kernel, "valid") for c in area])
            self.origin = kernel.shape[0] // 2
        self.y = camera.take(blurred[:, ::factor, ::factor], seed)
        if mask is not None:
            self.y = self.y * mask
        # Scored: what the samples surround, without 8 pixels.
        self.rim = 0 if circular else self.origin + 8

    def embedded(self, pad):
        """(samples, mask) on the area with `pad` unmeasured pixels around it."""
        height, width = self.area
        samples = np.zeros((len(self.y), height + 2 * pad, width + 2 * pad))
        mask = np.zeros(samples.shape[1:])
        first, (h, w) = pad + self.origin, self.y.shape[1:]
        at = np.s_[first : first + h * self.factor : self.factor, first : first + w * self.factor : self.factor]
        samples[(slice(None), *at)] = self.y
        mask[at] = 1 if self.mask is None else self.mask
        return samples, mask

    def shown(self):
        """The measurement as an image of the area: itself, a spline through a coarser grid, or the known pixels
        joined linearly."""
        samples, known = self.embedded(0)
        if self.mask is not None:
            rows, columns = np.nonzero(known)
            grid = tuple(np.mgrid[: self.area[0], : self.area[1]])
            return np.stack([np.where(np.isfinite(v := scipy.interpolate.griddata((rows, columns), c[rows, columns], grid)),
                                      v, c[rows, columns].mean()) for c in samples])
        grid = [(np.arange(n) - self.origin) / self.factor for n in self.area]
        where = np.meshgrid(*grid, indexing="ij")
        return np.stack([scipy.ndimage.map_coordinates(c, where, order=3 if self.factor > 1 else 1, mode="nearest")
                         for c in self.y])


class Spectrum:
    """A = mask . (kernel *) on the area with an unmeasured rim, where the wrapped border of the FFT does no harm."""

    def __init__(self, m, pad=8):
        self.pad = 0 if m.circular else pad
        self.y, mask = m.embedded(self.pad)
        self.mask = mask[None].astype(np.float32)
        self.y = self.y.astype(np.float32)
        self.shape = self.y.shape[1:]
        k = np.zeros(self.shape)
        k[: m.kernel.shape[0], : m.kernel.shape[1]] = m.kernel
        center = tuple(-(n // 2) for n in m.kernel.shape)
        self.K = self.fft(np.roll(k, center, (0, 1))[None].astype(np.float32))
        d = np.zeros((2, *self.shape), np.float32)  # forward differences, down and right
        d[0, 0, 0] = d[1, 0, 0] = -1
        d[0, -1, 0] = d[1, 0, -1] = 1
        self.laplacian = (np.abs(self.fft(d)) ** 2).sum(axis=0)[None]
        self.start = np.pad(m.shown(), ((0, 0), (self.pad,) * 2, (self.pad,) * 2), "reflect").astype(np.float32)

    def fft(self, x):
        return scipy.fft.rfft2(x)

    def ifft(self, x):
        return scipy.fft.irfft2(x, s=self.shape)

    def cut(self, x):
        return x[:, self.pad : self.shape[0] - self.pad, self.pad : self.shape[1] - self.pad]


def gradient(x):
    return np.stack([np.roll(x, -1, 1) - x, np.roll(x, -1, 2) - x])


def divergence(g):
    """Minus the adjoint of gradient."""
    return g[0] - np.roll(g[0], 1, 1) + g[1] - np.roll(g[1], 1, 2)


def wiener(m, strength, iterations=300, tolerance=1e-5):
    """argmin 1/2 |A x - y|^2 + strength/2 |grad x|^2: the Wiener filter for white noise and a spectrum that falls as
    1 / frequency^2, in the form that knows nothing beyond the measured samples. Conjugate gradients."""
    s = Spectrum(m)

    def normal(x):
        X = s.fft(x)
        return s.ifft(np.conj(s.K) * s.fft(s.mask * s.ifft(s.K * X)) + strength * s.laplacian * X)

    x = s.start.copy()
    b = s.ifft(np.conj(s.K) * s.fft(s.y))
    r = b - normal(x)
    # The same operator without the mask, which is the average of it over all shifts.
    inverse = 1 / (s.mask.mean() * np.abs(s.K) ** 2 + strength * s.laplacian + 1e-6)
    z = s.ifft(inverse * s.fft(r))
    p, rho, end = z.copy(), np.vdot(r, z), tolerance * np.linalg.norm(b)
    for _ in range(iterations):
        q = normal(p)
        a = rho / np.vdot(p, q)
        x += a * p
        r -= a * q
        if np.linalg.norm(r) < end:
            break
        z = s.ifft(inverse * s.fft(r))
        rho, old = np.vdot(r, z), rho
        p = z + rho / old * p
    return s.cut(x)


def richardson_lucy(m, iterations):
    """scikit-image's, on the measurement with its border reflected; None where samples are missing."""
    from skimage.restoration import richardson_lucy as deconvolve

    if m.mask is not None or m.factor > 1:
        return None
    pad = 3 * m.origin
    wide = np.pad(np.maximum(m.y, 1e-4), ((0, 0), (pad, pad), (pad, pad)), "symmetric")
    out = np.stack([deconvolve(c, m.kernel, num_iter=iterations, clip=False) for c in wide])
    cut = pad - m.origin
    return out[:, cut : cut + m.area[0], cut : cut + m.area[1]]


def total_variation(m, strength, iterations=1000, tolerance=3e-6):
    """argmin 1/2 |A x - y|^2 + strength TV(x), isotropic, each channel by itself: ADMM with A x = mask . v, v = K x and
    the gradient split off, so that every step has a closed form (Almeida and Figueiredo, arXiv 1210.2687)."""
    s = Spectrum(m)
    data, edge = 0.2, strength / 0.03  # penalties; they decide how fast, not where to
    x = s.start
    v, z = s.ifft(s.K * s.fft(x)), gradient(x)
    dv, dz = np.zeros_like(v), np.zeros_like(z)
    system = 1 / (data * np.abs(s.K) ** 2 + edge * s.laplacian + 1e-9)
    for k in range(iterations):
        X = system * (data * np.conj(s.K) * s.fft(v - dv) - edge * s.fft(divergence(z - dz)))
        old, x = x, s.ifft(X)
        Kx, g = s.ifft(s.K * X) + dv, gradient(x) + dz
        v = (s.mask * s.y + data * Kx) / (s.mask + data)
        length = np.sqrt((g**2).sum(axis=0))
        z = g * np.maximum(1 - (strength / edge) / np.maximum(length, 1e-12), 0)
        dv, dz = Kx - v, g - z
        if k > 100 and np.linalg.norm(x - old) < tolerance * np.linalg.norm(x):
            break
    return s.cut(x)


def bm3d(m, strength):
    """The two steps of bm3d.bm3d_deblurring (regularized inverse, then colored-noise BM3D, twice) for each channel; that
    function itself fails on the shape of its own pilot in version 4.0.3, and hangs with its default of all threads.
    The border is continued so that the FFT's wrapped one fits: by the blur of wiener(m, strength). None where samples
    are missing."""
    if m.mask is not None or m.factor > 1:
        return None
    import bm3d as package

    s = Spectrum(m)
    x = np.pad(wiener(m, strength), ((0, 0), (s.pad,) * 2, (s.pad,) * 2), "linear_ramp", end_values=0.5)
    wide = np.where(s.mask > 0, s.y, s.ifft(s.K * s.fft(x))).astype(np.float64)
    h, w = s.shape
    k = np.zeros(s.shape)
    k[: m.kernel.shape[0], : m.kernel.shape[1]] = m.kernel
    K = np.fft.fft2(np.roll(k, tuple(-(n // 2) for n in m.kernel.shape), (0, 1)))
    psd = np.full(s.shape, m.camera.sigma**2 * h * w)
    gain = np.abs(K) ** 2

    def denoise(y, inverse, stage):
        profile = package.BM3DProfile()
        profile.num_threads = 1
        z = np.real(np.fft.ifft2(np.fft.fft2(y) * inverse))
        return package.bm3d(z, psd * np.abs(inverse) ** 2, profile, stage_arg=stage)

    out = []
    for y in wide:
        pilot = denoise(y, np.conj(K) / (gain + 4e-4 * psd), package.BM3DStages.HARD_THRESHOLDING)
        power = np.abs(np.fft.fft2(pilot)) ** 2
        out.append(denoise(y, np.conj(K) * power / (power * gain + 5e-3 * psd + 1e-10), pilot))
    return s.cut(np.stack(out))


def psnr(x, truth, rounded=False):
    """Peak 1, over all pixels and channels; rounded: to 8 bits first, as published figures are."""
    if rounded:
        x = np.rint(np.clip(x, 0, 1) * 255) / 255
    return -10 * np.log10(np.mean((x.astype(np.float64) - truth) ** 2))


def ssim(x, truth):
    """scikit-image's, with the Gaussian window of Wang et al. 2004."""
    from skimage.metrics import structural_similarity

    return structural_similarity(x.astype(np.float64), truth.astype(np.float64), channel_axis=0, data_range=1.0,
                                 gaussian_weights=True, sigma=1.5, use_sample_covariance=False)
