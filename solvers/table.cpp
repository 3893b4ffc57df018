// SPDX-License-Identifier: BSD-3-Clause
// One line per solver: its name in the job file and its factory.
#include "tessera/core/error.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {

std::unique_ptr<Solver> make_admm(const SolverInput& in);
std::unique_ptr<Solver> make_fista(const SolverInput& in);
std::unique_ptr<Solver> make_half_quadratic_splitting(const SolverInput& in);
std::unique_ptr<Solver> make_proximal_gradient(const SolverInput& in);
std::unique_ptr<Solver> make_red(const SolverInput& in);

namespace {

struct Entry {
  std::string name;
  std::unique_ptr<Solver> (*make)(const SolverInput&);
};

const std::vector<Entry>& table() {
  static const std::vector<Entry> entries = {
      {"pgd", make_proximal_gradient},
      {"fista", make_fista},
      {"hqs", make_half_quadratic_splitting},
      {"admm", make_admm},
      {"red", make_red},
  };
  return entries;
}

}  // namespace

const std::vector<std::string>& solver_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Entry& e : table()) all.push_back(e.name);
    return all;
  }();
  return names;
}

std::unique_ptr<Solver> make_solver(const std::string& name, const SolverInput& input) {
  std::string known;
  for (const Entry& e : table()) {
    if (e.name == name) return e.make(input);
    known += (known.empty() ? "" : ", ") + e.name;
  }
  throw InputError(concat("solver.name is '", name, "' (no such solver) use one of ", known));
}

}  // namespace tessera
