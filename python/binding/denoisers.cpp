// SPDX-License-Identifier: BSD-3-Clause
// Denoisers on blocks of an image, for Python and in Python.
#include <ATen/ops/empty_like.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>

#include "parts.hpp"
#include "tessera/app/parts.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera::binding {
namespace {

thread_local Kept called_denoiser;  // of the denoiser that this thread makes

class PythonDenoiser final : public Denoiser {
 public:
  PythonDenoiser(const DenoiserContext& context, at::TensorOptions options, Kept object)
      : object_(std::move(object)), comm_(context.comm), volume_(context.image.volume()) {
    const nb::gil_scoped_acquire lock;
    name_ = nb::cast<std::string>(object_.get().attr("name"));
    const auto reach = nb::cast<std::int64_t>(object_.get().attr("_reach"));  // -1: the whole image
    own_ = seen_ = context.decomposition.block(context.comm.rank());
    TESSERA_VALIDATE(reach >= 0 || context.comm.size() == 1, "denoiser ", name_, " on ", context.comm.size(),
                     " ranks (it does not say its reach, so that it needs the whole image) ",
                     "give it a reach, or use one rank");
    if (context.comm.size() == 1 || reach == 0) return;
    const Layout own = context.decomposition.layout();
    const Reach around = context.image.around(reach);
    std::vector<Box> seen;
    for (int rank = 0; rank < own.ranks(); ++rank)
      seen.push_back(own.box(rank).empty() ? Box() : own.box(rank).grow(around).intersect(context.image.box));
    seen_ = seen[static_cast<std::size_t>(context.comm.rank())];
    const ExchangePlan plan(own, Layout(seen), context.image.box, Border::none, context.comm.rank());
    bytes_ = plan.pixels_sent() * context.image.channels * 4;
    halo_ = empty_block(context.image, seen_, options);
    exchange_.emplace(plan, context.transport, context.image.channels, ElementType::float32);
  }

  void apply(const at::Tensor& in, double sigma, at::Tensor& out) override {
    at::Tensor seen = in;
    if (exchange_) {
      exchange_->begin(view(in, own_), view(halo_, seen_)).wait();
      seen = halo_;
    }
    call_together(comm_, [&] { call(seen, sigma, out); });
  }
  std::int64_t bytes_sent() const override { return bytes_; }
  std::string description() const override { return "python: " + name_; }

 private:
  void call(const at::Tensor& seen, double sigma, at::Tensor& out) const {
    if (own_.empty()) return;
    const nb::gil_scoped_acquire lock;
    const auto result =
        nb::cast<at::Tensor>(object_.get().attr("_apply")(seen, sigma, ends_of(seen_, volume_)));
    TESSERA_VALIDATE(result.sizes() == seen.sizes(), "denoiser ", name_, " makes ", result.sizes(), " of ",
                     seen.sizes(), " (an image of the same shape is wanted) return one");
    out.copy_(crop(result, seen_, own_));
  }

  Kept object_;
  Communicator comm_;
  std::string name_;
  bool volume_;
  Box own_, seen_;
  at::Tensor halo_;
  std::optional<Exchange> exchange_;
  std::int64_t bytes_ = 0;
};

/// A denoiser of ours by itself. Every method is collective.
class PlacedOne {
 public:
  PlacedOne(const std::string& settings, const std::vector<std::int64_t>& shape, std::uintptr_t ranks)
      : image_(image_of(shape)), comm_(ranks_of(ranks)), placed_(place_denoiser(settings, image_, comm_)) {}

  at::Tensor apply(const at::Tensor& in, double sigma) {
    const at::Tensor wanted = empty_block(image_, block(), at::TensorOptions(at::kMeta));
    TESSERA_VALIDATE(in.sizes() == wanted.sizes() && in.scalar_type() == at::kFloat, "the image is ",
                     in.sizes(), " of ", in.scalar_type(), " (", wanted.sizes(),
                     " in float32 is this rank's part of it) give that");
    TESSERA_VALIDATE(sigma >= 0, "sigma is ", sigma,
                     " (a noise level is 0 or above, in the image's units) correct it");
    at::Tensor out = at::empty_like(in, at::MemoryFormat::Contiguous);
    placed_.denoiser->apply(in.contiguous(), sigma, out);
    return out;
  }
  Box block() const { return placed_.decomposition.block(comm_.rank()); }
  nb::list block_ends() const { return ends_of(block(), image_.volume()); }
  std::vector<std::int64_t> grid() const {
    const Decomposition& d = placed_.decomposition;
    std::vector<std::int64_t> out(d.grid().begin(), d.grid().end());
    out.insert(out.end(), d.alignment().begin(), d.alignment().end());
    return out;
  }
  std::string description() const { return placed_.denoiser->description(); }
  std::vector<std::string> notices() const { return placed_.notices; }

 private:
  ImageSpace image_;
  Communicator comm_;
  PlacedDenoiser placed_;
};

}  // namespace

CalledDenoiser::CalledDenoiser(nb::object described) : before_(called_denoiser) {
  called_denoiser = Kept(std::move(described));
}
CalledDenoiser::~CalledDenoiser() { called_denoiser = before_; }

DenoiserRow python_row() {
  return {.name = "python",
          .make = [](const DenoiserContext& context, const Options&,
                     at::TensorOptions options) -> std::unique_ptr<Denoiser> {
            TESSERA_VALIDATE(called_denoiser,
                             "denoiser.network is python (it is the name of a denoiser that was passed to ",
                             "tessera.reconstruct) pass one there");
            return std::make_unique<PythonDenoiser>(context, options, called_denoiser);
          },
          .learned = true};
}

void add_denoisers(nb::module_& m) {
  const nb::call_guard<nb::gil_scoped_release> released;
  nb::class_<PlacedOne>(m, "Denoiser")
      .def(nb::init<const std::string&, const std::vector<std::int64_t>&, std::uintptr_t>())
      .def("apply", &PlacedOne::apply, released)
      .def("block", &PlacedOne::block_ends)
      .def("grid", &PlacedOne::grid)
      .def("description", &PlacedOne::description)
      .def("notices", &PlacedOne::notices);
}

}  // namespace tessera::binding
