// SPDX-License-Identifier: BSD-3-Clause
// Readers of HDF5 files. HDF5 itself is not what is tried here (its version 1.10 crashes on bytes that no
// HDF5 wrote): the bytes say what a file holds that HDF5 writes, and of a checkpoint what was changed.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>
#include <hdf5.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "mix.hpp"
#include "sealed_file.hpp"
#include "targets.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/measurement_file.hpp"
#include "tessera/solve/checkpoint.hpp"
#include "tessera/trace/keys.hpp"
#include "tessera/trace/trace.hpp"

namespace tessera::fuzz {
namespace {

H5Handle any_type(Numbers& next) {
  static const std::array<hid_t, 10> plain = {
      H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE, H5T_NATIVE_UINT8, H5T_NATIVE_INT16, H5T_STD_U16BE,
      H5T_NATIVE_INT32, H5T_NATIVE_UINT64, H5T_IEEE_F64BE,   H5T_NATIVE_INT64, H5T_NATIVE_INT8};
  const int kind = next.below(16);
  if (kind < 10) return {H5Tcopy(plain[static_cast<std::size_t>(kind)]), H5Tclose};
  H5Handle type;
  switch (kind) {
    case 10:  // half
      type = H5Handle(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
      H5Tset_fields(type.get(), 15, 10, 5, 0, 10);
      H5Tset_ebias(type.get(), 15);
      H5Tset_size(type.get(), 2);
      return type;
    case 11:  // text of any length
      type = H5Handle(H5Tcopy(H5T_C_S1), H5Tclose);
      H5Tset_size(type.get(), H5T_VARIABLE);
      return type;
    case 12:
      type = H5Handle(H5Tcopy(H5T_C_S1), H5Tclose);
      H5Tset_size(type.get(), 1 + static_cast<std::size_t>(next.below(40)));
      return type;
    case 13: {
      type = H5Handle(H5Tenum_create(H5T_NATIVE_INT8), H5Tclose);
      const std::int8_t no = 0, yes = 1;
      H5Tenum_insert(type.get(), "FALSE", &no);
      H5Tenum_insert(type.get(), "TRUE", &yes);
      return type;
    }
    case 14:
      type = H5Handle(H5Tcreate(H5T_COMPOUND, 16), H5Tclose);
      H5Tinsert(type.get(), keys::iteration, 0, H5T_NATIVE_INT64);
      H5Tinsert(type.get(), keys::start, 8, next.below(2) ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT32);
      return type;
    default:
      return {H5Tvlen_create(H5T_NATIVE_INT32), H5Tclose};
  }
}

std::vector<hsize_t> any_shape(Numbers& next, int most) {
  static constexpr std::array<hsize_t, 12> kSides = {
      1, 2, 3, 5, 4, 1, 0, 17, 600, hsize_t{1} << 20, hsize_t{1} << 31, hsize_t{1} << 40};
  std::vector<hsize_t> shape(static_cast<std::size_t>(next.below(most + 1)));
  for (hsize_t& side : shape) side = kSides[static_cast<std::size_t>(next.below(12))];
  return shape;
}

double elements(const std::vector<hsize_t>& shape) {
  double n = 1;
  for (const hsize_t side : shape) n *= static_cast<double>(side);
  return n;
}

// Values for a type, of which HDF5 frees nothing and reads no pointer.
bool plain(hid_t type) { return H5Tdetect_class(type, H5T_VLEN) <= 0 && H5Tis_variable_str(type) <= 0; }

void add_attribute(hid_t object, const char* key, Numbers& next) {
  const H5Handle type = any_type(next);
  const std::vector<hsize_t> shape = any_shape(next, 2);
  if (elements(shape) > 512) return;
  const H5Handle space(shape.empty()
                           ? H5Screate(next.below(8) ? H5S_SCALAR : H5S_NULL)
                           : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
                       H5Sclose);
  const H5Handle attribute(H5Acreate2(object, key, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
                           H5Aclose);
  if (attribute.get() < 0) return;
  static constexpr std::array<const char*, 8> kTexts = {"file",     "internal",    "",    "{}", "[1]",
                                                        "\xff\xfe", "problem: {}", "a\nb"};
  static constexpr std::array<double, 8> kNumbers = {
      1, 0, -1, 255, 1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(),
      2};
  std::vector<std::uint8_t> bytes(H5Tget_size(type.get()) *
                                  static_cast<std::size_t>(std::max(1.0, elements(shape))));
  if (H5Tis_variable_str(type.get()) > 0) {
    std::vector<const char*> texts(bytes.size() / sizeof(char*),
                                   kTexts[static_cast<std::size_t>(next.below(8))]);
    if (next.below(8) == 0) texts.assign(texts.size(), nullptr);
    H5Awrite(attribute.get(), type.get(), texts.data());
  } else if (plain(type.get())) {
    if (H5Tget_class(type.get()) == H5T_FLOAT && H5Tget_size(type.get()) == 8) {
      const std::vector<double> values(bytes.size() / 8, kNumbers[static_cast<std::size_t>(next.below(8))]);
      H5Awrite(attribute.get(), H5T_NATIVE_DOUBLE, values.data());
    } else {
      for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(next.below(256));
      H5Awrite(attribute.get(), type.get(), bytes.data());
    }
  }
}

void add_dataset(hid_t file, const char* name, Numbers& next) {
  const H5Handle type = any_type(next);
  const std::vector<hsize_t> shape = any_shape(next, 5);
  const bool small = elements(shape) <= 4096;
  const H5Handle space(shape.empty()
                           ? H5Screate(next.below(8) ? H5S_SCALAR : H5S_NULL)
                           : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
                       H5Sclose);
  const H5Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  if (!shape.empty() && (!small || next.below(2))) {
    std::vector<hsize_t> chunk(shape.size());
    for (hsize_t& side : chunk) side = 1 + static_cast<hsize_t>(next.below(next.below(8) ? 6 : 256));
    H5Pset_chunk(layout.get(), static_cast<int>(chunk.size()), chunk.data());
    if (next.below(4) == 0) H5Pset_deflate(layout.get(), 1);
    if (next.below(8) == 0) H5Pset_fletcher32(layout.get());
  }
  const H5Handle dataset(
      H5Dcreate2(file, name, type.get(), space.get(), H5P_DEFAULT, layout.get(), H5P_DEFAULT), H5Dclose);
  if (dataset.get() < 0 || !small || !plain(type.get()) || next.below(4) == 0) return;
  std::vector<std::uint8_t> bytes(H5Tget_size(type.get()) *
                                  static_cast<std::size_t>(std::max(1.0, elements(shape))));
  for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(next.below(256));
  H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
}

// A file with these names for objects and attributes, and any kinds of them.
std::string any_file(Numbers& next, const std::vector<const char*>& objects,
                     const std::vector<const char*>& attributes) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const std::string path = as_file(nullptr, 0, ".h5");
  const H5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  const int parts = 1 + next.below(8);
  const auto any = [&](const std::vector<const char*>& names) {
    return names[static_cast<std::size_t>(next.below(static_cast<int>(names.size())))];
  };
  const H5Handle link(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  for (int k = 0; k < parts && !next.empty(); ++k) {
    const char* name = any(objects);
    const std::string parent = std::string(name).substr(0, std::string(name).rfind('/'));
    if (!parent.empty() && H5Lexists(file.get(), parent.c_str(), H5P_DEFAULT) <= 0)
      H5Handle(H5Gcreate2(file.get(), parent.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
    switch (next.below(10)) {
      case 0:
        H5Handle(H5Gcreate2(file.get(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
        break;
      case 1:
        H5Lcreate_soft(any(objects), file.get(), name, H5P_DEFAULT, H5P_DEFAULT);
        break;
      case 2:
        H5Lcreate_external(next.below(2) ? path.c_str() : "/nowhere.h5", any(objects), file.get(), name,
                           H5P_DEFAULT, H5P_DEFAULT);
        break;
      case 3: {
        const H5Handle type = any_type(next);
        H5Tcommit2(file.get(), name, type.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        break;
      }
      default:
        add_dataset(file.get(), name, next);
    }
  }
  for (int k = next.below(8); k > 0 && !next.empty(); --k) {
    const H5Handle object(H5Oopen(file.get(), next.below(2) ? "/" : any(objects), H5P_DEFAULT), H5Oclose);
    if (object.get() >= 0) add_attribute(object.get(), any(attributes), next);
  }
  return path;
}

}  // namespace

void measurements(const std::uint8_t* bytes, std::size_t count) {
  Numbers next(bytes, count);
  const std::string path =
      any_file(next,
               {"/measurements/0", "/measurements/1", "/weights/0", "/measurements", "/image",
                "/measurements/01", "/weights", "/weights/1", "/measurements/2", "/kernels/0", "/a/b"},
               {"schema", "units", "factor", "offset", "problem", "full_scale", "page"});
  const Communicator alone;
  refused_or_fine([&] { static_cast<void>(measurement_origin(path, alone)); });
  refused_or_fine([&] { static_cast<void>(has_weights(path, alone)); });
  refused_or_fine([&] { static_cast<void>(image_source_info(path, alone)); });
  refused_or_fine([&] { static_cast<void>(image_source_info(path + ":/image", alone)); });
  refused_or_fine([&] {
    std::vector<at::Tensor> values;
    std::vector<MeasurementPart> parts;
    for (const MeasurementPartInfo& info : measurement_info(path, alone)) {
      const SourceInfo& part = info.source;
      require(!part.box.empty() && part.channels > 0, "a part without samples");
      if (static_cast<double>(part.box.pixels()) * static_cast<double>(part.channels) > 1e5) return;
      values.push_back(empty_block(part.channels, part.box, at::kFloat));
      parts.push_back({part.box, Layout({part.box}), view(values.back(), part.box)});
    }
    read_measurements(path, "measurements", parts, alone);
    if (has_weights(path, alone)) read_measurements(path, "weights", parts, alone);
  });
}

namespace {

constexpr std::int64_t kRows = 5, kColumns = 7;

// A good checkpoint of two images and two numbers, as bytes.
const std::vector<std::uint8_t>& good_checkpoint(at::Tensor& first, at::Tensor& second) {
  static const std::vector<std::uint8_t> file = [&] {
    const std::string path = as_file(nullptr, 0, ".good.h5");
    std::remove(path.c_str());
    const Box image = Box::image2d(kRows, kColumns);
    double scalar = 0.25;
    std::int64_t number = 3;
    Checkpoint c;
    c.loop.iterations = 4;
    c.texts["job"] = "schema: 1\n";
    c.lists["times"] = {1, 2};
    write_checkpoint(path, c,
                     {{.name = "x", .image = &first},
                      {.name = "z", .image = &second},
                      {.name = "t", .scalar = &scalar},
                      {.name = "n", .count = &number}},
                     {image, image}, Communicator());
    std::ifstream in(path, std::ios::binary);
    return std::vector<std::uint8_t>(std::istreambuf_iterator<char>(in), {});
  }();
  return file;
}

nlohmann::json any_json(Numbers& next, int depth = 0) {
  static constexpr std::array<double, 6> kNumbers = {0, -1, 1e300, 2147483648.0, 4, 0.5};
  switch (next.below(depth > 2 ? 5 : 7)) {
    case 0:
      return nullptr;
    case 1:
      return kNumbers[static_cast<std::size_t>(next.below(6))];
    case 2:
      return next.below(256) - 128;
    case 3:
      return std::string(static_cast<std::size_t>(next.below(40)), '0');
    case 4:
      return next.below(2) == 1;
    case 5: {
      nlohmann::json list = nlohmann::json::array();
      for (int k = next.below(5); k > 0; --k) list.push_back(any_json(next, depth + 1));
      return list;
    }
    default: {
      static constexpr std::array<const char*, 5> kKeys = {"x", "z", "t", "../x", ""};
      nlohmann::json object = nlohmann::json::object();
      for (int k = next.below(4); k > 0; --k)
        object[kKeys[static_cast<std::size_t>(next.below(5))]] = any_json(next, depth + 1);
      return object;
    }
  }
}

// One value of the header, somewhere, becomes another one, or goes, or comes.
void change(nlohmann::json& at, Numbers& next) {
  nlohmann::json* here = &at;
  for (int depth = 1 + next.below(3); depth > 0 && here->is_structured() && !here->empty(); --depth)
    here = &std::next(here->begin(), next.below(static_cast<int>(here->size()))).value();
  if (here->is_object() && next.below(2))
    (*here)["x"] = any_json(next);
  else if (here->is_structured() && !here->empty() && next.below(2))
    here->erase(here->begin());
  else
    *here = any_json(next);
}

std::string text_checksum(const std::string& text) {
  std::uint64_t sum = text.size();
  for (const char c : text) sum = mix(sum ^ static_cast<unsigned char>(c));
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(sum));
  return hex;
}

}  // namespace

// Flipped and cut bytes of a sealed file: refused, or every bit as it was. Or another header, with checksums
// and a seal that fit it.
void checkpoint(const std::uint8_t* bytes, std::size_t count) {
  static at::Tensor first = at::arange(kRows * kColumns).to(at::kFloat).reshape({1, kRows, kColumns});
  static at::Tensor second = first.mul(0.5);
  Numbers next(bytes, count);
  std::vector<std::uint8_t> file = good_checkpoint(first, second);
  const bool header = next.below(2) == 1;
  std::string path;
  if (header) {
    path = as_file(file.data(), file.size(), ".h5");
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    nlohmann::json j;
    {
      const Hdf5File opened = Hdf5File::open(path, Communicator());
      j = nlohmann::json::parse(opened.text_attribute("/", "header").value());
    }
    for (int k = 1 + next.below(3); k > 0; --k) change(j, next);
    const std::string text = j.dump(), sum = text_checksum(text);
    {
      const H5Handle opened(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
      const H5Handle type(H5Tcopy(H5T_C_S1), H5Tclose), space(H5Screate(H5S_SCALAR), H5Sclose);
      H5Tset_size(type.get(), H5T_VARIABLE);
      for (const auto& [key, value] : {std::pair("header", &text), std::pair("header_checksum", &sum)}) {
        H5Adelete(opened.get(), key);
        const H5Handle attribute(
            H5Acreate2(opened.get(), key, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
        const char* value_text = value->c_str();
        H5Awrite(attribute.get(), type.get(), &value_text);
      }
    }
    seal_file(path, {"/fields/x", "/fields/z"});
  } else {
    for (int k = 1 + next.below(3); k > 0; --k) {
      const std::size_t at =
          (static_cast<std::size_t>(next.below(256)) << 8 | static_cast<std::size_t>(next.below(256))) %
          file.size();
      if (next.below(8) == 0)
        file.resize(std::max<std::size_t>(1, at));
      else
        file[at] = static_cast<std::uint8_t>(file[at] ^ (1 << next.below(8)));
    }
    path = as_file(file.data(), file.size(), ".h5");
  }
  const bool same = !header && file == good_checkpoint(first, second);
  try {
    const Checkpoint c = open_checkpoint(path, Communicator());
    require(header || c.loop.iterations == 4, "another iteration");
    double scalar = 0;
    std::int64_t number = 0;
    at::Tensor x = at::zeros_like(first), z = at::zeros_like(second);
    const std::vector<StateField> fields = {{.name = "x", .image = &x},
                                            {.name = "z", .image = &z},
                                            {.name = "t", .scalar = &scalar},
                                            {.name = "n", .count = &number}};
    const Box image = Box::image2d(kRows, kColumns);
    restore_numbers(c, fields);
    restore_images(c, fields, {image, image}, Communicator());
    require(at::equal(x, first) && at::equal(z, second), "other pixels than were written");
    require(header || (scalar == 0.25 && number == 3), "other numbers than were written");
  } catch (const DamageError& e) {
    require(!same, "a good checkpoint is called damaged");
    require(std::strlen(e.what()) > 10, "an error without words");
  } catch (const InputError& e) {
    require(!same, "a good checkpoint is refused");
    require(std::strlen(e.what()) > 10, "an error without words");
  }
}

// A run goes on with the trace that stands there, or begins another one: never the end of the run.
void trace(const std::uint8_t* bytes, std::size_t count) {
  Numbers next(bytes, count);
  TraceHeader header{
      .text = {{keys::start_time, "now"}}, .numbers = {{keys::ranks, 1}}, .own = Box::image2d(4, 4)};
  std::string path;
  if (next.below(4) == 0) {
    path = any_file(next, {"/iterations", "/phases", "/measurements/0"},
                    {keys::schema, keys::ranks, keys::own_box, keys::trace_seconds, keys::start_time,
                     keys::status, keys::every});
  } else {  // a trace, with some of its parts made anew
    path = as_file(nullptr, 0, ".h5");
    std::remove(path.c_str());
    TraceWriter(path, header).on_result({.iteration = 1});
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    const H5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    static constexpr std::array<const char*, 6> kAttributes = {
        keys::trace_seconds, keys::start_time, keys::own_box, keys::schema, keys::ranks, keys::status};
    for (int k = 1 + next.below(3); k > 0; --k) {
      if (next.below(2)) {
        const char* name = next.below(2) ? keys::iterations : keys::phases;
        H5Ldelete(file.get(), name, H5P_DEFAULT);
        if (next.below(8)) add_dataset(file.get(), name, next);
      } else {
        const char* key = kAttributes[static_cast<std::size_t>(next.below(6))];
        H5Adelete(file.get(), key);
        if (next.below(8)) add_attribute(file.get(), key, next);
      }
    }
  }
  const bool on = TraceWriter::continues(path, header);
  try {
    TraceWriter writer(path, header, 1, {.iterations = 2, .clock = 1, .restarts = 1, .same_file = on});
    writer.on_result({.iteration = 2});
    writer.at_end(StopReason::limit);
    require(writer.problem().empty(), "a trace that was opened cannot be written");
  } catch (const RunError& e) {
    require(false, e.what());
  }
}

}  // namespace tessera::fuzz
