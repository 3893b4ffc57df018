// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera {

/// A safetensors file in memory: every length and offset is checked before a byte is used.
/// Format: u64 little-endian header length, JSON {name: {dtype, shape, data_offsets}}, data.
struct SafeTensor {
  std::string dtype;  // F32, F64, F16, BF16, I64, ...
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;
};
struct SafeTensors {
  std::map<std::string, SafeTensor> tensors;
  std::map<std::string, std::string> metadata;
};
SafeTensors read_safetensors(const std::string& path);
void write_safetensors(const std::string& path, const SafeTensors& file);

}  // namespace tessera
