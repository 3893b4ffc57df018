#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Asking OpenVINO on a CPU for 16 bits, as comparisons of speed and accuracy do.
# Guess: a processor without instructions for it refuses, warns, or computes slowly with its rounding.
# Really: the hint is taken without a word and float32 is computed, for bf16 and f16 alike: the result is that of float32
#   bit for bit, and a table of "bfloat16" times is one of float32. Only the compiled model's own property says f32.
# Seen 2026-11-28, openvino 2026.4.1, an AMD EPYC with AVX2 alone: asked bf16 or f16, has f32, largest difference
#   from the model that was asked for f32: 0; a result rounded to bfloat16 would differ by some 1e-2.
source "$(dirname "$0")/support.sh"
if grep -m 1 -q -w -E 'avx512_bf16|amx_bf16|avx_ne_convert|avx512_fp16|amx_fp16' /proc/cpuinfo; then
  cannot_try 'this processor has instructions for numbers of 16 bits' 'the finding is about those without'
fi
python_packages numpy==2.4.6 openvino==2026.4.1
python - <<'PY'
import numpy
import openvino
from openvino import opset13

random = numpy.random.default_rng(0)
weight = (random.standard_normal((16, 16, 3, 3)) / 12).astype(numpy.float32)
image = random.standard_normal((1, 16, 64, 64)).astype(numpy.float32)
x = opset13.parameter([1, 16, 64, 64], numpy.float32)
y = opset13.convolution(x, opset13.constant(weight), [1, 1], [1, 1], [1, 1], [1, 1])
model = openvino.Model([y], [x], "layer")
results, types = {}, {}
for asked in ("f32", "bf16", "f16"):
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": asked})
    types[asked] = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    results[asked] = compiled([image])[0].copy()
difference = max(numpy.abs(results[asked] - results["f32"]).max() for asked in ("bf16", "f16"))
print("asked and has:", types, "largest difference:", difference)
assert types == {"f32": "f32", "bf16": "f32", "f16": "f32"} and difference == 0
PY
