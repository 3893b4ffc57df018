// SPDX-License-Identifier: BSD-3-Clause
// docs/job_file.md against the parser: its table, and its examples.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "config/job_folder.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

std::string reference_page() {
  const char* source = std::getenv("TESSERA_SOURCE_DIR");
  if (!source) throw RunError("TESSERA_SOURCE_DIR is not set (ctest sets it)");
  std::ifstream file(std::string(source) + "/docs/job_file.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string row(const KeyInfo& key) {
  const auto cell = [](std::string text) { return text.empty() ? " " : ' ' + text + ' '; };
  return "| `" + key.path + "` |" + cell(key.type) + '|' + cell(key.unit) + '|' + cell(key.fallback) + '|' +
         cell(key.limits) + '|' + cell(key.meaning) + '|';
}

TEST(JobReference, HasOneRowPerKeyAndNoOther) {
  std::vector<std::string> rows;
  std::istringstream page(reference_page());
  for (std::string line; std::getline(page, line);)
    if (line.rfind("| `", 0) == 0) rows.push_back(line);
  ASSERT_GT(job_keys().size(), 40u);
  for (const KeyInfo& key : job_keys())
    EXPECT_EQ(std::count(rows.begin(), rows.end(), row(key)), 1) << "wanted in docs/job_file.md:\n"
                                                                 << row(key);
  EXPECT_EQ(rows.size(), job_keys().size());
}

TEST(JobReference, EveryKeyStandsOnceAndSaysWhatItMeans) {
  std::set<std::string> paths;
  for (const KeyInfo& key : job_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_FALSE(key.type.empty()) << key.path;
    EXPECT_FALSE(key.fallback.empty()) << key.path;
    EXPECT_FALSE(key.meaning.empty()) << key.path;
  }
}

TEST(JobReference, EveryExampleParses) {
  const test::JobFolder folder;
  const std::string page = reference_page();
  int examples = 0;
  for (std::size_t at = 0; (at = page.find("```yaml\n", at)) != std::string::npos; ++examples) {
    at += 8;
    const std::size_t end = page.find("```", at);
    ASSERT_NE(end, std::string::npos);
    EXPECT_NO_THROW(parse_job(page.substr(at, end - at), folder.path() + "/photo.yaml", {}))
        << page.substr(at, end - at);
    at = end;
  }
  EXPECT_GE(examples, 4);
}

}  // namespace
}  // namespace tessera
