// SPDX-License-Identifier: BSD-3-Clause
// What the tables of keys are written with.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "table.hpp"
#include "tessera/core/units.hpp"

namespace tessera::config {

/// "must be WANTED", from the rule alone.
inline std::string wanted(const std::string& type, const Rule& rule) {
  std::string out = !rule.choices.empty() ? "one of"
                    : type.starts_with("number") || type.starts_with("whole number") || type == "text" ||
                            type.starts_with("list")
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
  if constexpr (std::is_enum_v<V>) rule.choices = words<V>();
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

/// The names of rows that satisfy something.
template <class Row, class Test>
std::vector<std::string> names(const std::vector<Row>& rows, Test test) {
  std::vector<std::string> out;
  for (const Row& row : rows)
    if (test(row)) out.push_back(row.name);
  return out;
}
template <class Row>
std::vector<std::string> names(const std::vector<Row>& rows) {
  return names(rows, [](const Row&) { return true; });
}

template <class Row>
bool has_option(const Row& row, const std::string& name) {
  return std::any_of(row.options.begin(), row.options.end(), [&](const Option& o) { return o.name == name; });
}

/// One key for every option that these rows have, below `section`; `at` selects the Options of T, and
/// `when(row)` says what else must hold for that row's options, beside its name being the one chosen
/// (`chosen`). Rows that share an option share its key, as the first of them describes it.
template <class T, class Row, class At, class Chosen, class More>
void add_option_keys(std::vector<Key<T>>& table, const std::string& section, const std::vector<Row>& rows,
                     At at, Chosen chosen, More more) {
  std::vector<std::string> done;
  for (const Row& row : rows)
    for (const Option& o : row.options) {
      if (std::find(done.begin(), done.end(), o.name) != done.end()) continue;
      done.push_back(o.name);
      std::vector<When<T>> when = {
          chosen(names(rows, [&](const Row& other) { return has_option(other, o.name); }))};
      for (When<T>& w : more(row)) when.push_back(std::move(w));
      std::visit(
          [&](const auto& standard) {
            using V = std::remove_cvref_t<decltype(standard)>;
            const auto slot = [at, o](auto& c) -> V& { return at(c).template slot<V>(o); };
            table.push_back(key<T>(section + o.name, slot, o.rule, o.unit, o.meaning, std::move(when)));
          },
          o.fallback);
    }
}

// The member of the configuration that a key stands for.
#define TESSERA_AT(member) \
  [](auto& c) -> auto& { return c.member; }

}  // namespace tessera::config
