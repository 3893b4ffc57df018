#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A convolution in 16 bits with ONNX Runtime on a CPU, which denoising networks are asked to run in for their memory.
# Guess: the two types of 16 bits are treated alike, either refused or computed, by some processors slowly.
# Really: float16 is taken, and computed in float32: casts are put around the convolution, so its input and its result
#   stand in memory in both forms and nothing is saved. bfloat16, which ONNX allows for Conv from opset 22 on, is refused
#   when the session is made, with the words that there is no implementation.
# Seen 2026-11-28, onnxruntime 1.32.0, onnx 1.20.0, an AMD EPYC with AVX2 alone:
#   float16: Cast, ReorderInput, Conv, ReorderOutput, Cast; bfloat16: NotImplemented, "Could not find an implementation
#   for Conv(22)".
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 onnx==1.20.0 onnxruntime==1.32.0
python - <<'PY'
import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

random = numpy.random.default_rng(0)
weight = (random.standard_normal((8, 8, 3, 3)) / 8).astype(numpy.float32)


def session(kind):
    start = helper.make_tensor("w", kind, weight.shape, weight.ravel())
    conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    shape = [1, 8, 64, 64]
    graph = helper.make_graph(
        [conv],
        "layer",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, shape)],
        [start],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    onnx.checker.check_model(model)  # valid ONNX
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = "optimized.onnx"
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


half = session(TensorProto.FLOAT16)
nodes = [node.op_type for node in onnx.load("optimized.onnx").graph.node]
y = half.run(None, {"x": random.standard_normal((1, 8, 64, 64)).astype(numpy.float16)})[0]
print("float16:", nodes, y.dtype)
assert nodes.count("Cast") == 2 and any("Conv" in node for node in nodes) and y.dtype == numpy.float16
try:
    session(TensorProto.BFLOAT16)
except Exception as error:
    print("bfloat16:", type(error).__name__, str(error)[:90])
    assert type(error).__name__ == "NotImplemented"
else:
    raise SystemExit("bfloat16 is taken now")
PY
