// SPDX-License-Identifier: BSD-3-Clause
// FITS: types, missing samples, extensions and planes, written by cfitsio.
#include <fitsio.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <tuple>

#include "io/tiff_files.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera::test {
namespace {

constexpr long kWidth = 21, kHeight = 13;
constexpr double kStep = 12;  // of floats that tile compression quantizes to a quarter of their noise
const double kNone = std::numeric_limits<double>::quiet_NaN();

void check(int status) { ASSERT_EQ(status, 0); }

// One image more at the end of the file; the first makes it.
struct FitsImageToWrite {
  int type = FLOAT_IMG;
  std::vector<long> axes{kWidth, kHeight};
  std::string name{}, third{}, first{}, pattern{};  // EXTNAME, CTYPE3, CTYPE1, BAYERPAT
  int version = 1;
  int compression = 0;  // RICE_1, ...
  double scale = 1, zero = 0;
  std::optional<long> blank{};  // of the stored integers
};
void append(const std::string& path, const FitsImageToWrite& image, std::vector<double> values) {
  int status = 0;
  if (image.compression) {  // as fpack does
    FitsImageToWrite plain = image;
    plain.compression = 0;
    std::filesystem::remove("t_plain.fits");
    append("t_plain.fits", plain, std::move(values));
    fitsfile *from = nullptr, *to = nullptr;
    fits_open_image(&from, "t_plain.fits", READONLY, &status);
    fits_create_file(&to, path.c_str(), &status);
    fits_set_compression_type(to, image.compression, &status);
    fits_img_compress(from, to, &status);
    fits_close_file(from, &status);
    fits_close_file(to, &status);
    return check(status);
  }
  fitsfile* file = nullptr;
  if (std::filesystem::exists(path))
    fits_open_file(&file, path.c_str(), READWRITE, &status);
  else
    fits_create_file(&file, path.c_str(), &status);
  fits_create_img(file, image.type, static_cast<int>(image.axes.size()), const_cast<long*>(image.axes.data()),
                  &status);
  const auto number = [&](const char* key, double v) {
    fits_write_key(file, TDOUBLE, key, &v, nullptr, &status);
  };
  if (image.scale != 1 || image.zero != 0) {
    number("BSCALE", image.scale);
    number("BZERO", image.zero);
    fits_set_bscale(file, image.scale, image.zero, &status);
  }
  if (image.blank) {
    long blank = *image.blank;
    fits_write_key(file, TLONG, "BLANK", &blank, nullptr, &status);
    fits_set_imgnull(file, blank, &status);
  }
  if (!image.name.empty()) {
    fits_write_key(file, TSTRING, "EXTNAME", const_cast<char*>(image.name.c_str()), nullptr, &status);
    fits_write_key(file, TINT, "EXTVER", const_cast<int*>(&image.version), nullptr, &status);
  }
  for (const auto& [key, text] :
       {std::pair{"CTYPE3", image.third}, {"CTYPE1", image.first}, {"BAYERPAT", image.pattern}})
    if (!text.empty()) fits_write_key(file, TSTRING, key, const_cast<char*>(text.c_str()), nullptr, &status);
  // NaN is missing: BLANK in integers.
  double mark = -12345678;
  std::replace_if(
      values.begin(), values.end(), [](double v) { return std::isnan(v); }, mark);
  if (!values.empty())
    fits_write_imgnull(file, TDOUBLE, 1, static_cast<LONGLONG>(values.size()), values.data(), &mark, &status);
  fits_close_file(file, &status);
  check(status);
}

std::vector<double> numbers(long n, double first = 1) {
  std::vector<double> out(static_cast<std::size_t>(n));
  for (long k = 0; k < n; ++k) out[static_cast<std::size_t>(k)] = first + static_cast<double>(k * 37 % 113);
  return out;
}

void same(const std::vector<double>& got, const std::vector<double>& wanted, double most = 0) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    if (std::isnan(wanted[k])) {
      ASSERT_TRUE(std::isnan(got[k])) << k << ": " << got[k];
    } else {
      ASSERT_NEAR(got[k], wanted[k], most) << k;
    }
  }
}

struct Fits : ::testing::Test {
  void SetUp() override {
    for (const auto& entry : std::filesystem::directory_iterator("."))
      if (entry.path().filename().string().starts_with("t_")) std::filesystem::remove(entry.path());
  }
};

