// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/comm/exchange.hpp"
#include "tessera/domain/distributed_operator.hpp"

namespace tessera {

/// Power spectra of a picture's tiles: 32 x 32 samples under a Hann window, their mean taken off, half of a tile
/// apart (further where there are many). White noise of deviation s has the expectation s^2 at every frequency.
///
/// Only tiles all of whose samples count. Tiles and their order in `tiles` are anchored globally; sums are exact, so
/// that any number of ranks has the same bits.
class TileSpectra {
 public:
  static constexpr std::int64_t kSide = 32, kHalf = kSide / 2 + 1;
  static constexpr std::size_t kBins = static_cast<std::size_t>(kSide * kHalf);  // rows x half of the columns

  /// Collective. Part `part` of a measurement of pictures: float32 on the host, `counted` 1 or 0.
  TileSpectra(const at::Tensor& y, const at::Tensor& counted, const ProductSpace& layout, std::size_t part,
              const Communicator& comm, const std::shared_ptr<Transport>& transport);

  std::int64_t tiles() const { return all_; }         // of all ranks
  std::size_t own() const { return levels_.size(); }  // of this one
  /// Mean over all tiles, of all channels together (-1) or one of them. Collective.
  std::vector<double> mean(const Communicator& comm, int channel = -1) const;
  /// Power of the bins where `take` is not 0, of this rank's tiles, all channels together.
  std::vector<float> power(const std::vector<double>& take) const;

  /// Mean square over squared mean of the power of those bins: 1 where all tiles have it alike. Collective.
  double concentration(const std::vector<double>& take, const Communicator& comm) const;
  /// How much the power of those bins differs between the brightest and the darkest third of all tiles: the size of
  /// the logarithm of the ratio of their medians. Collective.
  double unevenness(const std::vector<double>& take, const Communicator& comm) const;

  /// How much a restored picture's power rises where a blur had taken it: the largest root of the ratio of its power at
  /// 0.24 to 0.45 cycles per sample to that at 0.06 to 0.16, of the flattest quarter of its dark, middle and bright
  /// tiles, and of all tiles. Pictures, textured ones too, have up to 0.39; the grain that deconvolution makes of
  /// noise 0.2 to 1.5. 0 where there are too few tiles. Collective.
  double grain(const Communicator& comm) const;

  /// What is regular in a picture, as lattices, fringes and fabrics are, in its finer details (above 0.08 cycles per
  /// sample), in the quarter of the tiles that have least of them.
  struct Pattern {
    /// Share of the power below 0.35 cycles per sample that lies in its twelve strongest bins: noise of any color
    /// has up to 0.5, photographs 0.63, patterns 0.7 to 1.
    double peaks = 0;
    double floor = 0;  // deviation of the white noise that the usual bin shows
  };
  Pattern pattern(const Communicator& comm) const;

  /// Radial frequency of a bin in cycles per sample, and how many of the whole plane's it stands for.
  static double frequency(std::size_t bin);
  static double times(std::size_t bin) { return bin % kHalf == 0 || bin % kHalf == kHalf - 1 ? 1 : 2; }
  /// Expectation of such a spectrum for a stationary process, whose own power spectrum lies on an n x n grid.
  static std::vector<double> expected(const std::vector<double>& power, std::int64_t n);

 private:
  /// Of this rank's tiles at `own`, `all` of all ranks.
  std::vector<double> mean_over(const std::vector<std::size_t>& own, std::int64_t all, int channel,
                                const Communicator& comm) const;

  std::size_t channels_ = 0;
  std::int64_t all_ = 0;
  std::vector<float> levels_;  // a tile's mean
  std::vector<float> powers_;  // tile, channel, bin
};

}  // namespace tessera
