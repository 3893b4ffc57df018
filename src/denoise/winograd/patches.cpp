// SPDX-License-Identifier: BSD-3-Clause
#include "winograd/patches.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "tessera/core/error.hpp"
#include "winograd/kernels.hpp"

namespace tessera {
namespace {

bool dense(const at::Tensor& t) {
  return Winograd::takes(t) && t.is_contiguous(at::MemoryFormat::ChannelsLast);
}

PixelStrides pixel_strides(const at::Tensor& x) { return {x.stride(0), x.stride(2), x.stride(3)}; }

}  // namespace

Patches::Patches(const at::Tensor& weight, const std::optional<at::Tensor>& bias, bool up,
                 Instructions instructions, Products products)
    : instructions_(instructions),
      products_(products),
      type_(weight.scalar_type()),
      up_(up),
      side_(weight.size(2)),
      inputs_(weight.size(up ? 0 : 1)),
      outputs_(weight.size(up ? 1 : 0)) {
  const bool level = side_ == 2 && suits(type_, outputs_, up),
             first = side_ == 3 && !up && suits_first(type_, inputs_);
  TESSERA_EXPECT(instructions != Instructions::none && weight.size(3) == side_ && (level || first) &&
                     (products == Products::floats || type_ == at::kBFloat16),
                 "a layer of patches of weights ", weight.sizes(),
                 " (they are 2 x 2 and fill registers, or of 16 bits, or 3 x 3 of few inputs in 16 bits)");
  const at::Tensor plain = weight.to(at::kFloat);
  const std::int64_t panel = 2 * winograd_kernels(instructions).lanes;
  const std::int64_t wide = up ? 2 * outputs_ : outputs_, panels = (wide + panel - 1) / panel;
  const std::int64_t pair = products == Products::pairs ? 2 : 1, steps = (inputs_ + pair - 1) / pair;
  // (1 or 2 rows, pixels, inputs, wide): up, a row of the patch has both its columns as outputs.
  const std::int64_t rows = up ? 2 : 1, parts = up ? 1 : side_ * side_;
  const at::Tensor ordered = up ? plain.permute({2, 0, 3, 1}).reshape({2, 1, inputs_, wide})
                                : plain.permute({2, 3, 1, 0}).reshape({1, parts, inputs_, wide});
  const at::Tensor padded = at::zeros({rows, parts, steps * pair, panels * panel}, plain.options());
  padded.narrow(2, 0, inputs_).narrow(3, 0, wide).copy_(ordered);
  weight_ =
      padded.reshape({rows, parts, steps, pair, panels, panel}).permute({0, 4, 1, 2, 5, 3}).contiguous();
  if (products == Products::pairs) weight_ = weight_.to(at::kBFloat16);
  if (!bias) return;
  bias_ = at::zeros({panels * panel}, plain.options());
  for (std::int64_t at = 0; at < wide; at += outputs_) bias_.narrow(0, at, outputs_).copy_(*bias);
}

void Patches::run(const at::Tensor& x, bool relu, const at::Tensor& y,
                  const Winograd::Padding& before) const {
  const at::Tensor& coarse = up_ ? x : y;
  const at::Tensor& fine = up_ ? y : x;
  const auto sides_fit = [&](int axis) {
    if (side_ == 2) return fine.size(axis) == 2 * coarse.size(axis);
    const std::int64_t zeros_behind =
        y.size(axis) + 2 - before[static_cast<std::size_t>(axis - 2)] - x.size(axis);
    return zeros_behind == 0 || zeros_behind == 1;
  };
  TESSERA_EXPECT(Winograd::takes(x) && dense(y) && x.scalar_type() == type_ && y.scalar_type() == type_ &&
                     x.size(0) == y.size(0) && x.size(1) == inputs_ && y.size(1) == outputs_ &&
                     sides_fit(2) && sides_fit(3) && (side_ == 3 || (before[0] == 0 && before[1] == 0)),
                 "a layer of patches from ", x.sizes(), " to ", y.sizes(),
                 " (the sizes or types do not fit)");
  PatchTask task{};
  task.x = x.const_data_ptr();
  task.x_strides = pixel_strides(x);
  task.y = y.mutable_data_ptr();
  task.y_strides = pixel_strides(y);
  task.images = coarse.size(0);
  task.rows = coarse.size(2);
  task.columns = coarse.size(3);
  task.height = x.size(2);
  task.width = x.size(3);
  task.side = side_;
  task.top = before[0];
  task.left = before[1];
  task.channels = inputs_;
  task.outputs = outputs_;
  task.bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr;
  task.weights = static_cast<const float*>(weight_.const_data_ptr());
  task.up = up_;
  task.relu = relu;
  task.far = comes_from_memory(x) || comes_from_memory(y);
  task.stream = comes_from_memory(y) && reinterpret_cast<std::uintptr_t>(task.y) % 64 == 0;
  const WinogradKernels& kernel = winograd_kernels(instructions_);
  const auto run =
      products_ == Products::pairs ? kernel.run_patch_pairs : kernel.run_patches[winograd_element(type_)];
  const std::int64_t scratch = type_ == at::kFloat ? 0 : kernel.gathered_floats(task);
  at::parallel_for(0, task.images * task.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> gathered(static_cast<std::size_t>(scratch));
    run(task, begin, end, gathered.data());
  });
}

}  // namespace tessera
