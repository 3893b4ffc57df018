// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/core/error.hpp"

namespace tessera {

/// What a value may be; the checks, their messages and the reference page come from it.
struct OptionRule {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above = false;                     // `least` itself is excluded
  std::vector<std::string> choices = {};  // of a text; empty: free
  std::string word = {};                  // stands for the empty value: auto, none
  bool one = false;                       // a list of one is written as its only item
  std::size_t shortest = 1, longest = std::numeric_limits<std::size_t>::max();  // of a list
  bool file = false;                                                            // a path; made absolute
  std::string example = {};                                                     // where the default is none
  std::string fallback = {};  // for the reference page, where the default is no plain value
};

/// Number, whole number, yes or no, text, lists; optional: may be left out, and then has no value.
using OptionValue =
    std::variant<double, std::int64_t, bool, std::string, std::vector<double>, std::vector<std::int64_t>,
                 std::optional<double>, std::optional<std::int64_t>>;

/// A key that one solver, operator or denoiser adds to its section of the job file. Parsing, limits,
/// messages, resolved.yaml and the reference page follow from it.
struct Option {
  std::string name;      // below the section; may have dots
  OptionValue fallback;  // where it is left out; says the type too
  OptionRule rule{};
  std::string unit{}, meaning{};
};

/// Values of such keys. Asked by the Option that declared them, so that what nobody wrote has its default.
class Options {
 public:
  /// V: an alternative of OptionValue, that of the option's fallback.
  template <class V>
  V get(const Option& option) const {
    const auto found = values_.find(option.name);
    const V* value = std::get_if<V>(found == values_.end() ? &option.fallback : &found->second);
    TESSERA_EXPECT(value, "option ", option.name, " was asked for as another type than it has");
    return *value;
  }
  double number(const Option& option) const { return get<double>(option); }

  /// The value to be written; begins as the default.
  template <class V>
  V& slot(const Option& option) {
    auto& value = values_.try_emplace(option.name, option.fallback).first->second;
    return std::get<V>(value);
  }
  void set(const std::string& name, OptionValue value) { values_[name] = std::move(value); }
  bool operator==(const Options&) const = default;

 private:
  std::map<std::string, OptionValue> values_;
};

}  // namespace tessera
