// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/projection.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/domain/torch_cuda.hpp"
#include "tessera/physics/projector.hpp"
#include "tessera/physics/ramp_filter.hpp"
#include "tessera/physics/ray_projector.hpp"
#include "tessera/physics/upright_detector.hpp"

namespace tessera {
namespace {

using Geometry = ProjectionGeometry;

// Views of which one exchange is under way while the next are projected. The sums of an adjoint go by batches, so
// it is the same for any number of ranks.
constexpr std::int64_t kBatch = 32;

std::int64_t batches(const Geometry& g) {
  return (static_cast<std::int64_t>(g.views.size()) + kBatch - 1) / kBatch;
}

bool is_picture(const Geometry& g) { return g.rows == 1 && g.volume.size[0] == 1; }

// Samples (view, row, column) in the part's own coordinates, and back: those of a picture are (0, view, column).
Box in_part(const Geometry& g, const Box& b) {
  if (b.empty() || !is_picture(g)) return b;
  return {{0, b.lo()[0], b.lo()[2]}, {1, b.hi()[0], b.hi()[2]}};
}
Box in_samples(const Geometry& g, const Box& b) {
  if (b.empty() || !is_picture(g)) return b;
  return {{b.lo()[1], 0, b.lo()[2]}, {b.hi()[1], 1, b.hi()[2]}};
}

Box of_batch(const Geometry& g, std::int64_t batch) {
  const std::int64_t last = std::min<std::int64_t>(std::ssize(g.views), (batch + 1) * kBatch);
  return {{batch * kBatch, 0, 0}, {last, g.rows, g.columns}};
}

// A block of the image as the geometry counts its voxels: from 0.
Box voxels(const ProductSpace::Part& image, const Box& block) {
  const Index3& lo = image.box().lo();
  return block.shift({-lo[0], -lo[1], -lo[2]});
}

// Rows go to the ranks whose blocks lie at their height; those that share a height deal the views.
std::vector<Box> owners(const Geometry& g, const ProductSpace::Part& image) {
  std::map<std::array<std::int64_t, 2>, std::vector<int>> heights;
  for (int r = 0; r < image.owners.ranks(); ++r)
    if (const Box b = voxels(image, image.block(r)); !b.empty()) heights[{b.lo()[0], b.hi()[0]}].push_back(r);
  std::vector<Box> boxes(static_cast<std::size_t>(image.owners.ranks()));
  const std::int64_t depth = g.volume.size[0], views = std::ssize(g.views);
  for (const auto& [height, ranks] : heights) {
    const std::int64_t first = g.rows * height[0] / depth, last = g.rows * height[1] / depth;
    const std::int64_t n = std::ssize(ranks);
    for (std::int64_t k = 0; k < n; ++k)
      boxes[static_cast<std::size_t>(ranks[static_cast<std::size_t>(k)])] =
          Box({views * k / n, first, 0}, {views * (k + 1) / n, last, g.columns});
  }
  return boxes;
}

// The exchange of a batch: from the owners of its samples to those whose blocks they cross, and `rim` rows and columns
// around those.
ExchangePlan travel(const Geometry& g, const ProductSpace::Part& image, std::int64_t batch, int rank,
                    std::int64_t rim = 0) {
  const Box all = of_batch(g, batch);
  std::vector<Box> own, need;
  for (const Box& b : owners(g, image)) own.push_back(b.intersect(all));
  for (int r = 0; r < image.owners.ranks(); ++r)
    need.push_back(shadow(g, voxels(image, image.block(r)), all.lo()[0], all.hi()[0]));
  if (rim > 0)
    for (Box& box : need)
      if (!box.empty()) box = box.grow({{0, rim, rim}, {0, rim, rim}}).intersect(all);
  return {Layout(std::move(own)), Layout(std::move(need)), g.samples(), Border::none, rank};
}

// Whether the rays of a slice meet no other one.
bool slices_apart(const Geometry& g) {
  if (g.beam == Beam::cone) return false;
  const double side = g.volume.voxel[2];
  return std::ranges::all_of(g.views, [&](const ProjectionView& view) {
    const double below = view.center[2] / side + 0.5 * static_cast<double>(g.volume.size[0] - g.rows);
    return view.u[2] == 0 && view.v[2] == side && std::abs(below - std::round(below)) < 1e-6 &&
           (g.beam == Beam::fan || view.source[2] == 0);
  });
}

class Projection final : public DistributedOperator {
 public:
  Projection(const OperatorPlan& plan, const OperatorContext& context,
             std::shared_ptr<const Geometry> geometry, ProjectorChoice choice)
      : DistributedOperator(plan, context),
        g_(std::move(geometry)),
        block_(voxels(image(), image().block(rank()))),
        own_(in_samples(*g_, range().block(0, rank()))),
        exact_(options().dtype() == at::kDouble),
        choice_(choice) {
    const at::Device device = options().device();
    comm().together([&] {  // a block may be too large for one rank
      if (device.is_cuda() || choice == ProjectorChoice::kernels)
        rays_.emplace(g_, block_, options(), [device]() -> void* {
          return device.is_cuda() ? current_stream(device.index()) : nullptr;
        });
      else if (!exact_)
        projector_.emplace(g_, block_);
    });
    std::int64_t most = 0;  // samples of a batch's shadow
    const ElementType type = element_type(options().dtype().toScalarType());
    for (std::int64_t b = 0; b < batches(*g_); ++b) {
      Batch& batch = batches_.emplace_back();
      ExchangePlan travels = travel(*g_, image(), b, rank());
      batch.own = travels.own();
      batch.shadow = travels.need();
      most = std::max(most, batch.shadow.pixels());
      batch.exchange = std::make_unique<Exchange>(std::move(travels), transport(), 1, type);
    }
    for (at::Tensor& room : rooms_) room = at::empty({most}, options());
  }

