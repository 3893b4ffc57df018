// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/app/operator_table.hpp"

namespace tessera {

/// The row of projections: geometry by rules, no file.
OperatorRow tomography();

}  // namespace tessera
