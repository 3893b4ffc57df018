// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "tessera/comm/exchange.hpp"
#include "tessera/domain/decomposition.hpp"
#include "tessera/domain/measurement_layout.hpp"
#include "tessera/domain/space.hpp"
#include "tessera/physics/local_operator.hpp"

namespace tessera {

/// One part of a measurement per operator of a stack.
using Measurement = std::vector<at::Tensor>;

/// A linear operator from images cut by decomposition() to measurements that layout() lays out:
/// x -> (A_1 x, ..., A_n x).
///
/// Shapes: x (C, [D,] H, W) of this rank's block; y one tensor per part, this rank's samples
/// (MeasurementLayout). Collective: apply, adjoint, norm. Persistent buffers; one caller at a time. Global
/// operators (Fourier, projections) derive from it directly, beside their OperatorPlan.
class DistributedOperator {
 public:
  virtual ~DistributedOperator() = default;
  virtual const MeasurementLayout& layout() const = 0;
  virtual void apply(const at::Tensor& x, Measurement& y) = 0;
  /// x <- A^T y (overwritten).
  virtual void adjoint(const Measurement& y, at::Tensor& x) = 0;
  /// |A|^2 by formula; nullopt: ask operator_norm_squared(). Collective.
  virtual std::optional<double> norm_squared() const { return std::nullopt; }
  /// Whether no entry of A is below zero.
  virtual bool not_negative() const { return false; }
  /// Pointwise A^T W A on this rank's block where it is one; `weights` empty: W = 1.
  virtual std::optional<at::Tensor> diagonal(const Measurement& weights) const { return std::nullopt; }
  /// Per part: the convolution that it is, whatever stands beyond the image; nullopt where it is none.
  virtual std::vector<std::optional<Convolution>> convolutions() const {
    return std::vector<std::optional<Convolution>>(layout().parts());
  }
  /// The parts as circular convolutions of the whole image, where all of them are; else empty.
  virtual std::vector<Convolution> circular() const { return {}; }
  /// Per part: 1 at samples that are measured, 0 at a mask's; undefined where all are. Multiplied into the
  /// noise, and left out when samples are counted.
  virtual Measurement observed() const { return Measurement(layout().parts()); }
  /// Bytes this rank sends for one apply plus one adjoint.
  virtual std::int64_t bytes_sent() const = 0;

  Measurement make_measurement() const;  // uninitialized
  at::Tensor make_image() const;
  virtual at::TensorOptions options() const = 0;
  virtual std::int64_t image_channels() const = 0;
  virtual const Decomposition& decomposition() const = 0;
  virtual const Communicator& comm() const = 0;
  virtual std::shared_ptr<Transport> transport() const = 0;
};

/// A stack of local operators: exchanges once forward at the largest reach (per border rule) and accumulates
/// once backward, parts in their order. Interior work overlaps the exchange where an operator can split it.
std::unique_ptr<DistributedOperator> make_local_stack(
    const Decomposition& decomposition, const std::vector<std::unique_ptr<LocalOperator>>& parts,
    std::int64_t channels, at::TensorOptions options, std::shared_ptr<Transport> transport,
    const Communicator& comm);

/// |A|^2: closed form, else a bound within about 1e-3 where no entry of A is negative, else a power iteration
/// from a vector made of `seed` and the global pixel index, plus 2 %. Collective.
double operator_norm_squared(DistributedOperator& A, const Space& space, std::uint64_t seed);

}  // namespace tessera
