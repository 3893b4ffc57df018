// SPDX-License-Identifier: BSD-3-Clause
// Which dataset a path means, and which part of it.
#include "hdf5/hdf5_choice.hpp"

#include <algorithm>

#include "hdf5/hdf5_values.hpp"
#include "stored_image.hpp"
#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

using Shape = std::vector<std::int64_t>;

H5Handle open_set(const Hdf5File& file, const std::string& dataset, const std::string& where) {
  return {check_read(H5Dopen2(file.id(), dataset.c_str(), H5P_DEFAULT), "H5Dopen", where), H5Dclose};
}

std::string stored_type(const Hdf5File& file, const std::string& dataset, hid_t set,
                        const std::string& where) {
  const H5Handle type(check_read(H5Dget_type(set), "H5Dget_type", where), H5Tclose);
  const std::string matlab = file.text_attribute(dataset, kMatlabClass).value_or("");
  TESSERA_VALIDATE(matlab != "char", where, " holds text (", kMatlabClass, " is char) name another variable");
  TESSERA_VALIDATE(H5Aexists_by_name(file.id(), dataset.c_str(), "MATLAB_empty", H5P_DEFAULT) <= 0, where,
                   " is empty (MATLAB_empty says so) name another variable");
  TESSERA_VALIDATE(H5Tget_class(type.get()) != H5T_COMPOUND || H5Tget_nmembers(type.get()) != 2, where,
                   " holds complex numbers (an image is of real ones) write their magnitude or real part");
  const std::string name = number_type(type.get());
  TESSERA_VALIDATE(!name.empty(), where, " holds no real numbers (text, ",
                   matlab.empty() ? "complex or compound" : "a cell or a structure", ") write floats");
  return matlab == "logical" ? "bool" : name;
}

Shape stored_shape(hid_t set, const std::string& where) {
  const H5Handle space(check_read(H5Dget_space(set), "H5Dget_space", where), H5Sclose);
  const int rank = std::max(0, H5Sget_simple_extent_ndims(space.get()));
  std::array<hsize_t, H5S_MAX_RANK> extent{};
  check_read(H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr), "H5Sget_simple_extent_dims",
             where);
  const Shape shape(extent.begin(), extent.begin() + rank);
  std::int64_t bytes = sizeof(double);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    TESSERA_VALIDATE(shape[d] > 0, where, " is empty along axis ", d,
                     " (nothing can be read) write it again");
    TESSERA_VALIDATE(!__builtin_mul_overflow(bytes, shape[d], &bytes), where,
                     " has a shape of more than 2^63 bytes (no file holds that) write it again");
  }
  return shape;
}

// Words behind the dataset change what its axes are: their letters, and which of them have a position.
class Words {
 public:
  Words(const std::string& where, const Shape& shape, AxisLabels labels)
      : where_(where), shape_(shape), labels_(std::move(labels)), picked_(shape.size(), -1) {}

  void take(const std::vector<std::string>& words) {
    letters_ = axis_letters(labels_, shape_.size());
    said_ = !letters_.empty();
    constexpr const char* kUsual[] = {"", "", "yx", "cyx", "czyx"};
    if (!said_ && shape_.size() < std::size(kUsual)) letters_ = kUsual[shape_.size()];
    for (const std::string& word : words) {
      if (word == "slices" || word == "channels")
        rename(word == "slices" ? 'c' : 'z', word == "slices" ? 'z' : 'c', word);
      else
        pick(word);
    }
    labels_.names.clear();
    for (const char c : letters_) labels_.names.emplace_back(1, c);
  }
  const AxisLabels& labels() const { return labels_; }
  const std::vector<std::int64_t>& picked() const { return picked_; }

 private:
  void rename(char from, char to, const std::string& word) {
    const std::size_t at = letters_.find(from);
    TESSERA_VALIDATE(letters_.find(to) == std::string::npos && (at != std::string::npos || letters_ == "yx"),
                     where_, ", ", shape_text(shape_), ": there are no ", word, " to take (its axes are ",
                     letters_.empty() ? "not known" : letters_, ") leave the word out");
    if (at == std::string::npos) return;
    letters_[at] = to;
    labels_.source = "the path";
  }
  void pick(const std::string& word) {
    const std::int64_t number = word.empty() ? -1 : index_of_word(word.substr(1));
    const std::size_t at = word.empty() ? std::string::npos : letters_.find(word[0]);
    TESSERA_VALIDATE(
        number >= 0 && at != std::string::npos && word[0] != 'y' && word[0] != 'x', where_, ": there is no ",
        word, " in it (its axes are ", letters_.empty() ? "not known" : letters_, ", of the shape ",
        shape_text(shape_),
        "; behind its name stands a position such as z0, or slices or channels) correct the path");
    TESSERA_VALIDATE(number < shape_[at], where_, ": there is no ", word, " (its axis ", word[0], " has ",
                     shape_[at], " positions, counted from 0) name one of them");
    picked_[at] = number;
    if (!said_) labels_.source = "the path";
  }

