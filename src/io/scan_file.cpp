// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/scan_file.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <utility>

#include "array_copy.hpp"
#include "formats.hpp"
#include "hdf5/hdf5_read.hpp"
#include "hdf5/hdf5_values.hpp"
#include "npy/npy_file.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"
#include "txm/txm_image.hpp"

namespace tessera {
namespace {

using Shape = std::vector<std::int64_t>;

std::string parent_of(const std::string& object) { return object.substr(0, object.rfind('/')); }

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), lower(name)) != names.end();
}

std::vector<std::int64_t> all_of(std::int64_t count) {
  std::vector<std::int64_t> frames(static_cast<std::size_t>(count));
  std::iota(frames.begin(), frames.end(), 0);
  return frames;
}

// A stack of this shape: (n, rows, columns); what two axes are, the caller knows.
enum class TwoAxes { frames, one_frame };  // (n, columns) of one row, or (rows, columns)
FrameStack stack_of(const std::string& path, Shape shape, TwoAxes two,
                    const std::vector<std::string>& names = {}) {
  FrameStack out;
  out.path = path;
  int first = 0;
  const int axes = static_cast<int>(shape.size());
  const auto extent = [&](int axis) { return axis < 0 ? 1 : shape[static_cast<std::size_t>(axis)]; };
  while (axes - first > 3 && extent(first) == 1) ++first;
  if (axes - first == 3 && two == TwoAxes::frames && extent(first) == 1)
    ++first;  // a picture's, with one channel
  switch (axes - first) {
    case 1:
      out.axes = {-1, -1, first};
      break;
    case 2:
      out.axes = two == TwoAxes::frames ? std::array<int, 3>{first, -1, first + 1}
                                        : std::array<int, 3>{-1, first, first + 1};
      break;
    case 3: {
      out.axes = {first, first + 1, first + 2};
      int rows = -1, columns = -1;
      for (int k = first; k < axes && static_cast<int>(names.size()) == axes; ++k) {
        const std::string& name = names[static_cast<std::size_t>(k)];
        if (one_of(name, {"y", "row", "rows", "height"})) rows = k;
        if (one_of(name, {"x", "column", "columns", "col", "width"})) columns = k;
      }
      if (rows >= 0 && columns >= 0) out.axes = {3 * first + 3 - rows - columns, rows, columns};
      break;
    }
    default:
      break;
  }
  TESSERA_VALIDATE(out.axes[2] >= 0, path, " has the shape ", io::shape_text(shape),
                   " (frames are (views, rows, columns), or (views, columns) of one row) reshape it");
  out.count = extent(out.axes[0]);
  out.rows = extent(out.axes[1]);
  out.columns = extent(out.axes[2]);
  TESSERA_VALIDATE(out.count > 0 && out.rows > 0 && out.columns > 0, path, " has the shape ",
                   io::shape_text(shape), " (nothing can be read) write it again");
  out.frames = all_of(out.count);
  return out;
}

// A dataset of the file as a stack.
FrameStack dataset_stack(const Hdf5File& file, const ImagePath& named, const std::string& dataset,
                         TwoAxes two) {
  const Shape shape = io::shape_of(file, dataset);
  if (shape.empty()) (void)file.info(dataset);  // says what is there
  FrameStack out = stack_of(named.file + ":" + dataset, shape, two,
                            io::stated_axes(file, dataset, static_cast<int>(shape.size())).names);
  const H5Handle set(H5Dopen2(file.id(), dataset.c_str(), H5P_DEFAULT), H5Dclose);
  const H5Handle type(H5Dget_type(set.get()), H5Tclose);
  out.type = io::number_type(type.get());
  return out;
}

// All numbers of a dataset with one axis.
std::vector<double> numbers(const Hdf5File& file, const std::string& path, const std::string& dataset) {
  const Shape shape = io::shape_of(file, dataset);
  if (shape.empty()) (void)file.info(dataset);
  std::int64_t n = 1;
  int longest = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    n *= shape[d];
    if (shape[d] > shape[static_cast<std::size_t>(longest)]) longest = static_cast<int>(d);
  }
  TESSERA_VALIDATE(n > 0 && n == shape[static_cast<std::size_t>(longest)], path, ":", dataset,
                   " has the shape ", io::shape_text(shape),
                   " (a list of numbers has one axis) name another dataset");
  std::vector<double> out(static_cast<std::size_t>(n));
  const Box box({0, 0, 0}, {1, 1, n});
  const DatasetInfo about{
      .shape = shape, .axes = {-1, -1, -1, longest}, .box = box, .type = {}, .values = {}, .note = {}};
  io::Hdf5Reader(file.id(), dataset, about, path + ":" + dataset).fill(io::dense_view(out.data(), box, 1));
  return out;
}

