// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <vector>

#include "tessera/domain/operator_plan.hpp"

namespace tessera {

/// Operators made of operators. Ranges, exchanges, work, bytes, adjoints and, where the members know them,
/// norms and diagonals follow from the members.

/// x -> (A_1 x, ..., A_n x): one after the other, as one with all of their parts. At least one.
std::unique_ptr<OperatorPlan> plan_stack(std::vector<std::unique_ptr<OperatorPlan>> members);
/// x -> B (A x): the range of A is the domain of B.
std::unique_ptr<OperatorPlan> compose(std::unique_ptr<OperatorPlan> B, std::unique_ptr<OperatorPlan> A);
/// (x_1, ..., x_n) -> A_1 x_1 + ... + A_n x_n: each of one part of the domain, into one range. At least one.
std::unique_ptr<OperatorPlan> plan_row(std::vector<std::unique_ptr<OperatorPlan>> members);
/// x -> A_1 x + ... + A_n x: of one domain, into one range. At least one.
std::unique_ptr<OperatorPlan> plan_sum(std::vector<std::unique_ptr<OperatorPlan>> members);
/// x -> factor A x.
std::unique_ptr<OperatorPlan> scale(double factor, std::unique_ptr<OperatorPlan> A);

}  // namespace tessera
