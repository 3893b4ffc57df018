// SPDX-License-Identifier: BSD-3-Clause
// Device arrays: pack and unpack kernels against the host rows, and every transport against the host
// exchange.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "border_reference.hpp"
#include "device.hpp"
#include "exchange_programs.hpp"
#include "pack.hpp"
#include "plan_programs.hpp"
#include "support/block.hpp"
#include "support/gpu.hpp"
#include "support/groups.hpp"
#include "tessera/comm/exchange.hpp"
#include "transport.hpp"

namespace tessera::test {
namespace {

/// A block's memory on a device.
template <class T>
class Mirror {
 public:
  Mirror(Block<T>& block, Device device) : block_(block), device_(device) {
    memory_ = Buffer(Buffer::Kind::device, device, bytes());
    const DeviceGuard guard(device_);
    if (bytes() > 0)
      TESSERA_CUDA(cudaMemcpy(memory_.data(), block_.values().data(), size(), cudaMemcpyHostToDevice));
  }
  ArrayView view() {
    ArrayView v = block_.view();
    v.data = memory_.data();
    v.device = device_;
    return v;
  }
  /// What is on the device now.
  Block<T> fetch() const {
    Block<T> copy = block_;
    const DeviceGuard guard(device_);
    TESSERA_CUDA(cudaDeviceSynchronize());
    if (bytes() > 0)
      TESSERA_CUDA(cudaMemcpy(copy.values().data(), memory_.data(), size(), cudaMemcpyDeviceToHost));
    return copy;
  }