std::string unit_of(const Hdf5File& file, const std::string& dataset) {
  std::string unit = lower(file.text_attribute(dataset, "units").value_or(""));
  while (!unit.empty() && (std::isspace(static_cast<unsigned char>(unit.back())) || unit.back() == '\0'))
    unit.pop_back();
  if (unit.starts_with("rad")) return "radians";
  return unit.starts_with("deg") || unit == "\xC2\xB0" ? "degrees" : unit;
}

bool is_list(const Hdf5File& file, const std::string& dataset, std::int64_t length) {
  const Shape shape = io::shape_of(file, dataset);
  std::int64_t n = shape.empty() ? 0 : 1;
  for (const std::int64_t e : shape) n *= e;
  return n == length && n > 0;
}

void take_angles(const Hdf5File& file, const std::string& path, const std::string& dataset, ScanFile& scan) {
  scan.angles = numbers(file, path, dataset);
  scan.unit = unit_of(file, dataset);
  scan.angles_path = path + ":" + dataset;
}

std::size_t common_start(const std::string& a, const std::string& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

// Groups of a detector that say of each of their frames what it is, those below `part` alone.
std::vector<std::string> detectors(const Hdf5File& file, const std::vector<std::string>& names,
                                   const std::string& part) {
  struct Detector {
    std::string group;
    bool meant = false;
  };
  std::map<std::pair<unsigned long, haddr_t>, Detector> found;  // links lead to one array
  for (const std::string& name : names) {
    const bool control = name.ends_with("/image_key_control");
    if (!control && !name.ends_with("/image_key")) continue;
    const std::string group = parent_of(name), data = group + "/data";
    if (io::shape_of(file, data).size() < 2) continue;
    H5O_info_t about;
    if (H5Oget_info_by_name(file.id(), data.c_str(), &about, H5P_DEFAULT) < 0) continue;
    Detector& detector = found[{about.fileno, about.addr}];
    if (detector.group.empty() || control) detector.group = group;  // that of the control knows more
    detector.meant = detector.meant || part.empty() || data == part || data.starts_with(part + "/");
  }
  std::vector<std::string> out;
  for (const auto& [place, detector] : found)
    if (detector.meant) out.push_back(detector.group);
  std::sort(out.begin(), out.end());
  return out;
}

// Frames of a detector with keys: 0 of the object, 1 of the beam, 2 dark; others are invalid.
ScanFile nexus_scan(const Hdf5File& file, const ImagePath& named, const std::vector<std::string>& names,
                    const std::string& group) {
  ScanFile out;
  out.kind = "NXtomo";
  const FrameStack all = dataset_stack(file, named, group + "/data", TwoAxes::frames);
  const std::string control = group + "/image_key_control",
                    key = file.has(control) ? control : group + "/image_key";
  const std::vector<double> keys = numbers(file, named.file, key);
  TESSERA_VALIDATE(std::ssize(keys) == all.count, named.file, ":", key, " has ", keys.size(), " keys (",
                   all.path, " has ", all.count, " frames) write one for each");
  const auto of_key = [&](double wanted) {
    FrameStack some = all;
    some.frames.clear();
    for (std::size_t k = 0; k < keys.size(); ++k)
      if (keys[k] == wanted) some.frames.push_back(static_cast<std::int64_t>(k));
    return some;
  };
  out.views = of_key(0);
  out.flats = of_key(1);
  out.darks = of_key(2);
  TESSERA_VALIDATE(!out.views.empty(), named.file, ":", key,
                   " has no frame of key 0 (those are the projections) correct it");
  std::string best;
  for (const std::string& name : names)
    if (name.ends_with("/rotation_angle") &&
        (is_list(file, name, all.count) || is_list(file, name, std::ssize(out.views.frames))) &&
        (best.empty() || common_start(name, group) > common_start(best, group)))
      best = name;
  if (best.empty()) return out;
  take_angles(file, named.file, best, out);
  if (std::ssize(out.angles) != all.count) return out;
  std::vector<double> own;
  for (const std::int64_t k : out.views.frames) own.push_back(out.angles[static_cast<std::size_t>(k)]);
  out.angles = own;
  return out;
}

// A dataset with what stands beside it.
ScanFile dataset_scan(const Hdf5File& file, const ImagePath& named, const std::string& dataset) {
  ScanFile out;
  out.views = dataset_stack(file, named, dataset, TwoAxes::frames);
  const std::string group = parent_of(dataset);
  const auto beside = [&](const char* name, FrameStack& to) {
    if (!file.has(group + "/" + name)) return;
    out.kind = "DXchange";
    to = dataset_stack(file, named, group + "/" + name,
                       out.views.rows > 1 ? TwoAxes::one_frame : TwoAxes::frames);
  };
  beside("data_white", out.flats);
  beside("data_dark", out.darks);
  if (group.ends_with("/exchange")) out.kind = "DXchange";
  for (const char* name : {"theta", "angles", "rotation_angle"})
    if (const std::string list = group + "/" + name; out.angles.empty() && !io::shape_of(file, list).empty())
      take_angles(file, named.file, list, out);
  return out;
}

// A measurement file's one part; nothing where there are more, or channels.
std::optional<ScanFile> own_scan(const Hdf5File& file, const ImagePath& named) {
  if (file.list("/measurements").size() != 1 || !file.has("/measurements/0")) return std::nullopt;
  const auto stack = [&](const std::string& dataset) {
    const DatasetInfo about = file.info(dataset);
    FrameStack out;
    out.path = named.file + ":" + dataset;
    out.type = about.type;
    const bool volume = about.box.extent(0) > 1;
    out.axes = volume ? std::array<int, 3>{about.axes[1], about.axes[2], about.axes[3]}
                      : std::array<int, 3>{about.axes[2], -1, about.axes[3]};
    out.count = about.box.extent(volume ? 0 : 1);
    out.rows = volume ? about.box.extent(1) : 1;
    out.columns = about.box.extent(2);
    out.frames = all_of(out.count);
    return about.channels == 1 ? out : FrameStack{};
  };
  ScanFile out;
  out.views = stack("/measurements/0");
  if (out.views.empty()) return std::nullopt;
  if (file.has("/weights/0")) out.weights = stack("/weights/0");
  return out;
}

std::optional<ScanFile> hdf5_scan(const ImagePath& named, const Communicator& comm) {
  const Hdf5File file = Hdf5File::open(named.file, comm);
  std::optional<ScanFile> out;
  comm.together([&] {
    if (named.part.empty() && file.has("/measurements")) {
      out = own_scan(file, named);
      return;
    }
    const std::vector<std::string> names = io::objects(file), found = detectors(file, names, named.part);
    std::string listed;
    for (const std::string& group : found) listed += concat(listed.empty() ? "" : ", ", group);
    TESSERA_VALIDATE(found.size() < 2, named.file, " holds ", found.size(), " scans (", listed,
                     ") name one as ", named.file, ":", found.empty() ? "" : found[0]);
    if (!found.empty())
      out = nexus_scan(file, named, names, found[0]);
    else if (named.part.empty() && file.has("/exchange/data"))
      out = dataset_scan(file, named, "/exchange/data");
    else
      out = dataset_scan(file, named, named.part.empty() ? io::default_dataset(file) : named.part);
  });
  return out;
}

bool is_npy(const ImagePath& named) { return lower(named.file).ends_with(".npy"); }

// Of a format that knows images alone: slices of a volume, pages, or rows.
FrameStack image_stack(const std::string& path, TwoAxes two) {
  const auto open = [&]() -> std::pair<std::unique_ptr<ImageSource>, std::string> {
    try {
      return {open_image(path), path};
    } catch (const InputError&) {
      if (!image_path(path).format->parts || path.rfind(":/") != std::string::npos) throw;
      return {open_image(path + ":/slices"), path + ":/slices"};  // pages, of which one must be named
    }
  };
  const auto [source, named] = open();
  const SourceInfo& info = source->info();
  TESSERA_VALIDATE(
      info.channels == 1, named, " has ", info.channels,
      " channels (a detector's frames have one) write the frames as pages of a TIFF, as HDF5 or as .npy");
  FrameStack out = info.box.extent(0) > 1
                       ? stack_of(named, {info.box.extent(0), info.box.extent(1), info.box.extent(2)}, two)
                       : stack_of(named, {info.box.extent(1), info.box.extent(2)}, two);
  if (info.box.extent(0) == 1)
    for (int& axis : out.axes) axis += axis < 0 ? 0 : 1;
  out.type = info.type;
  return out;
}

FrameStack array_stack(const std::string& path, const ImagePath& named, TwoAxes two) {
  if (!is_npy(named)) return image_stack(path, two);
  const io::NpyFile file(named.file);
  FrameStack out = stack_of(named.file, file.shape(), two);
  out.type = file.type();
  return out;
}

// The pixel size is that at the axis. A beam is parallel where rays through the rim of what the detector sees move by
// less than a tenth of a column within it.
StatedGeometry stated_geometry(const io::TxmInfo& about) {
  constexpr double kMoves = 0.1, kMicrometers = 1000;
  const bool distances = about.source > 0 && about.detector > 0;
  const auto columns = static_cast<double>(about.columns);
  StatedGeometry out;
  if (!(about.pixel > 0)) {
    out.unclear = "no pixel size";
  } else if (distances && about.moves && about.cone.value_or(true)) {
    out.unclear = "distances that differ between views";
  } else if (!distances && about.cone.value_or(false)) {
    out.unclear = "a cone without distances";
  } else {
    const double source = about.source * kMicrometers, detector = about.detector * kMicrometers;
    out.cone = distances && about.cone.value_or(true) &&
               columns / 2 * (columns / 2 * about.pixel) / source >= kMoves;
    out.pitch = out.cone ? about.pixel * (about.source + about.detector) / about.source : about.pixel;
    if (out.cone) {
      out.source_axis = source;
      out.source_detector = source + detector;
    }
  }
  return out;
}

// Angles, the geometry and the image of the beam alone, which such files have beside the views.
void take_txm(const std::string& file, ScanFile& scan) {
  const io::TxmInfo about = io::txm_info(io::CompoundFile(file));
  scan.kind = "TXRM";
  for (const double angle : about.angles)
    scan.angles.push_back(0.0 - angle);  // the object turns, as in CIL and mbirjax
  scan.stated = stated_geometry(about);
  scan.unit = "degrees";
  scan.angles_path = file;
  if (about.reference) scan.flats = image_stack(file + ":/reference", TwoAxes::one_frame);
}

}  // namespace

