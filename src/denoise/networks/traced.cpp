// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/layer.hpp"

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMost = 65536;  // of layers, channels, widths of kernels

/// A value in a message; of lists and objects, which may be as deep as a stack, their kind.
std::string shown(const Json& value) {
  if (!value.is_primitive()) return value.type_name();
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 60) + "...";
}

/// One layer of the list. What it cannot say (batch norms, transposes that share a weight) the converter says
/// otherwise. InputError for what is no layer.
Node read_layer(const Json& json, const std::string& where) {
  TESSERA_VALIDATE(json.is_object(), where,
                   " is no object (a layer has names and values) convert the file again");
  Node node;
  const auto number = [&](const std::string& key, const Json& value) {
    TESSERA_VALIDATE(value.is_number_integer() && value >= 0 && value <= kMost, where, ": ", key, " is ",
                     shown(value), " (a whole number up to ", kMost, " is expected) convert the file again");
    return value.get<std::int64_t>();
  };
  TESSERA_VALIDATE(json.contains("op"), where,
                   " has no operation (nothing to compute) convert the file again");
  for (const auto& [key, value] : json.items()) {
    if (key == "op") {
      const std::optional<Op> op = value.is_string() ? op_named(value.get<std::string>()) : std::nullopt;
      TESSERA_VALIDATE(op && *op != Op::batch_norm && *op != Op::elu_gradient, where, " has the operation ",
                       shown(value), " (no layer of a list) convert the file again");
      node.op = *op;
    } else if (key == "inputs") {
      TESSERA_VALIDATE(value.is_array(), where,
                       ": inputs is no list (of earlier layers) convert the file again");
      for (const Json& input : value) node.inputs.push_back(static_cast<int>(number(key, input)));
    } else if (key == "weight" || key == "bias") {
      TESSERA_VALIDATE(value.is_string(), where, ": ", key,
                       " is no name (of a tensor) convert the file again");
      (key == "weight" ? node.weight : node.bias) = value.get<std::string>();
    } else if (key == "channels") {
      node.channels = number(key, value);
    } else if (key == "kernel") {
      node.kernel = static_cast<int>(number(key, value));
    } else if (key == "window") {
      node.window = static_cast<int>(number(key, value));
    } else if (key == "shift") {
      node.shift = static_cast<int>(number(key, value));
    } else if (key == "heads") {
      node.heads = static_cast<int>(number(key, value));
    } else if (key == "axes") {
      const std::int64_t axes = number(key, value);
      TESSERA_VALIDATE(axes == 2 || axes == 3, where, ": axes is ", axes,
                       " (2 of pictures and 3 of volumes are known) convert the file again");
      node.axes = axes == 3 ? Axes::volume : Axes::picture;
    } else if (key == "depthwise") {
      node.depthwise = value == true;
    } else {
      throw InputError(
          concat(where, " has an unknown key (this version knows op, inputs, channels, kernel, weight, ",
                 "bias, window, shift, heads, depthwise, axes) convert the file again"));
    }
  }
  return node;
}

bool takes_weight(Op op) {
  const Node before{.channels = 1};
  return !layer_of(op).weights({.op = op, .channels = 1}, {&before}).empty();
}

/// The layers that a traced module went through, listed by its weights file (jobs/convert_weights.py).
Graph make_traced(const NetworkOptions& options) {
  TESSERA_VALIDATE(!options.layers.empty(), "traced has no layers of its own (its weights file lists them) ",
                   "give weights that jobs/convert_weights.py made of a TorchScript file");
  const Json list = Json::parse(options.layers, nullptr, /*allow_exceptions=*/false);
  TESSERA_VALIDATE(list.is_array() && !list.empty() && list.size() <= kMost,
                   "the list of layers is no list (JSON, up to ", kMost, " layers) convert the file again");
  Graph g;
  std::vector<bool> read(list.size(), false);
  std::set<std::string> names;
  int images = 0, levels = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = concat("layer ", i, " of the list");
    Node node = read_layer(list[i], where);
    if (!takes_weight(node.op)) node.weight.clear();
    if (!is_convolution(node.op)) node.bias.clear();
    if (node.op != Op::window_attention) node.window = 1;
    const std::string fault = g.complete(node);
    TESSERA_VALIDATE(fault.empty(), where, ": ", fault);
    TESSERA_VALIDATE(node.level <= 8 && node.channels <= kMost && node.kernel < 1024 && node.window <= 256 &&
                         node.heads <= 1024,
                     where, " has ", node.channels, " channels at level ", node.level, ", kernels of ",
                     node.kernel, ", windows of ", node.window, ", ", node.heads,
                     " heads (no network has) convert the file again");
    TESSERA_VALIDATE(takes_weight(node.op) != node.weight.empty(), where, ": ", word(node.op),
                     " names no weight (it has one) convert the file again");
    for (const std::string& name : {node.weight, node.bias})
      TESSERA_VALIDATE(name.empty() || names.insert(name).second, where, ": ", name,
                       " is another layer's (each has its own) convert the file again");
    images += node.op == Op::input;
    levels += node.op == Op::sigma_map;
    TESSERA_VALIDATE(node.op != Op::input || node.channels == options.channels, where, ": an image of ",
                     node.channels, " channels (the file says ", options.channels,
                     ") convert the file again");
    for (const int from : node.inputs) {
      // It has no pixels of its own; a concat, also of it alone, gives it some.
      TESSERA_VALIDATE(g.nodes()[from].op != Op::sigma_map || node.op == Op::concat, where, ": ",
                       word(node.op), " reads the noise level (concat alone does) convert the file again");
      read[static_cast<std::size_t>(from)] = true;
    }
    g.add(std::move(node));
  }
  read.back() = true;
  const Node& last = g.output();
  TESSERA_VALIDATE(images == 1 && levels <= 1 && !last.inputs.empty() && last.level == 0 &&
                       last.channels == options.channels,
                   "the list of layers has ", images, " images and ", levels, " noise levels and ends with ",
                   last.channels, " channels at level ", last.level, " (an image of ", options.channels,
                   " channels goes in and comes out) convert the file again");
  TESSERA_VALIDATE(std::find(read.begin(), read.end(), false) == read.end(),
                   "the list has a layer that nobody ", "reads (layer ",
                   std::find(read.begin(), read.end(), false) - read.begin(), ") convert the file again");
  return g;
}

}  // namespace

DenoiserRow traced_row() { return {.name = "traced", .graph = make_traced, .saved = {"layers"}}; }

}  // namespace tessera
