// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/measurement_file.hpp"

#include <cmath>
#include <optional>

#include "array_copy.hpp"
#include "formats.hpp"
#include "hdf5/hdf5_words.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera {
namespace {

constexpr double kSchema = 1;

std::string member(const std::string& group, std::size_t part) { return concat("/", group, "/", part); }

// The file where it holds numbered parts, nothing where the path names one array. Collective.
std::optional<Hdf5File> open_parts(const std::string& path, const Communicator& comm) {
  ImagePath source;
  comm.together([&] { source = image_path(path); });
  if (!source.format->measurements || !source.part.empty()) return std::nullopt;
  Hdf5File file = Hdf5File::open(source.file, comm);
  if (!file.has("/measurements") && !file.has("/weights")) return std::nullopt;
  return file;
}

bool fits(const DatasetInfo& weights, const DatasetInfo& samples) {
  return weights.box == samples.box && (weights.channels == 1 || weights.channels == samples.channels);
}

std::vector<MeasurementPartInfo> look_up(const Hdf5File& file, const std::string& path) {
  TESSERA_VALIDATE(file.has(member("measurements", 0)), "no dataset /measurements/0 in ", path,
                   " (parts are numbered from 0) see docs/your_data.md");
  const double schema = file.number_attribute("/measurements", "schema").value_or(kSchema);
  TESSERA_VALIDATE(schema == kSchema, path, " has the schema ", schema, " (this tessera knows ", kSchema,
                   ") use the tessera that wrote it");
  std::vector<MeasurementPartInfo> out;
  const std::size_t members = file.list("/measurements").size();
  for (std::size_t k = 0; k < members; ++k) {
    const std::string samples_name = member("measurements", k), weights_name = member("weights", k);
    TESSERA_VALIDATE(file.has(samples_name), "no dataset ", samples_name, " in ", path,
                     " (/measurements has ", members, " members, numbered from 0 without a gap) rename them");
    const DatasetInfo samples = file.info(samples_name);
    SourceInfo source{ImageSpace(samples.box, samples.channels)};
    io::read_words(file, samples_name, source);
    source.type = samples.type;
    source.note = samples.note;
    source.full_scale = io::full_scale(samples.type);
    out.push_back({source, concat(path, ":", samples_name)});
    if (!file.has(weights_name)) continue;
    const DatasetInfo weights = file.info(weights_name);
    TESSERA_VALIDATE(fits(weights, samples), path, ":", weights_name, " holds ", weights.channels,
                     " channels of ", weights.box, " (", samples_name, " holds ", samples.channels, " of ",
                     samples.box, ") write one weight per sample, or one channel for all");
  }
  if (file.has("/weights"))
    for (const std::string& name : file.list("/weights"))
      TESSERA_VALIDATE(file.has("/measurements/" + name), path, ":/weights/", name,
                       " has no measurement (weights carry the number of theirs) rename it");
  return out;
}

// Reads through `read(view)`; a source of one channel serves all channels of weights and frames.
template <class Read>
void read_channels(const ArrayView& block, std::int64_t stored, bool shared, Read read) {
  ArrayView view = block;
  if (shared && stored == 1) view.channels = 1;
  read(view);
  if (view.channels != block.channels) io::copy_first_channel(block);
}

}  // namespace

std::vector<MeasurementPartInfo> measurement_info(const std::string& path, const Communicator& comm) {
  const std::optional<Hdf5File> file = open_parts(path, comm);
  if (!file) {
    const SourceInfo one = image_source_info(path, comm);
    return {{one, path}};
  }
  std::vector<MeasurementPartInfo> out;
  comm.together([&] { out = look_up(*file, path); });
  return out;
}

bool has_weights(const std::string& path, const Communicator& comm) {
  const std::optional<Hdf5File> file = open_parts(path, comm);
  return file && file->has("/weights") && !file->list("/weights").empty();
}