std::optional<ScanFile> open_scan(const std::string& path, const Communicator& comm) {
  ImagePath named;
  comm.together([&] { named = image_path(path); });
  if (named.format->measurements) return hdf5_scan(named, comm);
  ScanFile out;
  comm.together([&] {
    out.views = array_stack(path, named, TwoAxes::frames);
    if (io::is_txm(named) && named.part.empty()) take_txm(named.file, out);
  });
  return out;
}

FrameStack open_frames(const std::string& path, std::int64_t rows, const Communicator& comm) {
  const TwoAxes two = rows > 1 ? TwoAxes::one_frame : TwoAxes::frames;
  ImagePath named;
  comm.together([&] { named = image_path(path); });
  FrameStack out;
  if (!named.format->measurements) {
    comm.together([&] { out = array_stack(path, named, two); });
    return out;
  }
  const Hdf5File file = Hdf5File::open(named.file, comm);
  comm.together([&] {
    out = dataset_stack(file, named, named.part.empty() ? io::default_dataset(file) : named.part, two);
  });
  return out;
}

AngleList read_angles(const std::string& path, const Communicator& comm) {
  AngleList out;
  comm.together([&] {
    const std::string file = path.substr(0, path.rfind(":/"));
    const ImageFormat* const format = find_format(path);
    if (format && format->measurements) {
      TESSERA_VALIDATE(file.size() < path.size(), path, " names no dataset (angles are a list in it) write ",
                       path, ":/name");
      const std::string dataset = path.substr(file.size() + 1);
      const Hdf5File open = Hdf5File::open(file, Communicator());
      out = {numbers(open, file, dataset), unit_of(open, dataset)};
    } else if (lower(path).ends_with(".npy")) {
      io::NpyFile array(path);
      out.values.resize(static_cast<std::size_t>(array.count()));
      array.read(0, array.count(), out.values.data());
    } else {
      const std::string text = read_text(path);
      for (std::size_t at = 0; at < text.size();) {
        const char c = text[at];
        if (c == '#') {
          at = std::min(text.find('\n', at), text.size());
        } else if (c == ',' || c == ';' || std::isspace(static_cast<unsigned char>(c))) {
          ++at;
        } else {
          char* end = nullptr;
          out.values.push_back(std::strtod(text.c_str() + at, &end));
          const auto next = static_cast<std::size_t>(end - text.c_str());
          TESSERA_VALIDATE(next > at, path, " has ",
                           text.substr(at, std::min<std::size_t>(12, text.find('\n', at) - at)),
                           " (it holds numbers, apart by space or comma, and # before remarks) correct it");
          at = next;
        }
      }
    }
    TESSERA_VALIDATE(!out.values.empty(), path, " is empty (it should hold one angle per view) write them");
  });
  return out;
}

