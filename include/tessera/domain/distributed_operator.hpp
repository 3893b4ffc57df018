// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/exchange.hpp"
#include "tessera/domain/fourier.hpp"
#include "tessera/domain/product_space.hpp"
#include "tessera/domain/space.hpp"
#include "tessera/physics/local_operator.hpp"
#include "tessera/physics/ramp_filter.hpp"

namespace tessera {

/// One tensor per part of a product space: this rank's points, (C, [D,] H, W).
using Tensors = std::vector<at::Tensor>;
/// That of a range.
using Measurement = Tensors;

/// What is known of an operator without placing it; proximal steps, norms and preconditioners follow from it.
struct OperatorTraits {
  struct Part {
    bool pointwise = false;                       // A_i^T A_i is a product at each pixel
    bool circular = false;                        // the image is a torus to the convolution
    std::optional<Convolution> convolution = {};  // that it is, whatever stands beyond the image
  };
  std::vector<Part> parts{};  // one per part of the range
  bool not_negative = false;  // no entry of A is below zero
  Reach reach{};              // pixels around a block that are read, at most
  /// A^T A is about a convolution over these axes, along rows and columns alike: projections from all around.
  std::optional<FourierAxes> radial{};
  /// Why there is no DistributedOperator::direct(), and what to do; empty: there is.
  std::string not_direct =
      "has no direct reconstruction (only projections have one) take another solver, for example pgd";

  /// A^T A is a product at each pixel.
  bool pointwise() const;
  /// Every part is a convolution, whatever its border, or a mask: conjugate gradients are then preconditioned.
  bool convolutional() const;
  /// The parts as circular convolutions of the whole image, where all of them are; else empty.
  std::vector<Convolution> circular() const;
};

/// What an operator is placed on: the domain's layout, the type and device of its tensors, where messages go.
struct OperatorContext {
  ProductSpace domain;
  at::TensorOptions options;
  std::shared_ptr<Transport> transport;
  Communicator comm;
};

class OperatorPlan;

/// A linear operator between product spaces that are spread over ranks: x -> (A_1 x, ..., A_n x).
///
/// Shapes: one tensor per part, this rank's block. Collective: apply, adjoint, norm. Persistent buffers; one
/// caller at a time. Global operators (Fourier, projections) derive from it directly, beside their
/// OperatorPlan.
class DistributedOperator {
 public:
  virtual ~DistributedOperator() = default;
  /// y <- A x (overwritten, in its memory).
  virtual void apply(const Tensors& x, Tensors& y) = 0;
  /// x <- A^T y (overwritten, in its memory).
  virtual void adjoint(const Tensors& y, Tensors& x) = 0;
  /// The same where the domain is an image.
  void apply(const at::Tensor& x, Tensors& y);
  void adjoint(const Tensors& y, at::Tensor& x);

  /// |A|^2 by formula; nullopt: ask operator_norm_squared(). Collective.
  virtual std::optional<double> norm_squared() const { return std::nullopt; }
  /// Pointwise A^T W A on this rank's block of each part of the domain, where it is one; `weights` empty: W = 1.
  virtual std::optional<Tensors> diagonal(const Tensors& weights) const { return std::nullopt; }
  /// Per part: 1 at samples that are measured, 0 at a mask's; undefined where all are. Multiplied into the
  /// noise, and left out when samples are counted.
  virtual Tensors observed() const { return Tensors(range_.parts()); }

  const ProductSpace& domain() const { return context_.domain; }
  const ProductSpace& range() const { return range_; }
  const OperatorTraits& traits() const { return traits_; }
  /// x <- about the inverse of A at y, at once, where traits().not_direct is empty: filtered back-projection of a
  /// parallel beam, Feldkamp's of a cone. Samples of weight 0 are taken from their neighbors in a row; `weights`
  /// undefined: all count. y is overwritten. Collective.
  virtual void direct(Tensors& y, const Tensors& weights, RampWindow window, at::Tensor& x);

  /// The only part of the domain.
  const ProductSpace::Part& image() const { return domain().part(0); }
  /// Bytes this rank sends for one apply plus one adjoint.
  std::int64_t bytes_sent() const { return bytes_sent_; }
  at::TensorOptions options() const { return context_.options; }
  const Communicator& comm() const { return context_.comm; }
  const std::shared_ptr<Transport>& transport() const { return context_.transport; }

  // Uninitialized tensors of this rank.
  Tensors make_measurement() const { return make(range_); }
  Tensors make_domain() const { return make(domain()); }
  at::Tensor make_image() const;
  Tensors make(const ProductSpace& space) const;

 protected:
  /// What the plan says of it on this domain.
  DistributedOperator(const OperatorPlan& plan, OperatorContext context);
  int rank() const { return comm().rank(); }

 private:
  OperatorContext context_;
  ProductSpace range_;
  OperatorTraits traits_;
  std::int64_t bytes_sent_ = 0;
};

/// A stack of local operators: exchanges once forward at the largest reach (per border rule) and accumulates
/// once backward, parts in their order. Interior work overlaps the exchange where an operator can split it.
/// The domain is one image.
std::unique_ptr<DistributedOperator> make_local_stack(
    const OperatorContext& context, const std::vector<std::unique_ptr<LocalOperator>>& parts);

/// |A|^2: closed form, else a bound within about 1e-3 where no entry of A is negative, else a power iteration
/// from a vector made of `seed` and the global pixel index, plus 2 %. The domain is one image. Collective.
double operator_norm_squared(DistributedOperator& A, const Space& space, std::uint64_t seed);

}  // namespace tessera