  void apply(const Tensors& x, Tensors& y) override {
    const PhaseScope phase(Phase::op);
    y[0].zero_();
    for (std::int64_t c = 0; c < y[0].size(0); ++c) {
      load(x[0], c);
      std::vector<Exchange::Pending> flying;
      for (std::size_t b = 0; b < batches_.size(); ++b) {
        const Batch& batch = batches_[b];
        const at::Tensor part = room(b);
        if (!batch.shadow.empty()) project(batch.shadow, part);
        const PhaseScope halo(Phase::halo);
        if (!flying.empty()) {  // before the room after the next is written
          flying.back().wait();
          flying.pop_back();
        }
        flying.push_back(batch.exchange->begin_transposed(view(part, batch.shadow), mine(y[0], c, batch)));
      }
      const PhaseScope halo(Phase::halo);
      for (Exchange::Pending& last : flying) last.wait();
    }
  }

  void adjoint(const Tensors& y, Tensors& x) override {
    const PhaseScope phase(Phase::adjoint);
    for (std::int64_t c = 0; c < y[0].size(0); ++c) {
      clear(x[0], c);
      std::optional<Exchange::Pending> next;
      const auto fetch = [&](std::size_t b) {
        const PhaseScope halo(Phase::halo);
        next.emplace(
            batches_[b].exchange->begin(mine(y[0], c, batches_[b]), view(room(b), batches_[b].shadow)));
      };
      fetch(0);
      for (std::size_t b = 0; b < batches_.size(); ++b) {
        {
          const PhaseScope halo(Phase::halo);
          next->wait();
        }
        next.reset();
        if (b + 1 < batches_.size()) fetch(b + 1);
        if (!batches_[b].shadow.empty()) gather(batches_[b].shadow, room(b), x[0], c);
      }
      store(x[0], c);
    }
  }

  void direct(Tensors& y, const Tensors& weights, RampWindow window, at::Tensor& x) override {
    if (weights[0].defined()) interpolate_unweighted(y[0], weights[0]);
    if (!is_upright(*g_)) return direct_of_turned(y, window, x);
    const DirectReconstruction how = direct_reconstruction(*g_);
    if (how.once.empty()) return filter_back(how, window, y, x);
    WideDetector wide = wide_detector(*g_, how);  // once in a run
    const auto op = plan_projection(std::make_shared<const Geometry>(std::move(wide.geometry)), {}, choice_)
                        ->place({domain(), options(), transport(), comm()});
    Tensors all = op->make_measurement();
    all[0].zero_();
    all[0].narrow(-1, wide.left, g_->columns).copy_(y[0]);
    static_cast<Projection&>(*op).filter_back(how, window, all, x);
  }

