// SPDX-License-Identifier: BSD-3-Clause
// Files that describe operators: what kernels and masks hold.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "tessera/app/operator_table.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kLargestKernel =
    4096;                                    // per side: a kernel is small enough to stand on every rank ...
constexpr std::int64_t kMostTaps = 1 << 26;  // ... and to be transformed there

}  // namespace

const SourceInfo& OperatorFiles::info_of(const std::string& path, const Communicator& comm) {
  const SourceInfo& info = headers_.image(path, comm);
  if (!info.note.empty()) note(concat(path, ": ", info.note));
  return info;
}

const at::Tensor& OperatorFiles::taps(const std::string& path, const Communicator& comm) {
  if (const auto known = taps_.find(path); known != taps_.end()) return known->second;
  const SourceInfo& info =
      headers_.image(path, comm);  // its note is said where it is known what the axes are
  bool fits = info.values() <= kMostTaps;
  for (std::size_t d = 0; d < 3; ++d) fits = fits && info.box.extent(d) <= kLargestKernel;
  TESSERA_VALIDATE(fits, "kernel ", path, " has ", sides(info.box), " taps (a kernel has at most ",
                   kLargestKernel, " per side and ", kMostTaps, " in all) cut it to its support");
  at::Tensor taps =
      at::empty({info.channels, info.box.extent(0), info.box.extent(1), info.box.extent(2)}, at::kDouble);
  comm.together([&] {
    if (comm.rank() == 0) read_image(path, Layout({info.box}), view(taps, info.box), Communicator());
  });
  comm.broadcast(taps.data_ptr(), taps.numel() * 8, 0);
  kernel_infos_[path] = info;
  return taps_[path] = taps;
}

const MaskFile& OperatorFiles::mask(const std::string& path, const Communicator& comm) {
  if (const auto known = masks_.find(path); known != masks_.end()) return known->second;
  MaskFile file;
  file.info = info_of(path, comm);
  bool by_pixels = true;  // whether each part holds all channels of its pixels
  std::int64_t differs = 0;
  const MarkValues values = survey_marks(
      [&](const auto& take) {
        by_pixels = visit_samples(path, comm, [&](const double* first, std::int64_t n) {
          const std::int64_t plane = n / file.info.channels;  // channel after channel
          for (std::int64_t c = 1; c < file.info.channels && differs == 0; ++c)
            differs = !std::equal(first, first + plane, first + c * plane);
          take(first, n);
        });
      },
      comm);
  comm.all_reduce({&differs, 1}, Reduce::max);
  file.gray = differs == 0 && (by_pixels || file.info.channels == 1);
  file.rule = rule_of_mask(path, values);
  if (!file.rule.note.empty()) note(file.rule.note);
  return masks_[path] = file;
}

at::Tensor OperatorFiles::marks(const std::string& path, const Layout& layout, const Communicator& comm) {
  const MaskFile& file = mask(path, comm);
  const Box& mine = layout.box(comm.rank());
  at::Tensor values = empty_block(file.info, mine, at::kFloat);
  read_image(path, layout, view(values, mine), comm);
  if (file.gray) values = values.narrow(0, 0, 1).clone();
  float* v = values.data_ptr<float>();
  std::transform(v, v + values.numel(), v, [&](float x) { return file.rule.marks(x) ? 1.0F : 0.0F; });
  return values;
}

namespace {

void add_once(std::vector<std::string>& lines, const std::string& line) {
  if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
}

}  // namespace

void OperatorFiles::note(const std::string& line) { add_once(notices_, line); }
void OperatorFiles::warn(const std::string& line) { add_once(warnings_, line); }

}  // namespace tessera
