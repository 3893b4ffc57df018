// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/perf/tuned.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class Tuned : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all("tuned_folder"); }
  std::string path = "tuned_folder/deeper/tuned.yaml";
  TunedEntry entry{{{"cpu", "one"}, {"torch", "2.11.0"}},
                   "drunet, image 3 x 80 x 104, 2 ranks",
                   {.mode = ExecutionMode::patch,
                    .patch = 64,
                    .batch = 4,
                    .precision = Precision::bfloat16,
                    .transport = TransportKind::cuda_mpi},
                   0.125};
};

TEST_F(Tuned, comes_back_and_is_replaced) {
  EXPECT_TRUE(read_tuned(path).empty());
  store_tuned(path, entry);
  ASSERT_EQ(read_tuned(path).size(), 1u);
  EXPECT_EQ(read_tuned(path)[0], entry);
  TunedEntry other = entry;
  other.shape = "another";
  store_tuned(path, other);
  entry.choice.patch = 96;
  store_tuned(path, entry);
  const auto all = read_tuned(path);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0], other);
  EXPECT_EQ(all[1].choice.patch, 96);
}

TEST_F(Tuned, a_stale_entry_is_not_found_and_the_reason_is_told) {
  store_tuned(path, entry);
  auto machine = entry.fingerprint;
  const auto entries = read_tuned(path);
  std::string stale;
  ASSERT_NE(find_tuned(entries, entry.shape, machine, stale), nullptr);
  EXPECT_EQ(stale, "");
  machine["torch"] = "2.12.0";
  EXPECT_EQ(find_tuned(entries, entry.shape, machine, stale), nullptr);
  EXPECT_EQ(stale, "torch was 2.11.0 and is 2.12.0");
  stale.clear();
  EXPECT_EQ(find_tuned(entries, "another shape", entry.fingerprint, stale), nullptr);
  EXPECT_EQ(stale, "");
}

TEST_F(Tuned, a_broken_file_is_named_and_written_anew) {
  fs::create_directories("tuned_folder/deeper");
  write_text(path, "schema: 1\nentries:\n  - job: x\n    choice: {mode: sideways}\n");
  try {
    read_tuned(path);
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find(path), std::string::npos) << e.what();
  }
  store_tuned(path, entry);
  EXPECT_EQ(read_tuned(path).size(), 1u);
}

TEST_F(Tuned, the_place_follows_the_environment) {
  setenv("TESSERA_TUNED", "/a/b.yaml", 1);
  EXPECT_EQ(tuned_path(), "/a/b.yaml");
  EXPECT_EQ(measured_machine_path(4, 2), "/a/machine-4x2.yaml");
  unsetenv("TESSERA_TUNED");
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(tuned_path(), "/cache/tessera/tuned.yaml");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/home/x", 1);
  EXPECT_EQ(tuned_path(), "/home/x/.cache/tessera/tuned.yaml");
}

}  // namespace
}  // namespace tessera
