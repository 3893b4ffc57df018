// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/comm/array.hpp"
#include "tessera/physics/local_operator.hpp"

namespace tessera {

/// y = x.
std::unique_ptr<LocalOperator> make_identity();

/// y = M x, M between 0 and 1, equal on all channels or one per channel.
/// `mask`: (1, H, W) or (C, H, W) over `box`, which holds at least the pixels that this rank will be given.
std::unique_ptr<LocalOperator> make_mask(at::Tensor mask, const Box& box);
/// Reads an array's blocks, one per rank; collective. This rank's, (1 or C, [D,] H, W).
using BlockReader = std::function<at::Tensor(const Layout& blocks, const Communicator& comm)>;
/// The same mask from a file, which is read when the operator is loaded, once for each cut of the image.
std::unique_ptr<LocalOperator> make_mask(BlockReader read);
/// Every pixel of the image is kept with probability `keep`, by its global index: the same for any ranks.
std::unique_ptr<LocalOperator> make_random_mask(double keep, std::uint64_t seed, std::uint32_t part = 0);

/// What a blur sees beyond the image. valid: nothing; the measurement is smaller than the image.
enum class Boundary { circular, reflect, replicate, zero, valid };
/// InputError with the nearest known name.
Boundary parse_boundary(std::string_view name);
/// What it asks of an exchange.
Border border_of(Boundary boundary);

/// How a blur is computed. automatic: direct up to 225 taps on a CPU (121 in a stack of blurs, which share
/// the image's transform) and 25 on a GPU, by FFT beyond; on a coarser grid of factor f up to 81 f^2 and 25 f^2.
enum class BlurMethod { automatic, direct, fft };
BlurMethod parse_blur_method(std::string_view name);

struct BlurOptions {
  at::Tensor kernel;  // (h, w), or one per channel of the image (C, h, w); used as it is, not normalized
  std::optional<std::array<std::int64_t, 2>> origin;  // tap at the sample's pixel; default (h / 2, w / 2)
  Boundary boundary = Boundary::circular;
  BlurMethod method = BlurMethod::automatic;
  Device device;            // where it is to run, for the automatic method
  std::int64_t factor = 1;  // keeps every factor-th row and column ...
  // ... from these on: y = (kernel * x)[phase[0]::factor, phase[1]::factor]
  std::array<std::int64_t, 2> phase{};
};

/// True convolution: y[i] = sum_j kernel[j] x[factor i + phase + origin - j], at 2-D images. With boundary
/// valid, y starts at `phase` from where the kernel first fits. InputError for a phase outside of [0,
/// factor).
std::unique_ptr<LocalOperator> make_blur(BlurOptions options);

struct VolumeBlurOptions {
  at::Tensor kernel;               // (d, h, w), or one per channel of the image (C, d, h, w); used as it is
  std::optional<Index3> origin{};  // tap at the sample's voxel; default (d / 2, h / 2, w / 2)
  Boundary boundary = Boundary::circular;
  BlurMethod method = BlurMethod::automatic;
  Index3 factor{1, 1, 1};  // keeps every factor-th slice, row and column, from `phase` on
  Index3 phase{};
  /// Of a tile that is transformed at once, about and at most, unless the kernel asks for more. A pass holds four
  /// tiles per channel.
  std::int64_t tile_values = 1 << 24;
};
/// True convolution of volumes: y[i] = sum_j kernel[j] x[factor i + phase + origin - j]. With boundary valid, y
/// starts at `phase` from where the kernel first fits. automatic: direct up to 27 taps. InputError as for
/// make_blur().
std::unique_ptr<LocalOperator> make_volume_blur(VolumeBlurOptions options);

/// Of samples that see no more than `factor` pixels on every axis, as means of binned pixels do: how many pixels
/// before its own each begins to. 0 where they see more.
Index3 before_bins(const Convolution& samples);
/// The phase with which such samples of a blur see the first pixels of the image first; 0 where there is none.
Index3 binning_phase(const LocalOperator& samples);

/// A kernel that is a product of one per axis: depth, rows, columns.
struct SeparableKernel {
  std::array<std::vector<double>, 3> taps{{{1.0}, {1.0}, {1.0}}};
  Index3 origin{};  // the taps at the sample's pixel
  std::int64_t size(std::size_t axis) const { return static_cast<std::int64_t>(taps[axis].size()); }
};
/// True convolution with it, tap by tap along one axis after the other; images of any depth.
std::unique_ptr<LocalOperator> make_separable_blur(SeparableKernel kernel, Boundary boundary);
/// The same with Gaussians: widths along depth, rows and columns, in pixels.
std::unique_ptr<LocalOperator> make_gaussian_blur(const std::array<double, 3>& sigma, Boundary boundary);
/// Of sum 1; 2 c + 1 taps, c = int(sigma / 0.3 + 1).
std::vector<double> gaussian_taps(double sigma);

/// Gaussian kernel of sum 1, float64: sigma (rows, columns) in pixels, turned by `angle_degrees`.
/// Side 2 c + 1, c = int(max(sigma) / 0.3 + 1): cut beyond 3.3 standard deviations.
at::Tensor gaussian_kernel(std::array<double, 2> sigma, double angle_degrees = 0);

}  // namespace tessera
