// SPDX-License-Identifier: BSD-3-Clause
#include "tiff/tiff_axes.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tessera/core/error.hpp"
#include "tiff/ome_xml.hpp"

namespace tessera::io {
namespace {

constexpr std::int64_t kMostPlanes = 10'000'000;

// A count, 0 where there is none.
std::int64_t count_of(std::string_view text) {
  std::int64_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return std::clamp<std::int64_t>(n, 0, kMostPlanes);
}

// Planes that lie in the order of `axes`, the fastest first: letters C, Z, T.
void lay_out(TiffAxes& a, std::string_view axes) {
  const auto size = [&](char axis) { return axis == 'C' ? a.channels : axis == 'Z' ? a.slices : a.frames; };
  const auto step = [&](char axis) {
    std::int64_t n = 1;
    for (const char before : axes.substr(0, axes.find(axis))) n *= size(before);
    return n;
  };
  const std::int64_t c_step = step('C'), z_step = step('Z'), t_step = step('T');
  a.order.clear();
  for (std::int64_t t = 0; t < a.frames; ++t)
    for (std::int64_t z = 0; z < a.slices; ++z)
      for (std::int64_t c = 0; c < a.channels; ++c) a.order.push_back(c * c_step + z * z_step + t * t_step);
}

bool agree(const TiffAxes& a) {  // without overflow
  return a.channels <= a.planes && a.slices <= a.planes && a.frames <= a.planes &&
         a.channels * a.slices <= a.planes && a.channels * a.slices * a.frames == a.planes;
}

void set_order(TiffAxes& a, std::string_view axes) {
  if (agree(a))
    lay_out(a, axes);
  else
    a.problem = concat("its ", a.from, " description says ", a.counts(), ", and it holds ", a.planes,
                       a.planes == 1 ? " plane" : " planes");
}

// Of n planes that lie behind each other from the first sample of the only directory on: n, or 1 where a single
// plane kept the description of its stack. What ends inside of a later plane was cut short: n too.
std::int64_t held(const TiffPage& page, std::int64_t n, std::int64_t file_bytes) {
  if (!page.plain) return 1;
  const auto first = page.first_byte, at = static_cast<std::int64_t>(page.at);
  if (at > first && (at - first) / page.bytes() < n) return 1;  // the directory stands there
  const std::int64_t rest = file_bytes - first - page.bytes();
  return at > first || rest >= page.row_bytes() ? n : 1;  // less is another tag's
}

// Lines key=value; the order is always XYCZT. Source: ij.io.FileOpener, ij.CompositeImage.
void read_imagej(TiffAxes& a, std::string_view text, const TiffPage& page, std::int64_t file_bytes) {
  a.from = "ImageJ";
  const auto value = [&](std::string_view key) {
    for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1))
      if (at == 0 || text[at - 1] == '\n')
        return std::max<std::int64_t>(1, count_of(text.substr(at + key.size())));
    return std::int64_t{1};
  };
  const std::int64_t images = a.planes == 1 ? value("images=") : a.planes;
  if (a.planes == 1) a.planes = held(page, images, file_bytes);
  a.channels = value("channels=");
  a.slices = value("slices=");
  a.frames = value("frames=");
  if (a.channels * a.slices == 1 && a.frames == 1) a.slices = images;
  set_order(a, "CZT");
}

bool has_element(std::string_view xml, std::string_view name) {
  std::size_t at = 0;
  return !next_element(xml, name, at).empty();
}

