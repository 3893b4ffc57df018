// SPDX-License-Identifier: BSD-3-Clause
#include "array_axes.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

constexpr const char* kOrder = "czyx";
constexpr std::int64_t kFew = 4;   // axes this short are channels, never rows
constexpr std::int64_t kThin = 2;  // a volume is not this many times thinner along its columns

using Shape = std::vector<std::int64_t>;

// c, z, y, x or t; '?' for a name that says nothing.
char letter_of(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name.size() > 1 && name.back() == 's') name.pop_back();
  static const std::map<std::string, char> known = {
      {"c", 'c'},         {"channel", 'c'},  {"band", 'c'},   {"wavelength", 'c'}, {"lambda", 'c'},
      {"energy", 'c'},    {"color", 'c'},    {"colour", 'c'}, {"spectral", 'c'},   {"rgb", 'c'},
      {"z", 'z'},         {"depth", 'z'},    {"slice", 'z'},  {"plane", 'z'},      {"y", 'y'},
      {"row", 'y'},       {"height", 'y'},   {"x", 'x'},      {"column", 'x'},     {"col", 'x'},
      {"width", 'x'},     {"t", 't'},        {"time", 't'},   {"wave", 'c'},       {"freq", 'c'},
      {"frequency", 'c'}, {"stoke", 'c'},    {"filter", 'c'}, {"lat", 'y'},        {"latitude", 'y'},
      {"lon", 'x'},       {"longitude", 'x'}};
  const auto found = known.find(name);
  return found == known.end() ? '?' : found->second;
}

// One letter per axis, or nothing where the labels say nothing or make no image. Axes without a name that is
// known are columns and rows from the last on, then the channels, then the slices.
std::string stated(const std::vector<std::string>& names, std::size_t axes) {
  if (names.size() != axes) return "";
  std::string letters;
  for (const std::string& name : names) letters += letter_of(name);
  const auto has = [&](char c) { return letters.find(c) != std::string::npos; };
  for (const char* c = kOrder; *c; ++c)
    if (std::count(letters.begin(), letters.end(), *c) > 1) return "";
  const auto open = static_cast<std::size_t>(std::count(letters.begin(), letters.end(), '?'));
  if (open == axes) return "";
  std::string fill;
  for (const char c : {'x', 'y', 'c', 'z'})
    if (!has(c) && fill.size() < open) fill += c;
  if (fill.size() < open) return "";
  const auto place = [](char c) { return std::string_view(kOrder).find(c); };
  std::sort(fill.begin(), fill.end(), [&](char a, char b) { return place(a) < place(b); });
  std::size_t next = 0;
  for (char& c : letters)
    if (c == '?') c = fill[next++];
  return has('y') && has('x') ? letters : "";
}

// Slices, rows and columns that may be rows, columns and channels: a batch of one, or axes in another order.
bool few_columns(const std::array<std::int64_t, 3>& s) {
  const std::int64_t thin = std::min(s[0], s[1]);
  return s[2] < thin && ((s[2] <= kFew && thin > kFew) || kThin * s[2] <= thin);
}

// What a shape that nothing explains may be beside (C, H, W) or (C, D, H, W).
bool last_may_be_channels(const Shape& s) {
  if (s.size() == 3) {
    if (s[0] <= kFew) return false;
    return s[2] < std::min(s[0], s[1]) || (s[0] == s[1] && s[2] != s[0]);
  }
  if (s.size() != 4 || s[1] == 1) return false;
  return few_columns({s[1], s[2], s[3]}) || (s[3] < s[0] && s[3] < std::min(s[1], s[2]));
}

void refuse_channels_last(const std::string& path, const Shape& s) {
  const std::string plain = s.size() == 3 ? "(C, H, W)" : "(C, D, H, W)";
  const std::string kept =
      s.size() == 3
          ? concat("if its first axis is the channels, write it as ", shape_text({s[0], 1, s[1], s[2]}),
                   ", which says so")
          : concat("if it is a volume with so few columns, turn it so that they are not its last axis");
  throw InputError(concat(path, " has the shape ", shape_text(s), " (channels stand first, ", plain,
                          ", and its last axis may be them) move its last axis to the front, "
                          "numpy.moveaxis(a, -1, 0); ",
                          kept, "; in HDF5 labels of its axes say it too: d.dims[", s.size() - 1,
                          "].label = 'c'"));
}

std::string counted(std::int64_t n, const char* what) { return concat(n, " ", what, n == 1 ? "" : "s"); }

}  // namespace

bool last_may_be_bands(const std::array<std::int64_t, 3>& shape) { return few_columns(shape); }

bool says_axes(const AxisLabels& labels, std::size_t axes) { return !stated(labels.names, axes).empty(); }

std::string axis_letters(const AxisLabels& labels, std::size_t axes) { return stated(labels.names, axes); }

std::string shape_text(const Shape& shape) {
  std::string out;
  for (const std::int64_t n : shape) out += concat(out.empty() ? "(" : ", ", n);
  return out + ")";
}

ArrayAxes array_axes(const std::string& path, const Shape& shape, const AxisLabels& labels) {
  std::string letters = stated(labels.names, shape.size());
  const std::string usual = shape.size() == 2 ? "yx" : shape.size() == 3 ? "cyx" : kOrder;
  const bool said = !letters.empty() && letters != usual;
  if (letters.empty()) {
    TESSERA_VALIDATE(shape.size() >= 2 && shape.size() <= 4, path, " has ", shape.size(),
                     " axes (an image is (H, W), (C, H, W) or (C, D, H, W)) reshape it");
    if (last_may_be_channels(shape)) refuse_channels_last(path, shape);
    letters = usual;
  }
  ArrayAxes out;
  const auto extent = [&](std::size_t k) {
    return out.of[k] < 0 ? 1 : shape[static_cast<std::size_t>(out.of[k])];
  };
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    TESSERA_VALIDATE(letters[axis] != 't' || shape[axis] == 1, path, " has ", shape[axis],
                     " frames along its axis of time (one image is reconstructed) write one frame");
    if (letters[axis] != 't') out.of[std::string_view(kOrder).find(letters[axis])] = static_cast<int>(axis);
  }
  const std::int64_t channels = extent(0), slices = extent(1);
  const bool deep = slices > 1 && std::min(slices, extent(2)) > extent(3);  // its last axis is the shortest
  const bool plain = (channels == 1 || channels == 3) && (slices == 1 || slices > kFew) && !deep;
  if (said || !plain)
    out.note = concat(path, ", ", shape_text(shape), ", is taken for ", counted(channels, "channel"), " of ",
                      slices > 1 ? counted(slices, "slice") + " of " : "", extent(2), " x ", extent(3),
                      said   ? concat(" (", letters, ", as ", labels.source, " says)")
                      : deep ? " (C, D, H, W; where its last axis is the channels, numpy.moveaxis(a, -1, 0))"
                      : slices > 1 ? " (C, D, H, W)"
                                   : " (channels stand first; a volume is (1, D, H, W))");
  return out;
}

}  // namespace tessera::io
