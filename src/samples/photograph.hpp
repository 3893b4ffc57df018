// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/samples/survey.hpp"

namespace tessera {

/// In which curve the measurement stores light: the job's, or, where it leaves that open, what the samples of a
/// blurred photograph show, and where they do not, what its file says. `stored`: as the file has them, white 1.
/// Says in a line what was chosen.
ToneCurve choose_curve(const Survey& survey, const Measurement& stored, const Measurement& marks,
                       Surveyed& seen, const Communicator& comm);

/// Noise that is not white, as compression, demosaicking and enlarging leave it.
struct ColoredNoise {
  double level =
      0;  // of white noise that is as strong where it meets the picture; 0: it is white, as it seems
  bool alike = false;   // details of one sample and of two scatter alike, as white noise has it
  double textured = 0;  // above 0: no place of a sharp picture is flat; what its finest details have at most
  bool beyond = false;  // seen beyond what a kernel lets through
  bool uneven = false;  // it is white, but stronger in places than where the picture is flat
  bool of_stored = false;  // it is about the same at all stored values, not of light; also where it is white
};
/// `white`: the level that the finest details show.
ColoredNoise colored_noise(const Survey& survey, const Measurement& stored, const Measurement& light,
                           const Measurement& marks, const ToneCurve& curve, double white,
                           const Surveyed& seen, const Communicator& comm);

/// Of a picture that is a lattice, fringes or a fabric all over, whose details are no noise: the noise between the peaks
/// of its spectrum, or, where too many samples are missing, between samples a period apart; at most `white`, what the
/// finest details show. 0 for any other. Collective.
double noise_of_pattern(double white, const Measurement& y, const Measurement& marks, const Surveyed& seen,
                        const Communicator& comm);

}  // namespace tessera