// Source: https://docs.openmicroscopy.org/ome-model/6.3.1/ome-tiff/specification.html
void read_ome(TiffAxes& a, std::string_view xml, const TiffPage& page) {
  a.from = "OME";
  std::size_t at = 0;
  const std::string_view pixels = next_element(xml, "Pixels", at);
  const std::size_t first = at;
  const std::string_view order = attribute(pixels, "DimensionOrder");
  a.channels = std::max<std::int64_t>(1, count_of(attribute(pixels, "SizeC")));
  a.slices = std::max<std::int64_t>(1, count_of(attribute(pixels, "SizeZ")));
  a.frames = std::max<std::int64_t>(1, count_of(attribute(pixels, "SizeT")));
  const std::int64_t samples = std::max<std::int64_t>(1, page.samples);
  if (a.channels % samples == 0) a.channels /= samples;
  if (std::size_t more = first; !next_element(xml, "Pixels", more).empty()) {
    a.problem = "its OME description holds several images";
    return;
  }
  if (order.size() != 5 || order.substr(0, 2) != "XY" || order.find('C') == order.npos ||
      order.find('Z') == order.npos || order.find('T') == order.npos) {
    a.problem = concat("its OME description has the DimensionOrder '", order, "'");
    return;
  }
  set_order(a, order.substr(2));
  if (!a.problem.empty()) {
    a.problem += "; are others in files beside it?";
    return;
  }
  // Where planes stand elsewhere than in that order, TiffData says it: IFD of the first of PlaneCount planes.
  const std::vector<std::int64_t> plain = a.order;
  const auto place = [&](std::int64_t c, std::int64_t z, std::int64_t t) {
    return static_cast<std::size_t>((t * a.slices + z) * a.channels + c);
  };
  std::vector<std::size_t> in_order(plain.size());  // the inverse
  for (std::size_t k = 0; k < plain.size(); ++k) in_order[static_cast<std::size_t>(plain[k])] = k;
  std::vector<std::int64_t> said(plain.size(), -1);
  std::size_t cursor = first, elements = 0;
  for (std::string_view e = next_element(xml, "TiffData", cursor); !e.empty();
       e = next_element(xml, "TiffData", cursor), ++elements) {
    const std::string_view ifd = attribute(e, "IFD"), many = attribute(e, "PlaneCount");
    const std::int64_t c = count_of(attribute(e, "FirstC")) / samples, z = count_of(attribute(e, "FirstZ")),
                       t = count_of(attribute(e, "FirstT")), from = count_of(ifd);
    const std::int64_t n = !many.empty() ? count_of(many) : ifd.empty() ? a.planes - from : 1;
    if (c >= a.channels || z >= a.slices || t >= a.frames) continue;
    const std::int64_t start = plain[place(c, z, t)];
    for (std::int64_t k = 0; k < n && start + k < a.planes && from + k < a.planes; ++k)
      said[in_order[static_cast<std::size_t>(start + k)]] = from + k;
  }
  if (elements == 0) return;
  std::vector<std::int64_t> sorted = said;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t k = 0; k < sorted.size(); ++k)
    if (sorted[k] != static_cast<std::int64_t>(k)) {
      a.problem = "its OME description does not give each page one channel, slice and frame";
      return;
    }
  a.order = std::move(said);
}

