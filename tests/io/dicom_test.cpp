// SPDX-License-Identifier: BSD-3-Clause
// DICOM, of files made here; those of pydicom are read in tests/reference/instruments_test.py.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "io/opened.hpp"
#include "support/block.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

using test::refusal_of;
using test::wrong_samples;

namespace fs = std::filesystem;

// An element of explicit or implicit type, little endian.
std::string element(bool with_type, std::uint16_t group, std::uint16_t number, const char* type,
                    std::string value) {
  if (value.size() % 2 != 0) value += ' ';
  std::string out;
  const auto put = [&](std::uint32_t n, int bytes) {
    for (int b = 0; b < bytes; ++b) out += static_cast<char>(n >> (8 * b));
  };
  const auto length = static_cast<std::uint32_t>(value.size());
  put(group, 2);
  put(number, 2);
  if (!with_type) {
    put(length, 4);
  } else {
    const bool wide = std::strcmp(type, "OW") == 0 || std::strcmp(type, "SQ") == 0;
    out += type;
    if (wide) put(0, 2);
    put(length, wide ? 4 : 2);
  }
  return out + value;
}
std::string two_bytes(int n) { return {static_cast<char>(n & 255), static_cast<char>(n >> 8 & 255)}; }

struct Ct {
  std::string place = "-10\\5\\0", axes = "1\\0\\0\\0\\1\\0", slope = "0.5", intercept = "-1024",
              syntax = "1.2.840.10008.1.2.1", colors = "MONOCHROME2", series = "1.2.3";
  int bits = 16, stored = 12, high = 11, with_sign = 1, padding = -99999;
};

// 6 rows of 8 samples, which are first, first + 1, ...; bits above those stored are another number.
void write_ct(const std::string& path, const Ct& about, int first) {
  const bool e = about.syntax != "1.2.840.10008.1.2";
  std::string out(128, '\0');
  out += "DICM" + element(true, 2, 0x10, "UI", about.syntax + '\0');
  const auto add = [&](std::uint16_t g, std::uint16_t n, const char* type, const std::string& value) {
    out += element(e, g, n, type, value);
  };
  add(0x0008, 0x0060, "CS", "CT");
  add(0x0020, 0x000E, "UI", about.series + '\0');
  if (!about.place.empty()) add(0x0020, 0x0032, "DS", about.place);
  add(0x0020, 0x0037, "DS", about.axes);
  add(0x0028, 0x0002, "US", two_bytes(1));
  add(0x0028, 0x0004, "CS", about.colors);
  add(0x0028, 0x0010, "US", two_bytes(6));
  add(0x0028, 0x0011, "US", two_bytes(8));
  add(0x0028, 0x0030, "DS", "0.7\\0.5");
  add(0x0028, 0x0100, "US", two_bytes(about.bits));
  add(0x0028, 0x0101, "US", two_bytes(about.stored));
  add(0x0028, 0x0102, "US", two_bytes(about.high));
  add(0x0028, 0x0103, "US", two_bytes(about.with_sign));
  if (about.padding > -99999) add(0x0028, 0x0120, "SS", two_bytes(about.padding));
  add(0x0028, 0x1052, "DS", about.intercept);
  add(0x0028, 0x1053, "DS", about.slope);
  std::string samples;
  for (int k = 0; k < 48; ++k) {
    const int shift = about.high + 1 - about.stored, all = (1 << about.stored) - 1;
    const int word = ((first + k) & all) << shift | (0x5A5A & ~(all << shift));
    samples += two_bytes(word);
  }
  add(0x7FE0, 0x0010, "OW", samples);
  std::ofstream(path, std::ios::binary) << out;
}

// Slices 2.5 apart along z, names in another order.
void write_series(const std::string& folder, const Ct& about, const std::vector<double>& places) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (std::size_t k = 0; k < places.size(); ++k) {
    Ct one = about;
    one.place = "-10\\5\\" + std::to_string(places[k]);
    write_ct(folder + "/IM" + std::to_string((7 * k + 3) % 10), one, static_cast<int>(100 * k) - 200);
  }
  std::ofstream(folder + "/notes.txt") << "no DICOM";
}

double ct_value(const Index3& p) {
  return 0.5 * static_cast<double>(100 * p[0] - 200 + p[1] * 8 + p[2]) - 1024;
}
double ct_sample(std::int64_t, const Index3& p) { return ct_value(p); }

void expect_refused(const std::string& path, const std::string& words) {
  EXPECT_NE(refusal_of(path).find(words), std::string::npos) << path << ": " << refusal_of(path);
}

