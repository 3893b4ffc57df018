// SPDX-License-Identifier: BSD-3-Clause
// tessera compare: PSNR, SSIM and maximum error of two images, distributed.
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>

#include "command/command.hpp"
#include "job/full_scale.hpp"
#include "tessera/app/run_plan.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/solve/metrics.hpp"

namespace tessera {
namespace {

struct CompareArguments {
  std::string a, b;
  double range = 0;  // 0: full scale of A
};

int execute(const CompareArguments& arguments, const Communicator& comm) {
  const SourceInfo a = image_source_info(arguments.a, comm), b = image_source_info(arguments.b, comm);
  TESSERA_VALIDATE(a.channels == b.channels, arguments.a, " has ", a.channels, " channels and ", arguments.b,
                   " has ", b.channels, " (only equal ones can be compared) convert one");
  // Of two sizes the common part is compared when one lies centered in the other, as a crop to the measured
  // region does.
  Box common = a.box;
  Index3 shift_a{}, shift_b{};
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t difference = a.box.extent(d) - b.box.extent(d);
    (difference > 0 ? shift_a : shift_b)[d] = std::abs(difference) / 2;
  }
  Index3 hi = a.box.hi();
  for (std::size_t d = 0; d < 3; ++d) hi[d] = std::min(a.box.extent(d), b.box.extent(d));
  common = Box({0, 0, 0}, hi);
  const Decomposition whole = Decomposition::choose(
      common, {1, 1, 1}, comm.size(), [](const Box& x) { return static_cast<double>(x.pixels()); });
  const auto read = [&](const std::string& path, const SourceInfo& info, const Index3& shift) {
    std::vector<Box> boxes;
    for (int r = 0; r < comm.size(); ++r) boxes.push_back(whole.block(r).shift(shift));
    at::Tensor t = empty_block(info.on(common), whole.block(comm.rank()), at::kDouble);
    read_image(path, Layout(boxes), view(t, boxes[static_cast<std::size_t>(comm.rank())]), comm);
    return t;
  };
  if (comm.rank() == 0)
    for (const auto& [path, info] : {std::pair(&arguments.a, &a), std::pair(&arguments.b, &b)})
      if (!info->note.empty()) std::printf("note: %s: %s\n", path->c_str(), info->note.c_str());
  FullScale scale_a{0, arguments.range}, scale_b{0, arguments.range};
  if (arguments.range <= 0) {
    scale_a = full_scale_of(a, {arguments.a}, 0, comm);
    scale_b = full_scale_of(b, {arguments.b}, 0, comm);
    // One whose white is only guessed from its values takes the other's.
    if (!scale_b.note.empty())
      scale_b = scale_a;
    else if (!scale_a.note.empty())
      scale_a = scale_b;
  }
  const auto inside = [](const at::Tensor& t, const FullScale& s) {
    return t.sub_(s.offset).div_(s.factor).to(at::kFloat);
  };
  const at::Tensor x = inside(read(arguments.a, a, shift_a), scale_a);
  const at::Tensor y = inside(read(arguments.b, b, shift_b), scale_b);
  // What is no number in one of them counts in neither; SSIM's windows would look at it.
  std::int64_t all = x.numel(), missing = 0;
  comm.all_reduce(std::span<std::int64_t>(&all, 1), Reduce::sum);
  {
    const at::Tensor out = x.isfinite().logical_and_(y.isfinite()).logical_not_();
    missing = out.sum().item().toLong();
    comm.all_reduce(std::span<std::int64_t>(&missing, 1), Reduce::sum);
    TESSERA_VALIDATE(missing < all, "no value is a number in both ", arguments.a, " and ", arguments.b,
                     " (there is nothing to compare) correct the files");
    x.masked_fill_(out, 0);
    y.masked_fill_(out, 0);
  }
  const double rest = 10 * std::log10(static_cast<double>(all - missing) / static_cast<double>(all));  // dB
  Reducer reducer(comm);
  const Space space(comm, &reducer);
  Metrics metrics(x, whole, comm, make_transport(comm, {}, TransportKind::mpi));
  double largest = x.numel() ? at::abs(x - y).max().item().toDouble() : 0;
  comm.all_reduce({&largest, 1}, Reduce::max);
  const double relative = space.norm(x - y) / std::max(space.norm(x), 1e-30);
  const double psnr = metrics.psnr(y, space) + rest, psnr_8bit = metrics.psnr_8bit(y, space) + rest;
  const Ssim ssim = missing > 0 ? Ssim() : metrics.ssim(y, space);
  if (comm.rank() == 0) {
    std::printf("PSNR %.4f dB  SSIM %.6f  maximum error %.3e  relative error %.3e\n", psnr, ssim.reflected,
                largest, relative);
    std::printf("as 8-bit pictures: PSNR %.4f dB; without a rim of 5 pixels: SSIM %.6f (docs/metrics.md)\n",
                psnr_8bit, ssim.valid);
    std::printf("(%s pixels, %lld channels; %s)\n", sides(common).c_str(), static_cast<long long>(a.channels),
                arguments.range > 0 ? fmt::format("both divided by {:g}", arguments.range).c_str()
                                    : fmt::format("white is {:g} and {:g}", scale_a.offset + scale_a.factor,
                                                  scale_b.offset + scale_b.factor)
                                          .c_str());
    if (scale_a.factor != scale_b.factor)
      std::printf("warning: their scales differ: write --range %g if both are in the same units\n",
                  scale_a.factor);
    if (missing > 0)
      std::printf(
          "note: %lld of %lld values are not numbers in one of the files: they are left out of all but SSIM, "
          "which has no value then\n",
          static_cast<long long>(missing), static_cast<long long>(all));
    if (a.box != b.box)
      std::printf("sizes differ: %s and %s, the centered common part was compared\n", sides(a.box).c_str(),
                  sides(b.box).c_str());
  }
  return 0;
}

}  // namespace

Command compare_command(CLI::App& app) {
  const auto a = std::make_shared<CompareArguments>();
  CLI::App* options = app.add_subcommand("compare", "PSNR, SSIM, maximum error of two images");
  options->add_option("A", a->a, "reference")->required();
  options->add_option("B", a->b, "compared with it")->required();
  options->add_option("--range", a->range, "divide both by this (default: each by its full scale)");
  options->footer("Example: tessera compare photo.png runs/photo/reconstruction.png");
  return {options, [a](const Launch& launch) { return execute(*a, launch.comm); }, Watched::never};
}

}  // namespace tessera
