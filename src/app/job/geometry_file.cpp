// SPDX-License-Identifier: BSD-3-Clause
// Geometries as ASTRA, RTK and Nikon's instruments write them.
// Sources: astra-toolbox.org (Geometries, 3D Geometries), docs.openrtk.org (3D Circular Projection Geometry).
#include "job/geometry_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <sstream>
#include <utility>

#include "job/astra_matlab.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/io/scan_file.hpp"

namespace tessera {
namespace {

using Json = nlohmann::json;
using Row = std::array<double, 12>;
using Matrix = std::array<Vector3, 3>;

Vector3 times(const Matrix& m, const Vector3& a) {
  Vector3 out{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < 3; ++k) out[i] += m[i][k] * a[k];
  return out;
}
Matrix times(const Matrix& a, const Matrix& b) {
  Matrix out{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      for (std::size_t k = 0; k < 3; ++k) out[i][j] += a[i][k] * b[k][j];
  return out;
}
Matrix transposed(const Matrix& m) {
  Matrix out{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < 3; ++k) out[i][k] = m[k][i];
  return out;
}
double in_radians(double degrees) { return degrees * std::numbers::pi / 180; }

// What rounding has left of 0 beside the other numbers of a vector is 0.
Vector3 cleaned(Vector3 a) {
  constexpr double kRounding = 1e-12;
  const double most = std::max({std::abs(a[0]), std::abs(a[1]), std::abs(a[2])});
  for (double& x : a)
    if (std::abs(x) < kRounding * most) x = 0;
  return a;
}
Row row_of(const Vector3& source, const Vector3& center, const Vector3& u, const Vector3& v) {
  Row out{};
  std::size_t n = 0;
  for (const Vector3& a : {cleaned(source), cleaned(center), cleaned(u), cleaned(v)})
    for (const double x : a) out[n++] = x;
  return out;
}

// ASTRA's rows of one slice, whose y goes up.
Row of_slice(const double* six) {
  const Vector3 u{six[4], -six[5], 0};
  return row_of({six[0], -six[1], 0}, {six[2], -six[3], 0}, u, {0, 0, std::hypot(u[0], u[1])});
}
Row of_volume(const double* twelve) {
  const auto at = [&](int k) { return Vector3{twelve[k], twelve[k + 1], twelve[k + 2]}; };
  return row_of(at(0), at(3), at(6), at(9));
}

void take_rows(const std::vector<double>& values, std::size_t each, const std::string& path,
               GeometryFile& out) {
  TESSERA_VALIDATE((each == 6 || each == 12) && !values.empty() && values.size() % each == 0, path, " has ",
                   values.size(), " numbers, ", each,
                   " a row (a view is 12 of them, of one slice 6: direction or source, detector, step along "
                   "columns, of 12 along rows) write such rows");
  const auto odd = std::ranges::find_if(values, [](double x) { return !std::isfinite(x); });
  TESSERA_VALIDATE(odd == values.end(), path, " has a number that is not finite in view ",
                   static_cast<std::size_t>(odd - values.begin()) / each,
                   " (no ray follows from it) correct it");
  out.flat = each == 6;
  for (std::size_t k = 0; k < values.size(); k += each)
    out.views.push_back(out.flat ? of_slice(values.data() + k) : of_volume(values.data() + k));
}

// An array of so many rows, as of a sinogram's views.
GeometryFile stored_rows(const std::string& path, const Communicator& comm) {
  const FrameStack stack = open_frames(path, 1, comm);
  GeometryFile out;
  comm.together([&] {
    const std::int64_t count = stack.count * stack.rows;
    std::vector<double> values(static_cast<std::size_t>(count * stack.columns));
    FrameReader(stack).read({{0, 0, 0}, {stack.count, stack.rows, stack.columns}}, values.data());
    take_rows(values, static_cast<std::size_t>(stack.columns), path, out);
  });
  return out;
}

// Text, the first row of which says how many numbers they have.
GeometryFile text_rows(const std::string& path, const Communicator& comm) {
  GeometryFile out;
  const AngleList list = read_angles(path, comm);
  comm.together([&] {
    std::size_t each = 0;
    std::istringstream text(read_text(path));
    for (std::string line; each == 0 && std::getline(text, line);) {
      line.resize(std::min(line.find('#'), line.size()));
      std::ranges::replace_if(
          line, [](char c) { return c == ',' || c == ';'; }, ' ');
      std::istringstream words(line);
      for (std::string word; words >> word;) ++each;
    }
    take_rows(list.values, each, path, out);
  });
  return out;
}

// Of a JSON value: a number, or an error that names its key.
double number(const Json& dict, const std::string& key, const std::string& path) {
  const auto found = dict.find(key);
  TESSERA_VALIDATE(found != dict.end() && found->is_number(), path, " has no number ", key,
                   " (ASTRA's dict of such a scan has one) save the whole dict");
  return found->get<double>();
}

std::vector<double> numbers(const Json& list, const std::string& path, std::size_t& each) {
  std::vector<double> out;
  TESSERA_VALIDATE(list.is_array() && !list.empty(), path,
                   " has no rows of numbers (a view is one of them) write Vectors, or the rows alone");
  for (const Json& row : list) {
    const std::size_t before = out.size();
    if (row.is_array())
      for (const Json& x : row) {
        TESSERA_VALIDATE(x.is_number(), path, " has ", x.dump(),
                         " among its numbers (a view is 6 or 12 of them) correct it");
        out.push_back(x.get<double>());
      }
    const std::size_t count = out.size() - before;
    if (each == 0) each = count;
    TESSERA_VALIDATE(count == each && each > 0, path, " has rows of ", each, " and of ", count,
                     " numbers (each is a view) write as many for each");
  }
  return out;
}

// ASTRA's circles, whose y goes up in 2-D and along rows in 3-D.
void take_circle(const Json& dict, const std::string& type, const std::string& path, GeometryFile& out) {
  const bool flat = !type.ends_with("3d") && type != "cone", parallel = type.starts_with("parallel");
  const auto angles = dict.find("ProjectionAngles");
  TESSERA_VALIDATE(angles != dict.end() && angles->is_array() && !angles->empty(), path,
                   " has no ProjectionAngles (they say where the views stand) save the whole dict");
  const double wide = number(dict, flat ? "DetectorWidth" : "DetectorSpacingX", path),
               high = flat ? wide : number(dict, "DetectorSpacingY", path),
               near = parallel ? 0 : number(dict, "DistanceOriginSource", path),
               far = parallel ? 0 : number(dict, "DistanceOriginDetector", path);
  out.flat = flat;
  for (const Json& angle : *angles) {
    TESSERA_VALIDATE(angle.is_number(), path, " has ", angle.dump(),
                     " among ProjectionAngles (they are radians) correct it");
    const double t = angle.get<double>(), c = std::cos(t), s = (flat ? -1 : 1) * std::sin(t),
                 sign = flat ? 1 : -1, x = std::sin(t);
    const Vector3 toward{x, sign * c, 0};
    const auto at = [&](double way) { return Vector3{way * toward[0], way * toward[1], 0}; };
    out.views.push_back(
        row_of(parallel ? toward : at(near), at(-far), {wide * c, wide * s, 0}, {0, 0, high}));
  }
}

GeometryFile astra(const Json& json, const std::string& path) {
  GeometryFile out;
  std::size_t each = 0;
  if (json.is_array()) {
    const std::vector<double> all = numbers(json, path, each);
    take_rows(all, each, path, out);
    return out;
  }
  const auto named = json.find("type");
  TESSERA_VALIDATE(named != json.end() && named->is_string(), path,
                   " has no word type (ASTRA's dict of a geometry has one, as cone_vec) save the whole dict");
  const std::string type = named->get<std::string>();
  static const std::map<std::string, Beam> beams{
      {"parallel", Beam::parallel},   {"parallel_vec", Beam::parallel},
      {"parallel3d", Beam::parallel}, {"parallel3d_vec", Beam::parallel},
      {"fanflat", Beam::fan},         {"fanflat_vec", Beam::fan},
      {"cone", Beam::cone},           {"cone_vec", Beam::cone}};
  const auto beam = beams.find(type);
  TESSERA_VALIDATE(
      beam != beams.end(), path, " has the type ", type,
      " (known are parallel, fanflat, parallel3d, cone and these with _vec) convert it to vectors");
  const bool flat = type.starts_with("fan") || type == "parallel" || type == "parallel_vec";
  if (type.ends_with("_vec")) {
    const auto rows = json.find("Vectors");
    TESSERA_VALIDATE(rows != json.end(), path, " has no Vectors (the type is ", type,
                     ", whose views they are) save the whole dict");
    const std::vector<double> all = numbers(*rows, path, each);
    TESSERA_VALIDATE(each == (flat ? 6U : 12U), path, " has Vectors of ", each, " numbers (those of ", type,
                     " have ", flat ? 6 : 12, ") correct type or vectors");
    take_rows(all, each, path, out);
  } else {
    take_circle(json, type, path, out);
  }
  out.beam = beam->second;
  out.flat = flat;
  out.columns = std::llround(number(json, flat ? "DetectorCount" : "DetectorColCount", path));
  out.rows = flat ? 1 : std::llround(number(json, "DetectorRowCount", path));
  return out;
}

// The texts of a tag in [from, to), one after the other.
std::vector<std::string> tags(const std::string& text, const std::string& name, const std::string& path) {
  std::vector<std::string> out;
  const std::string open = "<" + name, close = "</" + name + ">";
  for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at + 1)) {
    const char next = at + open.size() < text.size() ? text[at + open.size()] : ' ';
    if (next != '>' && next != ' ') continue;
    const std::size_t begin = text.find('>', at), end = text.find(close, at);
    TESSERA_VALIDATE(begin != std::string::npos && end != std::string::npos && begin < end, path, " has no ",
                     close, " for a ", open, "> (the file ends early, or is damaged) copy it anew");
    out.push_back(text.substr(begin + 1, end - begin - 1));
  }
  return out;
}

// RTK's parameters of a view: of its own, else of all; else what RTK takes.
class RtkView {
 public:
  RtkView(const std::string& own, const std::string& all, const std::string& path)
      : own_(own), all_(all), path_(path) {}
  double operator()(const char* name, bool must = false) const {
    for (const std::string* text : {&own_, &all_}) {
      const std::vector<std::string> found = tags(*text, name, path_);
      if (found.empty()) continue;
      char* end = nullptr;
      const double value = std::strtod(found.front().c_str(), &end);
      TESSERA_VALIDATE(end != found.front().c_str() && std::isfinite(value), path_, " has ", name, " ",
                       found.front(), " (it is a number) correct it");
      return value;
    }
    TESSERA_VALIDATE(!must, path_, " has a view without ", name,
                     " (it says where source or detector stand) add it");
    return 0;
  }

