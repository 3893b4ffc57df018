// SPDX-License-Identifier: BSD-3-Clause
// tessera._core: operators, denoisers and solvers in the process of Python. The package says the rest.
#include <c10/util/Exception.h>
#include <nanobind/nanobind.h>

#include <cstring>
#include <exception>

#include "parts.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/version.hpp"

namespace {

// tessera.Error with the program's message and exit code.
void translate(const std::exception_ptr& error, void*) {
  const auto raise = [](const char* message, int code) {
    const nanobind::object type = nanobind::module_::import_("tessera.program").attr("Error");
    PyErr_SetObject(type.ptr(), nanobind::object(type(message, code)).ptr());
  };
  try {
    std::rethrow_exception(error);
  } catch (const tessera::InputError& e) {
    raise(e.what(), 2);
  } catch (const tessera::Error& e) {
    raise(e.what(), 3);
  } catch (const c10::Error& e) {
    if (std::strstr(e.what_without_backtrace(), "allocate memory") == nullptr) throw;
    raise(
        "the memory is not enough (an image, its samples or a halo do not fit) make them smaller, or use "
        "more ranks",
        3);
  }
}

}  // namespace

NB_MODULE(_core, m) {
  nanobind::register_exception_translator(translate);
  tessera::denoiser_table().push_back(tessera::binding::python_row());
  tessera::binding::add_operators(m);
  tessera::binding::add_denoisers(m);
  tessera::binding::add_reconstruct(m);
}
