// SPDX-License-Identifier: BSD-3-Clause
#include "rules.hpp"
#include "tessera/settings/settings.hpp"

namespace tessera {

std::vector<SettingsRule>& rule_table() {
  static std::vector<SettingsRule> table{
      {"no_shipped_network", rules::no_shipped_network},
      {"operator_of_arrays", rules::operator_of_arrays},
      {"few_bright_samples", rules::few_bright_samples},
      {"missing_samples", rules::missing_samples},
      {"samples_that_differ", rules::samples_that_differ},
      {"operator_of_few_samples", rules::operator_of_few_samples},
  };
  return table;
}

}  // namespace tessera
