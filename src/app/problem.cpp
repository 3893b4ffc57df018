// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/problem.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/measurement_file.hpp"
#include "tessera/physics/noise.hpp"

namespace tessera {
namespace {

using Parts = std::vector<std::unique_ptr<LocalOperator>>;

Parts make_parts(const Geometry& g, const Communicator& comm) {
  Parts parts;
  const Box block = g.decomposition.block(comm.rank());
  for (std::size_t i = 0; i < g.parts.size(); ++i)
    parts.push_back(make_part(g.parts[i], static_cast<std::uint32_t>(i), g.job.problem.seed, g.image, block,
                              g.channels, comm, g.device));
  return parts;
}

// One part at a time, in double: y_i = A_i x + noise.
Measurement simulate(const Geometry& g, const at::Tensor& truth, const Communicator& comm,
                     const std::shared_ptr<Transport>& transport) {
  const at::TensorOptions host(at::kDouble);
  const at::Tensor x = truth.to(at::kCPU, at::kDouble);
  Measurement y;
  for (std::size_t i = 0; i < g.parts.size(); ++i) {
    Parts one;
    one.push_back(make_part(g.parts[i], static_cast<std::uint32_t>(i), g.job.problem.seed, g.image,
                            g.decomposition.block(comm.rank()), g.channels, comm));
    const auto A = make_local_stack(g.decomposition, one, g.channels, host,
                                    make_transport(comm, {}, TransportKind::mpi), comm);
    Measurement clean = A->make_measurement();
    A->apply(x, clean);
    comm.together([&] {
      add_noise(clean[0], {.gaussian = g.job.problem.noise.gaussian, .poisson = g.job.problem.noise.poisson},
                static_cast<std::uint64_t>(g.job.problem.seed), static_cast<std::uint32_t>(i),
                A->layout().part(0).box, A->layout().block(0, comm.rank()));
    });
    if (const at::Tensor seen = A->observed()[0]; seen.defined())
      clean[0].mul_(seen);  // no noise behind a mask
    y.push_back(clean[0].to(g.options()));
  }
  return y;
}

std::int64_t count_zero(const Measurement& weights, const Communicator& comm) {
  std::int64_t zero = 0;
  for (const at::Tensor& w : weights) zero += (w == 0).sum().item().toLong();
  comm.all_reduce(std::span<std::int64_t>(&zero, 1), Reduce::sum);
  return zero;
}

// Weight 0 for samples that say nothing: NaN, saturated, and those of a mask that lets nothing through.
void mark_useless(const Geometry& g, Problem& problem, const Communicator& comm) {
  Measurement& w = problem.weights;
  const bool given = !w.empty();
  if (!given)
    for (const at::Tensor& y : problem.y) w.push_back(at::ones_like(y));
  const std::int64_t before = count_zero(w, comm);

  for (std::size_t i = 0; i < w.size(); ++i) w[i].masked_fill_(at::isnan(problem.y[i]), 0);
  const std::int64_t not_numbers = count_zero(w, comm) - before;
  if (g.job.problem.saturation > 0)
    for (std::size_t i = 0; i < w.size(); ++i) w[i].masked_fill_(problem.y[i] >= g.job.problem.saturation, 0);
  const std::int64_t saturated = count_zero(w, comm) - before - not_numbers;
  const Measurement observed = problem.A->observed();
  for (std::size_t i = 0; i < w.size(); ++i)
    if (observed[i].defined()) w[i].masked_fill_((observed[i] == 0).expand_as(w[i]), 0);
  const std::int64_t masked = count_zero(w, comm) - before - not_numbers - saturated;

  const std::int64_t all = problem.A->layout().samples();
  const auto say = [&](std::int64_t n, const char* what) {
    if (n > 0) problem.notices.push_back(concat(n, " of ", all, " samples ", what, " and count 0"));
  };
  say(before, "have weight 0");
  say(not_numbers, "are not numbers");
  say(saturated, "are saturated");
  say(masked, "are masked");
  TESSERA_VALIDATE(
      before + not_numbers + saturated + masked < all, "all ", all,
      " samples count 0 (nothing is measured) check problem.weights, problem.saturation and the mask");
  if (!given && not_numbers + saturated + masked == 0) w.clear();  // plain least squares
}

void read_measurement(const Geometry& g, Problem& problem, const Communicator& comm) {
  const MeasurementLayout& layout = problem.A->layout();
  const auto read = [&](const std::string& path, const std::string& group, bool scaled) {
    Measurement out;
    std::vector<MeasurementPart> parts;
    for (std::size_t i = 0; i < layout.parts(); ++i) {
      out.push_back(empty_block(layout.part(i).channels, layout.block(i, comm.rank()), at::kFloat));
      parts.push_back({layout.part(i).box, layout.layout(i), view(out.back(), layout.block(i, comm.rank()))});
    }
    read_measurements(path, group, parts, comm);
    for (at::Tensor& t : out) {
      if (scaled) t = (t - g.offset) / g.factor;
      t = t.to(g.options());
    }
    return out;
  };
  problem.y = read(g.job.problem.measurements, "measurements", true);
  const bool beside = g.job.problem.weights.empty() && has_weights(g.job.problem.measurements, comm);
  if (beside) problem.weights = read(g.job.problem.measurements, "weights", false);
  if (!g.job.problem.weights.empty()) problem.weights = read(g.job.problem.weights, "weights", false);
  comm.together([&] {
    for (std::size_t i = 0; i < problem.weights.size(); ++i) {
      at::Tensor& w = problem.weights[i];
      w.masked_fill_(at::isnan(w), 0);
      TESSERA_VALIDATE(!(w < 0).any().item().toBool(), "weights of part ", i,
                       " are negative (they are inverse variances) correct the file");
    }
  });
}

}  // namespace

at::Tensor read_block(const std::string& path, const Geometry& g, const Communicator& comm) {
  const PhaseScope phase(Phase::load);
  const SourceInfo info = image_source_info(path, comm);
  TESSERA_VALIDATE(info.box == g.image && info.channels == g.channels, path, " is ", info.channels, " x ",
                   info.box.extent(1), " x ", info.box.extent(2), " (the image is ", g.channels, " x ",
                   g.image.extent(1), " x ", g.image.extent(2), ") give a file of that size");
  const Box block = g.decomposition.block(comm.rank());
  at::Tensor t = empty_block(g.channels, block, at::kFloat);
  read_image(path, g.decomposition.layout(), view(t, block), comm);
  return t.sub_(g.offset).div_(g.factor).to(g.options());
}

Problem make_problem(const Geometry& g, const Communicator& comm,
                     const std::shared_ptr<Transport>& transport) {
  Problem problem;
  if (g.truth)
    problem.truth =
        g.job.problem.truth.empty() ? scene_block(g, comm) : read_block(g.job.problem.truth, g, comm);
  problem.A =
      make_local_stack(g.decomposition, make_parts(g, comm), g.channels, g.options(), transport, comm);
  const PhaseScope phase(Phase::load);
  if (g.job.problem.measurements.empty())
    problem.y = simulate(g, problem.truth, comm, transport);
  else
    read_measurement(g, problem, comm);
  mark_useless(g, problem, comm);
  return problem;
}

at::Tensor starting_image(const Geometry& g, const Problem& problem, DataTerm& data,
                          const Communicator& comm) {
  const std::string& start = g.job.solver.start;
  at::Tensor x = problem.A->make_image();
  if (start == "adjoint") {
    // Divided by |A|^2, so that a stack of n operators starts in the image's range too.
    data.adjoint_start(x);
    x.div_(data.lipschitz());
  } else if (start == "zero") {
    x.zero_();
  } else if (start == "measurement") {
    const MeasurementLayout& layout = problem.A->layout();
    TESSERA_VALIDATE(
        layout.part(0).box == g.image && layout.part(0).channels == g.channels,
        "solver.start is measurement (measurement 0 is no image of the unknown's size) use 'start: adjoint'");
    x.copy_(problem.y[0]).nan_to_num_(0.0, 1.0, 0.0);
  } else {
    x.copy_(read_block(start, g, comm));
  }
  return x;
}

}  // namespace tessera
