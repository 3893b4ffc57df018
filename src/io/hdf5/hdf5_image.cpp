// SPDX-License-Identifier: BSD-3-Clause
// Datasets of HDF5 files as images: any of them is read, /image is written.
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "array_copy.hpp"
#include "formats.hpp"
#include "hdf5/hdf5_choice.hpp"
#include "hdf5/hdf5_packed.hpp"
#include "hdf5/hdf5_words.hpp"
#include "places.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/version.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera::io {
namespace {

class Hdf5Source final : public ImageSource {
 public:
  Hdf5Source(Hdf5File file, const std::string& path, const std::string& part)
      : file_(std::move(file)),
        choice_(choose_hdf5(file_, path, part)),
        dataset_(choice_.dataset),
        where_(choice_.where),
        about_(choice_.about),
        reader_(file_.id(), dataset_, about_, where_, choice_.start) {
    info_ = {ImageSpace(about_.box, about_.channels)};
    read_words(file_, dataset_, info_);
    read_grid(file_, dataset_, about_, info_);
    info_.codes = codes_of(file_, dataset_);
    info_.type = about_.type;
    info_.note = about_.note;
    if (dataset_ != "/image" && part.empty())
      info_.note = concat(path, ": ", dataset_,
                          images_in(file_).find(", /") == std::string::npos
                              ? " is read, its only array"
                              : " is read, which its attributes default and signal say",
                          about_.note.empty() ? "" : "; ", about_.note);
    note_words();
    // A reconstruction says itself which values were 0 and 1.
    const std::optional<double> factor = file_.number_attribute(dataset_, "factor");
    info_.says_scale = factor.has_value();
    info_.full_scale = factor.value_or(full_scale(about_.type));
    if (factor) {
      info_.offset = file_.number_attribute(dataset_, "offset").value_or(0);
      const double gamma = file_.number_attribute(dataset_, "gamma").value_or(1);
      info_.light = {StoredLight::Says::curve,
                     gamma >= 0.2 && gamma <= 5 ? ToneCurve::power(gamma) : ToneCurve(), "its attributes"};
      if (file_.text_attribute(dataset_, "curve").value_or("") == "srgb")
        info_.light.curve = ToneCurve::srgb();
    }
    TESSERA_VALIDATE(std::isfinite(info_.full_scale) && info_.full_scale > 0 && std::isfinite(info_.offset),
                     part.empty() ? path : where_, ": its attributes factor and offset are ",
                     info_.full_scale, " and ", info_.offset,
                     " (the file's values of what is 1 and 0 inside, factor above 0) correct or remove them");
  }

  Metadata metadata() override { return read_metadata(file_); }
  std::vector<std::pair<std::string, std::string>> about() override {
    return {{"dataset", dataset_ + " " + shape_text(about_.shape)},
            {"packed", storage_text(file_, dataset_, about_.shape.size())}};
  }
  void read(const Box& box, double* planar) override { fill(dense_view(planar, box, info_.channels)); }
  void read_floats(const Box& box, float* planar) override { fill(dense_view(planar, box, info_.channels)); }
  void fill(const ArrayView& block) override {
    require_host(block);
    reader_.fill(block);
  }

  // Chunks in turn, each read and unpacked once; a part of one may hold a part of the channels.
  bool visit(int rank, int ranks, const Visit& visit) override {
    std::vector<double> dense;
    int turn = 0;
    for (const Hdf5Reader::Group& group : reader_.groups(about_.box, Hdf5Reader::kBandBytes / 4 / 8)) {
      if (turn++ % ranks != rank) continue;
      for (const Hdf5Reader::Piece& piece : group) {
        beat();
        dense.resize(static_cast<std::size_t>(piece.elements()));
        reader_.read(piece, dense.data());
        visit(dense.data(), std::ssize(dense));
      }
    }
    return info_.channels == 1;
  }

 private:
  // What HDF5's images and NeXus say that changes what samples mean, and is not followed.
  void note_words() {
    const auto add = [&](const std::string& text) {
      info_.note += concat(info_.note.empty() ? "" : "; ", where_, text);
    };
    const std::string kind = file_.text_attribute(dataset_, "IMAGE_SUBCLASS").value_or("");
    if (kind == "IMAGE_INDEXED")
      add(": its samples are indices of a palette (IMAGE_INDEXED), taken as stored: look its colors up "
          "first");
    else if (file_.number_attribute(dataset_, "IMAGE_WHITE_IS_ZERO").value_or(0) != 0)
      add(": its attributes call the smallest value white: samples are taken as stored, not inverted");
    const std::size_t slash = dataset_.rfind('/');
    const std::string group = dataset_.substr(0, slash + 1);
    for (const std::string& errors : {dataset_ + "_errors", group + "errors", dataset_ + "_error"})
      if (file_.has(errors))
        return add(concat(": deviations of its samples stand in ", errors,
                          ", and are not used: 1 / their squares are "
                          "weights (problem.weights)"));
  }

