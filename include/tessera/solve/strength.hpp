// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "tessera/solve/schedule.hpp"

namespace tessera {

/// How a solver meets the data term, which decides what its step stands for.
enum class DataStep {
  gradient,  ///< x - tau grad f(x): pgd, fista
  prox,      ///< prox of gamma f: hqs, admm
  red,       ///< gradient step, weight (x - D(x)) for the prior: red, proxpnp
  descent,   ///< x - tau weight (x - D(x)), then prox of tau f: gspnp
};
/// Whether it takes proximal points of f; its step is their penalty then.
constexpr bool takes_prox(DataStep s) { return s == DataStep::prox || s == DataStep::descent; }
/// Whether the prior enters by a weight of x - D(x), whatever the step.
constexpr bool weighs(DataStep s) { return s == DataStep::red || s == DataStep::descent; }

/// The strength of the prior, one meaning for all solvers. With s_n the noise level (the standard deviation
/// of a sample of weight 1) and f(x) = |A x - y|^2_W / 2, a job stands for
///
///   minimize  f(x) / s_n^2 + lambda g(x),   where  D(., sigma) = prox of sigma^2 g
///
/// (g is minus the logarithm of the prior where D is a MAP denoiser; for a network the fixed point is what is
/// looked for). Then
///
///   sigma_k^2 = step_k lambda s_n^2          gradient: step tau; prox: penalty gamma
///   weight_k  = lambda s_n^2 / sigma^2       red, descent
///
/// so that the result depends on lambda alone, not on step or sigma, nor on the units of y, a common factor
/// of W, or a measurement that is split into two of half the information.
struct Strength {
  Schedule step{};                 // unset: by the rules of settle()
  Schedule sigma{};                // likewise, in the image's range
  std::optional<double> lambda{};  // likewise
};

/// Fills in what is left open. L is the Lipschitz constant of grad f; `usual` is lambda where neither lambda
/// nor sigma is given.
///
///   lambda and at most one of the others given: the formula gives the rest, with step = 1 / L where both are
///     open (where it weighs: sigma = s_n / sqrt(L), and the step stays open)
///   sigma alone: the last of its steps is 1 / L, so lambda = sigma_last^2 L / s_n^2; a gradient step stays
///     1 / L throughout, penalties follow sigma_k^2
///   step and sigma: lambda is what they say
///
/// noise 0: not known; InputError where the formula needs it, or where all three are given.
Strength settle(const Strength& said, DataStep kind, double usual, double noise, double L);

}  // namespace tessera