TEST(Dicom, SlicesStandAlongTheirNormalOnAnyRanks) {
  const std::vector<double> even{-5, -2.5, 0, 2.5, 5};
  Ct other;
  other.syntax = "1.2.840.10008.1.2";
  other.high = 14;  // beside the lowest bits
  if (Communicator::world().rank() == 0) {
    write_series("series", {}, even);
    write_series("implicit", other, even);
  }
  Communicator::world().barrier();
  test::on_groups([&](const Communicator& comm) {
    EXPECT_EQ(wrong_samples("series", comm, ct_sample), 0);
    EXPECT_EQ(wrong_samples("implicit", comm, ct_sample), 0);
  });
  if (test::other_rank()) return;
  const auto series = open_image("series");
  EXPECT_EQ(series->info().box, Box({0, 0, 0}, {5, 6, 8}));
  EXPECT_EQ(series->info().type, "float32");
  EXPECT_EQ(series->info().grid[0], (ImageSpace::Axis{"z", 2.5, "mm"}));
  EXPECT_EQ(series->info().grid[1], (ImageSpace::Axis{"y", 0.7, "mm"})) << "between rows comes first";
  EXPECT_EQ(series->info().grid[2], (ImageSpace::Axis{"x", 0.5, "mm"}));
  EXPECT_EQ(series->info().orientation, "LPS");
  EXPECT_EQ(series->metadata().text[0].second, "-0.5 0 0 10 0 -0.7 0 -5 0 0 2.5 -5");
  EXPECT_NE(standing_file("series").find("series/IM"), std::string::npos);
}

TEST(Dicom, SeriesThatAreNoVolumeAreRefusedWithTheirNumbers) {
  if (test::other_rank()) return;
  write_series("gap", {}, {0, 2.5, 7.5, 10});
  expect_refused("gap", "its slices are 2.5 mm apart, IM0 and IM7 5: uneven, or one is missing");
  write_series("twice", {}, {0, 2.5, 2.5, 5});
  expect_refused("twice", "lie at one place, 2.5 mm");
  write_series("tilted", {}, {0, 2.5, 5});
  for (int k = 0; k < 3; ++k) {
    Ct one;
    one.place = "-10\\" + std::to_string(k) + "\\" + std::to_string(2.5 * k);
    write_ct("tilted/IM" + std::to_string((7 * k + 3) % 10), one, 0);
  }
  expect_refused("tilted", "by 21.8 degrees: a tilted gantry");
  write_series("scout", {}, {0, 2.5, 5});
  Ct side;
  side.axes = "0\\1\\0\\0\\0\\-1";
  write_ct("scout/IM9", side, 0);
  expect_refused("scout", "an overview among slices");
  write_series("two", {}, {0, 2.5, 5});
  Ct second;
  second.series = "1.2.4";
  write_ct("two/IM9", second, 0);
  expect_refused("two", "holds 2 series (one is read) name one: two:/0 CT, 3 files; two:/1 CT, 1 file");
  EXPECT_EQ(open_image("two:/1")->info().box, Box::image2d(6, 8));
  Ct nowhere;
  nowhere.place = "";
  write_ct("two/IM8", nowhere, 0);
  expect_refused("two:/0", "1 of its 4 slices have no place");
}

TEST(Dicom, SamplesAreThoseOfTheirBits) {
  if (test::other_rank()) return;
  Ct plain;
  plain.slope = "1";
  plain.intercept = "0";
  plain.colors = "MONOCHROME1";
  plain.padding = -2000;
  write_ct("one.dcm", plain, -2001);
  const auto one = open_image("one.dcm");
  EXPECT_EQ(one->info().type, "int16");
  EXPECT_NE(one->info().note.find("MONOCHROME1"), std::string::npos);
  std::vector<double> values(48);
  one->read(one->info().box, values.data());
  EXPECT_EQ(values[0], -2001);
  EXPECT_TRUE(std::isnan(values[1])) << "padding is no sample";
  EXPECT_EQ(values[47], -1954);
  plain.with_sign = 0;
  plain.padding = -99999;
  write_ct("unsigned.dcm", plain, 4090);
  const auto two = open_image("unsigned.dcm");
  two->read(two->info().box, values.data());
  EXPECT_EQ(values[5], 4095);
  EXPECT_EQ(values[6], 0) << "12 bits";
  Ct packed;
  packed.syntax = "1.2.840.10008.1.2.4.70";
  write_ct("packed.dcm", packed, 0);
  expect_refused("packed.dcm", "its transfer syntax is JPEG Lossless, first-order prediction");
  packed = {};
  packed.colors = "YBR_FULL";
  write_ct("colors.dcm", packed, 0);
  expect_refused("colors.dcm", "its colors are YBR_FULL of 1 sample");
  fs::copy_file("one.dcm", "short.dcm", fs::copy_options::overwrite_existing);
  fs::resize_file("short.dcm", fs::file_size("short.dcm") - 2);
  expect_refused("short.dcm", "is it complete?");
  std::ofstream("other.dcm") << "no DICOM";
  expect_refused("other.dcm", "DICM at byte 128");
}

}  // namespace
}  // namespace tessera