 private:
  const std::string &own_, &all_, &path_;
};

// Whether the matrix of a view takes its source to nothing, as it does where it is of the same numbers.
void check_matrix(const std::string& view, const Vector3& source, std::size_t index,
                  const std::string& path) {
  constexpr double kSame = 1e-4;
  const std::vector<std::string> found = tags(view, "Matrix", path);
  if (found.empty()) return;
  std::istringstream text(found.front());
  std::array<double, 12> m{};
  for (double& x : m) text >> x;
  for (std::size_t i = 0; text && i < 3; ++i) {
    double sum = m[4 * i + 3], size = std::abs(sum);
    for (std::size_t k = 0; k < 3; ++k) {
      sum += m[4 * i + k] * source[k];
      size += std::abs(m[4 * i + k]) * std::hypot(source[0], source[1], source[2]);
    }
    TESSERA_VALIDATE(std::abs(sum) <= kSame * size, path, " has a matrix in view ", index,
                     " that is not of its parameters (one of both was changed) write the file anew");
  }
}

GeometryFile rtk(const std::string& text, const std::array<double, 2>& pitch, const std::string& path) {
  GeometryFile out;
  TESSERA_VALIDATE(
      text.find("<RTKThreeDCircularGeometry") != std::string::npos, path,
      " has no RTKThreeDCircularGeometry (of XML only RTK's geometries are known) write one of them, or "
      "vectors");
  const std::vector<std::string> views = tags(text, "Projection", path);
  TESSERA_VALIDATE(!views.empty(), path, " has no Projection (each is a view) is the file complete?");
  const std::string all = text.substr(0, text.find("<Projection>"));
  for (std::size_t k = 0; k < views.size(); ++k) {
    const RtkView say(views[k], all, path);
    TESSERA_VALIDATE(say("RadiusCylindricalDetector") == 0, path,
                     " has a cylindrical detector (only flat ones are known) resample it onto a flat one");
    const double near = say("SourceToIsocenterDistance", true), far = say("SourceToDetectorDistance", true);
    if (k == 0) out.beam = far == 0 ? Beam::parallel : Beam::cone;
    TESSERA_VALIDATE((far == 0) == (*out.beam == Beam::parallel), path,
                     " has views with and without a source (a scan has one beam) write one file for each");
    const double g = in_radians(say("GantryAngle", true)), o = in_radians(say("OutOfPlaneAngle")),
                 p = in_radians(say("InPlaneAngle"));
    const Matrix around_y{Vector3{std::cos(g), 0, -std::sin(g)}, {0, 1, 0}, {std::sin(g), 0, std::cos(g)}},
        around_x{Vector3{1, 0, 0}, {0, std::cos(o), std::sin(o)}, {0, -std::sin(o), std::cos(o)}},
        around_z{Vector3{std::cos(p), std::sin(p), 0}, {-std::sin(p), std::cos(p), 0}, {0, 0, 1}};
    const Matrix back = transposed(times(around_z, times(around_x, around_y)));
    // RTK's axis of rotation is y: theirs (x, y, z) is (x, z, y) here.
    const auto here = [&](const Vector3& a) {
      const Vector3 fixed = times(back, a);
      return Vector3{fixed[0], fixed[2], fixed[1]};
    };
    const bool parallel = far == 0;
    const Vector3 source{say("SourceOffsetX"), say("SourceOffsetY"), near};
    if (!parallel) check_matrix(views[k], times(back, source), k, path);
    const Vector3 center{say("ProjectionOffsetX"), say("ProjectionOffsetY"), parallel ? 0 : near - far};
    out.views.push_back(row_of(here(parallel ? Vector3{0, 0, 1} : source), here(center),
                               here({pitch[1], 0, 0}), here({0, pitch[0], 0})));
  }
  return out;
}

// The least turn that takes an axis to z.
Matrix onto_z(const Vector3& axis) {
  const double size = std::sqrt(axis[0] * axis[0] + axis[1] * axis[1] + axis[2] * axis[2]);
  const double x = axis[0] / size, y = axis[1] / size, z = axis[2] / size, part = 1 / (1 + z);
  return {Vector3{1 - part * x * x, -part * x * y, -x}, {-part * x * y, 1 - part * y * y, -y}, {x, y, z}};
}

// As the Core Imaging Library reads it: pixel (0, 0) stands at the top right as the source sees it, angles count the other
// way, and the object's offset, roll and tilt place the axis. Then y and z are turned so that slices go down.
GeometryFile nikon(const std::string& text, const std::string& path) {
  std::map<std::string, double> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find('=');
    if (at == std::string::npos) continue;
    char* end = nullptr;
    const double value = std::strtod(line.c_str() + at + 1, &end);
    if (end != line.c_str() + at + 1) words[line.substr(0, at)] = value;
  }
  const auto say = [&](const char* name) {
    const auto found = words.find(name);
    TESSERA_VALIDATE(found != words.end() && std::isfinite(found->second), path, " has no number ", name,
                     " (it places source, detector or views) take the file that the instrument wrote");
    return found->second;
  };
  const auto or_zero = [&](const char* name) { return words.contains(name) ? say(name) : 0.0; };
  const double near = say("SrcToObject"), far = say("SrcToDetector"), wide = say("DetectorPixelSizeX"),
               high = say("DetectorPixelSizeY"), views = say("Projections"), step = say("AngularStep");
  TESSERA_VALIDATE(near > 0 && far > near, path, " has SrcToObject ", near, " and SrcToDetector ", far,
                   " (the detector stands behind the object) correct them");
  TESSERA_VALIDATE(views >= 1 && views < 1e7, path, " has ", views,
                   " Projections (there is nothing to see) correct it");
  GeometryFile out{
      Beam::cone, {}, std::llround(say("DetectorPixelsY")), std::llround(say("DetectorPixelsX")), false};
  const double top = or_zero("CentreOfRotationTop"), bottom = or_zero("CentreOfRotationBottom"),
               aside =
                   words.contains("ObjectOffsetX") ? say("ObjectOffsetX") : 0.5 * (top + bottom) * near / far,
               roll = words.contains("ObjectRoll")
                          ? in_radians(say("ObjectRoll"))
                          : -std::atan2(top - bottom, static_cast<double>(out.rows) * high),
               tilt = -in_radians(or_zero("ObjectTilt"));
  const Matrix straight =
      onto_z({std::sin(roll), -std::sin(tilt) * std::cos(roll), std::cos(tilt) * std::cos(roll)});
  for (std::int64_t k = 0; k < std::llround(views); ++k) {
    const double angle = in_radians(step * static_cast<double>(k) + or_zero("InitialAngle") - 180);
    const Matrix turn{
        Vector3{std::cos(angle), -std::sin(angle), 0}, {std::sin(angle), std::cos(angle), 0}, {0, 0, 1}};
    const auto here = [&](const Vector3& a) {
      const Vector3 theirs = times(turn, times(straight, a));
      return Vector3{theirs[0], -theirs[1], -theirs[2]};
    };
    out.views.push_back(row_of(here({aside, -near, 0}), here({aside, far - near, 0}), here({-wide, 0, 0}),
                               here({0, 0, -high})));
  }
  return out;
}

}  // namespace

