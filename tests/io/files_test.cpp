// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/files.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <class T>
std::string bytes_of(const std::vector<T>& values, bool swap = false) {
  std::string out;
  for (const T value : values) {
    std::string one(reinterpret_cast<const char*>(&value), sizeof(T));
    if (swap) one.assign(one.rbegin(), one.rend());
    out += one;
  }
  return out;
}

std::string npy(const std::string& header, const std::string& data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  const int bytes = version == 1 ? 2 : 4;
  for (int k = 0; k < bytes; ++k) out += static_cast<char>(header.size() >> (8 * k));
  return out + header + data;
}

std::string header(const std::string& type, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

TEST(Files, TextComesBackAndItsSumIsRight) {
  put("abc.txt", "abc");  // FIPS 180-2, appendix B.1
  EXPECT_EQ(sha256("abc.txt"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  put("million.txt", std::string(1000000, 'a'));  // B.3
  EXPECT_EQ(sha256("million.txt"), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  const std::string text("line\n\0zero", 10);
  write_text("text.txt", text);
  EXPECT_EQ(read_text("text.txt"), text);
  write_text("text.txt", "");
  EXPECT_EQ(read_text("text.txt"), "");
  EXPECT_THROW(read_text("no_such.txt"), InputError);
  EXPECT_THROW(sha256("."), InputError);
}

TEST(Files, AFailedWriteLeavesTheFileThatWasThere) {
  write_text("kept.txt", "old");
  EXPECT_THROW(write_whole("kept.txt",
                           [](const std::string& temporary) {
                             put(temporary, "half");
                             throw RunError("disk full");
                           }),
               RunError);
  EXPECT_EQ(read_text("kept.txt"), "old");
  EXPECT_FALSE(std::filesystem::exists("kept.txt.tmp"));
  EXPECT_THROW(write_text("no_such_folder/a.txt", "a"), RunError);
  std::filesystem::create_directories("a_folder/inside");
  EXPECT_THROW(write_text("a_folder", "a"), RunError);
  EXPECT_FALSE(std::filesystem::exists("a_folder.tmp"));
}

TEST(Files, NpyOfEveryTypeOrderAndFormat) {
  struct Case {
    std::string type, data;
  };
  const std::vector<Case> cases{{"<f4", bytes_of<float>({0, 1, 2, 3, 4, 5})},
                                {"<f8", bytes_of<double>({0, 1, 2, 3, 4, 5})},
                                {">f8", bytes_of<double>({0, 1, 2, 3, 4, 5}, true)},
                                {"|u1", bytes_of<std::uint8_t>({0, 1, 2, 3, 4, 5})},
                                {"|i1", bytes_of<std::int8_t>({0, 1, 2, 3, 4, 5})},
                                {"<u2", bytes_of<std::uint16_t>({0, 1, 2, 3, 4, 5})},
                                {">u2", bytes_of<std::uint16_t>({0, 1, 2, 3, 4, 5}, true)},
                                {"<i2", bytes_of<std::int16_t>({0, 1, 2, 3, 4, 5})},
                                {"<i4", bytes_of<std::int32_t>({0, 1, 2, 3, 4, 5})},
                                {"<u4", bytes_of<std::uint32_t>({0, 1, 2, 3, 4, 5})},
                                {"<i8", bytes_of<std::int64_t>({0, 1, 2, 3, 4, 5})},
                                {"<u8", bytes_of<std::uint64_t>({0, 1, 2, 3, 4, 5})}};
  for (const Case& c : cases)
    for (const int version : {1, 2, 3}) {
      put("a.npy", npy(header(c.type, "(2, 3)"), c.data, version));
      const NpyArray c_order = read_npy("a.npy");
      EXPECT_EQ(c_order.shape, (std::vector<std::int64_t>{2, 3}));
      EXPECT_EQ(c_order.values, (std::vector<double>{0, 1, 2, 3, 4, 5})) << c.type;
      put("a.npy", npy(header(c.type, "(2, 3)", "True"), c.data, version));
      EXPECT_EQ(read_npy("a.npy").values, (std::vector<double>{0, 2, 4, 1, 3, 5})) << c.type;
    }
  put("a.npy", npy(header("|b1", "(2,)"), std::string("\1\0", 2)));
  EXPECT_EQ(read_npy("a.npy").values, (std::vector<double>{1, 0}));
  put("a.npy", npy(header("<f8", "()"), bytes_of<double>({2.5})));
  EXPECT_TRUE(read_npy("a.npy").shape.empty());
  EXPECT_EQ(read_npy("a.npy").values, std::vector<double>{2.5});
  put("a.npy", npy(header("<f4", "(0, 3)"), ""));
  EXPECT_TRUE(read_npy("a.npy").values.empty());
  put("a.npy", npy(header("<i2", "(1,)"), bytes_of<std::int16_t>({-7})));
  EXPECT_EQ(read_npy("a.npy").values, std::vector<double>{-7});
}

TEST(Files, DamagedNpyIsRefusedWithItsName) {
  const std::string data(24, '\0');
  const std::string good = npy(header("<f4", "(2, 3)"), data);
  struct Case {
    const char* what;
    std::string bytes;
    const char* says;
  };
  const std::vector<Case> cases{
      {"empty", "", "has 0 bytes"},
      {"other magic", "\x93NUMPX" + good.substr(6), "does not begin"},
      {"format 9", good.substr(0, 6) + '\x09' + good.substr(7), "its format is 9"},
      {"header beyond the file", good.substr(0, 8) + "\xff\xff" + good.substr(10), "header claims"},
      {"format 2 header of 4 GiB", npy("", "", 2).substr(0, 8) + "\xff\xff\xff\xff", "header claims"},
      {"cut inside the header", good.substr(0, 30), "header claims"},
      {"data cut", good.substr(0, good.size() - 1), "its shape needs 24"},
      {"data too long", good + "x", "its shape needs 24"},
      {"complex", npy(header("<c8", "(3,)"), data), "its type is <c8"},
      {"float of 16 bytes", npy(header("<f16", "(1,)"), data), "its type is <f16"},
      {"text", npy(header("<U6", "(1,)"), data), "its type is <U6"},
      {"objects", npy(header("|O", "(3,)"), data), "its type is |O"},
      {"odd width", npy(header("<f44", "(3,)"), data), "its type is <f44"},
      {"records", npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }", data), "records"},
      {"negative extent", npy(header("<f4", "(-2, -3)"), data), "cannot be read"},
      {"fraction", npy(header("<f4", "(2.0, 3)"), data), "cannot be read"},
      {"overflow", npy(header("<f4", "(4611686018427387904, 4, 6)"), data), "2^63"},
      {"overflow hidden by a zero", npy(header("<f4", "(4611686018427387904, 8, 0)"), ""), "2^63"},
      {"extent beyond int64", npy(header("<f4", "(99999999999999999999,)"), data), "cannot be read"},
      {"order missing", npy("{'descr': '<f4', 'shape': (2, 3), }", data), "cannot be read"},
      {"shape twice", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'shape': (6,)}", data),
       "cannot be read"},
      {"no dictionary", npy("hello", data), "cannot be read"},
      {"never closed", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3", data),
       "cannot be read"},
      {"text after it", npy(header("<f4", "(2, 3)") + "x", data), "cannot be read"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    put("damaged.npy", c.bytes);
    try {
      read_npy("damaged.npy");
      ADD_FAILURE() << "was read";
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(c.says), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("damaged.npy"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace tessera
