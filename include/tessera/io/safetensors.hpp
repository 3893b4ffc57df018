// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera {

/// One array: row-major, little-endian, bytes as they stand in the file.
struct SafeTensor {
  std::string dtype;                // BOOL U8 I8 F8_E4M3 F8_E5M2 U16 I16 F16 BF16 U32 I32 F32 U64 I64 F64
  std::vector<std::int64_t> shape;  // empty: one number
  std::vector<std::uint8_t> bytes;
};
struct SafeTensors {
  std::map<std::string, SafeTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// A safetensors file in memory: u64 little-endian header length, JSON {name: {dtype, shape, data_offsets}},
/// data.
///
/// Every length and offset is checked before a byte is used: the header against the file, the shape against
/// the bytes, the tensors against each other (no overlap, no gap, no name twice). Not collective.
/// Errors: InputError with the file's name.
/// Source: https://github.com/huggingface/safetensors, "Format".
SafeTensors read_safetensors(const std::string& path);

/// Widest dtype first, then by name; data at a multiple of 8 bytes. Whole or absent.
/// Errors: InputError where a tensor's bytes do not fit its shape, RunError where the disk fails.
void write_safetensors(const std::string& path, const SafeTensors& file);

/// Bytes of one element; 0 for a dtype that this reader does not know.
std::int64_t safetensor_element_bytes(const std::string& dtype);

}  // namespace tessera
