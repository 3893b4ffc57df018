#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Scores by scikit-image 0.26.0 of the pairs of images in metrics.safetensors, as metrics_skimage.safetensors.

    python3 -m venv metrics-venv
    metrics-venv/bin/pip install scikit-image==0.26.0 safetensors
    metrics-venv/bin/python tests/reference/make_metrics_reference.py

--check compares a new run with the committed file, byte by byte, instead of writing.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import numpy as np
import skimage
from safetensors.numpy import load_file, save
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

FOLDER = Path(__file__).resolve().parent
REGION = (slice(3, 29), slice(5, 36))  # rows, columns: a part that was measured


def scores(truth, image):
    """Shapes (C, H, W), range [0, 1]."""
    pictures = [np.floor(np.clip(x, 0, 1) * 255 + 0.5).astype(np.uint8) for x in (truth, image)]
    return {
        "psnr": peak_signal_noise_ratio(truth, image, data_range=1),
        "psnr_8bit": peak_signal_noise_ratio(*pictures, data_range=255),
        "ssim_valid": structural_similarity(
            truth, image, channel_axis=0, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=1
        ),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed file, write nothing")
    check = parser.parse_args().check
    assert skimage.__version__ == "0.26.0", "another version than the README says"

    pairs = load_file(FOLDER / "metrics.safetensors")
    tensors = {}
    for name in ("color", "gray"):
        truth, image = pairs[f"{name}.truth"], pairs[f"{name}.image"]
        cases = {name: scores(truth, image), f"{name}_region": scores(truth[:, *REGION], image[:, *REGION])}
        for case, values in cases.items():
            print(case, {key: round(float(v), 4) for key, v in values.items()})
            tensors |= {f"{case}.{key}": np.float64(v) for key, v in values.items()}
        # A reference that cannot tell the scores apart tests nothing.
        assert abs(cases[name]["psnr"] - cases[name]["psnr_8bit"]) > 0.01, "the image does not leave [0, 1]"
        assert abs(cases[name]["ssim_valid"] - cases[f"{name}_region"]["ssim_valid"]) > 1e-3
    rows, columns = REGION
    tensors["region"] = np.array([rows.start, rows.stop, columns.start, columns.stop])
    arrays = {key: np.asarray(v) for key, v in sorted(tensors.items())}
    data = save(arrays, {"source": f"scikit-image {skimage.__version__}"})

    path = FOLDER / "metrics_skimage.safetensors"
    if check:
        sys.exit(0 if path.read_bytes() == data else f"{path.name} differs from the committed file")
    path.write_bytes(data)
    print(f"{hashlib.sha256(data).hexdigest()}  {path.name}")


if __name__ == "__main__":
    main()
