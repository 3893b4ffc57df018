// SPDX-License-Identifier: BSD-3-Clause
// Every row of the table, and one more, through the one driver; and what goes along with an image.
#include <fitsio.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "io/tiff_files.hpp"
#include "support/block.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {

ImageFormat plain();  // tests/extension

namespace {

const bool added = [] {
  image_formats().push_back(plain());
  return true;
}();

// Cut along all axes that are long enough; from three ranks on the last one is empty.
Layout cut(const Box& image, int ranks) {
  const int active = ranks > 2 ? ranks - 1 : ranks, deep = image.extent(0) > 1 && active % 2 == 0 ? 2 : 1;
  const int rows = active / deep;
  std::vector<Box> boxes;
  for (int k = 0; k < active; ++k) {
    const int i = k / deep, j = k % deep;
    const auto at = [&](std::size_t d, int part, int parts) {
      return image.lo()[d] + image.extent(d) * part / parts;
    };
    boxes.emplace_back(Index3{at(0, j, deep), at(1, i, rows), image.lo()[2]},
                       Index3{at(0, j + 1, deep), at(1, i + 1, rows), image.hi()[2]});
  }
  boxes.resize(static_cast<std::size_t>(ranks));
  return Layout(boxes);
}

// In [0, 1] in steps of 1/255, each pixel its own; smooth enough for JPEG.
float value(std::int64_t c, const Index3& p) {
  return static_cast<float>((6 + 10 * c + 20 * p[0] + p[1] + 2 * p[2]) % 256) / 255;
}

void write(const std::string& path, const ImageRecord& record, const Communicator& comm) {
  const Layout layout = cut(record.space.box, comm.size());
  test::Block<float> block(layout.box(comm.rank()), record.space.channels, ElementType::float32, -1);
  block.for_each([](std::int64_t c, const Index3& p, float& v) { v = value(c, p); });
  write_image(path, record, layout, block.view(), comm);
  comm.barrier();
}

// `origin`: where the file's first pixel stood.
void expect_read(const std::string& path, const Index3& origin, double scale, double most,
                 const Communicator& comm) {
  const SourceInfo info = image_source_info(path, comm);
  const Layout layout = cut(info.box, comm.size());
  test::Block<double> block(layout.box(comm.rank()), info.channels, ElementType::float64, -1);
  read_image(path, layout, block.view(), comm);
  std::int64_t wrong = 0;
  block.for_each([&](std::int64_t c, const Index3& p, double v) {
    wrong += !(std::abs(v - scale * static_cast<double>(value(c, p + origin))) <= most);
  });
  EXPECT_EQ(wrong, 0) << block.box();
  std::array<double, 2> seen{}, wanted{static_cast<double>(info.values()), 0};
  const bool whole = visit_samples(path, comm, [&](const double* first, std::int64_t n) {
    for (std::int64_t k = 0; k < n; ++k) {
      seen[0] += 1;
      seen[1] += first[k];
    }
  });
  block.for_each([&](std::int64_t, const Index3&, double v) { wanted[1] += v; });
  comm.all_reduce(seen, Reduce::sum);
  comm.all_reduce({&wanted[1], 1}, Reduce::sum);
  EXPECT_EQ(seen[0], wanted[0]);
  EXPECT_NEAR(seen[1], wanted[1], 1e-6 * wanted[1]);
  EXPECT_TRUE(whole || find_format(path)->name == "HDF5");
}

TEST(Formats, EveryRowIsWrittenAndReadOnEveryNumberOfRanks) {
  ASSERT_TRUE(added);
  test::on_groups([&](const Communicator& comm) {
    int rows = 0, volumes = 0;
    for (const ImageFormat& format : image_formats()) {
      if (!format.create) continue;
      ++rows;
      for (const int bits : format.bits)
        for (const std::int64_t channels : {1, 2, 3})
          for (const std::int64_t depth : {1, 5}) {
            if (!format.holds_channels(channels) || (depth > 1 && !format.volumes)) continue;
            // Volumes of three channels, or of the one that there may be; stores and grids have tests of their own.
            if (depth > 1 && channels != 3 && format.holds_channels(3)) continue;
            if (!format.picture && bits != format.bits.front()) continue;
            const Index3 origin{depth > 1 ? 2 : 0, 5, -3};
            const Box box(origin, origin + Index3{depth, 47, 61});
            const std::string path = concat("row_", comm.size(), format.suffixes[0]);
            const bool pages = format.name == "TIFF" || format.name == "FITS";
            const std::string all = pages && depth > 1 ? path + ":/all" : path;
            SCOPED_TRACE(concat(all, ", ", bits, " bits, ", channels, " channels, ", depth, " slices"));
            volumes += depth > 1;
            write(path, {.space = ImageSpace(box, channels), .bits = bits}, comm);
            const double scale = bits == 8 ? 255 : bits == 16 ? 65535 : 1;
            expect_read(all, origin, scale, format.name == "JPEG" ? 12 : scale * 1e-6, comm);
            comm.barrier();
          }
    }
    EXPECT_EQ(rows, 9);
    EXPECT_GE(volumes, 9);
    const ImageRecord volume{.space = ImageSpace(Box({0, 0, 0}, {2, 4, 4})), .bits = 8};
    EXPECT_THROW(write("volume.png", volume, comm), InputError);
    EXPECT_THROW(write("no_such_folder/a.plain", volume, comm), RunError);
    EXPECT_THROW(write("no_such_folder/a.tif", volume, comm), RunError);
    comm.barrier();
    for (const auto& entry : std::filesystem::directory_iterator(".")) {
      const std::string name = entry.path().filename().string();
      EXPECT_FALSE(name.starts_with(concat("row_", comm.size())) && is_temporary(name)) << name;
    }
  });
}

// Bytes of value(c, p) * 255, channel after channel.
std::vector<std::uint8_t> bytes_of(const Box& box, std::int64_t channels) {
  test::Block<float> block(box, channels, ElementType::float32, -1);
  std::vector<std::uint8_t> out;
  block.for_each([&](std::int64_t c, const Index3& p, float&) {
    out.push_back(static_cast<std::uint8_t>(std::lround(255 * value(c, p))));
  });
  return out;
}

void write_fits(const std::string& path, const Box& box) {
  std::vector<std::uint8_t> bytes = bytes_of(box, 1);
  long axes[] = {static_cast<long>(box.extent(2)), static_cast<long>(box.extent(1)),
                 static_cast<long>(box.extent(0))};
  int status = 0;
  fitsfile* file = nullptr;
  fits_create_file(&file, ("!" + path).c_str(), &status);
  fits_create_img(file, BYTE_IMG, box.extent(0) > 1 ? 3 : 2, axes, &status);
  fits_write_img(file, TBYTE, 1, static_cast<LONGLONG>(bytes.size()), bytes.data(), &status);
  fits_close_file(file, &status);
  ASSERT_EQ(status, 0);
}

void write_npy(const std::string& path, const Box& box, std::int64_t channels) {
  const std::vector<std::uint8_t> bytes = bytes_of(box, channels);
  std::string header = concat("{'descr': '|u1', 'fortran_order': False, 'shape': (", channels, ", ",
                              box.extent(0), ", ", box.extent(1), ", ", box.extent(2), "), }\n");
  std::ofstream(path, std::ios::binary) << std::string("\x93NUMPY\1\0", 8) << static_cast<char>(header.size())
                                        << '\0' << header << std::string(bytes.begin(), bytes.end());
}

TEST(Formats, RowsThatAreOnlyReadGoTheSameWay) {
  const Communicator world = Communicator::world();
  const Box picture = Box::image2d(47, 61), volume({0, 0, 0}, {5, 47, 61});
  if (world.rank() == 0) {
    for (const char* suffix : {".fits", ".fits.gz"}) {
      write_fits(concat("only", suffix), picture);
      write_fits(concat("only_volume", suffix), volume);
    }
    write_npy("only.npy", volume, 2);
  }
  world.barrier();
  EXPECT_FALSE(open_image("only.fits.gz")->random_access());
  test::on_groups([&](const Communicator& comm) {
    for (const std::string path : {"only.fits", "only.fits.gz", "only_volume.fits:/slices",
                                   "only_volume.fits.gz:/slices", "only.npy"}) {
      SCOPED_TRACE(path);
      expect_read(path, {}, 255, 1e-4, comm);
    }
  });
}

TEST(Formats, OneThatIsCutIsOneMessageOnAllRanks) {
  const Communicator world = Communicator::world();
  if (world.rank() == 0)
    std::ofstream("cut.plain") << "plain image\nsize 1 1 40 50\ntype uint8\n\n" << std::string(1000, 'x');
  world.barrier();
  test::on_groups([&](const Communicator& comm) {
    const Layout layout = cut(Box::image2d(40, 50), comm.size());
    test::Block<double> block(layout.box(comm.rank()), 1, ElementType::float64, -1);
    std::string message;
    try {
      read_image("cut.plain", layout, block.view(), comm);
    } catch (const InputError& e) {
      message = e.what();
    }
    EXPECT_NE(message.find("cut.plain ends before"), std::string::npos) << message;
    EXPECT_EQ(message, comm.broadcast(message, 0));
  });
}

// The same file with nothing but what goes along from another.
ImageRecord along(const std::string& from, int bits, const Communicator& comm = Communicator()) {
  ImageRecord record = record_from(from, comm);
  record.bits = bits;
  return record;
}

void expect_same(const std::string& path, const ImageRecord& wanted) {
  const ImageRecord got = record_from(path, Communicator());
  EXPECT_EQ(got.space, wanted.space) << path;
  for (std::size_t d = 0; d < 3; ++d) {
    EXPECT_DOUBLE_EQ(got.space.grid[d].spacing, wanted.space.grid[d].spacing) << path << ", axis " << d;
    EXPECT_EQ(got.space.grid[d].unit, wanted.space.grid[d].unit) << path << ", axis " << d;
  }
  EXPECT_EQ(got.metadata, wanted.metadata) << path;
}

std::string ome(const std::string& pixels, const std::string& inside) {
  return "<?xml version=\"1.0\"?><OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\"><Image "
         "ID=\"Image:0\"><Pixels ID=\"Pixels:0\" DimensionOrder=\"XYCZT\" Type=\"uint8\" SizeT=\"1\" " +
         pixels + ">" + inside + "</Pixels></Image></OME>";
}

TEST(Metadata, TiffsSayPixelSizes) {
  if (test::other_rank()) return;
  test::TiffToWrite t;
  t.bits = 8;
  const auto grid_of = [&](const std::string& path) { return open_image(path)->info().grid; };
  test::write_tiff("meta_none.tif", t, t.values());
  for (const auto& axis : grid_of("meta_none.tif")) EXPECT_EQ(axis.spacing, 0);
  t.pages = 4;
  t.description = "ImageJ=1.54f\nimages=4\nslices=4\nunit=\\u00B5m\nspacing=2.5\nloop=false\n";
  test::write_tiff("meta_ij.tif", t, t.values());
  auto grid = grid_of("meta_ij.tif:/all");
  EXPECT_EQ(grid[0].spacing, 2.5);
  EXPECT_EQ(grid[0].unit, "\u00b5m");
  EXPECT_EQ(grid[1].spacing, 0) << "no resolution is written";
  EXPECT_EQ(grid_of("meta_ij.tif:/1")[0].spacing, 0) << "one slice has no step";
  t.description =
      ome("SizeX=\"21\" SizeY=\"13\" SizeC=\"2\" SizeZ=\"2\" PhysicalSizeX=\"0.325\" "
          "PhysicalSizeY=\"0.3\" PhysicalSizeYUnit=\"nm\" PhysicalSizeZ=\"1.5\"",
          "<Channel ID=\"Channel:0:0\" Name=\"DAPI\"/><Channel ID=\"Channel:0:1\" "
          "Name=\"A &amp; B\"/><TiffData/>");
  test::write_tiff("meta_ome.tif", t, t.values());
  const SourceInfo info = open_image("meta_ome.tif:/all")->info();
  EXPECT_EQ(info.channel_names, (std::vector<std::string>{"DAPI", "A & B"}));
  EXPECT_EQ(info.grid[0], (ImageSpace::Axis{"z", 1.5, "\u00b5m"}));
  EXPECT_EQ(info.grid[1], (ImageSpace::Axis{"y", 0.3, "nm"}));
  EXPECT_EQ(info.grid[2], (ImageSpace::Axis{"x", 0.325, "\u00b5m"}));
  EXPECT_TRUE(open_image("meta_ome.tif:/c1")->info().channel_names.empty());
}

// Two channels of names, three spacings with units, profile and text.
ImageRecord rich(std::int64_t depth, std::int64_t channels) {
  ImageRecord r;
  r.space = ImageSpace(Box({0, 0, 0}, {depth, 23, 31}), channels);
  r.space.grid[1] = {"y", 0.325, "\u00b5m"};
  r.space.grid[2] = {"x", 1.0 / 3, "\u00b5m"};
  if (depth > 1) r.space.grid[0] = {"z", 2e-3, "mm"};
  if (channels == 1) r.space.channel_names = {"DAPI <1>"};
  r.metadata.profile.assign(700, 42);
  r.metadata.text = {{"Artist", "A. Person"}, {"objective", "63x \"oil\" & more"}};
  return r;
}

TEST(Metadata, GoesFromTiffToTiffAndToHdf5AndBack) {
  test::on_groups([&](const Communicator& comm) {
    for (const auto& [depth, channels, bits] :
         std::vector<std::tuple<std::int64_t, std::int64_t, int>>{{1, 3, 8}, {3, 1, 16}, {1, 1, 32}}) {
      SCOPED_TRACE(concat(depth, " slices, ", channels, " channels, ", bits, " bits"));
      ImageRecord first = rich(depth, channels);
      first.bits = bits;
      const std::string n = concat(comm.size()), part = depth > 1 ? ":/all" : "";
      write("along_a" + n + ".tif", first, comm);
      expect_same("along_a" + n + ".tif" + part, first);
      write("along_b" + n + ".tif", along("along_a" + n + ".tif" + part, bits, comm), comm);
      expect_same("along_b" + n + ".tif" + part, first);
      write("along_c" + n + ".h5", along("along_b" + n + ".tif" + part, 32, comm), comm);
      expect_same("along_c" + n + ".h5", first);
      write("along_d" + n + ".tif", along("along_c" + n + ".h5", bits, comm), comm);
      expect_same("along_d" + n + ".tif" + part, first);
      comm.barrier();
    }
  });
}

TEST(Metadata, AMapKeepsItsPlaceAndAPartOfItHasItsOwn) {
  if (test::other_rank()) return;
  ImageRecord map;
  map.space = ImageSpace(Box::image2d(9, 11));
  map.metadata.text = {{"GDAL_METADATA", "<GDALMetadata><Item role=\"scale\">0.1</Item></GDALMetadata>"},
                       {"GDAL_NODATA", "-9999"},
                       {"GeoAsciiParams", "WGS 84|"},
                       {"GeoKeyDirectory", "1 1 0 1 3072 0 1 32633"},
                       {"ModelPixelScale", "10 10.5 0"},
                       {"ModelTiepoint", "0 0 0 500000.25 5e+06 0"}};
  for (const char* path : {"map.tif", "map.h5"}) {
    write(path, map, Communicator());
    expect_same(path, map);
  }
  EXPECT_NE(open_image("map.tif")->info().note.find("scale 0.1 and offset 0"), std::string::npos);
  map.space.box = Box({0, 2, 3}, {1, 9, 11});
  for (const char* path : {"part.tif", "part.h5"}) {
    write(path, map, Communicator());
    EXPECT_EQ(record_from(path, Communicator()).metadata.text[5].second, "-3 -2 0 500000.25 5e+06 0") << path;
  }
  forget_place(map.metadata);
  EXPECT_EQ(map.metadata.text.size(), 2U);
}

TEST(Metadata, PrintResolutionStaysInTheTags) {
  if (test::other_rank()) return;
  ImageRecord photo;
  photo.space = ImageSpace(Box::image2d(9, 11), 3);
  photo.bits = 8;
  for (const std::size_t d : {1U, 2U}) photo.space.grid[d] = {photo.space.grid[d].name, 1.0 / 300, "inch"};
  photo.metadata.text = {{"DateTime", "2026:01:02 03:04:05"}, {"ImageDescription", "a cat"}};
  write("print.tif", photo, Communicator());
  expect_same("print.tif", photo);
  EXPECT_EQ(read_text("print.tif").find("<OME"), std::string::npos);
}

void write_cards(const std::string& path, const std::vector<std::string>& cards) {
  std::string head;
  const std::vector<std::string> first{"SIMPLE  =                    T", "BITPIX  =                    8",
                                       "NAXIS   =                    2", "NAXIS1  =                   31",
                                       "NAXIS2  =                   23"};
  for (const auto* list : {&first, &cards})
    for (const std::string& card : *list) head += card + std::string(80 - card.size(), ' ');
  head += "END";
  head.resize(2880, ' ');
  std::ofstream(path, std::ios::binary) << head << std::string(2880, 'a');
}

TEST(Metadata, GoesFromFitsToHdf5) {
  if (test::other_rank()) return;
  const std::vector<std::string> common{"CTYPE1  = 'RA---TAN'",
                                        "CTYPE2  = 'DEC--TAN'",
                                        "CUNIT1  = 'deg'",
                                        "CUNIT2  = 'deg'",
                                        "OBJECT  = 'M 51'",
                                        "BUNIT   = 'adu'",
                                        "EXPTIME =                30.5"};
  const auto with = [&](std::vector<std::string> cards) {
    cards.insert(cards.end(), common.begin(), common.end());
    write_cards("sky.fits", cards);
    return record_from("sky.fits", Communicator());
  };
  ImageRecord r = with({"CDELT1  =               -0.001", "CDELT2  =                0.002"});
  EXPECT_EQ(r.space.grid[2], (ImageSpace::Axis{"RA---TAN", 0.001, "deg"}));
  EXPECT_EQ(r.space.grid[1], (ImageSpace::Axis{"DEC--TAN", 0.002, "deg"}));
  EXPECT_EQ(r.space.orientation, "-RA---TAN +DEC--TAN");
  ASSERT_EQ(r.metadata.text.size(), 4U);
  EXPECT_EQ(r.metadata.text[3].first, "wcs");
  EXPECT_TRUE(r.metadata.text[3].second.starts_with("CDELT1  =               -0.001\nCDELT2"));
  r.metadata.text.pop_back();
  EXPECT_EQ(r.metadata.text, (std::vector<std::pair<std::string, std::string>>{
                                 {"OBJECT", "M 51"}, {"BUNIT", "adu"}, {"EXPTIME", "30.5"}}));
  write("sky.h5", r, Communicator());
  const ImageRecord back = record_from("sky.h5", Communicator());
  EXPECT_EQ(back.space, r.space);
  EXPECT_EQ(back.metadata.text.size(), 3U);
  const Hdf5File file = Hdf5File::open("sky.h5", Communicator());
  EXPECT_EQ(file.number_attribute("/image", "pixel_0"), 0.002);
  EXPECT_EQ(file.number_attribute("/image", "pixel_1"), 0.001);
  EXPECT_EQ(file.text_attribute("/image", "unit"), "deg");
  EXPECT_EQ(file.text_attribute("/metadata", "EXPTIME"), "30.5");
  EXPECT_EQ(with({"CD1_1   =               -0.001", "CD2_2   =                0.002"}).space, r.space);
  write_cards("bare.fits", {"CTYPE1  = 'RA---TAN'", "CDELT1  =               -0.001", "CTYPE2  = 'LINEAR'",
                            "CDELT2  =                0.002"});
  const ImageRecord bare = record_from("bare.fits", Communicator());
  EXPECT_EQ(bare.space.grid[2].unit, "deg") << "the sky's unit, where none is said";
  EXPECT_EQ(bare.space.grid[1].unit, "");
  // A sheared grid has no pixel size; a turned one has, but its axes run along none of the sky's.
  for (const auto& axis : with({"CD1_1   =                0.001", "CD1_2   =                0.001",
                                "CD2_1   =                0.000", "CD2_2   =                0.001"})
                              .space.grid)
    EXPECT_EQ(axis.spacing, 0);
  using Cards = std::vector<std::string>;
  for (const auto& [cards, rows, columns] :
       {std::tuple<Cards, double, double>{
            {"CD1_1   =               -0.003", "CD1_2   =                0.004",
             "CD2_1   =                0.004", "CD2_2   =                0.003"},
            0.005,
            0.005},
        {{"CD1_2   =               -0.003", "CD2_1   =                0.004"}, 0.003, 0.004},
        {{"CDELT1  =                0.005", "CDELT2  =                0.005",
          "PC1_1   =                 -0.6", "PC1_2   =                  0.8",
          "PC2_1   =                  0.8", "PC2_2   =                  0.6"},
         0.005,
         0.005},
        {{"CDELT1  =               -0.002", "CDELT2  =                0.001",
          "CROTA2  =                 34.0"},
         0.001,
         0.002}}) {
    const ImageSpace space = with(cards).space;
    EXPECT_NEAR(space.grid[1].spacing, rows, 1e-12);
    EXPECT_NEAR(space.grid[2].spacing, columns, 1e-12);
    for (const std::size_t d : {std::size_t{1}, std::size_t{2}}) {
      EXPECT_EQ(space.grid[d].unit, "deg");
      EXPECT_EQ(space.grid[d].name, ImageSpace().grid[d].name);
    }
    EXPECT_EQ(space.orientation, "");
  }
  // The size of its pixels may be said otherwise, as that of a kernel that stands on no sky.
  for (const auto& [cards, size] :
       {std::pair<std::vector<std::string>, double>{
            {"PIXELSCL=               0.0158", "OVERSAMP=                    4"}, 0.0158},
        {{"CTYPE1  = 'RA---TAN'", "CD1_1   =                0.001", "CD1_2   =                0.001",
          "PIXAR_A2=               0.0009"},
         0.03}}) {
    write_cards("pixels.fits", cards);
    const auto grid = record_from("pixels.fits", Communicator()).space.grid;
    for (const std::size_t d : {std::size_t{1}, std::size_t{2}}) {
      EXPECT_NEAR(grid[d].spacing, size, 1e-12);
      EXPECT_EQ(grid[d].unit, "arcsec");
      EXPECT_EQ(grid[d].name, ImageSpace().grid[d].name);
    }
  }
  for (const auto& [cards, rows, columns] :
       {std::tuple<std::vector<std::string>, double, double>{
            {"XPIXSZ  =                 7.52", "YPIXSZ  =                 3.76",
             "XBINNING=                    2"},
            3.76,
            7.52},
        {{"XPIXSZ  =                 3.76"}, 3.76, 3.76},
        {{"YPIXSZ  =                 3.76"}, 0, 0}}) {
    write_cards("pixels.fits", cards);
    const auto grid = record_from("pixels.fits", Communicator()).space.grid;
    EXPECT_NEAR(grid[1].spacing, rows, 1e-12);
    EXPECT_NEAR(grid[2].spacing, columns, 1e-12);
    EXPECT_EQ(grid[2].unit, columns > 0 ? "um" : ImageSpace().grid[2].unit);
  }
  write("sky.tif", r, Communicator());  // degrees are no lengths: carried, not written
  for (const auto& axis : record_from("sky.tif", Communicator()).space.grid) EXPECT_EQ(axis.spacing, 0);
}

TEST(Metadata, OtherProgramsReadWhatIsWritten) {
  if (test::other_rank()) return;
  const char* source = std::getenv("TESSERA_SOURCE_DIR");
  const std::string python = concat(source ? source : ".", "/.venv/bin/python");
  if (std::system((python + " -c 'import h5py, tifffile' > /dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "no h5py or tifffile in .venv";
  ImageRecord r = rich(3, 1);
  r.bits = 8;
  write("others.tif", r, Communicator());
  r.bits = 32;
  write("others.h5", r, Communicator());
  write_text("others.py", R"(import h5py, numpy as np, tifffile
with tifffile.TiffFile("others.tif") as f:
    about = tifffile.xml2dict(f.ome_metadata)["OME"]["Image"]["Pixels"]
    assert f.series[0].axes == "ZYX" and f.series[0].shape == (3, 23, 31), f.series[0]
    top, bottom = f.pages[0].tags["XResolution"].value
    assert abs(top / bottom - 30000) < 0.01 and f.pages[0].tags["ResolutionUnit"].value == 3
    assert f.pages[0].tags["Artist"].value == "A. Person"
assert about["PhysicalSizeY"] == 0.325 and about["PhysicalSizeYUnit"] == "\u00b5m", about
assert about["PhysicalSizeZ"] == 0.002 and about["PhysicalSizeZUnit"] == "mm", about
assert about["Channel"]["Name"] == "DAPI <1>", about
with h5py.File("others.h5") as f:
    a = f["image"].attrs
    assert [a["pixel_0"], a["pixel_1"], a["pixel_2"]] == [0.002, 0.325, 1 / 3], dict(a)
    assert [a["unit_0"], a["unit_1"]] == ["mm", "\u00b5m"] and list(a["channel_names"]) == ["DAPI <1>"], dict(a)
    assert dict(f["metadata"].attrs) == {"Artist": "A. Person", "objective": '63x "oil" & more'}
    assert f["metadata/icc_profile"][...].tobytes() == bytes([42]) * 700
)");
  EXPECT_EQ(std::system((python + " others.py").c_str()), 0);
}

}  // namespace
}  // namespace tessera
