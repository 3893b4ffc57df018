// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/layer_engines.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "engines/convolution.hpp"
#include "run/convolution_problems.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/execution.hpp"
#include "tessera/denoise/layer_schedule.hpp"
#include "tessera/denoise/pass_plan.hpp"

namespace tessera {

std::map<ConvolutionProblem, std::int64_t> convolution_problems(const NetworkOptions& network,
                                                                Precision precision, std::int64_t height,
                                                                std::int64_t width) {
  const Graph graph = make_graph(network);
  TESSERA_VALIDATE(
      graph.axes() == Axes::picture, network.name,
      " is for volumes (its convolutions are torch's, not graphs of ours) name one for pictures");
  const PassPlan plan = make_pass_plan(without_batch_norms(graph), fuses_add(ConvolutionLibrary::cudnn));
  const auto tensor = at::TensorOptions().dtype(scalar_type(precision));
  std::map<ConvolutionProblem, std::int64_t> out;
  for (const Step& step : plan.steps) {
    const Node& n = step.node;
    if (!is_convolution(n.op) || n.depthwise) continue;  // those are torch's
    const std::int64_t in = plan.channels[static_cast<std::size_t>(n.inputs[0])],
                       taps = n.op == Op::conv ? n.kernel : 2;
    const bool up = n.op == Op::conv_up;
    const at::Tensor weight = at::empty({up ? in : n.channels, up ? n.channels : in, taps, taps}, tensor);
    std::optional<at::Tensor> bias;
    if (!n.bias.empty()) bias = at::empty({n.channels}, tensor);
    const ConvolutionLayer::Shape shape =
        n.op == Op::conv ? ConvolutionLayer::Shape{.stride = 1, .padding = n.kernel / 2}
                         : ConvolutionLayer::Shape{.stride = 2, .padding = 0, .transposed = up};
    const ConvolutionLayer convolution(ConvolutionLibrary::cudnn, weight, bias, shape);
    const int level = n.level - level_change(n.op);
    ++out[convolution.problem({1, (in + 7) / 8 * 8, height >> level, width >> level}, step.other >= 0,
                              step.relu, {}, precision == Precision::tf32)];
  }
  return out;
}

std::string text(const ConvolutionProblem& p) {
  return concat(p.x[0], " x ", p.x[1], " x ", p.x[2], " x ", p.x[3], " * ", p.w[0], ',', p.w[1], ',', p.w[2],
                p.transposed ? " transposed" : "", p.bias ? " + bias" : "", p.other ? " + other" : "",
                p.relu ? " relu " : " ", c10::toString(p.type), p.tf32 ? " tf32" : "");
}

std::vector<LayerEngine> layer_engines(const NetworkOptions& network, Precision precision,
                                       std::int64_t height, std::int64_t width, const std::string& device) {
  const CudnnDevice asked = device.empty() ? CudnnDevice::current() : CudnnDevice::described(device);
  std::vector<LayerEngine> out;
  for (const auto& [problem, layers] : convolution_problems(network, precision, height, width)) {
    ConvolutionProblem p = problem;
    const std::vector<CudnnEngine> engines = cudnn_engines(p, asked);
    LayerEngine e;
    e.convolution = text(p);
    e.layers = layers;
    const std::array<std::int64_t, 4> many = p.transposed ? p.x : p.y();  // a weight meets each pixel of it
    e.operations = 2.0 * static_cast<double>(layers * many[0] * many[2] * many[3]) *
                   static_cast<double>(p.w[0] * p.w[1] * p.w[2] * p.w[3]);
    e.engines = static_cast<std::int64_t>(engines.size());
    if (!engines.empty()) {
      e.engine = engines.front().index;
      e.tensor_cores = engines.front().tensor_cores;
      e.workspace = engines.front().workspace;
    }
    out.push_back(std::move(e));
  }
  std::sort(out.begin(), out.end(),
            [](const LayerEngine& a, const LayerEngine& b) { return a.operations > b.operations; });
  return out;
}

std::string engine_table(const std::vector<LayerEngine>& engines) {
  double all = 0;
  for (const LayerEngine& e : engines) all += e.operations;
  std::string out = "layers    work  engines  first  tensor cores  workspace, MB  convolution";
  for (const LayerEngine& e : engines) {
    std::array<char, 80> line{};
    std::snprintf(line.data(), line.size(), "\n%6lld  %4.1f %%  %7lld  %5lld  %12s  %13.1f  ",
                  static_cast<long long>(e.layers), 100 * e.operations / all,
                  static_cast<long long>(e.engines), static_cast<long long>(e.engine),
                  e.tensor_cores ? "yes" : "no", static_cast<double>(e.workspace) / 1e6);
    out += line.data();
    out += e.convolution;
  }
  return out;
}

}  // namespace tessera
