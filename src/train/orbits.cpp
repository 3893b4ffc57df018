// SPDX-License-Identifier: BSD-3-Clause
#include "orbits.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "loader.hpp"
#include "tessera/core/error.hpp"

namespace tessera::training {
namespace {

enum Number { kSigma, kWidth, kLeft, kNumbers };

/// One number per item (N), as it multiplies items of x.
at::Tensor column(const at::Tensor& per_item, const at::Tensor& x) {
  std::vector<std::int64_t> shape(x.dim(), 1);
  shape[0] = -1;
  return per_item.view(shape);
}

at::Tensor lengths(const at::Tensor& x) {
  std::vector<std::int64_t> axes(x.dim() - 1);
  std::iota(axes.begin(), axes.end(), 1);
  return at::linalg_vector_norm(x, 2, axes);
}

/// G applied along each of the axes behind the channels; x (C, [D,] H, W).
at::Tensor along_axes(const at::Tensor& g, const at::Tensor& x) {
  const at::Tensor y = at::matmul(at::matmul(g, x), g);
  return x.dim() == 3 ? y : at::matmul(g, y.flatten(2)).view(x.sizes());
}

/// (D(x + h v) - D(x)) / h.
at::Tensor slope(const Graph& graph, const std::map<std::string, at::Tensor>& weights, const at::Tensor& x,
                 const at::Tensor& image, const at::Tensor& sigma, const at::Tensor& v) {
  const at::Tensor h = column(2 * sigma, x);
  return (evaluate(graph, weights, x + h * v, sigma) - image) / h;
}

}  // namespace

at::Tensor reflection_norm(const Graph& graph, const std::map<std::string, at::Tensor>& weights,
                           const at::Tensor& x, const at::Tensor& image, const at::Tensor& sigma,
                           const at::Tensor& v) {
  return lengths(2 * slope(graph, weights, x, image, sigma, v) - v);
}

Orbits::Orbits(const TrainOptions& options) : options_(options) {
  const std::int64_t n = options.jacobian.orbits;
  image_ = at::zeros(crops_shape(options, n, options.network.channels), at::kFloat);
  measured_ = at::zeros(image_.sizes(), at::kFloat);
  direction_ = at::zeros(image_.sizes(), at::kFloat);
  mask_ = at::zeros(crops_shape(options, n, 1), at::kFloat);
  numbers_ = at::zeros({n, kNumbers}, at::kFloat);  // no visits left: all begin at their first
  state_ = {{"orbit.image", image_},
            {"orbit.measured", measured_},
            {"orbit.direction", direction_},
            {"orbit.mask", mask_},
            {"orbit.numbers", numbers_}};
}

float& Orbits::number(std::int64_t orbit, int which) {
  return numbers_.data_ptr<float>()[orbit * kNumbers + which];
}

at::Tensor Orbits::blur(std::int64_t orbit) const {
  // Row i holds the kernel around i, wrapped: x -> G x G is a circular Gaussian blur, and its own adjoint.
  const std::int64_t side = options_.crop;
  const double width = numbers_.data_ptr<float>()[orbit * kNumbers + kWidth];
  std::vector<double> kernel(side);
  double sum = 0;
  for (std::int64_t i = 0; i < side; ++i) {
    const auto distance = static_cast<double>(std::min(i, side - i));
    kernel[i] = std::exp(-0.5 * distance * distance / (width * width));
    sum += kernel[i];
  }
  at::Tensor matrix = at::empty({side, side}, at::kFloat);
  for (std::int64_t i = 0; i < side; ++i)
    for (std::int64_t k = 0; k < side; ++k)
      matrix.data_ptr<float>()[i * side + k] = static_cast<float>(kernel[std::abs(i - k)] / sum);
  return matrix;
}

at::Tensor Orbits::measure(std::int64_t orbit, const at::Tensor& x) const {
  return mask_.select(0, orbit) * along_axes(blur(orbit), x);
}

at::Tensor Orbits::adjoint(std::int64_t orbit, const at::Tensor& y) const {
  return along_axes(blur(orbit), mask_.select(0, orbit) * y);
}

void Orbits::begin(std::int64_t orbit, const std::vector<Picture>& pictures, std::int64_t step) {
  const JacobianOptions& o = options_.jacobian;
  Draws draws(options_.seed, step, orbit, /*use=*/1);
  // Noise levels spread evenly over the orders of magnitude; measurements carry less noise than D removes.
  const double sigma = o.sigma.first * std::pow(o.sigma.second / o.sigma.first, draws.uniform());
  const double noise = sigma * draws.uniform();
  // Blurred; masked; both; or blurred and every second pixel in both axes, as super-resolution sees it.
  const double kind = draws.uniform();
  const bool masked = kind >= 0.35 && kind < 0.75, grid = kind >= 0.75;
  const double narrowest = grid ? 0.8 : 0.5;
  number(orbit, kSigma) = static_cast<float>(sigma);
  number(orbit, kWidth) =
      static_cast<float>(kind < 0.35 || kind >= 0.55 ? narrowest + 2 * draws.uniform() : 1e-3);
  number(orbit, kLeft) = static_cast<float>(1 + draws.below(o.length));
  const double share = masked ? 0.2 + 0.7 * draws.uniform() : 1.0;
  const std::int64_t row = draws.below(2), column = draws.below(2), side = options_.crop;
  const double on_grid = image_.dim() == 5 ? std::sqrt(8.0) : 2.0;
  const at::Tensor clean = at::empty_like(image_.select(0, orbit));
  clean_crop(options_, crop_size(options_), pictures, draws, clean.data_ptr<float>());

  const Random random = draws.random();  // the numbers of whole pictures: further draws of the same step
  const auto fill = [&](at::Tensor values, std::int64_t place, auto&& value) {
    for (std::int64_t i = 0; i < values.numel(); ++i)
      values.data_ptr<float>()[i] = static_cast<float>(value(place * options_.jacobian.orbits + orbit, i));
  };
  const auto at = [](std::int64_t i) { return static_cast<std::uint32_t>(i); };
  fill(mask_.select(0, orbit), 1, [&](std::int64_t place, std::int64_t i) {
    if (!grid) return random.uniform(place, at(i)) < share ? 1.0 : 0.0;
    // On the grid so large that |A| = 1 there too, and steps of length 1 are as fast as elsewhere.
    const std::int64_t slice = i / (side * side);
    return i / side % 2 == row && i % side % 2 == column && slice % 2 == 0 ? on_grid : 0.0;
  });
  at::Tensor n = at::empty_like(clean);
  fill(n, 2, [&](std::int64_t place, std::int64_t i) { return noise * random.normal(place, at(i)); });
  fill(direction_.select(0, orbit), 3,
       [&](std::int64_t place, std::int64_t i) { return random.normal(place, at(i)); });
  at::Tensor v = direction_.select(0, orbit);
  v.div_(at::linalg_vector_norm(v));
  measured_.select(0, orbit).copy_(measure(orbit, clean) + mask_.select(0, orbit) * n);
  image_.select(0, orbit).copy_(adjoint(orbit, measured_.select(0, orbit)));
}

Visit Orbits::visit(const Graph& graph, const std::map<std::string, at::Tensor>& weights,
                    const std::vector<Picture>& pictures, std::int64_t step, const Communicator& comm) {
  const JacobianOptions& o = options_.jacobian;
  std::vector<std::int64_t> mine;
  std::vector<at::Tensor> points, directions;
  std::vector<float> levels;
  for (std::int64_t k = 0; k < o.batch; ++k) {
    const std::int64_t orbit = (step * o.batch + k) % o.orbits;
    if (orbit % comm.size() != comm.rank()) continue;
    if (number(orbit, kLeft) < 0.5F) begin(orbit, pictures, step);
    mine.push_back(orbit);
    points.push_back(image_.select(0, orbit));
    directions.push_back(direction_.select(0, orbit));
    levels.push_back(number(orbit, kSigma));
  }

  std::vector<double> sums(2, 0.0), largest(1, 0.0);
  if (!mine.empty()) {
    const auto items = static_cast<std::int64_t>(mine.size());
    const at::Device device = weights.begin()->second.device();  // the orbits themselves stay on the host
    at::Tensor sigma = at::empty({items}, at::kFloat);
    std::copy(levels.begin(), levels.end(), sigma.data_ptr<float>());
    sigma = sigma.to(device);
    at::Tensor x = at::stack(points).to(device);
    x = x.contiguous(channels_last(x)).requires_grad_(true);
    at::Tensor v = at::stack(directions).to(device);

    // Power method on R'R, R = 2 D' - 1: R v by the quotient, R' by a backward pass to the image alone.
    const at::AutoGradMode on(true);
    const at::Tensor image = evaluate(graph, weights, x, sigma);
    const auto fixed = [&] {
      std::map<std::string, at::Tensor> detached;
      for (const auto& [name, tensor] : weights) detached[name] = tensor.detach();
      return detached;
    }();
    for (std::int64_t i = 0; i < o.power_iterations; ++i) {
      const at::Tensor forth = 2 * slope(graph, fixed, x.detach(), image.detach(), sigma, v) - v;
      const std::vector<at::Tensor> inputs{x};
      image.backward(forth, /*retain_graph=*/true, /*create_graph=*/false, inputs);
      v = 2 * x.grad() - forth;
      x.mutable_grad().reset();
      v = v / column(lengths(v), v);
    }
    const at::Tensor norm = reflection_norm(graph, weights, x.detach(), image, sigma, v);
    const at::Tensor penalty =
        at::relu(norm.square() - o.bound * o.bound).sum() * (o.weight / static_cast<double>(o.batch));
    penalty.backward();

    const at::NoGradGuard off;
    sums = {penalty.item<double>(), norm.sum().item<double>() / static_cast<double>(o.batch)};
    largest = {norm.max().item<double>()};
    const at::Tensor reached = image.detach().cpu(), turned = v.cpu();
    for (std::int64_t i = 0; i < items; ++i) {
      const std::int64_t orbit = mine[i];
      const at::Tensor next = reached.select(0, i).contiguous();
      const at::Tensor residual = measure(orbit, next) - measured_.select(0, orbit);
      image_.select(0, orbit).copy_(next - adjoint(orbit, residual));
      direction_.select(0, orbit).copy_(turned.select(0, i));
      const at::Tensor& z = image_.select(0, orbit);
      const bool left = !(z.min().item<double>() >= -4 && z.max().item<double>() <= 5);  // no number included
      number(orbit, kLeft) = left ? 0 : number(orbit, kLeft) - 1;
    }
  }
  comm.all_reduce(sums, Reduce::sum);
  comm.all_reduce(largest, Reduce::max);
  return {sums[0], sums[1], largest[0]};
}

void Orbits::share(const Communicator& comm) {
  for (const auto& [name, tensor] : state_) {
    const std::int64_t each = tensor.numel() / options_.jacobian.orbits;
    std::vector<double> values(tensor.numel(), 0.0);
    float* own = tensor.data_ptr<float>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      if (i / each % comm.size() == comm.rank()) values[i] = own[i];
    comm.all_reduce(values, Reduce::sum);  // one summand is not zero: exact
    for (std::int64_t i = 0; i < tensor.numel(); ++i) own[i] = static_cast<float>(values[i]);
  }
}

}  // namespace tessera::training
