// SPDX-License-Identifier: BSD-3-Clause
// One line per solver: its name in the job file, its factory, and how it meets the data term.
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
  DataStep data_step;
};

const std::vector<Entry>& table() {
  static const std::vector<Entry> entries = {
      {"pgd", make_proximal_gradient, DataStep::gradient},
      {"fista", make_fista, DataStep::gradient},
      {"hqs", make_half_quadratic_splitting, DataStep::prox},
      {"admm", make_admm, DataStep::prox},
      {"red", make_red, DataStep::red},
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

namespace {

const Entry& entry(const std::string& name) {
  std::string known;
  for (const Entry& e : table()) {
    if (e.name == name) return e;
    known += (known.empty() ? "" : ", ") + e.name;
  }
  throw InputError(concat("solver.name is '", name, "' (no such solver) use one of ", known));
}

}  // namespace

std::unique_ptr<Solver> make_solver(const std::string& name, const SolverInput& input) {
  return entry(name).make(input);
}

DataStep data_step(const std::string& name) { return entry(name).data_step; }

}  // namespace tessera
