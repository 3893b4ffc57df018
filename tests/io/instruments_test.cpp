// SPDX-License-Identifier: BSD-3-Clause
// HDF5 as MATLAB, Imaris and BigDataViewer write it, and DICOM; files that those programs wrote are read in
// tests/reference/instruments_test.py.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "io/opened.hpp"
#include "support/block.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<hsize_t>;
using test::refusal_of;
using test::Wanted;
using test::wrong_samples;

#define EXPECT_REFUSED(path, words) \
  EXPECT_NE(refusal_of(path).find(words), std::string::npos) << path << ": " << refusal_of(path)

// A file in the making, by names that may lie in groups.
class H5Made {
 public:
  explicit H5Made(const std::string& path)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose) {}

  void array(const std::string& name, const Shape& shape, hid_t stored, const std::vector<double>& values,
             const Shape& chunk = {}) {
    const H5Handle link(H5Pcreate(H5P_LINK_CREATE), H5Pclose), make(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_create_intermediate_group(link.get(), 1);
    if (!chunk.empty()) {
      H5Pset_chunk(make.get(), static_cast<int>(chunk.size()), chunk.data());
      H5Pset_deflate(make.get(), 2);
    }
    const H5Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose);
    const H5Handle set(
        H5Dcreate2(file_.get(), name.c_str(), stored, space.get(), link.get(), make.get(), H5P_DEFAULT),
        H5Dclose);
    H5Dwrite(set.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }
  void text(const std::string& object, const std::string& key, const std::string& value) {
    const H5Handle type(H5Tcopy(H5T_C_S1), H5Tclose), space(H5Screate(H5S_SCALAR), H5Sclose);
    H5Tset_size(type.get(), value.size());
    put(object, key, type.get(), space.get(), value.data());
  }
  // One character each, as Imaris has it.
  void letters(const std::string& object, const std::string& key, const std::string& value) {
    const H5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
    const hsize_t count = value.size();
    const H5Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose);
    put(object, key, type.get(), space.get(), value.data());
  }
  void group(const std::string& name) {
    const H5Handle link(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    H5Pset_create_intermediate_group(link.get(), 1);
    H5Gclose(H5Gcreate2(file_.get(), name.c_str(), link.get(), H5P_DEFAULT, H5P_DEFAULT));
  }
  hid_t id() const { return file_.get(); }

 private:
  void put(const std::string& object, const std::string& key, hid_t type, hid_t space, const void* value) {
    const H5Handle attribute(H5Acreate_by_name(file_.get(), object.c_str(), key.c_str(), type, space,
                                               H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                             H5Aclose);
    H5Awrite(attribute.get(), type, value);
  }
  H5Handle file_;
};

// Each element its place in the order of the file, plus something.
std::vector<double> counted(std::size_t count, double first = 0) {
  std::vector<double> out(count);
  for (std::size_t k = 0; k < count; ++k) out[k] = first + static_cast<double>(k);
  return out;
}

// MATLAB's arrays of 6 x 8 and so on: HDF5 has the dimensions backwards.
void make_matlab() {
  H5Made one("one.mat");
  one.array("/a", {8, 6}, H5T_IEEE_F64LE, counted(48));
  one.text("/a", "MATLAB_class", "double");
  H5Made file("several.mat");
  file.array("/stack", {9, 8, 6}, H5T_STD_U16LE, counted(432), {2, 5, 6});
  file.text("/stack", "MATLAB_class", "uint16");
  file.array("/mask", {8, 6}, H5T_STD_U8LE, std::vector<double>(48, 1));
  file.text("/mask", "MATLAB_class", "logical");
  file.array("/name", {5, 1}, H5T_STD_U16LE, counted(5, 65));
  file.text("/name", "MATLAB_class", "char");
  file.array("/colors_first", {30, 20, 3}, H5T_STD_U8LE, counted(1800));
  file.text("/colors_first", "MATLAB_class", "uint8");
  const H5Handle complex(H5Tcreate(H5T_COMPOUND, 16), H5Tclose);
  H5Tinsert(complex.get(), "real", 0, H5T_IEEE_F64LE);
  H5Tinsert(complex.get(), "imag", 8, H5T_IEEE_F64LE);
  const hsize_t shape[] = {4, 4};
  const H5Handle space(H5Screate_simple(2, shape, nullptr), H5Sclose);
  H5Dclose(H5Dcreate2(file.id(), "/z", complex.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
}

TEST(Instruments, ArraysOfMatlabAreTurnedOnAnyRanks) {
  const Communicator world = Communicator::world();
  if (world.rank() == 0) {
    make_matlab();
    std::ofstream("old.mat") << "MATLAB 5.0 MAT-file, and so on";
    std::ofstream("old.nc") << "CDF\x01 and so on";
  }
  world.barrier();
  test::on_groups([&](const Communicator& comm) {
    EXPECT_EQ(wrong_samples("one.mat", comm, [](auto, const Index3& p) { return p[2] * 6.0 + p[1]; }), 0);
    EXPECT_EQ(wrong_samples("several.mat:/stack", comm,
                            [](auto c, const Index3& p) { return (c * 8 + p[2]) * 6.0 + p[1]; }),
              0);
    EXPECT_EQ(wrong_samples("several.mat:/stack/slices", comm,
                            [](auto, const Index3& p) { return (p[0] * 8 + p[2]) * 6.0 + p[1]; }),
              0);
    EXPECT_EQ(wrong_samples("several.mat:/stack/c7", comm,
                            [](auto, const Index3& p) { return (7 * 8 + p[2]) * 6.0 + p[1]; }),
              0);
  });
  if (world.rank() > 0) return;
  EXPECT_EQ(open_image("one.mat")->info().box, Box::image2d(6, 8));
  EXPECT_EQ(open_image("several.mat:/stack/slices")->info().box, Box({0, 0, 0}, {9, 6, 8}));
  EXPECT_NE(open_image("several.mat:/stack")->info().note.find("several.mat:/stack/slices takes them"),
            std::string::npos);
  EXPECT_EQ(open_image("several.mat:/mask")->info().type, "bool");
  EXPECT_REFUSED("several.mat:/name", "holds text");
  EXPECT_REFUSED("several.mat:/z", "holds complex numbers");
  EXPECT_REFUSED("several.mat:/colors_first", "permute(a, [2 3 1])");
  EXPECT_REFUSED("several.mat:/stack/c9", "has 9 positions, counted from 0");
  EXPECT_REFUSED("several.mat:/stack/t1", "there is no t1 in it (its axes are cxy");
  EXPECT_REFUSED("several.mat", "no dataset /image");
  EXPECT_REFUSED("old.mat", "before version 7.3");
  EXPECT_REFUSED("old.nc", "nccopy");
  EXPECT_THROW(output_format("new.mat"), InputError) << "nothing is written that MATLAB cannot load";
}

// (times, channels) of 5 x 9 x 11 in chunks of 4 x 8 x 8, padded to 8 x 16 x 16; level 1 is half.
double imaris_value(std::int64_t level, std::int64_t time, std::int64_t channel, const Index3& p) {
  return static_cast<double>(10000 * level + 4000 * time + 2000 * channel + (p[0] * 16 + p[1]) * 16 + p[2]);
}
void make_imaris(const std::string& path, std::int64_t times) {
  H5Made file(path);
  file.group("/DataSetInfo/Image");
  for (const auto& [key, value] : std::vector<std::pair<const char*, const char*>>{{"X", "11"},
                                                                                   {"Y", "9"},
                                                                                   {"Z", "5"},
                                                                                   {"ExtMin0", "-1"},
                                                                                   {"ExtMax0", "4.5"},
                                                                                   {"ExtMin1", "0"},
                                                                                   {"ExtMax1", "4.5"},
                                                                                   {"ExtMin2", "2"},
                                                                                   {"ExtMax2", "12"},
                                                                                   {"Unit", "um"},
                                                                                   {"Name", "cells"}})
    file.letters("/DataSetInfo/Image", key, value);
  for (const char* channel : {"0", "1"}) {
    file.group(std::string("/DataSetInfo/Channel ") + channel);
    file.letters(std::string("/DataSetInfo/Channel ") + channel, "Name", *channel == '0' ? "DAPI" : "GFP");
  }
  for (std::int64_t level = 0; level < 2; ++level)
    for (std::int64_t time = 0; time < times; ++time)
      for (std::int64_t channel = 0; channel < 2; ++channel) {
        const std::string group =
            concat("/DataSet/ResolutionLevel ", level, "/TimePoint ", time, "/Channel ", channel);
        file.array(group + "/Data", {8, 16, 16}, H5T_STD_U16LE,
                   counted(2048, imaris_value(level, time, channel, {})), {4, 8, 8});
        for (const auto& [key, whole, half] : std::vector<std::tuple<const char*, const char*, const char*>>{
                 {"ImageSizeX", "11", "6"}, {"ImageSizeY", "9", "5"}, {"ImageSizeZ", "5", "5"}})
          file.letters(group, key, std::string(level == 0 ? whole : half) + std::string(1, '\0'));
      }
}

TEST(Instruments, ImarisIsReadWithoutWhatFillsItsChunksOnAnyRanks) {
  const Communicator world = Communicator::world();
  if (world.rank() == 0) {
    make_imaris("one.ims", 1);
    make_imaris("two.ims", 2);
  }
  world.barrier();
  test::on_groups([&](const Communicator& comm) {
    EXPECT_EQ(
        wrong_samples("one.ims", comm, [](auto c, const Index3& p) { return imaris_value(0, 0, c, p); }), 0);
    EXPECT_EQ(wrong_samples("two.ims:/1/t1/c1", comm,
                            [](auto, const Index3& p) { return imaris_value(1, 1, 1, p); }),
              0);
    EXPECT_EQ(wrong_samples("two.ims:/t0/z3", comm,
                            [](auto c, const Index3& p) {
                              return imaris_value(0, 0, c, p + Index3{3, 0, 0});
                            }),
              0);
  });
  if (world.rank() > 0) return;
  const auto whole = open_image("one.ims");
  EXPECT_EQ(whole->info().box, Box({0, 0, 0}, {5, 9, 11}));
  EXPECT_EQ(whole->info().channel_names, (std::vector<std::string>{"DAPI", "GFP"}));
  EXPECT_EQ(whole->info().grid[0], (ImageSpace::Axis{"z", 2, "um"}));
  EXPECT_EQ(whole->info().grid[2], (ImageSpace::Axis{"x", 0.5, "um"}));
  EXPECT_EQ(whole->metadata().text[0], (std::pair<std::string, std::string>{"translation", "3 0.25 -0.75"}));
  EXPECT_EQ(open_image("one.ims:/DataSet/ResolutionLevel 1/TimePoint 0/Channel 1/Data")->info().box,
            Box({0, 0, 0}, {5, 5, 6}));
  EXPECT_REFUSED("two.ims",
                 "has 2 time points (one image is reconstructed) name one, counted from 0: two.ims:/t0");
  EXPECT_REFUSED("two.ims:/t2", "there is no t2");
  EXPECT_REFUSED("one.ims:/2", "there is no level 2 (it has 2 levels");
  EXPECT_REFUSED("one.ims:/c2", "there is no c2 (it has 2 channels");
}

void make_viewer(const std::string& path, const std::string& loader, int setups) {
  std::ofstream xml(path);
  xml << "<?xml version=\"1.0\"?>\n<!-- < made -->\n<SpimData version=\"0.2\"><BasePath "
         "type=\"relative\">.</BasePath>"
      << "<SequenceDescription><ImageLoader format=\"" << loader
      << "\"><hdf5 type=\"relative\">viewer.h5</hdf5></ImageLoader>"
      << "<ViewSetups>";
  for (int k = 0; k < setups; ++k)
    xml << "<ViewSetup><id>" << k << "</id><name>a &amp; " << k << "</name><size>11 9 5</size>"
        << "<voxelSize><unit>um</unit><size>0.5 0.5 2</size></voxelSize></ViewSetup>";
  xml << "</ViewSetups></SequenceDescription><ViewRegistrations><ViewRegistration timepoint=\"0\" "
         "setup=\"0\">"
      << "<ViewTransform type=\"affine\"><affine>1 0 0 10 0 1 0 20 0 0 1 30</affine></ViewTransform>"
      << "<ViewTransform type=\"affine\"><affine>1 0 0 0 0 1 0 0 0 0 4 0</affine></ViewTransform>"
      << "</ViewRegistration></ViewRegistrations></SpimData>\n";
}

TEST(Instruments, BigDataViewersNumbersHaveNoSign) {
  const Communicator world = Communicator::world();
  if (world.rank() == 0) {
    H5Made file("viewer.h5");
    std::vector<double> bits = counted(495, 32600);
    for (double& v : bits) v -= v > 32767 ? 65536 : 0;
    file.array("/t00000/s00/0/cells", {5, 9, 11}, H5T_STD_I16LE, bits, {2, 4, 8});
    file.array("/t00000/s00/1/cells", {5, 4, 5}, H5T_STD_I16LE, counted(100), {2, 4, 4});
    file.array("/s00/resolutions", {2, 3}, H5T_IEEE_F64LE, {1, 1, 1, 2, 2, 1});
    make_viewer("viewer.xml", "bdv.hdf5", 1);
    make_viewer("setups.xml", "bdv.hdf5", 2);
    make_viewer("n5.xml", "bdv.n5", 1);
    std::ofstream("cut.xml") << "<SpimData><SequenceDescription>";
  }
  world.barrier();
  const auto wanted = [](auto, const Index3& p) {
    return 32600.0 + static_cast<double>((p[0] * 9 + p[1]) * 11 + p[2]);
  };
  test::on_groups([&](const Communicator& comm) {
    EXPECT_EQ(wrong_samples("viewer.xml", comm, wanted), 0);
    EXPECT_EQ(wrong_samples("viewer.h5:/t00000/s00/0/cells/slices", comm, wanted), 0);
    EXPECT_EQ(wrong_samples("setups.xml:/1/s0/z2", comm,
                            [](auto, const Index3& p) { return static_cast<double>((8 + p[1]) * 5 + p[2]); }),
              0);
  });
  if (world.rank() > 0) return;
  const auto whole = open_image("viewer.xml");
  EXPECT_EQ(whole->info().type, "uint16");
  EXPECT_EQ(whole->info().grid[0], (ImageSpace::Axis{"z", 2, "um"}));
  EXPECT_EQ(whole->metadata().text[0].second, "1 0 0 10 0 1 0 20 0 0 4 30") << "the last is applied first";
  EXPECT_EQ(whole->info().channel_names, std::vector<std::string>{"a & 0"});
  const auto half = open_image("viewer.xml:/1");
  EXPECT_EQ(half->info().grid[2], (ImageSpace::Axis{"x", 1, "um"}));
  EXPECT_EQ(half->metadata().text[0].second, "2 0 0 10.5 0 2 0 20.5 0 0 4 30");
  EXPECT_REFUSED("setups.xml", "has 2 setups, s0 a & 0, s1 a & 1");
  EXPECT_REFUSED("setups.xml:/s1", "there is no /t00000/s01/0/cells in viewer.h5");
  EXPECT_REFUSED("n5.xml", "its images are of the kind bdv.n5, bdv.hdf5 is read");
  EXPECT_REFUSED("cut.xml", "no description of BigDataViewer");
}

// Smooth, so that packing tells; counted from the place of the file's first pixel.
double smooth(std::int64_t c, const Index3& p) {
  return static_cast<double>(c) + static_cast<double>(p[0]) / 4 + static_cast<double>(p[1] + 2 * p[2]) / 64;
}

TEST(Instruments, PackedHdf5HasTheSameBytesOnAnyRanks) {
  std::string first;
  test::on_groups([&](const Communicator& comm) {
    const std::string path = concat("packed_", comm.size(), ".h5");
    const auto make = [&](const Box& box, int bits, const std::string& to, const std::string& compression) {
      const Layout layout = test::grid_layout(box, test::square_grid(comm.size()));
      test::Block<float> block(layout.box(comm.rank()), 2, ElementType::float32, -1);
      block.for_each([](std::int64_t c, const Index3& p, float& v) { v = static_cast<float>(smooth(c, p)); });
      ImageRecord record{.space = ImageSpace(box, 2), .bits = bits};
      record.compression = compression;
      write_image(to, record, layout, block.view(), comm);
      comm.barrier();
    };
    const Index3 at{0, 5, -3}, deep{2, 5, -3};
    make(Box(deep, deep + Index3{70, 66, 9}), 32, path, "gzip");
    EXPECT_EQ(wrong_samples(path, comm, [&](auto c, const Index3& p) { return smooth(c, p + deep); }), 0);
    make(Box(at, at + Index3{1, 700, 600}), 32, path, "gzip");
    EXPECT_EQ(wrong_samples(path, comm, [&](auto c, const Index3& p) { return smooth(c, p + at); }), 0);
    if (comm.rank() == 0) {
      if (first.empty()) first = sha256(path);
      EXPECT_EQ(sha256(path), first);
      EXPECT_LT(5 * fs::file_size(path), 700 * 600 * 2 * 4U);
      for (const auto& entry : fs::directory_iterator("."))
        EXPECT_FALSE(entry.path().filename().string().starts_with("packed_") &&
                     is_temporary(entry.path().filename().string()))
            << entry.path();
    }
    EXPECT_THROW(make(Box::image2d(9, 9), 32, "no_such_folder/a.h5", "gzip"), RunError);
    comm.barrier();
  });
}

}  // namespace
}  // namespace tessera
