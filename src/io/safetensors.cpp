// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/safetensors.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera {
namespace {

using nlohmann::json;

// The format's own limit: what a reader must hold before it knows anything else.
constexpr std::int64_t kLongestHeader = 100'000'000;
constexpr int kDeepest = 8;

struct Entry {
  std::string name;
  std::int64_t begin = 0, end = 0;  // in the data section
};

[[noreturn]] void refuse(const std::string& path, const std::string& problem, const std::string& why) {
  throw InputError(concat(path, ": ", problem, " (", why, ") the file is damaged or not safetensors"));
}

std::uint64_t little_endian(const unsigned char* bytes) {
  std::uint64_t value = 0;
  for (int k = 7; k >= 0; --k) value = value << 8 | bytes[k];
  return value;
}

json parse_header(const std::string& path, const std::string& text) {
  // nlohmann-json keeps the last of two equal keys; a second weight under the same name must be refused.
  std::vector<std::set<std::string>> keys;
  std::string twice;
  bool deep = false;  // what prints a value calls itself for each level
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kDeepest) deep = true;
    if (deep) return false;
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  json header;
  try {
    header = json::parse(text, watch);
  } catch (const json::exception& e) {
    refuse(path, "its header cannot be read", e.what());
  }
  if (deep)
    refuse(path, concat("its header is nested more than ", kDeepest, " deep"), "three levels are legal");
  if (!header.is_object()) refuse(path, "its header is not a JSON object", "names map to tensors");
  if (!twice.empty()) refuse(path, "the key '" + twice + "' stands twice", "one of the two would be lost");
  return header;
}

std::int64_t whole_number(const std::string& path, const std::string& name, const char* field,
                          const json& value) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    refuse(path, concat(name, ": ", field, " holds ", value.dump(-1, ' ', true)),
           "it takes whole numbers from 0 to 2^63 - 1");
  return static_cast<std::int64_t>(value.get<std::uint64_t>());
}

Entry parse_tensor(const std::string& path, const std::string& name, const json& value,
                   std::int64_t data_bytes, SafeTensor& tensor) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value["dtype"].is_string() ||
      !value.contains("shape") || !value["shape"].is_array() || !value.contains("data_offsets") ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2)
    refuse(path, name + " is not described by dtype, shape and two data_offsets", "all three are needed");
  tensor.dtype = value["dtype"].get<std::string>();
  const std::int64_t element = safetensor_element_bytes(tensor.dtype);
  if (element == 0) refuse(path, name + " has the unknown dtype " + tensor.dtype, "its size is not known");

  std::int64_t bytes = element;
  for (const json& extent : value["shape"]) {
    tensor.shape.push_back(whole_number(path, name, "shape", extent));
    if (__builtin_mul_overflow(bytes, tensor.shape.back(), &bytes))
      refuse(path, name + " has a shape of more than 2^63 bytes", "no file holds that");
  }
  Entry entry{name, whole_number(path, name, "data_offsets", value["data_offsets"][0]),
              whole_number(path, name, "data_offsets", value["data_offsets"][1])};
  if (entry.begin > entry.end || entry.end > data_bytes)
    refuse(path,
           concat(name, " lies at bytes [", entry.begin, ", ", entry.end, ") of ", data_bytes, " of data"),
           "it must lie inside");
  if (entry.end - entry.begin != bytes)
    refuse(path, concat(name, " has ", entry.end - entry.begin, " bytes and its shape needs ", bytes),
           "they must agree");
  return entry;
}

}  // namespace

