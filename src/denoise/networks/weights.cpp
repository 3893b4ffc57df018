// SPDX-License-Identifier: BSD-3-Clause
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/io/safetensors.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const char* const kSuffix = ".safetensors";

/// The command that makes weights of a file, for messages.
std::string conversion(const std::string& path) {
  const fs::path from(path);
  return concat("jobs/convert_weights.py ", path, " ", from.stem().string(),
                from.extension() == kSuffix ? "_converted" : "", kSuffix);
}

/// Refuses the files of other libraries by their first bytes, whatever they are called. A safetensors file begins
/// with the length of its header and a brace.
void refuse_foreign(const std::string& path) {
  std::array<char, 9> head{};
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  const std::string_view begin(head.data(), head.size());
  if (begin[8] == '{') return;
  using Kind = std::pair<std::string_view, const char*>;
  for (const auto& [magic, name] : {Kind{"\x89HDF", "HDF5, as Keras writes it"},
                                    Kind{"\x93NUMPY", "a NumPy array"}, Kind{"GGUF", "GGUF"}})
    TESSERA_VALIDATE(!begin.starts_with(magic), path, " is no safetensors file (it is ", name,
                     ") write its tensors into a PyTorch state dict and convert that with ",
                     "jobs/convert_weights.py");
  const auto byte = static_cast<unsigned char>(begin[0]);
  std::string what;
  if (begin.starts_with("PK\x03\x04")) what = "a zip archive, as torch.save and torch.jit.save write it";
  if (byte == 0x80) what = "a pickle, as torch.save wrote it before version 1.6";
  if ((0x81 <= byte && byte <= 0x8f) || byte == 0xde || byte == 0xdf) what = "MessagePack, as Flax writes it";
  TESSERA_VALIDATE(what.empty(), path, " is no safetensors file (it is ", what, ") convert it with ",
                   conversion(path));
}

/// Whether it names a file rather than shipped weights.
bool is_path(const std::string& weights) {
  const std::string suffix = fs::path(weights).extension().string();
  return weights.find('/') != std::string::npos || suffix == kSuffix || suffix == ".pth" || suffix == ".pt" ||
         suffix == ".ckpt" || suffix == ".mpk" || suffix == ".bin" || suffix == ".pkl" || suffix == ".zip";
}

/// Folders that may hold shipped weights, first come first served.
std::vector<fs::path> weight_folders() {
  std::vector<fs::path> folders;
  if (const char* folder = std::getenv("TESSERA_WEIGHTS")) folders.emplace_back(folder);
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    folders.push_back(program.parent_path() / "../share/tessera/weights");  // installed
    folders.push_back(program.parent_path() / "../../../data/weights");     // build/PRESET/bin
  }
  folders.emplace_back(TESSERA_SOURCE_WEIGHTS);  // a build folder elsewhere
  return folders;
}

/// Up to so many names, then how many more.
std::string some_of(const std::vector<std::string>& names, std::size_t most = 8) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > most) text += concat(" and ", names.size() - most, " more");
  return text;
}

std::string words(const std::vector<std::int64_t>& numbers, const char* between) {
  std::string text;
  for (const std::int64_t n : numbers) text += (text.empty() ? "" : between) + std::to_string(n);
  return text;
}

at::ScalarType scalar_type(const std::string& dtype) {
  if (dtype == "F32") return at::kFloat;
  if (dtype == "F64") return at::kDouble;
  if (dtype == "F16") return at::kHalf;
  if (dtype == "BF16") return at::kBFloat16;
  return at::kLong;  // no weights
}

at::Tensor to_tensor(const std::string& name, const SafeTensor& from, const std::string& path) {
  const at::ScalarType type = scalar_type(from.dtype);
  TESSERA_VALIDATE(type != at::kLong, path, ": ", name, " is ", from.dtype,
                   " (weights are floating point: F32, F64, F16, BF16) convert it");
  at::Tensor tensor = at::empty(from.shape, type);
  std::memcpy(tensor.data_ptr(), from.bytes.data(), from.bytes.size());
  tensor = tensor.to(at::kFloat);
  TESSERA_VALIDATE(at::isfinite(tensor).all().item<bool>(), path, ": ", name,
                   " holds infinite or not-a-number values (every result would) use other weights");
  return tensor;
}

