// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace tessera::test {

/// A job file that is refused, and with which message. DIR stands for the job file's folder.
struct BadJob {
  const char* name;
  const char* text;
  std::vector<std::string> overrides;
  const char* message;
};

const std::vector<BadJob>& bad_values();
const std::vector<BadJob>& bad_rules();

}  // namespace tessera::test
