// SPDX-License-Identifier: BSD-3-Clause
// Operators on blocks of an image, for Python.
#include <ATen/ops/empty.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>
#include <utility>

#include "operators.hpp"
#include "tessera/app/parts.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/space.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera::binding {
namespace {

Decomposition even(const ImageSpace& image, const Communicator& comm) {
  return Decomposition::choose(image.box, {1, 1, 1}, comm.size(),
                               [](const Box& b) { return static_cast<double>(b.pixels()); });
}

void check(const at::Tensor& t, const ImageSpace& space, const Box& box, const char* what) {
  const at::Tensor wanted = empty_block(space, box, at::TensorOptions(at::kMeta));
  TESSERA_VALIDATE(t.sizes() == wanted.sizes(), what, " is ", t.sizes(), " (", wanted.sizes(),
                   " is this rank's part of it) give that");
}

}  // namespace

Operator::Operator(Described what, const std::optional<std::vector<std::int64_t>>& grid)
    : described(std::move(what)) {
  decomposition_ = even(described.image, described.comm);
  if (grid)
    decomposition_ = Decomposition(
        described.image.box, {grid->at(3), grid->at(4), grid->at(5)},
        {static_cast<int>(grid->at(0)), static_cast<int>(grid->at(1)), static_cast<int>(grid->at(2))});
  range_ = described.plan->range(domain());
}

Tensors Operator::apply(const at::Tensor& x) {
  check(x, described.image, block(), "the image");
  DistributedOperator& op = placed(x.scalar_type());
  Tensors y = op.make_measurement();
  op.apply(x.contiguous(), y);
  return y;
}

at::Tensor Operator::adjoint(const Tensors& y) {
  TESSERA_VALIDATE(y.size() == range_.parts(), y.size(), " measurements were given (the operator has ",
                   range_.parts(), ") give one for each");
  Tensors in;
  for (std::size_t i = 0; i < y.size(); ++i) {
    check(y[i], range_.part(i).space, range_.block(i, rank()), "the measurement");
    in.push_back(y[i].to(y.front().scalar_type()).contiguous());
  }
  DistributedOperator& op = placed(in.front().scalar_type());
  at::Tensor x = op.make_image();
  op.adjoint(in, x);
  return x;
}

double Operator::norm() {
  Reducer reducer(described.comm);
  const Space space(described.comm, &reducer);
  return std::sqrt(operator_norm_squared(placed(at::kFloat), space, 1));
}

nb::list Operator::block_ends() const { return ends_of(block(), described.image.volume()); }

nb::list Operator::range_ends(std::size_t part) const {
  return ends_of(range_.block(part, rank()), range_.part(part).space.volume());
}

std::vector<std::int64_t> Operator::shape(std::size_t part) const {
  const ImageSpace& space = range_.part(part).space;
  std::vector<std::int64_t> out{space.planes()};
  for (std::size_t d = space.volume() ? 0 : 1; d < 3; ++d) out.push_back(space.box.extent(d));
  return out;
}

DistributedOperator& Operator::placed(at::ScalarType type) {
  if (!op_ || op_->options().dtype() != at::scalarTypeToTypeMeta(type)) {
    if (!transport_) transport_ = make_transport(described.comm, Device{}, TransportKind::automatic);
    op_ = described.plan->place({domain(), at::TensorOptions(type), transport_, described.comm});
  }
  return *op_;
}

Communicator ranks_of(std::uintptr_t handle) {
  return handle == 0 ? Communicator() : Communicator::adopt(reinterpret_cast<MPI_Comm>(handle));
}

ImageSpace image_of(const std::vector<std::int64_t>& shape) {
  Index3 size{1, shape[shape.size() - 2], shape.back()};
  if (shape.size() == 4) size[0] = shape[1];
  ImageSpace image(Box({0, 0, 0}, size), shape[0]);
  if (shape.size() == 4) image.axes = Axes::volume;
  return image;
}

nb::list ends_of(const Box& box, bool volume) {
  nb::list out;
  for (std::size_t d = volume ? 0 : 1; d < 3; ++d) out.append(nb::make_tuple(box.lo()[d], box.hi()[d]));
  return out;
}

void add_operators(nb::module_& m) {
  using Grid = std::optional<std::vector<std::int64_t>>;
  nb::class_<Operator>(m, "Operator")
      .def_static(
          "of_words",
          [](const std::string& problem, const std::vector<std::int64_t>& shape, std::uintptr_t ranks,
             const Grid& grid) {
            const Communicator comm = ranks_of(ranks);
            const ImageSpace image = image_of(shape);
            NamedOperator named = plan_operator(problem, image, comm);
            nb::list said;
            for (const auto& line : named.warnings) said.append(line);
            return nb::make_tuple(
                nb::cast(new Operator({image, named.plan, comm}, grid), nb::rv_policy::take_ownership), said);
          })
      .def_static("of_object",
                  [](const nb::object& object, const std::vector<std::int64_t>& shape, std::uintptr_t ranks,
                     const Grid& grid) {
                    const Communicator comm = ranks_of(ranks);
                    const ImageSpace image = image_of(shape);
                    return new Operator({image, plan_python(object, image, comm), comm}, grid);
                  })
      .def("apply", &Operator::apply, nb::call_guard<nb::gil_scoped_release>())
      .def("adjoint", &Operator::adjoint, nb::call_guard<nb::gil_scoped_release>())
      .def("norm", &Operator::norm, nb::call_guard<nb::gil_scoped_release>())
      .def("block", &Operator::block_ends)
      .def("range_block", &Operator::range_ends)
      .def("parts", &Operator::parts)
      .def("shape", &Operator::shape);
}

}  // namespace tessera::binding
