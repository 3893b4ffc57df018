// SPDX-License-Identifier: BSD-3-Clause
#include "networks/drunet.hpp"

namespace tessera {
namespace {

/// D(x) = x - grad g(x), the gradient step on g(x) = |x - N(x)|^2 / 2 with N a DRUNet of ELUs:
/// grad g = (x - N) - J^T (x - N), so D = N + J^T (x - N), J the derivative of N by the image.
/// Source: Hurault, Leclaire, Papadakis, "Gradient step denoiser for convergent plug-and-play", ICLR 2022.
Graph make_gsdrunet(const NetworkOptions& options) {
  Graph g;
  const auto [image, n] = add_drunet(g, options, Op::elu);
  const int residual = g.add({.op = Op::subtract, .inputs = {image, n}});
  const int back = append_adjoint(g, image, n, residual);
  const int denoised = g.add({.op = Op::add, .inputs = {n, back}});
  if (options.potential) g.add({.op = Op::concat, .inputs = {denoised, residual}});
  return g;
}

}  // namespace

DenoiserRow gsdrunet_row() {
  return {.name = "gsdrunet",
          .options = {widths_option(), blocks_option()},
          .graph = make_gsdrunet,
          .infer = infer_drunet,
          .saved = {"blocks"},
          .published = {.blocks = 2},
          .potential = true};
}

}  // namespace tessera
