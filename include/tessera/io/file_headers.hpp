// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/io/measurement_file.hpp"

namespace tessera {

/// What the files of one job say of themselves, each asked once. Collective at the first call for a path, with
/// InputError as image_source_info(), measurement_info(), measurement_origin() and has_weights() have it.
class FileHeaders {
 public:
  const SourceInfo& image(const std::string& path, const Communicator& comm);
  const std::vector<MeasurementPartInfo>& parts(const std::string& measurement, const Communicator& comm);
  const MeasurementOrigin& origin(const std::string& measurement, const Communicator& comm);
  bool weighs(const std::string& measurement, const Communicator& comm);

 private:
  std::map<std::string, SourceInfo> images_;
  std::map<std::string, std::vector<MeasurementPartInfo>> parts_;
  std::map<std::string, MeasurementOrigin> origins_;
  std::map<std::string, bool> weigh_;
};

}  // namespace tessera
