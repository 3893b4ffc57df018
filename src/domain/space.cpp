// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/space.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/domain/bands.hpp"

namespace tessera {
namespace {

// Fixed chunks, summed in order: the result does not depend on the number of threads.
constexpr std::int64_t kChunk = 1 << 15;

// Sum over i of term(i) in double.
template <class Term>
double sum_host(std::int64_t n, const Term& term) {
  const std::int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<double> partial(static_cast<std::size_t>(chunks));
  at::parallel_for(0, chunks, 4, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t c = first; c < last; ++c) {
      const std::int64_t end = std::min(n, (c + 1) * kChunk);
      double lane[8] = {};  // independent sums, so that the loop vectorizes
      std::int64_t i = c * kChunk;
      for (; i + 8 <= end; i += 8)
        for (int l = 0; l < 8; ++l) lane[l] += term(i + l);
      double rest = 0;
      for (; i < end; ++i) rest += term(i);
      partial[static_cast<std::size_t>(c)] =
          ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7])) + rest;
    }
  });
  double sum = 0;
  for (const double p : partial) sum += p;
  return sum;
}

template <class T>
double dot_host(const T* a, const T* b, std::int64_t n) {
  return sum_host(n, [=](std::int64_t i) { return static_cast<double>(a[i]) * static_cast<double>(b[i]); });
}

template <class T>
double distance_host(const T* a, const T* b, std::int64_t n) {
  return sum_host(n, [=](std::int64_t i) {
    const auto d = static_cast<double>(static_cast<T>(a[i] - b[i]));
    return d * d;
  });
}

// |a - b|^2 in one pass, without an image for the difference.
double local_distance(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == at::kFloat)
    return distance_host(a.const_data_ptr<float>(), b.const_data_ptr<float>(), a.numel());
  return distance_host(a.const_data_ptr<double>(), b.const_data_ptr<double>(), a.numel());
}

constexpr double kTiny = 1e-6;  // keeps a relative change finite at a zero image

}  // namespace

at::Tensor local_dot(const at::Tensor& a, const at::Tensor& b) {
  TESSERA_EXPECT(a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type(),
                 "inner product of unlike tensors");
  if (a.is_cpu() && (a.scalar_type() == at::kFloat || a.scalar_type() == at::kDouble)) {
    const at::Tensor ca = a.contiguous(), cb = b.contiguous();
    const double sum = a.scalar_type() == at::kFloat
                           ? dot_host(ca.const_data_ptr<float>(), cb.const_data_ptr<float>(), ca.numel())
                           : dot_host(ca.const_data_ptr<double>(), cb.const_data_ptr<double>(), ca.numel());
    return at::scalar_tensor(sum, at::kDouble);
  }
  return at::mul(a, b).sum(at::kDouble);
}

Deferred::Deferred(double value)
    : read_(std::make_shared<std::function<double()>>([value] { return value; })) {}
double Deferred::value() const { return read_ ? (*read_)() : std::numeric_limits<double>::quiet_NaN(); }
bool Deferred::ready() const { return read_ && *read_ && !std::isnan((*read_)()); }

struct Reducer::Impl {
  // What one launch carries; Deferreds keep it alive.
  struct Batch {
    std::vector<double> sums;
    bool arrived = false;
  };

  Communicator comm;  // its own message space: reductions start when the device is ready, in their own order
  std::vector<at::Tensor> terms;
  std::shared_ptr<Batch> next = std::make_shared<Batch>();
  std::shared_ptr<Batch> flying;
  at::Tensor device_terms, host_terms;
  std::optional<c10::Event> copied;  // device values have reached the host
  Communicator::Pending pending;
  bool started = false;

  void start() {
    if (host_terms.defined()) {
      const double* values = host_terms.const_data_ptr<double>();
      flying->sums.assign(values, values + host_terms.numel());
    }
    pending = comm.all_reduce_begin(flying->sums);
    started = true;
  }
};

Reducer::Reducer(Communicator comm) : impl_(std::make_unique<Impl>()) { impl_->comm = comm.duplicate(); }
Reducer::~Reducer() = default;