/// A metadata entry as numbers: "16,32,64".
std::vector<double> numbers(const std::string& text, const std::string& key, const std::string& path) {
  std::vector<double> values;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    char* end = nullptr;
    values.push_back(std::strtod(word.c_str(), &end));
    TESSERA_VALIDATE(end != word.c_str() && *end == '\0', path, ": metadata ", key, " is '", text,
                     "' (numbers separated by commas are expected) correct or remove it");
  }
  return values;
}

/// What the metadata say about the network; the rest stays as it is.
void read_metadata(const SafeTensors& file, const std::string& path, Network& network) {
  const auto find = [&](const char* key) -> std::optional<std::vector<double>> {
    const auto entry = file.metadata.find(key);
    if (entry == file.metadata.end()) return std::nullopt;
    return numbers(entry->second, key, path);
  };
  const auto whole = [&](const std::vector<double>& values, const char* key, double most = 1024) {
    for (const double v : values)
      TESSERA_VALIDATE(0 <= v && v <= most && v == std::floor(v) && values.size() <= 16, path, ": metadata ",
                       key, " is '", file.metadata.at(key), "' (whole numbers up to ", most,
                       " are expected) correct or remove it");
  };
  const auto one = [&](const char* key, auto& value, double most = 1024) {
    const auto given = find(key);
    if (!given) return;
    TESSERA_VALIDATE(given->size() == 1, path, ": metadata ", key, " has ", given->size(),
                     " values (one is expected) correct or remove it");
    whole(*given, key, most);
    value = static_cast<std::decay_t<decltype(value)>>(given->front());
  };
  NetworkOptions& options = network.options;
  one("channels", options.channels);
  one("blocks", options.blocks);
  one("depth", options.depth);
  one("batch_norm", options.batch_norm, 1);
  one("residual", options.residual, 1);
  const auto widths = find("widths");
  if (widths) whole(*widths, "widths", 65536);
  if (widths) options.widths.assign(widths->begin(), widths->end());
  if (const auto layers = file.metadata.find("layers"); layers != file.metadata.end())
    options.layers = layers->second;
  if (const auto range = find("sigma_range")) {
    TESSERA_VALIDATE(
        range->size() == 2 && 0 <= (*range)[0] && (*range)[0] <= (*range)[1] && std::isfinite((*range)[1]),
        path, ": metadata sigma_range is '", file.metadata.at("sigma_range"),
        "' (lowest and highest are expected) correct it");
    network.sigma_range.emplace((*range)[0], (*range)[1]);
  }
}

void check_names(const Graph& graph, const SafeTensors& file, const std::string& path,
                 const std::string& network) {
  std::vector<std::string> missing, misshapen, extra;
  std::set<std::string> wanted;
  for (const auto& [name, shape] : weight_shapes(graph)) {
    wanted.insert(name);
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end())
      missing.push_back(name);
    else if (found->second.shape != shape)
      misshapen.push_back(
          concat(name, " is ", words(found->second.shape, "x"), " instead of ", words(shape, "x")));
  }
  // Batch norms count their training batches; nothing reads that.
  for (const Node& node : graph.nodes())
    if (node.op == Op::batch_norm) wanted.insert(node.weight + ".num_batches_tracked");
  for (const auto& [name, tensor] : file.tensors)
    if (!wanted.count(name)) extra.push_back(name);
  if (missing.empty() && misshapen.empty() && extra.empty()) return;
  std::string list;
  for (const auto& [what, names] :
       {std::pair{"missing: ", &missing}, std::pair{"misshapen: ", &misshapen}, std::pair{"extra: ", &extra}})
    if (!names->empty()) list += (list.empty() ? "" : "; ") + std::string(what) + some_of(*names);
  throw InputError(
      concat(path, " does not hold the weights of this ", network, " (", list, ") ",
             file.metadata.count("network")
                 ? std::string("its names, shapes and metadata contradict each other: convert the "
                               "original again with jobs/convert_weights.py")
                 : "name the right network, or convert the file with " + conversion(path)));
}

}  // namespace

