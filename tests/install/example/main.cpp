// SPDX-License-Identifier: BSD-3-Clause
// A program outside the tree: every rank fetches a border of one pixel around its block of an image of ones.
#include <cstdio>

#include <tessera/comm/exchange.hpp>
#include <tessera/core/version.hpp>
#include <tessera/domain/decomposition.hpp>
#include <tessera/domain/space.hpp>
#include <tessera/domain/tensor.hpp>

using namespace tessera;

int main(int argc, char** argv) {
  MpiSession session(&argc, &argv);
  const Communicator comm = Communicator::world();
  const Box image = Box::image2d(203, 97);
  const auto cost = [](const Box& block) { return static_cast<double>(block.pixels()); };
  const auto blocks = Decomposition::choose(image, {1, 8, 8}, comm.size(), cost);
  const Layout need = blocks.layout().grow({{0, 1, 1}, {0, 1, 1}});

  Exchange halo({blocks.layout(), need, image, Border::circular, comm.rank()},
                make_transport(comm, Device{}, TransportKind::automatic), 1, ElementType::float32);
  const at::Tensor block = empty_block(1, blocks.block(comm.rank()), at::kFloat).fill_(1);
  const at::Tensor padded = empty_block(1, need.box(comm.rank()), at::kFloat).zero_();
  halo.begin(view(block, blocks.block(comm.rank())), view(padded, need.box(comm.rank()))).wait();

  double wanted = 0;
  for (int rank = 0; rank < comm.size(); ++rank) wanted += static_cast<double>(need.box(rank).pixels());
  const double sum = Space(comm, nullptr).dot(padded, padded);
  if (comm.rank() == 0)
    std::printf("tessera %s on %d ranks: %.0f pixels of %.0f filled\n", version(), comm.size(), sum, wanted);
  return sum == wanted ? 0 : 1;
}
