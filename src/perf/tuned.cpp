// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/perf/tuned.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <filesystem>

#include "quoted.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

template <class E>
E parse_word(const YAML::Node& node) {
  const auto text = node.as<std::string>();
  const std::optional<E> value = from_word<E>(text);
  if (!value) throw InputError(concat("a choice of '", text, "'"));
  return *value;
}

std::optional<std::int64_t> parse_number(const YAML::Node& node) {
  const auto number = node.as<std::int64_t>();
  return number > 0 ? std::optional(number) : std::nullopt;
}

TunedEntry read_entry(const YAML::Node& node) {
  TunedEntry e;
  for (const auto& line : node["machine"])
    e.fingerprint[line.first.as<std::string>()] = line.second.as<std::string>();
  e.shape = node["job"].as<std::string>();
  const YAML::Node c = node["choice"];
  e.choice.mode = parse_word<ExecutionMode>(c["mode"]);
  e.choice.patch = parse_number(c["patch"]);
  e.choice.batch = parse_number(c["batch"]);
  e.choice.halo_depth = parse_number(c["halo_depth"]);
  e.choice.precision = parse_word<Precision>(c["precision"]);
  e.choice.transport = parse_word<TransportKind>(c["transport"]);
  e.seconds = node["seconds"].as<double>();
  return e;
}

std::string print(const TunedEntry& e) {
  std::string out = fmt::format("  - job: {}\n    machine:\n", quoted(e.shape));
  for (const auto& [key, value] : e.fingerprint)
    out += fmt::format("      {}: {}\n", quoted_key(key), quoted(value));
  out += fmt::format(
      "    choice: {{mode: {}, patch: {}, batch: {}, halo_depth: {}, precision: {}, transport: {}}}\n    "
      "seconds: "
      "{:.9g}\n",
      word(e.choice.mode), e.choice.patch.value_or(0), e.choice.batch.value_or(0),
      e.choice.halo_depth.value_or(0), word(e.choice.precision), word(e.choice.transport), e.seconds);
  return out;
}

}  // namespace

std::string tuned_path() {
  if (const char* given = std::getenv("TESSERA_TUNED"); given && *given) return given;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::string(cache) + "/tessera/tuned.yaml";
  const char* home = std::getenv("HOME");
  return std::string(home ? home : ".") + "/.cache/tessera/tuned.yaml";
}

std::string measured_machine_path(int ranks_per_node, int threads) {
  return (fs::path(tuned_path()).parent_path() / fmt::format("machine-{}x{}.yaml", ranks_per_node, threads))
      .string();
}

std::vector<TunedEntry> read_tuned(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  std::vector<TunedEntry> entries;
  try {
    const YAML::Node root = YAML::Load(read_text(path));
    if (root["schema"].as<int>() != 1) throw InputError("its schema is not 1");
    for (const YAML::Node& node : root["entries"]) entries.push_back(read_entry(node));
  } catch (const std::exception& e) {
    throw InputError(concat("the tuned file ", path, " cannot be read (", e.what(),
                            ") delete it and run tessera tune again"));
  }
  return entries;
}

void store_tuned(const std::string& path, const TunedEntry& entry) {
  std::vector<TunedEntry> entries;
  try {
    entries = read_tuned(path);
  } catch (const InputError&) {  // written anew
  }
  std::erase_if(entries, [&](const TunedEntry& e) {
    return e.shape == entry.shape && e.fingerprint == entry.fingerprint;
  });
  entries.push_back(entry);
  std::string text =
      "# Measured by tessera tune; tessera run uses it where a job says auto. May be deleted.\nschema: "
      "1\nentries:\n";
  for (const TunedEntry& e : entries) text += print(e);
  std::error_code error;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty())
    fs::create_directories(folder, error);
  write_text(path, text);
}

const TunedEntry* find_tuned(const std::vector<TunedEntry>& entries, const std::string& shape,
                             const std::map<std::string, std::string>& fingerprint, std::string& stale) {
  for (const TunedEntry& e : entries)
    if (e.shape == shape && e.fingerprint == fingerprint) return &e;
  for (const TunedEntry& e : entries)
    if (e.shape == shape) stale = difference(e.fingerprint, fingerprint);
  return nullptr;
}

}  // namespace tessera
