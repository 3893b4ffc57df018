// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/host.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// A made-up /proc and /sys.
class Host : public testing::Test {
 protected:
  Host() {
    std::string name = (fs::temp_directory_path() / "tessera-host-XXXXXX").string();
    root = mkdtemp(name.data());
    write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:        100 kB\nMemAvailable:    600 kB\n");
  }
  ~Host() override {
    std::error_code ignored;
    fs::remove_all(root, ignored);
  }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((fs::path(root) / path).parent_path());
    std::ofstream(fs::path(root) / path) << text;
  }
  void expect(std::int64_t total, std::int64_t available) const {
    const HostMemory m = host_memory(root);
    EXPECT_EQ(m.total, total);
    EXPECT_EQ(m.available, available);
  }
  std::string root;
};

TEST_F(Host, without_groups_it_is_what_the_kernel_says) { expect(1024000, 614400); }

TEST_F(Host, the_tightest_group_around_the_process_counts) {
  write("proc/self/cgroup", "0::/system.slice/job_7/step_0\n");
  write("sys/fs/cgroup/system.slice/job_7/step_0/memory.max", "max\n");
  write("sys/fs/cgroup/system.slice/job_7/step_0/memory.current", "50000\n");
  write("sys/fs/cgroup/system.slice/job_7/memory.max", "300000\n");
  write("sys/fs/cgroup/system.slice/job_7/memory.current", "120000\n");
  write("sys/fs/cgroup/system.slice/job_7/memory.stat", "anon 90000\ninactive_file 20000\nactive_file 1\n");
  expect(300000, 200000);  // cached files can be dropped
  write("sys/fs/cgroup/memory.max", "250000\n");
  write("sys/fs/cgroup/memory.current", "240000\n");
  expect(250000, 10000);
}

TEST_F(Host, groups_of_version_1_and_of_a_container) {
  write("proc/self/cgroup", "12:cpu,cpuacct:/a\n9:memory:/slurm/uid_0/job_3\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  expect(1024000, 614400);
  // A container sees its own group at the top.
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "400000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "450000\n");
  expect(400000, 0);
}

TEST(HostCores, are_those_that_this_process_may_use) {
  const HostCores all = host_cores();
  ASSERT_FALSE(all.cores.empty());
  EXPECT_GE(all.sockets, 1);
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(host_cores().cores.size(), 1u);
  EXPECT_EQ(host_cores().sockets, all.sockets);
  sched_setaffinity(0, sizeof before, &before);
}

TEST(HostCores, are_written_as_ranges) {
  EXPECT_EQ(ranges({}), "");
  EXPECT_EQ(ranges({3}), "3");
  EXPECT_EQ(ranges({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

}  // namespace
}  // namespace tessera
