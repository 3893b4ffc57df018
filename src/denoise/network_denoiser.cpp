// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/denoise/network_denoiser.hpp"

#include <algorithm>

#include "executors.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

void validate(const Network& network, const ExecutionOptions& options, const DenoiserContext& context) {
  const std::string& name = network.options.name;
  const Decomposition& d = context.decomposition;
  TESSERA_VALIDATE(d.image().extent(0) == 1, "the image is a volume of depth ", d.image().extent(0), " (",
                   name, " takes pictures) use tv, which takes both, or none");
  TESSERA_VALIDATE(context.channels == network.channels() || context.channels == 1, "the image has ",
                   context.channels, " channels (the weights of ", name, " are for ", network.channels(),
                   ") use weights for ", context.channels, " channels");
  TESSERA_VALIDATE(options.mode == ExecutionMode::layer || options.halo_depth == 0, "denoiser.halo_depth is ",
                   options.halo_depth,
                   " (windows bring their whole halo at once) write 'mode: layer', or leave it out");
  TESSERA_VALIDATE(options.halo_depth >= 0, "denoiser.halo_depth is ", options.halo_depth,
                   " (an exchange serves one convolution at least) use 1 or more");
  TESSERA_VALIDATE(options.mode != ExecutionMode::layer || (options.patch == 0 && options.batch == 0),
                   "denoiser.patch or batch is set in mode layer (blocks are run as a whole) leave them out");
  TESSERA_VALIDATE(options.mode != ExecutionMode::whole || d.ranks() == 1, "denoiser.mode is whole on ",
                   d.ranks(), " ranks (no rank holds the whole image) use layer, patch or auto");
  const std::int64_t a = network.alignment();
  TESSERA_VALIDATE(options.patch % a == 0 && options.patch >= 0, "denoiser.patch is ", options.patch, " (",
                   name, " needs a multiple of ", a, ") use ",
                   options.patch > a ? concat(options.patch / a * a, " or ") : std::string(),
                   std::max(a, (options.patch / a + 1) * a));
  TESSERA_EXPECT(d.padded().extent(1) % a == 0 && d.padded().extent(2) % a == 0 &&
                     d.alignment()[1] % a == 0 && d.alignment()[2] % a == 0,
                 "blocks are cut on ", d.alignment()[1], " x ", d.alignment()[2], " (", name,
                 " needs multiples of ", a, ") decompose for the network");
  TESSERA_EXPECT(options.halo < 0 || options.halo % a == 0, "a halo of ", options.halo,
                 " (windows begin on multiples of ", a, ") round it");
}

}  // namespace

std::unique_ptr<Denoiser> make_network_denoiser(Network network, const ExecutionOptions& options,
                                                const DenoiserContext& context) {
  validate(network, options, context);
  if (options.mode == ExecutionMode::layer) return make_layer_denoiser(network, options, context);
  return make_window_denoiser(network, options, context);
}

}  // namespace tessera
