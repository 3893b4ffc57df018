// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/matlab_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "tessera/core/error.hpp"

namespace tessera {

const MatlabValue* MatlabValue::field(const std::string& name) const {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.first == name; });
  return found == fields.end() ? nullptr : &found->second;
}

bool is_matlab(const std::string& bytes) {
  return bytes.size() >= 128 && bytes.starts_with("MATLAB 5.0 MAT-file") &&
         (bytes.substr(126, 2) == "IM" || bytes.substr(126, 2) == "MI");
}

namespace {

constexpr int kDepth = 8;                            // structs in structs
constexpr std::size_t kMost = std::size_t{1} << 28;  // bytes that a packed variable may become

enum Kind : std::uint32_t { kMatrix = 14, kPacked = 15 };

class Elements {
 public:
  Elements(std::string_view bytes, bool swapped, const std::string& path)
      : bytes_(bytes), swapped_(swapped), path_(path) {}

  struct Element {
    std::uint32_t kind = 0;
    std::string_view bytes;
  };
  bool more() const { return bytes_.size() >= 8; }
  Element next() {
    need(more(), "ends within an element");
    const auto first = whole<std::uint32_t>(bytes_, 0), count = whole<std::uint32_t>(bytes_, 4);
    if (first >> 16 != 0) {  // small: four bytes beside its tag
      need(first >> 16 <= 4, "has a short element of more than 4 bytes");
      const Element out{first & 0xffff, bytes_.substr(4, first >> 16)};
      bytes_.remove_prefix(8);
      return out;
    }
    need(count <= bytes_.size() - 8, "has an element that is larger than the file");
    const Element out{first, bytes_.substr(8, count)};
    const std::size_t padded = first == kPacked ? count : (std::size_t{count} + 7) / 8 * 8;
    bytes_.remove_prefix(std::min(bytes_.size(), 8 + padded));
    return out;
  }
  // Of any kind of number, as double.
  std::vector<double> numbers(const Element& e) const {
    switch (e.kind) {
      case 1:
        return all<std::int8_t>(e.bytes);
      case 2:
      case 16:
        return all<std::uint8_t>(e.bytes);
      case 3:
        return all<std::int16_t>(e.bytes);
      case 4:
      case 17:
        return all<std::uint16_t>(e.bytes);
      case 5:
        return all<std::int32_t>(e.bytes);
      case 6:
      case 18:
        return all<std::uint32_t>(e.bytes);
      case 7:
        return all<float>(e.bytes);
      case 9:
        return all<double>(e.bytes);
      case 12:
        return all<std::int64_t>(e.bytes);
      case 13:
        return all<std::uint64_t>(e.bytes);
      default:
        need(false, "has numbers of an unknown type");
    }
    return {};
  }
  void need(bool good, const char* what) const {
    TESSERA_VALIDATE(good, path_, " ", what, " (it is torn, or no file of MATLAB) write it anew");
  }

 private:
  template <class T>
  T whole(std::string_view from, std::size_t at) const {
    std::array<char, sizeof(T)> raw{};
    std::memcpy(raw.data(), from.data() + at, sizeof(T));
    if (swapped_) std::reverse(raw.begin(), raw.end());
    return std::bit_cast<T>(raw);
  }
  template <class T>
  std::vector<double> all(std::string_view from) const {
    std::vector<double> out(from.size() / sizeof(T));
    for (std::size_t k = 0; k < out.size(); ++k) out[k] = static_cast<double>(whole<T>(from, k * sizeof(T)));
    return out;
  }
  std::string_view bytes_;
  bool swapped_;
  const std::string& path_;
};

std::string unpacked(std::string_view packed, const std::string& path) {
  z_stream z{};
  if (inflateInit(&z) != Z_OK) throw RunError("cannot start zlib");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&z, inflateEnd);
  std::vector<Bytef> from(packed.begin(), packed.end());
  z.next_in = from.data();
  z.avail_in = static_cast<uInt>(from.size());
  std::string out;
  std::array<char, 1 << 16> piece{};
  for (int code = Z_OK; code != Z_STREAM_END;) {
    z.next_out = reinterpret_cast<Bytef*>(piece.data());
    z.avail_out = static_cast<uInt>(piece.size());
    code = inflate(&z, Z_NO_FLUSH);
    TESSERA_VALIDATE(code == Z_OK || code == Z_STREAM_END, path,
                     " has a packed variable that does not unpack (it is torn) write it anew");
    out.append(piece.data(), piece.size() - z.avail_out);
    TESSERA_VALIDATE(out.size() <= kMost, path, " has a packed variable of more than ", kMost >> 20,
                     " MiB (a geometry is smaller) save its rows as a dataset of HDF5");
  }
  return out;
}

