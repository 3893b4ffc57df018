// SPDX-License-Identifier: BSD-3-Clause
#include "hdf5/hdf5_values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "half.hpp"
#include "hdf5/hdf5_choice.hpp"
#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

constexpr std::size_t kMostMarks = 64;  // values in a list
constexpr double kNone = StoredValues::kNone;

struct Numbers {
  std::vector<double> values;
  bool real = false, narrow = false;  // floats; of 32 bits or less
};

// The numbers of an attribute of any type, also as text; nothing where it is absent or holds none.
std::optional<Numbers> attribute_numbers(const Hdf5File& file, const std::string& object,
                                         const std::string& key) {
  Numbers out;
  if (H5Aexists_by_name(file.id(), object.c_str(), key.c_str(), H5P_DEFAULT) <= 0) return std::nullopt;
  for (const std::string& text : file.text_attributes(object, key)) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') return std::nullopt;
    out.real = out.real || text.find_first_of(".eEnN") != std::string::npos;
    out.values.push_back(value);
  }
  if (!out.values.empty()) return out;
  const H5Handle attribute(H5Aopen_by_name(file.id(), object.c_str(), key.c_str(), H5P_DEFAULT, H5P_DEFAULT),
                           H5Aclose);
  const H5Handle type(H5Aget_type(attribute.get()), H5Tclose), space(H5Aget_space(attribute.get()), H5Sclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  const hssize_t n = H5Sget_simple_extent_npoints(space.get());
  if ((kind != H5T_FLOAT && kind != H5T_INTEGER) || n < 1 || n > static_cast<hssize_t>(kMostMarks))
    return std::nullopt;
  out.real = kind == H5T_FLOAT;
  out.narrow = out.real && H5Tget_size(type.get()) <= 4;
  out.values.resize(static_cast<std::size_t>(n));
  if (H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, out.values.data()) < 0) return std::nullopt;
  return out;
}

// The one number of a dataset, such as a scale beside the data.
std::optional<double> number_in(const Hdf5File& file, const std::string& object) {
  if (!file.has(object)) return std::nullopt;
  const H5Handle set(H5Oopen(file.id(), object.c_str(), H5P_DEFAULT), H5Oclose);
  if (set.get() < 0 || H5Iget_type(set.get()) != H5I_DATASET) return std::nullopt;
  const H5Handle space(H5Dget_space(set.get()), H5Sclose);
  double value = 0;
  const bool read = H5Sget_simple_extent_npoints(space.get()) == 1 &&
                    H5Dread(set.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value) >= 0;
  H5Eclear2(H5E_DEFAULT);
  return read ? std::optional(value) : std::nullopt;
}

// What netCDF fills with where its writer names nothing, and hands to HDF5.
std::optional<double> own_fill(const Hdf5File& file, const std::string& dataset) {
  constexpr std::array<double, 6> kFills{
      0x1.ep+122,  // 9.9692099683868690e+36, of floats; bytes may hold any value
      -32767,     65535, -2147483647, 4294967295.0, -9223372036854775806.0};
  const H5Handle set(H5Dopen2(file.id(), dataset.c_str(), H5P_DEFAULT), H5Dclose);
  const H5Handle layout(H5Dget_create_plist(set.get()), H5Pclose);
  H5D_fill_value_t defined = H5D_FILL_VALUE_DEFAULT;
  double value = 0;
  const bool known = H5Pfill_value_defined(layout.get(), &defined) >= 0 &&
                     defined == H5D_FILL_VALUE_USER_DEFINED &&
                     H5Pget_fill_value(layout.get(), H5T_NATIVE_DOUBLE, &value) >= 0;
  H5Eclear2(H5E_DEFAULT);
  return known && std::find(kFills.begin(), kFills.end(), value) != kFills.end() ? std::optional(value)
                                                                                 : std::nullopt;
}

// Of a type's name: float32 has 32.
int bits_of(const std::string& type) {
  const std::size_t digits = type.find_first_of("0123456789");
  return digits == std::string::npos ? 0 : std::atoi(type.c_str() + digits);
}

// The stored numbers that a mark of another type stands for.
class Marks {
 public:
  Marks(StatedValues& out, const std::string& stored) : out_(out) {
    real_ = stored.starts_with("float");
    bits_ = bits_of(stored);
  }

  void missing(double value, bool narrow) {
    StoredValues& v = out_.values;
    if (v.wrap > 0 && value < 0) value += v.wrap;
    double from = value, to = value;
    if (real_ && bits_ == 32) {
      from = to = static_cast<double>(static_cast<float>(value));
    } else if (real_ && bits_ == 16) {
      from = to = nearest_half(value);
    } else if (real_ && narrow) {  // the same number in both, rounded once
      from = value - std::abs(value) * 0x1p-25;
      to = value + std::abs(value) * 0x1p-25;
    } else if (!real_ && v.packed() && value != std::floor(value)) {  // as a sample, not as stored
      const double at = (value - v.offset) / v.scale;
      from = at - 0.5;
      to = at + 0.5;
    }
    if (!std::isnan(value)) v.missing.push_back({from, to});
  }

  // A bound of what is valid: of samples where it is of their type and stored integers are scaled.
  void bound(double value, bool real, bool upper) {
    StoredValues& v = out_.values;
    if (std::isnan(value)) return;
    if (v.wrap > 0 && value < 0) value += v.wrap;
    if (v.packed() && v.wrap == 0 && real && !real_) {
      value = (value - v.offset) / v.scale;
      const double near = std::round(value);  // a scale such as 0.0001 is not exact
      if (std::abs(value - near) < 1e-6 * std::max(1.0, std::abs(near))) value = near;
      if (v.scale < 0) upper = !upper;
    }
    if (real_ && bits_ == 32) value = static_cast<double>(static_cast<float>(value));
    upper ? v.most = std::min(v.most, value) : v.least = std::max(v.least, value);
  }

