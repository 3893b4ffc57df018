// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string>
#include <vector>

#include "tessera/core/words.hpp"
#include "tessera/physics/projection_geometry.hpp"

namespace tessera {

/// What the ramp is multiplied by up to the highest frequency f_N: 1, (1 + cos(pi f / f_N)) / 2, cos(pi f /
/// (2 f_N)).
enum class RampWindow { ram_lak, hann, cosine };
template <>
inline constexpr std::array kWords<RampWindow>{"ram-lak", "hann", "cosine"};

/// Rows times the ramp: q = pitch (h * y) along the last axis, of any others, float32 or float64, any
/// device.
///
/// h is the band-limited ramp's kernel, h[0] = 1 / (4 pitch^2), h[n] = -1 / (pi n pitch)^2 for odd n, else
/// 0: sampled as |f| its mean would be wrong by 2 to 6 %. Rows are continued by zeros to twice their length
/// or more. Source: A. C. Kak, M. Slaney, Principles of Computerized Tomographic Imaging, 1988, section
/// 3.3.3.
/// `sharp`: the power of f / sin f (f: half a turn at f_N, over 2) that windows are multiplied by, but not the plain ramp.
at::Tensor ramp_filtered(const at::Tensor& rows, double pitch, RampWindow window, double sharp = 0);

/// Direct reconstruction on an upright detector, of a parallel beam (FBP), and of a fan or cone beam over full turns (FDK):
///   q = ramp_filtered(direct_weights * y, pitch, window),  x = backproject_pixels(q).
///
/// A view's share is half of the way to its neighbors, of a parallel beam modulo half a turn, of a cone modulo a
/// turn: angles may be unequal, repeated, and over more than one turn; views that stand together share evenly. Where the
/// axis is not in the detector's middle, rays that one side alone sees have, over a whole turn, the share modulo a turn,
/// and weights go over to it smoothly before the filter (G. Wang, Med. Phys. 29 (2002) 1634, with a narrower transition).
/// A fan or a cone over half a turn and the detector's angle, or more, is a short scan: of rays that it has twice each gets a
/// part, smoothly (D. L. Parker, Med. Phys. 9 (1982) 254, with the angle that is there in place of the detector's).
/// Errors: InputError for what refuse_direct() says. Source: L. A. Feldkamp, L. C. Davis, J. W. Kress, JOSA A 1 (1984) 612; of fans A. C.
/// Kak, M. Slaney (above), section 3.4.2.
struct DirectReconstruction {
  std::vector<double> shares;  // of the views; those of a whole scan add up to pi
  std::vector<double>
      once;  // of rays that are seen from one side alone, up to 2 pi; empty: all are seen from both
  double
      near = 0,
      fade =
          1;  // where the detector ends that ends first, right of the axis if below 0; way of the transition
  double pitch = 1;  // of columns, at the axis
  double arc = 0;    // of a short scan, from half a step before its first view to half a step behind the last
  std::vector<double> along;  // where its views stand on that
  // What windows give back of what pixels lose as means over columns: all of it where views are as many as columns ask
  // for, pi / 2 for each, less where the artifacts of few views would be sharper too.
  double sharp = 0;
};
DirectReconstruction direct_reconstruction(const ProjectionGeometry& geometry);
/// The scan with a detector that reaches as far on both sides of the axis where rays count once: columns of 0 are added, for
/// the filter spreads what is measured into them. `left`: of those, how many stand before the first.
struct WideDetector {
  ProjectionGeometry geometry;
  std::int64_t left = 0;
};
WideDetector wide_detector(const ProjectionGeometry& geometry, const DirectReconstruction& direct);
/// What samples are multiplied by before the filter, float64: (views, rows, columns) of a box of them, rows 1 where all
/// are alike. Shares, and of fans and cones how ray by ray the way past the axis grows with the angle, over the axis'
/// distance: the cosine to the detector's normal, where the axis is on it.
at::Tensor direct_weights(const ProjectionGeometry& geometry, const DirectReconstruction& direct,
                          const Box& samples);
/// What such a reconstruction has no weights for (angles by which the density of an ellipse with axes of 2.6 : 1 may be
/// wrong by more than 1 % too), and what to do, in words that follow `the scan `; empty: nothing.
std::string refuse_direct(const ProjectionGeometry& geometry);
/// x += the samples that pixels are seen at: of a parallel beam the mean over a pixel's shadow on the columns, so that x are
/// means over pixels; of a fan or a cone what lies between the nearest columns and rows, by (distance of the axis from
/// the source / that of the pixel)^2, both along the detector's normal. x: (depth, rows, columns) of `block`; y: (views,
/// rows, columns) of `samples`, which reach a sample beyond shadow() of the block where the detector does; without gaps.
/// float32 or float64, any device.
void backproject_pixels(const ProjectionGeometry& geometry, const Box& block, const Box& samples,
                        const at::Tensor& y, const at::Tensor& x);
/// The same by torch's kernels, which is how a GPU does it.
void backproject_by_tensors(const ProjectionGeometry& geometry, const Box& block, const Box& samples,
                            const at::Tensor& y, const at::Tensor& x);

/// Samples of weight 0 become those of the line between their neighbors in the row, or the nearest one's; of a row
/// without any other 0. y and weights of one shape, on the host, floating.
void interpolate_unweighted(at::Tensor& y, const at::Tensor& weights);

/// 1 / sums where they exceed a millionth of `largest`, else 0: SIRT's scaling from A 1 and A^T 1, `largest` that of
/// all ranks,
///   x += C A^T R (y - A x),  R = 1 / (A 1), C = 1 / (A^T 1).
at::Tensor sirt_scaling(const at::Tensor& sums, double largest);

}  // namespace tessera
