// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"

namespace tessera {

/// Whether whole numbers of two bytes were read in the wrong order of bytes, as raw imports have them: what then stands
/// in front is next to noise, and exchanged the samples are smooth. Medians: hot samples say nothing.
class ByteOrder {
 public:
  explicit ByteOrder(const std::string& type);
  /// Looks at some of the samples, of which those that follow each other are neighbors.
  void look(const double* values, std::int64_t count);
  /// InputError that says so of `name`, and how it is read as it is (`meant`). Collective.
  void refuse(const std::string& name, const std::string& meant, const Communicator& comm) const;

 private:
  bool asked_ = false;
  std::vector<float> near_, far_, near_swapped_, far_swapped_;  // differences of neighbors, of any two
};

}  // namespace tessera
