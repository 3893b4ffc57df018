// SPDX-License-Identifier: BSD-3-Clause
#include "winograd/patches.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "tessera/core/error.hpp"
#include "winograd/winograd_task.hpp"

namespace tessera {
namespace {

const WinogradKernels& kernels(Winograd::Instructions instructions) {
  return instructions == Winograd::Instructions::avx512 ? winograd_avx512() : winograd_avx2();
}

bool dense(const at::Tensor& t) {
  return Winograd::takes(t) && t.is_contiguous(at::MemoryFormat::ChannelsLast);
}

PixelStrides pixel_strides(const at::Tensor& x) { return {x.stride(0), x.stride(2), x.stride(3)}; }

}  // namespace

Patches::Patches(const at::Tensor& weight, const std::optional<at::Tensor>& bias, bool up,
                 Instructions instructions)
    : instructions_(instructions),
      up_(up),
      inputs_(weight.size(up ? 0 : 1)),
      outputs_(weight.size(up ? 1 : 0)) {
  TESSERA_EXPECT(instructions != Instructions::none && weight.size(2) == 2 && weight.size(3) == 2 &&
                     suits(weight.scalar_type(), outputs_, up),
                 "a layer of patches of weights ", weight.sizes(), " (they are 2 x 2 and fill registers)");
  const std::int64_t panel = 2 * kernels(instructions).lanes;
  const std::int64_t wide = up ? 2 * outputs_ : outputs_, panels = (wide + panel - 1) / panel;
  // (1 or 2 rows, pixels, inputs, wide): up, a row of the patch has both its columns as outputs.
  const at::Tensor ordered = up ? weight.permute({2, 0, 3, 1}).reshape({2, 1, inputs_, wide})
                                : weight.permute({2, 3, 1, 0}).reshape({1, 4, inputs_, wide});
  at::Tensor padded =
      at::zeros({ordered.size(0), ordered.size(1), inputs_, panels * panel}, weight.options());
  padded.narrow(3, 0, wide).copy_(ordered);
  weight_ = padded.reshape({ordered.size(0), ordered.size(1), inputs_, panels, panel})
                .permute({0, 3, 1, 2, 4})
                .contiguous();
  if (!bias) return;
  bias_ = at::zeros({panels * panel}, weight.options());
  for (std::int64_t at = 0; at < wide; at += outputs_) bias_.narrow(0, at, outputs_).copy_(*bias);
}

void Patches::run(const at::Tensor& x, bool relu, const at::Tensor& y) const {
  const at::Tensor& coarse = up_ ? x : y;
  const at::Tensor& fine = up_ ? y : x;
  TESSERA_EXPECT(Winograd::takes(x) && dense(y) && x.size(0) == y.size(0) && x.size(1) == inputs_ &&
                     y.size(1) == outputs_ && fine.size(2) == 2 * coarse.size(2) &&
                     fine.size(3) == 2 * coarse.size(3),
                 "a layer of patches from ", x.sizes(), " to ", y.sizes(), " (the sizes do not fit)");
  PatchTask task{};
  task.x = x.const_data_ptr<float>();
  task.x_strides = pixel_strides(x);
  task.y = y.mutable_data_ptr<float>();
  task.y_strides = pixel_strides(y);
  task.images = coarse.size(0);
  task.rows = coarse.size(2);
  task.columns = coarse.size(3);
  task.channels = inputs_;
  task.outputs = outputs_;
  task.bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr;
  task.weights = weight_.const_data_ptr<float>();
  task.up = up_;
  task.relu = relu;
  task.far = comes_from_memory(x) || comes_from_memory(y);
  task.stream = comes_from_memory(y) && reinterpret_cast<std::uintptr_t>(task.y) % 64 == 0;
  at::parallel_for(0, task.images * task.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    kernels(instructions_).run_patches(task, begin, end);
  });
}

}  // namespace tessera
