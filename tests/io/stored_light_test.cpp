// SPDX-License-Identifier: BSD-3-Clause
// What files say of the curve in which they store light.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Says = StoredLight::Says;

void put32(Bytes& to, std::uint32_t v) {
  for (const int shift : {24, 16, 8, 0}) to.push_back(static_cast<std::uint8_t>(v >> shift));
}

// A profile with one tag, gTRC.
Bytes profile(const Bytes& tag) {
  Bytes out(128, 0);
  put32(out, 1);
  for (const char c : std::string("gTRC")) out.push_back(static_cast<std::uint8_t>(c));
  put32(out, 144);
  put32(out, static_cast<std::uint32_t>(tag.size()));
  out.insert(out.end(), tag.begin(), tag.end());
  return out;
}

Bytes tag(const std::string& type) {
  Bytes out(type.begin(), type.end());
  put32(out, 0);
  return out;
}

Bytes table(int entries, const std::function<double(double)>& light) {
  Bytes out = tag("curv");
  put32(out, static_cast<std::uint32_t>(entries));
  for (int k = 0; k < entries; ++k) {
    const auto v = static_cast<std::uint32_t>(std::lround(65535 * light(k / double(entries - 1))));
    out.push_back(static_cast<std::uint8_t>(v >> 8));
    out.push_back(static_cast<std::uint8_t>(v));
  }
  return out;
}

Bytes parameters(std::uint32_t kind, const std::vector<double>& p) {
  Bytes out = tag("para");
  put32(out, kind << 16);
  for (const double v : p)
    put32(out, static_cast<std::uint32_t>(static_cast<std::int32_t>(std::lround(65536 * v))));
  return out;
}

void write_picture(const std::string& path, const Bytes& icc = {}) {
  const Box box = Box::image2d(8, 8);
  const auto sink =
      create_image(path, {.space = ImageSpace(box, 3), .bits = 8, .metadata = {.profile = icc}});
  const std::vector<float> pixels(3 * 64, 0.5F);
  sink->write(box, pixels.data());
  sink->finish();
}

std::uint32_t crc(const Bytes& bytes) {
  std::uint32_t c = ~0U;
  for (const std::uint8_t b : bytes) {
    c ^= b;
    for (int k = 0; k < 8; ++k) c = (c & 1U) != 0 ? 0xEDB88320U ^ (c >> 1) : c >> 1;
  }
  return ~c;
}

// A chunk behind the header of a PNG.
void add_chunk(const std::string& path, const std::string& name, const Bytes& data) {
  std::ifstream in(path, std::ios::binary);
  Bytes file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  Bytes body(name.begin(), name.end()), chunk;
  body.insert(body.end(), data.begin(), data.end());
  put32(chunk, static_cast<std::uint32_t>(data.size()));
  chunk.insert(chunk.end(), body.begin(), body.end());
  put32(chunk, crc(body));
  constexpr std::ptrdiff_t kHeader = 8 + 25;
  file.insert(file.begin() + kHeader, chunk.begin(), chunk.end());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(file.data()), std::ssize(file));
}

StoredLight light_of(const std::string& path) { return open_image(path)->info().light; }

TEST(StoredLight, PngSaysItByItsChunks) {
  const std::string path = "chunks.png";
  const auto with = [&](const std::vector<std::pair<std::string, Bytes>>& chunks) {
    write_picture(path);
    for (const auto& [name, data] : chunks) add_chunk(path, name, data);
    return light_of(path);
  };
  const auto gamma = [](std::uint32_t v) {
    Bytes out;
    put32(out, v);
    return out;
  };
  EXPECT_EQ(with({}).says, Says::convention);
  EXPECT_EQ(with({{"sRGB", {0}}}).curve, ToneCurve::srgb());
  EXPECT_EQ(with({{"sRGB", {0}}}).says, Says::curve);
  EXPECT_EQ(with({{"gAMA", gamma(45455)}}).curve, ToneCurve::srgb());
  EXPECT_EQ(with({{"gAMA", gamma(55556)}}).curve, ToneCurve::power(1.8));
  EXPECT_TRUE(with({{"gAMA", gamma(100000)}}).curve.none());
  EXPECT_EQ(with({{"gAMA", gamma(100000)}}).says, Says::curve);
  EXPECT_TRUE(with({{"sRGB", {0}}, {"cICP", {1, 8, 0, 1}}}).curve.none()) << "cICP comes first";
  EXPECT_EQ(with({{"gAMA", gamma(100000)}, {"cICP", {1, 13, 0, 1}}}).curve, ToneCurve::srgb());
  EXPECT_EQ(with({{"gAMA", gamma(0)}}).says, Says::convention) << "no gamma";
  EXPECT_EQ(with({{"cICP", {9, 14, 0, 1}}}).curve, ToneCurve::srgb()) << "the curve of 709";
  EXPECT_EQ(with({{"gAMA", gamma(45455)}, {"cICP", {9, 16, 0, 1}}}).says, Says::nothing) << "PQ is no gamma";
  EXPECT_EQ(with({{"cICP", {9, 18, 0, 1}}}).by, "cICP: HLG");
}

TEST(StoredLight, ProfilesSayItByTablesAndParameters) {
  const std::string path = "profile.tif";
  const auto with = [&](const Bytes& t) {
    write_picture(path, profile(t));
    return light_of(path);
  };
  const auto srgb = [](double v) { return ToneCurve::srgb().light(v); };
  EXPECT_EQ(with(table(1024, srgb)).curve, ToneCurve::srgb());
  EXPECT_EQ(with(table(17, srgb)).curve, ToneCurve::srgb());
  EXPECT_NEAR(with(table(256, [](double v) { return std::pow(v, 1.8); })).curve.gamma(), 1.8, 0.01);
  EXPECT_TRUE(with(table(2, [](double v) { return v; })).curve.none());
  EXPECT_EQ(with(parameters(3, {2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045})).curve,
            ToneCurve::srgb());
  EXPECT_NEAR(with(parameters(0, {2.2})).curve.gamma(), 2.2, 0.01);
  Bytes identity = tag("curv");
  put32(identity, 0);
  EXPECT_TRUE(with(identity).curve.none());
  EXPECT_EQ(with(identity).says, Says::curve);
  // Not followed: nothing is said, and nothing is read beyond the profile.
  Bytes cut = table(1024, srgb);
  cut.resize(40);
  EXPECT_EQ(with(cut).says, Says::nothing);
  EXPECT_EQ(with(parameters(9, {1})).says, Says::nothing);
  write_picture(path, Bytes(140, 255));
  EXPECT_EQ(light_of(path).says, Says::nothing);
  write_picture(path);
  EXPECT_EQ(light_of(path).says, Says::nothing) << "TIFF is linear unless it says so";
}

}  // namespace
}  // namespace tessera
