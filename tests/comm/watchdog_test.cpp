// SPDX-License-Identifier: BSD-3-Clause
// Who is named, as a table; whole jobs that lose a rank are in lost_rank_test.sh.
#include "tessera/comm/watchdog.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "heartbeat_board.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "waiting.hpp"

namespace tessera::test {
namespace {

Sighting rank(int r, Phase phase, int waiting_for, double quiet, std::uint64_t beats = 50) {
  Sighting s;
  s.rank = r;
  s.beats = beats;
  s.iteration = 12;
  s.phase = phase;
  s.waiting_for = waiting_for;
  s.quiet = quiet;
  return s;
}

const Sighting kWorking = rank(0, Phase::denoise, kNobody, 3);

TEST(Diagnosis, NobodyHangs) { EXPECT_EQ(diagnose({kWorking, rank(1, Phase::halo, 0, 250)}, 1, 300), ""); }

TEST(Diagnosis, TheWaitingRankIsNotTheOneThatHangs) {
  EXPECT_EQ(diagnose({kWorking, rank(2, Phase::denoise, kNobody, 310), rank(3, Phase::halo, 2, 301)}, 3, 300),
            "rank 3 waited 301 s for rank 2 in halo, iteration 12 (rank 2 sent nothing: in denoise, "
            "iteration 12, for "
            "310 s) see its last line in log.txt");
}

TEST(Diagnosis, AChainIsFollowedToItsEnd) {
  const std::vector<Sighting> ranks{rank(0, Phase::reduce, kEverybody, 302), rank(1, Phase::halo, 2, 303),
                                    rank(2, Phase::halo, 3, 304), rank(3, Phase::op, kNobody, 305)};
  for (int self = 0; self < 4; ++self)
    EXPECT_EQ(diagnose(ranks, self, 300),
              "rank 2 waited 304 s for rank 3 in halo, iteration 12 (rank 3 sent nothing: in operator, "
              "iteration 12, "
              "for 305 s) see its last line in log.txt");
}

TEST(Diagnosis, ALoneRank) {
  EXPECT_EQ(diagnose({rank(0, Phase::denoise, kNobody, 301)}, 0, 300),
            "rank 0 has not advanced for 301 s in denoise, iteration 12 (longer than the limit of 300 s) see "
            "its last "
            "line in log.txt");
}

TEST(Diagnosis, WhoIsWaitedForButStillWorksHasTime) {
  EXPECT_EQ(diagnose({kWorking, rank(1, Phase::reduce, kEverybody, 2000)}, 1, 300), "");
}

TEST(Diagnosis, SlowPhasesGetFiveTimesTheirSlowest) {
  Sighting slow = rank(0, Phase::denoise, kNobody, 900);
  slow.slowest = 200;
  EXPECT_EQ(diagnose({slow}, 0, 300), "");
  slow.quiet = 1001;
  EXPECT_NE(diagnose({slow}, 0, 300), "");
}

TEST(Diagnosis, AProcessThatStandsStillWaitsForNobody) {
  Sighting frozen = rank(1, Phase::halo, 0, 320);  // it said so before it froze
  frozen.silent = 319;
  EXPECT_EQ(diagnose({rank(0, Phase::halo, 1, 301), frozen}, 0, 300),
            "rank 0 waited 301 s for rank 1 in halo, iteration 12 (rank 1 sent nothing: its process stands "
            "still, last "
            "seen in halo, iteration 12, for 320 s) see its last line in log.txt");
}

TEST(Diagnosis, ARankOfAnotherNodeGetsTwiceTheTime) {
  EXPECT_EQ(diagnose({rank(0, Phase::halo, 9, 301)}, 0, 300), "");
  EXPECT_EQ(diagnose({rank(0, Phase::halo, 9, 601)}, 0, 300),
            "rank 0 waited 601 s for rank 9 in halo, iteration 12 (rank 9, on another node, sent nothing) "
            "see its last "
            "line in log.txt");
}

TEST(Diagnosis, ARingOfWaitingRanksNamesTheOneBehind) {
  EXPECT_EQ(diagnose({rank(0, Phase::halo, 1, 301, 70), rank(1, Phase::halo, 0, 302, 60)}, 0, 300),
            "rank 1 waited 302 s for rank 0 in halo, iteration 12 (every rank waits for another) see the "
            "last lines of "
            "all in log.txt");
}

TEST(Diagnosis, WhereAllOfANodeWaitAnotherNodeOrTheNetworkIsToBlame) {
  EXPECT_EQ(
      diagnose({rank(2, Phase::reduce, kEverybody, 601, 70), rank(3, Phase::halo, 2, 602, 60)}, 2, 300, 4),
      "rank 3 waited 602 s for rank 2 in halo, iteration 12 (every rank of this node waits) see what "
      "another node says in log/, and the network");
}

TEST(Diagnosis, TheLastOneToComeHasTime) {
  EXPECT_EQ(
      diagnose({rank(0, Phase::reduce, kEverybody, 901), rank(1, Phase::reduce, kEverybody, 1)}, 0, 300), "");
}

TEST(Waiting, NestsAndEnds) {
  EXPECT_EQ(waiting_peer().load(), kNobody);
  {
    const Waiting everybody(kEverybody);
    {
      const Waiting one(4);
      EXPECT_EQ(waiting_peer().load(), 4);
    }
    EXPECT_EQ(waiting_peer().load(), kEverybody);
  }
  EXPECT_EQ(waiting_peer().load(), kNobody);
}

TEST(HeartbeatBoard, SuspendedTimeIsForgiven) {
  const std::string folder = "/tmp/tessera-board-" + std::to_string(::getpid());
  HeartbeatBoard board({folder}, 0);
  board.join(1);
  ::usleep(200000);
  EXPECT_GE(board.look().front().quiet, 0.2);
  board.forgive(0.2);
  EXPECT_LT(board.look().front().quiet, 0.15);
}

TEST(HeartbeatBoard, NothingOfAnotherUserIsTaken) {
  namespace fs = std::filesystem;
  const std::string base = "/tmp/tessera-taken-" + std::to_string(::getpid());
  fs::create_directory(base);
  EXPECT_THROW(HeartbeatBoard({base}, 0), RunError) << "others may write into it";
  fs::permissions(base, fs::perms::owner_all);
  constexpr uid_t kNobody = 65534;
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(base.c_str(), kNobody, kNobody), 0);
    EXPECT_THROW(HeartbeatBoard({base}, 0), RunError) << "it is another user's";
    ASSERT_EQ(::chown(base.c_str(), 0, 0), 0);
  }
  fs::create_directory_symlink(base, base + "-link");
  EXPECT_THROW(HeartbeatBoard({base + "-link"}, 0), RunError) << "a link may lead anywhere";
  fs::create_symlink("/dev/null", base + "/rank-0");
  EXPECT_THROW(HeartbeatBoard({base}, 0), RunError);
  fs::remove(base + "/rank-0");
  EXPECT_NO_THROW(HeartbeatBoard({base}, 0));
  fs::remove(base + "-link");
  fs::remove_all(base);
}

