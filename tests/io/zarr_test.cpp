// SPDX-License-Identifier: BSD-3-Clause
// Zarr stores: those of other programs, those made by hand, and ours.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "io/zarr_stores.hpp"
#include "support/block.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

Layout cut_in(const Box& box, int ranks) { return test::grid_layout(box, test::square_grid(ranks)); }

// The samples of an image, each rank its box, and by pieces: those whose value differs.
template <class Wanted>
std::int64_t wrong_in(const std::string& path, const Communicator& comm, Wanted wanted) {
  const SourceInfo info = image_source_info(path, comm);
  const Layout layout = cut_in(info.box, comm.size());
  test::Block<double> block(layout.box(comm.rank()), info.channels, ElementType::float64, -1e9);
  read_image(path, layout, block.view(), comm);
  std::int64_t wrong = 0;
  const auto differs = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a != b; };
  block.for_each([&](std::int64_t c, const Index3& p, double v) { wrong += differs(v, wanted(c, p)); });
  const auto source = open_image(path);
  std::int64_t seen = 0;
  for (const Box& piece : source->pieces(info.box, 200)) {
    std::vector<float> values(static_cast<std::size_t>(piece.pixels() * info.channels));
    source->read_floats(piece, values.data());
    const float* v = values.data();
    for (std::int64_t c = 0; c < info.channels; ++c)
      for (std::int64_t z = piece.lo()[0]; z < piece.hi()[0]; ++z)
        for (std::int64_t y = piece.lo()[1]; y < piece.hi()[1]; ++y)
          for (std::int64_t x = piece.lo()[2]; x < piece.hi()[2]; ++x, ++v, ++seen)
            wrong += differs(static_cast<double>(*v),
                             static_cast<double>(static_cast<float>(wanted(c, Index3{z, y, x}))));
  }
  return wrong + (seen == info.values() ? 0 : 1);
}

