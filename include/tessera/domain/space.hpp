// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/comm/communicator.hpp"

namespace tessera {

/// A number that a reduction in flight will bring: NaN until its batch has arrived (one iteration later).
class Deferred {
 public:
  Deferred() = default;
  /// One that is known already.
  explicit Deferred(double value);
  bool asked() const { return read_ != nullptr; }
  bool ready() const;
  double value() const;

 private:
  friend class Reducer;
  std::shared_ptr<std::function<double()>> read_;  // null: never asked for
};

/// The iteration's one reduction: terms are added during an iteration, launch() sends their sums on the way,
/// and finish() (an iteration later) makes them readable. On a device nothing waits for the host in between.
class Reducer {
 public:
  explicit Reducer(Communicator comm);
  ~Reducer();

  /// `locals` are this rank's parts (0-dim float64 tensors, or doubles through the overload); once reduced
  /// (sum over ranks), `combine` makes the result of them. All ranks add the same terms in the same order.
  Deferred add(std::vector<at::Tensor> locals, std::function<double(const std::vector<double>&)> combine);
  Deferred add(double local);

  void launch();  ///< collective: starts the reduction of what was added since the last launch
  void finish();  ///< collective: completes the launched reduction; a no-op without one

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// How far an image moved, relative to what it is now, and its squared norm.
struct Movement {
  Deferred relative, squares;
};

/// Inner products of images (or measurements) that are spread over ranks, accumulated in double.
///
/// Cheap handle; what it refers to must outlive it. dot() and norm() are collective and wait; the deferred
/// forms ride on the iteration's one reduction.
class Space {
 public:
  Space(Communicator comm, Reducer* reducer) : comm_(std::move(comm)), reducer_(reducer) {}

  double dot(const at::Tensor& a, const at::Tensor& b) const;
  double norm(const at::Tensor& a) const;
  /// Several dots in one reduction.
  std::vector<double> dots(const std::vector<std::pair<at::Tensor, at::Tensor>>& pairs) const;

  /// |a| / (|b| + 1e-6), an iteration later.
  Deferred relative_norm(const at::Tensor& a, const at::Tensor& b) const;
  /// The same of squares, this rank's sums of them: sqrt(a_1 + a_2 + ...) / (sqrt(b) + 1e-6).
  Deferred relative_root(std::vector<at::Tensor> a, const at::Tensor& b) const;
  /// |x - before| / (|x| + 1e-6), likewise, and |x|^2, in one pass. `work` may take the difference.
  Movement movement(const at::Tensor& x, const at::Tensor& before, at::Tensor& work) const;
  Deferred norm_squared(const at::Tensor& a) const;
  Deferred sum(const at::Tensor& local_scalar) const;

  const Communicator& comm() const { return comm_; }

 private:
  Communicator comm_;
  Reducer* reducer_;
};

/// Sum of a * b over this rank's elements: a 0-dim float64 tensor on their device; 0 for empty ones.
at::Tensor local_dot(const at::Tensor& a, const at::Tensor& b);

}  // namespace tessera
