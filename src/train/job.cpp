// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/ranges.h>
#include <malloc.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/paths.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/io/files.hpp"
#include "tessera/train/train.hpp"

namespace tessera {
namespace {

using Reader = std::function<void(const YAML::Node&)>;
using Readers = std::map<std::string, Reader>;  // by their keys

/// The job file: places in it for messages, and its folder, where paths begin.
class File {
 public:
  explicit File(const std::string& path) : path_(path), folder_(std::filesystem::path(path).parent_path()) {}
  std::string where(const YAML::Mark& mark) const { return concat(path_, ":", mark.line + 1, ": "); }
  std::string where(const YAML::Node& node) const { return where(node.Mark()); }
  std::string located(const std::string& name) const {
    return (folder_ / expand_path(name, folder_.string())).lexically_normal().string();
  }

 private:
  std::string path_;
  std::filesystem::path folder_;
};

YAML::Node document(const File& file, const std::string& text) {
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw InputError(concat(file.where(error.mark), "the file is not YAML (", error.msg, ") correct it"));
  }
}

/// Every key has a reader; an unknown one is an error with the nearest known key.
void read_section(const File& file, const std::string& section, const YAML::Node& node,
                  const Readers& readers) {
  TESSERA_VALIDATE(node.IsMap(), file.where(node), section,
                   " is not a section (keys with values are expected) write 'key: value' lines under it");
  std::vector<std::string> known;
  for (const auto& [key, reader] : readers) known.push_back(key);
  for (const auto& entry : node) {
    TESSERA_VALIDATE(entry.first.IsScalar(), file.where(entry.first), "a key of ", section,
                     " is a map or a list (keys are words) write 'key: value'");
    const std::string& key = entry.first.Scalar();
    const auto found = readers.find(key);
    if (found == readers.end()) {
      const std::string near = nearest(key, known);
      throw InputError(
          concat(file.where(entry.first), "unknown key ", section, ".", key, " (it would be ignored) ",
                 near.empty() ? std::string("remove it") : "did you mean " + section + "." + near + "?"));
    }
    try {
      found->second(entry.second);
    } catch (const YAML::Exception&) {
      throw InputError(concat(file.where(entry.second), section, ".", key,
                              " has a value of the wrong type (it cannot be read) see docs/training.md"));
    }
  }
}

/// A number, or a quotient: noise levels are usually given in 255ths.
double number(const YAML::Node& node) {
  const auto text = node.as<std::string>();
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return node.as<double>();
  return YAML::Node(text.substr(0, slash)).as<double>() / YAML::Node(text.substr(slash + 1)).as<double>();
}

std::vector<double> number_list(const YAML::Node& node) {
  std::vector<double> values;
  for (const YAML::Node& entry : node) values.push_back(number(entry));
  return values;
}

// Readers into one value, which outlives them.
template <class V>
Reader into(V& value) {
  return [&value](const YAML::Node& node) { value = node.as<V>(); };
}

Reader into_number(double& value) {
  return [&value](const YAML::Node& node) { value = number(node); };
}

Reader into_path(std::string& value, const File& file) {
  return [&value, &file](const YAML::Node& node) { value = file.located(node.as<std::string>()); };
}

template <class Word>
Reader into_word(Word& value, const std::string& key, const File& file) {
  return [&value, key, &file](const YAML::Node& node) {
    const auto text = node.as<std::string>();
    const std::optional<Word> found = from_word<Word>(text);
    TESSERA_VALIDATE(found, file.where(node), key, " is ", text,
                     " (known: ", fmt::format("{}", fmt::join(words<Word>(), ", ")), ") use one of them");
    value = *found;
  };
}

Reader into_range(std::pair<double, double>& value, const std::string& key, const std::string& example,
                  const File& file) {
  return [&value, key, example, &file](const YAML::Node& node) {
    const std::vector<double> range = number_list(node);
    TESSERA_VALIDATE(range.size() == 2, file.where(node), key, " has ", range.size(),
                     " values (lowest and highest are expected) write for example ", example);
    value = {range[0], range[1]};
  };
}

/// A published network's shape, but for what the section says.
void read_network(const File& file, const YAML::Node& node, NetworkOptions& network) {
  if (node.IsMap() && node["name"] && node["name"].IsScalar())
    network = published_network(node["name"].as<std::string>());
  read_section(file, "train.network", node,
               {{"name", into(network.name)},
                {"channels", into(network.channels)},
                {"widths", into(network.widths)},
                {"blocks", into(network.blocks)},
                {"depth", into(network.depth)},
                {"residual", into(network.residual)}});
  if (node["blocks"]) network.stages.clear();  // the published numbers of blocks, stage by stage
}

void read_jacobian(const File& file, const YAML::Node& node, JacobianOptions& jacobian) {
  read_section(file, "train.jacobian", node,
               {{"weight", into_number(jacobian.weight)},
                {"bound", into_number(jacobian.bound)},
                {"orbits", into(jacobian.orbits)},
                {"batch", into(jacobian.batch)},
                {"length", into(jacobian.length)},
                {"power_iterations", into(jacobian.power_iterations)},
                {"sigma", into_range(jacobian.sigma, "train.jacobian.sigma", "[0.002, 0.08]", file)}});
}

void read_validate(const File& file, const YAML::Node& node, TrainOptions& o) {
  read_section(file, "train.validate", node,
               {{"folder", into_path(o.validate, file)},
                {"sigma", [&](const YAML::Node& n) { o.validate_sigma = number_list(n); }},
                {"every", into(o.validate_every)}});
}

/// Weights to begin from: a file, or the name of shipped ones.
void read_start(const File& file, const YAML::Node& node, std::string& start) {
  start = node.as<std::string>();
  if (start.find('/') != std::string::npos || start.ends_with(".safetensors")) start = file.located(start);
}

void read_train(const File& file, const YAML::Node& node, TrainOptions& o) {
  const Reader photographs = [&](const YAML::Node& n) {
    for (const auto& name : n.as<std::vector<std::string>>()) o.photographs.push_back(file.located(name));
  };
  read_section(file, "train", node,
               {{"network", [&](const YAML::Node& n) { read_network(file, n, o.network); }},
                {"start", [&](const YAML::Node& n) { read_start(file, n, o.start); }},
                {"output", into_path(o.output, file)},
                {"photographs", photographs},
                {"volumes", photographs},
                {"exclude", into(o.exclude)},
                {"dead_leaves", into_number(o.dead_leaves)},
                {"shrink", into_number(o.shrink)},
                {"crop", into(o.crop)},
                {"batch", into(o.batch)},
                {"sigma", into_range(o.sigma, "train.sigma", "[0, 50/255]", file)},
                {"jacobian", [&](const YAML::Node& n) { read_jacobian(file, n, o.jacobian); }},
                {"steps", into(o.steps)},
                {"learning_rate", into_number(o.learning_rate)},
                {"final_learning_rate", into_number(o.final_learning_rate)},
                {"warmup", into(o.warmup)},
                {"clip", into_number(o.clip)},
                {"ema", into_number(o.ema)},
                {"loss", into_word(o.loss, "train.loss", file)},
                {"optimizer", into_word(o.optimizer, "train.optimizer", file)},
                {"weight_decay", into_number(o.weight_decay)},
                {"precision", into_word(o.precision, "train.precision", file)},
                {"device", into(o.device)},
                {"seed", into(o.seed)},
                {"workers", into(o.workers)},
                {"prefetch", into(o.prefetch)},
                {"minutes", [&](const YAML::Node& n) { o.seconds = 60 * number(n); }},
                {"checkpoint_minutes", [&](const YAML::Node& n) { o.checkpoint_seconds = 60 * number(n); }},
                {"log_every", into(o.log_every)},
                {"validate", [&](const YAML::Node& n) { read_validate(file, n, o); }}});
}

/// Every step frees its features and asks for as many again. glibc gives such pieces back to the system, which clears
/// their pages each time: 15 % of a step of a small network.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace

TrainOptions parse_train_job(const std::string& text, const std::string& path) {
  const File file(path);
  TrainOptions o;
  std::int64_t schema = 1;
  bool found = false;
  const Reader train = [&](const YAML::Node& node) {
    found = true;
    read_train(file, node, o);
  };
  read_section(file, "job", document(file, text), {{"schema", into(schema)}, {"train", train}});
  TESSERA_VALIDATE(schema == 1, path, ": schema ", schema,
                   " (this program knows schema 1) write 'schema: 1'");
  TESSERA_VALIDATE(found, path, " has no train section (nothing says what to train) see docs/training.md");
  return o;
}

int run_train_file(const std::string& path, const Communicator& comm,
                   const std::function<void(TrainOptions&)>& prepare) {
  keep_freed_memory();
  TrainOptions options;
  comm.together([&] { options = parse_train_job(read_text(path), path); });
  if (prepare) prepare(options);
  return train(options, comm);
}

}  // namespace tessera