std::string refusal(const std::string& path) {
  try {
    open_image(path)->info();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Zarr, StoresOfOtherProgramsAreReadOnAnyRanks) {
  const std::vector<std::string> names{"v2_blosc_f",   "v2_zstd_big",  "v2_zlib_half",   "v2_plain",
                                       "v2_gzip_fill", "v3_blosc",     "v3_zstd_bool",   "v3_gzip_crc",
                                       "v3_turned",    "v3_shard_end", "v3_shard_start", "tensorstore_2",
                                       "tensorstore_3"};
  const Communicator world = Communicator::world();
  if (world.rank() == 0)
    for (const std::string& name : names) test::unpack_store(name, "other_" + name + ".zarr");
  world.barrier();
  const std::map<std::string, std::string> types{
      {"v2_zstd_big", "int16"},    {"v2_zlib_half", "float16"}, {"v2_plain", "float64"},
      {"v2_gzip_fill", "uint8"},   {"v3_zstd_bool", "bool"},    {"v3_gzip_crc", "float64"},
      {"v3_turned", "int64"},      {"v3_shard_end", "uint16"},  {"v3_shard_start", "int8"},
      {"tensorstore_2", "uint16"}, {"tensorstore_3", "uint16"}};
  test::on_groups([&](const Communicator& comm) {
    for (const std::string& name : names) {
      SCOPED_TRACE(name);
      const std::string path = "other_" + name + ".zarr";
      const SourceInfo info = image_source_info(path, comm);
      const auto type = types.find(name);
      EXPECT_EQ(info.type, type == types.end() ? "float32" : type->second);
      EXPECT_EQ(info.box.extent(1), 9);
      EXPECT_EQ(info.box.extent(2), 11);
      EXPECT_EQ(wrong_in(path, comm,
                         [&](std::int64_t c, const Index3& p) {
                           if (name == "v2_gzip_fill" && p[1] >= 4 && p[1] < 8 && p[2] < 6) return 7.0;
                           return test::stored_value((c * 9 + p[1]) * 11 + p[2], info.type);
                         }),
                0);
    }
  });
  if (world.rank() > 0) return;
  EXPECT_NE(open_image("other_v2_gzip_fill.zarr")->info().note.find("1 of its 6 files are not stored"),
            std::string::npos);
}

TEST(Zarr, WhatGroupsSayIsFollowed) {
  if (test::other_rank()) return;
  for (const std::string name : {"ome_zarr_04", "ome_zarr_05", "ngff_zarr_04", "ngff_zarr_05"})
    test::unpack_store(name, "said_" + name);  // the suffix is no part of it
  for (const std::string path : {"said_ome_zarr_04", "said_ome_zarr_05"}) {
    SCOPED_TRACE(path);
    const auto image = open_image(path);
    EXPECT_EQ(image->info().box, Box({0, 0, 0}, {3, 10, 12}));
    EXPECT_EQ(image->info().channel_names, (std::vector<std::string>{"DAPI", "GFP"}));
    EXPECT_EQ(image->info().type, "uint16");
    EXPECT_EQ(image->info().grid[2].spacing, 0) << "a scale of 1 without a unit is nobody's";
    const auto value = [](std::int64_t c, const Index3& p) {
      return test::stored_value(((c * 3 + p[0]) * 10 + p[1]) * 12 + p[2], "uint16");
    };
    EXPECT_EQ(wrong_in(path, Communicator(), value), 0);
    EXPECT_EQ(wrong_in(path + ":/s0/c1", Communicator(),
                       [&](std::int64_t, const Index3& p) { return value(1, p); }),
              0);
    EXPECT_EQ(open_image(path + ":/c1")->info().channel_names, (std::vector<std::string>{"GFP"}));
    EXPECT_EQ(wrong_in(path + ":/t0/z2/c0", Communicator(),
                       [&](std::int64_t, const Index3& p) {
                         return value(0, {2, p[1], p[2]});
                       }),
              0);
    EXPECT_EQ(wrong_in(path + ":/labels/cells", Communicator(),
                       [&](std::int64_t, const Index3& p) { return std::fmod(value(0, p), 3); }),
              0);
    const auto half = open_image(path + ":/1");
    EXPECT_EQ(half->info().box, Box({0, 0, 0}, {3, 5, 6}));
    EXPECT_EQ(half->info().grid[1].spacing, 2);
    EXPECT_EQ(half->metadata().text, (Metadata{{}, {{"translation", "0 0.5 0.5"}}}.text));
    EXPECT_EQ(open_image(path + "/s1")->info().grid[2].spacing, 2) << "the folder of a level knows its group";
    EXPECT_NE(refusal(path + ":/3").find("there is no level 3 (levels are counted from 0; it has 2: s0, s1)"),
              std::string::npos);
    EXPECT_NE(refusal(path + ":/c2").find("the axis c has 2 positions"), std::string::npos);
    EXPECT_NE(refusal(path + ":/labels").find("name an array or an image of it: " + path + ":/labels/cells"),
              std::string::npos)
        << refusal(path + ":/labels");
    EXPECT_NE(refusal(path + ":/dapi").find("there is no dapi"), std::string::npos);
  }
  for (const std::string path : {"said_ngff_zarr_04", "said_ngff_zarr_05"}) {
    SCOPED_TRACE(path);
    const auto image = open_image(path);
    EXPECT_EQ(image->info().grid[1], (ImageSpace::Axis{"y", 0.5, "\u00b5m"}));
    EXPECT_EQ(image->info().grid[2], (ImageSpace::Axis{"x", 0.25, "nm"}));
    EXPECT_EQ(image->metadata().text, (Metadata{{}, {{"translation", "0 3 -1"}}}.text));
    EXPECT_EQ(open_image(path + ":/1")->metadata().text,
              (Metadata{{}, {{"translation", "0 3.25 -0.875"}}}.text));
    EXPECT_EQ(open_image(path + ":/scale1/image")->info().grid[2].spacing, 0.5);
    EXPECT_EQ(wrong_in(path, Communicator(),
                       [&](std::int64_t, const Index3& p) {
                         return test::stored_value(p[1] * 10 + p[2], "float32");
                       }),
              0);
  }
}

// OME's attributes around one array; `axes` and `sets` are JSON.
void put_image(const std::string& folder, const std::vector<std::int64_t>& shape, const std::string& axes,
               const std::string& moves, const std::string& common = "[]") {
  fs::remove_all(folder);
  test::put_file(folder + "/.zgroup", R"({"zarr_format":2})");
  test::put_file(folder + "/.zattrs", R"({"multiscales":[{"version":"0.4","axes":)" + axes +
                                          R"(,"datasets":[{"path":"0","coordinateTransformations":)" + moves +
                                          R"(}],"coordinateTransformations":)" + common + "}]}");
  test::put_array(folder + "/0", shape);
}

TEST(Zarr, AxesMayStandInAnyOrderAndScalesInTwoPlaces) {
  if (test::other_rank()) return;
  put_image("by_hand.zarr", {4, 3, 2, 5},
            R"([{"name":"x","type":"space","unit":"meter"},{"name":"lambda","type":"channel"},)"
            R"({"name":"phase"},{"name":"y","type":"space","unit":"parsec"}])",
            R"([{"type":"scale","scale":[2,1,1,3]},{"type":"translation","translation":[5,0,0,7]}])",
            R"([{"type":"scale","scale":[10,1,1,100]},{"type":"translation","translation":[0.5,0,0,0]}])");
  EXPECT_NE(refusal("by_hand.zarr")
                .find("has 2 positions along its axis phase (one image is reconstructed) name one, "
                      "counted from 0: by_hand.zarr:/phase0"),
            std::string::npos)
      << refusal("by_hand.zarr");
  const auto image = open_image("by_hand.zarr:/phase1");
  EXPECT_EQ(image->info().box, Box({0, 0, 0}, {1, 5, 4}));
  EXPECT_EQ(image->info().channels, 3);
  EXPECT_EQ(image->info().grid[1], (ImageSpace::Axis{"y", 300, "parsec"}));
  EXPECT_EQ(image->info().grid[2], (ImageSpace::Axis{"x", 20, "m"}));
  EXPECT_EQ(image->metadata().text, (Metadata{{}, {{"translation", "0 700 50.5"}}}.text));
  EXPECT_EQ(wrong_in("by_hand.zarr:/0/phase1", Communicator(),
                     [](std::int64_t c, const Index3& p) {
                       return static_cast<double>(((p[2] * 3 + c) * 2 + 1) * 5 + p[1]);
                     }),
            0);
  put_image("frames.zarr", {3, 4, 5},
            R"([{"name":"t","type":"time"},{"name":"y","type":"space"},{"name":"x","type":"space"}])",
            R"([{"type":"scale","scale":[1,1,1]}])");
  EXPECT_NE(refusal("frames.zarr").find("frames.zarr:/t0"), std::string::npos);
  EXPECT_EQ(open_image("frames.zarr:/t2")->info().box, Box::image2d(4, 5));
  // A series, as bioformats2raw writes it.
  fs::remove_all("series.zarr");
  for (const char* k : {"0", "1"}) {
    put_image(concat("series.zarr/", k), {4, 5}, R"(["y","x"])", R"([{"type":"scale","scale":[1,1]}])");
  }
  test::put_file("series.zarr/.zgroup", R"({"zarr_format":2})");
  test::put_file("series.zarr/.zattrs", R"({"bioformats2raw.layout":3})");
  EXPECT_NE(refusal("series.zarr").find("holds several images (0, 1) name one: series.zarr:/0"),
            std::string::npos);
  EXPECT_EQ(open_image("series.zarr:/1/0")->info().box, Box::image2d(4, 5));
  fs::remove_all("series.zarr/1");
  EXPECT_EQ(open_image("series.zarr")->info().box, Box::image2d(4, 5));
}

TEST(Zarr, WhatCannotBeReadIsSaid) {
  if (test::other_rank()) return;
  const auto with = [](const std::string& from, const std::string& to) {
    fs::remove_all("bad.zarr");
    test::put_array("bad.zarr", {6, 8});
    std::stringstream text;
    text << std::ifstream("bad.zarr/.zarray").rdbuf();
    std::string all = text.str();
    const std::size_t at = all.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    test::put_file("bad.zarr/.zarray", all.replace(at, from.size(), to));
    return refusal("bad.zarr");
  };
  EXPECT_EQ(with("u1", "u1"), "");
  const std::vector<std::array<std::string, 3>> cases{
      {R"("|u1")", R"("<c8")", "its type is \"<c8\""},
      {R"("|u1")", R"([["r","|u1"]])", "its type is"},
      {"null", R"({"id":"lz4"})", "it is packed by lz4 (blosc, zstd, gzip, zlib and crc32c are known)"},
      {R"("filters":null)", R"("filters":[{"id":"delta"}])", "it has the filters"},
      {"[6,8]", "[6,0]", "lengths above 0 are needed"},
      {"[6,8]", "[6,8.5]", "lengths above 0 are needed"},
      {R"("chunks":[6,8])", R"("chunks":[600000,8000])", "its chunk (600000, 8000) has more than"},
      {R"("chunks":[6,8])", R"("chunks":[6])", "they have other numbers of axes"},
      {"[6,8]", "[4000000000,4000000000]", "its shape (4000000000, 4000000000) has more than"},
      {R"("order":"C")", R"("order":"Q")", "C or F is needed"},
      {R"("fill_value":0)", R"("fill_value":"red")", "its fill_value is"},
      {"{", "[", "it is no object of JSON"}};
  for (const auto& [from, to, words] : cases) {
    const std::string said = with(from, to);
    EXPECT_NE(said.find(words), std::string::npos) << from << " -> " << to << ": " << said;
  }
  EXPECT_EQ(with("u1", "u1"), "");
  const auto read = [] {
    std::array<double, 48> values{};
    open_image("bad.zarr")->read(Box::image2d(6, 8), values.data());
  };
  EXPECT_NO_THROW(read());
  test::put_file("bad.zarr/0.0", "short");
  EXPECT_THROW(read(), InputError);
  EXPECT_NE(with("null", R"({"id":"zlib"})"), "?");
  EXPECT_THROW(read(), InputError) << "no zlib there";
  fs::remove("bad.zarr/0.0");
  EXPECT_NE(refusal("bad.zarr").find("none of its chunks is stored"), std::string::npos);
  fs::create_directories("empty.zarr");
  EXPECT_NE(refusal("empty.zarr").find("and this one has no metadata"), std::string::npos);
  EXPECT_NE(refusal("none.zarr").find("there is none"), std::string::npos);
  test::put_file("zipped.zarr", "PK");
  EXPECT_NE(refusal("zipped.zarr").find("unpack it where it is zipped"), std::string::npos);
  put_image("leads.zarr", {4, 5}, R"(["y","x"])", "[]");
  test::put_file("leads.zarr/.zattrs", R"({"multiscales":[{"datasets":[{"path":"../by_hand.zarr/0"}]}]})");
  EXPECT_NE(refusal("leads.zarr").find("a level is an array below it"), std::string::npos);
}

// Names and contents of all files below a folder.
std::map<std::string, std::string> files_below(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::stringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    out[fs::relative(entry.path(), folder).string()] = text.str();
  }
  return out;
}

