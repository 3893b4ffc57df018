// SPDX-License-Identifier: BSD-3-Clause
// Machine files: YAML, strict on keys, numbers in SI units.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <optional>

#include "quoted.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/layer.hpp"
#include "tessera/perf/machine.hpp"

namespace tessera {
namespace {

// One map of the file; says where it stands in every message.
class Section {
 public:
  Section(YAML::Node node, std::string file, std::string path, const std::vector<std::string>& known)
      : node_(std::move(node)), file_(std::move(file)), path_(std::move(path)) {
    TESSERA_VALIDATE(node_.IsMap(), file_, ": ", path_.empty() ? "the file" : path_,
                     " is no map (it holds 'key: value' lines) see data/machines for examples");
    for (const auto& entry : node_) {
      const auto key = entry.first.as<std::string>();
      if (known.empty() || std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string guess = nearest(key, known);
      throw InputError(concat(file_, ": ", where(key),
                              " is no key of a machine file (it would act on nothing) ",
                              guess.empty() ? "leave it out" : "did you mean " + where(guess) + "?"));
    }
  }
  std::string where(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  bool has(const std::string& key) const { return node_[key].IsDefined(); }
  YAML::Node node(const std::string& key) const { return node_[key]; }
  YAML::Node all() const { return node_; }
  Section section(const std::string& key, const std::vector<std::string>& known) const {
    TESSERA_VALIDATE(has(key), file_, ": ", where(key), " is missing (the model needs it) add it");
    return {node_[key], file_, where(key), known};
  }

  double number(const std::string& key, std::optional<double> fallback, double least = 0) const {
    if (!has(key) && fallback) return *fallback;
    TESSERA_VALIDATE(has(key), file_, ": ", where(key), " is missing (the model needs it) add it");
    return checked(node_[key], key, least);
  }
  double checked(const YAML::Node& value, const std::string& key, double least) const {
    double v = NAN;
    if (!value.IsScalar() || !YAML::convert<double>::decode(value, v) || !std::isfinite(v) || v < least)
      throw InputError(concat(file_, ": ", where(key), " is ",
                              value.IsScalar() ? value.Scalar() : "no number",
                              " (it must be a number >= ", least, ") write it in seconds, bytes or flop/s"));
    return v;
  }
  int count(const std::string& key, std::optional<double> fallback, int least) const {
    constexpr int kMost = 1000000;
    const double v = number(key, fallback, least);
    TESSERA_VALIDATE(v <= kMost && v == std::floor(v), file_, ": ", where(key), " is ", node_[key].Scalar(),
                     " (it counts, up to ", kMost, ") write a whole number");
    return static_cast<int>(v);
  }
  std::string text(const std::string& key, const std::string& fallback) const {
    if (!has(key)) return fallback;
    TESSERA_VALIDATE(node_[key].IsScalar(), file_, ": ", where(key),
                     " is a map or a list (it is a word) write one");
    return node_[key].Scalar();
  }
  bool flag(const std::string& key, bool fallback) const {
    bool v = fallback;
    TESSERA_VALIDATE(!has(key) || YAML::convert<bool>::decode(node_[key], v), file_, ": ", where(key),
                     " is no truth value (it says yes or no) write true or false");
    return v;
  }
  Curve curve(const std::string& key, bool needed) const {
    Curve c;
    if (!has(key) && !needed) return c;
    const Section points = section(key, {});
    for (const auto& entry : points.all()) {
      double size = 0;
      TESSERA_VALIDATE(YAML::convert<double>::decode(entry.first, size) && size > 0, file_, ": ", where(key),
                       " has a point at '", entry.first.as<std::string>(),
                       "' (points are 'size: seconds') write a size above 0");
      const double seconds = points.checked(entry.second, entry.first.as<std::string>(), 0);
      TESSERA_VALIDATE(seconds > 0, file_, ": ", points.where(entry.first.as<std::string>()),
                       " is 0 (nothing takes no time) write the seconds");
      c.points[size] = seconds;
    }
    TESSERA_VALIDATE(!c.points.empty(), file_, ": ", where(key),
                     " has no points (the model needs one) write 'size: seconds'");
    return c;
  }

 private:
  YAML::Node node_;
  std::string file_, path_;
};

Op layer_kind(const std::string& text, const std::string& file) {
  std::string known;
  for (const Op op : all_ops()) {
    if (op == Op::sigma_map || op == Op::batch_norm) continue;  // nothing is computed
    if (text == word(op)) return op;
    known += (known.empty() ? "" : ", ") + std::string(word(op));
  }
  throw InputError(
      concat(file, ": a layer is of kind '", text, "' (kinds are ", known, ") write one of them"));
}

Throughput read_throughput(const Section& in, const std::string& file) {
  Throughput t;
  t.peak = in.number("peak", 0.0);
  t.fraction = in.number("fraction", 0.0);
  if (in.has("layers"))
    for (const YAML::Node& row : in.node("layers")) {
      const Section shape(row, file, in.where("layers"), {"kind", "kernel", "in", "out", "seconds", "axes"});
      t.layers.push_back({layer_kind(shape.text("kind", ""), file), shape.count("kernel", {}, 1),
                          shape.count("in", {}, 1), shape.count("out", {}, 1), shape.curve("seconds", true),
                          shape.count("axes", 2, 2) == 3 ? Axes::volume : Axes::picture});
    }
  TESSERA_VALIDATE(!t.layers.empty() || (t.peak > 0 && t.fraction > 0), file, ": ", in.where("layers"),
                   " is missing, and so are peak and fraction (the model needs a throughput) give either");
  return t;
}

Link read_link(const Section& in) {
  return {in.number("L", {}), in.number("o", {}), in.number("g", {}), in.number("G", {}),
          in.flag("overlaps", true)};
}

std::string number(double v) { return fmt::format("{:.6g}", v); }

std::string print(const Curve& curve) {
  std::string out;
  for (const auto& [size, seconds] : curve.points)
    out += (out.empty() ? "" : ", ") + fmt::format("{:.12g}: {:.9g}", size, seconds);
  return "{" + out + "}";
}

std::string print(const Link& l) {
  return fmt::format("{{L: {:.9g}, o: {:.9g}, g: {:.9g}, G: {:.9g}, overlaps: {}}}", l.L, l.o, l.g, l.G,
                     l.overlaps);
}

Machine read_machine(const YAML::Node& root, const std::string& path) {
  const std::vector<std::string> link_keys{"L", "o", "g", "G", "overlaps"};
  const Section in(
      root, path, "",
      {"schema", "name", "measured", "fingerprint", "ranks_per_node", "memory", "processors", "tile", "call",
       "strip", "precisions", "copy", "pack", "transform", "direct", "state", "reduction", "links"});
  TESSERA_VALIDATE(in.number("schema", {}) == 1, path, ": schema is ", in.text("schema", "missing"),
                   " (this version reads 1) measure the machine again");
  Machine m;
  m.name = in.text("name", "unnamed");
  m.measured = in.flag("measured", false);
  if (in.has("fingerprint"))
    for (const auto& entry : in.section("fingerprint", {}).all())
      m.fingerprint[entry.first.as<std::string>()] = entry.second.as<std::string>();
  m.ranks_per_node = in.count("ranks_per_node", {}, 1);
  m.memory = in.number("memory", 0.0);
  m.processors = in.count("processors", 0.0, 0);
  m.tile = in.number("tile", 16384.0, 1);
  m.call = in.number("call", 0.0);
  m.strip = in.number("strip", 1.0);
  const Section precisions = in.section("precisions", words<Precision>());
  for (const auto& entry : precisions.all()) {
    const auto key = entry.first.as<std::string>();
    m.precisions[*from_word<Precision>(key)] =
        read_throughput(precisions.section(key, {"peak", "fraction", "layers"}), path);
  }
  m.copy = in.curve("copy", true);
  m.pack = in.curve("pack", true);
  m.transform = in.curve("transform", true);
  m.direct = in.number("direct", {});
  m.state = in.curve("state", true);
  m.reduction = in.curve("reduction", true);
  std::vector<std::string> transports = words<TransportKind>();
  transports.erase(transports.begin());  // automatic is none
  const Section links = in.section("links", transports);
  for (const auto& entry : links.all()) {
    const auto key = entry.first.as<std::string>();
    const Section pair = links.section(key, {"node", "network"});
    m.links[*from_word<TransportKind>(key)] = {read_link(pair.section("node", link_keys)),
                                               read_link(pair.section("network", link_keys))};
  }
  TESSERA_VALIDATE(
      m.direct > 0 && !m.links.empty(), path,
      ": direct is 0 or links are empty (the model divides by one and looks up the other) give both");
  return m;
}

}  // namespace

Machine parse_machine(const std::string& text, const std::string& path) {
  try {
    return read_machine(YAML::Load(text), path);
  } catch (const YAML::Exception& e) {  // no YAML, or a map where a word is asked for
    throw InputError(concat(path, " is no machine file (", e.what(), ") correct that line"));
  }
}

std::string write_machine(const Machine& m) {
  std::string out = "schema: 1\n";
  out += fmt::format("name: {}\nmeasured: {}\n", quoted(m.name), m.measured);
  if (!m.fingerprint.empty()) out += "fingerprint:\n";
  for (const auto& [key, value] : m.fingerprint)
    out += fmt::format("  {}: {}\n", quoted_key(key), quoted(value));
  out += fmt::format("ranks_per_node: {}\nmemory: {:.12g}\n", m.ranks_per_node, m.memory);
  if (m.processors > 0) out += fmt::format("processors: {}\ntile: {}\n", m.processors, number(m.tile));
  out += "call: " + number(m.call) + "\nstrip: " + number(m.strip) + "\nprecisions:\n";
  for (const auto& [key, t] : m.precisions) {
    out += concat("  ", word(key), ":\n");
    if (t.peak > 0) out += "    peak: " + number(t.peak) + "\n    fraction: " + number(t.fraction) + "\n";
    if (!t.layers.empty()) out += "    layers:\n";
    for (const LayerRate& r : t.layers)
      out += fmt::format("      - {{kind: {}, kernel: {}, in: {}, out: {}, {}seconds: {}}}\n", word(r.op),
                         r.kernel, r.in, r.out, r.axes == Axes::volume ? "axes: 3, " : "", print(r.seconds));
  }
  out += "copy: " + print(m.copy) + "\npack: " + print(m.pack) + "\ntransform: " + print(m.transform);
  out += fmt::format("\ndirect: {:.9g}\nstate: {}\nreduction: {}\nlinks:\n", m.direct, print(m.state),
                     print(m.reduction));
  for (const auto& [key, pair] : m.links)
    out += fmt::format("  {}:\n    node: {}\n    network: {}\n", word(key), print(pair.node),
                       print(pair.network));
  return out;
}

}  // namespace tessera
