// SPDX-License-Identifier: BSD-3-Clause
// Halo exchanges: what they take alone, and how much of it hides behind computation.
#include <ATen/ops/rand.h>

#include <algorithm>

#include "study_tools.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/decomposition.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

struct HaloCase {
  TransportKind transport;
  std::int64_t side, channels, width;
};

class HaloStudy final : public Study {
 public:
  HaloStudy(const StudyOptions& options, const Communicator& comm) : device_(options.device), comm_(comm) {
    std::vector<TransportKind> transports{TransportKind::mpi};
    if (device_.is_cuda()) {
      // Those that the machine has: what automatic chooses is one of them.
      const TransportKind best = kind(*make_transport(comm, device_, TransportKind::automatic));
      if (best != TransportKind::mpi) transports.push_back(best);
    }
    for (const TransportKind transport : transports)
      for (const std::int64_t side : {256, 1024, 2048})
        for (const std::int64_t channels : {3, 64})
          for (const std::int64_t width : {1, 8, 24, 64, 192}) {
            const std::int64_t block = std::max<std::int64_t>(16, side / options.scale);
            if (width <= block) cases_.push_back({transport, block, channels, width});
          }
  }

  std::vector<StudyColumn> columns() const override {
    return {{"transport", ""},         {"ranks", std::int64_t{}},
            {"block", std::int64_t{}}, {"channels", std::int64_t{}},
            {"width", std::int64_t{}}, {"messages", std::int64_t{}},
            {"bytes", std::int64_t{}}, {"largest_message", std::int64_t{}},
            {"seconds", 0.0},          {"seconds_per_message", 0.0},
            {"bandwidth", 0.0},        {"exposed_seconds", 0.0},
            {"hidden_fraction", 0.0}};
  }
  double estimate() override { return 1.0 * static_cast<double>(cases_.size()); }
  std::size_t rows() const override { return cases_.size(); }

  StudyRow next() override {
    const HaloCase& c = cases_[next_++];
    // The squarest grid; every rank has one block.
    int rows = 1;
    for (int r = 1; r * r <= comm_.size(); ++r)
      if (comm_.size() % r == 0) rows = r;
    const int columns = comm_.size() / rows;
    const Decomposition d(Box::image2d(c.side * rows, c.side * columns), {1, 1, 1}, {1, rows, columns});
    const Reach reach{{0, c.width, c.width}, {0, c.width, c.width}};
    std::vector<Box> needs;
    for (int r = 0; r < d.ranks(); ++r) needs.push_back(d.block(r).grow(reach).intersect(d.image()));
    ExchangePlan plan(d.layout(), Layout(std::move(needs)), d.image(), Border::none, comm_.rank());
    const auto messages = static_cast<std::int64_t>(plan.sends().size());
    std::int64_t bytes = plan.pixels_sent() * c.channels * 4, largest = 0;
    for (const Message& m : plan.sends()) largest = std::max(largest, m.pixels * c.channels * 4);
    const Box own = plan.own(), need = plan.need();
    Exchange exchange(std::move(plan), make_transport(comm_, device_, c.transport), c.channels,
                      ElementType::float32);
    const at::Tensor in = at::rand({c.channels, own.extent(1), own.extent(2)}, study_tensor(device_));
    const at::Tensor out = empty_block(c.channels, need, study_tensor(device_));
    const at::Tensor work = at::rand({1 << 14}, study_tensor(device_));

    const double alone = median([&] {
      exchange.begin(view(in, own), view(out, need)).wait();
      finish(device_);
    });
    // Behind twice as much computation, in pieces of some 10 us with a look at the messages between them.
    double exposed = 0;
    median(
        [&] {
          const double start = now();
          Exchange::Pending pending = exchange.begin(view(in, own), view(out, need));
          while (now() - start < 2 * alone) {
            work.mul_(0.999);
            pending.progress();
          }
          const double waiting = now();
          pending.wait();
          finish(device_);
          last_ = now() - waiting;
        },
        &exposed);

    std::int64_t most[3] = {messages, bytes, largest};
    comm_.all_reduce(most, Reduce::max);
    const double hidden = std::clamp(1 - exposed / alone, 0.0, 1.0);
    return {std::string(word(c.transport)),
            std::int64_t{comm_.size()},
            c.side,
            c.channels,
            c.width,
            most[0],
            most[1],
            most[2],
            alone,
            alone / static_cast<double>(std::max<std::int64_t>(1, most[0])),
            static_cast<double>(most[1]) / alone,
            exposed,
            hidden};
  }

  std::string note() const override {
    return "of the busiest rank: messages and bytes that it sends in one exchange, corners included; seconds "
           "of the "
           "slowest rank, packing included; exposed: what is waited after computing twice as long";
  }

 private:
  // Of the slowest rank; with `exposed`, that of last_.
  double median(const std::function<void()>& work, double* exposed = nullptr) {
    std::vector<double> times, waits;
    for (int k = 0; k < 12; ++k) {
      comm_.barrier();
      const double start = now();
      work();
      double both[2] = {now() - start, last_};
      comm_.all_reduce(both, Reduce::max);
      if (k < 2) continue;  // the first ones find their buffers
      times.push_back(both[0]);
      waits.push_back(both[1]);
    }
    std::sort(times.begin(), times.end());
    std::sort(waits.begin(), waits.end());
    if (exposed) *exposed = waits[waits.size() / 2];
    return times[times.size() / 2];
  }

  Device device_;
  Communicator comm_;
  std::vector<HaloCase> cases_;
  std::size_t next_ = 0;
  double last_ = 0;  // seconds waited at the end of an exchange
};

}  // namespace

std::unique_ptr<Study> make_halo_study(const StudyOptions& options, const Communicator& comm) {
  return std::make_unique<HaloStudy>(options, comm);
}

}  // namespace tessera
