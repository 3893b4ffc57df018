// SPDX-License-Identifier: BSD-3-Clause
// tessera simulate: measurements only.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "tessera/app/commands.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/measurement_file.hpp"

namespace tessera {

int simulate_command(const SimulateArguments& arguments, const Communicator& comm) {
  const JobConfig job = load_job(arguments.job, arguments.overrides, comm);
  comm.together([&] {
    TESSERA_VALIDATE(job.problem.has_truth(),
                     "problem.truth is not given (measurements are simulated from it) name a picture");
    TESSERA_VALIDATE(arguments.force || !std::filesystem::exists(arguments.out), arguments.out,
                     " exists (simulate never overwrites) name another file, or add --force");
  });
  const Geometry g = plan_geometry(job, comm, comm.size());
  const auto transport = open_transport(g, comm).transport;
  Problem problem = make_problem(g, comm, transport);
  const MeasurementLayout& layout = problem.A->layout();
  const auto parts_of = [&](Measurement& tensors, bool scaled) {
    std::vector<MeasurementPart> parts;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      tensors[i] = tensors[i].to(at::kCPU).contiguous();
      if (scaled) tensors[i] = tensors[i] * g.factor + g.offset;
      parts.push_back({layout.part(i).box, layout.layout(i), view(tensors[i], layout.block(i, comm.rank()))});
    }
    return parts;
  };
  write_measurements(arguments.out, parts_of(problem.y, true), parts_of(problem.weights, false), job.text,
                     comm);
  if (comm.rank() == 0)
    std::printf("%zu measurement%s of %lld samples in %s\n", layout.parts(), layout.parts() == 1 ? "" : "s",
                static_cast<long long>(layout.samples()), arguments.out.c_str());
  return 0;
}

}  // namespace tessera