  Hdf5File file_;
  Hdf5Choice choice_;
  const std::string &dataset_, &where_;
  const DatasetInfo& about_;
  Hdf5Reader reader_;
};

class Hdf5Sink final : public ImageSink {
 public:
  Hdf5Sink(const std::string& path, const ImageRecord& record, const Communicator& comm)
      : comm_(comm), record_(record), file_(Hdf5File::create(path, comm)) {
    const Box& whole = record_.space.box;
    if (record_.compression == "gzip")
      packed_ = std::make_unique<PackedChunks>(path, whole.shift(Index3{} - whole.lo()),
                                               record_.space.channels, record_.bits == 64, comm);
  }

  Index3 chunk() const override { return packed_ ? packed_->side() : Index3{}; }
  void write_chunk(const ArrayView& chunk) override {
    ArrayView moved = chunk;
    moved.box = chunk.box.shift(Index3{} - record_.space.box.lo());
    packed_->add(moved);
  }

  void write_block(const ArrayView& block) override {
    const Box& whole = record_.space.box;
    const Index3 back = Index3{} - whole.lo();
    ArrayView moved = block;
    moved.box = block.box.shift(back);
    file_.write(kImage, whole.shift(back), moved);
  }

  void finish() override {
    if (packed_) packed_->write(file_, kImage);
    if (record_.says_scale) {
      file_.set_attribute(kImage, "units", std::string("file"));
      file_.set_attribute(kImage, "offset", record_.offset);
      file_.set_attribute(kImage, "factor", record_.factor);
      if (const ToneCurve& curve = record_.curve; curve.kind() == ToneCurve::Kind::srgb)
        file_.set_attribute(kImage, "curve", std::string("srgb"));
      else if (!curve.none())
        file_.set_attribute(kImage, "gamma", curve.gamma());
    }
    write_words(file_, kImage, record_.space);
    for (std::size_t d = 0; d < 3; ++d)  // where it begins in what it is a part of
      file_.set_attribute(kImage, concat("origin_", d), static_cast<double>(record_.space.box.lo()[d]));
    Metadata metadata = record_.metadata;
    move_place(metadata.text, record_.space);
    std::erase_if(metadata.text, [&](const auto& pair) {
      return pair.first == kTranslation && numbers_of({pair}, kTranslation, 3) == std::vector<double>(3, 0);
    });
    write_metadata(file_, metadata, comm_);
    file_.set_attribute("/", "tessera_version", version());
    file_.set_attribute("/", "schema", 1.0);
    file_.close();
  }

 private:
  static constexpr const char* kImage = "/image";
  Communicator comm_;
  ImageRecord record_;
  Hdf5File file_;
  std::unique_ptr<PackedChunks> packed_;
};

std::vector<std::pair<std::string, std::string>> list_hdf5(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> out;
  const Hdf5File file = Hdf5File::open(path, Communicator());
  if (is_imaris(file)) return list_imaris(file);
  for (const std::string& object : objects(file))
    if (const std::vector<std::int64_t> shape = shape_of(file, object); shape.size() >= 2)
      out.emplace_back(object, shape_text(shape));
  return out;
}

std::unique_ptr<ImageSource> open_hdf5_image(const std::string& path, const std::string& part) {
  Hdf5File file = Hdf5File::open(path, Communicator());
  if (is_imaris(file)) return imaris_source(std::move(file), path, part);
  return std::make_unique<Hdf5Source>(std::move(file), path, part);
}

ImageFormat read_only(const char* name, std::vector<std::string> suffixes) {
  ImageFormat f;
  f.name = name;
  f.suffixes = std::move(suffixes);
  f.parts = true;
  f.open = open_hdf5_image;
  f.list = list_hdf5;
  f.picture = false;
  return f;
}

}  // namespace

ImageFormat hdf5_format() {
  ImageFormat f = read_only("HDF5", {".h5", ".hdf5", ".hdf", ".nxs", ".nx"});
  f.measurements = true;
  f.create = [](const std::string& file, const ImageRecord& record, const Communicator& comm) {
    return std::make_unique<Hdf5Sink>(file, record, comm);
  };
  f.shared = true;
  f.bits = {32, 64};
  f.volumes = true;
  f.picture = true;
  return f;
}

std::vector<ImageFormat> hdf5_kinds() {
  return {read_only("netCDF", {".nc", ".nc4"}), read_only("MATLAB", {".mat"}), read_only("Imaris", {".ims"})};
}

}  // namespace tessera::io
