// SPDX-License-Identifier: BSD-3-Clause
// lost_rank_program HOW RANK LIMIT: an exchange loop in which RANK, at iteration 12, hangs in its denoiser
// (how = hang), is killed (kill), stops answering altogether (freeze), is slow but alive (slow), or fails
// where the others do not come (fail).
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/block.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/comm/watchdog.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"

namespace {

using namespace tessera;

void denoise(const std::string& how, bool chosen, int iteration, double limit) {
  const PhaseScope phase(Phase::denoise);
  if (!chosen || iteration != 12) return;
  if (how == "kill") ::raise(SIGKILL);
  if (how == "fail") Communicator::world().together([] { throw RunError("the disk is full"); });
  if (how == "freeze") {
    ::usleep(static_cast<useconds_t>(limit * 2e5));  // its last heartbeat is out
    ::raise(SIGSTOP);
  }
  if (how == "hang")
    while (true) ::pause();
  if (how == "slow")
    for (int i = 0; i < 30; ++i) {
      ::usleep(static_cast<useconds_t>(limit * 1e5));
      beat();
    }
}

}  // namespace

int main(int argc, char** argv) {
  MpiSession session(&argc, &argv);
  if (argc != 5) return 2;
  const std::string how = argv[1];
  const int lost = std::atoi(argv[2]);
  const double limit = std::atof(argv[3]);
  const Communicator world = Communicator::world();
  const Watchdog watchdog(world, limit, "", std::string(argv[4]) + "/rank-" + std::to_string(world.rank()));
  const Box image = Box::image2d(64, 64);
  const Layout own = test::grid_layout(image, test::square_grid(world.size()));
  const Layout need = own.grow({{0, 1, 1}, {0, 1, 1}});
  const auto transport = make_transport(world, Device{}, TransportKind::automatic);
  Exchange exchange(ExchangePlan(own, need, image, Border::circular, world.rank()), transport, 1,
                    ElementType::float32);
  test::Block<float> x(own.box(world.rank()), 1, ElementType::float32, 1);
  test::Block<float> halo(need.box(world.rank()), 1, ElementType::float32, 0);
  for (int iteration = 0; iteration < 20; ++iteration) {
    set_iteration(iteration);
    {
      const PhaseScope phase(Phase::halo);
      exchange.begin(x.view(), halo.view()).wait();
    }
    denoise(how, world.rank() == lost, iteration, limit);
    const PhaseScope phase(Phase::reduce);
    double sum = 1;
    world.all_reduce({&sum, 1}, Reduce::sum);
  }
  if (world.rank() == 0) std::puts("finished");
  return 0;
}
