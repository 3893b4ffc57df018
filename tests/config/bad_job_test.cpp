// SPDX-License-Identifier: BSD-3-Clause
// Every kind of bad job file and the exact message that it gets.
#include <gtest/gtest.h>

#include <string>

#include "config/bad_jobs.hpp"
#include "config/job_folder.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"

namespace tessera {
namespace {

class BadJob : public testing::TestWithParam<test::BadJob> {};

TEST_P(BadJob, HasItsMessage) {
  const test::JobFolder folder;
  try {
    parse_job(GetParam().text, folder.path() + "/photo.yaml", GetParam().overrides);
    FAIL() << "accepted: " << GetParam().text;
  } catch (const InputError& error) {
    EXPECT_EQ(folder.shorten(error.what()), GetParam().message);
  }
}

const auto by_name = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Values, BadJob, testing::ValuesIn(test::bad_values()), by_name);
INSTANTIATE_TEST_SUITE_P(Rules, BadJob, testing::ValuesIn(test::bad_rules()), by_name);

}  // namespace
}  // namespace tessera
