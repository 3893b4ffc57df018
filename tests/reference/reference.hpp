// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sub.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

#include "tessera/domain/decomposition.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/safetensors.hpp"

namespace tessera::test {

inline std::string reference_path(const std::string& name) {
  const char* source = std::getenv("TESSERA_SOURCE_DIR");
  if (!source) throw std::runtime_error("TESSERA_SOURCE_DIR is not set: run through ctest, or set it");
  return std::string(source) + "/tests/reference/" + name + ".safetensors";
}

/// The tensors of tests/reference/NAME.safetensors, whole on every rank. An unknown key throws.
class Reference {
 public:
  explicit Reference(const std::string& name) {
    for (const auto& [key, t] : read_safetensors(reference_path(name)).tensors) {
      const at::ScalarType type = t.dtype == "F64" ? at::kDouble : t.dtype == "I64" ? at::kLong : at::kFloat;
      const at::Tensor tensor = at::empty(t.shape, at::TensorOptions().dtype(type));
      if (tensor.nbytes() != t.bytes.size())
        throw std::runtime_error(key + " has another size than its shape");
      std::memcpy(tensor.data_ptr(), t.bytes.data(), t.bytes.size());
      tensors_.emplace(key, tensor);
    }
  }
  const at::Tensor& operator[](const std::string& key) const { return tensors_.at(key); }
  bool has(const std::string& key) const { return tensors_.count(key) > 0; }
  double number(const std::string& key) const { return tensors_.at(key).item().toDouble(); }

 private:
  std::map<std::string, at::Tensor> tensors_;
};

/// A 2-D image of these sides.
inline Box image_of(const at::Tensor& whole) { return Box::image2d(whole.size(-2), whole.size(-1)); }

/// The pixels of a whole image (over a box at the origin) that lie in `block`: a copy in this type, which a
/// solver may overwrite.
inline at::Tensor part_of(const at::Tensor& whole, const Box& block, at::ScalarType type) {
  if (block.empty()) return empty_block(whole.size(0), block, at::TensorOptions().dtype(type));
  return crop(whole, image_of(whole), block).to(type, /*non_blocking=*/false, /*copy=*/true).contiguous();
}

/// Largest |a - b| over this rank's pixels against the largest |reference| of the whole image.
inline double difference(const at::Tensor& a, const at::Tensor& b, const at::Tensor& whole) {
  if (a.sizes() != b.sizes()) throw std::runtime_error("compared tensors differ in shape");
  if (a.numel() == 0) return 0;
  const double scale = whole.abs().max().item().toDouble();
  return at::sub(a.to(at::kDouble), b.to(at::kDouble)).abs().max().item().toDouble() / scale;
}
inline double difference(const at::Tensor& a, const at::Tensor& b) { return difference(a, b, b); }

}  // namespace tessera::test