float drawn(std::int64_t c, const Index3& p) {
  return static_cast<float>((7 * c + 3 * p[0] + 11 * p[1] + 5 * p[2]) % 256) / 255;
}

void write_drawn(const std::string& path, const ImageRecord& record, const Communicator& comm,
                 ElementType type) {
  const Layout layout = cut_in(record.space.box, comm.size());
  const auto fill = [](std::int64_t c, const Index3& p, auto& v) {
    v = static_cast<std::decay_t<decltype(v)>>(drawn(c, p));
  };
  if (type == ElementType::float64) {
    test::Block<double> block(layout.box(comm.rank()), record.space.channels, type, 0);
    block.for_each(fill);
    write_image(path, record, layout, block.view(), comm);
  } else {
    test::Block<float> block(layout.box(comm.rank()), record.space.channels, type, 0);
    block.for_each(fill);
    write_image(path, record, layout, block.view(), comm);
  }
  comm.barrier();
}

// Each level from the one before, as doubles: the largest difference from its means.
double worst_mean(const std::string& path, int level, const Index3& step) {
  const auto fine = open_image(concat(path, ":/", level - 1)), coarse = open_image(concat(path, ":/", level));
  const Box a = fine->info().box, b = coarse->info().box;
  for (std::size_t d = 0; d < 3; ++d) EXPECT_EQ(b.extent(d), a.extent(d) / step[d]);
  std::vector<double> f(static_cast<std::size_t>(fine->info().values())),
      c(static_cast<std::size_t>(coarse->info().values()));
  fine->read(a, f.data());
  coarse->read(b, c.data());
  double worst = 0;
  std::size_t k = 0;
  for (std::int64_t n = 0; n < fine->info().channels; ++n)
    for (std::int64_t z = 0; z < b.extent(0); ++z)
      for (std::int64_t y = 0; y < b.extent(1); ++y)
        for (std::int64_t x = 0; x < b.extent(2); ++x, ++k) {
          double sum = 0;
          for (std::int64_t i = 0; i < step[0] * step[1] * step[2]; ++i) {
            const std::int64_t u = x * step[2] + i % step[2], v = y * step[1] + i / step[2] % step[1],
                               w = z * step[0] + i / (step[2] * step[1]);
            sum += f[static_cast<std::size_t>(((n * a.extent(0) + w) * a.extent(1) + v) * a.extent(2) + u)];
          }
          worst = std::max(worst, std::abs(c[k] - sum / static_cast<double>(step[0] * step[1] * step[2])));
        }
  return worst;
}

