// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <utility>
#include <vector>

// Tensors cross as DLPack: the memory is shared, and lives as long as either side needs it.
namespace nanobind::detail {

template <>
struct type_caster<at::Tensor> {
  NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))

  bool from_python(handle source, std::uint8_t flags, cleanup_list* cleanup) noexcept {
    make_caster<ndarray<>> array;
    if (!array.from_python(source, flags, cleanup)) return false;
    ndarray<> a = array.value;
    const dlpack::dtype float32 = nanobind::dtype<float>(), float64 = nanobind::dtype<double>();
    if ((a.dtype() != float32 && a.dtype() != float64) || a.device_type() != device::cpu::value) return false;
    std::vector<std::int64_t> sizes, strides;
    for (std::size_t d = 0; d < a.ndim(); ++d) {
      sizes.push_back(static_cast<std::int64_t>(a.shape(d)));
      strides.push_back(a.stride(d));
    }
    value = at::from_blob(a.data(), sizes, strides, [a](void*) {},
                          at::TensorOptions(a.dtype() == float32 ? at::kFloat : at::kDouble));
    return true;
  }

  static handle from_cpp(const at::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
    std::vector<std::size_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
    const capsule owner(new at::Tensor(tensor), [](void* t) noexcept { delete static_cast<at::Tensor*>(t); });
    ndarray<pytorch> array(tensor.data_ptr(), sizes.size(), sizes.data(), owner,
                                 tensor.strides().data(),
                                 tensor.scalar_type() == at::kDouble ? nanobind::dtype<double>() : nanobind::dtype<float>());
    return array.cast().release();
  }
};

}  // namespace nanobind::detail

namespace tessera::binding {

namespace nb = nanobind;

/// A Python object that C++ keeps and calls without holding the interpreter's lock.
class Kept {
 public:
  Kept() = default;
  explicit Kept(nb::object object) : object_(std::move(object)) {}
  Kept(const Kept& other) {
    const nb::gil_scoped_acquire lock;
    object_ = other.object_;
  }
  Kept(Kept&&) noexcept = default;
  Kept& operator=(Kept other) noexcept {
    const nb::gil_scoped_acquire lock;
    std::swap(object_, other.object_);
    return *this;
  }
  ~Kept() {
    if (!object_.is_valid()) return;
    const nb::gil_scoped_acquire lock;
    object_.reset();
  }
  /// With the lock held.
  const nb::object& get() const { return object_; }
  explicit operator bool() const { return object_.is_valid() && !object_.is_none(); }

 private:
  nb::object object_;
};

}  // namespace tessera::binding