// Name and value of a matrix; no value where it is of a kind that is left out.
std::pair<std::string, std::optional<MatlabValue>> matrix(std::string_view bytes, bool swapped,
                                                          const std::string& path, int depth) {
  enum Class { kStruct = 2, kChar = 4, kDouble = 6, kUint64 = 15 };
  Elements elements(bytes, swapped, path);
  if (!elements.more()) return {};  // [] of a struct
  elements.need(depth < kDepth, "has structs in structs, deeper than a geometry's");
  const std::vector<double> flags = elements.numbers(elements.next()),
                            size = elements.numbers(elements.next());
  const std::vector<double> letters = elements.numbers(elements.next());
  elements.need(!flags.empty() && size.size() >= 2, "has a variable without a size");
  const std::string name(letters.begin(), letters.end());
  const auto word = static_cast<std::uint32_t>(flags[0]);
  const std::uint32_t kind = word & 0xff;
  MatlabValue out;
  double count = 1;
  for (const double side : size) {
    elements.need(side >= 0 && side < 1e9, "has a variable with an impossible size");
    out.size.push_back(static_cast<std::int64_t>(side));
    count *= side;
  }
  if ((word & 0x800) != 0 || (kind != kStruct && kind != kChar && (kind < kDouble || kind > kUint64)))
    return {name, std::nullopt};
  if (kind == kStruct) {
    if (count != 1) return {name, std::nullopt};
    const std::vector<double> length = elements.numbers(elements.next());
    const std::string_view names = elements.next().bytes;
    elements.need(!length.empty() && length[0] >= 1 && length[0] <= 1024,
                  "has a struct with impossible names");
    const auto each = static_cast<std::size_t>(length[0]);
    for (std::size_t k = 0; (k + 1) * each <= names.size(); ++k) {
      std::string field(names.substr(k * each, each));
      field.resize(std::min(field.find('\0'), field.size()));
      const Elements::Element e = elements.next();
      elements.need(e.kind == kMatrix, "has a struct whose field is no variable");
      if (auto value = matrix(e.bytes, swapped, path, depth + 1).second)
        out.fields.emplace_back(std::move(field), std::move(*value));
    }
    return {name, std::move(out)};
  }
  out.numbers = elements.numbers(elements.next());
  elements.need(static_cast<double>(out.numbers.size()) == count,
                "has a variable of another size than it says");
  if (kind == kChar) {
    for (const double c : out.numbers) out.text += c > 0 && c < 128 ? static_cast<char>(c) : '?';
    out.numbers.clear();
  }
  return {name, std::move(out)};
}

}  // namespace

MatlabValue read_matlab(const std::string& bytes, const std::string& path) {
  TESSERA_VALIDATE(is_matlab(bytes), path,
                   " is no file of MATLAB's versions 5 to 7.2 (by its first bytes) write it anew");
  const bool little = bytes.substr(126, 2) == "IM",
             swapped = little != (std::endian::native == std::endian::little);
  MatlabValue out;
  const auto take = [&](std::string_view variable) {
    auto [name, value] = matrix(variable, swapped, path, 0);
    if (value) out.fields.emplace_back(std::move(name), std::move(*value));
  };
  Elements elements(std::string_view(bytes).substr(128), swapped, path);
  while (elements.more()) {
    const Elements::Element e = elements.next();
    if (e.kind == kMatrix) take(e.bytes);
    if (e.kind != kPacked) continue;
    const std::string plain = unpacked(e.bytes, path);
    Elements inside(plain, swapped, path);
    const Elements::Element variable = inside.next();
    if (variable.kind == kMatrix) take(variable.bytes);
  }
  return out;
}

}  // namespace tessera
