// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <set>

#include "half.hpp"
#include "npy/npy_file.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"

namespace tessera {
namespace io {
namespace {

// The header is one Python dictionary: strings, True or False, a tuple of whole numbers.
class Scanner {
 public:
  explicit Scanner(const std::string& text) : text_(text) {}
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool word(const char* w) {
    skip();
    if (text_.compare(at_, std::strlen(w), w) != 0) return false;
    at_ += std::strlen(w);
    return true;
  }
  bool text(std::string& out) {
    skip();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return false;
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string::npos) return false;
    out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }
  bool number(std::int64_t& out) {
    skip();
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out);
    if (error != std::errc() || out < 0) return false;
    at_ = static_cast<std::size_t>(end - text_.data());
    take('L');  // Python 2 wrote 3L
    return true;
  }
  bool done() {
    skip();
    return at_ == text_.size();
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::strchr(" \n\t\r", text_[at_]) && text_[at_] != '\0') ++at_;
  }
  const std::string& text_;
  std::size_t at_ = 0;
};

template <class T>
void convert(const unsigned char* raw, std::int64_t n, bool swapped, double* to) {
  for (std::int64_t k = 0; k < n; ++k) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, raw + k * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    if (swapped) std::reverse(bytes, bytes + sizeof(T));
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    to[k] = static_cast<double>(value);
  }
}

}  // namespace

NpyFile::NpyFile(const std::string& path) : file_(path) {
  unsigned char first[12] = {};
  if (file_.size() < 10) refuse(concat("it has ", file_.size(), " bytes"), "the shortest header has 10");
  file_.read(0, 10, first);
  if (std::memcmp(first, "\x93NUMPY", 6) != 0)
    refuse("it does not begin as one", "the first six bytes differ");
  const int version = first[6];
  if (version < 1 || version > 3) refuse(concat("its format is ", version), "1, 2 and 3 are known");
  std::int64_t length = first[8] | first[9] << 8;
  start_ = 10;
  if (version > 1) {
    if (file_.size() < 12) refuse("it has 11 bytes or less", "the shortest header of its format has 12");
    file_.read(10, 2, first + 10);
    length |= static_cast<std::int64_t>(first[10]) << 16 | static_cast<std::int64_t>(first[11]) << 24;
    start_ = 12;
  }
  if (length > file_.size() - start_ || length > (1 << 20))
    refuse(concat("its header claims ", length, " bytes"),
           concat("the file has ", file_.size(), ", 1 MiB is the limit"));
  std::string header(static_cast<std::size_t>(length), '\0');
  file_.read(start_, length, header.data());
  start_ += length;
  parse(header);

  std::int64_t bytes = element_;
  for (const std::int64_t extent : shape_)
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      refuse("its shape has more than 2^63 bytes", "no file holds that");
  if (bytes != file_.size() - start_)
    refuse(concat("it has ", file_.size() - start_, " bytes of data"), concat("its shape needs ", bytes));
  count_ = bytes / element_;
}

void NpyFile::refuse(const std::string& problem, const std::string& why) const {
  throw InputError(concat(file_.path(), ": ", problem, " (", why, ") write it with numpy.save"));
}