// {"shape": [4, 2, 64, 80], "axes": "ZCYX", "truncated": true}, of numpy's array. False: another's.
bool read_tifffile(TiffAxes& a, const std::string& text, const TiffPage& page, std::int64_t file_bytes) {
  const nlohmann::json about = nlohmann::json::parse(text, nullptr, false);
  if (!about.is_object() || !about.contains("shape") || !about["shape"].is_array()) return false;
  std::vector<std::int64_t> shape;
  for (const auto& n : about["shape"]) {
    if (!n.is_number_integer() || n.get<std::int64_t>() < 1 || n.get<std::int64_t>() > kMostPlanes)
      return false;
    shape.push_back(n.get<std::int64_t>());
  }
  std::string axes =
      about.contains("axes") && about["axes"].is_string() ? about["axes"].get<std::string>() : "";
  if (axes.size() != shape.size()) axes.clear();
  std::vector<std::int64_t> page_shape{page.height, page.width};
  if (page.samples > 1)
    page_shape.insert(page.separate() ? page_shape.begin() : page_shape.end(), page.samples);
  if (shape.size() < page_shape.size() || !std::equal(page_shape.rbegin(), page_shape.rend(), shape.rbegin()))
    return false;
  a.from = "tifffile";
  // The axis of separate samples counts as one of the array unless it is called S.
  const char sample_axis = !page.separate() || page.photometric != PHOTOMETRIC_RGB ? 'S'
                           : axes.empty()                                          ? '?'
                                                                                   : axes[shape.size() - 3];
  shape.resize(shape.size() - page_shape.size());
  if (a.planes > 1 && std::all_of(shape.begin(), shape.end(), [](std::int64_t n) { return n == 1; }))
    return false;  // pages written one by one
  if (sample_axis != 'S') {
    shape.push_back(page.samples);
    a.samples_are_planes = true;
    a.may_be_colors = a.planes == 1 && page.samples == 3 && (sample_axis == '?' || sample_axis == 'C');
    a.planes *= page.samples;
  }
  std::int64_t planes = 1, named = 0;
  std::string order, sizes;
  a.channels = a.slices = a.frames = 1;
  for (std::size_t k = shape.size(); k-- > 0;) {  // the fastest first
    if (shape[k] == 1) continue;
    if (planes > kMostPlanes / shape[k]) return false;
    planes *= shape[k];
    sizes = std::to_string(shape[k]) + (sizes.empty() ? "" : " x ") + sizes;
    const char axis = axes.empty() ? '?' : axes[k];
    if (std::string_view("CZT").find(axis) != std::string_view::npos &&
        order.find(axis) == std::string::npos) {
      (axis == 'C' ? a.channels : axis == 'Z' ? a.slices : a.frames) = shape[k];
      order += axis;
    } else {
      ++named;
    }
  }
  if (about.value("truncated", nlohmann::json(false)) == true && !a.samples_are_planes && a.planes == 1)
    a.planes = held(page, planes, file_bytes);
  if (named == 1 && order.empty()) {
    a.slices = planes;
    order = "Z";
  } else if (named > 0) {
    a.problem = concat("its planes are an array of ", sizes, " and nothing says which axis is what");
    return true;
  }
  for (const char axis : {'C', 'Z', 'T'})
    if (order.find(axis) == std::string::npos) order += axis;
  set_order(a, order);
  return true;
}

}  // namespace

std::string TiffAxes::counts() const {
  std::string text;
  const auto add = [&](std::int64_t n, const char* what) {
    if (n > 1) text += concat(text.empty() ? "" : ", ", n, ' ', what);
  };
  add(channels, "channels");
  add(slices, "slices");
  add(frames, "frames");
  return text.empty() ? "1 plane" : text;
}

TiffAxes tiff_axes(const std::string& description, const std::vector<TiffPage>& pages,
                   std::int64_t file_bytes) {
  const auto directories = static_cast<std::int64_t>(pages.size());
  TiffAxes a;
  a.planes = directories;
  const std::int64_t stacked = directories == 1 ? std::min(pages[0].stacked, kMostPlanes) : 1;
  const auto plain = [&] {
    a = TiffAxes();
    a.planes = a.slices = std::max(directories, stacked);
    if (stacked > 1) a.from = "MetaMorph";
    lay_out(a, "CZT");
  };
  if (stacked > 1)
    plain();
  else if (description.starts_with("ImageJ="))
    read_imagej(a, description, pages[0], file_bytes);
  else if (has_element(description, "OME") && has_element(description, "Pixels"))
    read_ome(a, description, pages[0]);
  else if (!description.starts_with('{') || !read_tifffile(a, description, pages[0], file_bytes))
    plain();
  a.one_directory = directories == 1 && a.planes > 1 && !a.samples_are_planes;
  if (a.one_directory && (file_bytes - pages[0].first_byte) / pages[0].bytes() < a.planes)
    a.problem = concat("its ", a.from, " description says ", a.planes,
                       " planes behind the first, which it does not hold; is the file complete?");
  return a;
}

}  // namespace tessera::io
