// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/domain/tensor.hpp"

#include <ATen/ops/empty.h>

#include "tessera/core/error.hpp"
#include "tessera/domain/torch_cuda.hpp"

namespace tessera {
ElementType element_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return ElementType::float32;
    case at::kDouble:
      return ElementType::float64;
    case at::kBFloat16:
      return ElementType::bfloat16;
    case at::kHalf:
      return ElementType::float16;
    case at::kComplexFloat:
      return ElementType::complex64;
    case at::kComplexDouble:
      return ElementType::complex128;
    default:
      throw ContractError(
          concat("tensors of type ", c10::toString(type), " do not travel (images are floating)"));
  }
}

at::TensorOptions tensor_options(Device device, at::ScalarType type) {
  const at::TensorOptions host(type);
  return device.is_cuda() ? host.device(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index)))
                          : host;
}

Device tensor_device(const at::Tensor& tensor) {
  return {tensor.is_cuda() ? static_cast<int>(tensor.get_device()) : -1};
}

ArrayView view(const at::Tensor& t, const Box& box) {
  const bool volume = t.dim() == 4;
  TESSERA_EXPECT(t.dim() == 3 || volume, "a block has ", t.dim(),
                 " axes (wanted channels, [depth,] height, width)");
  ArrayView v;
  v.data = t.data_ptr();
  v.box = box;
  v.channels = t.size(0);
  v.channel_stride = t.stride(0);
  v.stride = {volume ? t.stride(1) : 0, t.stride(-2), t.stride(-1)};
  v.type = element_type(t.scalar_type());
  v.device = tensor_device(t);
  if (t.is_cuda()) v.stream = current_stream(t.get_device());
  TESSERA_EXPECT(box.empty() ? t.numel() == 0
                             : t.size(-1) == box.extent(2) && t.size(-2) == box.extent(1) &&
                                   (volume ? t.size(1) : 1) == box.extent(0),
                 "a tensor does not have the extents of its box ", box);
  return v;
}

at::Tensor empty_block(std::int64_t channels, const Box& box, at::TensorOptions options, Axes axes) {
  TESSERA_EXPECT(axes == Axes::volume || box.extent(0) <= 1, "a block of a picture has depth ",
                 box.extent(0));
  if (axes == Axes::volume)
    return at::empty({channels, box.extent(0), box.extent(1), box.extent(2)}, options);
  return at::empty({channels, box.extent(1), box.extent(2)}, options);
}

at::Tensor crop(const at::Tensor& tensor, const Box& box, const Box& part) {
  TESSERA_EXPECT(box.contains(part), "a crop ", part, " leaves its tensor's box ", box);
  if (part.empty()) {
    const at::Tensor none = tensor.narrow(-1, 0, 0).narrow(-2, 0, 0);
    return tensor.dim() == 4 ? none.narrow(1, 0, 0) : none;
  }
  at::Tensor t = tensor.narrow(-1, part.lo()[2] - box.lo()[2], part.extent(2))
                     .narrow(-2, part.lo()[1] - box.lo()[1], part.extent(1));
  return t.dim() == 4 ? t.narrow(1, part.lo()[0] - box.lo()[0], part.extent(0)) : t;
}

}  // namespace tessera
