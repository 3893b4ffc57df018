// SPDX-License-Identifier: BSD-3-Clause
// Files of MATLAB 5: what they hold, torn ones, and sizes that are not there.
#include "tessera/io/matlab_file.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

std::string word(std::uint32_t value) {
  std::string out(4, 0);
  std::memcpy(out.data(), &value, 4);
  return out;
}
std::string element(std::uint32_t kind, std::string bytes) {
  std::string out = word(kind) + word(static_cast<std::uint32_t>(bytes.size())) + bytes;
  out.resize((out.size() + 7) / 8 * 8);
  return out;
}
std::string matrix(std::uint32_t kind, std::vector<std::uint32_t> size, const std::string& name,
                   const std::string& rest) {
  std::string sides;
  for (const std::uint32_t side : size) sides += word(side);
  return element(14, element(6, word(kind) + word(0)) + element(5, sides) + element(1, name) + rest);
}
std::string whole(const std::string& variables) {
  std::string head = "MATLAB 5.0 MAT-file";
  head.resize(124, ' ');
  return head + std::string("\0\1IM", 4) + variables;
}
std::string geometry() {
  std::vector<double> rows{0, 10, 1, 11, 2, 12};  // of 2 x 3, column after column
  std::string raw(sizeof(double) * rows.size(), 0);
  std::memcpy(raw.data(), rows.data(), raw.size());
  std::string names("type\0\0\0\0Vectors\0", 16);
  return whole(matrix(2, {1, 1}, "geometry",
                      word(5 | 4 << 16) + word(8) + element(1, names) +
                          matrix(4, {1, 4}, "", element(16, "cone")) +
                          matrix(6, {2, 3}, "", element(9, raw))) +
               matrix(1, {1, 1}, "cell", "") +
               matrix(9, {1, 2}, "bytes", word(2 | 2 << 16) + std::string("\7\10\0\0", 4)));
}

TEST(MatlabFile, StructsWordsAndNumbersAreReadAndOtherKindsLeftOut) {
  const MatlabValue file = read_matlab(geometry(), "g.mat");
  ASSERT_EQ(file.fields.size(), 2U);
  const MatlabValue& dict = *file.field("geometry");
  EXPECT_EQ(dict.field("type")->text, "cone");
  EXPECT_EQ(dict.field("Vectors")->size, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(dict.field("Vectors")->numbers, (std::vector<double>{0, 10, 1, 11, 2, 12}));
  EXPECT_EQ(file.field("bytes")->numbers, (std::vector<double>{7, 8}));
}

TEST(MatlabFile, TornFilesAndSizesThatAreNotThereAreRefused) {
  const std::string good = geometry();
  int refused = 0;
  for (std::size_t end = 0; end < good.size(); ++end) {
    try {
      read_matlab(good.substr(0, end), "g.mat");
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
  for (std::size_t at = 128; at < good.size(); ++at)
    for (const char byte : {'\0', '\x7f', '\xff'}) {
      std::string odd = good;
      odd[at] = byte;
      try {
        read_matlab(odd, "g.mat");
      } catch (const InputError&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, 400);
  EXPECT_THROW(read_matlab(whole(element(15, "no zlib")), "g.mat"), InputError);
  EXPECT_THROW(read_matlab(whole(matrix(6, {1U << 30, 1U << 29}, "x", element(9, ""))), "g.mat"), InputError);
}

}  // namespace
}  // namespace tessera
