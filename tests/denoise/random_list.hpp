// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"

namespace tessera::test {

/// Random layers on up to three levels; what nobody has read by the end is brought to the image and joined. All
/// features have two channels or more: of one, oneDNN unfolds some rows, which the memory model leaves out (3 x 3
/// kernels on 1024 x 1024 and 16 channels: 0.6 %).
inline std::string random_list(unsigned seed, std::int64_t channels) {
  std::mt19937 bits(seed);
  const auto any = [&](std::size_t count) { return static_cast<std::size_t>(bits() % count); };
  struct Made {
    std::int64_t channels;
    int level;
    bool read;
  };
  std::vector<Made> made;
  std::string text;
  const auto layer = [&](const std::string& op, const std::vector<std::size_t>& inputs, std::int64_t count,
                         int level, const std::string& more = {}) {
    std::string from;
    for (const std::size_t i : inputs) {
      from += (from.empty() ? "" : ",") + std::to_string(i);
      made[i].read = true;
    }
    const std::string name = concat('l', made.size());
    text += concat(text.empty() ? '[' : ',', "{\"op\":\"", op, '"');
    if (!inputs.empty()) text += concat(",\"inputs\":[", from, ']');
    if (op.starts_with("conv")) {
      text += concat(",\"weight\":\"", name, ".weight\",\"channels\":", count);
      if (any(2)) text += concat(",\"bias\":\"", name, ".bias\"");
    }
    if (op.ends_with("_norm")) text += concat(",\"weight\":\"", name, '"');
    if (op == "input") text += concat(",\"channels\":", count);
    text += concat(more, '}');
    made.push_back({count, level, false});
    return made.size() - 1;
  };
  layer("input", {}, channels, 0);
  if (any(2)) {
    const std::size_t level = layer("sigma_map", {}, 1, 0);
    layer("concat", {level, level}, 2, 0);
    layer("concat", {0, level}, channels + 1, 0);
  }
  const std::size_t first = made.size() > 1 ? 2 : 1;  // behind what only a concat reads
  layer("conv", {made.size() - 1}, 4, 0, ",\"kernel\":3");
  const auto alike = [&](std::size_t x, bool channels_too) {
    std::vector<std::size_t> found;
    for (std::size_t i = first; i < made.size(); ++i)
      if (made[i].level == made[x].level && (!channels_too || made[i].channels == made[x].channels))
        found.push_back(i);
    return found[any(found.size())];
  };
  for (int step = 0; step < 14; ++step) {
    std::size_t x = first + any(made.size() - first);
    if (any(3)) x = made.size() - 1;  // mostly a chain
    const auto [count, level, read] = made[x];
    const auto wide = static_cast<std::int64_t>(2 + any(4));
    switch (any(15)) {
      case 0:
        layer("conv", {x}, wide, level, ",\"kernel\":1");
        break;
      case 1:
        layer("conv", {x}, wide, level, ",\"kernel\":3");
        break;
      case 2:
        layer("conv", {x}, wide, level, ",\"kernel\":5");
        break;
      case 3:
        layer("conv", {x}, count, level, ",\"kernel\":3,\"depthwise\":true");
        break;
      case 4:
        layer("conv", {x}, count, level, ",\"kernel\":1,\"depthwise\":true");
        break;
      case 5:
        if (level < 2) layer("conv_down", {x}, wide, level + 1);
        break;
      case 6:
        if (level < 2) layer("max_pool", {x}, count, level + 1);
        break;
      case 7:
        if (level > 0) layer("conv_up", {x}, wide, level - 1);
        break;
      case 8:
        if (level > 0) layer("upsample", {x}, count, level - 1);
        break;
      case 9:
        layer(any(2) ? "relu" : "elu", {x}, count, level);
        break;
      case 10:
        layer("gelu", {x}, count, level);
        break;
      case 11:
        layer("add", {x, alike(x, true)}, count, level);
        break;
      case 12:
        layer("subtract", {alike(x, true), x}, count, level);
        break;
      case 13: {
        const std::size_t y = alike(x, false);
        if (count + made[y].channels <= 12) layer("concat", {x, y}, count + made[y].channels, level);
        break;
      }
      case 14:
        layer(any(2) ? "layer_norm" : "scale_norm", {x}, count, level);
        break;
      default:
        break;
    }
  }
  std::vector<std::size_t> ends;
  std::int64_t sum = 0;
  for (std::size_t i = 0, count = made.size(); i < count; ++i) {
    if (made[i].read) continue;
    std::size_t x = i;
    while (made[x].level > 0) x = layer("upsample", {x}, made[x].channels, made[x].level - 1);
    ends.push_back(x);
    sum += made[x].channels;
  }
  std::size_t last = ends.size() == 1 ? ends[0] : layer("concat", ends, sum, 0);
  last = layer("conv", {last}, channels, 0, ",\"kernel\":3");
  if (any(2)) layer("add", {last, 0}, channels, 0);
  return text + "]";
}

}  // namespace tessera::test
