// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/io/image_source.hpp"

namespace tessera::io {

/// Values one behind the other, to be sent in one message and taken out in the same order.
class Packed {
 public:
  enum class Way { in, out };
  Packed() = default;  // to be filled
  explicit Packed(std::string bytes) : way_(Way::out), bytes_(std::move(bytes)) {}
  const std::string& bytes() const { return bytes_; }

  template <class T>
  void pass(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      raw(&value, sizeof value);
    else
      pass_parts(value);
  }

 private:
  void raw(void* value, std::size_t count) {
    if (way_ == Way::in) {
      bytes_.append(static_cast<const char*>(value), count);
      return;
    }
    TESSERA_EXPECT(at_ + count <= bytes_.size(), "a message of ", bytes_.size(), " bytes ends early");
    if (count > 0) std::memcpy(value, bytes_.data() + at_, count);
    at_ += count;
  }
  template <class List>
  void sized(List& list) {
    auto count = static_cast<std::int64_t>(list.size());
    raw(&count, sizeof count);
    list.resize(static_cast<std::size_t>(count));
  }
  void pass_parts(std::string& text) {
    sized(text);
    raw(text.data(), text.size());
  }
  template <class T>
  void pass_parts(std::vector<T>& list) {
    sized(list);
    for (T& value : list) pass(value);
  }
  template <class A, class B>
  void pass_parts(std::pair<A, B>& both) {
    pass(both.first);
    pass(both.second);
  }
  void pass_parts(Box& box) {
    Index3 lo = box.lo(), hi = box.hi();
    raw(lo.data(), sizeof lo);
    raw(hi.data(), sizeof hi);
    box = Box(lo, hi);
  }
  void pass_parts(ImageSpace& s) {
    pass(s.box);
    pass(s.channels);
    pass(s.axes);
    pass(s.field);
    pass(s.element_bytes);
    for (ImageSpace::Axis& axis : s.grid) {
      pass(axis.name);
      pass(axis.spacing);
      pass(axis.unit);
    }
    pass(s.channel_names);
    pass(s.orientation);
  }
  void pass_parts(SourceInfo& info) {
    pass_parts(static_cast<ImageSpace&>(info));
    pass(info.full_scale);
    pass(info.type);
    pass(info.says_scale);
    pass(info.offset);
    pass(info.note);
    pass(info.light);
  }
  void pass_parts(StoredLight& light) {
    pass(light.says);
    pass(light.by);
    pass(light.camera);
    ToneCurve::Kind kind = light.curve.kind();
    double gamma = light.curve.gamma();
    pass(kind);
    pass(gamma);
    light.curve = kind == ToneCurve::Kind::srgb ? ToneCurve::srgb() : ToneCurve::power(gamma);
  }
  void pass_parts(Metadata& data) {
    pass(data.profile);
    pass(data.text);
  }

  Way way_ = Way::in;
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace tessera::io
