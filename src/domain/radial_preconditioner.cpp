// SPDX-License-Identifier: BSD-3-Clause
#include "radial_preconditioner.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/real.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tessera/core/random.hpp"

namespace tessera {
namespace {

// It costs two transforms per use, little beside projections: in tests/domain/radial_preconditioner_test.cpp it
// saves no iteration where gamma |A^T W A| is below this.
constexpr double kPays = 10;
constexpr std::int64_t kBands = 4;     // of frequencies along the axis
constexpr double kLeastSymbol = 1e-6;  // of the largest
constexpr double kLeastWeight = 0.02;  // of the mean

// 1 or -1 at each pixel, by its index in the whole image; the same in every channel.
void fill_signs(const DistributedOperator& A, at::Tensor& x) {
  const Random random(0, RandomStream::probe);
  const Box &all = A.image().box(), &block = A.image().block(A.comm().rank());
  if (block.empty()) return;
  at::Tensor host = at::empty(x.sizes().slice(1), at::kDouble);
  double* value = host.mutable_data_ptr<double>();
  at::parallel_for(0, block.extent(0) * block.extent(1), 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t d = line / block.extent(1) + block.lo()[0] - all.lo()[0],
                         h = line % block.extent(1) + block.lo()[1] - all.lo()[1];
      const std::int64_t first = (d * all.extent(1) + h) * all.extent(2) + block.lo()[2] - all.lo()[2];
      for (std::int64_t w = 0; w < block.extent(2); ++w)
        value[line * block.extent(2) + w] = random.words(first + w)[0] % 2 == 0 ? 1 : -1;
    }
  });
  for (std::int64_t c = 0; c < x.size(0); ++c) x.select(0, c).copy_(host);
}

void weigh(const Tensors& root_weights, Tensors& y) {
  for (std::size_t i = 0; i < y.size(); ++i)
    if (root_weights[i].defined()) y[i].mul_(root_weights[i]).mul_(root_weights[i]);
}

// Rings of a spectrum's planes, counted in steps of the finest frequency across the axis; bands of a depth.
struct Rings {
  std::int64_t count = 0;
  at::Tensor of;                    // (height, this rank's columns), int64
  at::Tensor twice;                 // likewise, float64: 2 where the half spectrum stands for two frequencies
  std::vector<std::int64_t> bands;  // of each plane of the spectrum

  Rings(const Box& image, bool deep, const at::Tensor& spectrum, std::int64_t first_column) {
    const std::int64_t height = image.extent(1), width = image.extent(2), columns = spectrum.size(-1);
    const auto n = static_cast<double>(std::max(height, width));
    const at::Tensor k = at::arange(height, at::kDouble);
    const at::Tensor y = at::minimum(k, k.neg().add(static_cast<double>(height)))
                             .mul_(n / static_cast<double>(height))
                             .unsqueeze(1);
    const at::Tensor x = at::arange(first_column, first_column + columns, at::kDouble).unsqueeze(0);
    of = x.mul(n / static_cast<double>(width)).square_().add(y.square()).sqrt_().round_().to(at::kLong);
    twice =
        x.gt(0).logical_and_(x.mul(2).lt(static_cast<double>(width))).to(at::kDouble).add_(1).expand_as(of);
    count = static_cast<std::int64_t>(std::ceil(n * std::sqrt(0.5))) + 2;
    const std::int64_t depth = deep ? image.extent(0) : 0;
    for (std::int64_t d = 0; d < (spectrum.dim() == 4 ? spectrum.size(1) : 1); ++d)
      bands.push_back(deep ? std::min(kBands - 1, 2 * kBands * std::min(d, depth - d) / depth) : 0);
  }
};

class RadialPreconditioner final : public Preconditioner {
 public:
  RadialPreconditioner(DistributedOperator& A, const Tensors& root_weights, const Space& space,
                       const FourierArray& array)
      : fourier_(array, A.options(), A.transport(), A.comm().rank()) {
    Tensors y = A.make_measurement();
    at::Tensor x = A.make_image(), seen = A.make_image();
    std::int64_t weighted = 0;
    for (const at::Tensor& root : root_weights) weighted = std::max<std::int64_t>(weighted, root.defined());
    A.comm().all_reduce({&weighted, 1}, Reduce::max);

    fill_signs(A, x);
    A.apply(x, y);
    weigh(root_weights, y);
    A.adjoint(y, seen);
    fourier_.forward(x);
    const at::Tensor signs = fourier_.spectrum().clone();
    fourier_.forward(seen);
    find_symbol(A, signs, array.axes == FourierAxes::volume && array.part.space.volume());
    if (weighted == 0) return;

    for (at::Tensor& part : y) part.fill_(1);
    weigh(root_weights, y);
    A.adjoint(y, seen);  // the weight that each pixel sees
    for (at::Tensor& part : y) part.fill_(1);
    A.adjoint(y, x);  // and how much it is seen
    const std::vector<double> sums = space.dots({{seen, at::ones_like(seen)}, {x, at::ones_like(x)}});
    if (!(sums[0] > 0)) return;
    local_ = seen.div_(x.clamp_min_(1e-6 * sums[1] / static_cast<double>(A.domain().values())))
                 .mul_(sums[1] / sums[0])
                 .clamp_min_(kLeastWeight);
  }

