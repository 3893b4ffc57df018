// SPDX-License-Identifier: BSD-3-Clause
// Layer by layer on a device, shared by the ranks, against the network on the whole image on the CPU.
#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "support/gpu.hpp"
#include "support/groups.hpp"
#include "tessera/comm/transport_start.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "whole_image.hpp"

namespace tessera {
namespace {

using test::Blocks;
using test::difference;
using test::kSigma;

const char* name_of(const std::shared_ptr<Transport>& transport) {
  return transport ? tessera::word(kind(*transport)) : "mpi";
}

// Rims run beside the insides from the second call on: often enough for a missing wait to show.
TEST(LayerGpu, equals_the_whole_image_call_after_call) {
  TESSERA_NEEDS_GPU();
  for (const char* name : {"drunet", "unet", "dncnn", "gsdrunet", "ffdnet", "scunet", "restormer"}) {
    const Network network = test::tiny(name, 3, {16, 20, 36});
    // cuDNN compiles kernels for every new shape of every layer: minutes, were all sizes asked of all networks.
    std::vector<std::pair<std::int64_t, std::int64_t>> sizes{{41, 30}};
    if (std::string_view(name) == "drunet") sizes = {{350, 290}, {41, 30}, {9, 6}};
    for (const auto& [height, width] : sizes) {
      const at::Tensor image = test::picture(3, height, width, at::kDouble);
      const at::Tensor want = test::whole(network, image, kSigma);
      test::on_groups([&](const Communicator& comm) {
        const Device device{test::gpu_of(comm)};
        cudaSetDevice(device.index);
        const auto started = start_transport(comm, device, TransportKind::automatic, {1, 1, comm.size()}, 0);
        const auto check = [&](const std::shared_ptr<Transport>& transport, at::ScalarType type, int depth,
                               double bound) {
          const Blocks s(comm, network, image, device, transport);
          SCOPED_TRACE(testing::Message()
                       << name << ' ' << height << " x " << width << ", " << c10::toString(type) << ", depth "
                       << depth << ", by " << name_of(transport));
          const auto d = make_network_denoiser(
              network, {.mode = ExecutionMode::layer, .type = type, .halo_depth = depth, .device = device},
              s.context);
          const at::ScalarType images = type == at::kDouble ? at::kDouble : at::kFloat;
          for (int call = 0; call < 6; ++call)
            EXPECT_LT(difference(s, *d, image.to(images), kSigma, want.to(images)), bound) << "call " << call;
          const bool replays =
              recordable(*s.context.transport) && !s.context.decomposition.padded_block(comm.rank()).empty();
          EXPECT_EQ(d->description().find(", replayed") != std::string::npos, replays) << d->description();
        };
        // Through the host: kernel by kernel. As a run sends them: NCCL where every rank has a GPU of its
        // own, replayed as a graph from the second call on.
        for (const auto& transport : {std::shared_ptr<Transport>(), started.transport}) {
          check(transport, at::kDouble, 1, 1e-10);
          check(transport, at::kFloat, 1, 1e-5);
          check(transport, at::kFloat, 2, 1e-5);
          check(transport, at::kBFloat16, 1, 0.1);
        }
      });
    }
  }
}

}  // namespace
}  // namespace tessera
