// SPDX-License-Identifier: BSD-3-Clause
// tessera denoise: one pass over an image, distributed.
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "tessera/app/commands.hpp"
#include "tessera/app/output.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/app/tuning.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/physics/noise.hpp"
#include "tessera/solve/metrics.hpp"

namespace tessera {

int denoise_command(const DenoiseArguments& a, const Communicator& comm) {
  track_tensor_memory();
  const bool picture = is_picture(a.out);
  comm.together([&] {
    TESSERA_VALIDATE(a.sigma > 0, "--sigma is ", a.sigma,
                     " (a denoiser needs a noise level in the image's range [0, 1]) for example 0.1");
    TESSERA_VALIDATE(a.noise >= 0, "--noise is ", a.noise,
                     " (a standard deviation is not negative) leave it out for none");
    TESSERA_VALIDATE(picture || a.out.ends_with(".h5"), a.out,
                     " is no known kind of file (by its suffix) use .png, .jpg, .tif or .h5");
    TESSERA_VALIDATE(a.force || !std::filesystem::exists(a.out), a.out,
                     " exists (denoise never overwrites) name another file, or add --force");
  });
  JobConfig job;
  job.problem.truth = a.in;
  job.problem.seed = a.seed;
  job.denoiser.network = a.network;
  job.denoiser.weights = a.weights;
  job.denoiser.mode = a.mode;
  job.denoiser.averaging = a.averaging;
  job.denoiser.precision = a.precision;
  if (a.patch > 0) job.denoiser.patch = a.patch;
  job.device = a.device;
  job.solver.sigma.values = {a.sigma};
  Geometry g = plan_geometry(job, comm, comm.size());
  choose_execution(g, comm, this_launch(comm));
  const auto transport = open_transport(g, comm).transport;
  const auto denoiser = make_denoiser(g, comm, transport);
  const Box block = g.decomposition.block(comm.rank());

  const at::Tensor truth = read_block(a.in, g, comm);
  at::Tensor noisy = truth;
  if (a.noise > 0) {
    const at::Tensor exact = truth.to(at::kCPU, at::kDouble, false, /*copy=*/true);
    add_noise(exact, {.gaussian = a.noise}, static_cast<std::uint64_t>(a.seed), 0, g.image, block);
    noisy = exact.to(g.options());
  }
  at::Tensor out = at::empty_like(noisy);
  const double start = now();
  denoiser->apply(noisy, a.sigma, out);
  comm.barrier();
  const double seconds = now() - start;

  if (picture) {
    write_preview(a.out, out, block, g.decomposition.layout(), g.image, 8, comm, a.in);
  } else {
    const at::Tensor units = out.to(at::kCPU, at::kFloat, false, /*copy=*/true).mul_(g.factor).add_(g.offset);
    Hdf5File file = Hdf5File::create(a.out, comm);
    file.write("/image", g.image, view(units, block));
    file.close();
  }
  Log log(comm.rank() == 0, "");
  for (const std::string& notice : g.notices) log.line("note: " + notice);
  if (!denoiser->notice().empty()) log.line("note: " + denoiser->notice());
  log.line(fmt::format("{} on {} rank{}: {}", denoiser->description(), comm.size(),
                       comm.size() == 1 ? "" : "s", format_seconds(seconds)));
  if (a.noise > 0) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    Metrics metrics(truth, g.decomposition, comm, transport);
    log.line(fmt::format("PSNR {:.2f} dB -> {:.2f} dB, SSIM {:.4f} -> {:.4f}", metrics.psnr(noisy, space),
                         metrics.psnr(out, space), metrics.ssim(noisy, space).reflected,
                         metrics.ssim(out, space).reflected));
  }
  return 0;
}

}  // namespace tessera