GeometryFile read_geometry(const std::string& path, const std::array<double, 2>& pitch,
                           const Communicator& comm) {
  const ImageFormat* const format = find_format(path);
  bool matlab = false;
  comm.together([&] { matlab = path.ends_with(".mat") && read_text(path).starts_with("MATLAB 5.0"); });
  const bool binary = !matlab && ((format && format->measurements) || path.ends_with(".npy"));
  GeometryFile out;
  bool rows = false;
  comm.together([&] {
    if (binary) return;
    const std::string bytes = read_text(path), text = matlab ? astra_json(bytes, path) : bytes;
    const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    TESSERA_VALIDATE(first != std::string::npos, path,
                     " is empty (it should say where each view stands) write it");
    if (text[first] == '<') {
      out = rtk(text, pitch, path);
    } else if (path.ends_with(".json") || text[first] == '{') {
      const Json json = Json::parse(text, nullptr, false);
      TESSERA_VALIDATE(!json.is_discarded() && (json.is_object() || json.is_array()), path,
                       " is no JSON (a bracket or a comma is missing) write it anew");
      out = astra(json, path);
    } else if (text.find("SrcToObject") != std::string::npos || text[first] == '[') {
      out = nikon(text, path);
    } else {
      rows = true;
    }
  });
  if (binary) return stored_rows(path, comm);
  return rows ? text_rows(path, comm) : out;
}

}  // namespace tessera
