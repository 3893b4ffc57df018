// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/physics/transmission.hpp"

#include <cmath>
#include <cstddef>

#include "tessera/core/error.hpp"

namespace tessera {

std::int64_t line_integrals(std::span<double> values, std::span<const double> flat,
                            std::span<const double> dark, std::span<double> weights) {
  TESSERA_EXPECT(flat.size() == dark.size() && weights.size() == values.size() && !flat.empty() &&
                     values.size() % flat.size() == 0,
                 values.size(), " counts, ", weights.size(), " weights, frames of ", flat.size(), " and ",
                 dark.size());
  std::int64_t silent = 0;
  for (std::size_t k = 0, at = 0; k < values.size(); ++k, at = at + 1 == flat.size() ? 0 : at + 1) {
    const double light = flat[at] - dark[at], counts = values[k] - dark[at], y = -std::log(counts / light);
    const bool says = light > 0 && counts > 0 && std::isfinite(y);
    values[k] = says ? y : 0;
    weights[k] = says ? counts : 0;
    silent += says ? 0 : 1;
  }
  return silent;
}

}  // namespace tessera
