// SPDX-License-Identifier: BSD-3-Clause
// What the tables of keys are written with.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "table.hpp"
#include "tessera/core/units.hpp"

namespace tessera::config {

/// "must be WANTED", from the rule alone.
inline std::string wanted(const std::string& type, const Rule& rule) {
  std::string out = !rule.choices.empty() ? "one of"
                    : type == "number" || type == "whole number" || type == "text" || type.starts_with("list")
                        ? "a " + type
                        : type;
  if (const std::string range = limits(rule); !range.empty()) out += ' ' + range;
  return rule.word.empty() ? out : out + " or " + rule.word;
}

template <class T>
std::string limits_and_conditions(const Rule& rule, const std::vector<When<T>>& when) {
  std::string out = limits(rule);
  if (!rule.word.empty()) out += (out.empty() ? "" : " or ") + rule.word;
  for (const When<T>& w : when) out += (out.empty() ? "only " : "; only ") + w.text;
  return out;
}

/// A key of a plain type: T's member that `at` selects.
template <class T, class At>
Key<T> key(std::string path, At at, Rule rule, std::string unit, std::string meaning,
           std::vector<When<T>> when = {}) {
  using V = std::remove_cvref_t<decltype(at(std::declval<T&>()))>;
  Key<T> k;
  const std::string type = type_name(V{}, rule);
  k.write = [at, rule](const T& c) { return print(at(const_cast<T&>(c)), rule); };
  const Value standard = k.write(T{});
  const std::string fallback = !rule.fallback.empty()               ? rule.fallback
                               : standard.kind == Value::Kind::null ? "none"
                                                                    : show(standard);
  k.info = {path, type, std::move(unit), fallback, limits_and_conditions(rule, when), std::move(meaning)};
  const std::string leaf = path.substr(path.rfind('.') + 1);
  const std::string example = leaf + ": " + (rule.example.empty() ? fallback : rule.example);
  k.read = [at, rule, type, example](const Site& site, const Value& v, T& c) {
    V& value = at(c);
    if (v.kind == Value::Kind::scalar && !rule.word.empty() && v.text == rule.word) {
      value = V{};
    } else if (!scan(v, rule, value)) {
      const std::string near = nearest(v.text, rule.choices);
      reject(site, v, wanted(type, rule),
             near.empty() ? "write for example '" + example + "'" : "did you mean " + near + '?');
    } else if constexpr (std::is_same_v<V, std::string>) {
      if (rule.file) value = existing_file(site, v);
    }
  };
  k.when = std::move(when);
  return k;
}

/// A key whose value has a form of its own.
template <class T, class Read, class Write>
Key<T> key(KeyInfo info, Read read, Write write, std::vector<When<T>> when = {}) {
  info.limits = [&] {
    Rule none;
    const std::string conditions = limits_and_conditions(none, when);
    return info.limits.empty() || conditions.empty() ? info.limits + conditions
                                                     : info.limits + "; " + conditions;
  }();
  return {std::move(info), read, write, std::move(when)};
}

template <class T, class At>
When<T> is(const std::string& path, At at, std::vector<std::string> values) {
  const std::string text = fmt::format("for {} {}", path, fmt::join(values, ", "));
  return {text, [at, values](const T& c) {
            return std::find(values.begin(), values.end(), at(const_cast<T&>(c))) != values.end();
          }};
}

// The member of the configuration that a key stands for.
#define TESSERA_AT(member) \
  [](auto& c) -> auto& { return c.member; }

}  // namespace tessera::config