  const std::string& where_;
  const Shape& shape_;
  AxisLabels labels_;
  std::vector<std::int64_t> picked_;
  std::string letters_;
  bool said_ = false;
};

void check_matlab(const std::string& where, const Shape& stored) {
  constexpr std::int64_t kFewRows = 4;
  if (stored.size() != 3) return;
  const std::int64_t rows = stored.back();
  TESSERA_VALIDATE(rows > kFewRows || stored[0] <= kFewRows || stored[1] <= kFewRows, where, " is ", rows,
                   " x ", stored[1], " x ", stored[0],
                   " in MATLAB (rows stand first there, and its first dimension may be channels) write "
                   "permute(a, [2 3 1])");
}

}  // namespace

Hdf5Choice choose_in(const Hdf5File& file, const std::string& path, const std::string& dataset,
                     const std::vector<std::string>& words) {
  if (!file.has(dataset)) {
    const std::string others = images_in(file);
    throw InputError(concat("no dataset ", dataset, " in ", path, " (it was asked for; the file has ",
                            others.empty() ? "no arrays of numbers" : others, ") name one as ", path,
                            ":/name"));
  }
  Hdf5Choice out{dataset, concat(path, ":", dataset), {}, {}};
  const H5Handle set = open_set(file, dataset, out.where);
  const std::string type = stored_type(file, dataset, set.get(), out.where);
  DatasetInfo& about = out.about;
  about.shape = stored_shape(set.get(), out.where);
  const std::size_t rank = about.shape.size();
  const bool matlab = file.text_attribute(dataset, kMatlabClass).has_value();
  if (matlab && words.empty()) check_matlab(out.where, about.shape);
  Words asked(out.where, about.shape, stated_axes(file, dataset, static_cast<int>(rank)));
  if (!words.empty()) asked.take(words);
  Shape left;
  AxisLabels labels = asked.labels();
  std::vector<std::size_t> axis_of;
  out.start.assign(rank, 0);
  labels.names.clear();
  for (std::size_t d = 0; d < rank; ++d) {
    if (asked.picked()[d] >= 0) {
      out.start[d] = static_cast<hsize_t>(asked.picked()[d]);
      continue;
    }
    axis_of.push_back(d);
    left.push_back(about.shape[d]);
    if (d < asked.labels().names.size()) labels.names.push_back(asked.labels().names[d]);
  }
  const std::string letters = axis_letters(labels, left.size());
  const std::size_t time = letters.find('t');
  TESSERA_VALIDATE(time == std::string::npos || left[time] == 1, out.where, " has ", left[time],
                   " frames along its axis of time (one image is reconstructed) name one, counted from 0: ",
                   out.where, "/t0");
  const ArrayAxes axes = array_axes(out.where, left, labels);
  for (std::size_t k = 0; k < 4; ++k)
    if (axes.of[k] >= 0) about.axes[k] = static_cast<int>(axis_of[static_cast<std::size_t>(axes.of[k])]);
  const auto along = [&](std::size_t k) {
    return about.axes[k] < 0 ? 1 : about.shape[static_cast<std::size_t>(about.axes[k])];
  };
  if (!matlab || rank > 2 || !words.empty()) about.note = axes.note;
  about.channels = along(0);
  about.box = Box({0, 0, 0}, {along(1), along(2), along(3)});
  constexpr std::int64_t kColors = 4;
  if (matlab && words.empty() && about.channels > kColors && about.box.extent(0) == 1)
    about.note += concat("; ", out.where, "/slices takes them as slices of a volume");
  const StatedValues said = stated_values(file, dataset, type, out.where);
  about.type = said.type;
  about.values = said.values;
  for (const std::string& more : {said.note, StorageHoles(set.get(), out.where).note()})
    if (!more.empty()) about.note += (about.note.empty() ? "" : "; ") + more;
  return out;
}

Hdf5Choice choose_hdf5(const Hdf5File& file, const std::string& path, const std::string& part) {
  std::string dataset = part.empty() ? default_dataset(file) : part;
  std::vector<std::string> words;
  while (!file.has(dataset) && dataset.rfind('/') != 0) {  // words stand behind what is there
    const std::size_t slash = dataset.rfind('/');
    words.insert(words.begin(), dataset.substr(slash + 1));
    dataset.resize(slash);
  }
  const bool array = file.has(dataset) && !shape_of(file, dataset).empty();
  if (!words.empty() && !array) {  // no array has them
    dataset = part;
    words.clear();
  }
  return choose_in(file, path, dataset, words);
}

}  // namespace tessera::io