 private:
  // Of detectors that are turned: the same rays on upright ones. Once in a run.
  void direct_of_turned(const Tensors& y, RampWindow window, at::Tensor& x) {
    const auto upright = std::make_shared<const Geometry>(upright_detector(*g_));
    const auto op = plan_projection(upright, {}, choice_)->place({domain(), options(), transport(), comm()});
    Tensors all = op->make_measurement();
    const std::vector<Box> from = owners(*g_, image()), to = owners(*upright, image());
    const auto self = static_cast<std::size_t>(rank());
    const ElementType type = element_type(options().dtype().toScalarType());
    for (std::int64_t b = 0; b < batches(*g_); ++b) {
      std::vector<Box> own, need;
      for (const Box& box : from) own.push_back(box.intersect(of_batch(*g_, b)));
      for (const Box& box : to)
        need.push_back(samples_behind(*g_, *upright, box.intersect(of_batch(*upright, b))));
      const Box mine_of_batch = own[self], have = need[self],
                wanted = to[self].intersect(of_batch(*upright, b));
      Exchange exchange(
          {Layout(std::move(own)), Layout(std::move(need)), g_->samples(), Border::none, rank()}, transport(),
          1, type);
      const at::Tensor seen = at::empty({1, have.extent(0), have.extent(1), have.extent(2)}, options());
      for (std::int64_t c = 0; c < y[0].size(0); ++c) {
        exchange.begin(mine(y[0], c, {mine_of_batch, have, nullptr}), view(seen, have)).wait();
        if (wanted.empty()) continue;
        at::Tensor level = all[0].narrow(0, c, 1);
        if (is_picture(*g_)) level = level.unsqueeze(2);
        onto_upright(*g_, have, seen[0], *upright, wanted, crop(level, to[self], wanted)[0]);
      }
    }
    op->direct(all, Tensors(1), window, x);
  }

  void filter_back(const DirectReconstruction& how, RampWindow window, Tensors& y, at::Tensor& x) {
    for (std::int64_t first = own_.empty() ? own_.hi()[0] : own_.lo()[0]; first < own_.hi()[0];
         first += kBatch) {
      Index3 lo = own_.lo(), hi = own_.hi();
      lo[0] = first;
      hi[0] = std::min(first + kBatch, hi[0]);
      const Box some(lo, hi);
      at::Tensor samples = y[0];
      if (is_picture(*g_)) samples = samples.unsqueeze(2);
      samples = crop(samples, own_, some);
      const at::Tensor before = direct_weights(*g_, how, some).to(options());
      samples.copy_(ramp_filtered(samples.mul(before), how.pitch, window, how.sharp));
    }
    backproject(y, x);
  }

  // Once in a run, so no exchange is kept for it.
  void backproject(const Tensors& y, const at::Tensor& x) {
    x.zero_();
    const ElementType type = element_type(options().dtype().toScalarType());
    for (std::int64_t b = 0; b < batches(*g_); ++b) {
      ExchangePlan plan = travel(*g_, image(), b, rank(), 1);
      const Batch batch{plan.own(), plan.need(), nullptr};
      Exchange exchange(std::move(plan), transport(), 1, type);
      const Box& s = batch.shadow;
      const at::Tensor seen = at::empty({1, s.extent(0), s.extent(1), s.extent(2)}, options());
      for (std::int64_t c = 0; c < x.size(0); ++c) {
        exchange.begin(mine(y[0], c, batch), view(seen, s)).wait();
        if (s.empty() || block_.empty()) continue;
        backproject_pixels(*g_, block_, s, seen[0], is_picture(*g_) ? x[c].unsqueeze(0) : x[c]);
      }
    }
  }

