// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::test {

/// Puts the files of a store that tests/reference/make_store_reference.py packed below `folder`, made anew.
inline void unpack_store(const std::string& name, const std::string& folder) {
  namespace fs = std::filesystem;
  const char* source = std::getenv("TESSERA_SOURCE_DIR");
  if (!source) throw std::runtime_error("TESSERA_SOURCE_DIR is not set: run through ctest, or set it");
  std::ifstream file(fs::path(source) / "tests/fuzz/corpus/zarr" / name, std::ios::binary);
  if (!file) throw std::runtime_error("there is no store " + name);
  fs::remove_all(folder);
  for (std::string line; std::getline(file, line);) {
    const std::size_t blank = line.rfind(' ');
    std::string bytes(static_cast<std::size_t>(std::stoll(line.substr(blank + 1))), '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const fs::path path = fs::path(folder) / line.substr(0, blank);
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
}

/// value_of() there, of the sample at a position of the whole array.
inline double stored_value(std::int64_t at, const std::string& type) {
  const std::int64_t v = (31 * at + 7 * (at / 13)) % 251;
  if (type == "bool") return static_cast<double>(v % 2);
  if (type.starts_with("int")) return static_cast<double>(v - 125);
  return type.starts_with("float") ? static_cast<double>(v) / 4 - 20 : static_cast<double>(v);
}

inline void put_file(const std::string& path, const std::string& text) {
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder);
  std::ofstream(path, std::ios::binary) << text;
}

/// An array of format 2 in one chunk, uint8, samples counted up from 0.
inline void put_array(const std::string& folder, const std::vector<std::int64_t>& shape) {
  std::string lengths;
  std::int64_t count = 1;
  for (const std::int64_t n : shape) {
    lengths += (lengths.empty() ? "" : ",") + std::to_string(n);
    count *= n;
  }
  put_file(folder + "/.zarray",
           R"({"zarr_format":2,"shape":[)" + lengths + R"(],"chunks":[)" + lengths +
               R"(],"dtype":"|u1","compressor":null,"fill_value":0,"order":"C","filters":null})");
  std::string samples, key;
  for (std::int64_t k = 0; k < count; ++k) samples += static_cast<char>(k);
  for (std::size_t d = 0; d < shape.size(); ++d) key += d > 0 ? ".0" : "0";
  put_file(folder + "/" + key, samples);
}

}  // namespace tessera::test