TEST_F(Fits, EveryTypeIsReadPlainPackedAndInTiles) {
  const std::vector<std::pair<int, std::string>> types{
      {BYTE_IMG, "uint8"},    {SBYTE_IMG, "int8"},    {SHORT_IMG, "int16"},    {USHORT_IMG, "uint16"},
      {LONG_IMG, "int32"},    {ULONG_IMG, "uint32"},  {LONGLONG_IMG, "int64"}, {ULONGLONG_IMG, "uint64"},
      {FLOAT_IMG, "float32"}, {DOUBLE_IMG, "float64"}};
  int files = 0;
  for (const auto& [type, name] : types)
    for (const std::string suffix : {".fits", ".fits.gz", ".fits.fz"}) {
      const bool floats = type == FLOAT_IMG || type == DOUBLE_IMG;
      if (suffix == ".fits.fz" && (type == LONGLONG_IMG || type == ULONGLONG_IMG))
        continue;  // cfitsio packs none
      const std::string path = "t_" + name + suffix;
      SCOPED_TRACE(path);
      const bool wide = name == "uint32" || name == "int32" || name == "int64" || name == "uint64";
      const std::vector<double> values = numbers(kWidth * kHeight, wide ? 16'777'217 : 1);
      append(path,
             {.type = type,
              .compression = suffix != ".fits.fz" ? 0
                             : floats             ? GZIP_1
                                                  : RICE_1},
             values);
      const ReadPicture got = read_part(path);
      same(got.values, values, floats && suffix == ".fits.fz" ? kStep : 0);  // floats are quantized
      EXPECT_EQ(got.info.type, name);
      EXPECT_EQ(got.random_access, suffix != ".fits.gz");
      EXPECT_NE(find_format(path), nullptr);
      ++files;
    }
  EXPECT_EQ(files, 28);
}

TEST_F(Fits, MissingSamplesAreNotNumbers) {
  std::vector<double> values = numbers(kWidth * kHeight, 300);
  for (const std::size_t k : {0U, 25U, 26U, 272U}) values[k] = kNone;
  int files = 0;
  const auto holds = [&](const FitsImageToWrite& image, double most) {
    SCOPED_TRACE(++files);
    const std::string path = "t_missing" + std::to_string(files) + ".fits";
    append(path, image, values);
    const ReadPicture got = read_part(path);
    same(got.values, values, most);
    float once[kWidth * kHeight];
    open_image(path)->read_floats(Box::image2d(kHeight, kWidth), once);
    EXPECT_TRUE(std::isnan(once[25]) && !std::isnan(once[24]));
  };
  holds({.type = SHORT_IMG, .blank = -32768}, 0);
  holds({.type = SHORT_IMG, .scale = 0.05, .zero = 300, .blank = 3000},
        0.03);  // inside of the range of values
  holds({.type = USHORT_IMG, .blank = -32768}, 0);
  holds({.type = BYTE_IMG, .scale = 4, .zero = 300, .blank = 255}, 2.01);
  holds({.type = LONG_IMG, .blank = -1}, 0);
  holds({.type = FLOAT_IMG}, 0);
  holds({.type = DOUBLE_IMG}, 0);
  holds({.type = SHORT_IMG, .compression = RICE_1, .blank = -32768}, 0);
  holds({.type = FLOAT_IMG, .compression = RICE_1}, kStep);  // quantized, named .fits
  holds({.type = DOUBLE_IMG, .compression = GZIP_1}, kStep);
  EXPECT_EQ(files, 10);
}

