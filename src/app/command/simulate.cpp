// SPDX-License-Identifier: BSD-3-Clause
// tessera simulate: measurements only.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <cstdio>
#include <filesystem>
#include <list>
#include <memory>

#include "command/command.hpp"
#include "tessera/app/memory_plan.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/measurement_file.hpp"

namespace tessera {
namespace {

struct SimulateArguments {
  std::string job, out;
  std::vector<std::string> overrides;
  bool force = false;
};

// Arrays that the operator reads from files, to stand beside the measurement; the operator then names those.
class Embedded {
 public:
  Embedded(OperatorFiles& files, const Communicator& comm) : files_(files), comm_(comm) {}

  void take(OperatorConfig& op) {
    for (OperatorConfig& part : op.parts) take(part);
    if (!op.parts.empty()) return;
    if (auto* kernel = std::get_if<KernelConfig::File>(&op.kernel.form); kernel && !kernel->path.empty())
      kernel->path = put(kernel->path, "/kernels/");
    for (std::string* file : files_of(op)) *file = put(*file, "/masks/");
  }
  std::vector<MeasurementRecord::Array> arrays() const { return arrays_; }

 private:
  // Bands of rows over the ranks; a kernel is small, a mask may not be.
  std::string put(const std::string& path, const std::string& group) {
    const SourceInfo info = image_source_info(path, comm_);
    std::vector<Box> bands;
    for (std::int64_t r = 0, n = comm_.size(), rows = info.box.extent(1); r < n; ++r) {
      Index3 lo = info.box.lo(), hi = info.box.hi();
      hi[1] = lo[1] + rows * (r + 1) / n;
      lo[1] += rows * r / n;
      bands.emplace_back(lo, hi);
    }
    const Layout layout(bands);
    const Box& mine = layout.box(comm_.rank());
    const bool kernel = group == "/kernels/";
    if (kernel) {
      tensors_.push_back(empty_block(info, mine, at::kDouble));
      read_image(path, layout, view(tensors_.back(), mine), comm_);
    } else {
      tensors_.push_back(files_.marks(path, layout, comm_));
    }
    const std::string name = concat(group, arrays_.size());
    arrays_.push_back({name, {info.box, layout, view(tensors_.back(), mine)}});
    return ":" + name;
  }

  OperatorFiles& files_;
  const Communicator& comm_;
  std::list<at::Tensor> tensors_;
  std::vector<MeasurementRecord::Array> arrays_;
};

int execute(const SimulateArguments& arguments, const Communicator& comm) {
  const JobConfig job = load_job(arguments.job, arguments.overrides, comm, Purpose::measure);
  comm.together([&] {
    TESSERA_VALIDATE(job.problem.has_truth(),
                     "problem.truth is not given (measurements are simulated from it) name a picture");
    TESSERA_VALIDATE(job.problem.measurements.empty(),
                     "problem.measurements is given (there is nothing to simulate) remove it");
    TESSERA_VALIDATE(arguments.force || !std::filesystem::exists(arguments.out), arguments.out,
                     " exists (simulate never overwrites) name another file, or add --force");
  });
  const RunPlan plan = plan_run(job, comm, comm.size());
  const auto transport = open_transport(plan, comm).transport;
  std::string laid;
  const std::unique_ptr<ScratchScope> scratch = open_scratch(plan, comm, laid);
  if (!laid.empty() && comm.rank() == 0) std::printf("note: %s\n", laid.c_str());
  Problem problem = make_problem(plan, comm, transport);
  say_notices(plan, problem, comm);
  const ProductSpace& layout = problem.A->range();
  // Internal values, whose bits a file unit would not keep. Samples that count 0 are marked; how much the
  // others weigh follows from the noise.
  const auto parts_of = [&](Measurement& tensors) {
    std::vector<MeasurementPart> parts;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      parts.push_back(
          {layout.part(i).box(), layout.layout(i), view(tensors[i], layout.block(i, comm.rank()))});
    return parts;
  };
  double masked = 0;
  for (at::Tensor& y : problem.y) y = y.to(at::kCPU).contiguous();
  for (at::Tensor& w : problem.weights) {
    w = w.ne(0).to(at::kCPU, at::kFloat).contiguous();
    if (w.eq(0).any().item().toBool()) masked = 1;
  }
  comm.all_reduce({&masked, 1}, Reduce::max);
  if (masked == 0) problem.weights.clear();

  // The problem as one of measurements has it.
  JobConfig said = plan.job;
  Embedded embedded(*plan.files, comm);
  embedded.take(said.problem.op);
  said.problem.truth.clear();
  said.problem.scene = {};
  said.problem.noise = {.gaussian = problem.noise.gaussian, .poisson = problem.noise.poisson};
  said.problem.measurements = arguments.out;
  said.problem.image.size = size_of(plan.image.box);
  said.problem.image.channels = plan.image.channels;
  write_measurements(arguments.out, parts_of(problem.y), parts_of(problem.weights),
                     {.job = job.text,
                      .origin = {.problem = write_problem(said),
                                 .internal = true,
                                 .factor = plan.factor,
                                 .offset = plan.offset},
                      .arrays = embedded.arrays()},
                     comm);
  if (comm.rank() == 0) {
    for (const std::string& notice : plan.files->notices()) std::printf("note: %s\n", notice.c_str());
    for (const std::string& warning : plan.files->warnings()) std::printf("warning: %s\n", warning.c_str());
    std::printf("%zu measurement%s of %lld samples in %s\n", layout.parts(), layout.parts() == 1 ? "" : "s",
                static_cast<long long>(layout.values()), arguments.out.c_str());
  }
  return 0;
}

}  // namespace

Command simulate_command(CLI::App& app) {
  const auto a = std::make_shared<SimulateArguments>();
  CLI::App* options = app.add_subcommand("simulate", "make measurements only");
  options->add_option("JOB", a->job, "job file with problem.truth")->required();
  options->add_option("OUT", a->out, "measurement file (.h5)")->required();
  options->add_option("--set", a->overrides, "key.path=value");
  options->add_flag("--force", a->force, "overwrite OUT");
  options->footer("Example: tessera simulate photo.yaml y.h5");
  return {options, [a](const Launch& launch) { return execute(*a, launch.comm); }, Watched::together};
}

}  // namespace tessera
