// SPDX-License-Identifier: BSD-3-Clause
#include "values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "tessera/core/error.hpp"
#include "tessera/core/paths.hpp"
#include "tessera/core/units.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera::config {
namespace {

namespace fs = std::filesystem;
using Kind = Value::Kind;

template <class Number>
bool whole_text(std::string_view text, Number& out) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool within(double v, const Rule& rule) {
  return std::isfinite(v) && v <= rule.most && (rule.above ? v > rule.least : v >= rule.least);
}

/// "1 %" -> 1; false where no percent sign ends the text.
bool percent(std::string_view text, double& out) {
  if (text.empty() || text.back() != '%') return false;
  text.remove_suffix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return whole_text(text, out);
}

/// The percentage that reads back as exactly this share.
std::string percent_text(double share) {
  const double near = share * 100;
  for (const double p : {near, std::nextafter(near, 0.0), std::nextafter(near, 2 * near)})
    if (p / 100 == share) return fmt::format("{} %", p);
  return fmt::format("{} %", near);
}

}  // namespace

bool scan(const Value& v, const Rule& rule, double& out) {
  return v.kind == Kind::scalar && whole_text(v.text, out) && within(out, rule);
}
bool scan(const Value& v, const Rule& rule, std::int64_t& out) {
  return v.kind == Kind::scalar && whole_text(v.text, out) && within(static_cast<double>(out), rule);
}
bool scan(const Value& v, const Rule&, bool& out) {
  out = v.text == "true";
  return v.kind == Kind::scalar && (out || v.text == "false");
}
bool scan(const Value& v, const Rule& rule, std::string& out) {
  if (v.kind != Kind::scalar || v.text.empty()) return false;
  out = v.text;
  return rule.choices.empty() ||
         std::find(rule.choices.begin(), rule.choices.end(), out) != rule.choices.end();
}

Value print(double v, const Rule& rule) {
  if (!rule.word.empty() && v == 0) return Value::scalar(rule.word);
  return Value::scalar(fmt::format("{}", v));
}
Value print(std::int64_t v, const Rule& rule) {
  if (!rule.word.empty() && v == 0) return Value::scalar(rule.word);
  return Value::scalar(fmt::format("{}", v));
}
Value print(bool v, const Rule&) { return Value::scalar(v ? "true" : "false"); }
Value print(const std::string& v, const Rule& rule) {
  if (v.empty()) return rule.word.empty() ? Value{} : Value::scalar(rule.word);
  const bool is_choice = std::find(rule.choices.begin(), rule.choices.end(), v) != rule.choices.end();
  return is_choice ? Value::scalar(v) : Value::quote(v);
}

std::string list_name(const std::string& element, const Rule& rule) {
  if (rule.one) return fmt::format("{} or {} of them", element, rule.longest);
  if (rule.shortest == rule.longest) return fmt::format("{} {}s", rule.shortest, element);
  if (rule.longest == rule.shortest + 1)
    return fmt::format("{} or {} {}s", rule.shortest, rule.longest, element);
  return "list of " + element + "s";
}

std::string limits(const Rule& rule) {
  std::string out;
  if (!rule.choices.empty()) return fmt::format("{}", fmt::join(rule.choices, ", "));
  if (std::isfinite(rule.least)) out = fmt::format("{} {}", rule.above ? ">" : ">=", rule.least);
  if (std::isfinite(rule.most)) out += fmt::format("{}<= {}", out.empty() ? "" : ", ", rule.most);
  return out;
}

void reject(const Site& site, const Value& v, const std::string& wanted, const std::string& suggestion) {
  if (v.kind == Kind::null)
    throw InputError(concat(v.place, ": ", site.path,
                            " has no value (nothing stands after the colon) write one or remove the key"));
  throw InputError(
      concat(v.place, ": ", site.path, " is ", show(v), " (it must be ", wanted, ") ", suggestion));
}

std::string absolute_path(const std::string& said, const std::string& folder) {
  const std::string path = expand_path(said, folder);
  return fs::path(path).is_absolute() ? fs::path(path).lexically_normal().string()
                                      : (fs::path(folder) / path).lexically_normal().string();
}