struct FrameReader::State {
  FrameStack stack;
  std::optional<Hdf5File> file;
  std::optional<io::Hdf5Reader> reader;
  std::unique_ptr<ImageSource> source;
  std::array<std::size_t, 3> axes{0, 1, 2};  // of what is read, those that are frames, rows, columns

  // Frames [from, to) of the array, rows and columns of the box; dense.
  void read(std::int64_t from, std::int64_t to, const Box& box, double* dense) {
    const std::array<std::int64_t, 3> lo{from, box.lo()[1], box.lo()[2]}, hi{to, box.hi()[1], box.hi()[2]};
    const ArrayView plain = io::dense_view(dense, Box(lo, hi), 1);
    ArrayView view = plain;
    Index3 first{0, 0, 0}, last{1, 1, 1};
    std::array<bool, 3> taken{};
    for (std::size_t d = 0; d < 3; ++d) {
      if (axes[d] > 2) continue;  // the array has no such axis
      first[axes[d]] = lo[d];
      last[axes[d]] = hi[d];
      view.stride[axes[d]] = plain.stride[d];
      taken[axes[d]] = true;
    }
    for (std::size_t d = 0; d < 3; ++d)
      if (!taken[d]) view.stride[d] = 0;
    view.box = Box(first, last);
    if (reader)
      reader->fill(view);
    else
      source->fill(view);
  }
};

