// SPDX-License-Identifier: BSD-3-Clause
// Arrays of .npy and HDF5 as other programs write them: which axis is which, which dataset is meant, chunks
// and filters, missing values, and what is said where a file cannot be read.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/measurement_file.hpp"

namespace tessera {
namespace {

// h5py writes the files, once; false where .venv has none. Every sample is c + 10 z + 100 y + 10000 x.
bool write_files() {
  const char* folder = std::getenv("TESSERA_SOURCE_DIR");
  const std::string python = std::string(folder ? folder : ".") + "/.venv/bin/python";
  if (std::system((python + " -c 'import h5py' > /dev/null 2>&1").c_str()) != 0) return false;
  write_text("arrays.py", R"(import json, h5py, numpy as np
def made(shape, letters):
    grid = dict(zip(letters, np.indices(shape)))
    return sum(grid.get(k, 0) * w for k, w in zip("czyx", (1, 10, 100, 10000))) + 0.0 * np.zeros(shape)
for name, shape in {"bands_last": (60, 70, 5), "bands_31": (60, 70, 31), "square": (60, 60, 70), "rgb": (60, 70, 3),
                    "volume_last": (6, 60, 70, 1), "batch": (1, 60, 70, 3), "volume_bands": (6, 60, 70, 5), "five": (1, 1, 5, 60, 70),
                    "slabs": (1, 60, 70, 7), "batch_31": (1, 62, 70, 31)}.items():
    np.save(name + ".npy", np.zeros(shape, np.float32))
for name, (shape, letters) in {"gray": ((60, 70), "yx"), "first": ((5, 60, 70), "cyx"), "many": ((20, 25, 31), "cyx"), "square_first": ((31, 15, 15), "cyx"),
                               "said": ((60, 1, 70, 5), "czyx"), "volume": ((1, 8, 60, 70), "czyx"), "thick": ((2, 67, 70, 65), "czyx"),
                               "rows": ((3, 40, 2), "cyx"), "tiny": ((2, 5, 3), "cyx")}.items():
    np.save(name + ".npy", made(shape, letters).astype(np.float32))
np.save("half.npy", np.array([[1.5, -2.0, 6e-8], [np.inf, np.nan, 65504.0]], ">f2"))
with h5py.File("axes.h5", "w") as f:
    def put(name, shape, letters, **attributes):
        d = f.create_dataset(name, data=made(shape, letters), chunks=tuple(min(n, 16) for n in shape), compression="gzip")
        d.attrs.update(attributes)
        return d
    put("ilastik", (6, 60, 70, 1), "zyxc", axistags=json.dumps({"axes": [{"key": k} for k in "zyxc"]}))
    put("frames", (1, 6, 60, 70, 2), "tzyxc", axistags=json.dumps({"axes": [{"key": k} for k in "tzyxc"]}))
    put("movie", (4, 60, 70), "tyx", axistags=json.dumps({"axes": [{"key": k} for k in "tyx"]}))
    d = put("labels", (60, 70, 5), "yxc")
    for k, label in enumerate(("Y", "columns", "wavelength")):
        d.dims[k].label = label
    put("last_label", (60, 70, 5), "yxc").dims[2].label = "c"
    put("turned", (70, 60), "xy").dims[0].label = "x"
    f["turned"].dims[1].label = "y"
    put("stack", (6, 60, 70), "zyx").dims[0].label = "z"
    put("pixel", (60, 70, 3), "yxc", CLASS=np.bytes_("IMAGE"), INTERLACE_MODE=np.bytes_("INTERLACE_PIXEL"))
    put("line", (60, 3, 70), "ycx", CLASS=np.bytes_("IMAGE"), INTERLACE_MODE=np.bytes_("INTERLACE_LINE"))
    put("spectrum", (60, 70, 9), "yxc", interpretation="spectrum")
    put("rgba", (60, 70, 4), "yxc", interpretation="rgba-image")
    put("exposures", (60, 60, 70), "cyx", interpretation="image")
    put("letters", (60, 70, 5), "yxc", axes="yxc")
    put("old", (60, 70, 5), "yxc", axes="y:x:energy")
    put("unknown", (5, 60, 70), "cyx", axes="polarisation:y_pixel:x_pixel")
    d = put("scales", (60, 70, 5), "yxc")
    for k, name in enumerate(("y", "x", "band")):
        f[name] = np.arange(d.shape[k])
        f[name].make_scale(name)
        d.dims[k].attach_scale(f[name])
    put("plain", (60, 70, 5), "yxc")
    d = put("fill", (60, 70), "yx", _FillValue=np.float64(10000.0))
with h5py.File("values.h5", "w") as f:
    y = made((60, 70), "yx") / 10000 + 1            # 1 to 70.59
    hole, more = np.zeros(y.shape, bool), np.zeros(y.shape, bool)
    hole[20:30, 5:25], more[40:45, 60:] = True, True   # 200 and 50 samples
    for name, a, attributes in (
            ("double", np.where(hole, np.float32(-9999.9), y).astype("f4"), {"missing_value": -9999.9}),
            ("narrow", np.where(hole, np.float64(np.float32(1e20)), y), {"_FillValue": np.float32(1e20)}),
            ("half", np.where(hole, np.float16(-999.9), y).astype("f2"), {"missing_value": -999.9}),
            ("both", np.where(hole, 1e20, np.where(more, -999, y)).astype("f4"), {"_FillValue": np.float32(1e20), "missing_value": -999}),
            ("list", np.where(hole, 1e20, np.where(more, -999, y)).astype("f4"), {"missing_value": np.array([1e20, -999])}),
            ("text", np.where(hole, -5, y).astype("f4"), {"missing_value": "-5"}),
            ("valid", np.where(hole, -50, y).astype("f4"), {"valid_min": 0.0, "valid_max": 100}),
            ("range", np.where(hole, 500, y).astype("f4"), {"valid_range": np.array([0, 100], "f4")}),
            ("packed", np.where(hole, -32768, np.rint(y * 100)).astype("i2"), {"scale_factor": 0.01, "add_offset": 0.0, "_FillValue": np.int16(-32768)}),
            ("shifted", np.where(hole, 0, np.rint((y - 1) * 100) + 1).astype("u2"), {"scale_factor": 0.01, "add_offset": 0.99, "valid_min": 0.995}),
            ("unsigned", np.where(hole, 255, np.rint(y)).astype("u1").view("i1"), {"_Unsigned": "true", "_FillValue": np.int8(-1)})):
        f[name] = a
        f[name].attrs.update(attributes)
    f["counts"], f["counts_scaling_factor"], f["counts_offset"] = np.rint(y * 100).astype("i4"), 0.01, 0.0
    f["odd"] = y
    f["odd"].attrs["valid_range"], f["odd"].attrs["missing_value"] = "none", [1, 2, 3]
    f["zero"] = y
    f["zero"].attrs["scale_factor"] = 0.0
with h5py.File("storage.h5", "w") as f:
    f.create_dataset("chunks", shape=y.shape, dtype="f4", chunks=(20, 70))[:40] = y[:40]
    f.create_dataset("packed", shape=y.shape, dtype="f4", chunks=(16, 16), compression="gzip")[:, :33] = y[:, :33]
    f.create_dataset("never", shape=y.shape, dtype="f4")
    f.create_dataset("nothing", shape=y.shape, dtype="f4", chunks=(20, 70))
    f["top"] = y[:30]
    f["short"] = y[30:50]
    for name, source, there in (("absent", "not_there", 30), ("cut", "short", 30), ("inner", "chunks", 60)):
        layout = h5py.VirtualLayout(shape=y.shape, dtype="f4")
        if there == 30:
            layout[:30] = h5py.VirtualSource(".", "top", shape=(30, 70))
            layout[30:] = h5py.VirtualSource(".", source, shape=(30, 70))
        else:
            layout[:] = h5py.VirtualSource(".", source, shape=y.shape)
        f.create_virtual_dataset(name, layout)
    layout = h5py.VirtualLayout(shape=y.shape, dtype="f4")
    layout[:30] = h5py.VirtualSource(".", "top", shape=(30, 70))
    layout[40:50, 10:20] = h5py.VirtualSource(".", "top", shape=(30, 70))[:10, :10]
    f.create_virtual_dataset("part", layout)
    f.create_dataset("outside", shape=y.shape, dtype="f4", external=[("raw.bin", 0, 4 * y.size)])[...] = y
open("raw.bin", "r+b").truncate(4 * y.size // 2)
with h5py.File("nexus.h5", "w") as f:
    f.attrs["default"] = "entry"
    f.create_group("entry").attrs["default"] = "data"
    g = f.create_group("entry/data")
    g.attrs["NX_class"], g.attrs["signal"], g.attrs["axes"] = "NXdata", "counts", ["y", "x", "energy"]
    g["counts"] = made((60, 70, 5), "yxc")
    f["entry/other"] = np.zeros((7, 9))
with h5py.File("one_signal.h5", "w") as f:
    f["scan/detector/frame"] = made((60, 70), "yx")
    f["scan/detector"].attrs["signal"] = "frame"
    f["scan/flat"] = np.ones((60, 70))
with h5py.File("nameless.h5", "w") as f:
    f["exported_data"] = np.zeros((6, 60, 70))
    f["deep/er/mask"] = np.zeros((60, 70), bool)
    f["list"], f["text"] = np.zeros(9), "no"
with h5py.File("measured_last.h5", "w") as f:
    f["measurements/0"] = np.zeros((60, 70, 5), np.float32)
with h5py.File("lzf.h5", "w") as f:
    f.create_dataset("image", data=made((60, 70), "yx"), compression="lzf")
with h5py.File("part.h5", "w") as f:
    f["image"] = np.ones((30, 70))
layout = h5py.VirtualLayout((60, 70), "f8")
layout[:30] = h5py.VirtualSource("part.h5", "image", (30, 70))
layout[30:] = h5py.VirtualSource("no_such_part.h5", "image", (30, 70))
with h5py.File("virtual.h5", "w", libver=("v110", "v110")) as f:
    f.create_virtual_dataset("image", layout)
)");
  return std::system((python + " arrays.py").c_str()) == 0;
}

struct Shape {
  std::int64_t channels, depth, height, width;
};

// What the file holds, read in uneven blocks of rows and slices.
void expect_read(const std::string& path, const Shape& s, const Communicator& comm) {
  SCOPED_TRACE(path);
  const SourceInfo info = image_source_info(path, comm);
  ASSERT_EQ(info.channels, s.channels);
  ASSERT_EQ(info.box, Box({0, 0, 0}, {s.depth, s.height, s.width}));
  std::vector<Box> boxes;
  for (std::int64_t r = 0, n = comm.size(); r < n; ++r)
    boxes.emplace_back(Index3{0, s.height * r / n, r % 2}, Index3{s.depth, s.height * (r + 1) / n, s.width});
  const Layout layout(boxes);
  ArrayView view;
  const Box& box = view.box = layout.box(comm.rank());
  std::vector<double> values(static_cast<std::size_t>(box.pixels() * s.channels), -7);
  view.data = values.data();
  view.channels = s.channels;
  view.stride = {box.extent(1) * box.extent(2), box.extent(2), 1};
  view.channel_stride = box.pixels();
  view.type = ElementType::float64;
  read_image(path, layout, view, comm);
  std::size_t at = 0;
  int wrong = 0;
  for (std::int64_t c = 0; c < s.channels; ++c)
    for (std::int64_t z = box.lo()[0]; z < box.hi()[0]; ++z)
      for (std::int64_t y = box.lo()[1]; y < box.hi()[1]; ++y)
        for (std::int64_t x = box.lo()[2]; x < box.hi()[2]; ++x)
          wrong += values[at++] != static_cast<double>(c + 10 * z + 100 * y + 10000 * x);
  EXPECT_EQ(wrong, 0);
}

std::string refusal(const std::string& path, const Communicator& comm) {
  try {
    const SourceInfo info = image_source_info(path, comm);
    visit_samples(path, comm, [](const double*, std::int64_t) {});
    return concat("was read as ", info.channels, " of ", info.box);
  } catch (const InputError& e) {
    return e.what();
  }
}

void expect_refused(const std::string& path, const std::vector<std::string>& says, const Communicator& comm) {
  const std::string message = refusal(path, comm);
  for (const std::string& text : says)
    EXPECT_NE(message.find(text), std::string::npos) << path << ": " << message;
  EXPECT_EQ(message, comm.broadcast(message, 0));
}

TEST(Arrays, AxesAndDatasetsAreThoseThatTheFileStates) {
  const Communicator world = Communicator::world();
  double written = world.rank() == 0 && write_files();
  world.all_reduce({&written, 1}, Reduce::max);
  if (written == 0) GTEST_SKIP() << "no h5py in .venv";
  test::on_groups([](const Communicator& comm) {
    for (const auto& [name, shape] :
         std::vector<std::pair<std::string, Shape>>{{"gray", {1, 1, 60, 70}},
                                                    {"first", {5, 1, 60, 70}},
                                                    {"many", {20, 1, 25, 31}},
                                                    {"square_first", {31, 1, 15, 15}},
                                                    {"said", {60, 1, 70, 5}},
                                                    {"volume", {1, 8, 60, 70}},
                                                    {"thick", {2, 67, 70, 65}},
                                                    {"rows", {3, 1, 40, 2}},
                                                    {"tiny", {2, 1, 5, 3}}})
      expect_read(name + ".npy", shape, comm);
    const Shape bands{5, 1, 60, 70};
    for (const auto& [name, shape] :
         std::vector<std::pair<std::string, Shape>>{{"ilastik", {1, 6, 60, 70}},
                                                    {"frames", {2, 6, 60, 70}},
                                                    {"labels", bands},
                                                    {"last_label", bands},
                                                    {"turned", {1, 1, 60, 70}},
                                                    {"stack", {1, 6, 60, 70}},
                                                    {"pixel", {3, 1, 60, 70}},
                                                    {"line", {3, 1, 60, 70}},
                                                    {"spectrum", {9, 1, 60, 70}},
                                                    {"rgba", {4, 1, 60, 70}},
                                                    {"exposures", {60, 1, 60, 70}},
                                                    {"letters", bands},
                                                    {"old", bands},
                                                    {"unknown", bands},
                                                    {"scales", bands}})
      expect_read("axes.h5:/" + name, shape, comm);
    expect_read("nexus.h5", bands, comm);
    expect_read("one_signal.h5", {1, 1, 60, 70}, comm);

    for (const std::string name : {"bands_last", "bands_31", "square", "rgb", "volume_last", "batch",
                                   "volume_bands", "slabs", "batch_31"})
      expect_refused(name + ".npy", {"channels stand first", "move its last axis", name}, comm);
    expect_refused("bands_last.npy", {"(60, 70, 5)", "(60, 1, 70, 5)"}, comm);
    expect_refused("five.npy", {"has 5 axes"}, comm);
    expect_refused("axes.h5:/plain", {"move its last axis", "label"}, comm);
    expect_refused("axes.h5:/movie", {"4 frames along its axis of time"}, comm);
    expect_refused("nameless.h5",
                   {"no dataset /image", "/exported_data (6, 60, 70)", "/deep/er/mask (60, 70)"}, comm);
    expect_refused("lzf.h5", {"lzf, filter 32000", "HDF5_PLUGIN_PATH", "h5repack"}, comm);
    expect_refused("virtual.h5", {"no_such_part.h5", "missing"}, comm);
    try {
      measurement_info("measured_last.h5", comm);
      ADD_FAILURE() << "bands last were taken";
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find("move its last axis"), std::string::npos) << e.what();
    }
    for (const auto& [path, says] :
         std::vector<std::pair<std::string, std::string>>{{"first.npy", "5 channels of 60 x 70"},
                                                          {"axes.h5:/ilastik", "axistags"},
                                                          {"nexus.h5", "/entry/data/counts is read"},
                                                          {"gray.npy", ""},
                                                          {"volume.npy", ""}}) {
      const std::string note = image_source_info(path, comm).note;
      EXPECT_TRUE(says.empty() ? note.empty() : note.find(says) != std::string::npos) << path << ": " << note;
    }
    comm.barrier();
  });
  if (test::other_rank()) return;
  std::vector<double> seen;
  visit_samples("half.npy", Communicator(), [&](const double* v, std::int64_t n) { seen.assign(v, v + n); });
  ASSERT_EQ(seen.size(), 6U);
  EXPECT_EQ(seen[0], 1.5);
  EXPECT_EQ(seen[1], -2);
  EXPECT_EQ(seen[2], std::ldexp(1, -24));
  EXPECT_TRUE(std::isinf(seen[3]) && std::isnan(seen[4]));
  EXPECT_EQ(seen[5], 65504);
  std::int64_t missing = 0, all = 0;
  visit_samples("axes.h5:/fill", Communicator(), [&](const double* v, std::int64_t n) {
    all += n;
    for (std::int64_t k = 0; k < n; ++k) missing += std::isnan(v[k]);
  });
  EXPECT_EQ(missing, 1);
  EXPECT_EQ(all, 60 * 70);
}

struct Seen {
  std::int64_t missing = 0, all = 0;
  double least = 1e300, most = -1e300;
};
Seen seen_in(const std::string& path, const Communicator& comm) {
  Seen s;
  visit_samples(path, comm, [&](const double* v, std::int64_t n) {
    s.all += n;
    for (std::int64_t k = 0; k < n; ++k) {
      if (std::isnan(v[k])) {
        ++s.missing;
        continue;
      }
      s.least = std::min(s.least, v[k]);
      s.most = std::max(s.most, v[k]);
    }
  });
  std::array<std::int64_t, 2> counts{s.missing, s.all};
  std::array<double, 2> ends{-s.least, s.most};
  comm.all_reduce(counts, Reduce::sum);
  comm.all_reduce(ends, Reduce::max);
  return {counts[0], counts[1], -ends[0], ends[1]};
}

TEST(Arrays, ValuesAndStorageAreThoseThatTheFileStates) {
  if (!std::ifstream("values.h5")) GTEST_SKIP() << "no h5py in .venv";
  test::on_groups([](const Communicator& comm) {
    for (const auto& [name, missing] : std::vector<std::pair<std::string, std::int64_t>>{{"double", 200},
                                                                                         {"narrow", 200},
                                                                                         {"half", 200},
                                                                                         {"both", 250},
                                                                                         {"list", 250},
                                                                                         {"text", 200},
                                                                                         {"valid", 200},
                                                                                         {"range", 200},
                                                                                         {"packed", 200},
                                                                                         {"shifted", 200},
                                                                                         {"unsigned", 200},
                                                                                         {"counts", 0}}) {
      const Seen s = seen_in("values.h5:/" + name, comm);
      EXPECT_EQ(s.all, 60 * 70);
      EXPECT_EQ(s.missing, missing) << name;
      EXPECT_NEAR(s.least, 1, 0.02) << name;
      EXPECT_NEAR(s.most, 70.59, name == "unsigned" ? 0.5 : 0.05) << name;
      const SourceInfo info = image_source_info("values.h5:/" + name, comm);
      EXPECT_NE(info.note.find(name), std::string::npos) << name << ": " << info.note;
      EXPECT_EQ(info.type.starts_with("float"), name != "unsigned") << name << ": " << info.type;
    }
    EXPECT_NE(image_source_info("values.h5:/odd", comm).note.find("valid_range is not followed"),
              std::string::npos);
    expect_refused("values.h5:/zero", {"the scale 0", "scale_factor"}, comm);

    for (const auto& [name, missing] : std::vector<std::pair<std::string, std::int64_t>>{
             {"chunks", 20 * 70}, {"packed", 60 * 22}, {"part", 30 * 70 - 100}}) {
      EXPECT_EQ(seen_in("storage.h5:/" + name, comm).missing, missing) << name;
      EXPECT_NE(image_source_info("storage.h5:/" + name, comm).note.find("missing ones"), std::string::npos)
          << name;
    }
    for (const std::string name : {"never", "nothing"})
      expect_refused("storage.h5:/" + name, {name, "nothing was ever written"}, comm);
    for (const std::string name : {"absent", "inner"})
      expect_refused("storage.h5:/" + name, {name, "would read as empty"}, comm);
    expect_refused("storage.h5:/cut", {"storage.h5:/cut", "is the file complete"}, comm);
    expect_refused("storage.h5:/outside", {"raw.bin", "8400 of 16800 bytes"}, comm);
    comm.barrier();
  });
}

std::atomic<std::int64_t> unpacked = 0;  // chunks

// A filter that changes nothing and counts.
std::size_t count_chunks(unsigned flags, std::size_t, const unsigned*, std::size_t bytes, std::size_t*,
                         void**) {
  if (flags & H5Z_FLAG_REVERSE) ++unpacked;
  return bytes;
}
constexpr H5Z_filter_t kFilter = 300;

void know_filter() {
  H5Z_class2_t filter{};
  filter.version = H5Z_CLASS_T_VERS;
  filter.id = kFilter;
  filter.encoder_present = filter.decoder_present = 1;
  filter.name = "counted; for a test";
  filter.filter = count_chunks;
  ASSERT_GE(H5Zregister(&filter), 0);
}

void write_chunks(const std::string& path, const std::vector<hsize_t>& shape,
                  const std::vector<hsize_t>& chunk) {
  Hdf5File file = Hdf5File::create(path, Communicator());
  const int axes = static_cast<int>(shape.size());
  const H5Handle space(H5Screate_simple(axes, shape.data(), nullptr), H5Sclose);
  const H5Handle how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(how.get(), axes, chunk.data());
  H5Pset_filter(how.get(), kFilter, H5Z_FLAG_MANDATORY, 0, nullptr);
  const H5Handle set(
      H5Dcreate2(file.id(), "image", H5T_STD_U16LE, space.get(), H5P_DEFAULT, how.get(), H5P_DEFAULT),
      H5Dclose);
  hsize_t n = 1;
  for (const hsize_t s : shape) n *= s;
  std::vector<std::uint16_t> values(n);
  for (std::size_t k = 0; k < n; ++k) values[k] = static_cast<std::uint16_t>(k * 7 % 65521);
  ASSERT_GE(H5Dwrite(set.get(), H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  file.close();
}

TEST(Arrays, EachChunkIsUnpackedOnceForEachRankThatNeedsIt) {
  know_filter();
  struct Case {
    std::vector<hsize_t> shape, chunk;
  };
  // Channels, slices and columns cut; several pieces of 32 MiB; one chunk for all, larger than a piece.
  const std::vector<Case> cases{{{64, 300, 260}, {64, 64, 64}},
                                {{3, 70, 90, 80}, {2, 64, 64, 64}},
                                {{40, 1200, 300}, {40, 100, 300}},
                                {{20, 900, 1000}, {20, 900, 1000}},
                                {{900, 1000}, {900, 1}}};
  for (std::size_t k = 0; k < cases.size() && !test::other_rank(); ++k)
    write_chunks(concat("chunks_", k, ".h5"), cases[k].shape, cases[k].chunk);
  Communicator::world().barrier();
  test::on_groups({1, 2, 3}, [&](const Communicator& comm) {
    for (std::size_t k = 0; k < cases.size(); ++k) {
      const auto& [shape, chunk] = cases[k];
      const std::string path = concat("chunks_", k, ".h5");
      SCOPED_TRACE(path);
      Hdf5File file = Hdf5File::open(path, comm);
      const DatasetInfo info = file.info("/image");
      // Blocks of rows.
      const std::int64_t height = info.box.extent(1), first = height * comm.rank() / comm.size();
      const Box box({0, first, 0},
                    {info.box.extent(0), height * (comm.rank() + 1) / comm.size(), info.box.extent(2)});
      std::vector<float> values(static_cast<std::size_t>(box.pixels() * info.channels));
      ArrayView view;
      view.data = values.data();
      view.box = box;
      view.channels = info.channels;
      view.stride = {box.extent(1) * box.extent(2), box.extent(2), 1};
      view.channel_stride = box.pixels();
      std::int64_t wanted = 1;  // chunks that meet the block
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const bool rows = d + 2 == shape.size();
        const hsize_t lo = rows ? static_cast<hsize_t>(first) : 0;
        const hsize_t hi = rows ? static_cast<hsize_t>(box.hi()[1]) : shape[d];
        wanted *= static_cast<std::int64_t>((hi - 1) / chunk[d] - lo / chunk[d] + 1);
      }
      unpacked = 0;
      file.read("/image", view);
      EXPECT_EQ(unpacked, wanted);
      std::int64_t wrong = 0, at = 0;
      const std::int64_t width = info.box.extent(2);
      for (std::int64_t plane = 0; plane < info.channels * info.box.extent(0); ++plane)
        for (std::int64_t y = first; y < box.hi()[1]; ++y)
          for (std::int64_t x = 0; x < width; ++x)
            wrong += values[static_cast<std::size_t>(at++)] !=
                     static_cast<float>(((plane * height + y) * width + x) * 7 % 65521);
      EXPECT_EQ(wrong, 0);

      std::int64_t all = 1, elements = 1;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        all *= static_cast<std::int64_t>((shape[d] - 1) / chunk[d] + 1);
        elements *= static_cast<std::int64_t>(shape[d]);
      }
      std::array<std::int64_t, 2> seen{};
      unpacked = 0;
      visit_samples(path, comm, [&](const double*, std::int64_t n) { seen[1] += n; });
      seen[0] = unpacked;
      comm.all_reduce(seen, Reduce::sum);
      EXPECT_EQ(seen[0], all);
      EXPECT_EQ(seen[1], elements);
      comm.barrier();
    }
  });
}

TEST(Arrays, WhatCannotBeReadSaysWhy) {
  if (test::other_rank()) return;
  know_filter();
  write_chunks("filtered.h5", {90, 80}, {45, 80});
  H5Zunregister(kFilter);
  expect_refused("filtered.h5", {"counted, filter 300", "HDF5_PLUGIN_PATH", "h5repack"}, Communicator());
  EXPECT_EQ(refusal("filtered.h5", Communicator()).find("complete"), std::string::npos);
  std::string bytes = read_text("filtered.h5");
  bytes[8] = 9;  // the version of the superblock
  std::ofstream("newer.h5", std::ios::binary) << bytes;
  expect_refused("newer.h5", {"newer HDF5 than this one"}, Communicator());
  EXPECT_EQ(refusal("newer.h5", Communicator()).find("complete"), std::string::npos);
}

}  // namespace
}  // namespace tessera