Deferred Reducer::add(std::vector<at::Tensor> locals,
                      std::function<double(const std::vector<double>&)> combine) {
  const std::size_t first = impl_->terms.size(), count = locals.size();
  for (at::Tensor& t : locals) impl_->terms.push_back(std::move(t));
  Deferred d;
  d.read_ = std::make_shared<std::function<double()>>(
      [batch = impl_->next, first, count, combine = std::move(combine)] {
        if (!batch->arrived) return std::numeric_limits<double>::quiet_NaN();
        const auto begin = batch->sums.begin() + static_cast<std::ptrdiff_t>(first);
        return combine(std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(count)));
      });
  return d;
}

Deferred Reducer::add(double local) {
  return add({at::scalar_tensor(local, at::kDouble)}, [](const std::vector<double>& s) { return s[0]; });
}

void Reducer::launch() {
  Impl& m = *impl_;
  TESSERA_EXPECT(!m.flying, "a reduction was launched before the last one was finished");
  m.flying = std::exchange(m.next, std::make_shared<Impl::Batch>());
  std::vector<at::Tensor> terms = std::exchange(m.terms, {});
  m.started = false;
  m.host_terms = at::Tensor();
  at::Device device = at::kCPU;
  for (const at::Tensor& t : terms)
    if (!t.is_cpu()) device = t.device();
  if (device.is_cpu()) {
    for (const at::Tensor& t : terms) m.flying->sums.push_back(*t.const_data_ptr<double>());
    m.start();
    return;
  }
  // Values computed on the host ride along; one copy back, and nothing waits here.
  for (at::Tensor& t : terms) t = t.to(device, at::kDouble, /*non_blocking=*/true);
  m.device_terms = at::stack(terms);
  m.host_terms = at::empty({m.device_terms.numel()}, at::TensorOptions(at::kDouble).pinned_memory(true));
  m.host_terms.copy_(m.device_terms, /*non_blocking=*/true);
  m.copied.emplace(device.type());
  m.copied->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

void Reducer::finish() {
  Impl& m = *impl_;
  if (!m.flying) return;
  const PhaseScope phase(Phase::reduce);
  if (!m.started) {
    m.copied->synchronize();
    m.start();
  }
  m.pending.wait();
  m.flying->arrived = true;
  m.flying.reset();
}

double Space::dot(const at::Tensor& a, const at::Tensor& b) const { return dots({{a, b}})[0]; }

double Space::norm(const at::Tensor& a) const { return std::sqrt(dot(a, a)); }

std::vector<double> Space::dots(const std::vector<std::pair<at::Tensor, at::Tensor>>& pairs) const {
  const PhaseScope phase(Phase::reduce);
  std::vector<double> sums;
  for (const auto& [a, b] : pairs) sums.push_back(local_dot(a, b).item().toDouble());
  const double start = now();
  comm_.all_reduce(sums, Reduce::sum);
  count_wait(now() - start);
  return sums;
}

Deferred Space::relative_norm(const at::Tensor& a, const at::Tensor& b) const {
  return relative_root({local_dot(a, a)}, local_dot(b, b));
}

Deferred Space::relative_root(std::vector<at::Tensor> a, const at::Tensor& b) const {
  a.push_back(b);
  return reducer_->add(std::move(a), [](const std::vector<double>& s) {
    return std::sqrt(std::accumulate(s.begin(), s.end() - 1, 0.0)) / (std::sqrt(s.back()) + kTiny);
  });
}

Movement Space::movement(const at::Tensor& x, const at::Tensor& before, at::Tensor& work) const {
  TESSERA_EXPECT(x.sizes() == before.sizes() && x.scalar_type() == before.scalar_type(),
                 "a change between unlike tensors");
  BandSum moved, size;
  const bool host = x.is_cpu() && x.is_contiguous() && before.is_contiguous() &&
                    (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
  if (host) {
    read_by_bands(
        [&](const at::Tensor& now, const at::Tensor& then) {
          moved.add(at::scalar_tensor(local_distance(now, then), at::kDouble));
          size.add(local_dot(now, now));
        },
        x, before);
  } else {
    at::sub_out(work, x, before);
    moved.add(local_dot(work, work));
    size.add(local_dot(x, x));
  }
  return {relative_root({moved.value()}, size.value()), sum(size.value())};
}

Deferred Space::norm_squared(const at::Tensor& a) const {
  return reducer_->add({local_dot(a, a)}, [](const std::vector<double>& s) { return s[0]; });
}

Deferred Space::sum(const at::Tensor& local_scalar) const {
  return reducer_->add({local_scalar}, [](const std::vector<double>& s) { return s[0]; });
}

}  // namespace tessera
