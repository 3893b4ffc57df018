// SPDX-License-Identifier: BSD-3-Clause
#include "dicom/dicom_data.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tessera/core/error.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera::io {
namespace {

constexpr std::int64_t kPreamble = 132, kWindow = 64 << 10;
constexpr std::uint32_t kPixelData = 0x7FE00010, kFloatPixels = 0x7FE00008, kDoublePixels = 0x7FE00009;
constexpr std::uint32_t kItem = 0xFFFEE000, kEndOfItem = 0xFFFEE00D, kEndOfSequence = 0xFFFEE0DD,
                        kUndefined = 0xFFFFFFFF;

struct Syntax {
  const char* uid;
  const char* name;
};
constexpr Syntax kSyntaxes[] = {{"1.2.840.10008.1.2.2", "Explicit VR Big Endian"},
                                {"1.2.840.10008.1.2.1.99", "Deflated Explicit VR Little Endian"},
                                {"1.2.840.10008.1.2.4.50", "JPEG Baseline"},
                                {"1.2.840.10008.1.2.4.51", "JPEG Extended"},
                                {"1.2.840.10008.1.2.4.57", "JPEG Lossless"},
                                {"1.2.840.10008.1.2.4.70", "JPEG Lossless, first-order prediction"},
                                {"1.2.840.10008.1.2.4.80", "JPEG-LS Lossless"},
                                {"1.2.840.10008.1.2.4.81", "JPEG-LS Near-lossless"},
                                {"1.2.840.10008.1.2.4.90", "JPEG 2000 Lossless"},
                                {"1.2.840.10008.1.2.4.91", "JPEG 2000"},
                                {"1.2.840.10008.1.2.4.201", "High-Throughput JPEG 2000 Lossless"},
                                {"1.2.840.10008.1.2.4.202", "High-Throughput JPEG 2000 RPCL Lossless"},
                                {"1.2.840.10008.1.2.4.203", "High-Throughput JPEG 2000"},
                                {"1.2.840.10008.1.2.5", "RLE Lossless"}};

// Bytes of a file in order, a window of them in memory.
class Stream {
 public:
  explicit Stream(const std::string& path) : file_(path), size_(file_.size()) {}
  std::int64_t at() const { return at_; }
  std::int64_t left() const { return size_ - at_; }
  const std::string& path() const { return file_.path(); }
  void skip(std::int64_t count) { at_ += count; }
  void seek(std::int64_t at) { at_ = at; }

  /// `count` bytes, at most a window; they are there.
  const std::uint8_t* take(std::int64_t count) {
    if (at_ < from_ || at_ + count > from_ + std::ssize(window_)) {
      from_ = at_;
      window_.resize(static_cast<std::size_t>(std::min(kWindow, left())));
      file_.read(from_, std::ssize(window_), window_.data());
    }
    const std::uint8_t* const out = window_.data() + (at_ - from_);
    at_ += count;
    return out;
  }
  std::uint32_t number(int bytes) {
    const std::uint8_t* const b = take(bytes);
    std::uint32_t out = 0;
    for (int k = 0; k < bytes; ++k) out |= static_cast<std::uint32_t>(b[k]) << (8 * k);
    return out;
  }

 private:
  InputFile file_;
  std::int64_t size_ = 0, at_ = 0, from_ = 0;
  std::vector<std::uint8_t> window_;
};

struct Element {
  std::uint32_t tag = 0, length = 0;
  bool sequence = false;
};

class Parser {
 public:
  explicit Parser(const std::string& path) : in_(path) {}

  DicomFile parse() {
    TESSERA_VALIDATE(is_dicom(in_.path()), "cannot read ", in_.path(),
                     " (DICOM's files have DICM at byte 128) is it DICOM?");
    in_.seek(kPreamble);
    DicomSet meta;
    explicit_ = true;
    while (in_.left() >= 8) {  // the group of the file itself
      const std::int64_t begin = in_.at();
      const std::uint32_t group = in_.number(2);
      in_.seek(begin);
      if (group != 2) break;
      value(element(), meta, 0);
    }
    const std::string syntax = dicom_text(meta, 0x00020010);
    explicit_ = syntax == "1.2.840.10008.1.2.1";
    if (!explicit_ && syntax != "1.2.840.10008.1.2") {
      std::string name = syntax.empty() ? "that it does not say" : syntax;
      for (const Syntax& known : kSyntaxes)
        if (syntax == known.uid) name = known.name;
      throw InputError(concat("cannot read ", in_.path(), " (its transfer syntax is ", name,
                              "; samples without compression, little endian, are read) convert it: dcmdjpeg, "
                              "gdcmconv --raw or dcm2niix"));
    }
    read_set(out_.set, in_.at() + in_.left(), 0);
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const char* why) const {
    throw InputError(
        concat("cannot read ", in_.path(), " (", why, ", at byte ", in_.at(), ") is it complete?"));
  }
  void need(std::int64_t count) const {
    if (in_.left() < count) refuse("it ends within an element");
  }

