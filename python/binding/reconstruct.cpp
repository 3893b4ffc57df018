// SPDX-License-Identifier: BSD-3-Clause
// Solvers on arrays, for Python.
#include "tessera/app/reconstruct.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <optional>
#include <utility>

#include "operators.hpp"
#include "tessera/core/error.hpp"
#include "tessera/solve/observer.hpp"

namespace tessera::binding {
namespace {

nb::dict as_dict(const IterationResult& r) {
  nb::dict out;
  out["iteration"] = r.iteration;
  out["seconds"] = r.seconds;
  out["objective"] = r.objective;
  out["chi2"] = r.chi2;
  out["residual"] = r.residual;
  out["step"] = r.step;
  out["sigma"] = r.sigma;
  return out;
}

// Keeps the numbers of each iteration, and asks Python whether to go on. What Python raises ends the loop on all ranks
// alike, and is raised at its end.
class Watcher final : public Observer {
 public:
  Watcher(Kept callback, Kept interrupted)
      : callback_(std::move(callback)), interrupted_(std::move(interrupted)) {}

  void on_result(const IterationResult& result) override {
    results.push_back(result);
    if (!callback_ || failure) return;
    const nb::gil_scoped_acquire lock;
    try {
      stop = stop || nb::cast<bool>(nb::bool_(callback_.get()(as_dict(result))));
    } catch (...) {
      failure = std::current_exception();
    }
  }
  bool stop_requested() {
    const nb::gil_scoped_acquire lock;
    try {
      if (PyErr_CheckSignals() != 0) nb::raise_python_error();
      stop = stop || nb::cast<bool>(interrupted_.get()());
    } catch (...) {
      failure = std::current_exception();
    }
    return stop || failure;
  }

  std::vector<IterationResult> results;
  bool stop = false;
  std::exception_ptr failure;

 private:
  Kept callback_, interrupted_;
};

Tensors samples_of(const Kept& samples, const ProductSpace& range, int rank) {
  const nb::gil_scoped_acquire lock;
  Tensors out;
  for (std::size_t i = 0; i < range.parts(); ++i)
    out.push_back(
        nb::cast<at::Tensor>(samples.get()(i, ends_of(range.block(i, rank), range.part(i).space.volume()))));
  return out;
}

nb::dict run(const Operator& op, const nb::object& samples, double noise, const std::string& settings,
             const nb::object& denoiser, const nb::object& callback, const nb::object& interrupted) {
  std::optional<CalledDenoiser> called;
  if (!denoiser.is_none()) called.emplace(denoiser);
  const Kept kept(samples);
  std::exception_ptr raised;  // by `samples`
  const ArrayProblem problem{.image = op.described.image,
                             .op = op.described.plan,
                             .samples =
                                 [&](const ProductSpace& range, int rank) {
                                   try {
                                     return samples_of(kept, range, rank);
                                   } catch (const nb::python_error& e) {
                                     raised = std::current_exception();
                                     throw InputError(what_of(e));
                                   }
                                 },
                             .noise = noise};
  Watcher watcher{Kept(callback), Kept(interrupted)};
  Reconstruction found;
  try {
    const nb::gil_scoped_release released;
    found = reconstruct(problem, settings, op.described.comm, {&watcher},
                        [&watcher] { return watcher.stop_requested(); });
    call_together(op.described.comm, [&watcher] {
      if (watcher.failure) std::rethrow_exception(watcher.failure);
    });
  } catch (...) {
    if (raised) std::rethrow_exception(raised);
    throw;
  }
  nb::list history;
  for (const IterationResult& r : watcher.results) history.append(as_dict(r));
  nb::dict out;
  out["image"] = found.image;
  out["block"] = ends_of(found.block, op.described.image.volume());
  out["iterations"] = found.loop.iterations;
  out["seconds"] = found.loop.own_seconds;
  out["ended_by"] = found.loop.ended_by;
  out["cause"] = found.loop.cause;
  out["history"] = history;
  out["notices"] = found.notices;
  return out;
}

}  // namespace

void add_reconstruct(nb::module_& m) {
  m.def("reconstruct", &run, nb::arg("operator"), nb::arg("samples"), nb::arg("noise"), nb::arg("settings"),
        nb::arg("denoiser").none(), nb::arg("callback").none(), nb::arg("interrupted"));
}

}  // namespace tessera::binding
