// SPDX-License-Identifier: BSD-3-Clause
#include "circular_preconditioner.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "circular_norm.hpp"

namespace tessera {
namespace {

// A kernel for every part: that of its convolution, or a single tap for a mask, whose zeros count as weights.
// Empty where a part is neither.
std::vector<Convolution> kernels_of(const DistributedOperator& A, const Tensors& observed) {
  std::vector<Convolution> kernels;
  const std::vector<OperatorTraits::Part>& parts = A.traits().parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::optional<Convolution>& own = parts[i].convolution;
    if (!own && !observed[i].defined()) return {};
    kernels.push_back(own ? *own : Convolution{at::ones({1, 1, 1, 1}, at::kDouble)});
  }
  return kernels;
}

// The samples of part i that this rank owns, each at its anchor's pixel, 0 between them.
at::Tensor at_anchors(const at::Tensor& samples, const DistributedOperator& A, std::size_t i) {
  const int rank = A.comm().rank();
  const Anchor& anchor = A.range().part(i).anchor.value();  // of a convolution or a mask
  const Box &from = A.range().block(i, rank), &to = A.image().block(rank);
  at::Tensor image = A.make_image().zero_();
  if (from.empty()) return image;
  at::Tensor pixels = image;
  for (std::size_t d = image.dim() == 4 ? 0 : 1; d < 3; ++d) {
    const std::int64_t first = anchor.factor[d] * from.lo()[d] + anchor.offset[d] - to.lo()[d];
    pixels = pixels.slice(static_cast<std::int64_t>(d) - 3, first,
                          first + anchor.factor[d] * (from.extent(d) - 1) + 1, anchor.factor[d]);
  }
  pixels.copy_(samples);
  return image;
}

// Preconditioning costs two transforms per iteration. It pays where gamma |A^T W A| is above this, and, with
// decimation, where gamma times what it is at the frequencies that fold onto themselves is below that.
//
// `tests/bench/data_step.sh prox 1`, 3 x 512 x 512, one thread: valid, Gaussian 1.6 and 15 x 15 taps, gamma
// 5, 100 and 2000 need 6, 34 and 177 to 198 iterations without and 2, 4 to 7 and 10 to 25 with it; at 1 as
// much time, at 2000 between all and a twelfth of it (a loaded machine). Decimated by 2: Gaussian 1.6, gamma
// 2000, 92 and 9; Gaussian 0.7, which lets aliases through, 8 and 34.
constexpr double kPays = 10, kAliases = 4;

// Of an image (C, [D,] H, W), rows or slices that are worked on at once: they stay in the cache.
std::int64_t lines_at_once(const at::Tensor& image) { return image.dim() == 4 ? 1 : 64; }

// Planes of a spectrum (k, d, h, columns) as those of an image.
at::Tensor like_image(const at::Tensor& spectrum, bool volume) {
  return volume ? spectrum : spectrum.squeeze(1);
}

// |K| where it is largest, at most: exact for kernels without negative taps.
double largest_gain(const Convolution& kernel) {
  return kernel.taps.abs().sum({1, 2, 3}).max().item<double>();
}

// |K|^2 at half a turn per `factor` pixels along one axis, the largest of all channels and axes that a decimation
// folds.
double gain_at_fold(const Convolution& kernel) {
  double largest = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (kernel.factor[axis] == 1) continue;
    const std::array<std::int64_t, 2> others{axis == 0 ? 2 : 1, axis == 2 ? 2 : 3};
    const at::Tensor line = kernel.taps.sum(at::IntArrayRef(others));  // (k, taps)
    const at::Tensor turn = at::arange(line.size(1), at::kDouble)
                                .mul_(std::numbers::pi / static_cast<double>(kernel.factor[axis]));
    const at::Tensor re = line.mul(turn.cos()).sum(1), im = line.mul(turn.sin()).sum(1);
    largest = std::max(largest, (re.square() + im.square()).max().item<double>());
  }
  return largest;
}

}  // namespace

std::unique_ptr<CircularPreconditioner> CircularPreconditioner::make(const DistributedOperator& A,
                                                                     const Tensors& root_weights,
                                                                     const Space& space) {
  const Tensors observed = A.observed();
  const std::vector<Convolution> kernels = kernels_of(A, observed);
  if (kernels.empty()) return nullptr;
  std::unique_ptr<CircularPreconditioner> p(new CircularPreconditioner(
      DistributedFourier({A.image(), FourierAxes::volume}, A.options(), A.transport(), A.comm().rank())));
  p->look(A, kernels, observed, root_weights, space);
  if (!(p->level_ > 0)) return nullptr;
  return p;
}

CircularPreconditioner::CircularPreconditioner(DistributedFourier fourier) : fourier_(std::move(fourier)) {}

