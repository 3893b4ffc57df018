// SPDX-License-Identifier: BSD-3-Clause
#include "command/command.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tessera/core/units.hpp"

namespace tessera {

// The library's own says 'not in range [2.2e-308, ...' in 309 digits.
CLI::Validator above_zero() {
  return {[](std::string& text) -> std::string {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            return *end == '\0' && value > 0 ? "" : text + " is not above 0";
          },
          "above 0"};
}

// One of these words, as for keys of a job.
CLI::Validator one_of(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& w : words) list += (list.empty() ? "" : " | ") + w;
  return {[words, list](std::string& text) -> std::string {
            if (std::find(words.begin(), words.end(), text) != words.end()) return "";
            const std::string near = nearest(text, words);
            return text + " is none of " + list + (near.empty() ? "" : "; did you mean " + near + "?");
          },
          list};
}

void say_notices(const RunPlan& plan, const Problem& problem, const Communicator& comm) {
  if (comm.rank() != 0) return;
  for (const auto* notices : {&plan.notices, &problem.notices})
    for (const std::string& notice : *notices) std::printf("note: %s\n", notice.c_str());
  for (const std::string& warning : problem.warnings) std::printf("warning: %s\n", warning.c_str());
  std::fflush(stdout);
}

}  // namespace tessera