TEST(HeartbeatBoard, WhereOneFolderTakesNothingTheNextDoes) {
  namespace fs = std::filesystem;
  const std::string base = "/tmp/tessera-next-" + std::to_string(::getpid());
  {
    HeartbeatBoard first({"/proc/none", base}, 0), second({base, "/proc/none"}, 1);
    first.join(2);
    EXPECT_EQ(first.look().size(), 2U);
    EXPECT_TRUE(fs::exists(base + "/rank-0") && fs::exists(base + "/rank-1"));
    first.vanish();
    EXPECT_TRUE(!fs::exists(base + "/rank-0") && fs::exists(base + "/rank-1"));
    second.vanish();
    EXPECT_FALSE(fs::exists(base)) << "two files and their folder";
    second.publish({.beats = 7}, kNobody);
    EXPECT_EQ(first.look().back().beats, 7U) << "what is mapped stays mapped";
  }
  EXPECT_FALSE(fs::exists(base));
}

TEST(Watchdog, LeavesNoFilesBehind) {
  const Communicator world = Communicator::world();
  const std::string folder = world.broadcast(
      (std::filesystem::temp_directory_path() / ("tessera-watchdog-test-" + std::to_string(::getpid())))
          .string(),
      0);
  {
    const Watchdog watchdog(world, 100, folder);
    world.barrier();
    EXPECT_FALSE(std::filesystem::exists(folder)) << "however the ranks end now";
  }
}

TEST(Watchdog, AnUnusableFolderIsAnErrorOnEveryRank) {
  EXPECT_THROW(Watchdog(Communicator::world(), 100, "/proc/none/here"), RunError);
}

}  // namespace
}  // namespace tessera::test