TEST_F(Fits, OfSeveralImagesOneIsNamed) {
  const long n = kWidth * kHeight;
  append("t_mef.fits", {.axes = {}}, {});
  append("t_mef.fits", {.name = "SCI"}, numbers(n, 1000));
  append("t_mef.fits", {.name = "ERR"}, numbers(n, 2000));
  append("t_mef.fits", {.name = "SCI", .version = 2}, numbers(n, 3000));
  EXPECT_NE(refusal("t_mef.fits")
                .find("t_mef.fits holds 3 images (one is read) say which: t_mef.fits:/1 (SCI,1, 13 x 21), "
                      "t_mef.fits:/2 (ERR, 13 x 21), t_mef.fits:/3 (SCI,2, 13 x 21)"),
            std::string::npos)
      << refusal("t_mef.fits");
  for (const auto& [part, first] : std::vector<std::pair<std::string, double>>{{"1", 1000},
                                                                               {"3", 3000},
                                                                               {"SCI,1", 1000},
                                                                               {"sci,2", 3000},
                                                                               {"ERR", 2000},
                                                                               {"ERR,1", 2000},
                                                                               {"2/0", 2000}})
    same(read_part("t_mef.fits", part).values, numbers(n, first));
  for (const char* part : {"0", "4", "DQ", "SCI,3", "ERR,2"})
    EXPECT_NE(refusal("t_mef.fits", part).find("it has t_mef.fits:/1 (SCI,1"), std::string::npos) << part;
  EXPECT_NE(refusal("t_mef.fits", "SCI").find("holds 2 images of the name SCI"), std::string::npos);
  EXPECT_NE(refusal("t_mef.fits", "1/2").find("it has 1 plane"), std::string::npos);
  EXPECT_NE(refusal("t_mef.fits", "1/x").find("for example t_mef.fits:/1/0"), std::string::npos);
  const SourceInfo info = image_source_info("t_mef.fits:/SCI,2", Communicator());
  EXPECT_EQ(info.box, Box::image2d(kHeight, kWidth));
}

TEST_F(Fits, PlanesAreNamedOrAVolumeOrChannels) {
  const long n = kWidth * kHeight;
  append("t_iquv.fits", {.axes = {kWidth, kHeight, 4}, .third = "STOKES"}, numbers(4 * n));
  append("t_cube.fits", {.axes = {kWidth, kHeight, 4, 1}}, numbers(4 * n));
  append("t_both.fits", {.axes = {kWidth, kHeight, 2, 3}}, numbers(6 * n));
  append("t_flat.fits", {.axes = {kWidth, kHeight, 1, 1}}, numbers(n));
  EXPECT_NE(
      refusal("t_iquv.fits")
          .find("t_iquv.fits:/0 has 4 planes (STOKES) (one picture is read) say which: t_iquv.fits:/0/0 to "
                "t_iquv.fits:/0/3, or t_iquv.fits:/0/slices, a volume of them"),
      std::string::npos)
      << refusal("t_iquv.fits");
  same(read_part("t_flat.fits").values, numbers(n));
  const std::vector<double> all = numbers(4 * n);
  same(read_part("t_iquv.fits", "0/3").values, {all.end() - n, all.end()});
  for (const auto& [path, part, channels, depth] :
       std::vector<std::tuple<std::string, std::string, int, int>>{{"t_iquv.fits", "all", 4, 1},
                                                                   {"t_iquv.fits", "slices", 1, 4},
                                                                   {"t_iquv.fits", "0/channels", 4, 1},
                                                                   {"t_cube.fits", "all", 1, 4},
                                                                   {"t_cube.fits", "0/all", 1, 4},
                                                                   {"t_cube.fits", "channels", 4, 1},
                                                                   {"t_both.fits", "slices", 1, 6}}) {
    const ReadPicture got = read_part(path, part);
    EXPECT_EQ(got.channels, channels) << path << part;
    EXPECT_EQ(got.depth, depth) << path << part;
    same(got.values, numbers(channels * depth * n));
  }
  // Beyond 9 axes cfitsio reads no parts; those of 1 at the end say nothing.
  std::vector<long> many{kWidth, kHeight, 1, 2, 1, 1, 1, 1, 1, 1, 1};
  append("t_many.fits", {.axes = many}, numbers(2 * n));
  same(read_part("t_many.fits", "slices").values, numbers(2 * n));
  many[9] = 2;
  append("t_more.fits", {.axes = many}, numbers(4 * n));
  EXPECT_NE(refusal("t_more.fits", "slices").find("t_more.fits has an image of 10 axes (9 at most are read)"),
            std::string::npos)
      << refusal("t_more.fits", "slices");
  EXPECT_NE(refusal("t_both.fits", "all").find("6 planes along 2 axes"), std::string::npos);
  EXPECT_NE(refusal("t_iquv.fits", "0/4").find("it has 4 planes, counted from 0"), std::string::npos);
}

