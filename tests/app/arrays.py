# SPDX-License-Identifier: BSD-3-Clause
"""Arrays as other programs write them: axes, units of any size, whole numbers of many bits, marks of masked pixels."""
import json
import re

import numpy as np
from harness import h5py, image, job, run, tessera, work

PLAIN = """\
problem:
  measurements: FILE
  operator: {type: identity}
denoiser: {network: none}
solver: {name: pgd, iterations: 1}
output: {folder: out, preview: none, diagnostics: false}
"""


def read_as_it_is(path, *more, ranks=1):
    """A run that changes nothing but what a step takes: what it says, and its image."""
    out, _ = run(job(PLAIN.replace("FILE", str(path))), "--force", "--set", "problem.noise.gaussian=0.01", *more, ranks=ranks)
    return out, image("out")


def array_files():
    rng = np.random.default_rng(5)
    scene = 0.5 + 0.3 * np.sin(np.arange(5)[:, None, None] + np.arange(48)[:, None] / 5) * np.cos(np.arange(56) / 7)
    bands = (scene + rng.normal(0, 0.02, scene.shape)).astype(np.float32)
    np.save(work / "last.npy", np.moveaxis(bands, 0, -1))
    np.save(work / "first.npy", bands)
    with h5py.File(work / "ilastik.h5", "w") as f:
        d = f.create_dataset("exported_data", data=np.moveaxis(bands, 0, -1)[None])
        d.attrs["axistags"] = json.dumps({"axes": [{"key": k} for k in "tyxc"]})
    for ranks in (1, 2):
        code, _, err = tessera("run", job(PLAIN.replace("FILE", "last.npy")), ranks=ranks)
        assert code == 2 and "(48, 56, 5)" in err and "move its last axis to the front" in err, err
    out, plain = read_as_it_is("first.npy")
    assert "5 channels of 48 x 56" in out and plain.shape == bands.shape and np.abs(plain - bands).max() < 1e-6, out
    for ranks in (1, 2):
        out, same = read_as_it_is("ilastik.h5:/exported_data", ranks=ranks)
        assert "axistags" in out and np.array_equal(same, plain), out

    # Detectors mark what measures nothing by the largest number of the type.
    counts = rng.poisson(300, (48, 56)).astype(np.uint32)
    marked = counts.copy()
    marked[:, 20:23] = 2**32 - 1
    wide = counts.copy()
    wide[5, 5], wide[7:9, 3] = 2**25 - 1, 2**24
    with h5py.File(work / "counts.h5", "w") as f:
        f["marked"], f["wide"] = marked, wide
        f["short"] = np.minimum(marked, 65535).astype(np.uint16)
        f["full"] = np.where(counts < 300, 2**32 - 1, np.where(counts < 310, 2**31, counts)).astype(np.uint32)
        f["wrapped"] = (counts * 100 + 3000).astype(np.uint16).view(np.int16)
    holes = marked == 2**32 - 1
    for name, ranks in (("marked", 1), ("marked", 2), ("short", 1)):
        out, _ = read_as_it_is(f"counts.h5:/{name}", ranks=ranks)
        assert re.search(rf"reaches \d\d\d beside {holes.sum()} samples of (4294967295|65535), 9 of (32|16) bits: 511", out), out
        assert f"{holes.sum()} of {holes.size} samples have" in out and "marks masked pixels" in out, out
    for fill, ranks in ((1e20, 2), (9.969209968386869e36, 1)):  # numpy.ma, netCDF
        np.save(work / "filled.npy", np.where(holes, fill, counts / 400).astype(np.float32))
        out, _ = read_as_it_is("filled.npy", ranks=ranks)
        assert f"{holes.sum()} of {holes.size} samples have {fill:.6g}" in out and "full scale" not in out, out
    code, out, err = tessera("run", job(PLAIN.replace("FILE", "counts.h5:/marked")), "--force", "--set", "problem.scale.factor=400",
                             "--set", "problem.noise.gaussian=0.01")
    assert code == 0 and "marks masked pixels" in out and "leaves the range" not in out, out + err  # the scale said: no difference
    out, _ = read_as_it_is("counts.h5:/wide")
    assert "reaches 33554431, 25 of 32 bits: 33554431 is taken for 1" in out, out
    out, _ = read_as_it_is("counts.h5:/full")  # reaches what lies between: no marks
    assert "32 of 32 bits: 4294967295 is taken for 1" in out and "masked" not in out, out
    out, _ = read_as_it_is("counts.h5:/wrapped")
    assert "uint16 in a file of int16" in out, out