TEST(Zarr, OursHaveTheSameBytesOnAnyRanksAndMeansAtHalfPixels) {
  std::map<std::string, std::string> first;
  test::on_groups([&](const Communicator& comm) {
    for (const std::string version : {"0.4", "0.5"}) {
      SCOPED_TRACE(version);
      ImageRecord record{.space = ImageSpace(Box({2, 10, -3}, {2 + 66, 10 + 20, -3 + 130}), 2),
                         .version = version};
      record.space.grid = {{{"z", 1, "um"}, {"y", 0.5, "\u00b5m"}, {"x", 0.5, "\u00b5m"}}};
      record.space.channel_names = {"DAPI", "b & \"c\""};
      record.metadata.text = {
          {"translation", "1 0 100"}, {"objective", "63x"}, {"affine", "1 0 0 0 0 1 0 0 0 0 1 0"}};
      record.says_scale = true;
      record.factor = 4095;
      record.offset = 100;
      fs::create_directories(concat("ours_", comm.size()));
      const std::string path = concat("ours_", comm.size(), "/v", version, ".ome.zarr");
      write_drawn(path, record, comm, ElementType::float32);
      EXPECT_EQ(wrong_in(path, comm,
                         [&](std::int64_t c, const Index3& p) {
                           return static_cast<double>(drawn(c, p + record.space.box.lo()));
                         }),
                0);
      if (comm.rank() == 0) {
        const auto files = files_below(path);
        std::string& known = first[version];
        const std::string all = [&] {
          std::string text;
          for (const auto& [name, bytes] : files) text += name + bytes;
          return text;
        }();
        if (known.empty()) known = all;
        EXPECT_EQ(known, all) << comm.size() << " ranks";
        EXPECT_LT(worst_mean(path, 1, {1, 2, 2}), 1e-7);
        EXPECT_LT(worst_mean(path, 2, {2, 2, 2}), 1e-7);
        const auto whole = open_image(path), level = open_image(path + ":/2");
        EXPECT_EQ(whole->info().grid[0], (ImageSpace::Axis{"z", 1, "\u00b5m"}));
        EXPECT_EQ(whole->info().channel_names, record.space.channel_names);
        EXPECT_EQ(whole->info().full_scale, 4095);
        EXPECT_EQ(whole->info().offset, 100);
        // Slice 2 of 1 um, row 10 of 0.5, column -3 of 0.5, onto what was there.
        EXPECT_EQ(
            whole->metadata().text,
            (Metadata{
                {},
                {{"translation", "3 5 98.5"}, {"objective", "63x"}, {"affine", "1 0 0 -3 0 1 0 10 0 0 1 2"}}}
                 .text));
        EXPECT_EQ(level->metadata().text.size(), 2U) << "the affine is that of the finest level";
        EXPECT_EQ(level->info().grid[1].spacing, 2);
        EXPECT_EQ(level->metadata().text[0].second, "3.5 5.75 99.25") << "half a pixel, then half of two";
      }
      comm.barrier();
    }
  });
}

