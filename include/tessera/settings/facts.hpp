// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

#include "tessera/core/image_space.hpp"
#include "tessera/samples/few_bright.hpp"

namespace tessera {

/// What rules look at: what headers and the operator say, and once they are read what the samples show. Equal on all
/// ranks.
struct Facts {
  ImageSpace image;           // the unknown
  std::string operator_name;  // for a line
  bool on_grid = true;        // each sample is one of the image's own grid
  bool identity = false;      // it is the pixel itself
  bool pointwise = false;     // A^T A is a product at each pixel
  bool convolves = true;      // each part is a convolution or a mask; once samples are seen
  bool scans = false;         // projections from all around; once samples are seen
  bool takes_level = false;   // the denoiser of the job takes a noise level
  bool shipped = true;        // weights come with the program for so many channels

  struct Samples {
    double noise = 0;      // standard deviation of one of weight 1, internal range
    double per_pixel = 1;  // how many there are for each value of the image
    double missing = 0;    // share of them that does not count
    bool marked = false;   // weights say nothing but which count
    bool weighed = false;  // some count more than others, or not at all
    std::optional<FewBright> few_bright{};
  };
  bool network_takes_level = false;  // once it is loaded: its weights may know none
  std::optional<Samples> samples{};  // nothing: not seen yet
};

}  // namespace tessera