def extreme_units():
    """A result does not depend on the unit, whatever float32 holds; inverse variances reach 1e45 and 1e-55."""
    rng = np.random.default_rng(9)
    y, x = np.mgrid[:48, :56]
    sigma = 0.3 * (1 + (x >= 28))
    scene = 20 * np.exp(-((y - 20) ** 2 + (x - 30) ** 2) / 60) + 3 * np.cos(x / 5)
    data = scene + rng.normal(size=scene.shape) * sigma
    psf = np.exp(-(np.mgrid[-3:4, -3:4] ** 2).sum(0) / 2.5)
    flat, dark = 1 + 0.2 * np.sin(y / 9), 0.5 + 0 * data
    weights = 1 / sigma**2
    weights[3, 4:9], weights[5, 5] = 0, np.nan

    def files(name, unit):
        with h5py.File(work / f"{name}.h5", "w") as f:
            f["measurements/0"], f["weights/0"] = data * unit, weights / unit**2
        np.save(work / f"{name}_data.npy", data * unit)
        np.save(work / f"{name}_weights.npy", weights / unit**2)
        for kind, values in (("psf", psf), ("flat", flat)):
            np.save(work / f"{name}_{kind}.npy", values * unit**2)
        np.save(work / f"{name}_dark.npy", dark * unit)
        return job(f"""\
problem:
  measurements: {name}.h5
  dark: {name}_dark.npy
  flat: {name}_flat.npy
  operator: {{type: blur, kernel: {{file: {name}_psf.npy}}, boundary: circular}}
denoiser: {{network: tv}}
solver: {{name: admm, iterations: 6}}
output: {{folder: {name}, preview: none}}
""", f"{name}.yaml")

    one, _ = run(files("one", 1.0))
    lost = [line for line in one.splitlines() if "weight" in line and "of 2688 samples" in line]
    assert lost and "6 of 2688" in lost[0] and "no number" in lost[0], one
    wanted = image("one").astype(float)
    for name, unit in (("erg", 1e-19), ("tiny", 1e-22), ("huge", 1e+27)):
        path = files(name, unit)
        for ranks, more in ((1, ()), (2, ("--set", f"problem.measurements={name}_data.npy", "--set", f"problem.weights={name}_weights.npy"))):
            out, _ = run(path, "--force", *more, ranks=ranks)
            assert lost[0] in out.splitlines(), out
            found = image(name).astype(float) / unit
            assert np.isfinite(found).all()
            away = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
            print(f"{unit:g}, {ranks} ranks: {away:.1e}")
            assert away < 2e-5, (unit, ranks, away)
    # Beyond what float32 holds at all: the result is written in float64.
    data_only = re.sub("  (dark|flat): .*\n", "", (work / "one.yaml").read_text()).replace("one.h5", "far.h5")
    with h5py.File(work / "far.h5", "w") as f:
        f["measurements/0"], f["weights/0"] = data * 1e-45, weights * 1e90
    run(job(data_only.replace("folder: one", "folder: far"), "far.yaml"))
    run(job(data_only.replace("far.h5", "one.h5").replace("folder: one", "folder: near"), "near.yaml"))
    near, far = image("near").astype(float), image("far") / 1e-45
    assert np.linalg.norm(far - near) < 1e-5 * np.linalg.norm(near)
    code, out, err = tessera("compare", "far/reconstruction.h5", "far/reconstruction.h5", ranks=2)
    assert code == 0 and "PSNR inf" in out, out + err