std::string find_weights(const std::string& weights) {
  if (is_path(weights)) {
    TESSERA_VALIDATE(fs::is_regular_file(weights), "there are no weights at ", weights,
                     " (no such file) give a path that exists, or the name of shipped weights");
    return weights;
  }
  std::set<std::string> known;
  std::string places;
  for (const fs::path& folder : weight_folders()) {
    const fs::path file = folder / (weights + kSuffix);
    if (fs::is_regular_file(file)) return fs::weakly_canonical(file).string();
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(folder, failed))
      if (entry.path().extension() == kSuffix) known.insert(entry.path().stem().string());
    places += (places.empty() ? "" : ", ") + fs::weakly_canonical(folder, failed).string();
  }
  throw InputError(concat("there are no shipped weights named '", weights, "' (looked in ", places, ") ",
                          known.empty()
                              ? std::string("set TESSERA_WEIGHTS to the folder that holds them")
                              : "use a path, or one of " + some_of({known.begin(), known.end()}, 24)));
}

Network load_network(const std::string& name, const std::string& weights, std::int64_t image_channels) {
  const std::string path = find_weights(weights);
  refuse_foreign(path);
  const SafeTensors file = read_safetensors(path);
  const auto says = file.metadata.find("network");
  const std::string saved = says == file.metadata.end() ? "" : says->second;
  TESSERA_VALIDATE(saved.empty() || saved == name, path, " holds weights of a ", saved, " (the network is ",
                   name, ") write denoiser.network: ", saved, ", or name other weights");
  Network network;
  network.options.name = name;
  if (image_channels > 0) network.options.channels = image_channels;
  WeightShapes shapes;
  for (const auto& [key, tensor] : file.tensors) shapes[key] = tensor.shape;
  const DenoiserRow& row = find_denoiser(name);
  // What shapes tell does not depend on what stood there before; files name what they do not tell.
  NetworkOptions other = network.options;
  other.residual = !other.residual;
  if (row.infer) row.infer(shapes, network.options), row.infer(shapes, other);
  const bool unshown = network.options.residual != other.residual &&
                       std::find(row.saved.begin(), row.saved.end(), "residual") != row.saved.end();
  read_metadata(file, path, network);
  network.graph = make_graph(network.options);
  check_names(network.graph, file, path, name);
  TESSERA_VALIDATE(
      !unshown || file.metadata.count("residual"), path, " does not say whether the output of its ", name,
      " is added to the image (names and shapes do not show it) convert it with ", conversion(path));
  const std::int64_t takes = network.channels();
  TESSERA_VALIDATE(image_channels <= 0 || takes == image_channels || image_channels == 1, path,
                   " is for images with ", takes, " channels (this one has ", image_channels,
                   ") use weights for ", image_channels, " channels");
  const MemoryScope scope(MemoryUse::weights);
  for (const auto& [key, shape] : weight_shapes(network.graph))
    network.weights.emplace(key, to_tensor(key, file.tensors.at(key), path));
  return network;
}

void save_network(const Network& network, const std::string& path,
                  const std::map<std::string, std::string>& metadata) {
  SafeTensors file;
  file.metadata = metadata;
  const NetworkOptions& options = network.options;
  file.metadata["network"] = options.name;
  file.metadata["channels"] = std::to_string(options.channels);
  if (!options.widths.empty()) file.metadata["widths"] = words(options.widths, ",");
  const std::map<std::string, std::string> all = {{"blocks", std::to_string(options.blocks)},
                                                  {"depth", std::to_string(options.depth)},
                                                  {"batch_norm", options.batch_norm ? "1" : "0"},
                                                  {"residual", options.residual ? "1" : "0"},
                                                  {"layers", options.layers}};
  for (const std::string& name : find_denoiser(options.name).saved) file.metadata[name] = all.at(name);
  if (network.sigma_range) {
    std::ostringstream range;
    range.precision(17);
    range << network.sigma_range->first << ',' << network.sigma_range->second;
    file.metadata["sigma_range"] = range.str();
  }
  for (const auto& [name, shape] : weight_shapes(network.graph)) {
    const at::Tensor tensor = network.weights.at(name).detach().to(at::kCPU, at::kFloat).contiguous();
    TESSERA_EXPECT(tensor.sizes() == at::IntArrayRef(shape), name, " is ", tensor.sizes(),
                   " (not what the graph wants) correct the weights");
    SafeTensor& out = file.tensors[name];
    out.dtype = "F32";
    out.shape = shape;
    const auto* bytes = static_cast<const std::uint8_t*>(tensor.data_ptr());
    out.bytes.assign(bytes, bytes + tensor.numel() * 4);
  }
  write_safetensors(path, file);
}

}  // namespace tessera
