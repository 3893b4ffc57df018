// SPDX-License-Identifier: BSD-3-Clause
#include "transport_probe.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "tessera/comm/watchdog.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/image_space.hpp"
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
    need = own.grow(ImageSpace::in_plane(width));
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

// Runs `work`; what went wrong on the lowest rank on which something did, or an empty text, on all ranks.
// Collective, and the one way in which ranks wait for each other here: a rank that fails meets the others at
// the same call.
std::string agree(const Communicator& comm, const std::function<void()>& work) {
  try {
    comm.together(work);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

// An exchange from begin to end, device included; seconds. What does not arrive within the limit fails, and
// leaves nothing that would be waited for.
double timed_exchange(Exchange& exchange, Transport& transport, const ArrayView& own, const ArrayView& need,
                      double limit) {
  const double start = now();
  try {
    Exchange::Pending pending = exchange.begin(own, need);
    while (!pending.progress()) {
      if (now() - start > limit) {
        transport.abandon();
        throw RunError(concat("an exchange took longer than ", limit,
                              " s (a rank or its link does not answer)",
                              " look at the network and its libraries"));
      }
      sched_yield();
    }
    pending.wait();
  } catch (const std::exception&) {
    transport.abandon();
    throw;
  }
  return now() - start;
}

struct Check {
  double seconds = std::numeric_limits<double>::infinity();  // of the faster run
  std::string problem;                                       // the first, or empty; equal on all ranks
};

// Known values to all neighbors, twice with others.
Check check_values(const std::shared_ptr<Transport>& transport, const std::array<int, 3>& grid,
                   double limit) {
  const Board board(grid, 24, 3);
  const Communicator& comm = transport->comm;
  const int rank = comm.rank();
  constexpr std::int64_t kChannels = 2;
  const Box mine = board.own.box(rank), wanted = board.need.box(rank);
  std::optional<Exchange> exchange;
  std::optional<Plane> own, need;
  Check out;
  for (std::int64_t round = 0; round < 2; ++round) {
    out.problem = agree(comm, [&] {
      if (!exchange)
        exchange.emplace(ExchangePlan(board.own, board.need, board.image, Border::circular, rank), transport,
                         kChannels, ElementType::float32);
      if (!own) own.emplace(mine, kChannels, transport->device, 0.0f);
      for_each_pixel(mine, kChannels, [&](std::int64_t c, const Index3& p, std::size_t at) {
        own->values[at] = known_value(board.image, c, p, round);
      });
      own->upload();
      need.emplace(wanted, kChannels, transport->device, -1.0f);
      need->upload();
    });
    if (!out.problem.empty()) return out;
    out.problem = agree(comm, [&] {
      out.seconds =
          std::min(out.seconds, timed_exchange(*exchange, *transport, own->view(), need->view(), limit));
      need->fetch();
      std::string wrong;
      for_each_pixel(wanted, kChannels, [&](std::int64_t c, const Index3& p, std::size_t at) {
        Index3 q = p;
        for (std::size_t d = 0; d < 3; ++d) q[d] = (p[d] + board.image.extent(d)) % board.image.extent(d);
        const float right = known_value(board.image, c, q, round);
        if (need->values[at] == right || !wrong.empty()) return;
        const int from = board.own.overlapping(Box(q, {q[0] + 1, q[1] + 1, q[2] + 1})).front();
        wrong = concat("rank ", transport->world_rank(rank), " got ", need->values[at], " for ", right,
                       " from rank ", transport->world_rank(from));
      });
      if (!wrong.empty()) throw RunError(wrong);
    });
    if (!out.problem.empty()) return out;
  }
  return out;
}

struct Bandwidth {
  double bytes_per_second = 0;
  std::string problem;  // equal on all ranks
};

// Bytes that this rank sends per second, in exchanges as large as those of a network's features.
Bandwidth measure_bandwidth(const std::shared_ptr<Transport>& transport, const std::array<int, 3>& grid,
                            double limit) {
  const Board board(grid, 64, 16);
  const int rank = transport->comm.rank();
  constexpr std::int64_t kChannels = 32;
  const ExchangePlan plan(board.own, board.need, board.image, Border::circular, rank);
  std::optional<Exchange> exchange;
  std::optional<Plane> own, need;
  double fastest = std::numeric_limits<double>::infinity();
  Bandwidth out;
  out.problem = agree(transport->comm, [&] {
    exchange.emplace(plan, transport, kChannels, ElementType::float32);
    own.emplace(board.own.box(rank), kChannels, transport->device, 1.0f);
    need.emplace(board.need.box(rank), kChannels, transport->device, 0.0f);
    own->upload();
  });
  for (int round = 0; round < 3 && out.problem.empty(); ++round)
    out.problem = agree(transport->comm, [&] {
      const double start = now();
      timed_exchange(*exchange, *transport, own->view(), need->view(), limit);
      need->fetch();  // ends with the device's work
      fastest = std::min(fastest, now() - start);
    });
  out.bytes_per_second = static_cast<double>(plan.pixels_sent() * kChannels) * sizeof(float) / fastest;
  return out;
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
                                     const std::vector<TransportKind>& candidates, const TransportMaker& make,
                                     double limit_seconds) {
  StartedTransport out;
  std::string problems;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    std::string problem = agree(comm, [&] { out.transport = make(candidates[i]); });
    Check check;
    Bandwidth bandwidth;
    if (problem.empty()) {
      check = check_values(out.transport, grid, limit_seconds);
      problem = check.problem;
    }
    if (problem.empty()) {
      bandwidth = measure_bandwidth(out.transport, grid, limit_seconds);
      problem = bandwidth.problem;
    }
    if (problem.empty()) problem = agree(comm, [&] { out.transport->trust(); });
    if (problem.empty()) {
      double figures[2] = {-check.seconds, bandwidth.bytes_per_second};
      comm.all_reduce(std::span<double>(figures), Reduce::min);  // of the slowest rank
      out.seconds = -figures[0];
      out.bytes_per_second = figures[1];
      return out;
    }
    out.transport.reset();
    problems += concat(problems.empty() ? "" : "; ", word(candidates[i]), ": ", problem);
    if (i + 1 < candidates.size())
      out.warnings.push_back(concat("messages by ", word(candidates[i]), " failed the test at the start (",
                                    problem, "), ", word(candidates[i + 1]), " is used in its place"));
  }
  throw RunError(concat("no transport moves data as it should (", problems,
                        ") check the network and its libraries, or name another one in domain.transport"));
}

StartedTransport start_transport(const Communicator& comm, Device device, TransportKind wanted,
                                 const std::array<int, 3>& grid, double limit_seconds) {
  const std::vector<Endpoint> ranks = gather_endpoints(comm, device);
  const std::vector<TransportKind> candidates = candidates_from(choose_transport(wanted, ranks), ranks);
  std::optional<Watchdog> watchdog;
  try {
    if (limit_seconds > 0) watchdog.emplace(comm, limit_seconds);
  } catch (const RunError& e) {
    if (!e.everywhere) throw;  // else there is no place for heartbeats, which the command has said
  }
  const PhaseScope phase(Phase::halo);
  // A rank in trouble is given up well before the watchdog would end the job.
  const double limit = limit_seconds > 0 ? limit_seconds / 4 : kProbeSeconds;
  return start_first_working(
      comm, grid, candidates,
      [&](TransportKind kind) {
        return kind == TransportKind::nccl ? make_nccl_transport(comm, device, limit)
                                           : make_mpi_transport(comm, device, kind);
      },
      limit);
}

std::string description(const StartedTransport& started) {
  const std::string how = word(kind(*started.transport));
  if (started.bytes_per_second == 0) return how;
  return fmt::format("{} (tested: {:.2g} GB/s, {:.0f} us)", how, started.bytes_per_second / 1e9,
                     started.seconds * 1e6);
}

}  // namespace tessera
