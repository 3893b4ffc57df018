// SPDX-License-Identifier: BSD-3-Clause
// The operators without reach: identity and mask.
#include "tessera/physics/operators.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <memory>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/core/random.hpp"

namespace tessera {
namespace {

// The pixels `part` of a (C, [D,] H, W) tensor over `box`: a view.
at::Tensor cut(const at::Tensor& tensor, const Box& box, const Box& part) {
  at::Tensor view = tensor;
  const std::int64_t first_axis = 4 - tensor.dim();  // of the box: 1 where the depth axis is left out
  for (std::int64_t d = 1; d < tensor.dim(); ++d) {
    const auto axis = static_cast<std::size_t>(d - 1 + first_axis);
    const std::int64_t begin = part.empty() ? 0 : part.lo()[axis] - box.lo()[axis];
    view = view.slice(d, begin, begin + part.extent(axis));
  }
  return view;
}

class PlacedIdentity final : public PlacedOperator {
 public:
  explicit PlacedIdentity(LocalOperator::Placement placement) : placement_(std::move(placement)) {}
  void apply(const at::Tensor& x, std::span<const at::Tensor> y) override {
    y[0].copy_(cut(x, placement_.input, placement_.samples[0]));
  }
  void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) override {
    cut(x, placement_.input, placement_.samples[0]).add_(y[0]);
  }
  at::Tensor diagonal(const at::Tensor& weights) const override {
    if (weights.defined()) return weights;
    const Box& box = placement_.input;
    if (placement_.image.volume())
      return at::ones({1, box.extent(0), box.extent(1), box.extent(2)}, placement_.options);
    return at::ones({1, box.extent(1), box.extent(2)}, placement_.options);
  }

 private:
  LocalOperator::Placement placement_;
};

class Identity final : public LocalOperator {
 public:
  std::string name() const override { return "identity"; }
  std::unique_ptr<PlacedOperator> place(std::span<const LocalOperator* const> group,
                                        const Placement& placement) const override {
    return std::make_unique<PlacedIdentity>(placement);
  }
  bool pointwise() const override { return true; }
  std::optional<Convolution> convolution() const override {
    return Convolution{at::ones({1, 1, 1, 1}, at::kDouble)};
  }
};

class PlacedMask final : public PlacedOperator {
 public:
  PlacedMask(at::Tensor mask, LocalOperator::Placement placement)
      : placement_(std::move(placement)), mask_(std::move(mask)) {}
  void apply(const at::Tensor& x, std::span<const at::Tensor> y) override {
    at::Tensor out = y[0];
    out.copy_(cut(x, placement_.input, placement_.samples[0])).mul_(mask_);
  }
  void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) override {
    cut(x, placement_.input, placement_.samples[0]).addcmul_(y[0], mask_);
  }
  at::Tensor diagonal(const at::Tensor& weights) const override {
    const at::Tensor squares = mask_.mul(mask_);
    return weights.defined() ? squares.mul(weights) : squares;
  }
  at::Tensor observed() const override { return mask_.ne(0).to(placement_.options.dtype().toScalarType()); }

 private:
  LocalOperator::Placement placement_;
  at::Tensor mask_;  // (1 or C, [D,] H, W) over the samples
};

class Mask final : public LocalOperator {
 public:
  explicit Mask(BlockReader read) : read_(std::move(read)) {}
  Mask(at::Tensor mask, const Box& box) { take(std::move(mask), box); }
  Mask(double keep, std::uint64_t seed, std::uint32_t part) : keep_(keep), seed_(seed), part_(part) {
    TESSERA_VALIDATE(keep > 0 && keep <= 1, "operator.keep is ", keep,
                     " (it is the share of pixels that are measured) write a number above 0 and up to 1");
  }
  std::string name() const override { return "mask"; }
  bool pointwise() const override { return true; }
  bool not_negative() const override { return true; }
  void load(const Layout& blocks, const Communicator& comm) override {
    if (!read_ || (loaded_ && *loaded_ == blocks)) return;
    at::Tensor mask = read_(blocks, comm);
    comm.together([&] { take(std::move(mask), blocks.box(comm.rank())); });
    loaded_ = blocks;
  }
  std::unique_ptr<PlacedOperator> place(std::span<const LocalOperator* const> group,
                                        const Placement& placement) const override {
    const Box& samples = placement.samples[0];
    at::Tensor mask;
    if (mask_.defined()) {
      TESSERA_EXPECT(box_.contains(samples), "a mask over ", box_, " was placed at ", samples,
                     " (it must hold every sample) give the block that the rank owns");
      TESSERA_VALIDATE(mask_.size(0) == 1 || mask_.size(0) == placement.image.planes(), "the mask has ",
                       mask_.size(0), " channels (the image has ", placement.image.planes(),
                       ") give it one or as many");
      mask = cut(mask_, box_, samples).to(placement.options).contiguous();
    } else {
      mask = draw(placement.image.box, samples).to(placement.options);
    }
    return std::make_unique<PlacedMask>(mask, placement);
  }

 private:
  void take(at::Tensor mask, const Box& box) {
    TESSERA_VALIDATE(mask.dim() >= 3 && mask.dim() <= 4, "the mask has ", mask.dim(),
                     " axes (an image has channels, rows and columns) give it as (1, H, W)");
    const bool range = mask.numel() == 0 || (mask.ge(0).logical_and(mask.le(1))).all().item<bool>();
    TESSERA_VALIDATE(range,
                     "the mask has values outside 0 to 1 (a sample is measured, not measured, or in between) "
                     "divide it by its largest value");
    mask_ = std::move(mask);
    box_ = box;
  }

  at::Tensor draw(const Box& image, const Box& samples) const {
    const Random random(seed_, RandomStream::mask, part_);
    at::Tensor mask = at::empty({1, samples.extent(0), samples.extent(1), samples.extent(2)}, at::kDouble);
    double* value = mask.data_ptr<double>();
    const std::int64_t height = samples.extent(1), width = samples.extent(2);
    at::parallel_for(0, samples.extent(0) * height, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t line = begin; line < end; ++line) {
        const Index3 p = Index3{line / height, line % height, 0} + samples.lo() - image.lo();
        const std::int64_t first = (p[0] * image.extent(1) + p[1]) * image.extent(2) + p[2];
        for (std::int64_t w = 0; w < width; ++w)
          value[line * width + w] = random.uniform(first + w) < keep_ ? 1 : 0;
      }
    });
    return image.extent(0) > 1 ? mask : mask.view({1, samples.extent(1), samples.extent(2)});
  }

  BlockReader read_;              // null: given, or drawn
  std::optional<Layout> loaded_;  // the blocks that were read
  at::Tensor mask_;               // undefined: drawn
  Box box_;
  double keep_ = 1;
  std::uint64_t seed_ = 0;
  std::uint32_t part_ = 0;
};

}  // namespace

std::unique_ptr<LocalOperator> make_identity() { return std::make_unique<Identity>(); }
std::unique_ptr<LocalOperator> make_mask(at::Tensor mask, const Box& box) {
  return std::make_unique<Mask>(std::move(mask), box);
}
std::unique_ptr<LocalOperator> make_mask(BlockReader read) { return std::make_unique<Mask>(std::move(read)); }
std::unique_ptr<LocalOperator> make_random_mask(double keep, std::uint64_t seed, std::uint32_t part) {
  return std::make_unique<Mask>(keep, seed, part);
}

}  // namespace tessera
