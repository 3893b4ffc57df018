// SPDX-License-Identifier: BSD-3-Clause
// NIfTI and MRC: files of nibabel and mrcfile (tests/reference/make_grid_reference.py), and ours.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/opened.hpp"
#include "io/zarr_stores.hpp"
#include "support/block.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

using test::refusal_of;
using test::Wanted;
using test::wrong_samples;

namespace fs = std::filesystem;

// The file as it was, and its name.
std::string kept_file(const std::string& name) {
  const char* source = std::getenv("TESSERA_SOURCE_DIR");
  if (!source) throw std::runtime_error("TESSERA_SOURCE_DIR is not set: run through ctest, or set it");
  std::ifstream file(fs::path(source) / "tests/fuzz/corpus/grid" / name, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (bytes.empty()) throw std::runtime_error("there is no file " + name);
  constexpr const char* kSuffix[] = {".nii", ".nii.gz", ".mrc"};
  const std::string path = name + kSuffix[static_cast<std::size_t>(bytes[0])];
  std::ofstream(path, std::ios::binary) << bytes.substr(1);
  return path;
}

// Of an array (.., 5, 9, 11), the first sample at `first`.
Wanted in_order(const std::string& type, std::int64_t first = 0, double slope = 1, double inter = 0) {
  return [=](std::int64_t, const Index3& p) {
    return slope * test::stored_value(first + (p[0] * 9 + p[1]) * 11 + p[2], type) + inter;
  };
}

TEST(Grids, NiftiIsReadAsNibabelDoesOnAnyRanks) {
  const Communicator world = Communicator::world();
  if (world.rank() == 0)
    for (const char* name : {"scaled", "big", "packed", "2", "frames", "vector", "plain", "rgb"})
      kept_file(concat("nifti_", name));
  world.barrier();
  test::on_groups([&](const Communicator& comm) {
    EXPECT_EQ(wrong_samples("nifti_scaled.nii", comm, in_order("int16", 0, 0.5, 10)), 0);
    EXPECT_EQ(wrong_samples("nifti_big.nii", comm, in_order("float32")), 0);
    EXPECT_EQ(wrong_samples("nifti_packed.nii.gz", comm, in_order("uint8")), 0);
    EXPECT_EQ(wrong_samples("nifti_2.nii", comm, in_order("float64")), 0);
    EXPECT_EQ(wrong_samples("nifti_frames.nii:/t2", comm, in_order("uint16", 2 * 5 * 9 * 11)), 0);
    EXPECT_EQ(wrong_samples("nifti_vector.nii", comm,
                            [](std::int64_t c, const Index3& p) {
                              return test::stored_value(((c * 5 + p[0]) * 9 + p[1]) * 11 + p[2], "float32");
                            }),
              0);
    EXPECT_EQ(wrong_samples("nifti_rgb.nii", comm,
                            [](std::int64_t c, const Index3& p) {
                              return test::stored_value(((p[0] * 9 + p[1]) * 11 + p[2]) * 3 + c, "uint8");
                            }),
              0);
    EXPECT_EQ(wrong_samples("nifti_plain.nii", comm, in_order("int32")), 0);
  });
  if (world.rank() > 0) return;
  const auto scaled = open_image("nifti_scaled.nii");
  EXPECT_EQ(scaled->info().type, "float32") << "values are no longer whole";
  EXPECT_EQ(scaled->info().grid[0], (ImageSpace::Axis{"z", 3, "mm"}));
  EXPECT_EQ(scaled->info().grid[1], (ImageSpace::Axis{"y", 2, "mm"}));
  EXPECT_EQ(scaled->info().grid[2], (ImageSpace::Axis{"x", 1.5, "mm"}));
  EXPECT_EQ(scaled->info().orientation, "PRS");
  EXPECT_EQ(
      scaled->metadata().text,
      (Metadata{{}, {{"affine", "0 2 0 -5 -1.5 0 0 7.25 0 0 3 11"}, {"descrip", "made by nibabel"}}}.text));
  EXPECT_EQ(open_image("nifti_big.nii")->info().orientation, "PRS") << "by its quaternion";
  EXPECT_EQ(open_image("nifti_2.nii")->info().grid[1], (ImageSpace::Axis{"y", 0.75, "\u00b5m"}));
  EXPECT_EQ(open_image("nifti_plain.nii")->info().grid[1].spacing, 0) << "1 without a unit is nobody's";
  EXPECT_FALSE(open_image("nifti_packed.nii.gz")->random_access());
  EXPECT_NE(
      refusal_of("nifti_frames.nii")
          .find(
              "it has 3 frames (one image is reconstructed) name one, counted from 0: nifti_frames.nii:/t0"),
      std::string::npos);
  EXPECT_NE(refusal_of("nifti_frames.nii:/t3").find("there is no t3 (it has 3 frames"), std::string::npos);
}

TEST(Grids, MrcIsReadAsMrcfileDoesOnAnyRanks) {
  const Communicator world = Communicator::world();
  if (world.rank() == 0)
    for (const char* name :
         {"0", "1", "2", "6", "12", "big", "stack", "turned", "volumes", "imod", "extended"})
      kept_file(concat("mrc_", name));
  world.barrier();
  test::on_groups([&](const Communicator& comm) {
    EXPECT_EQ(wrong_samples("mrc_0.mrc", comm, in_order("int8")), 0);
    EXPECT_EQ(wrong_samples("mrc_1.mrc", comm, in_order("int16")), 0);
    EXPECT_EQ(wrong_samples("mrc_2.mrc", comm, in_order("float32")), 0);
    EXPECT_EQ(wrong_samples("mrc_6.mrc", comm, in_order("uint16")), 0);
    EXPECT_EQ(wrong_samples("mrc_12.mrc", comm, in_order("float16")), 0);
    EXPECT_EQ(wrong_samples("mrc_big.mrc", comm, in_order("float32")), 0);
    EXPECT_EQ(wrong_samples("mrc_extended.mrc", comm, in_order("int16")), 0);
    EXPECT_EQ(wrong_samples("mrc_stack.mrc:/slices", comm, in_order("int16")), 0);
    EXPECT_EQ(wrong_samples("mrc_stack.mrc:/3", comm, in_order("int16", 3 * 9 * 11)), 0);
    EXPECT_EQ(wrong_samples("mrc_volumes.mrc:/2", comm, in_order("float32", 4 * 9 * 11)), 0);
    // Columns are z, rows x, sections y.
    EXPECT_EQ(wrong_samples("mrc_turned.mrc", comm,
                            [](std::int64_t, const Index3& p) {
                              return test::stored_value((p[1] * 9 + p[2]) * 11 + p[0], "float32");
                            }),
              0);
    EXPECT_EQ(wrong_samples("mrc_imod.mrc", comm,
                            [](std::int64_t, const Index3& p) {
                              const double v = test::stored_value((p[0] * 9 + p[1]) * 11 + p[2], "int8");
                              return v < 0 ? v + 256 : v;
                            }),
              0);
  });
  if (world.rank() > 0) return;
  const auto image = open_image("mrc_2.mrc");
  EXPECT_EQ(image->info().grid[0], (ImageSpace::Axis{"z", 2.5, "\u00c5"}));
  EXPECT_EQ(image->info().grid[2], (ImageSpace::Axis{"x", 1.5, "\u00c5"}));
  EXPECT_EQ(image->metadata().text[0], (std::pair<std::string, std::string>{"translation", "30 -20 10"}));
  EXPECT_EQ(open_image("mrc_turned.mrc")->info().box, Box({0, 0, 0}, {11, 5, 9}));
  EXPECT_NE(refusal_of("mrc_stack.mrc").find("it is a stack of 5 images"), std::string::npos);
  EXPECT_NE(refusal_of("mrc_volumes.mrc").find("it holds 3 volumes"), std::string::npos);
  EXPECT_NE(refusal_of("mrc_volumes.mrc:/3").find("it has 3 volumes"), std::string::npos);
}

TEST(Grids, WhatCannotBeReadIsSaid) {
  if (test::other_rank()) return;
  const auto with = [](const std::string& name, std::size_t at, const std::string& bytes) {
    const std::string path = kept_file(name);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
    file.close();
    return refusal_of(path);
  };
  using namespace std::string_literals;
  EXPECT_EQ(with("nifti_scaled", 344, "n+1"), "");
  EXPECT_NE(with("nifti_scaled", 344, "ni1").find("not that of a NIfTI file in one piece"),
            std::string::npos);
  EXPECT_NE(with("nifti_scaled", 70, "\x20\0"s).find("its datatype is 32"), std::string::npos);
  EXPECT_NE(with("nifti_scaled", 40, "\x09\0"s).find("its dim is 9 11 9 5"), std::string::npos);
  EXPECT_NE(with("nifti_scaled", 42, "\xff\xff"s).find("its dim is 3 -1 9 5"), std::string::npos);
  EXPECT_NE(with("nifti_scaled", 42, "\xff\x7f"s).find("1 x 5 x 9 x 32767 samples of int16 from byte 352 on"),
            std::string::npos);
  EXPECT_NE(with("nifti_scaled", 108, "\0\0\0\0"s).find("its vox_offset is 0"), std::string::npos);
  EXPECT_NE(with("nifti_scaled", 116, "\0\0\xc0\x7f"s).find("its scl_slope is 0.5, its scl_inter is none"),
            std::string::npos);
  EXPECT_NE(with("nifti_packed", 60, "zzzz").find("gzip cannot unpack it"), std::string::npos);
  EXPECT_NE(with("mrc_2", 12, "\x04"s).find("its mode is 4"), std::string::npos);
  EXPECT_NE(with("mrc_2", 0, "\xff\xff\xff\x7f"s).find("is it complete?"), std::string::npos);
  EXPECT_NE(with("mrc_2", 64, "\x02"s).find("its axes are 2, 2, 3"), std::string::npos);
  EXPECT_NE(with("mrc_2", 92, "\xff\xff\xff\xff").find("its extended header has -1 bytes"),
            std::string::npos);
  fs::resize_file(kept_file("mrc_2"), 1100);
  EXPECT_NE(refusal_of("mrc_2.mrc").find("is it complete?"), std::string::npos);
  fs::resize_file("mrc_2.mrc", 100);
  EXPECT_NE(refusal_of("mrc_2.mrc").find("the header of MRC has 1024"), std::string::npos);
}

// A file written by all ranks from one that is read, and what goes along.
void copy_image(const std::string& from, const std::string& to, int bits, const Communicator& comm,
                const Box* part = nullptr) {
  ImageRecord record = record_from(from, comm);
  record.bits = bits;
  if (part) record.space.box = *part;
  const Layout layout = test::grid_layout(record.space.box, test::square_grid(comm.size()));
  test::Block<float> block(layout.box(comm.rank()), record.space.channels, ElementType::float32, 0);
  read_image(from, layout, block.view(), comm);
  const float top = bits == 8 ? 255 : bits == 16 ? 65535 : 1;
  block.for_each([&](std::int64_t, const Index3&, float& v) { v /= top; });
  write_image(to, record, layout, block.view(), comm);
  comm.barrier();
}

TEST(Grids, WhatIsWrittenSaysWhatWasRead) {
  const Communicator world = Communicator::world();
  if (world.rank() == 0)
    for (const char* name : {"nifti_scaled", "nifti_packed", "nifti_vector", "mrc_2", "mrc_6"})
      kept_file(name);
  world.barrier();
  test::on_groups([&](const Communicator& comm) {
    const std::string n = concat("_", comm.size());
    struct Copy {
      std::string from, to;
      int bits;
      Wanted wanted;
    };
    for (const Copy& copy : {Copy{"nifti_scaled.nii", "a" + n + ".nii.gz", 32, in_order("int16", 0, 0.5, 10)},
                             Copy{"nifti_packed.nii.gz", "b" + n + ".nii", 8, in_order("uint8")},
                             Copy{"mrc_2.mrc", "c" + n + ".mrc", 32, in_order("float32")},
                             Copy{"mrc_6.mrc", "d" + n + ".mrc", 16, in_order("uint16")}}) {
      SCOPED_TRACE(copy.to);
      copy_image(copy.from, copy.to, copy.bits, comm);
      EXPECT_EQ(wrong_samples(copy.to, comm, copy.wanted), 0);
      const auto before = open_image(copy.from), after = open_image(copy.to);
      EXPECT_EQ(after->info().grid, before->info().grid);
      EXPECT_EQ(after->info().orientation, before->info().orientation);
      EXPECT_EQ(after->metadata(), before->metadata());
    }
    // Millimeters of a map in angstroms; a part of it lies where it lay.
    const Box part({1, 2, 3}, {4, 9, 11});
    copy_image("mrc_2.mrc", "e" + n + ".nii", 32, comm, &part);
    if (comm.rank() == 0) {
      const auto file = open_image("e" + n + ".nii");
      EXPECT_NEAR(file->info().grid[2].spacing, 1.5e-7, 1e-14);
      EXPECT_EQ(file->info().grid[2].unit, "mm");
      copy_image("e" + n + ".nii", "f" + n + ".mrc", 32, Communicator());
      EXPECT_NEAR(open_image("f" + n + ".mrc")->info().grid[0].spacing, 2.5, 1e-5);
    }
    copy_image("mrc_2.mrc", "g" + n + ".mrc", 32, comm, &part);
    copy_image("nifti_scaled.nii", "h" + n + ".nii", 32, comm, &part);
    if (comm.rank() == 0) {
      EXPECT_EQ(open_image("g" + n + ".mrc")->metadata().text[0].second, "32.5 -16 14.5");
      // (columns, rows, slices) = (3, 2, 1) through the matrix.
      EXPECT_EQ(open_image("h" + n + ".nii")->metadata().text[0].second, "0 2 0 -1 -1.5 0 0 2.75 0 0 3 14");
    }
    copy_image("nifti_vector.nii", "i" + n + ".nii", 32, comm);
    EXPECT_EQ(wrong_samples("i" + n + ".nii", comm,
                            [](std::int64_t c, const Index3& p) {
                              return test::stored_value(((c * 5 + p[0]) * 9 + p[1]) * 11 + p[2], "float32");
                            }),
              0);
  });
}

}  // namespace
}  // namespace tessera
