// SPDX-License-Identifier: BSD-3-Clause
// The device kernel's index code on the host, share by share and thread by thread, against the host's rows.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "border_reference.hpp"
#include "exchange_programs.hpp"
#include "pack_body.hpp"
#include "plan_programs.hpp"
#include "support/block.hpp"

namespace tessera::test {
namespace {

constexpr std::uint32_t kThreads = 256;

/// All threads of all blocks, the blocks in any order.
template <class T>
void run_as_device(const pack::Shares& shares, void* to, const void* from) {
  std::vector<pack::Share> order = shares.shares;
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (const pack::Share& share : order)
    for (std::uint32_t thread = 0; thread < kThreads; ++thread)
      pack::run_share(shares.mode, shares.cells.data(), shares.terms.data(), share, static_cast<T*>(to),
                      static_cast<const T*>(from), thread, kThreads);
}

/// Both ways of running a program, of the unit wanted too; which units there were.
void compare(const pack::Program& program, ElementType type, const std::vector<char>& before,
             const std::vector<char>& from, std::int64_t unit) {
  const std::int64_t element = element_bytes(type);
  std::vector<char> want = before;
  pack::run_host(program, type, want.data(), from.data());
  pack::with_type(type, [&](auto* tag) {
    std::vector<char> got = before;
    run_as_device<std::remove_pointer_t<decltype(tag)>>(pack::cut_into_shares(program, element, element),
                                                        got.data(), from.data());
    EXPECT_EQ(got, want) << "element by element, type " << static_cast<int>(type);
  });
  EXPECT_EQ(pack::largest_unit(program, element), unit);
  if (unit == element) return;
  pack::with_unit(unit, [&](auto* tag) {
    std::vector<char> got = before;
    run_as_device<std::remove_pointer_t<decltype(tag)>>(pack::cut_into_shares(program, element, unit),
                                                        got.data(), from.data());
    EXPECT_EQ(got, want) << "in units of " << unit << " bytes, type " << static_cast<int>(type);
  });
}

std::vector<char> numbers(std::int64_t bytes, int step) {
  std::vector<char> out(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<char>(i * static_cast<std::size_t>(step) % 60);
  return out;
}

TEST(PackShares, EqualTheHostRowsInEveryTypeUnderEveryBorder) {
  const Box image = Box::image2d(13, 9);
  const Layout own = grid_layout(image, {1, 1, 1}), need = own.grow({{0, 15, 2}, {0, 3, 11}});
  const std::int64_t channels = 3;
  for (const ElementType type : {ElementType::float32, ElementType::float64, ElementType::bfloat16,
                                 ElementType::float16, ElementType::complex64, ElementType::complex128})
    for (const Border border : kBorders) {
      SCOPED_TRACE(static_cast<int>(border));
      const ExchangePlan plan(own, need, image, border, 0), self = plan.through_self(0);
      const std::int64_t bytes = channels * element_bytes(type);
      const auto x = numbers(image.pixels() * bytes, 7), y = numbers(need.box(0).pixels() * bytes, 5),
                 packed = numbers(self.pixels_sent() * bytes, 11);
      const auto view = [&](const Box& box) {
        return ArrayView{nullptr, box,      channels, box.pixels(), {box.pixels(), box.extent(2), 1},
                         type,    Device{}, nullptr};
      };
      const pack::Shape xs(view(image)), ys(view(need.box(0)));
      const std::int64_t e = element_bytes(type);
      const auto all = [&](const pack::Program& p, const auto& to, const auto& from) {
        compare(p, type, to, from, pack::largest_unit(p, e));
      };
      run_programs(plan, xs, ys, channels, x, y, packed, all);
    }
}

// The halos of mode layer: channels last, 64 of them. They move as 16-byte vectors; with 6 channels as 4
// bytes.
TEST(PackShares, ChannelsLastMoveAsVectors) {
  const Box image = Box::image2d(20, 33);
  const Layout own = grid_layout(image, {1, 1, 1}), need = own.grow({{0, 1, 1}, {0, 1, 1}});
  for (const auto& [channels, unit] : {std::pair<std::int64_t, std::int64_t>{64, 16}, {6, 4}, {5, 2}}) {
    const ExchangePlan plan = ExchangePlan(own, need, image, Border::circular, 0).through_self(0);
    const std::int64_t c = channels;
    const auto view = [&](const Box& box) {
      return ArrayView{
          nullptr,  box,    c, 1, {box.pixels() * c, box.extent(2) * c, c}, ElementType::bfloat16,
          Device{}, nullptr};
    };
    const pack::Steps steps = pack::forward_steps(
        plan, pack::Shape(view(image)), {pack::Shape(view(need.box(0)))}, c, false, Packing::pixels);
    const auto x = numbers(image.pixels() * c * 2, 7), y = numbers(need.box(0).pixels() * c * 2, 5),
               packed = numbers(plan.pixels_sent() * c * 2, 11);
    compare(steps.pack, ElementType::bfloat16, packed, x, unit);
    compare(steps.unpack, ElementType::bfloat16, y, packed, unit);
  }
}

// Arrays of 2^33 elements whose few touched pages exist: offsets do not wrap, also where they are negative
// steps.
TEST(PackShares, OffsetsBeyond31BitsAreRight) {
  constexpr std::int64_t kElements = std::int64_t{1} << 33;
  constexpr std::size_t kBytes = static_cast<std::size_t>(kElements) * 4;
  const auto map = [&] {
    void* p =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : static_cast<float*>(p);
  };
  float *from = map(), *to = map(), *want = map();
  if (!from || !to || !want) GTEST_SKIP() << "no 96 GiB of address space";
  pack::Program program;
  // 2 channels that lie 2^32 apart, 3 rows 2^29 apart, 5 columns; read mirrored along the rows.
  pack::Cell cell{
      (std::int64_t{1} << 31) + 7, {kElements / 2, 0, std::int64_t{1} << 29, 1}, {2, 1, 3, 5}, 0, 0};
  pack::Term term;
  term.offset = (std::int64_t{1} << 31) + 3;
  const std::int64_t strides[4] = {kElements / 2, 0, -(std::int64_t{1} << 29), 2};
  std::copy(strides, strides + 4, term.stride);
  program.append(cell, {term});
  for (std::int64_t c = 0; c < 2; ++c)
    for (std::int64_t h = 0; h < 3; ++h)
      for (std::int64_t w = 0; w < 5; ++w)
        from[term.offset + c * strides[0] + h * strides[2] + w * strides[3]] =
            static_cast<float>(1 + c * 15 + h * 5 + w);
  pack::run_host(program, ElementType::float32, want, from);
  run_as_device<float>(pack::cut_into_shares(program, 4, 4), to, from);
  for (std::int64_t c = 0; c < 2; ++c)
    for (std::int64_t h = 0; h < 3; ++h)
      for (std::int64_t w = 0; w < 5; ++w) {
        const std::int64_t at = cell.offset + c * cell.stride[0] + h * cell.stride[2] + w;
        EXPECT_EQ(to[at], static_cast<float>(1 + c * 15 + h * 5 + w));
        EXPECT_EQ(to[at], want[at]);
      }
  for (float* p : {from, to, want}) munmap(p, kBytes);
}

// A cell of more elements than 31 bits count is cut, and every element of it is somebody's.
TEST(PackShares, CellsOfMoreThan31BitsAreCut) {
  pack::Program program;
  pack::Cell cell{11, {std::int64_t{1} << 31, 0, 70001, 1}, {3, 1, 30011, 70001}, 0, 0};
  pack::Term term;
  std::copy(cell.stride, cell.stride + 4, term.stride);
  program.append(cell, {term});
  ASSERT_GT(cell.elements(), std::int64_t{1} << 32);
  const pack::Shares shares = pack::cut_into_shares(program, 4, 4);
  EXPECT_GT(shares.cells.size(), 1u);
  std::int64_t elements = 0, counted = 0;
  for (const pack::DeviceCell& d : shares.cells) {
    elements += d.cell.elements();
    EXPECT_EQ(d.elements, d.cell.elements());
    EXPECT_EQ(d.cell.offset - cell.offset, shares.terms[static_cast<std::size_t>(d.cell.first_term)].offset);
  }
  EXPECT_EQ(elements, cell.elements());
  for (const pack::Share& s : shares.shares)
    counted += std::min<std::int64_t>(pack::kShare,
                                      shares.cells[static_cast<std::size_t>(s.cell)].elements - s.first);
  EXPECT_EQ(counted, elements);
}

TEST(PackShares, DivisorsDivide) {
  std::mt19937 random(3);
  std::uniform_int_distribution<std::uint32_t> any(0, (1u << 31) - 1);
  for (int i = 0; i < 20000; ++i) {
    const std::int64_t d = i < 1000 ? i + 1 : 1 + any(random) % (1u << (1 + i % 30));
    const pack::Divisor divisor(d);
    for (const std::uint32_t n :
         {any(random), (1u << 31) - 1, 0u, static_cast<std::uint32_t>(d), static_cast<std::uint32_t>(d - 1)})
      ASSERT_EQ(pack::divide(n, divisor), n / static_cast<std::uint32_t>(d)) << n << " / " << d;
  }
}

}  // namespace
}  // namespace tessera::test
