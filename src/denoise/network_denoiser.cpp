// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/network_denoiser.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "executors.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/layer_traffic.hpp"
#include "tessera/denoise/planes.hpp"
#include "tessera/domain/space.hpp"

namespace tessera {
namespace {

void validate(const Network& network, const ExecutionOptions& options, const DenoiserContext& context) {
  const std::string& name = network.options.name;
  const Decomposition& d = context.decomposition;
  refuse_axes(network, context.image, options.planes);
  const bool planes = by_planes(network, context.image), volume = context.image.volume() && !planes;
  TESSERA_EXPECT(!planes || !options.planes.empty(), "a volume for ", name,
                 " without its planes (it sees pictures) say which");
  TESSERA_VALIDATE(!volume || options.halo_depth <= 1, "denoiser.halo_depth is ", options.halo_depth, " (",
                   name, " is for volumes, where an exchange serves one layer) write 1, or leave it out");
  TESSERA_VALIDATE(context.image.planes() == network.channels() || context.image.planes() == 1,
                   "the image has ", context.image.planes(), " channels (the weights of ", name, " are for ",
                   network.channels(), ") use weights for ", context.image.planes(), " channels");
  TESSERA_VALIDATE(options.mode == ExecutionMode::layer || options.halo_depth == 0, "denoiser.halo_depth is ",
                   options.halo_depth,
                   " (windows bring their whole halo at once) write 'mode: layer', or leave it out");
  TESSERA_VALIDATE(options.halo_depth >= 0, "denoiser.halo_depth is ", options.halo_depth,
                   " (an exchange serves one convolution at least) use 1 or more");
  TESSERA_VALIDATE(options.mode != ExecutionMode::layer || (options.patch == 0 && options.batch == 0),
                   "denoiser.patch or batch is set in mode layer (blocks are run as a whole) leave them out");
  TESSERA_VALIDATE(options.mode != ExecutionMode::whole || d.ranks() == 1, "denoiser.mode is whole on ",
                   d.ranks(), " ranks (no rank holds the whole image) use layer, patch or auto");
  refuse_windows(network, options.mode, options.patch, options.batch);
  const Index3 unit = planes_alignment(network.alignment(), options.planes);
  const std::int64_t a = longest(unit);
  TESSERA_VALIDATE(options.patch % a == 0 && options.patch >= 0, "denoiser.patch is ", options.patch, " (",
                   name, " needs a multiple of ", a, ") use ",
                   options.patch > a ? concat(options.patch / a * a, " or ") : std::string(),
                   std::max(a, (options.patch / a + 1) * a));
  for (std::size_t axis = 0; axis < 3; ++axis)
    TESSERA_EXPECT(d.padded().extent(axis) % unit[axis] == 0 && d.alignment()[axis] % unit[axis] == 0,
                   "blocks are cut on ", d.alignment()[axis], " along axis ", axis, " (", name,
                   " needs multiples of ", unit[axis], ") decompose for the network");
  TESSERA_EXPECT(options.halo < 0 || options.halo % a == 0, "a halo of ", options.halo,
                 " (windows begin on multiples of ", a, ") round it");
}

}  // namespace

PotentialSum::PotentialSum(const Network& network, std::int64_t image_channels)
    : channels_(network.channels()),
      replicas_(static_cast<double>(channels_) / static_cast<double>(image_channels)),
      asked_(network.options.potential) {}

void PotentialSum::begin(std::size_t passes) {
  share_ = 1 / (replicas_ * static_cast<double>(passes));
  if (asked_) sum_ = at::zeros({}, at::kDouble);
}

void PotentialSum::add(const at::Tensor& part) {
  if (!asked_) return;
  const at::Tensor r = part.narrow(0, channels_, channels_).contiguous();
  sum_ = local_dot(r, r).mul_(share_ / 2).add_(sum_);
}

at::Tensor PotentialSum::image(const at::Tensor& result) const {
  return asked_ ? result.narrow(1, 0, channels_) : result;
}

bool by_planes(const Network& network, const ImageSpace& image) {
  return image.volume() && network.graph.axes() == Axes::picture;
}

void refuse_axes(const Network& network, const ImageSpace& image, const Planes& planes) {
  TESSERA_VALIDATE(network.graph.axes() == Axes::picture || image.volume(), "denoiser.network is ",
                   network.options.name, " (it is for volumes, and the image is a picture of ",
                   image.box.extent(1), " x ", image.box.extent(2),
                   ") write 'network: drunet', or another for pictures");
  TESSERA_VALIDATE(planes.empty() || by_planes(network, image), "denoiser.planes is ", text(planes), " (",
                   image.volume() ? concat(network.options.name, " sees a volume as it is")
                                  : std::string("the image is a picture"),
                   ") leave it out");
}

void refuse_windows(const Network& network, ExecutionMode mode, std::int64_t patch, std::int64_t batch) {
  if (!network.graph.global()) return;
  TESSERA_VALIDATE(mode != ExecutionMode::patch && patch == 0 && batch == 0, "denoiser.",
                   mode == ExecutionMode::patch ? "mode is patch"
                   : patch > 0                  ? "patch is given"
                                                : "batch is given",
                   " (", network.options.name, " attends to the whole image, which each window would hold) ",
                   "write layer on several ranks, whole on one, or auto, without patch and batch");
}

std::unique_ptr<Denoiser> make_network_denoiser(Network network, const ExecutionOptions& options,
                                                const DenoiserContext& context) {
  validate(network, options, context);
  const Decomposition& d = context.decomposition;
  const bool cut = options.mode == ExecutionMode::automatic && d.ranks() > 1;
  const bool layers = options.mode == ExecutionMode::layer || (cut && network.graph.global());
  std::vector<DenoiserContext> contexts;
  for (const Decomposition& view : plane_cuts(d, options.planes)) {
    contexts.push_back(context);
    contexts.back().decomposition = view;
    contexts.back().image.box = view.image();
  }
  ExecutionOptions chosen = options;
  if (layers) chosen.halo_depth = layer_halo_depth(network.graph, d, options);
  auto parts = layers ? make_layer_denoisers(network, chosen, contexts)
                      : make_window_denoisers(network, chosen, contexts);
  return options.planes.empty() ? std::move(parts[0])
                                : make_planes_denoiser(options.planes, std::move(parts));
}

}  // namespace tessera