TEST(Zarr, OursInEveryTypeAndInShards) {
  test::on_groups([&](const Communicator& comm) {
    if (comm.size() > 3) return;
    for (const int bits : {8, 16, 32, 64}) {
      const std::string path = concat("bits_", comm.size(), ".zarr");
      write_drawn(path, {.space = ImageSpace(Box::image2d(521, 37), 3), .bits = bits}, comm,
                  bits == 64 ? ElementType::float64 : ElementType::float32);
      const double top = bits == 8 ? 255 : bits == 16 ? 65535 : 1;
      EXPECT_EQ(image_source_info(path, comm).type, bits < 32 ? concat("uint", bits) : concat("float", bits));
      EXPECT_EQ(wrong_in(path, comm,
                         [&](std::int64_t c, const Index3& p) {
                           const double v = static_cast<double>(drawn(c, p));
                           return bits < 32 ? std::round(v * top) : v;
                         }),
                0);
      comm.barrier();
    }
    const std::string path = concat("shards_", comm.size(), ".zarr");
    write_drawn(path, {.space = ImageSpace(Box({0, 0, 0}, {2, 2, 4162})), .bits = 8}, comm,
                ElementType::float32);
    EXPECT_EQ(wrong_in(path, comm,
                       [](std::int64_t c, const Index3& p) {
                         return std::round(255 * static_cast<double>(drawn(c, p)));
                       }),
              0);
    if (comm.rank() == 0) {
      EXPECT_EQ(files_below(path + "/0").size(), 1U + 33) << "66 chunks in shards of 2";
      EXPECT_LE(worst_mean(path, 1, {2, 2, 2}), 0.5);
    }
    comm.barrier();
  });
}

