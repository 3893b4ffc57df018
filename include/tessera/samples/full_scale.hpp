// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/io/file_headers.hpp"

namespace tessera {

/// Which file values are 0 and 1 inside, and how that is known where it was not plain.
struct FullScale {
  double offset = 0, factor = 1;
  std::string note = {};
};

/// What says which samples count: a file of weights, or else marks; samples that do not count say nothing about the
/// scale (marked ones reach 3000 beside a picture of 0 to 1).
struct CountedBy {
  std::string weights = {};
  /// This rank's box of samples of such a file, 1 where one counts, else 0; undefined where they do not fit.
  /// Collective.
  std::function<at::Tensor(const SourceInfo&, const Layout&)> marks = {};
};

/// Values of both signs, as Hounsfield units, phases and decibels are: whether the least of them is 0 inside. Of samples
/// that is the least but for a pile at the smallest value, as padding and limits make it; a truth has no noise, and
/// large parts of one value.
enum class BothSigns { as_others, of_samples, of_truth };

/// problem.scale of files of one kind that say nothing: what the file says of itself, the full scale of its
/// type, or where the type is wider than its contents (12 bits in a file of 16) or has none (floats that are
/// not about [0, 1], 32-bit integers), what the values say, which are then read once. `factor` is above
/// `offset`. Collective; InputError where nothing lies above the offset.
FullScale full_scale_of(const SourceInfo& about, const std::vector<std::string>& paths, double offset,
                        FileHeaders& headers, const Communicator& comm, const CountedBy& counted = {},
                        BothSigns signs = BothSigns::as_others);

/// scale.factor: data. File values are first made stored * factor + offset. Collective.
double brightest_samples(const std::vector<std::string>& paths, double factor, double offset,
                         FileHeaders& headers, const Communicator& comm, const CountedBy& counted = {});

}  // namespace tessera
