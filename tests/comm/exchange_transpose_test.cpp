// SPDX-License-Identifier: BSD-3-Clause
// The transposed exchange: counts in closed form, the dot test, and sums that do not depend on arrival.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstring>

#include "border_reference.hpp"
#include "pack_body.hpp"
#include "support/block.hpp"
#include "support/groups.hpp"
#include "tessera/comm/exchange.hpp"
#include "transport.hpp"

namespace tessera::test {
namespace {

const Reach kReach{{0, 2, 1}, {0, 3, 4}};

/// A value between -1 and 1 that depends on the place alone.
double noise(std::int64_t c, const Index3& p, int salt) {
  return std::sin(12.9898 * static_cast<double>(p[1]) + 78.233 * static_cast<double>(p[2]) +
                  37.7 * static_cast<double>(p[0]) + static_cast<double>(c) + salt);
}

struct Halo {
  Layout own, need;
  Exchange exchange;
  Halo(const Communicator& comm, const Box& image, Border border, std::int64_t channels, ElementType type,
       const Index3& grid, const Reach& reach = kReach)
      : own(grid_layout(image, grid)),
        need(own.grow(reach)),
        exchange(ExchangePlan(own, need, image, border, comm.rank()),
                 make_transport(comm, Device{}, TransportKind::mpi), channels, type) {}
};

TEST(ExchangeTranspose, OnesCountThePlacesThatNeedAPixel) {
  on_groups([](const Communicator& comm) {
    for (const Border border : kBorders)
      for (const Box& image : {Box::image2d(9, 12), Box::image2d(3, 2), Box::image2d(1, 1)}) {
        Halo s(comm, image, border, 2, ElementType::float64, square_grid(comm.size()));
        Block<double> y(s.need.box(comm.rank()), 2, ElementType::float64, 1);
        Block<double> x(s.own.box(comm.rank()), 2, ElementType::float64, 100);  // added to, not replaced
        s.exchange.begin_transposed(y.view(), x.view()).wait();
        // Every rank's needed box, walked.
        Block<double> count(image, 1, ElementType::float64, 0);
        for (int r = 0; r < comm.size(); ++r)
          Block<double>(s.need.box(r), 1, ElementType::float64, 0)
              .for_each([&](auto, const Index3& p, double&) {
                if (const auto q = walk(p, image, border)) count.at(0, *q) += 1;
              });
        x.for_each([&](auto, const Index3& p, double& v) { EXPECT_EQ(v, 100 + count.at(0, p)); });
      }
  });
}

TEST(ExchangeTranspose, CornersEdgesAndFacesCountFourTwoOne) {
  // 2 x 2 blocks of 4 x 4 on a torus, one pixel of halo: the classic closed form.
  const Communicator world = Communicator::world();
  if (world.size() < 4) GTEST_SKIP() << "needs 4 ranks, has " << world.size();
  const Communicator comm = world.split(world.rank() < 4 ? 0 : -1, world.rank());
  if (world.rank() >= 4) return;
  Halo s(comm, Box::image2d(8, 8), Border::circular, 1, ElementType::float64, {1, 2, 2},
         {{0, 1, 1}, {0, 1, 1}});
  Block<double> y(s.need.box(comm.rank()), 1, ElementType::float64, 1);
  Block<double> x(s.own.box(comm.rank()), 1, ElementType::float64, 0);
  s.exchange.begin_transposed(y.view(), x.view()).wait();
  x.for_each([](auto, const Index3& p, double& v) {
    const auto edge = [](std::int64_t i) { return i % 4 == 0 || i % 4 == 3; };
    EXPECT_EQ(v, (edge(p[1]) ? 2 : 1) * (edge(p[2]) ? 2 : 1));
  });
}

TEST(ExchangeTranspose, DotTestInDouble) {
  on_groups([](const Communicator& comm) {
    for (const Border border : kBorders)
      for (const Order order : {Order::channels_first, Order::channels_last, Order::padded}) {
        Halo s(comm, Box::image2d(11, 8), border, 3, ElementType::float64, {1, comm.size(), 1});
        Block<double> x(s.own.box(comm.rank()), 3, ElementType::float64, 0, order);
        Block<double> y(s.need.box(comm.rank()), 3, ElementType::float64, 0);
        Block<double> Ax(s.need.box(comm.rank()), 3, ElementType::float64, 0);
        Block<double> Aty(s.own.box(comm.rank()), 3, ElementType::float64, 0, order);
        x.for_each([](auto c, const Index3& p, double& v) { v = noise(c, p, 1); });
        y.for_each([&](auto c, const Index3& p, double& v) { v = noise(c, p, 2 + comm.rank()); });
        s.exchange.begin(x.view(), Ax.view()).wait();
        s.exchange.begin_transposed(y.view(), Aty.view()).wait();
        double sums[3] = {};  // <Ax, y>, <x, A'y>, |Ax|^2
        Ax.for_each([&](auto c, const Index3& p, double& v) {
          sums[0] += v * y.at(c, p);
          sums[2] += v * v;
        });
        x.for_each([&](auto c, const Index3& p, double& v) { sums[1] += v * Aty.at(c, p); });
        comm.all_reduce(sums, Reduce::sum);
        EXPECT_GT(sums[2], 1);  // there was something to compare
        EXPECT_NEAR(sums[0], sums[1], 1e-12 * sums[2]);
      }
  });
}

TEST(ExchangeTranspose, SumsAreTheSameBitsEveryTime) {
  on_groups([](const Communicator& comm) {
    Halo s(comm, Box::image2d(7, 6), Border::circular, 1, ElementType::float32, square_grid(comm.size()),
           {{0, 5, 5}, {0, 5, 5}});
    Block<float> y(s.need.box(comm.rank()), 1, ElementType::float32, 0);
    y.for_each([&](auto c, const Index3& p, float& v) { v = static_cast<float>(noise(c, p, comm.rank())); });
    std::vector<float> first;
    for (int run = 0; run < 5; ++run) {
      Block<float> x(s.own.box(comm.rank()), 1, ElementType::float32, 0);
      ::usleep(static_cast<useconds_t>((comm.rank() * 7 + run * 3) % 5 * 500));  // arrivals change places
      s.exchange.begin_transposed(y.view(), x.view()).wait();
      if (run == 0) first = x.values();
      EXPECT_EQ(x.values(), first);
    }
  });
}

/// Small whole numbers are exact in every type, so forward and transposed values can be compared exactly.
template <class T, class Make>
void check_type(const Communicator& comm, ElementType type, Make make) {
  const Box image = Box::image2d(6, 5);
  Halo s(comm, image, Border::replicate, 2, type, square_grid(comm.size()));
  const int r = comm.rank();
  Block<T> x(s.own.box(r), 2, type, make(0)), Ax(s.need.box(r), 2, type, make(0)),
      Aty(s.own.box(r), 2, type, make(0));
  Block<double> xd(s.own.box(r), 2, ElementType::float64, 0), Axd(s.need.box(r), 2, ElementType::float64, 0),
      Atyd(s.own.box(r), 2, ElementType::float64, 0);
  x.for_each([&](auto c, const Index3& p, T& v) {
    v = make(address(image, c, p));
    xd.at(c, p) = address(image, c, p);
  });
  s.exchange.begin(x.view(), Ax.view()).wait();
  Exchange reference(s.exchange.plan(), make_transport(comm, Device{}, TransportKind::mpi), 2,
                     ElementType::float64);
  reference.begin(xd.view(), Axd.view()).wait();
  const auto same = [](const T& a, const T& b) { return std::memcmp(&a, &b, sizeof(T)) == 0; };
  Ax.for_each([&](auto c, const Index3& p, T& v) { EXPECT_TRUE(same(v, make(Axd.at(c, p)))); });
  Block<T> ones(s.need.box(r), 2, type, make(1));
  Block<double> onesd(s.need.box(r), 2, ElementType::float64, 1);
  s.exchange.begin_transposed(ones.view(), Aty.view()).wait();
  reference.begin_transposed(onesd.view(), Atyd.view()).wait();
  Aty.for_each([&](auto c, const Index3& p, T& v) { EXPECT_TRUE(same(v, make(Atyd.at(c, p)))); });
}

TEST(ExchangeTypes, AllElementTypesForwardAndTransposed) {
  on_groups([](const Communicator& comm) {
    check_type<float>(comm, ElementType::float32, [](double v) { return static_cast<float>(v); });
    check_type<double>(comm, ElementType::float64, [](double v) { return v; });
    check_type<__nv_bfloat16>(comm, ElementType::bfloat16, [](double v) { return __double2bfloat16(v); });
    check_type<__half>(comm, ElementType::float16, [](double v) { return __double2half(v); });
    check_type<pack::Complex<float>>(comm, ElementType::complex64, [](double v) {
      return pack::Complex<float>{static_cast<float>(v), static_cast<float>(-2 * v)};
    });
    check_type<pack::Complex<double>>(comm, ElementType::complex128, [](double v) {
      return pack::Complex<double>{v, 3 * v};
    });
  });
}

TEST(ExchangeTypes, SixteenBitSumsRoundOnce) {
  // 256 + 1 + 1: bfloat16 steps by 2 there, so rounding after each addition would stay at 256.
  const Communicator alone;
  const Box image = Box::image2d(1, 1);
  Halo s(alone, image, Border::replicate, 1, ElementType::bfloat16, {1, 1, 1}, {{0, 0, 1}, {0, 0, 0}});
  Block<__nv_bfloat16> y(s.need.box(0), 1, ElementType::bfloat16, __double2bfloat16(1));
  Block<__nv_bfloat16> x(image, 1, ElementType::bfloat16, __double2bfloat16(256));
  s.exchange.begin_transposed(y.view(), x.view()).wait();
  EXPECT_EQ(__bfloat162float(x.at(0, {0, 0, 0})), 258.0F);
}

}  // namespace
}  // namespace tessera::test