  struct Batch {
    Box own, shadow;  // of samples
    std::unique_ptr<Exchange> exchange;
  };

  // Where a batch's shadow stands: two of them take turns.
  at::Tensor room(std::size_t b) const {
    const Box& s = batches_[b].shadow;
    return rooms_[b % 2].narrow(0, 0, s.pixels()).view({1, s.extent(0), s.extent(1), s.extent(2)});
  }
  // This rank's own samples of a batch.
  ArrayView mine(const at::Tensor& y, std::int64_t c, const Batch& batch) const {
    at::Tensor own = y.narrow(0, c, 1);
    if (is_picture(*g_)) own = own.unsqueeze(2);  // (1, views, 1, columns)
    return view(crop(own, own_, batch.own), batch.own);
  }
  // A channel of this rank's block, as the projector has it: rows side by side.
  static at::Tensor plane(const at::Tensor& x, std::int64_t c) {
    const at::Tensor one = x.select(0, c);
    TESSERA_EXPECT(one.is_contiguous(), "a block to be projected has gaps");
    return one;
  }

  void load(const at::Tensor& x, std::int64_t c) {
    if (block_.empty()) return;
    source_ = plane(x, c);
    if (rays_)
      rays_->load(source_);
    else if (projector_)
      projector_->load(source_.const_data_ptr<float>());
  }
  void project(const Box& samples, const at::Tensor& y) {
    if (rays_)
      rays_->project(samples, y);
    else if (projector_)
      projector_->project(samples, y.data_ptr<float>());
    else
      project_plain(*g_, block_, source_.const_data_ptr<double>(), samples, y.data_ptr<double>());
  }
  void clear(const at::Tensor& x, std::int64_t c) {
    if (block_.empty()) return;
    if (projector_)
      projector_->clear();
    else
      plane(x, c).zero_();
  }
  void gather(const Box& samples, const at::Tensor& y, const at::Tensor& x, std::int64_t c) {
    if (rays_)
      rays_->gather(samples, y, plane(x, c));
    else if (projector_)
      projector_->gather(samples, y.const_data_ptr<float>());
    else
      gather_plain(*g_, block_, samples, y.const_data_ptr<double>(), plane(x, c).data_ptr<double>(),
                   ProjectorInto::add);
  }
  void store(const at::Tensor& x, std::int64_t c) {
    if (!block_.empty() && projector_) projector_->store(plane(x, c).data_ptr<float>());
  }

  std::shared_ptr<const Geometry> g_;
  Box block_, own_;  // this rank's voxels and samples
  bool exact_;
  ProjectorChoice choice_;
  std::optional<RayProjector> rays_;    // on a GPU
  std::optional<Projector> projector_;  // on processors in float32
  std::vector<Batch> batches_;
  std::array<at::Tensor, 2> rooms_;
  at::Tensor source_;  // the channel that is projected
};

class ProjectionPlan final : public OperatorPlan {
 public:
  ProjectionPlan(std::shared_ptr<const Geometry> geometry, Device device, ProjectorChoice choice)
      : g_(std::move(geometry)), device_(device), choice_(choice) {
    validate(*g_);
  }

