// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/ranges.h>
#include <malloc.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/io/files.hpp"
#include "tessera/train/train.hpp"

namespace tessera {
namespace {

using Readers = std::map<std::string, std::function<void(const YAML::Node&)>>;

/// One section: every key has a reader; an unknown one is an error with the nearest known key.
class Section {
 public:
  Section(std::string file, std::string path, const YAML::Node& node) : file_(std::move(file)) {
    path_ = std::move(path);
    TESSERA_VALIDATE(node.IsMap(), where(node), path_, " is not a section (keys with values are expected) ",
                     "write 'key: value' lines under it");
    node_ = node;
  }

  void read(const Readers& readers) const {
    std::vector<std::string> known;
    for (const auto& [key, reader] : readers) known.push_back(key);
    for (const auto& entry : node_) {
      TESSERA_VALIDATE(entry.first.IsScalar(), where(entry.first), "a key of ", path_,
                       " is a map or a list (keys are words) write 'key: value'");
      const std::string& key = entry.first.Scalar();
      const auto found = readers.find(key);
      if (found == readers.end()) {
        const std::string near = nearest(key, known);
        throw InputError(
            concat(where(entry.first), "unknown key ", path_, ".", key, " (it would be ignored) ",
                   near.empty() ? std::string("remove it") : "did you mean " + path_ + "." + near + "?"));
      }
      try {
        found->second(entry.second);
      } catch (const YAML::Exception&) {
        throw InputError(concat(where(entry.second), path_, ".", key,
                                " has a value of the wrong type (it cannot be read) see docs/training.md"));
      }
    }
  }

  std::string where(const YAML::Node& node) const { return concat(file_, ":", node.Mark().line + 1, ": "); }

 private:
  std::string file_, path_;
  YAML::Node node_;
};

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
  TrainOptions o;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const auto located = [&](const std::string& name) { return (folder / name).lexically_normal().string(); };
  const auto into = [](auto& value) {
    return [&value](const YAML::Node& node) { value = node.as<std::decay_t<decltype(value)>>(); };
  };
  const auto into_number = [](double& value) {
    return [&value](const YAML::Node& node) { value = number(node); };
  };
  const auto into_word = [&path](auto& value, const char* key) {
    return [&value, &path, key](const YAML::Node& n) {
      using Word = std::decay_t<decltype(value)>;
      const auto text = n.as<std::string>();
      const std::optional<Word> found = from_word<Word>(text);
      TESSERA_VALIDATE(found, path, ":", n.Mark().line + 1, ": ", key, " is ", text,
                       " (known: ", fmt::format("{}", fmt::join(words<Word>(), ", ")), ") use one of them");
      value = *found;
    };
  };

  YAML::Node root;
  try {
    root = YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw InputError(
        concat(path, ":", error.mark.line + 1, ": the file is not YAML (", error.msg, ") correct it"));
  }
  const Readers network{{"name", into(o.network.name)},     {"channels", into(o.network.channels)},
                        {"widths", into(o.network.widths)}, {"blocks", into(o.network.blocks)},
                        {"depth", into(o.network.depth)},   {"residual", into(o.network.residual)}};
  const Readers validate{{"folder", [&](const YAML::Node& n) { o.validate = located(n.as<std::string>()); }},
                         {"sigma", [&](const YAML::Node& n) { o.validate_sigma = number_list(n); }},
                         {"every", into(o.validate_every)}};
  const auto into_range = [&](std::pair<double, double>& value, const std::string& key, const char* example) {
    return [&value, key, example, &path](const YAML::Node& n) {
      const std::vector<double> range = number_list(n);
      TESSERA_VALIDATE(range.size() == 2, path, ":", n.Mark().line + 1, ": ", key, " has ", range.size(),
                       " values (lowest and highest are expected) write for example ", example);
      value = {range[0], range[1]};
    };
  };
  JacobianOptions& j = o.jacobian;
  const Readers jacobian{{"weight", into_number(j.weight)},
                         {"bound", into_number(j.bound)},
                         {"orbits", into(j.orbits)},
                         {"batch", into(j.batch)},
                         {"length", into(j.length)},
                         {"power_iterations", into(j.power_iterations)},
                         {"sigma", into_range(j.sigma, "train.jacobian.sigma", "[0.002, 0.08]")}};
  const auto photographs = [&](const YAML::Node& n) {
    for (const auto& name : n.as<std::vector<std::string>>()) o.photographs.push_back(located(name));
  };
  const Readers train{
      {"network",
       [&](const YAML::Node& n) {
         if (n.IsMap() && n["name"] && n["name"].IsScalar())
           o.network = published_network(n["name"].as<std::string>());
         Section(path, "train.network", n).read(network);
         if (n["blocks"]) o.network.stages.clear();  // the published numbers of blocks, stage by stage
       }},
      {"start",
       [&](const YAML::Node& n) {
         o.start = n.as<std::string>();
         if (o.start.find('/') != std::string::npos || o.start.ends_with(".safetensors"))
           o.start = located(o.start);
       }},
      {"output", [&](const YAML::Node& n) { o.output = located(n.as<std::string>()); }},
      {"photographs", photographs},
      {"volumes", photographs},
      {"exclude", into(o.exclude)},
      {"dead_leaves", into_number(o.dead_leaves)},
      {"shrink", into_number(o.shrink)},
      {"crop", into(o.crop)},
      {"batch", into(o.batch)},
      {"sigma", into_range(o.sigma, "train.sigma", "[0, 50/255]")},
      {"jacobian", [&](const YAML::Node& n) { Section(path, "train.jacobian", n).read(jacobian); }},
      {"steps", into(o.steps)},
      {"learning_rate", into_number(o.learning_rate)},
      {"final_learning_rate", into_number(o.final_learning_rate)},
      {"warmup", into(o.warmup)},
      {"clip", into_number(o.clip)},
      {"ema", into_number(o.ema)},
      {"loss", into_word(o.loss, "train.loss")},
      {"optimizer", into_word(o.optimizer, "train.optimizer")},
      {"weight_decay", into_number(o.weight_decay)},
      {"precision", into_word(o.precision, "train.precision")},
      {"device", into(o.device)},
      {"seed", into(o.seed)},
      {"workers", into(o.workers)},
      {"prefetch", into(o.prefetch)},
      {"minutes", [&](const YAML::Node& n) { o.seconds = 60 * number(n); }},
      {"checkpoint_minutes", [&](const YAML::Node& n) { o.checkpoint_seconds = 60 * number(n); }},
      {"log_every", into(o.log_every)},
      {"validate", [&](const YAML::Node& n) { Section(path, "train.validate", n).read(validate); }}};
  std::int64_t schema = 1;
  bool found = false;
  const Readers top{{"schema", into(schema)}, {"train", [&](const YAML::Node& n) {
                                                 found = true;
                                                 Section(path, "train", n).read(train);
                                               }}};
  Section(path, "job", root).read(top);
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
