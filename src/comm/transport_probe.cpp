// SPDX-License-Identifier: BSD-3-Clause
#include "transport_probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "tessera/comm/watchdog.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"

namespace tessera {
namespace {

/// Blocks of side x side pixels on the grid, each of which needs `width` more on every side, around the
/// edges.
struct Board {
  Box image;
  Layout own, need;
  Board(const std::array<int, 3>& grid, std::int64_t side, std::int64_t width) {
    image = Box({0, 0, 0}, {grid[0], grid[1] * side, grid[2] * side});
    std::vector<Box> boxes;
    for (std::int64_t z = 0; z < grid[0]; ++z)
      for (std::int64_t y = 0; y < grid[1]; ++y)
        for (std::int64_t x = 0; x < grid[2]; ++x)
          boxes.emplace_back(Index3{z, y * side, x * side}, Index3{z + 1, (y + 1) * side, (x + 1) * side});
    own = Layout(std::move(boxes));
    need = own.grow({{0, width, width}, {0, width, width}});
  }
};

/// A rank's pixels in planes, on the host and where the transport works.
class Plane {
 public:
  Plane(const Box& box, std::int64_t channels, Device device, float fill)
      : box_(box), channels_(channels), device_(device) {
    values.assign(static_cast<std::size_t>(channels * box.pixels()), fill);
    if (device.is_cuda()) memory_ = Buffer(Buffer::Kind::device, device, bytes());
  }
  ArrayView view() {
    const std::int64_t w = box_.extent(2), plane = box_.pixels();
    char* data = device_.is_cuda() ? memory_.data() : reinterpret_cast<char*>(values.data());
    return {data, box_, channels_, plane, {box_.extent(1) * w, w, 1}, ElementType::float32, device_, nullptr};
  }
  void upload() { copy(memory_.data(), values.data(), cudaMemcpyHostToDevice); }
  void fetch() { copy(values.data(), memory_.data(), cudaMemcpyDeviceToHost); }

  std::vector<float> values;

 private:
  std::int64_t bytes() const { return static_cast<std::int64_t>(values.size() * sizeof(float)); }
  void copy(void* to, const void* from, cudaMemcpyKind way) const {
    if (!device_.is_cuda()) return;
    const DeviceGuard guard(device_);
    TESSERA_CUDA(cudaDeviceSynchronize());
    TESSERA_CUDA(cudaMemcpy(to, from, static_cast<std::size_t>(bytes()), way));
  }
  Box box_;
  std::int64_t channels_;
  Device device_;
  Buffer memory_;
};

// A whole number below 2^24, exact in float32, that differs from pixel to pixel and from round to round.
float known_value(const Box& image, std::int64_t c, const Index3& p, std::int64_t round) {
  const std::int64_t pixel = (p[0] * image.extent(1) + p[1]) * image.extent(2) + p[2];
  return static_cast<float>(((pixel * 8 + c) * 40503 + round * 7919 + 1) & 0xffffff);
}

template <class Visit>
void for_each_pixel(const Box& box, std::int64_t channels, Visit visit) {
  std::size_t at = 0;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t z = box.lo()[0]; z < box.hi()[0]; ++z)
      for (std::int64_t y = box.lo()[1]; y < box.hi()[1]; ++y)
        for (std::int64_t x = box.lo()[2]; x < box.hi()[2]; ++x) visit(c, Index3{z, y, x}, at++);
}

struct Check {
  double seconds = 0;   // of the faster run
  std::string problem;  // the first wrong value, or empty
};

// Known values to all neighbors, twice with others. A rank that got a wrong one goes on: the others wait for
// it.
Check check_values(const std::shared_ptr<Transport>& transport, const std::array<int, 3>& grid) {
  const Board board(grid, 24, 3);
  const int rank = transport->comm.rank();
  constexpr std::int64_t kChannels = 2;
  const Box mine = board.own.box(rank), wanted = board.need.box(rank);
  Exchange exchange(ExchangePlan(board.own, board.need, board.image, Border::circular, rank), transport,
                    kChannels, ElementType::float32);
  Plane own(mine, kChannels, transport->device, 0);
  Check out{std::numeric_limits<double>::infinity(), ""};
  for (std::int64_t round = 0; round < 2; ++round) {
    for_each_pixel(mine, kChannels, [&](std::int64_t c, const Index3& p, std::size_t at) {
      own.values[at] = known_value(board.image, c, p, round);
    });
    own.upload();
    Plane need(wanted, kChannels, transport->device, -1);
    need.upload();
    transport->comm.barrier();
    const double start = now();
    exchange.begin(own.view(), need.view()).wait();
    out.seconds = std::min(out.seconds, now() - start);
    need.fetch();
    for_each_pixel(wanted, kChannels, [&](std::int64_t c, const Index3& p, std::size_t at) {
      Index3 q = p;
      for (std::size_t d = 0; d < 3; ++d) q[d] = (p[d] + board.image.extent(d)) % board.image.extent(d);
      const float right = known_value(board.image, c, q, round);
      if (need.values[at] == right || !out.problem.empty()) return;
      const int from = board.own.overlapping(Box(q, {q[0] + 1, q[1] + 1, q[2] + 1})).front();
      out.problem = concat("rank ", transport->world_rank(rank), " got ", need.values[at], " for ", right,
                           " from rank ", transport->world_rank(from));
    });
  }
  return out;
}

// Bytes that this rank sends per second, in exchanges as large as those of a network's features.
double measure_bandwidth(const std::shared_ptr<Transport>& transport, const std::array<int, 3>& grid) {
  const Board board(grid, 64, 16);
  const int rank = transport->comm.rank();
  constexpr std::int64_t kChannels = 32;
  ExchangePlan plan(board.own, board.need, board.image, Border::circular, rank);
  const auto bytes = static_cast<double>(plan.pixels_sent() * kChannels) * sizeof(float);
  if (bytes == 0) return 0;
  Exchange exchange(std::move(plan), transport, kChannels, ElementType::float32);
  Plane own(board.own.box(rank), kChannels, transport->device, 1);
  Plane need(board.need.box(rank), kChannels, transport->device, 0);
  own.upload();
  double fastest = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 3; ++round) {
    transport->comm.barrier();
    const double start = now();
    exchange.begin(own.view(), need.view()).wait();
    need.fetch();  // ends with the device's work
    fastest = std::min(fastest, now() - start);
  }
  return bytes / fastest;
}