TEST_F(Fits, AxesAreWhatTheirNamesSay) {
  const long n = kWidth * kHeight;
  append("t_freq.fits", {.axes = {kWidth, kHeight, 5}, .third = "FREQ"}, numbers(5 * n));
  EXPECT_EQ(read_part("t_freq.fits", "all").channels, 5);
  EXPECT_EQ(read_part("t_freq.fits", "slices").depth, 5);
  append("t_time.fits", {.axes = {kWidth, kHeight, 5}, .third = "TIME"}, numbers(5 * n));
  EXPECT_NE(refusal("t_time.fits", "all").find("5 planes along TIME"), std::string::npos);
  append("t_ifu.fits", {.axes = {5, kWidth, kHeight}, .first = "WAVE-LOG"}, numbers(5 * n));
  for (const char* part : {"all", "channels"})
    EXPECT_NE(refusal("t_ifu.fits", part).find("has WAVE-LOG along its axis 1, its columns"),
              std::string::npos)
        << refusal("t_ifu.fits", part);
  append("t_last.fits", {.axes = {3, kWidth, kHeight}}, numbers(3 * n));
  EXPECT_NE(refusal("t_last.fits", "all").find("its last axis may be channels"), std::string::npos);
  EXPECT_EQ(read_part("t_last.fits", "slices").depth, kHeight);
  append("t_mosaic.fits", {.axes = {kWidth, kHeight}, .pattern = "RGGB"}, numbers(n));
  EXPECT_NE(read_part("t_mosaic.fits").info.note.find("BAYERPAT RGGB"), std::string::npos);
}

TEST_F(Fits, ATableIsPassedAndDamageIsSaid) {
  append("t_table.fits", {.axes = {}}, {});
  int status = 0;
  fitsfile* file = nullptr;
  fits_open_file(&file, "t_table.fits", READWRITE, &status);
  char name[] = "A", form[] = "E";
  char *names[] = {name}, *forms[] = {form};
  fits_create_tbl(file, BINARY_TBL, 3, 1, names, forms, nullptr, "T", &status);
  fits_close_file(file, &status);
  check(status);
  EXPECT_NE(refusal("t_table.fits").find("t_table.fits holds no image"), std::string::npos);
  append("t_table.fits", {.name = "SCI"}, numbers(kWidth * kHeight));
  same(read_part("t_table.fits").values, numbers(kWidth * kHeight));
  const std::string whole = read_text("t_table.fits");
  int refused = 0;
  for (std::size_t size = 0; size + 2880 < whole.size(); size += 1000) {
    std::ofstream("t_cut.fits", std::ios::binary) << whole.substr(0, size);
    const std::string why = refusal("t_cut.fits");
    EXPECT_NE(why.find("t_cut.fits"), std::string::npos) << size;
    refused += !why.empty();
  }
  EXPECT_GE(refused, 5);
}

// A FITS file of two rows, the first stored first, byte by byte.
void write_fits(const std::string& path, int bits, const std::string& scale,
                const std::vector<char>& big_endian) {
  std::string head;
  const auto card = [&](const std::string& text) { head += text + std::string(80 - text.size(), ' '); };
  const auto number = [&](const std::string& key, const std::string& value) {
    card(key + "= " + std::string(20 - value.size(), ' ') + value);
  };
  number("SIMPLE  ", "T");
  number("BITPIX  ", std::to_string(bits));
  number("NAXIS   ", "2");
  number("NAXIS1  ", "3");
  number("NAXIS2  ", "2");
  if (!scale.empty()) number("BZERO   ", scale);
  card("END");
  head.resize(2880, ' ');
  std::string data(big_endian.begin(), big_endian.end());
  data.resize(2880, '\0');
  std::ofstream(path, std::ios::binary) << head << data;
}

TEST_F(Fits, RowsStandInTheOrderOfTheFile) {
  write_fits("signed.fits", 16, "", {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 15, 60});
  EXPECT_EQ(open_image("signed.fits")->info().type, "int16");
  EXPECT_EQ(read_part("signed.fits").values, (std::vector<double>{1, 2, 3, 4, 5, 3900}));
  write_fits("unsigned.fits", 16, "32768.0", {-128, 33, -128, 34, -128, 35, -128, 36, -128, 37, 127, -1});
  EXPECT_EQ(open_image("unsigned.fits")->info().type, "uint16");
  EXPECT_EQ(read_part("unsigned.fits").values, (std::vector<double>{33, 34, 35, 36, 37, 65535}))
      << "BZERO is added";
  std::vector<float> second(3);
  open_image("signed.fits")->read_floats(Box({0, 1, 0}, {1, 2, 3}), second.data());
  EXPECT_EQ(second, (std::vector<float>{4, 5, 3900}));
}

}  // namespace
}  // namespace tessera::test
