// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/units.hpp"

#include <gtest/gtest.h>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

TEST(Units, BytesAreParsedWithBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("8 GiB"), std::int64_t{8} << 30);
  EXPECT_EQ(parse_bytes("1.5MiB"), 3 << 19);
  EXPECT_EQ(parse_bytes("100 MB"), 100000000);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  for (const char* bad : {"", "GiB", "8 gb", "-1 GiB", "8 GiB extra"})
    EXPECT_THROW(parse_bytes(bad), InputError) << bad;
}

TEST(Units, BytesAndSecondsArePrintedShort) {
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1234567), "1.2 MB");
  EXPECT_EQ(format_seconds(0.0012), "1.2 ms");
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(75), "1 min 15 s");
}

TEST(Units, NearestWordIsASlipAwayOrNone) {
  EXPECT_EQ(nearest("iteration", {"iterations", "sigma"}), "iterations");
  EXPECT_EQ(nearest("zzz", {"iterations", "sigma"}), "");
  EXPECT_EQ(nearest("gian", {"lean", "gain"}), "gain") << "letters that changed places";
}

TEST(Units, AWordOfACommandLineIsQuotedWhereAShellWouldReadMoreIntoIt) {
  EXPECT_EQ(shell_word("runs/photo-1.h5"), "runs/photo-1.h5");
  EXPECT_EQ(shell_word("runs/B\u00e4ume"), "runs/B\u00e4ume");
  EXPECT_EQ(shell_word("my runs/a"), R"("my runs/a")");
  EXPECT_EQ(shell_word("it's (1)"), "\"it's (1)\"");
  EXPECT_EQ(shell_word("cost $5 'a'"), R"('cost $5 '\''a'\''')");
  EXPECT_EQ(shell_word(""), R"("")");
}

}  // namespace
}  // namespace tessera
