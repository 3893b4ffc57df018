// SPDX-License-Identifier: BSD-3-Clause
// Operators whose arithmetic is Python's.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <utility>

#include "parts.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera::binding {
namespace {

// What a method of the object makes of a tensor, for samples or pixels of a box. `block`: of the samples.
at::Tensor called(const Kept& object, const char* method, const at::Tensor& in, const nb::list& block,
                  at::IntArrayRef wanted) {
  const at::Tensor out = nb::cast<at::Tensor>(object.get().attr(method)(in, block));
  TESSERA_VALIDATE(out.sizes() == wanted, nb::cast<std::string>(object.get().attr("name")), ": ", method + 1,
                   " of a tensor of ", in.sizes(), " is ", out.sizes(), " (", wanted,
                   " is wanted: as many samples as pixels without the reach, and back) ",
                   "return a tensor of that shape");
  return out;
}

class PlacedLocal final : public PlacedOperator {
 public:
  PlacedLocal(Kept object, const Reach& reach, Communicator comm, LocalOperator::Placement placement)
      : object_(std::move(object)),
        comm_(std::move(comm)),
        p_(std::move(placement)),
        seen_(p_.samples[0].empty() ? Box() : p_.samples[0].grow(reach)) {}

  void apply(const at::Tensor& x, std::span<const at::Tensor> y) override {
    call_together(comm_, [&] {
      if (p_.samples[0].empty()) return;
      const nb::gil_scoped_acquire lock;
      const at::Tensor in = crop(x, p_.input, seen_);
      const at::Tensor out = y[0];
      out.copy_(called(object_, "_apply", in, where(), out.sizes()));
    });
  }
  void adjoint(std::span<const at::Tensor> y, const at::Tensor& x) override {
    call_together(comm_, [&] {
      if (p_.samples[0].empty()) return;
      const nb::gil_scoped_acquire lock;
      const at::Tensor to = crop(x, p_.input, seen_);
      to.add_(called(object_, "_adjoint", y[0], where(), to.sizes()));
    });
  }

 private:
  nb::list where() const { return ends_of(p_.samples[0], p_.image.volume()); }

  Kept object_;
  Communicator comm_;
  LocalOperator::Placement p_;
  Box seen_;
};

class Local final : public LocalOperator {
 public:
  Local(nb::object object, bool volume, Communicator comm) : comm_(std::move(comm)) {
    name_ = nb::cast<std::string>(object.attr("name"));
    const auto reach = nb::cast<std::vector<std::int64_t>>(object.attr("_reach"));
    for (std::size_t k = 0; k < reach.size(); ++k)
      reach_.lo[k + (volume ? 0 : 1)] = reach_.hi[k + (volume ? 0 : 1)] = reach[k];
    border_ = static_cast<Border>(nb::cast<int>(object.attr("_border")));
    channels_ = nb::cast<std::int64_t>(object.attr("_channels"));
    object_ = Kept(std::move(object));
  }
  std::string name() const override { return name_; }
  std::int64_t channels(std::int64_t of_image) const override { return channels_ > 0 ? channels_ : of_image; }
  Reach reach() const override { return reach_; }
  Border border() const override { return border_; }
  bool not_negative() const override { return false; }
  std::unique_ptr<PlacedOperator> place(std::span<const LocalOperator* const>,
                                        const Placement& placement) const override {
    return std::make_unique<PlacedLocal>(object_, reach_, comm_, placement);
  }

 private:
  Kept object_;
  Communicator comm_;
  std::string name_;
  Reach reach_;
  Border border_ = Border::none;
  std::int64_t channels_ = 0;
};

class PlacedWhole final : public DistributedOperator {
 public:
  PlacedWhole(const OperatorPlan& plan, OperatorContext context, Kept object)
      : DistributedOperator(plan, std::move(context)), object_(std::move(object)) {}
  void apply(const Tensors& x, Tensors& y) override {
    const nb::gil_scoped_acquire lock;
    y[0].copy_(called(object_, "_apply", x[0], ends_of(range().part(0).box(), range().part(0).space.volume()),
                      y[0].sizes()));
  }
  void adjoint(const Tensors& y, Tensors& x) override {
    const nb::gil_scoped_acquire lock;
    x[0].copy_(
        called(object_, "_adjoint", y[0], ends_of(image().box(), image().space.volume()), x[0].sizes()));
  }

 private:
  Kept object_;
};

class WholePlan final : public OperatorPlan {
 public:
  WholePlan(nb::object object, const ImageSpace& image)
      : name_(nb::cast<std::string>(object.attr("name"))),
        samples_(binding::image_of(nb::cast<std::vector<std::int64_t>>(object.attr("_samples")))) {
    object_ = Kept(std::move(object));
  }
  ProductSpace range(const ProductSpace& domain) const override {
    return ProductSpace({{name_, samples_, even_layout(samples_.box, domain.ranks())}});
  }
  std::vector<PlannedExchange> exchanges(const ProductSpace&, int) const override { return {}; }
  OperatorWork work(const ProductSpace& domain, int) const override {
    OperatorWork out;  // nothing is known of it: a pass over both
    out.products = static_cast<double>(domain.values() + samples_.values());
    out.bytes = 4 * out.products;
    return out;
  }
  std::unique_ptr<DistributedOperator> place(const OperatorContext& context) override {
    TESSERA_VALIDATE(context.comm.size() == 1, "operator ", name_, " on ", context.comm.size(),
                     " ranks (it does not say its reach, so that it needs the whole image) ",
                     "give it a reach, or use one rank");
    return std::make_unique<PlacedWhole>(*this, context, object_);
  }

 private:
  Kept object_;
  std::string name_;
  ImageSpace samples_;
};

}  // namespace

std::string what_of(const nb::python_error& error) {
  const nb::gil_scoped_acquire lock;
  return nb::cast<std::string>(nb::module_::import_("tessera.program").attr("raised")(error.value()));
}

void call_together(const Communicator& comm, const std::function<void()>& work) {
  std::exception_ptr own;
  try {
    comm.together([&] {
      try {
        work();
      } catch (const nb::python_error& e) {
        own = std::current_exception();
        throw InputError(what_of(e));
      }
    });
  } catch (...) {
    if (own) std::rethrow_exception(own);
    throw;
  }
}

std::unique_ptr<OperatorPlan> plan_python(const nb::object& described, const ImageSpace& image,
                                          const Communicator& comm) {
  if (nb::cast<bool>(described.attr("_whole"))) return std::make_unique<WholePlan>(described, image);
  std::vector<std::unique_ptr<LocalOperator>> parts;
  parts.push_back(std::make_unique<Local>(described, image.volume(), comm));
  return plan_local_stack(std::move(parts));
}

}  // namespace tessera::binding
