// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

namespace tessera {

/// For a program's operator new (src/app/main/large_arrays.cpp): an array that lies as tensors of its size do while a
/// ScratchScope (tensor_memory.hpp) lives; null: it does not. Arrays below kLargeArray never do.
constexpr std::size_t kLargeArray = std::size_t{1} << 20;
void* take_array(std::size_t bytes);
/// Whether it was one; it is given back then.
bool give_array(void* data) noexcept;

}  // namespace tessera