MeasurementOrigin measurement_origin(const std::string& path, const Communicator& comm) {
  const std::optional<Hdf5File> file = open_parts(path, comm);
  MeasurementOrigin out;
  if (!file) return out;
  comm.together([&] {
    const std::string units = file->text_attribute("/measurements", "units").value_or("file");
    TESSERA_VALIDATE(units == "file" || units == "internal", path,
                     ": the attribute units of /measurements is ", units,
                     " (it must be file or internal) correct it");
    out.internal = units == "internal";
    out.problem = file->text_attribute("/measurements", "problem").value_or("");
    out.factor = file->number_attribute("/measurements", "factor").value_or(out.internal ? 1 : 0);
    out.offset = file->number_attribute("/measurements", "offset").value_or(0);
    TESSERA_VALIDATE(std::isfinite(out.factor) && out.factor >= 0 && std::isfinite(out.offset), path,
                     ": the attribute factor of /measurements is ", out.factor,
                     " (file units per internal 1, above 0) correct it");
  });
  return out;
}

void read_measurements(const std::string& path, const std::string& kind,
                       const std::vector<MeasurementPart>& parts, const Communicator& comm) {
  const bool weights = kind == "weights", shared = kind != "measurements";
  const std::string group = weights ? "weights" : "measurements";
  std::optional<Hdf5File> file = open_parts(path, comm);
  if (!file) {
    const SourceInfo one = image_source_info(path, comm);
    comm.together([&] {
      TESSERA_VALIDATE(parts.size() == 1, path, " holds one array (", parts.size(),
                       " are needed) write an HDF5 file with /", group, "/0 ...");
      TESSERA_VALIDATE(one.box == parts[0].box, path, " holds ", one.box, " (the measurement is ",
                       parts[0].box, ") give one value for each of its samples");
    });
    return read_channels(parts[0].block, one.channels, shared,
                         [&](const ArrayView& view) { read_image(path, parts[0].layout, view, comm); });
  }
  std::vector<std::optional<DatasetInfo>> stored(parts.size());
  comm.together([&] {
    TESSERA_VALIDATE(file->has("/" + group), path, " has no group /", group,
                     " (it was asked for) see docs/your_data.md");
    const std::size_t members = file->list("/" + group).size();
    TESSERA_VALIDATE(weights ? members <= parts.size() : members == parts.size(), path, ":/", group, " has ",
                     members, " members (", parts.size(), " are needed) is it the right file?");
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const std::string name = member(group, k);
      if (weights && !file->has(name)) continue;
      stored[k] = file->info(name);
      TESSERA_VALIDATE(stored[k]->box == parts[k].box, path, ":", name, " holds ", stored[k]->box,
                       " (the measurement is ", parts[k].box, ") give one value for each of its samples");
    }
  });
  for (std::size_t k = 0; k < parts.size(); ++k)
    if (stored[k])
      read_channels(parts[k].block, stored[k]->channels, shared,
                    [&](const ArrayView& view) { file->read(member(group, k), view); });
    else
      io::fill(parts[k].block, 1.0);
}

void write_measurements(const std::string& path, const std::vector<MeasurementPart>& measurements,
                        const std::vector<MeasurementPart>& weights, const MeasurementRecord& record,
                        const Communicator& comm) {
  if (measurements.empty() || (!weights.empty() && weights.size() != measurements.size()))
    throw ContractError(
        concat(path, ": ", measurements.size(), " measurements, ", weights.size(), " weights"));
  Hdf5File file = Hdf5File::create(path, comm);
  for (std::size_t k = 0; k < measurements.size(); ++k)
    file.write(member("measurements", k), measurements[k].box, measurements[k].block);
  for (std::size_t k = 0; k < weights.size(); ++k)
    file.write(member("weights", k), weights[k].box, weights[k].block);
  for (const auto& [name, part] : record.arrays) file.write(name, part.box, part.block);
  file.set_attribute("/measurements", "schema", kSchema);
  file.set_attribute("/measurements", "job", record.job);
  if (!record.origin.problem.empty()) file.set_attribute("/measurements", "problem", record.origin.problem);
  if (record.origin.internal) file.set_attribute("/measurements", "units", std::string("internal"));
  if (record.origin.factor > 0) {
    file.set_attribute("/measurements", "factor", record.origin.factor);
    file.set_attribute("/measurements", "offset", record.origin.offset);
  }
  file.close();
}

}  // namespace tessera
