// SPDX-License-Identifier: BSD-3-Clause
// main() of every test program: alone, or on the ranks of a launcher. All ranks run all tests; failures of
// other ranks are printed with their rank, and every rank returns the same code.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tessera/comm/communicator.hpp"

namespace {

class RankPrinter final : public testing::EmptyTestEventListener {
 public:
  explicit RankPrinter(int rank) : rank_(rank) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank_, result.file_name() ? result.file_name() : "?",
                   result.line_number(), result.message());
  }

 private:
  int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  tessera::MpiSession session(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  const tessera::Communicator world = tessera::Communicator::world();
  if (world.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new RankPrinter(world.rank()));
  }
  double failed = RUN_ALL_TESTS();
  world.all_reduce({&failed, 1}, tessera::Reduce::max);
  return failed > 0 ? 1 : 0;
}
