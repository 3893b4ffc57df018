#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Network weights written by safetensors from numpy, after a change of their layout (HWIO to OIHW, say).
# Guess: an array is its values at its indices, whatever its strides, as in numpy.save; or a refusal, as for torch.
# Really: the bytes are written in the order of memory, and the shape beside them: a transposed or Fortran-ordered array
#   comes back with every value in a wrong place, the right shape and no message. The network loads, and its pictures
#   are wrong. numpy.ascontiguousarray before saving.
# Seen 2026-11-27, safetensors 0.8.0, numpy 2.4.6: saving [[0 1] [2 3]].T, which is [[0 2] [1 3]], gives [[0 1] [2 3]].
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 safetensors==0.8.0
python -W error <<'EOF'
import numpy
from safetensors.numpy import load_file, save_file

kernels = numpy.arange(3 * 3 * 8 * 16, dtype="f4").reshape(3, 3, 8, 16)  # height, width, inputs, outputs
weights = kernels.transpose(3, 2, 0, 1)
small = numpy.array([[0, 1], [2, 3]], "f4").T
save_file({"weights": weights, "small": small, "contiguous": numpy.ascontiguousarray(weights)}, "net.safetensors")
read = load_file("net.safetensors")
wrong = float((read["weights"] != weights).mean())
print("saved", small.tolist(), "read", read["small"].tolist(), f"{wrong:.1%} of the weights are wrong")
assert read["weights"].shape == weights.shape and wrong > 0.9
assert read["small"].tolist() == [[0, 1], [2, 3]] != small.tolist()
assert (read["contiguous"] == weights).all()
EOF