void NpyFile::parse(const std::string& header) {
  Scanner scan(header);
  std::string key, type;
  bool fortran = false, good = scan.take('{');
  std::set<std::string> seen;
  while (good && !scan.take('}')) {
    good = scan.text(key) && scan.take(':') && seen.insert(key).second;
    if (good && key == "descr") {
      good = scan.text(type);
      if (!good) refuse("it holds records", "one number per element is needed");
    } else if (good && key == "fortran_order") {
      fortran = scan.word("True");
      good = fortran || scan.word("False");
    } else if (good && key == "shape") {
      good = scan.take('(');
      while (good && !scan.take(')')) {
        std::int64_t extent = 0;
        good = scan.number(extent) && shape_.size() < 32;
        if (good) shape_.push_back(extent);
        if (good && !scan.take(',')) {
          good = scan.take(')');
          break;
        }
      }
    } else {
      good = false;
    }
    if (good && !scan.take(',')) {
      good = scan.take('}');
      break;
    }
  }
  if (!good || !scan.done() || seen.size() != 3)
    refuse("its header cannot be read", "it holds descr, fortran_order and shape, once each");

  const std::size_t digits = type.find_first_of("0123456789");
  kind_ = digits >= 1 && digits != std::string::npos ? type[digits - 1] : '?';
  const std::string width = digits == std::string::npos ? "" : type.substr(digits);
  const bool known =
      (kind_ == 'f' && (width == "2" || width == "4" || width == "8")) || (kind_ == 'b' && width == "1") ||
      ((kind_ == 'u' || kind_ == 'i') && (width == "1" || width == "2" || width == "4" || width == "8"));
  if (!known || digits > 2 || (digits == 2 && !std::strchr("<>|=", type[0])))
    refuse("its type is " + type, "bool, integers, float16, float32 and float64 are known");
  element_ = width[0] - '0';
  swapped_ = type[0] == '>' && std::endian::native == std::endian::little;
  type_ = kind_ == 'b' ? "bool"
                       : concat(kind_ == 'f'   ? "float"
                                : kind_ == 'u' ? "uint"
                                               : "int",
                                8 * element_);

  strides_.assign(shape_.size(), 1);
  std::int64_t stride = 1;
  for (std::size_t k = 0; k < shape_.size(); ++k) {
    const std::size_t axis = fortran ? k : shape_.size() - 1 - k;
    strides_[axis] = stride;
    // An overflow is found by the caller, which multiplies all extents; an extent of 0 must not hide one.
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(shape_[axis], 1), &stride))
      refuse("its shape has more than 2^63 bytes", "no file holds that");
  }
}

void NpyFile::read(std::int64_t first, std::int64_t n, double* to) {
  TESSERA_EXPECT(first >= 0 && n >= 0 && first + n <= count_, "run [", first, ", ", first + n, ") of ",
                 count_);
  constexpr std::int64_t kPart = 1 << 18;
  for (; n > 0;) {
    const std::int64_t part = std::min(n, kPart);
    raw_.resize(static_cast<std::size_t>(part * element_));
    file_.read(start_ + first * element_, part * element_, raw_.data());
    const auto as = [&](auto zero) { convert<decltype(zero)>(raw_.data(), part, swapped_, to); };
    if (kind_ == 'f' && element_ == 2) {
      as(std::uint16_t{});
      std::transform(to, to + part, to, [](double v) { return half_value(static_cast<std::uint16_t>(v)); });
    } else if (kind_ == 'f') {
      element_ == 4 ? as(float{}) : as(double{});
    } else if (kind_ == 'i') {
      element_ == 1   ? as(std::int8_t{})
      : element_ == 2 ? as(std::int16_t{})
      : element_ == 4 ? as(std::int32_t{})
                      : as(std::int64_t{});
    } else {
      element_ == 1   ? as(std::uint8_t{})
      : element_ == 2 ? as(std::uint16_t{})
      : element_ == 4 ? as(std::uint32_t{})
                      : as(std::uint64_t{});
    }
    to += part;
    first += part;
    n -= part;
  }
}

}  // namespace io

NpyArray read_npy(const std::string& path) {
  io::NpyFile file(path);
  NpyArray out{file.shape(), std::vector<double>(static_cast<std::size_t>(file.count()))};
  const std::vector<std::int64_t>& shape = out.shape;
  const std::vector<std::int64_t>& strides = file.strides();
  if (shape.size() < 2 || strides.back() == 1) {
    file.read(0, file.count(), out.values.data());
    return out;
  }
  // Fortran order: element k of the file goes where its index stands in C order.
  std::vector<double> values(static_cast<std::size_t>(file.count()));
  file.read(0, file.count(), values.data());
  std::vector<std::int64_t> index(shape.size(), 0);
  for (const double value : values) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
    out.values[static_cast<std::size_t>(at)] = value;
    for (std::size_t d = 0; d < shape.size() && ++index[d] == shape[d]; ++d) index[d] = 0;
  }
  return out;
}

}  // namespace tessera
