#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The noise level that scikit-image's estimate_sigma finds in a picture that was a file before, on a blurred picture with known
# errors; deconvolution and BM3D are usually run at that level.
# Guess: what is left of the noise and what the file added is found to some percent, as on raw samples.
# Really: on raw samples it is right to 1 %. After a JPEG or a WebP of quality 80, or enlarging by 1.5, the true error is about
#   as large as before, and a fifth to two fifths of it are found: the estimate looks at the finest details, which all
#   three have taken away. A deconvolution at that level blows up the rest.
# Seen 2026-11-29, scikit-image 0.26.0, PyWavelets 1.9.0, Pillow 12.0.0: found / true is 1.00 raw, 0.24 JPEG, 0.19 WebP,
#   0.39 enlarged.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 scipy==1.17.0 scikit-image==0.26.0 PyWavelets==1.9.0 Pillow==12.0.0
cat >levels.py <<'EOF'
import io

import numpy as np
import scipy.ndimage as nd
from PIL import Image
from skimage import data
from skimage.restoration import estimate_sigma

clean = nd.gaussian_filter(data.camera() / 255, 1.6)
noisy = clean + 0.01 * np.random.default_rng(0).standard_normal(clean.shape)
whole = lambda x: np.rint(255 * x.clip(0, 1)).astype(np.uint8)


def coded(form):
    file = io.BytesIO()
    Image.fromarray(whole(noisy)).save(file, form, quality=80)
    file.seek(0)
    return np.asarray(Image.open(file).convert("L")) / 255


def larger(x):
    return np.asarray(Image.fromarray(x.astype(np.float32)).resize((768, 768), Image.BICUBIC), float)


ratios = {}
for name, x, truth in (("raw", whole(noisy) / 255, clean), ("jpeg", coded("JPEG"), clean), ("webp", coded("WEBP"), clean),
                       ("enlarged", whole(larger(noisy)) / 255, larger(clean))):
    true = np.sqrt(np.mean((x - truth) ** 2))
    found = estimate_sigma(x)
    ratios[name] = found / true
    print(f"{name}: true {true:.4f}, estimate_sigma {found:.4f}, ratio {ratios[name]:.2f}")
assert 0.9 < ratios.pop("raw") < 1.1
assert all(r < 0.45 for r in ratios.values()), ratios
EOF
python levels.py