FrameReader::FrameReader(const FrameStack& stack) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.stack = stack;
  const ImagePath named = image_path(stack.path);
  const auto axis = [&](std::size_t d) { return stack.axes[d]; };
  if (named.format->measurements) {
    s.file.emplace(Hdf5File::open(named.file, Communicator()));
    const DatasetInfo about{.shape = io::shape_of(*s.file, named.part),
                            .axes = {-1, axis(0), axis(1), axis(2)},
                            .box = Box({0, 0, 0}, {stack.count, stack.rows, stack.columns}),
                            .type = stack.type,
                            .values = io::stated_values(*s.file, named.part, stack.type, stack.path).values,
                            .note = {}};
    s.reader.emplace(s.file->id(), named.part, about, stack.path);
  } else if (is_npy(named)) {
    s.source = io::npy_source(named.file, [&](const auto&) {
      return io::ArrayAxes{.of = {-1, axis(0), axis(1), axis(2)}};
    });
  } else {
    s.source = open_image(stack.path);
    for (std::size_t d = 0; d < 3; ++d) s.axes[d] = static_cast<std::size_t>(axis(d));
  }
}

FrameReader::~FrameReader() = default;

void FrameReader::read(const Box& box, double* dense) {
  const std::int64_t each = box.extent(1) * box.extent(2);
  const auto frame = [&](std::int64_t k) { return state_->stack.frames[static_cast<std::size_t>(k)]; };
  for (std::int64_t k = box.lo()[0], next = k; k < box.hi()[0]; k = next) {  // runs of neighbors
    for (next = k + 1; next < box.hi()[0] && frame(next) == frame(next - 1) + 1;) ++next;
    state_->read(frame(k), frame(next - 1) + 1, box, dense + (k - box.lo()[0]) * each);
  }
}

}  // namespace tessera