// Runs `work`, which is collective; what went wrong on the lowest such rank, or an empty text, on all ranks.
std::string agree(const Communicator& comm, const std::function<void()>& work) {
  std::string problem;
  try {
    work();
  } catch (const std::exception& e) {
    problem = e.what();
  }
  try {
    comm.together([&] {
      if (!problem.empty()) throw RunError(problem);
    });
  } catch (const RunError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

std::vector<TransportKind> candidates_from(TransportKind chosen, const std::vector<Endpoint>& ranks) {
  std::vector<TransportKind> out = {chosen};
  const bool aware =
      std::all_of(ranks.begin(), ranks.end(), [](const Endpoint& e) { return e.cuda_aware_mpi; });
  if (chosen == TransportKind::nccl && aware) out.push_back(TransportKind::cuda_mpi);
  if (chosen != TransportKind::mpi) out.push_back(TransportKind::mpi);
  return out;
}

StartedTransport start_first_working(const Communicator& comm, const std::array<int, 3>& grid,
                                     const std::vector<TransportKind>& candidates,
                                     const TransportMaker& make) {
  StartedTransport out;
  std::string problems;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    double figures[2] = {0, 0};
    std::string problem = agree(comm, [&] { out.transport = make(candidates[i]); });
    if (problem.empty())
      problem = agree(comm, [&] {
        const Check check = check_values(out.transport, grid);
        if (!check.problem.empty()) throw RunError(check.problem);
        figures[0] = -check.seconds;
      });
    if (problem.empty()) problem = agree(comm, [&] { figures[1] = measure_bandwidth(out.transport, grid); });
    if (problem.empty()) {
      comm.all_reduce(std::span<double>(figures), Reduce::min);  // of the slowest rank
      out.seconds = -figures[0];
      out.bytes_per_second = figures[1];
      return out;
    }
    out.transport.reset();
    problems += concat(problems.empty() ? "" : "; ", name(candidates[i]), ": ", problem);
    if (i + 1 < candidates.size())
      out.warnings.push_back(concat("messages by ", name(candidates[i]), " failed the test at the start (",
                                    problem, "), ", name(candidates[i + 1]), " is used in its place"));
  }
  throw RunError(concat("no transport moves data as it should (", problems,
                        ") check the network and its libraries, or name another one in domain.transport"));
}

StartedTransport start_transport(const Communicator& comm, Device device, TransportKind wanted,
                                 const std::array<int, 3>& grid, double limit_seconds) {
  const std::vector<Endpoint> ranks = gather_endpoints(comm, device);
  const std::vector<TransportKind> candidates = candidates_from(choose_transport(wanted, ranks), ranks);
  std::optional<Watchdog> watchdog;
  if (limit_seconds > 0) watchdog.emplace(comm, limit_seconds);
  const PhaseScope phase(Phase::halo);
  return start_first_working(comm, grid, candidates, [&](TransportKind kind) {
    return kind == TransportKind::nccl ? make_nccl_transport(comm, device)
                                       : make_mpi_transport(comm, device, kind);
  });
}

std::string description(const StartedTransport& started) {
  const std::string how = name(kind(*started.transport));
  if (started.bytes_per_second == 0) return how;
  return fmt::format("{} (tested: {:.2g} GB/s, {:.0f} us)", how, started.bytes_per_second / 1e9,
                     started.seconds * 1e6);
}

}  // namespace tessera
