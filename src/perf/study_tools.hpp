// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/denoise/network.hpp"
#include "tessera/perf/study.hpp"

namespace tessera {

at::TensorOptions study_tensor(Device device, at::ScalarType type = at::kFloat);

/// Waits until the device has done what was asked of it.
void finish(Device device);

/// Median seconds of `work`: once to warm up, then at least `least` times and for about `seconds`.
double study_seconds(Device device, int least, double seconds, const std::function<void()>& work);

/// Peak of all memory while `work` runs (tracked host memory, or what torch's device allocator hands out).
std::int64_t study_peak(Device device, const std::function<void()>& work);
/// The same memory now.
std::int64_t study_memory(Device device);

/// Measured best of this device, one copy of `bytes` (read + written bytes per second).
double copy_bandwidth(Device device, std::int64_t bytes);
/// Products and sums per second: the best of a large matrix product and of a chain of 3x3 convolutions, which
/// a fast algorithm may count above the hardware's own.
double arithmetic_peak(Device device);

/// Bytes that the layers of a network read and write per pixel of the image; fused ones pass once.
double bytes_per_pixel(const Graph& graph);

Network study_network(const std::string& name);
std::int64_t round_up(std::int64_t n, std::int64_t unit);

std::unique_ptr<Study> make_shape_study(const StudyOptions& options);
std::unique_ptr<Study> make_batch_study(const StudyOptions& options);
std::unique_ptr<Study> make_layers_study(const StudyOptions& options);
std::unique_ptr<Study> make_kernels_study(const StudyOptions& options);
std::unique_ptr<Study> make_precision_study(const StudyOptions& options, const Communicator& comm);
std::unique_ptr<Study> make_halo_study(const StudyOptions& options, const Communicator& comm);

}  // namespace tessera