  bool pays(double gamma) const override { return gamma * level_ >= kPays; }
  void prepare(double gamma) override {
    if (std::exchange(gamma_, gamma) == gamma || !local_.defined()) return;
    if (!root_.defined()) root_ = at::empty_like(local_);
    const double g = gamma * median_;
    root_.copy_(local_).mul_(g).add_(1).reciprocal_().mul_(1 + g).sqrt_();
  }
  void apply(const at::Tensor& r, at::Tensor& z) override {
    if (root_.defined()) at::mul_out(z, r, root_);
    fourier_.divide({root_.defined() ? z : r}, symbol_, gamma_, z);
    if (root_.defined()) z.mul_(root_);
  }

 private:
  // From F x in `signs` and F A^T W A x in the transform's place.
  void find_symbol(const DistributedOperator& A, const at::Tensor& signs, bool deep) {
    const at::Tensor& spectrum = fourier_.spectrum();
    const Rings rings(A.image().box(), deep, spectrum, fourier_.first_column());
    const std::int64_t n = rings.count, planes = std::ssize(rings.bands);
    // Sums over rings, band by band: Re(conj(F x) F A^T W A x), |F x|^2.
    at::Tensor sums = at::zeros({2, kBands, n}, at::kDouble);
    const auto add = [&](const at::Tensor& values, std::int64_t which, std::int64_t band) {
      sums[which][band].add_(at::bincount(rings.of.flatten(), values.mul(rings.twice).flatten(), n));
    };
    for (std::int64_t c = 0; c < spectrum.size(0) && rings.of.numel() > 0; ++c)
      for (std::int64_t d = 0; d < planes; ++d) {
        const auto plane = [&](const at::Tensor& t) { return t.dim() == 4 ? t[c][d] : t[c]; };
        const std::int64_t band = rings.bands[static_cast<std::size_t>(d)];
        add(at::real(plane(signs).conj().mul(plane(spectrum))).to(at::kDouble), 0, band);
        add(at::real(plane(signs).conj().mul(plane(signs))).to(at::kDouble), 1, band);
      }
    A.comm().all_reduce({sums.mutable_data_ptr<double>(), static_cast<std::size_t>(sums.numel())},
                        Reduce::sum);
    at::Tensor table = at::zeros({kBands, n}, at::kDouble);
    auto values = table.accessor<double, 2>();
    const auto sum = sums.accessor<double, 3>();
    std::vector<std::pair<double, double>> sizes;  // S, frequencies
    for (std::int64_t b = 0; b < kBands; ++b)
      for (std::int64_t k = 0; k < n; ++k) {
        double flat = 0, weight = 0;
        for (std::int64_t near = std::max<std::int64_t>(0, k - 1); near < std::min(n, k + 2); ++near) {
          flat += sum[0][b][near] * std::max(0.5, static_cast<double>(near));
          weight += sum[1][b][near];
        }
        if (weight > 0) values[b][k] = flat / weight / std::max(0.5, static_cast<double>(k));
        level_ = std::max(level_, values[b][k]);
        sizes.emplace_back(values[b][k], sum[1][b][k]);
      }
    table.clamp_min_(kLeastSymbol * level_);
    // The median over all frequencies.
    std::ranges::sort(sizes);
    double all = 0, below = 0;
    for (const auto& [size, weight] : sizes) all += weight;
    for (const auto& [size, weight] : sizes)
      if ((below += weight) >= all / 2) {
        median_ = std::max(size, kLeastSymbol * level_);
        break;
      }
    std::vector<at::Tensor> by_band;
    for (std::int64_t b = 0; b < kBands; ++b)
      by_band.push_back(table[b].index_select(0, rings.of.flatten()).view_as(rings.of).to(A.options()));
    if (!deep) {
      symbol_ = by_band[0].unsqueeze(0);
      return;
    }
    symbol_ = at::empty({1, planes, rings.of.size(0), rings.of.size(1)}, A.options());
    for (std::int64_t d = 0; d < planes; ++d)
      symbol_[0][d].copy_(by_band[static_cast<std::size_t>(rings.bands[static_cast<std::size_t>(d)])]);
  }

  DistributedFourier fourier_;
  double level_ = 0, median_ = 0;  // of S: the largest, that of half of all frequencies
  at::Tensor symbol_;              // S at this rank's part of the spectrum, one channel
  at::Tensor local_;               // weight of each pixel over the mean; undefined: alike
  double gamma_ = 0;
  at::Tensor root_;  // sqrt((1 + g) / (1 + g local)), g = gamma times the median
};

FourierArray transformed(const OperatorTraits& A, const ProductSpace& domain) {
  return {domain.part(0), A.radial.value()};
}

}  // namespace

PreconditionerRow radial_preconditioner() {
  return {.name = "radial",
          .fits = [](const OperatorTraits& A,
                     const ProductSpace& domain) { return A.radial && domain.parts() == 1; },
          .transformed = [](const OperatorTraits& A,
                            const ProductSpace& domain) { return transformed(A, domain); },
          .memory =
              [](const ProductSpace& domain, bool weighted, int rank) {
                const ProductSpace::Part& image = domain.part(0);
                const double symbol = 0.5 / static_cast<double>(image.space.planes());
                return static_cast<double>(image.space.bytes(image.block(rank))) *
                       (symbol + (weighted ? 2 : 0));
              },
          .make = [](DistributedOperator& A, const Tensors& root_weights,
                     const Space& space) -> std::unique_ptr<Preconditioner> {
            return std::make_unique<RadialPreconditioner>(A, root_weights, space,
                                                          transformed(A.traits(), A.domain()));
          }};
}

}  // namespace tessera
