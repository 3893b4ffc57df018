// SPDX-License-Identifier: BSD-3-Clause
// Large arrays of the standard library lie where large tensors do: in the scratch file, while there is one. The looks at
// samples sort and list as many numbers as a rank has.
#include <cstdlib>
#include <new>

#include "tessera/domain/large_arrays.hpp"

void* operator new(std::size_t bytes) {
  if (bytes >= tessera::kLargeArray)
    if (void* const data = tessera::take_array(bytes)) return data;
  for (;;) {
    if (void* const data = std::malloc(bytes > 0 ? bytes : 1)) return data;
    const std::new_handler handler = std::get_new_handler();
    if (!handler) throw std::bad_alloc();
    handler();
  }
}

void operator delete(void* data) noexcept {
  if (!tessera::give_array(data)) std::free(data);
}
void operator delete(void* data, std::size_t bytes) noexcept {
  if (bytes >= tessera::kLargeArray)
    operator delete(data);
  else
    std::free(data);
}