  ProductSpace range(const ProductSpace& domain) const override {
    const ProductSpace::Part& image = checked(domain);
    ImageSpace space(in_part(*g_, g_->samples()), image.space.channels);
    space.axes = is_picture(*g_) ? Axes::picture : Axes::volume;
    space.element_bytes = image.space.element_bytes;
    const std::size_t view = is_picture(*g_) ? 1 : 0;
    space.grid[view].name = "view";
    space.grid[2].name = "column";
    if (!is_picture(*g_)) space.grid[1].name = "row";
    std::vector<Box> boxes;
    for (const Box& b : owners(*g_, image)) boxes.push_back(in_part(*g_, b));
    return ProductSpace({{"projections", std::move(space), Layout(std::move(boxes))}});
  }
  std::vector<PlannedExchange> exchanges(const ProductSpace& domain, int rank) const override {
    const ProductSpace::Part& image = checked(domain);
    std::vector<PlannedExchange> all;
    for (std::int64_t b = 0; b < batches(*g_); ++b)
      all.push_back({.plan = travel(*g_, image, b, rank),
                     .channels = image.space.planes(),
                     .element_bytes = image.space.element_bytes,
                     .accumulates = true});
    return all;
  }
  OperatorWork work(const ProductSpace& domain, int rank) const override {
    // A voxel has one ray a view, about, which reads it with its neighbors in a plane: two of a picture, four.
    const double taps = is_picture(*g_) ? 2 : 4, values = static_cast<double>(domain.values(rank));
    OperatorWork work{.products = 2 * taps * static_cast<double>(std::ssize(g_->views)) * values};
    // On a GPU a batch of views reads the block, and its adjoint reads and writes it; samples are written, read and
    // written once more times lengths, and read. Processors' caches hold what a batch needs. Finding rays takes
    // instructions beside products, so many times as many (counted, not measured): all slices of a level stack share them,
    // in a picture each pixel has its own.
    if (!device_.is_cuda()) return work;
    work.products *= is_picture(*g_) ? 16 : slices_apart(*g_) ? 1 : 3;
    work.bytes = static_cast<double>(domain.part(0).space.element_bytes) *
                 (3 * static_cast<double>(batches(*g_)) * values +
                  4 * static_cast<double>(range(domain).values(rank)));
    return work;
  }
  std::int64_t memory(const ProductSpace& domain, int rank) const override {
    const ProductSpace::Part& image = checked(domain);
    const Box block = voxels(image, image.block(rank));
    std::int64_t most = 0, packed = 0;  // samples
    for (std::int64_t b = 0; b < batches(*g_); ++b) {
      const ExchangePlan plan = travel(*g_, image, b, rank);
      most = std::max(most, plan.need().pixels());
      packed += plan.pixels_sent() + plan.pixels_received();
    }
    // With the projector's copy of the block.
    const std::int64_t bytes = image.space.element_bytes;
    const std::int64_t projector =
        device_.is_cuda() ? ray_projector_bytes(*g_, block, most, bytes) : block.pixels() * bytes;
    return projector + (2 * most + packed) * bytes;
  }
  OperatorTraits traits(const ProductSpace&) const override {
    return {.parts = {{}},
            .not_negative = true,
            .radial = slices_apart(*g_) ? FourierAxes::plane : FourierAxes::volume,
            .not_direct = refuse_direct(*g_)};
  }
  // As wide as the detector.
  std::optional<Box> image_of(const Box& measured) const override {
    const std::int64_t side = measured.extent(2);
    return is_picture(*g_) ? Box::image2d(side, side) : Box({0, 0, 0}, {measured.extent(1), side, side});
  }
  std::unique_ptr<DistributedOperator> place(const OperatorContext& context) override {
    return std::make_unique<Projection>(*this, context, g_, choice_);
  }

  const std::shared_ptr<const ProjectionGeometry>& geometry() const { return g_; }

 private:
  const ProductSpace::Part& checked(const ProductSpace& domain) const {
    const ProductSpace::Part& image = domain.part(0);
    TESSERA_VALIDATE(image.box().extents() == g_->volume.size, "the geometry is of ", g_->volume.size[0],
                     " x ", g_->volume.size[1], " x ", g_->volume.size[2], " voxels (the image has ",
                     image.box().extent(0), " x ", image.box().extent(1), " x ", image.box().extent(2),
                     ") describe it for the image");
    return image;
  }
  std::shared_ptr<const Geometry> g_;
  Device device_;
  ProjectorChoice choice_;
};

}  // namespace

std::unique_ptr<OperatorPlan> plan_projection(std::shared_ptr<const ProjectionGeometry> geometry,
                                              Device device, ProjectorChoice choice) {
  return std::make_unique<ProjectionPlan>(std::move(geometry), device, choice);
}

std::shared_ptr<const ProjectionGeometry> geometry_of(const OperatorPlan& plan) {
  const auto* const projection = dynamic_cast<const ProjectionPlan*>(&plan);
  return projection ? projection->geometry() : nullptr;
}

}  // namespace tessera