  Element element() {
    need(8);
    if (++elements_ > kMostElements) refuse("it has more than a million elements");
    Element out;
    const std::uint32_t group = in_.number(2);
    out.tag = group << 16 | in_.number(2);
    if (group == 0xFFFE || !explicit_) {
      out.length = in_.number(4);
      out.sequence = out.length == kUndefined || known_sequence(out.tag);
      return out;
    }
    const std::uint8_t* const vr = in_.take(2);
    const std::string_view name(reinterpret_cast<const char*>(vr), 2);
    out.sequence = name == "SQ";
    static constexpr std::string_view kLong[] = {"OB", "OW", "OF", "OD", "OL", "OV", "SQ",
                                                 "UC", "UN", "UR", "UT", "SV", "UV"};
    if (std::find(std::begin(kLong), std::end(kLong), name) == std::end(kLong)) {
      if (name[0] < 'A' || name[0] > 'Z' || name[1] < 'A' || name[1] > 'Z') refuse("an element has no type");
      out.length = in_.number(2);
      return out;
    }
    const bool unknown = name == "UN";
    in_.skip(2);
    need(4);
    out.length = in_.number(4);
    out.sequence = out.sequence || (out.length == kUndefined && (unknown || name == "SQ"));
    return out;
  }

  // In implicit files nothing but the dictionary says what is a sequence: those that are looked into.
  static bool known_sequence(std::uint32_t tag) {
    static constexpr std::uint32_t kKnown[] = {0x52009229, 0x52009230, 0x00209113,
                                               0x00209116, 0x00289110, 0x00289145};
    return std::find(std::begin(kKnown), std::end(kKnown), tag) != std::end(kKnown);
  }

  // Up to `end`, or to a delimiter.
  void read_set(DicomSet& set, std::int64_t end, int deep) {
    while (in_.at() < end && in_.left() >= 8) {
      const Element one = element();
      if (one.tag == kEndOfItem || one.tag == kEndOfSequence) return;
      if (deep == 0 && (one.tag == kPixelData || one.tag == kFloatPixels || one.tag == kDoublePixels)) {
        if (one.tag != kPixelData) refuse("its samples are floats, which are not read");
        if (one.length == kUndefined) refuse("its samples are compressed, against its transfer syntax");
        need(one.length);
        out_.pixels = in_.at();
        out_.pixel_bytes = one.length;
        return;
      }
      value(one, set, deep);
    }
  }

  void value(const Element& one, DicomSet& set, int deep) {
    if (one.sequence) return sequence(one, set[one.tag], deep);
    if (one.length == kUndefined) refuse("an element has no length");
    need(one.length);
    if (one.length > kWindow) return in_.skip(one.length);
    const std::uint8_t* const b = in_.take(one.length);
    set[one.tag].bytes.assign(reinterpret_cast<const char*>(b), one.length);
  }

  void sequence(const Element& one, DicomValue& to, int deep) {
    if (deep >= kDeepestSet) refuse("its sequences are too deep");
    const bool open = one.length == kUndefined;
    if (!open) need(one.length);
    const std::int64_t end = open ? in_.at() + in_.left() : in_.at() + one.length;
    while (in_.at() < end && in_.left() >= 8) {
      const Element item = element();
      if (item.tag == kEndOfSequence) return;
      if (item.tag != kItem) refuse("a sequence holds no items");
      if (item.length != kUndefined) need(item.length);
      to.items.emplace_back();
      read_set(to.items.back(), item.length == kUndefined ? end : in_.at() + item.length, deep + 1);
    }
  }

  static constexpr int kDeepestSet = 16;
  static constexpr std::int64_t kMostElements = 1'000'000;
  Stream in_;
  DicomFile out_;
  bool explicit_ = true;
  std::int64_t elements_ = 0;
};

}  // namespace

bool is_dicom(const std::string& path) {
  const InputFile file(path);
  std::array<char, 4> mark{};
  return file.read_some(kPreamble - 4, 4, mark.data()) == 4 && std::memcmp(mark.data(), "DICM", 4) == 0;
}

DicomFile read_dicom(const std::string& path) { return Parser(path).parse(); }

std::string dicom_text(const DicomSet& set, std::uint32_t tag) {
  const auto found = set.find(tag);
  if (found == set.end()) return "";
  std::string out = found->second.bytes.substr(0, found->second.bytes.find('\0'));
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out.substr(std::min(out.find_first_not_of(' '), out.size()));
}

std::vector<double> dicom_numbers(const DicomSet& set, std::uint32_t tag, std::size_t count) {
  std::vector<double> out;
  const std::string text = dicom_text(set, tag);
  for (std::size_t at = 0; at < text.size() && out.size() <= count;) {
    const std::size_t end = std::min(text.find('\\', at), text.size());
    const std::string word = text.substr(at, end - at);
    char* behind = nullptr;
    const double value = std::strtod(word.c_str(), &behind);
    if (behind == word.c_str() || !std::isfinite(value)) return {};
    out.push_back(value);
    at = end + 1;
  }
  return out.size() == count ? out : std::vector<double>();
}

std::int64_t dicom_short(const DicomSet& set, std::uint32_t tag, std::int64_t otherwise) {
  const auto found = set.find(tag);
  if (found == set.end() || found->second.bytes.size() < 2) return otherwise;
  const std::string& b = found->second.bytes;
  return static_cast<std::int64_t>(static_cast<std::uint8_t>(b[0])) |
         static_cast<std::int64_t>(static_cast<std::uint8_t>(b[1])) << 8;
}

const DicomSet* dicom_item(const DicomSet& set, std::uint32_t tag) {
  const auto found = set.find(tag);
  return found == set.end() || found->second.items.empty() ? nullptr : &found->second.items[0];
}

}  // namespace tessera::io
