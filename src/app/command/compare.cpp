// SPDX-License-Identifier: BSD-3-Clause
// tessera compare: PSNR, SSIM and maximum error of two images, distributed.
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>

#include "command/command.hpp"
#include "job/gray.hpp"
#include "job/same_files.hpp"
#include "tessera/app/run_plan.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/samples/full_scale.hpp"
#include "tessera/solve/metrics.hpp"

namespace tessera {
namespace {

struct CompareArguments {
  std::string a, b;
  double range = 0;  // 0: full scale of A
};

// Two images of which one lies centered in the other, cut to their common part: this rank's blocks, white at 1.
struct Pair {
  SourceInfo a, b;
  Decomposition cut;  // of the common part
  bool gray = false;  // one has three channels that are the same, the other one
  FullScale scale_a, scale_b;
  at::Tensor x, y;
  std::int64_t all = 0, missing = 0;  // values of all ranks; those that are no number in one of them, 0 here
};

Pair read_pair(const CompareArguments& arguments, const Communicator& comm) {
  Pair p;
  require_same_files({file_of(arguments.a), file_of(arguments.b)}, comm);
  FileHeaders headers;
  p.a = headers.image(arguments.a, comm);
  p.b = headers.image(arguments.b, comm);
  p.gray = p.a.channels != p.b.channels &&
           (p.a.channels == 1 ? three_alike(arguments.b, comm)
                              : p.b.channels == 1 && three_alike(arguments.a, comm));
  TESSERA_VALIDATE(p.a.channels == p.b.channels || p.gray, arguments.a, " has ", p.a.channels,
                   " channels and ", arguments.b, " has ", p.b.channels,
                   " (only equal ones can be compared, and one with three that are the same) convert one");
  Index3 shift_a{}, shift_b{}, size{};
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t difference = p.a.box.extent(d) - p.b.box.extent(d);
    (difference > 0 ? shift_a : shift_b)[d] = std::abs(difference) / 2;
    size[d] = std::min(p.a.box.extent(d), p.b.box.extent(d));
  }
  p.cut = Decomposition::choose(Box({0, 0, 0}, size), {1, 1, 1}, comm.size(),
                                [](const Box& x) { return static_cast<double>(x.pixels()); });
  p.scale_a = p.scale_b = {0, arguments.range};
  if (arguments.range <= 0) {
    p.scale_a = full_scale_of(p.a, {arguments.a}, 0, headers, comm);
    p.scale_b = full_scale_of(p.b, {arguments.b}, 0, headers, comm);
    // One whose white is only guessed from its values takes the other's.
    if (!p.scale_b.note.empty())
      p.scale_b = p.scale_a;
    else if (!p.scale_a.note.empty())
      p.scale_a = p.scale_b;
  }
  const auto read = [&](const std::string& path, const SourceInfo& info, const Index3& shift,
                        const FullScale& scale) {
    std::vector<Box> boxes;
    for (int r = 0; r < comm.size(); ++r) boxes.push_back(p.cut.block(r).shift(shift));
    at::Tensor t = empty_block(info.on(p.cut.image()), p.cut.block(comm.rank()), at::kDouble);
    read_image(path, Layout(boxes), view(t, boxes[static_cast<std::size_t>(comm.rank())]), comm);
    t.sub_(scale.offset).div_(scale.factor);
    return with_channels(t, p.gray ? 1 : info.channels).to(at::kFloat);
  };
  p.x = read(arguments.a, p.a, shift_a, p.scale_a);
  p.y = read(arguments.b, p.b, shift_b, p.scale_b);
  // What is no number in one of them counts in neither; SSIM's windows would look at it.
  const at::Tensor out = p.x.isfinite().logical_and_(p.y.isfinite()).logical_not_();
  std::array<std::int64_t, 2> counts{p.x.numel(), out.sum().item().toLong()};
  comm.all_reduce(counts, Reduce::sum);
  p.all = counts[0];
  p.missing = counts[1];
  TESSERA_VALIDATE(p.missing < p.all, "no value is a number in both ", arguments.a, " and ", arguments.b,
                   " (there is nothing to compare) correct the files");
  p.x.masked_fill_(out, 0);
  p.y.masked_fill_(out, 0);
  return p;
}

int execute(const CompareArguments& arguments, const Communicator& comm) {
  const Pair p = read_pair(arguments, comm);
  const auto& [a, b, cut, gray, scale_a, scale_b, x, y, all, missing] = p;
  if (comm.rank() == 0)
    for (const auto& [path, info] : {std::pair(&arguments.a, &a), std::pair(&arguments.b, &b)})
      if (!info->note.empty()) std::printf("note: %s: %s\n", path->c_str(), info->note.c_str());
  const double rest = 10 * std::log10(static_cast<double>(all - missing) / static_cast<double>(all));  // dB
  Reducer reducer(comm);
  const Space space(comm, &reducer);
  Metrics metrics(x, cut, comm, make_transport(comm, {}, TransportKind::mpi));
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
    std::printf("(%s pixels, %lld channels; %s)\n", sides(cut.image()).c_str(),
                static_cast<long long>(x.size(0)),
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
    if (gray)
      std::printf("note: the channels of %s are the same: its gray was compared\n",
                  (a.channels == 1 ? arguments.b : arguments.a).c_str());
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