std::int64_t safetensor_element_bytes(const std::string& dtype) {
  static const std::map<std::string, std::int64_t> sizes{
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"U16", 2}, {"I16", 2}, {"F16", 2},
      {"BF16", 2}, {"U32", 4}, {"I32", 4}, {"F32", 4},     {"U64", 8},     {"I64", 8}, {"F64", 8}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

SafeTensors read_safetensors(const std::string& path) {
  const io::InputFile file(path);
  if (file.size() < 8) refuse(path, concat("it has ", file.size(), " bytes"), "the header's length takes 8");
  unsigned char first[8];
  file.read(0, 8, first);
  const std::uint64_t length = little_endian(first);
  if (length > static_cast<std::uint64_t>(file.size() - 8))
    refuse(path, concat("its header claims ", length, " bytes"), concat("the file has ", file.size()));
  if (length > static_cast<std::uint64_t>(kLongestHeader))
    refuse(path, concat("its header claims ", length, " bytes"),
           concat("at most ", kLongestHeader, " are legal"));
  const auto header_bytes = static_cast<std::int64_t>(length);
  std::string text(static_cast<std::size_t>(header_bytes), '\0');
  file.read(8, header_bytes, text.data());
  const std::int64_t data_start = 8 + header_bytes, data_bytes = file.size() - data_start;

  const json header = parse_header(path, text);
  SafeTensors out;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) refuse(path, "__metadata__ is not an object", "it maps text to text");
      for (const auto& [key, word] : value.items()) {
        if (!word.is_string()) refuse(path, "__metadata__." + key + " is not text", "it maps text to text");
        out.metadata[key] = word.get<std::string>();
      }
    } else {
      entries.push_back(parse_tensor(path, name, value, data_bytes, out.tensors[name]));
    }
  }

  // The data must be covered without gap or overlap: a byte that two tensors share, or none, is damage.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::int64_t reached = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != reached)
      refuse(path, concat(entry.name, " starts at byte ", entry.begin, " of the data"),
             concat("the tensor before it ends at ", reached));
    reached = entry.end;
  }
  if (reached != data_bytes)
    refuse(path, concat("its data has ", data_bytes, " bytes"), concat("its tensors end at ", reached));

  for (const Entry& entry : entries) {
    SafeTensor& tensor = out.tensors[entry.name];
    tensor.bytes.resize(static_cast<std::size_t>(entry.end - entry.begin));
    file.read(data_start + entry.begin, entry.end - entry.begin, tensor.bytes.data());
  }
  return out;
}

void write_safetensors(const std::string& path, const SafeTensors& file) {
  // Widest elements first, then by name, as the format's own library orders them: every tensor starts at a
  // multiple of its element size.
  std::vector<std::map<std::string, SafeTensor>::const_pointer> order;
  for (const auto& entry : file.tensors) {
    const SafeTensor& tensor = entry.second;
    std::int64_t bytes = safetensor_element_bytes(tensor.dtype);
    TESSERA_VALIDATE(bytes > 0, "tensor ", entry.first, " has the unknown dtype ", tensor.dtype,
                     " (its size is not known) use F32, F64, BF16, ...");
    for (const std::int64_t extent : tensor.shape)
      TESSERA_VALIDATE(extent >= 0 && !__builtin_mul_overflow(bytes, extent, &bytes), "tensor ", entry.first,
                       " has the extent ", extent, " (no array has) pass its real shape");
    TESSERA_VALIDATE(bytes == static_cast<std::int64_t>(tensor.bytes.size()), "tensor ", entry.first, " has ",
                     tensor.bytes.size(), " bytes (its shape needs ", bytes, ") pass all of them");
    order.push_back(&entry);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return safetensor_element_bytes(a->second.dtype) > safetensor_element_bytes(b->second.dtype);
  });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::int64_t at = 0;
  for (const auto* entry : order) {
    const std::int64_t end = at + static_cast<std::int64_t>(entry->second.bytes.size());
    header[entry->first] = {
        {"dtype", entry->second.dtype}, {"shape", entry->second.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& e) {
    throw InputError(concat("cannot write ", path, " (", e.what(), ") names and metadata are UTF-8"));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data start at a multiple of 8

  write_whole(path, [&](const std::string& temporary) {
    io::OutputFile out(temporary, io::OutputFile::Use::make, path);
    unsigned char length[8];
    for (int k = 0; k < 8; ++k) length[k] = static_cast<unsigned char>(text.size() >> (8 * k));
    out.append(length, sizeof length);
    out.append(text.data(), static_cast<std::int64_t>(text.size()));
    for (const auto* entry : order)
      out.append(entry->second.bytes.data(), static_cast<std::int64_t>(entry->second.bytes.size()));
    out.close();
  });
}

}  // namespace tessera
