// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/comm/communicator.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/groups.hpp"
#include "tessera/core/error.hpp"

namespace tessera::test {
namespace {

TEST(Communicator, ReducesGathersAndBroadcasts) {
  on_groups([](const Communicator& comm) {
    const int n = comm.size(), r = comm.rank();
    std::vector<double> v{1.0, static_cast<double>(r), -static_cast<double>(r)};
    comm.all_reduce(v, Reduce::sum);
    EXPECT_EQ(v, (std::vector<double>{1.0 * n, n * (n - 1) / 2.0, -n * (n - 1) / 2.0}));
    std::vector<std::int64_t> w{r, -r, std::int64_t{1} << 40};
    comm.all_reduce(w, Reduce::max);
    EXPECT_EQ(w, (std::vector<std::int64_t>{n - 1, 0, std::int64_t{1} << 40}));
    double low = 10 - r;
    comm.all_reduce({&low, 1}, Reduce::min);
    EXPECT_EQ(low, 11 - n);

    EXPECT_EQ(comm.broadcast("from " + std::to_string(r), n - 1), "from " + std::to_string(n - 1));
    const auto texts = comm.gather(std::string(static_cast<std::size_t>(r), 'x'), n - 1);
    ASSERT_EQ(texts.size(), r == n - 1 ? static_cast<std::size_t>(n) : 0U);
    for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], std::string(i, 'x'));
    const auto all = comm.all_gather(r * 0.5);
    for (int i = 0; i < n; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], i * 0.5);
    EXPECT_EQ(comm.local_size(), n);  // one host here
    EXPECT_EQ(comm.local_rank(), r);
  });
}

TEST(Communicator, ReductionInFlight) {
  on_groups([](const Communicator& comm) {
    std::vector<double> v{1, 2.0 * comm.rank()};
    auto pending = comm.all_reduce_begin(v);
    while (!pending.progress()) {
    }
    pending.wait();
    EXPECT_EQ(v[0], comm.size());
    EXPECT_EQ(v[1], comm.size() * (comm.size() - 1));
  });
}

TEST(Communicator, SplitsAndDuplicates) {
  on_groups([](const Communicator& comm) {
    const int n = comm.size(), r = comm.rank();
    const Communicator half = comm.split(r % 2, -r);  // ordered backwards
    EXPECT_EQ(half.size(), r % 2 ? n / 2 : (n + 1) / 2);
    std::vector<double> smallest{static_cast<double>(r)};
    half.all_reduce(smallest, Reduce::min);
    EXPECT_EQ(smallest[0], r % 2);
    EXPECT_EQ(half.rank() == 0, r + 2 >= n);
    EXPECT_EQ(comm.split(-1, 0).size(), 1);
    EXPECT_EQ(comm.duplicate().size(), n);
    EXPECT_EQ(comm.duplicate().rank(), r);
  });
}

std::string told(const Communicator& comm, const std::function<void()>& work, bool* input = nullptr) {
  try {
    comm.together(work);
  } catch (const InputError& e) {
    if (input) *input = true;
    return e.what();
  } catch (const RunError& e) {
    if (input) *input = false;
    return e.what();
  }
  return "fine";
}

TEST(Communicator, FailsTogetherWithTheLowestRanksMessage) {
  on_groups([](const Communicator& comm) {
    const int n = comm.size(), r = comm.rank();
    EXPECT_EQ(told(comm, [] {}), "fine");
    bool input = false;
    for (int first = 0; first < n; ++first) {
      const auto work = [&] {
        if (r >= first) throw InputError("rank " + std::to_string(r) + " says no");
      };
      EXPECT_EQ(told(comm, work, &input), "rank " + std::to_string(first) + " says no");
      EXPECT_TRUE(input);
    }
    const auto last = [&] {
      if (r == n - 1) throw RunError("lost");
    };
    EXPECT_EQ(told(comm, last, &input), "lost");
    EXPECT_FALSE(input);
    const auto other = [&] {
      if (r == n - 1) throw std::bad_alloc();
    };
    EXPECT_EQ(told(comm, other, &input),
              "there is not enough memory");  // no rank is left behind in a collective
    EXPECT_FALSE(input);
    try {
      comm.together([&] {
        if (r == n - 1) throw DamageError("cut");
      });
      ADD_FAILURE() << "it was to fail";
    } catch (const DamageError& e) {
      EXPECT_TRUE(e.everywhere);
    }
    comm.barrier();
  });
}

}  // namespace
}  // namespace tessera::test
