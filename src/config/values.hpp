// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "document.hpp"
#include "tessera/config/job.hpp"
#include "tessera/core/execution.hpp"
#include "tessera/core/options.hpp"
#include "tessera/core/words.hpp"

namespace tessera::config {

using Rule = OptionRule;

/// Where a value is read: for messages, and for paths, which are relative to the job file's folder.
struct Site {
  std::string path;  // of the key, whole
  std::string folder;
  std::map<std::string, std::string>* present = nullptr;  // path -> place of what was read so far
};

// Text, as YAML has it, to a value; false where it is none or breaks the rule.
bool scan(const Value& v, const Rule& rule, double& out);
bool scan(const Value& v, const Rule& rule, std::int64_t& out);
bool scan(const Value& v, const Rule& rule, bool& out);
bool scan(const Value& v, const Rule& rule, std::string& out);
template <class E>
requires std::is_enum_v<E>
bool scan(const Value& v, const Rule&, E& out) {
  const std::optional<E> value = v.kind == Value::Kind::scalar ? from_word<E>(v.text) : std::nullopt;
  if (value) out = *value;
  return value.has_value();
}
template <class V>
bool scan(const Value& v, const Rule& rule, std::optional<V>& out) {
  return scan(v, rule, out.emplace());
}
template <class V>
bool scan(const Value& v, const Rule& rule, std::vector<V>& out) {
  if (rule.one && v.kind == Value::Kind::scalar) {
    out.assign(1, V{});
    return scan(v, rule, out.front());
  }
  if (v.kind != Value::Kind::list || v.items.size() < rule.shortest || v.items.size() > rule.longest)
    return false;
  out.assign(v.items.size(), V{});
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!scan(v.items[i], rule, out[i])) return false;
  return true;
}
template <class V, std::size_t n>
bool scan(const Value& v, const Rule& rule, std::array<V, n>& out) {
  std::vector<V> list;
  if (!scan(v, rule, list) || list.size() != n) return false;
  std::copy(list.begin(), list.end(), out.begin());
  return true;
}

// A value to what scan() reads; null where nothing has to be written.
Value print(double v, const Rule& rule);
Value print(std::int64_t v, const Rule& rule);
Value print(bool v, const Rule& rule);
Value print(const std::string& v, const Rule& rule);
template <class E>
requires std::is_enum_v<E> Value print(E v, const Rule&) { return Value::scalar(word(v)); }
template <class V>
Value print(const std::vector<V>& v, const Rule& rule) {
  if (v.empty()) return rule.word.empty() ? Value{} : Value::scalar(rule.word);
  if (rule.one && v.size() == 1) return print(v.front(), rule);
  Value out = Value::list({});
  for (const V& item : v) out.items.push_back(print(item, rule));
  return out;
}
template <class V, std::size_t n>
Value print(const std::array<V, n>& v, const Rule& rule) {
  return print(std::vector<V>(v.begin(), v.end()), rule);
}
template <class V>
Value print(const std::optional<V>& v, const Rule& rule) {
  if (v) {
    Rule plain = rule;  // 0 is a value here, and no word
    plain.word.clear();
    return print(*v, plain);
  }
  return rule.word.empty() ? Value{} : Value::scalar(rule.word);
}

// How the reference page calls a type.
inline std::string type_name(double, const Rule&) { return "number"; }
inline std::string type_name(std::int64_t, const Rule&) { return "whole number"; }
inline std::string type_name(bool, const Rule&) { return "true or false"; }
inline std::string type_name(const std::string&, const Rule& rule) {
  return rule.file ? "file" : rule.choices.empty() ? "text" : "word";
}
template <class E>
requires std::is_enum_v<E> std::string type_name(E, const Rule&) { return "word"; }
std::string list_name(const std::string& element, const Rule& rule);
template <class V>
std::string type_name(const std::optional<V>&, const Rule& rule) {
  return type_name(V{}, rule);
}
template <class V>
std::string type_name(const std::vector<V>&, const Rule& rule) {
  return list_name(type_name(V{}, rule), rule);
}
template <class V, std::size_t n>
std::string type_name(const std::array<V, n>&, Rule rule) {
  rule.shortest = rule.longest = n;
  return list_name(type_name(V{}, rule), rule);
}

/// "> 0, <= 1", or the choices; empty where anything goes.
std::string limits(const Rule& rule);

/// Ends with `PLACE: PATH is VALUE (it must be WANTED) SUGGESTION`.
[[noreturn]] void reject(const Site& site, const Value& v, const std::string& wanted,
                         const std::string& suggestion);

/// An absolute path; without a file there, the message names the path that was tried and the nearest name in
/// its folder. What follows ".h5:" names a dataset. `words`: what else the value might have been.
std::string existing_file(const Site& site, const Value& v, const std::vector<std::string>& words = {});
/// An absolute path; nothing needs to be there.
std::string absolute_path(const std::string& path, const std::string& folder);

// Values with a form of their own.
void read_schedule(const Site& site, const Value& v, const Rule& rule, ScheduleConfig& out);
Value print_schedule(const ScheduleConfig& schedule);

// auto, none, linear, srgb or {gamma: number}.
void read_curve(const Site& site, const Value& v, std::optional<ToneCurve>& out);
Value print_curve(const std::optional<ToneCurve>& curve);
void read_gaussian_widths(const Site& site, const Value& v, KernelConfig::Gaussian& out);
Value print_gaussian_widths(const KernelConfig::Gaussian& gaussian);
void read_bounds(const Site& site, const Value& v, std::optional<std::array<double, 2>>& out);
Value print_bounds(const std::optional<std::array<double, 2>>& bounds);
/// auto (no planes), all, one of their words, or a list of them.
void read_planes(const Site& site, const Value& v, Planes& out);
Value print_planes(const Planes& planes);
void read_memory(const Site& site, const Value& v, std::string& out);

}  // namespace tessera::config
