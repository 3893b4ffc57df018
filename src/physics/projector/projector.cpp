// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/projector.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "block_projector.hpp"
#include "kernels.hpp"
#include "plain.hpp"
#include "tessera/core/error.hpp"
#include "view_lines.hpp"

namespace tessera {
namespace {

const ProjectorKernelTable& table_of(ProjectorKernels kernels) {
  return kernels == ProjectorKernels::avx512 ? projector_kernels_avx512() : projector_kernels_avx2();
}

// Rows of a cone that the kernels can take: those of a register within two registers' slices, and few
// phases.
bool rows_suit(const ViewTraits& traits) {
  return traits.row_step_most <= 1.8 && 1 / traits.row_step_least <= kMostPhases;
}

}  // namespace

ProjectorKernels fastest_projector_kernels() {
#if defined(__x86_64__)
  if (projector_kernels_avx512().stack_project && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return ProjectorKernels::avx512;
  if (projector_kernels_avx2().stack_project && __builtin_cpu_supports("avx2") &&
      __builtin_cpu_supports("fma"))
    return ProjectorKernels::avx2;
#endif
  return ProjectorKernels::plain;
}

struct Projector::State {
  std::shared_ptr<const ProjectionGeometry> geometry;
  Box block;
  std::vector<ViewTraits> traits;        // fast: taken by `fast`
  std::unique_ptr<BlockProjector> fast;  // none where no view is
  bool some_plain = false;
  std::vector<float> plain;  // the block, or the sum, of views that go the plain way

  // Calls work(box of views that go one way, whether that is the fast one, samples before it) for
  // consecutive views.
  template <class Work>
  void for_runs(const Box& samples, Work work) const {
    const std::int64_t last = samples.hi()[0], per_view = samples.extent(1) * samples.extent(2);
    for (std::int64_t v = samples.lo()[0]; v < last;) {
      const bool quick = traits[static_cast<std::size_t>(v)].fast;
      std::int64_t end = v + 1;
      while (end < last && traits[static_cast<std::size_t>(end)].fast == quick) ++end;
      Index3 lo = samples.lo(), hi = samples.hi();
      lo[0] = v;
      hi[0] = end;
      work(Box(lo, hi), quick, (v - samples.lo()[0]) * per_view);
      v = end;
    }
  }
};

Projector::Projector(std::shared_ptr<const ProjectionGeometry> geometry, const Box& block,
                     ProjectorKernels kernels)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.geometry = std::move(geometry);
  s.block = block;
  TESSERA_EXPECT(s.geometry->volume.box().contains(block), "a projector of block ", block,
                 " (it leaves the volume ", s.geometry->volume.box(), ")");
  s.traits.resize(s.geometry->views.size());
  if (kernels != ProjectorKernels::plain && !block.empty()) {
    bool any = false;
    for (std::size_t v = 0; v < s.traits.size(); ++v) {
      s.traits[v] = view_traits(*s.geometry, static_cast<std::int64_t>(v));
      if (s.geometry->beam == Beam::cone && !rows_suit(s.traits[v])) s.traits[v].fast = false;
      if (taps_of(s.traits[v]) > kMostTaps) s.traits[v].fast = false;
      any = any || s.traits[v].fast;
    }
    const BlockTask task{s.geometry.get(), &s.traits, block, &table_of(kernels)};
    if (any)
      s.fast = s.geometry->beam == Beam::cone ? make_cone_projector(task)
               : slices_suit(task)            ? make_slice_projector(task)
                                              : make_stack_projector(task);
  }
  for (const ViewTraits& view : s.traits) s.some_plain = s.some_plain || !view.fast;
}

Projector::~Projector() = default;
Projector::Projector(Projector&&) noexcept = default;
Projector& Projector::operator=(Projector&&) noexcept = default;

const ProjectionGeometry& Projector::geometry() const { return *state_->geometry; }
const Box& Projector::block() const { return state_->block; }
std::int64_t Projector::bytes() const {
  return (state_->fast ? state_->fast->bytes() : 0) + (state_->some_plain ? 4 * state_->block.pixels() : 0);
}

void Projector::load(const float* x) {
  if (state_->fast) state_->fast->load(x);
  if (state_->some_plain) state_->plain.assign(x, x + state_->block.pixels());
}

void Projector::clear() {
  if (state_->fast) state_->fast->clear();
  if (state_->some_plain) state_->plain.assign(static_cast<std::size_t>(state_->block.pixels()), 0.0F);
}

void Projector::project(const Box& samples, float* y, ProjectorInto into) const {
  if (state_->block.empty()) {
    if (into == ProjectorInto::replace) std::fill_n(y, samples.pixels(), 0.0F);
    return;
  }
  state_->for_runs(samples, [&](const Box& views, bool quick, std::int64_t before) {
    if (quick) return state_->fast->project(views, y + before, into);
    if (into == ProjectorInto::replace) std::fill_n(y + before, views.pixels(), 0.0F);
    plain_project(*state_->geometry, state_->block, state_->plain.data(), views, y + before);
  });
}

void Projector::gather(const Box& samples, const float* y) {
  if (state_->block.empty()) return;
  state_->for_runs(samples, [&](const Box& views, bool quick, std::int64_t before) {
    if (quick) return state_->fast->gather(views, y + before);
    plain_gather(*state_->geometry, state_->block, views, y + before, state_->plain.data());
  });
}

void Projector::store(float* x, ProjectorInto into) const {
  const State& s = *state_;
  if (s.fast) s.fast->store(x, into);
  if (!s.some_plain) return;
  const bool add = s.fast || into == ProjectorInto::add;
  for (std::size_t i = 0; i < s.plain.size(); ++i) x[i] = add ? x[i] + s.plain[i] : s.plain[i];
}

}  // namespace tessera
