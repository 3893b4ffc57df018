# SPDX-License-Identifier: BSD-3-Clause
"""What a run says about its result: scores against the truth, and diagnostics without it."""
import re

import numpy as np
from harness import JOB, TV, h5py, job, photo, pictures, run, summary, tessera, work


def numbers(tree, path=""):
    """{path: number} of everything in a summary's part."""
    if isinstance(tree, dict):
        return {k: v for key, value in tree.items() for k, v in numbers(value, f"{path}/{key}").items()}
    if isinstance(tree, list):
        return {k: v for i, value in enumerate(tree) for k, v in numbers(value, f"{path}/{i}").items()}
    return {path: tree} if isinstance(tree, (int, float)) else {}


def scores():
    """PSNR and SSIM are scikit-image's, of the measured region where the boundary is valid."""
    from skimage.metrics import peak_signal_noise_ratio, structural_similarity
    photo()
    truth = np.moveaxis(pictures.imread(work / "photo.png"), -1, 0) / 255.0
    path = job(TV.replace("boundary: circular", "boundary: valid"))
    for ranks in (1, 3):
        run(path, "--force", ranks=ranks)
        s = summary("out")
        with h5py.File(work / "out/reconstruction.h5") as f:
            x = f["/image"][...].astype(np.float64) / 255
        (top, bottom), (left, right) = s["scored_region"]
        assert 0 < top < 12 and 0 < left < 12 and 68 < bottom < 80 and 92 < right < 104, s["scored_region"]
        t, x = truth[:, top:bottom, left:right], x[:, top:bottom, left:right]
        eight = [np.floor(np.clip(v, 0, 1) * 255 + 0.5) for v in (t, x)]
        wanted = {"psnr": peak_signal_noise_ratio(t, x, data_range=1),
                  "psnr_8bit": peak_signal_noise_ratio(*eight, data_range=255),
                  "ssim_valid": structural_similarity(t, x, channel_axis=0, gaussian_weights=True, sigma=1.5,
                                                      use_sample_covariance=False, data_range=1)}
        for key, value in wanted.items():
            print(f"{ranks} ranks, {key}: {s[key]:.6f}, scikit-image {value:.6f}")
            assert abs(s[key] - value) < 2e-4, (key, s[key], value)
        assert abs(s["ssim"] - s["ssim_valid"]) > 1e-3
    code, out, err = tessera("compare", "photo.png", "photo.png", ranks=2)
    assert code == 0 and out.count("PSNR inf dB") == 2 and out.count("SSIM 1.000000") == 2, out + err
    run(job(), "--force")
    assert summary("out")["scored_region"] == [[0, 80], [0, 104]]


def diagnostics():
    photo(120, 136)
    path = job(JOB.replace("iterations: 4", "iterations: 30").replace("sigma: 0.1", "sigma: 0.02"))
    out, _ = run(path)
    d = summary("out")["diagnostics"]
    assert d["warnings"] == [], d["warnings"]
    assert 0.7 < d["chi2"] < 1.1 and abs(d["noise_sigma"] - 0.02) < 1e-6, d
    assert d["denoiser"]["passes"] == 2 and 0.5 < d["denoiser"]["last_gain"] < 1.5, d["denoiser"]
    assert pictures.imread(work / "out/residual.png").shape == (120, 136, 3)
    map_of_chi2 = pictures.imread(work / "out/chi2.png")
    assert map_of_chi2.shape[0] % 4 == 0 and map_of_chi2.shape[1] % 5 == 0, map_of_chi2.shape

    run(path, "--set", "output.folder=out5", ranks=5)
    one, five = numbers(d), numbers(summary("out5")["diagnostics"])
    assert one.keys() == five.keys()
    worst = max(abs(one[key] - five[key]) for key in one)
    print(f"1 and 5 ranks differ by {worst:.1e} at most")
    assert worst < 1e-3, {key: (one[key], five[key]) for key in one if abs(one[key] - five[key]) >= 1e-3}

    # Data of another kernel than the one that the job assumes, in a file: the residual keeps the edges.
    np.save(work / "photo.npy", np.moveaxis(pictures.imread(work / "photo.png"), -1, 0).astype(np.float32) / 255)
    truth = JOB.replace("photo.png", "photo.npy").replace("gaussian: 0.02", "gaussian: 0.005")
    assert tessera("simulate", job(truth, "simulate.yaml"), "y.h5")[0] == 0
    real = re.sub("  noise: .*\n  seed: 3\n", "", truth.replace("truth: photo.npy", "measurements: y.h5"))
    wrong = real.replace("sigma: [2.0, 1.0]", "sigma: [1.2, 0.6]").replace("iterations: 4", "iterations: 8")
    out, _ = run(job(wrong, "wrong.yaml"), "--set", "output.folder=wrong", ranks=2)
    assert "warning: the residual is not white" in out, out
    assert any("not white" in line for line in summary("wrong")["diagnostics"]["warnings"])
    assert "denoiser" not in summary("wrong")["diagnostics"]  # 8 iterations: not worth passes of its own
    run(job(wrong, "wrong.yaml"), "--set", "output.folder=silent", "--set", "output.diagnostics=false")
    assert "diagnostics" not in summary("silent") and not (work / "silent/chi2.png").exists()


def probe():
    photo(64, 80)
    path = job()
    tables = []
    for ranks in (1, 3):
        code, out, err = tessera("probe", path, "--sigma", "0.05,0.1", "--passes", 4, "--iterations", 2, ranks=ranks)
        assert code == 0, out + err
        rows = re.findall(r"^(truth|start|\s+\d+) +(\S+) +(\S+) +(\S+)$", out, re.M)
        assert len(rows) == 4 + 2 * 2, out
        tables.append(np.array([[float(v) for v in row[1:]] for row in rows]))
    assert (tables[0][:4, 1:] > 0.3).all() and (tables[0][:4, 1:] < 3).all(), tables[0]
    assert np.abs(tables[0] - tables[1]).max() < 2e-3, tables
    code, out, err = tessera("probe", path, "--image", "photo.png", "--iterations", 0, "--starts", 1, "--passes", 2)
    assert code == 0 and "photo.png" in out and "truth" not in out, out + err
    code, _, err = tessera("probe", job(TV, "tv.yaml"))
    assert code == 2 and "nothing to probe" in err, err
