// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/app/run_plan.hpp"
#include "tessera/samples/gray_channels.hpp"

namespace tessera {

/// Makes a plan of a gray image where files have three channels that are equal, as microscopes, scanners and screenshots
/// save it: they are one measurement, not three. `files`: of the image's units; with what else is read on the grid
/// of the image or of what is measured, all of them have to be gray. Not where problem.image.channels is 3,
/// denoiser.weights are of three channels, or a kernel or a mask tells them apart. Says it in plan.notices.
/// Collective; InputError where problem.image.channels is 1 and they differ.
void take_gray(RunPlan& plan, std::vector<std::string> files, const Communicator& comm);

/// Whether a file has three channels that are equal. Collective.
bool three_alike(const std::string& path, const Communicator& comm);

/// With how many channels a file is read that has `stored`, where `wanted` are needed ...
std::int64_t stored_channels(const RunPlan& plan, std::int64_t stored, std::int64_t wanted);
/// ... and what is made of it: their mean. (C, ...) -> (wanted, ...)
at::Tensor with_channels(const at::Tensor& stored, std::int64_t wanted);

}  // namespace tessera
