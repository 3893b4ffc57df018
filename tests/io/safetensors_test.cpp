// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/safetensors.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"

namespace tessera {
namespace {

std::string with_length(const std::string& header, std::uint64_t length, const std::string& data) {
  std::string out;
  for (int k = 0; k < 8; ++k) out += static_cast<char>(length >> (8 * k));
  return out + header + data;
}

std::string file_of(const std::string& header, const std::string& data) {
  return with_length(header, header.size(), data);
}

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string message_of(const std::string& path) {
  try {
    read_safetensors(path);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

const std::string kGood = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST(Safetensors, RoundTripKeepsNamesShapesBytesAndMetadata) {
  SafeTensors file;
  file.tensors["b"] = {"BF16", {3}, {1, 2, 3, 4, 5, 6}};
  file.tensors["a"] = {"U8", {1, 1}, {255}};
  file.tensors["z.weight"] = {"F64", {}, {0, 0, 0, 0, 0, 0, 240, 63}};
  file.tensors["empty"] = {"F32", {0, 7}, {}};
  file.metadata = {{"network", "drunet"},
                   {"note",
                    "Gr\xC3\xB6\xC3\x9F"
                    "e \"1\""}};
  const std::string path = "round_trip.safetensors";
  write_safetensors(path, file);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));

  const SafeTensors back = read_safetensors(path);
  EXPECT_EQ(back.metadata, file.metadata);
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    ASSERT_TRUE(back.tensors.count(name)) << name;
    EXPECT_EQ(back.tensors.at(name).dtype, tensor.dtype);
    EXPECT_EQ(back.tensors.at(name).shape, tensor.shape);
    EXPECT_EQ(back.tensors.at(name).bytes, tensor.bytes);
  }
  // The data begin at a multiple of 8 and the widest element comes first, so that all are aligned.
  const std::string bytes = read_text(path);
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]) % 8, 0);
  EXPECT_NE(bytes.find(R"("z.weight":{"dtype":"F64","shape":[],"data_offsets":[0,8]})"), std::string::npos);
}

TEST(Safetensors, FilesOfAnotherWriterAreRead) {
  put("foreign.safetensors", file_of(kGood + "   ", std::string("\0\0\x80\x3f\0\0\0\x40", 8)));
  const SafeTensors file = read_safetensors("foreign.safetensors");
  const std::vector<std::uint8_t> one_two{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40};
  EXPECT_EQ(file.tensors.at("a").bytes, one_two);
  put("none.safetensors", file_of("{}", ""));
  EXPECT_TRUE(read_safetensors("none.safetensors").tensors.empty());
}