 private:
  std::int64_t bytes() const { return static_cast<std::int64_t>(size()); }
  std::size_t size() const { return block_.values().size() * sizeof(T); }
  Block<T>& block_;
  Device device_;
  Buffer memory_;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// The same bits, or, where own pieces travel as messages and are summed in another order, nearly the same.
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b, bool to_rounding) {
  if (!to_rounding) return same_bits(a, b);
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::abs(a[i] - b[i]) > 1e-5 * (1 + std::abs(b[i]))) return false;
  return a.size() == b.size();
}

double noise(std::int64_t c, const Index3& p) {
  return std::sin(12.9898 * static_cast<double>(p[1]) + 78.233 * static_cast<double>(p[2]) +
                  static_cast<double>(c));
}

/// Forward and transposed over `transport` on the device and over MPI on the host: the same.
void compare_with_host(const Communicator& comm, const std::shared_ptr<Transport>& transport) {
  const auto host = make_mpi_transport(comm, Device{}, TransportKind::mpi);
  const int r = comm.rank();
  for (const Border border : kBorders)
    for (const Order order : {Order::channels_first, Order::channels_last, Order::padded})
      for (const Box& image : {Box::image2d(37, 21), Box::image2d(3, 2)}) {
        const Layout own = grid_layout(image, square_grid(comm.size()));
        const Layout need = own.grow({{0, 2, 1}, {0, 3, 4}});
        const ExchangePlan plan(own, need, image, border, r);
        Exchange on_host(plan, host, 3, ElementType::float32),
            on_device(plan, transport, 3, ElementType::float32,
                      order == Order::channels_last ? Packing::pixels : Packing::planes);
        Block<float> x(own.box(r), 3, ElementType::float32, 0, order),
            y(need.box(r), 3, ElementType::float32, -7);
        x.for_each([](auto c, const Index3& p, float& v) { v = static_cast<float>(noise(c, p)); });
        Mirror<float> dx(x, transport->device), dy(y, transport->device);
        on_host.begin(x.view(), y.view()).wait();
        on_device.begin(dx.view(), dy.view()).wait();
        EXPECT_TRUE(same_bits(dy.fetch().values(), y.values()))
            << "forward, border " << static_cast<int>(border);
        on_host.begin_transposed(y.view(), x.view()).wait();
        on_device.begin_transposed(dy.view(), dx.view()).wait();
        EXPECT_TRUE(same(dx.fetch().values(), x.values(), transport->self_messages))
            << "transposed, border " << static_cast<int>(border);
      }
}

TEST(PackKernel, EqualsTheHostRowsInEveryType) {
  TESSERA_NEEDS_GPU();
  const Device device{gpu_of(Communicator::world())};
  const Box image = Box::image2d(13, 9);
  const Layout own = grid_layout(image, {1, 1, 1}), need = own.grow({{0, 15, 2}, {0, 3, 11}});
  const std::int64_t channels = 3;
  for (const ElementType type : {ElementType::float32, ElementType::float64, ElementType::bfloat16,
                                 ElementType::float16, ElementType::complex64, ElementType::complex128})
    for (const Border border : kBorders) {
      const ExchangePlan plan(own, need, image, border, 0);
      // Bytes that are small numbers in every type.
      const auto bytes = [&](const Box& box) {
        return static_cast<std::size_t>(box.pixels() * channels * element_bytes(type));
      };
      std::vector<char> x(bytes(image)), y(bytes(need.box(0)));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<char>(i * 7 % 60);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<char>(i * 5 % 60);
      const auto view = [&](std::vector<char>& v, const Box& box) {
        return ArrayView{v.data(), box,      channels, box.pixels(), {box.pixels(), box.extent(2), 1},
                         type,     Device{}, nullptr};
      };
      const pack::Shape xs(view(x, image)), ys(view(y, need.box(0)));
      const auto run = [&](const pack::Program& program, std::vector<char>& to,
                           const std::vector<char>& from) {
        ASSERT_FALSE(program.empty());
        Buffer to_device(Buffer::Kind::device, device, static_cast<std::int64_t>(to.size()));
        Buffer from_device(Buffer::Kind::device, device, static_cast<std::int64_t>(from.size()));
        TESSERA_CUDA(cudaMemcpy(to_device.data(), to.data(), to.size(), cudaMemcpyHostToDevice));
        TESSERA_CUDA(cudaMemcpy(from_device.data(), from.data(), from.size(), cudaMemcpyHostToDevice));
        pack::DeviceProgram(program, type, device).run(to_device.data(), from_device.data(), nullptr);
        TESSERA_CUDA(cudaDeviceSynchronize());
        std::vector<char> result(to.size());
        TESSERA_CUDA(cudaMemcpy(result.data(), to_device.data(), to.size(), cudaMemcpyDeviceToHost));
        pack::run_host(program, type, to.data(), from.data());
        EXPECT_EQ(result, to) << "type " << static_cast<int>(type) << ", border " << static_cast<int>(border);
      };
      std::vector<char> packed(
          static_cast<std::size_t>(plan.through_self(0).pixels_sent() * channels * element_bytes(type)));
      run_programs(plan, xs, ys, channels, x, y, packed, run);
    }
}

TEST(DeviceExchange, ThroughPinnedHostBuffers) {
  TESSERA_NEEDS_GPU();
  on_groups([](const Communicator& comm) {
    compare_with_host(comm, make_transport(comm, Device{gpu_of(comm)}, TransportKind::mpi));
  });
}

TEST(DeviceExchange, AutomaticTransport) {
  TESSERA_NEEDS_GPU();
  on_groups({1, 3}, [](const Communicator& comm) {
    compare_with_host(comm, make_transport(comm, Device{gpu_of(comm)}, TransportKind::automatic));
  });
}

TEST(DeviceExchange, CudaAwareMpi) {
  TESSERA_NEEDS_GPU();
  const Communicator world = Communicator::world();
  std::shared_ptr<Transport> transport;
  try {
    transport = make_transport(world, Device{gpu_of(world)}, TransportKind::cuda_mpi);
  } catch (const InputError& e) {
    GTEST_SKIP() << e.what();
  }
  compare_with_host(world, transport);
}

TEST(DeviceExchange, NcclWithMessagesToItself) {
  TESSERA_NEEDS_GPU();
  const Communicator world = Communicator::world();
  if (world.rank() > 0) return;  // one rank is enough, and one GPU
  const Communicator alone;
  const auto transport = make_nccl_transport(alone, Device{0});
  transport->self_messages = true;
  compare_with_host(alone, transport);
}

TEST(DeviceExchange, NcclBetweenRanks) {
  TESSERA_NEEDS_GPU();
  const Communicator world = Communicator::world();
  if (gpus() < world.local_size() || world.size() == 1)
    GTEST_SKIP() << gpus() << " GPUs for " << world.local_size() << " ranks: NCCL wants one each";
  compare_with_host(world, make_transport(world, Device{gpu_of(world)}, TransportKind::nccl));
}

TEST(DeviceExchange, RanksThatShareAGpuCannotAskForNccl) {
  TESSERA_NEEDS_GPU();
  const Communicator world = Communicator::world();
  if (gpus() >= world.local_size()) GTEST_SKIP() << "every rank has a GPU of its own here";
  EXPECT_THROW(make_transport(world, Device{gpu_of(world)}, TransportKind::nccl), InputError);
}

}  // namespace
}  // namespace tessera::test
