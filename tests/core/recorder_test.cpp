// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <thread>

#include "tessera/core/phase.hpp"

namespace tessera {
namespace {

TEST(Recorder, EachRunHasItsPhasesItsIterationAndItsClock) {
  take_phases();
  set_iteration(7);
  { const PhaseScope scope(Phase::write); }
  Recorder first, second;
  {
    const Recorder::Entered entered(first);
    EXPECT_TRUE(take_phases().empty());
    { const PhaseScope scope(Phase::load); }
    set_iteration(0);
    {
      const PhaseScope scope(Phase::denoise);
      count_sent(12, 1);
    }
    {
      const Recorder::Entered inner(second);  // such as a run that another one starts
      set_iteration(3);
      const PhaseScope scope(Phase::op);
    }
    const std::vector<PhaseRecord> taken = take_phases();
    ASSERT_EQ(taken.size(), 2U);
    EXPECT_EQ(taken[0].phase, Phase::load);
    EXPECT_EQ(taken[0].iteration, -1);
    EXPECT_EQ(taken[1].phase, Phase::denoise);
    EXPECT_EQ(taken[1].iteration, 0);
    EXPECT_EQ(taken[1].bytes_sent, 12);
  }
  {
    const Recorder::Entered entered(second);
    const std::vector<PhaseRecord> taken = take_phases();
    ASSERT_EQ(taken.size(), 1U);
    EXPECT_EQ(taken[0].iteration, 3);
    EXPECT_GE(taken[0].start, 0);
    EXPECT_LT(now(), 60);
  }
  const std::vector<PhaseRecord> own = take_phases();  // the process's
  ASSERT_EQ(own.size(), 1U);
  EXPECT_EQ(own[0].phase, Phase::write);
  EXPECT_EQ(own[0].iteration, 7);
}

TEST(Recorder, ThreadsRecordApart) {
  take_phases();
  Recorder other;
  std::thread thread([&] {
    const Recorder::Entered entered(other);
    for (int k = 0; k < 100; ++k) const PhaseScope scope(Phase::halo);
  });
  for (int k = 0; k < 50; ++k) const PhaseScope scope(Phase::prox);
  thread.join();
  EXPECT_EQ(take_phases().size(), 50U);
  const Recorder::Entered entered(other);
  EXPECT_EQ(take_phases().size(), 100U);
}

}  // namespace
}  // namespace tessera
