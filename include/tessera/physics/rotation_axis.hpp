// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace tessera {

/// Where a parallel beam sees the axis of rotation.
struct RotationAxis {
  double column = 0;                   // from 0, not rounded
  double by_values = 0, by_edges = 0;  // two estimates, in the middle half of the detector
  enum class By {
    spectrum,
    opposite,
    mass
  } by = By::spectrum;       // else found all over the detector, both alike
  std::string problem = {};  // why none can be found; else empty
};

/// Finds the axis from the views of half a turn or more.
///
/// Half a turn and its mirror image about the right column make a full turn, whose spectrum has next to nothing
/// beyond the double wedge |m| <= 2 pi |f| R (m per turn, f per column, R half the detector): the column is that
/// for which the least energy lies there. That energy is a correlation, computed for all columns at once by one
/// transform, and its least value is refined by a parabola. by_values takes line integrals less a line through
/// the detector's ends; by_edges their differences over a few columns, which an object wider than the detector
/// does not lead astray. `column` is the mean of both where they agree to 2 columns, else by_edges. Whole turns
/// are taken as halves. Views are put at even angles by linear interpolation; angles count modulo a turn.
///
/// That is looked for in the middle half of the detector. Over a whole turn each view is also held against the one from
/// the other side, mirrored about any column of the detector (By::opposite): that column holds where it makes them
/// clearly more alike, as where the axis stands near an end. Where all views have air on both sides, the axis is also
/// that about which their centers of mass go (By::mass), which holds outside of the middle half, and where the views
/// go over less than half a turn.
///
/// `rows`: (rows, views, columns), float64 on the host, line integrals; rows are summed up. `angles`: radians, one a
/// view, in any order. Not collective. Source: N. T. Vo et al., Opt. Express 22 (2014) 19078, with squares in
/// place of moduli.
RotationAxis find_rotation_axis(const at::Tensor& rows, const std::vector<double>& angles);

}  // namespace tessera
