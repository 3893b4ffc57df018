// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/file_headers.hpp"

namespace tessera {
namespace {

template <class Value, class Ask>
const Value& once(std::map<std::string, Value>& known, const std::string& path, Ask ask) {
  const auto found = known.find(path);
  return found != known.end() ? found->second : known.emplace(path, ask()).first->second;
}

}  // namespace

const SourceInfo& FileHeaders::image(const std::string& path, const Communicator& comm) {
  return once(images_, path, [&] { return image_source_info(path, comm); });
}

const std::vector<MeasurementPartInfo>& FileHeaders::parts(const std::string& measurement,
                                                           const Communicator& comm) {
  return once(parts_, measurement, [&] {
    std::vector<MeasurementPartInfo> parts = measurement_info(measurement, comm);
    if (parts[0].path == measurement) images_.emplace(measurement, parts[0].source);  // one array
    return parts;
  });
}

const MeasurementOrigin& FileHeaders::origin(const std::string& measurement, const Communicator& comm) {
  return once(origins_, measurement, [&] { return measurement_origin(measurement, comm); });
}

bool FileHeaders::weighs(const std::string& measurement, const Communicator& comm) {
  return once(weigh_, measurement, [&] { return has_weights(measurement, comm); });
}

}  // namespace tessera
