// SPDX-License-Identifier: BSD-3-Clause
// tessera denoise: one pass over an image, distributed.
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "command/command.hpp"
#include "job/make_whole.hpp"
#include "job/same_files.hpp"
#include "job/solver_input.hpp"
#include "tessera/app/job_denoiser.hpp"
#include "tessera/app/memory_plan.hpp"
#include "tessera/app/output.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/app/tuning.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/io/keep_open.hpp"
#include "tessera/physics/noise.hpp"
#include "tessera/solve/metrics.hpp"

namespace tessera {
namespace {

struct DenoiseArguments {
  std::string in, out;
  std::string network = "drunet", weights;
  std::vector<std::string> planes;
  double sigma = 0;
  double noise = 0;
  std::string unit = "internal";  // of sigma and noise; or file
  std::int64_t seed = 0;
  std::string device = "auto";
  Execution execution{};
  bool force = false;
};

std::vector<std::string> denoiser_names() {
  std::vector<std::string> names;
  for (const DenoiserRow& row : denoiser_table()) names.push_back(row.name);
  return names;
}

const ImageFormat& checked_format(const DenoiseArguments& a) {
  TESSERA_VALIDATE(a.unit == "internal" || a.unit == "file", "--unit is ", a.unit,
                   " (sigma and noise are in internal range, where white is 1, or in the units of IN) write "
                   "internal or file");
  TESSERA_VALIDATE(a.sigma > 0, "--sigma is ", a.sigma,
                   " (a denoiser needs a noise level in the image's range [0, 1]) for example 0.1");
  TESSERA_VALIDATE(a.noise >= 0, "--noise is ", a.noise,
                   " (a standard deviation is not negative) leave it out for none");
  const ImageFormat& format = output_format(a.out);
  TESSERA_VALIDATE(a.force || !std::filesystem::exists(a.out), a.out,
                   " exists (denoise never overwrites) name another file, or add --force");
  return format;
}

// One iteration of hqs is one pass of the denoiser.
JobConfig job_of(const DenoiseArguments& a) {
  JobConfig job;
  job.solver.name = "hqs";
  job.solver.iterations = 1;
  job.problem.truth = a.in;
  job.problem.seed = a.seed;
  job.denoiser.network = a.network;
  job.denoiser.weights = a.weights;
  job.execution = a.execution;
  for (const std::string& name : a.planes)
    for (const Plane plane : {Plane::axial, Plane::coronal, Plane::sagittal})
      if (name == word(plane) || name == "all") job.execution.planes.across[axes_of(plane)[0]] = true;
  job.device = a.device;
  return job;
}

int execute(const DenoiseArguments& a, const Communicator& comm) {
  const KeepOpen reading;
  track_tensor_memory();
  const ImageFormat* format = nullptr;
  comm.together([&] { format = &checked_format(a); });
  const bool picture = format->writes(8);
  const JobConfig job = job_of(a);
  std::vector<std::string> files;
  comm.together([&] { files = read_by_ranks(job); });
  require_same_files(files, comm);
  RunPlan plan = plan_run(job, comm, comm.size());
  const double unit = a.unit == "file" ? plan.factor : 1, sigma = a.sigma / unit;
  TESSERA_VALIDATE(sigma <= 1, "--sigma is ", a.sigma, " (white is ", unit,
                   ") write --unit file for a level in the units of ", a.in);
  plan.job.solver.sigma.values = {sigma};
  choose_execution(plan, comm, this_launch(comm));
  std::string laid;
  const std::unique_ptr<ScratchScope> scratch = open_scratch(plan, comm, laid);
  if (!laid.empty()) plan.notices.push_back(laid);
  const auto transport = open_transport(plan, comm).transport;
  const auto denoiser = make_denoiser(plan, comm, transport);
  const Box block = plan.decomposition.block(comm.rank());
  // The type and units of IN where OUT can hold them, else to be looked at.
  const int bits = data_bits(plan);
  const bool fits = !picture || format->writes(bits);
  const PictureForm form = fits ? in_file_units(plan, bits) : PictureForm{};

  std::string marks;
  at::Tensor truth = read_block(a.in, plan, comm, &marks);
  std::vector<std::string> missing = make_whole(plan, a.in, truth, transport, comm);
  if (!marks.empty())
    missing.insert(missing.begin(), "note: " + marks + ", far above all others, are taken for masked pixels");
  at::Tensor noisy = truth;
  if (a.noise > 0) {
    const at::Tensor exact = truth.to(at::kCPU, at::kDouble, false, /*copy=*/true);
    add_noise(exact, {.gaussian = a.noise / unit}, static_cast<std::uint64_t>(a.seed), 0, plan.image.box,
              block);
    noisy = exact.to(plan.options());
  }
  at::Tensor out = at::empty_like(noisy);
  const double start = now();
  denoiser->apply(noisy, sigma, out);
  comm.barrier();
  const double seconds = now() - start;

  if (picture)
    write_preview(a.out, out, block, plan.decomposition.layout(), plan.image.box, form, comm,
                  result_record(plan, comm));
  else
    write_image(a.out, plan, out, plan.image.box, comm);
  Log log(comm.rank() == 0, "");
  for (const std::string& notice : plan.notices) log.line("note: " + notice);
  for (const std::string& line : missing) log.line(line);
  if (const std::string notice = untrained(plan, sigma); !notice.empty()) log.line("note: " + notice);
  if (picture && !fits)
    log.line(fmt::format("note: {} holds 8 bits, white is {:.6g} of {} ({}): a .tif keeps its units", a.out,
                         plan.factor + plan.offset, a.in, plan.data.type));
  if (!denoiser->notice().empty()) log.line("note: " + denoiser->notice());
  log.line(fmt::format("{} on {} rank{}: {}", denoiser->description(), comm.size(),
                       comm.size() == 1 ? "" : "s", format_seconds(seconds)));
  if (a.noise > 0) {
    Reducer reducer(comm);
    const Space space(comm, &reducer);
    Metrics metrics(truth, plan.decomposition, comm, transport);
    log.line(fmt::format("PSNR {:.2f} dB -> {:.2f} dB, SSIM {:.4f} -> {:.4f}", metrics.psnr(noisy, space),
                         metrics.psnr(out, space), metrics.ssim(noisy, space).reflected,
                         metrics.ssim(out, space).reflected));
  }
  return 0;
}

}  // namespace

Command denoise_command(CLI::App& app) {
  const auto a = std::make_shared<DenoiseArguments>();
  CLI::App* options = app.add_subcommand("denoise", "one pass over an image");
  options->add_option("IN", a->in, "picture, FITS, .npy or HDF5")->required();
  options->add_option("OUT", a->out, "picture or HDF5, in the type and units of IN")->required();
  options->add_option("--network", a->network, "the denoiser")
      ->capture_default_str()
      ->check(one_of(denoiser_names()));
  options->add_option("--weights", a->weights,
                      "shipped name or path (default: the shipped ones of the network)");
  options->add_option("--sigma", a->sigma, "noise level, image range [0, 1]")->required();
  options->add_option("--unit", a->unit, "of --sigma and --noise: internal | file (the units of IN)")
      ->check(one_of({"internal", "file"}))
      ->capture_default_str();
  options->add_option("--noise", a->noise, "add Gaussian noise of this deviation first, and score");
  options->add_option("--seed", a->seed, "of the noise")->capture_default_str();
  add_word(options, "--mode", a->execution.mode, "how a network runs");
  options->add_option("--patch", a->execution.patch,
                      "a window has at most patch x patch pixels without its halo");
  options
      ->add_option("--planes", a->planes,
                   "of a volume through a network for pictures (default: by its spacing)")
      ->delimiter(',')
      ->check(one_of({"all", "axial", "coronal", "sagittal"}));
  add_word(options, "--averaging", a->execution.averaging, "over flips and turns",
           {word(Averaging::none), word(Averaging::flips), word(Averaging::all)});
  add_word(options, "--precision", a->execution.precision, "of a network");
  options->add_option("--device", a->device, "where")
      ->capture_default_str()
      ->check(one_of({"auto", "cpu", "cuda"}));
  options->add_flag("--force", a->force, "overwrite OUT");
  options->footer("Example: tessera denoise photo.png out.png --sigma 0.1 --noise 0.1");
  return {options, [a](const Launch& launch) { return execute(*a, launch.comm); }, Watched::together};
}

}  // namespace tessera