TEST(Zarr, OnesThatCannotBeWrittenLeaveNothing) {
  test::on_groups([&](const Communicator& comm) {
    const ImageRecord record{.space = ImageSpace(Box::image2d(20, 30))};
    EXPECT_THROW(write_drawn("no_folder_here/a.zarr", record, comm, ElementType::float32), RunError)
        << "a file";
    EXPECT_FALSE(fs::exists("no_folder_here/a.zarr"));
    const std::string precious = concat("precious_", comm.size(), ".zarr");
    if (comm.rank() == 0) test::put_file(precious + "/thesis.tex", "years");
    comm.barrier();
    EXPECT_THROW(write_drawn(precious, record, comm, ElementType::float32), InputError);
    EXPECT_TRUE(fs::exists(precious + "/thesis.tex"));
    ImageRecord other = record;
    other.version = "0.3";
    EXPECT_THROW(write_drawn(concat("third_", comm.size(), ".zarr"), other, comm, ElementType::float32),
                 InputError);
    // One that is there goes only when the new one is whole.
    const std::string path = concat("again_", comm.size(), ".zarr");
    write_drawn(path, record, comm, ElementType::float32);
    other.version = "0.4";
    write_drawn(path, other, comm, ElementType::float32);
    if (comm.rank() == 0) {
      EXPECT_TRUE(fs::exists(path + "/.zattrs"));
      EXPECT_FALSE(fs::exists(path + "/zarr.json"));
      for (const auto& entry : fs::directory_iterator("."))
        EXPECT_FALSE(is_temporary(entry.path().filename().string()) &&
                     entry.path().filename().string().starts_with(concat("again_", comm.size())))
            << entry.path();
    }
    comm.barrier();
  });
}

// Bytes that this process has read by system calls.
std::int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string key;
  std::int64_t value = 0;
  file >> key >> value;
  return key == "rchar:" ? value : -1;
}

TEST(Zarr, ARankReadsItsChunksAndNoOthers) {
  constexpr std::int64_t kSide = 2048, kChunk = 512 * 512;
  const Communicator world = Communicator::world();
  if (world.rank() == 0) {
    fs::remove_all("parts.zarr");
    test::put_file("parts.zarr/.zarray", concat(R"({"zarr_format":2,"shape":[)", kSide, ",", kSide,
                                                R"(],"chunks":[512,512],"dtype":"|u1","compressor":null,)"
                                                R"("fill_value":0,"order":"C","filters":null})"));
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 4; ++x)
        test::put_file(concat("parts.zarr/", y, ".", x), std::string(kChunk, static_cast<char>(4 * y + x)));
  }
  world.barrier();
  if (bytes_read() < 0) GTEST_SKIP() << "the kernel does not count what is read";
  const Layout layout = cut_in(Box::image2d(kSide, kSide), world.size());
  const Box mine = layout.box(world.rank());
  test::Block<float> block(mine, 1, ElementType::float32, -1);
  image_source_info("parts.zarr", world);
  const std::int64_t before = bytes_read();
  read_image("parts.zarr", layout, block.view(), world);
  const std::int64_t rows = mine.extent(1) * 512,
                     across = mine.hi()[2] / 512 + (mine.hi()[2] % 512 > 0) - mine.lo()[2] / 512;
  EXPECT_LE(bytes_read() - before, rows * across + (1 << 16)) << mine;
  EXPECT_GE(bytes_read() - before, mine.pixels());
  std::int64_t wrong = 0;
  block.for_each([&](std::int64_t, const Index3& p, float v) {
    wrong += v != static_cast<float>(4 * (p[1] / 512) + p[2] / 512);
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tessera