 private:
  StatedValues& out_;
  bool real_ = false;
  int bits_ = 0;
};

// How stored numbers become samples.
void read_packing(const Hdf5File& file, const std::string& dataset, const std::string& stored,
                  const std::string& where, StatedValues& out) {
  StoredValues& v = out.values;
  const std::string sign = file.text_attribute(dataset, "_Unsigned").value_or("");
  if ((sign == "true" || sign == "True") && stored.starts_with("int")) v.wrap = std::exp2(bits_of(stored));
  if (stored == "int16" && !viewer_factors(file, dataset).empty()) v.wrap = std::exp2(16);
  for (const auto& [attribute, field, to] :
       std::array{std::tuple{"scale_factor", "_scaling_factor", &v.scale},
                  std::tuple{"add_offset", "_offset", &v.offset}}) {
    if (const auto n = attribute_numbers(file, dataset, attribute); n && n->values.size() == 1)
      *to = n->values[0];
    else if (const auto value = number_in(file, dataset + field))
      *to = *value;
  }
  TESSERA_VALIDATE(std::isfinite(v.scale) && v.scale != 0 && std::isfinite(v.offset), where,
                   " has the scale ", v.scale, " and the offset ", v.offset,
                   " of its stored numbers (scale_factor, add_offset: samples are stored * scale + offset) "
                   "correct them");
  if (v.scale != 1 || v.offset != 0) {
    const bool narrow = bits_of(stored) <= (stored.starts_with("float") ? 32 : 16);
    out.type = narrow ? "float32" : "float64";
  } else if (v.wrap > 0) {
    out.type = "u" + stored;
  }
}

// A text, a list of the wrong length, a compound: what of the known attributes cannot be followed.
std::string not_followed(const Hdf5File& file, const std::string& dataset) {
  std::vector<std::string> names;
  for (const auto& [key, count] : {std::pair{"_FillValue", 0},
                                   {"missing_value", 0},
                                   {"valid_min", 1},
                                   {"valid_max", 1},
                                   {"valid_range", 2},
                                   {"scale_factor", 1},
                                   {"add_offset", 1}}) {
    if (H5Aexists_by_name(file.id(), dataset.c_str(), key, H5P_DEFAULT) <= 0) continue;
    const auto n = attribute_numbers(file, dataset, key);
    if (!n || (count > 0 && std::ssize(n->values) != count)) names.emplace_back(key);
  }
  return names.empty() ? ""
                       : fmt::format("{} {} not followed (no number, or not as many as wanted)",
                                     fmt::join(names, ", "), names.size() > 1 ? "are" : "is");
}

}  // namespace

StatedValues stated_values(const Hdf5File& file, const std::string& dataset, const std::string& stored,
                           const std::string& where) {
  StatedValues out{.values = {}, .type = stored};
  StoredValues& v = out.values;
  if (stored == "bool") return out;
  read_packing(file, dataset, stored, where, out);
  Marks marks(out, stored);
  std::vector<std::string> said;
  std::vector<double> missing;
  for (const char* key : {"_FillValue", "missing_value"})
    if (const auto n = attribute_numbers(file, dataset, key))
      for (const double value : n->values) {
        marks.missing(value, n->narrow);
        if (std::find(missing.begin(), missing.end(), value) == missing.end()) missing.push_back(value);
      }
  if (const auto fill = own_fill(file, dataset); fill && missing.empty()) {
    marks.missing(*fill, false);
    missing.push_back(*fill);
  }
  for (const auto& [key, upper] : {std::pair{"valid_min", false}, {"valid_max", true}})
    if (const auto n = attribute_numbers(file, dataset, key); n && n->values.size() == 1)
      marks.bound(n->values[0], n->real, upper);
  if (const auto n = attribute_numbers(file, dataset, "valid_range"); n && n->values.size() == 2)
    for (const bool upper : {false, true}) marks.bound(n->values[upper ? 1 : 0], n->real, upper);
  std::erase_if(missing, [](double value) { return std::isnan(value); });
  if (!missing.empty())
    said.push_back(fmt::format("values of {:g} are missing ones", fmt::join(missing, ", ")));
  if (v.least != -kNone || v.most != kNone)
    said.push_back(
        fmt::format("stored numbers outside of {:g} to {:g} are not valid: missing ones", v.least, v.most));
  if (v.wrap > 0)
    said.emplace_back("negative numbers are large ones (_Unsigned, or a level of BigDataViewer)");
  if (v.scale != 1 || v.offset != 0)
    said.push_back(fmt::format("values are the stored numbers times {:g} plus {:g}", v.scale, v.offset));
  if (!said.empty()) out.note = fmt::format("{}: {}, as its attributes say", where, fmt::join(said, ", "));
  if (const std::string rest = not_followed(file, dataset); !rest.empty())
    out.note += (out.note.empty() ? where + ": " : "; ") + rest;
  return out;
}

std::vector<double> numbers_in(const Hdf5File& file, const std::string& object, const std::string& key) {
  const auto found = attribute_numbers(file, object, key);
  return found ? found->values : std::vector<double>();
}

void make_samples(const StoredValues& v, double* first, std::int64_t count) {
  for (double& x : std::span(first, static_cast<std::size_t>(count))) {
    if (x < 0) x += v.wrap;
    const bool marked = std::any_of(v.missing.begin(), v.missing.end(),
                                    [&](const auto& range) { return x >= range[0] && x <= range[1]; });
    x = marked || x < v.least || x > v.most ? std::numeric_limits<double>::quiet_NaN()
                                            : x * v.scale + v.offset;
  }
}

}  // namespace tessera::io
