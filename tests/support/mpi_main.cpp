// SPDX-License-Identifier: BSD-3-Clause
// main() of every test program: alone, or on the ranks of a launcher. All ranks run all tests; failures of
// other ranks are printed with their rank, and every rank returns the same code: 77 where every test was
// skipped.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"

namespace {

constexpr int kAllSkipped = 77;  // ctest then says "Skipped", see TesseraAddTest.cmake

class RankPrinter final : public testing::EmptyTestEventListener {
 public:
  explicit RankPrinter(int rank) : rank_(rank) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %d: %s: %s:%d: %s\n", rank_, test_.c_str(),
                   result.file_name() ? result.file_name() : "?", result.line_number(), result.message());
  }
  void OnTestStart(const testing::TestInfo& info) override {
    test_ = std::string(info.test_suite_name()) + '.' + info.name();
  }

 private:
  int rank_;
  std::string test_;  // the running one
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
  const int failed = RUN_ALL_TESTS();
  const auto& results = *testing::UnitTest::GetInstance();
  const std::vector<double> failures = world.all_gather(failed);
  for (std::size_t r = 0; r < failures.size() && world.rank() == 0; ++r)
    if (failures[r] > 0) std::fprintf(stderr, "failed on rank %zu of %zu\n", r, failures.size());
  double most[] = {static_cast<double>(failed), static_cast<double>(results.successful_test_count())};
  world.all_reduce(most, tessera::Reduce::max);
  const bool skipped = most[1] == 0 && results.skipped_test_count() > 0;
  session.end(most[0] > 0 ? 1 : skipped ? kAllSkipped : 0);
}