std::string existing_file(const Site& site, const Value& v, const std::vector<std::string>& words) {
  if (v.kind != Kind::scalar || v.text.empty()) reject(site, v, "the path of a file", "write one path");
  std::string path = absolute_path(v.text, site.folder);
  // The name of a dataset is no part of the file's name.
  const std::size_t colon = path.rfind(":/");
  const std::string file = colon == std::string::npos ? path : path.substr(0, colon);
  std::error_code ignored;
  if (fs::is_regular_file(file, ignored) || !standing_file(file).empty()) return path;

  std::vector<std::string> known = words;
  if (!fs::is_directory(file, ignored)) {
    int looked = 0;
    for (fs::directory_iterator it(fs::path(file).parent_path(), ignored), end; it != end && looked < 1000;
         it.increment(ignored), ++looked)
      known.push_back(it->path().filename().string());
    std::sort(known.begin(), known.end());  // a folder has no order of its own
  }
  const std::string near = nearest(fs::path(file).filename().string(), known);
  throw InputError(
      concat(v.place, ": ", site.path, " is ", show(v), " (",
             fs::is_directory(file, ignored) ? "a folder, not a file: " : "there is no file ", file, ") ",
             near.empty() ? "paths are relative to the job file" : "did you mean " + near + '?'));
}

void read_schedule(const Site& site, const Value& v, const Rule& rule, ScheduleConfig& out) {
  const std::string wanted = fmt::format(
      "a number {}, a list of them, {{log: [first, last]}}, {{linear: [first, last]}}, dpir, {{dpir: last}} "
      "or auto",
      limits(rule));
  const std::string suggestion = "write for example {log: [0.2, 0.01]}";
  out = ScheduleConfig{};
  if (v.kind == Kind::scalar && v.text == "auto") return;
  out.automatic = false;
  double number = 0;
  if (v.kind == Kind::scalar && v.text == "dpir") {
    out.form = "dpir";
  } else if (scan(v, rule, number)) {
    out.values = {number};
  } else if (v.kind == Kind::list) {
    if (!scan(v, rule, out.values)) reject(site, v, wanted, suggestion);
  } else if (v.kind == Kind::map && v.keys.size() == 1) {
    out.form = v.keys[0];
    std::array<double, 2> ends{};
    if (out.form == "dpir") {
      if (!scan(v.items[0], rule, out.last)) reject(site, v, wanted, suggestion);
    } else if ((out.form == "log" || out.form == "linear") && scan(v.items[0], rule, ends)) {
      out.first = ends[0];
      out.last = ends[1];
      if (out.form == "log" && (out.first <= 0 || out.last <= 0))
        reject(site, v, "two numbers > 0 for log", "use linear to end at 0");
    } else {
      reject(site, v, wanted, suggestion);
    }
  } else {
    reject(site, v, wanted, suggestion);
  }
}

Value print_schedule(const ScheduleConfig& s) {
  if (s.automatic) return Value::scalar("auto");
  Value form;
  if (s.form.empty()) return s.values.size() == 1 ? print(s.values[0], {}) : print(s.values, {});
  if (s.form == "dpir") {
    if (s.last == 0) return Value::scalar("dpir");
    form.put("dpir", print(s.last, {}));
  } else {
    form.put(s.form, Value::list({print(s.first, {}), print(s.last, {})}));
  }
  return form;
}

void read_curve(const Site& site, const Value& v, std::optional<ToneCurve>& out) {
  out.reset();
  if (v.kind == Kind::scalar && v.text == "auto") return;
  double gamma = 0;
  if (v.kind == Kind::scalar && (v.text == "none" || v.text == "linear"))
    out = ToneCurve();
  else if (v.kind == Kind::scalar && v.text == "srgb")
    out = ToneCurve::srgb();
  else if (v.kind == Kind::map && v.keys.size() == 1 && v.keys[0] == "gamma" &&
           scan(v.items[0], {.least = 0.2, .most = 5}, gamma))
    out = ToneCurve::power(gamma);
  else
    reject(site, v, "auto, none, linear, srgb or {gamma: a number from 0.2 to 5}",
           "write for example 'curve: srgb'");
}

Value print_curve(const std::optional<ToneCurve>& curve) {
  if (!curve) return Value::scalar("auto");
  if (curve->none()) return Value::scalar("none");
  if (curve->kind() == ToneCurve::Kind::srgb) return Value::scalar("srgb");
  Value out;
  out.put("gamma", print(curve->gamma(), {}));
  return out;
}