void CircularPreconditioner::look(const DistributedOperator& A, const std::vector<Convolution>& kernels,
                                  const Tensors& observed, const Tensors& root_weights, const Space& space) {
  const Index3 size = A.image().box().extents();
  const bool volume = A.image().space.volume();
  const std::int64_t begin = fourier_.first_column(), end = fourier_.last_column(),
                     most = columns_at_once(size);
  // The weight that pixel j sees of one part: the mean of its samples' weights, by the squares of their taps.
  at::Tensor seen = at::zeros_like(fourier_.spectrum());
  std::int64_t kinds = 1;  // channels that differ
  for (const Convolution& k : kernels) kinds = std::max(kinds, k.taps.size(0));
  shape_ = like_image(at::zeros({kinds, size[0], size[1], end - begin}, A.options()), volume);
  bool alike = kinds == 1;  // all channels see the same
  double peak = 0;          // of the sum of gains
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    at::Tensor w = at::ones({1}, A.options()).view(std::vector<std::int64_t>(volume ? 4 : 3, 1));
    if (root_weights[i].defined()) w = root_weights[i].square();
    if (observed[i].defined()) w = w.mul(observed[i]);
    alike = alike && w.size(0) == 1;
    w = at_anchors(w, A, i);
    const double share = space.dot(w, at::ones_like(w));
    const at::Tensor& taps = kernels[i].taps;
    const double gain = std::pow(largest_gain(kernels[i]), 2),
                 energy = taps.square().sum({1, 2, 3}).max().item<double>();
    if (!(share > 0 && energy > 0)) continue;
    if (kernels[i].decimates()) folded_ = std::max(folded_, gain_at_fold(kernels[i]) / gain);
    peak += share * gain;
    fourier_.forward(w);
    for (std::int64_t c = begin; c < end; c += most) {  // in float64: a few columns at a time
      const std::int64_t stop = std::min(end, c + most);
      const auto here = [&](const at::Tensor& t) { return t.slice(-1, c - begin, stop - begin); };
      here(shape_).add_(like_image(spectrum_squared(taps, size, c, stop), volume).mul_(share));
      const at::Tensor squares =
          like_image(spectrum_of(taps.square(), kernels[i].origin, size, c, stop), volume);
      here(seen).addcmul_(here(fourier_.spectrum()), squares.conj().mul(gain / energy).to(seen.options()));
    }
  }
  fourier_.spectrum().copy_(seen);
  local_ = A.make_image();
  seen.reset();
  fourier_.inverse(local_);
  local_.clamp_min_(0.0);
  const std::vector<double> sums = space.dots({{local_, local_}, {local_, at::ones_like(local_)}});
  if (!(sums[1] > 0 && peak > 0)) return;
  level_ = sums[0] / sums[1];  // the mean, by weight: pixels that are hardly seen do not count
  local_.div_(level_).clamp_max_(1.0);
  // It shapes the preconditioner alone: 11 bits do.
  local_ = local_.slice(0, 0, alike ? 1 : local_.size(0)).to(at::kHalf);
  shape_.div_(peak);
}

bool CircularPreconditioner::pays(double gamma) const {
  return gamma * level_ >= kPays && gamma * level_ * folded_ <= kAliases;
}

void CircularPreconditioner::prepare(double gamma) {
  if (gamma == gamma_) return;
  gamma_ = gamma;
  const double g = gamma * level_;
  // 1 - a + a / (1 + g) = 1 / (1 + g l)
  if (!root_.defined()) root_ = at::empty(local_.sizes(), shape_.options());
  const std::int64_t most = lines_at_once(local_);
  for (std::int64_t line = 0; line < local_.size(1); line += most) {
    const at::Tensor l = local_.slice(1, line, line + most).to(root_.scalar_type());
    root_.slice(1, line, line + most).copy_(l.mul(g).add_(1).reciprocal_().mul_(l).mul_(1 + g).sqrt_());
  }
}

void CircularPreconditioner::apply(const at::Tensor& r, at::Tensor& z) {
  at::mul_out(z, r, root_);
  fourier_.divide({z}, shape_, gamma_ * level_, z);
  const std::int64_t most = lines_at_once(z);
  for (std::int64_t line = 0; line < z.size(1);
       line += most) {  // r + root (C^-1 root r - root r), in the cache
    const auto here = [&](const at::Tensor& t) { return t.slice(1, line, line + most); };
    here(z).addcmul_(here(r), here(root_), -1).mul_(here(root_)).add_(here(r));
  }
}

PreconditionerRow circular_preconditioner() {
  return {.name = "circular",
          .fits = [](const OperatorTraits& A,
                     const ProductSpace& domain) { return A.convolutional() && domain.parts() == 1; },
          .transformed =
              [](const OperatorTraits&, const ProductSpace& domain) {
                return std::optional(FourierArray{domain.part(0), FourierAxes::volume});
              },
          .memory =
              [](const ProductSpace& domain, bool weighted, int rank) {
                const ProductSpace::Part& image = domain.part(0);
                // Symbol, weights and their root, of each channel where samples have weights of their own.
                const double kinds = weighted ? 1 : 1 / static_cast<double>(image.space.planes());
                return static_cast<double>(image.space.bytes(image.block(rank))) * 2 * kinds;
              },
          .make = [](const DistributedOperator& A, const Tensors& root_weights,
                     const Space& space) -> std::unique_ptr<Preconditioner> {
            return CircularPreconditioner::make(A, root_weights, space);
          }};
}

}  // namespace tessera
