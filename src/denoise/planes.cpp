// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/planes.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tessera/core/memory.hpp"

namespace tessera {
namespace {

class PlanesDenoiser final : public Denoiser {
 public:
  PlanesDenoiser(const Planes& planes, std::vector<std::unique_ptr<Denoiser>> parts)
      : planes_(planes.list()), parts_(std::move(parts)) {}

  void apply(const at::Tensor& in, double sigma, at::Tensor& out) override {
    const MemoryScope memory(MemoryUse::activations);
    at::Tensor one;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (i == 1) one = at::empty_like(out);
      at::Tensor result = turned(i == 0 ? out : one, planes_[i]);
      parts_[i]->apply(turned(in, planes_[i]), sigma, result);
      if (i > 0) out.add_(one);
    }
    if (parts_.size() > 1) out.div_(share());
  }
  at::Tensor potential() const override {
    at::Tensor sum;
    for (const auto& part : parts_) {
      const at::Tensor g = part->potential();
      if (!g.defined()) return {};
      sum = sum.defined() ? sum + g : g;
    }
    return sum / share();
  }
  std::int64_t bytes_sent() const override {
    std::int64_t sum = 0;
    for (const auto& part : parts_) sum += part->bytes_sent();
    return sum;
  }
  std::string description() const override {
    std::string out;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      out += (i == 0 ? "" : "; ") + std::string(word(planes_[i])) + " planes: " + parts_[i]->description();
    return out;
  }
  std::string notice() const override { return parts_[0]->notice(); }
  void release() override {
    for (const auto& part : parts_) part->release();
  }
  std::vector<StateField> state() override {
    std::vector<StateField> all;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      for (StateField& field : parts_[i]->state()) {
        field.name = std::string(word(planes_[i])) + '/' + field.name;
        all.push_back(field);
      }
    return all;
  }
  // All parts make the same.
  std::vector<std::pair<std::string, std::int64_t>> choices() const override { return parts_[0]->choices(); }

 private:
  double share() const { return static_cast<double>(parts_.size()); }

  std::vector<Plane> planes_;
  std::vector<std::unique_ptr<Denoiser>> parts_;
};

// How much longer pixels are along one axis than along another; 1 where that is not known.
double stretch(const ImageSpace& image, std::size_t one, std::size_t other) {
  const ImageSpace::Axis &a = image.grid[one], &b = image.grid[other];
  const bool known = a.spacing > 0 && b.spacing > 0 && a.unit == b.unit;
  return known ? std::max(a.spacing / b.spacing, b.spacing / a.spacing) : 1.0;
}
constexpr double kAlike = 1.5;  // of two spacings

}  // namespace

Planes default_planes(const ImageSpace& image) {
  const std::vector<Plane> all{Plane::axial, Plane::coronal, Plane::sagittal};
  const auto uneven = [&](Plane plane) { return stretch(image, axes_of(plane)[1], axes_of(plane)[2]); };
  std::vector<Plane> square;
  for (const Plane plane : all)
    if (uneven(plane) <= kAlike) square.push_back(plane);
  if (square.empty())
    square.push_back(
        *std::min_element(all.begin(), all.end(), [&](Plane a, Plane b) { return uneven(a) < uneven(b); }));
  return Planes::of(square);
}

Turns default_turns(const ImageSpace& image) {
  if (!image.volume()) return {};
  Turns turns{.kind = {1, 2, 3}};
  for (std::size_t axis : {std::size_t{1}, std::size_t{2}})
    for (std::size_t before = axis; before-- > 0;)
      if (stretch(image, before, axis) <= kAlike) turns.kind[axis] = turns.kind[before];
  return turns;
}

Index3 planes_alignment(const Index3& alignment, const Planes& planes) {
  if (planes.empty()) return alignment;
  Index3 all{1, 1, 1};
  for (const Plane plane : planes.list())
    for (std::size_t d = 1; d < 3; ++d) {
      std::int64_t& unit = all[axes_of(plane)[d]];
      unit = std::lcm(unit, alignment[d]);
    }
  return all;
}

std::vector<Decomposition> plane_cuts(const Decomposition& decomposition, const Planes& planes) {
  if (planes.empty()) return {decomposition};
  std::vector<Decomposition> cuts;
  for (const Plane plane : planes.list()) cuts.push_back(decomposition.planes(axes_of(plane)));
  return cuts;
}

std::int64_t usual_batch(std::int64_t window_pixels, bool on_device) {
  const std::int64_t full = std::int64_t{1} << (on_device ? 20 : 16);
  return std::clamp<std::int64_t>(full / window_pixels, 1, 64);
}

at::Tensor turned(const at::Tensor& block, Plane plane) {
  const auto axes = axes_of(plane);
  const auto dim = [&](std::size_t d) { return static_cast<std::int64_t>(axes[d]) + 1; };
  return block.permute({0, dim(0), dim(1), dim(2)});
}

std::unique_ptr<Denoiser> make_planes_denoiser(const Planes& planes,
                                               std::vector<std::unique_ptr<Denoiser>> parts) {
  return std::make_unique<PlanesDenoiser>(planes, std::move(parts));
}

}  // namespace tessera