void read_gaussian_widths(const Site& site, const Value& v, KernelConfig::Gaussian& out) {
  const std::vector<Value> both =
      v.kind == Kind::list ? v.items : std::vector<Value>{v, v};  // one width for rows and columns
  int shares = 0;
  bool good = both.size() == 2 || both.size() == 3;
  out.depth = 0;
  const std::size_t volume = both.size() == 3;  // depth comes first
  for (std::size_t i = 0; good && i < both.size(); ++i) {
    double p = 0;
    double& width = i < volume ? out.depth : out.sigma[i - volume];
    if (both[i].kind == Kind::scalar && percent(both[i].text, p)) {
      ++shares;
      width = p / 100;
    } else {
      good = scan(both[i], Rule{}, width);
    }
    good = good && std::isfinite(width) && width > 0;
  }
  if (!good || shares == 1 || (volume && shares > 0))
    reject(site, v,
           "one or two widths > 0, both in pixels or both in percent of the image width, or three in pixels",
           "write for example [1.6, 1.6], [\"1 %\", \"0.5 %\"] or, of a volume, [2, 1.6, 1.6]");
  out.sigma_is_share = shares == 2;
}

Value print_gaussian_widths(const KernelConfig::Gaussian& g) {
  if (g.depth > 0) return print(std::vector<double>{g.depth, g.sigma[0], g.sigma[1]}, {});
  if (!g.sigma_is_share) return print(g.sigma, {});
  return Value::list({Value::quote(percent_text(g.sigma[0])), Value::quote(percent_text(g.sigma[1]))});
}

void read_bounds(const Site& site, const Value& v, std::optional<std::array<double, 2>>& out) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  out.reset();
  if (v.kind == Kind::scalar && v.text == "none") return;
  if (v.kind == Kind::scalar && v.text == "nonnegative") {
    out = {0, kInfinity};
    return;
  }
  bool good = v.kind == Kind::list && v.items.size() == 2;
  std::array<double, 2> ends{};
  for (std::size_t i = 0; good && i < 2; ++i) {
    const Value& end = v.items[i];
    const double infinite = i == 0 ? -kInfinity : kInfinity;
    if (end.kind == Kind::scalar && end.text == (i == 0 ? "-.inf" : ".inf"))
      ends[i] = infinite;
    else
      good = scan(end, Rule{}, ends[i]);
  }
  if (!good || !(ends[0] < ends[1]))
    reject(site, v, "none, nonnegative, or the least and the most value", "write for example [0, 1]");
  out = ends;
}

Value print_bounds(const std::optional<std::array<double, 2>>& bounds) {
  if (!bounds) return Value::scalar("none");
  const auto& [least, most] = *bounds;
  if (least == 0 && std::isinf(most)) return Value::scalar("nonnegative");
  const auto end = [](double v) {
    return std::isinf(v) ? Value::scalar(v < 0 ? "-.inf" : ".inf") : print(v, {});
  };
  return Value::list({end(least), end(most)});
}

void read_planes(const Site& site, const Value& v, Planes& out) {
  constexpr Planes kAll{.across = {true, true, true}};
  std::vector<Plane> list;
  if (v.kind == Kind::scalar && (v.text == "auto" || v.text == "all")) {
    out = v.text == "all" ? kAll : Planes{};
    return;
  }
  const Value words = v.kind == Kind::scalar ? Value::list({v}) : v;
  const bool good = scan(words, {.shortest = 1, .longest = 3}, list);
  out = Planes::of(list);
  const std::string near = v.kind == Kind::scalar
                               ? nearest(v.text, {"auto", "all", "axial", "coronal", "sagittal"})
                               : std::string();
  if (!good || out.list().size() != list.size())
    reject(site, v, "auto, all, axial, coronal, sagittal, or a list of different ones of these three",
           near.empty() ? "write for example 'planes: all'" : "did you mean " + near + '?');
}

Value print_planes(const Planes& planes) {
  if (planes.empty()) return Value::scalar("auto");
  const std::vector<Plane> list = planes.list();
  if (list.size() == 3) return Value::scalar("all");
  return list.size() == 1 ? Value::scalar(word(list[0])) : print(list, {});
}

void read_memory(const Site& site, const Value& v, std::string& out) {
  const std::string wanted =
      "auto, a share > 0, <= 1 of the memory, or an amount of at least 1 MiB with its unit";
  const std::string suggestion = "write for example 0.5 or 8 GiB";
  if (v.kind != Kind::scalar) reject(site, v, wanted, suggestion);
  double share = 0;
  bool good = v.text == "auto";
  if (whole_text(v.text, share)) {
    good = share > 0 && share <= 1;
  } else if (!good) {
    try {
      good = parse_bytes(v.text) >= (1 << 20);
    } catch (const InputError&) {
      good = false;
    }
  }
  if (!good) reject(site, v, wanted, suggestion);
  out = v.text;
}

}  // namespace tessera::config
