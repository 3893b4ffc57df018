// SPDX-License-Identifier: BSD-3-Clause
// One line per solver; its file says the rest.
#include "tessera/core/error.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {

SolverRow admm();
SolverRow filtered_back_projection();
SolverRow fista();
SolverRow gradient_step();
SolverRow half_quadratic_splitting();
SolverRow prox_pnp();
SolverRow proximal_gradient();
SolverRow red();
SolverRow richardson_lucy();
SolverRow sirt();

std::vector<SolverRow>& solver_table() {
  static std::vector<SolverRow> rows = {
      proximal_gradient(), fista(),           half_quadratic_splitting(), admm(), red(), gradient_step(),
      prox_pnp(),          richardson_lucy(), filtered_back_projection(), sirt(),
  };
  return rows;
}

const SolverRow& find_solver(const std::string& name) {
  std::string known;
  for (const SolverRow& row : solver_table()) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + row.name;
  }
  throw InputError(concat("solver.name is '", name, "' (no such solver) use one of ", known));
}

std::unique_ptr<Solver> make_solver(const std::string& name, const SolverInput& input) {
  return find_solver(name).make(input);
}

}  // namespace tessera
