// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/samples/survey.hpp"

namespace tessera {

/// The noise that samples show, where the job does not say it: fills in noise, noise_stored, noise_source and warnings of
/// the problem. `y`: as inside, `stored`: as the file has them, the same but for a curve of light. Returns the level of
/// each channel of each part where they differ, else nothing. Collective; InputError where the data do not show it.
std::vector<std::vector<double>> estimate_level(const Survey& survey, const Measurement& y,
                                                const Measurement& stored, const Measurement& marks,
                                                Surveyed& seen, const Communicator& comm);

/// Whether the measurement is a JPEG. Collective.
bool is_jpeg(const Survey& survey, const Communicator& comm);

/// "gaussian 0.01 (2.5 in file units)"; "2 %".
std::string level_text(const Survey& survey, const NoiseModel& noise);
std::string percent_text(double error, double value);

}  // namespace tessera
