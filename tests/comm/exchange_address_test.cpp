// SPDX-License-Identifier: BSD-3-Clause
// Each cell holds its own address; after an exchange every needed cell must hold the address of the image
// pixel that the border rule names.
#include <gtest/gtest.h>

#include <algorithm>

#include "border_reference.hpp"
#include "support/block.hpp"
#include "support/groups.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/core/phase.hpp"
#include "transport.hpp"

namespace tessera::test {
namespace {

constexpr double kUntouched = -7;

struct Case {
  Box image;
  Reach reach;
};

std::vector<Case> cases() {
  const auto reach = [](std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) {
    return Reach{{0, top, left}, {0, bottom, right}};
  };
  return {
      {Box::image2d(17, 13), reach(1, 1, 1, 1)},
      {Box::image2d(17, 13), reach(0, 3, 2, 0)},
      {Box::image2d(17, 13), reach(9, 7, 0, 11)},  // wider than a block
      {Box::image2d(3, 2), reach(8, 5, 1, 7)},     // wider than the image; more ranks than rows
      {Box::image2d(1, 1), reach(2, 3, 4, 0)},     // one pixel: reflect has no period
      {Box::image2d(2, 9), reach(3, 3, 1, 1)},
      {Box{{0, -4, 3}, {1, 5, 11}}, reach(2, 1, 0, 3)},
      {Box{{0, 0, 0}, {4, 5, 3}}, {{1, 2, 0}, {2, 1, 4}}},
  };
}

std::vector<Index3> grids(int ranks, const Box& image) {
  std::vector<Index3> all{{1, ranks, 1}, {1, 1, ranks}};
  const Index3 square = square_grid(ranks);
  if (std::find(all.begin(), all.end(), square) == all.end()) all.push_back(square);
  if (image.extent(0) > 1) all.push_back({ranks, 1, 1});
  return all;
}

/// Runs need <- own and compares every needed cell with a walk along the axes.
void check_addresses(const Communicator& comm, const std::shared_ptr<Transport>& transport, const Layout& own,
                     const Layout& need, const Box& image, Border border, std::int64_t channels = 2,
                     Order own_order = Order::channels_first, Order need_order = Order::channels_first,
                     Packing packing = Packing::planes) {
  Exchange exchange(ExchangePlan(own, need, image, border, comm.rank()), transport, channels,
                    ElementType::float64, packing);
  Block<double> source(own.box(comm.rank()), channels, ElementType::float64, 0, own_order);
  Block<double> target(need.box(comm.rank()), channels, ElementType::float64, kUntouched, need_order);
  source.for_each([&](auto c, const Index3& p, double& v) { v = address(image, c, p); });

  auto pending = exchange.begin(source.view(), target.view());
  pending.progress();
  pending.wait();

  std::int64_t wrong = 0;
  target.for_each([&](auto c, const Index3& p, double& v) {
    const auto q = walk(p, image, border);
    double expected = border == Border::zero ? 0 : kUntouched;
    if (q && own.hull().contains({*q, *q + Index3{1, 1, 1}})) expected = address(image, c, *q);
    if (v != expected && ++wrong <= 3)
      ADD_FAILURE() << "channel " << c << ", pixel (" << p[0] << ", " << p[1] << ", " << p[2] << ") is " << v
                    << ", wanted " << expected;
  });
  EXPECT_EQ(wrong, 0) << "border " << static_cast<int>(border) << ", image " << image;
}

TEST(ExchangeAddress, HalosOfAllBordersReachesAndGrids) {
  on_groups([](const Communicator& comm) {
    const auto transport = make_transport(comm, Device{}, TransportKind::automatic);
    for (const Case& c : cases())
      for (const Border border : kBorders)
        for (const Index3& grid : grids(comm.size(), c.image)) {
          const Layout own = grid_layout(c.image, grid);
          check_addresses(comm, transport, own, own.grow(c.reach), c.image, border);
        }
  });
}

TEST(ExchangeAddress, StridesOfAnyOrder) {
  on_groups([](const Communicator& comm) {
    const auto transport = make_transport(comm, Device{}, TransportKind::mpi);
    const Case c = cases()[1];
    const Layout own = grid_layout(c.image, square_grid(comm.size()));
    for (const Order a : {Order::channels_first, Order::channels_last, Order::padded})
      for (const Order b : {Order::channels_first, Order::channels_last, Order::padded})
        for (const Border border : kBorders)
          for (const Packing packing : {Packing::planes, Packing::pixels})
            check_addresses(comm, transport, own, own.grow(c.reach), c.image, border, 3, a, b, packing);
  });
}

// The sides of a block as strips, which overlap in the corners, all under one message per peer.
TEST(ExchangeAddress, SeveralNeededBoxesInOneMessage) {
  on_groups([](const Communicator& comm) {
    const auto transport = make_transport(comm, Device{}, TransportKind::mpi);
    for (const Case& c : cases())
      for (const Index3& grid : grids(comm.size(), c.image)) {
        const Layout own = grid_layout(c.image, grid);
        std::vector<Layout> needs;
        for (const std::size_t axis : {1U, 2U})
          for (const bool low : {true, false}) {
            std::vector<Box> boxes;
            for (int r = 0; r < own.ranks(); ++r) {
              Reach reach = c.reach;
              Index3 lo = own.box(r).grow(reach).lo(), hi = own.box(r).grow(reach).hi();
              if (low)
                hi[axis] = std::min(hi[axis], own.box(r).lo()[axis] + 1);
              else
                lo[axis] = std::max(lo[axis], own.box(r).hi()[axis] - 1);
              boxes.push_back(own.box(r).empty() ? Box() : Box(lo, hi));
            }
            needs.emplace_back(std::move(boxes));
          }
        const ExchangePlan plan(own, needs, c.image, Border::zero, comm.rank());
        for (std::size_t i = 1; i < plan.sends().size(); ++i)
          EXPECT_LT(plan.sends()[i - 1].peer, plan.sends()[i].peer);
        Exchange exchange(plan, transport, 2, ElementType::float64, Packing::pixels);
        Block<double> source(own.box(comm.rank()), 2, ElementType::float64, 0, Order::channels_last);
        source.for_each([&](auto channel, const Index3& p, double& v) { v = address(c.image, channel, p); });
        // All parts in one piece of memory; the last one first, so that offsets are negative too.
        std::vector<double> memory;
        std::vector<std::size_t> begin(needs.size());
        for (std::size_t i = needs.size(); i-- > 0;) {
          begin[i] = memory.size();
          memory.resize(memory.size() + static_cast<std::size_t>(plan.needs()[i].pixels() * 2), kUntouched);
        }
        std::vector<ArrayView> views;
        for (std::size_t i = 0; i < needs.size(); ++i) {
          const Box& box = plan.needs()[i];
          views.push_back({memory.data() + begin[i], box, 2, 1,
                           Index3{box.extent(1) * box.extent(2) * 2, box.extent(2) * 2, 2},
                           ElementType::float64, Device{}, nullptr});
        }
        for (int run = 0; run < 2; ++run) exchange.begin(source.view(), views).wait();
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < needs.size(); ++i) {
          const double* value = memory.data() + begin[i];
          const Box& box = plan.needs()[i];
          for (std::int64_t z = box.lo()[0]; z < box.hi()[0]; ++z)
            for (std::int64_t y = box.lo()[1]; y < box.hi()[1]; ++y)
              for (std::int64_t x = box.lo()[2]; x < box.hi()[2]; ++x)
                for (std::int64_t channel = 0; channel < 2; ++channel) {
                  const auto q = walk({z, y, x}, c.image, Border::zero);
                  wrong += *value++ != (q ? address(c.image, channel, *q) : 0);
                }
        }
        EXPECT_EQ(wrong, 0) << "image " << c.image << ", grid " << grid[1] << " x " << grid[2];
      }
  });
}

TEST(ExchangeAddress, RedistributionGatherAndScatter) {
  on_groups([](const Communicator& comm) {
    const auto transport = make_transport(comm, Device{}, TransportKind::mpi);
    const Box image = Box::image2d(11, 19);
    const int n = comm.size();
    const Layout rows = grid_layout(image, {1, n, 1}), columns = grid_layout(image, {1, 1, n});
    std::vector<Box> at_root(static_cast<std::size_t>(n));
    at_root.back() = image;  // not rank 0, so that ranks and places differ
    const Layout root(at_root);
    check_addresses(comm, transport, rows, columns, image, Border::none);
    check_addresses(comm, transport, columns, rows, image, Border::zero);
    check_addresses(comm, transport, columns, root, image, Border::none);
    check_addresses(comm, transport, root, rows, image, Border::none);
    const Layout everywhere(std::vector<Box>(static_cast<std::size_t>(n), image));
    check_addresses(comm, transport, rows, everywhere, image, Border::none);
  });
}

TEST(ExchangeAddress, PixelsThatNobodyOwns) {
  on_groups([](const Communicator& comm) {
    const auto transport = make_transport(comm, Device{}, TransportKind::mpi);
    const Box image = Box::image2d(9, 9);
    const Layout own = grid_layout(Box{{0, 2, 3}, {1, 6, 9}}, square_grid(comm.size()));
    const Layout need = grid_layout(image, {1, comm.size(), 1}).grow({{0, 1, 1}, {0, 1, 1}});
    for (const Border border : {Border::none, Border::zero, Border::circular})
      check_addresses(comm, transport, own, need, image, border);
  });
}

TEST(ExchangeAddress, OwnersMayHoldMoreThanTheImage) {
  on_groups([](const Communicator& comm) {
    const auto transport = make_transport(comm, Device{}, TransportKind::mpi);
    const Box image = Box::image2d(10, 7), padded = Box::image2d(16, 8);
    const Layout own = grid_layout(padded, square_grid(comm.size()));
    check_addresses(comm, transport, own, own.grow({{0, 2, 2}, {0, 2, 2}}), image, Border::replicate);
  });
}

TEST(ExchangeAddress, MessagesToItselfAndSplitMessages) {
  on_groups([](const Communicator& comm) {
    const auto transport = make_transport(comm, Device{}, TransportKind::mpi);
    transport->self_messages = mpi_running();
    transport->message_limit = 24;  // bytes: three numbers
    const Case c = cases()[2];
    const Layout own = grid_layout(c.image, square_grid(comm.size()));
    for (const Border border : kBorders)
      check_addresses(comm, transport, own, own.grow(c.reach), c.image, border);
  });
}

TEST(ExchangeAddress, BlockInsideItsOwnHalo) {
  on_groups([](const Communicator& comm) {
    const auto transport = make_transport(comm, Device{}, TransportKind::mpi);
    const Box image = Box::image2d(12, 10);
    const Layout own = grid_layout(image, square_grid(comm.size()));
    const Layout need = own.grow({{0, 2, 3}, {0, 1, 2}});
    for (const Border border : {Border::circular, Border::replicate}) {
      Block<double> x(need.box(comm.rank()), 2, ElementType::float64, kUntouched);
      ArrayView inner = x.view();
      inner.box = own.box(comm.rank());
      if (!inner.box.empty()) inner.data = &x.at(0, inner.box.lo());
      x.for_each([&](auto c, const Index3& p, double& v) {
        if (inner.box.contains({p, p + Index3{1, 1, 1}})) v = address(image, c, p);
      });
      Exchange exchange(ExchangePlan(own, need, image, border, comm.rank()), transport, 2,
                        ElementType::float64);
      exchange.begin(inner, x.view()).wait();
      x.for_each([&](auto c, const Index3& p, double& v) {
        EXPECT_EQ(v, address(image, c, *walk(p, image, border)));
      });

      // Ones everywhere: a pixel then counts the places that need it, its own among them.
      Block<double> y(own.box(comm.rank()), 2, ElementType::float64, 0);
      Block<double> ones(need.box(comm.rank()), 2, ElementType::float64, 1);
      exchange.begin_transposed(ones.view(), y.view()).wait();
      x.for_each([](auto, const Index3&, double& v) { v = 1; });
      exchange.begin_transposed(x.view(), inner).wait();
      y.for_each([&](auto c, const Index3& p, double& v) { EXPECT_EQ(v, x.at(c, p)); });
    }
  });
}

}  // namespace
}  // namespace tessera::test