TEST(Safetensors, DamagedFilesAreRefusedWithTheirName) {
  const std::string data(8, '\1');
  const auto one = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return file_of(
        "{\"a\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}", data);
  };
  const auto two = [&](const std::string& first, const std::string& second, const std::string& name = "b") {
    return file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" + first + "},\"" + name +
                       "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" + second + "}}",
                   data);
  };
  struct Case {
    const char* what;
    std::string bytes;
    const char* says;
  };
  const std::vector<Case> cases{
      {"empty file", "", "has 0 bytes"},
      {"seven bytes", "1234567", "has 7 bytes"},
      {"header longer than the file", with_length(kGood, kGood.size() + 9, data), "header claims"},
      {"header length 2^64 - 1", with_length(kGood, ~0ULL, data), "header claims"},
      {"header length 2^63", with_length(kGood, 1ULL << 63, data), "header claims"},
      {"header length 0", with_length(kGood, 0, data), "cannot be read"},
      {"header cut short", with_length(kGood, kGood.size() - 3, data), "cannot be read"},
      {"header longer than the JSON", with_length(kGood, kGood.size() + 4, data), "cannot be read"},
      {"not JSON", file_of("hello", data), "cannot be read"},
      {"a list", file_of("[1]", data), "not a JSON object"},
      {"not UTF-8", file_of("{\"\xff\":1}", data), "cannot be read"},
      {"deep nesting", file_of(std::string(100000, '['), data), "cannot be read"},
      {"same name twice", two("[0,4]", "[4,8]", "a"), "stands twice"},
      {"field twice", file_of(R"({"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", data),
       "stands twice"},
      {"entry is a number", file_of("{\"a\":1}", data), "not described"},
      {"missing shape", file_of(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", data), "not described"},
      {"field too many", file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", data),
       "not described"},
      {"three offsets", one("\"F32\"", "[2]", "[0,4,8]"), "not described"},
      {"offsets are text", one("\"F32\"", "[2]", "[\"0\",\"8\"]"), "data_offsets holds"},
      {"unknown dtype", one("\"F33\"", "[2]", "[0,8]"), "unknown dtype"},
      {"dtype is a number", one("32", "[2]", "[0,8]"), "not described"},
      {"negative extent", one("\"F32\"", "[-2]", "[0,8]"), "shape holds -2"},
      {"fraction", one("\"F32\"", "[2.0]", "[0,8]"), "shape holds 2.0"},
      {"extent beyond int64", one("\"F32\"", "[9223372036854775808]", "[0,8]"), "shape holds"},
      {"extent beyond uint64", one("\"F32\"", "[18446744073709551618]", "[0,8]"), "shape holds"},
      {"product overflows to 8", one("\"F32\"", "[4611686018427387905,2]", "[0,8]"), "2^63 bytes"},
      {"product overflows before a zero", one("\"F32\"", "[4611686018427387904,4,0]", "[0,0]"), "2^63 bytes"},
      {"shape needs more", one("\"F32\"", "[3]", "[0,8]"), "its shape needs 12"},
      {"shape needs less", one("\"F32\"", "[1]", "[0,8]"), "its shape needs 4"},
      {"offsets reversed", one("\"F32\"", "[2]", "[8,0]"), "must lie inside"},
      {"negative offset", one("\"F32\"", "[2]", "[-8,0]"), "data_offsets holds -8"},
      {"end beyond the data", one("\"F32\"", "[4]", "[0,16]"), "must lie inside"},
      {"end far beyond the data", one("\"F32\"", "[2]", "[9223372036854775799,9223372036854775807]"),
       "must lie inside"},
      {"overlap", two("[0,4]", "[2,6]"), "starts at byte 2"},
      {"same place", two("[0,4]", "[0,4]"), "starts at byte 0"},
      {"gap",
       file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
               R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
               data),
       "starts at byte 4"},
      {"gap at the start", one("\"F32\"", "[1]", "[4,8]"), "starts at byte 4"},
      {"data left over", one("\"F32\"", "[1]", "[0,4]"), "its tensors end at 4"},
      {"data missing", file_of(kGood, "1234"), "must lie inside"},
      {"metadata is a list", file_of(R"({"__metadata__":[]})", ""), "__metadata__"},
      {"metadata is a number", file_of(R"({"__metadata__":{"a":1}})", ""), "__metadata__.a"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    put("damaged.safetensors", c.bytes);
    const std::string message = message_of("damaged.safetensors");
    EXPECT_NE(message.find("damaged.safetensors"), std::string::npos) << message;
    EXPECT_NE(message.find(c.says), std::string::npos) << message;
  }
}

// Every cut and every changed header byte of a good file either reads as a whole or is an InputError.
TEST(Safetensors, NoCutAndNoFlippedHeaderByteDoesHarm) {
  SafeTensors file;
  file.tensors["first.weight"] = {"F32", {2, 3}, std::vector<std::uint8_t>(24, 7)};
  file.tensors["second.bias"] = {"I64", {2}, std::vector<std::uint8_t>(16, 9)};
  file.metadata["k"] = "v";
  write_safetensors("whole.safetensors", file);
  const std::string whole = read_text("whole.safetensors");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    put("cut.safetensors", whole.substr(0, length));
    EXPECT_NE(message_of("cut.safetensors"), "") << "cut to " << length << " of " << whole.size() << " bytes";
  }
  int refused = 0;
  for (std::size_t at = 0; at + 40 < whole.size(); ++at) {
    for (const int bit : {0, 1, 3, 4, 6, 7}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      put("flipped.safetensors", changed);
      try {
        const SafeTensors read = read_safetensors("flipped.safetensors");
        for (const auto& [name, tensor] : read.tensors) {
          std::int64_t bytes = safetensor_element_bytes(tensor.dtype);
          for (const std::int64_t extent : tensor.shape) bytes *= extent;
          EXPECT_EQ(bytes, static_cast<std::int64_t>(tensor.bytes.size())) << name;
        }
      } catch (const InputError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()));  // most flips hit structure, a few only a name
}

TEST(Safetensors, MissingFilesFoldersAndPipesAreInputErrors) {
  EXPECT_THROW(read_safetensors("no_such_file.safetensors"), InputError);
  EXPECT_THROW(read_safetensors("."), InputError);
  ::mkfifo("pipe.safetensors", 0600);  // may be left from an earlier run
  ASSERT_TRUE(std::filesystem::is_fifo("pipe.safetensors"));
  EXPECT_THROW(read_safetensors("pipe.safetensors"), InputError);
}

TEST(Safetensors, WriterRefusesBytesThatDoNotFitTheShape) {
  SafeTensors file;
  file.tensors["a"] = {"F32", {2}, {1, 2, 3}};
  EXPECT_THROW(write_safetensors("bad.safetensors", file), InputError);
  file.tensors["a"] = {"X", {2}, {1, 2}};
  EXPECT_THROW(write_safetensors("bad.safetensors", file), InputError);
  file.tensors["a"] = {"F32", {-1}, {}};
  EXPECT_THROW(write_safetensors("bad.safetensors", file), InputError);
  file.tensors.clear();
  file.metadata["a"] = "\xff";
  EXPECT_THROW(write_safetensors("bad.safetensors", file), InputError);
  EXPECT_FALSE(std::filesystem::exists("bad.safetensors"));
  EXPECT_THROW(write_safetensors("no_such_folder/bad.safetensors", SafeTensors{}), RunError);
}

}  // namespace
}  // namespace tessera
