// SPDX-License-Identifier: BSD-3-Clause
// The first and the last iterate of every solver whose formulas the reference shares (its fista has another
// momentum) against the reference's, on any number of ranks.
#include <vector>

#include "reference/reference.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/physics/operators.hpp"
#include "tessera/solve/schedule.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

using test::Reference;

class Trajectories : public testing::TestWithParam<const char*> {
 protected:
  Reference problem{"solvers_problem"};
  Reference wanted{std::string("solvers_") + GetParam()};

  std::vector<double> list(const std::string& key) const {
    const at::Tensor& t = problem[key];
    return {t.data_ptr<double>(), t.data_ptr<double>() + t.numel()};
  }

  SolverOptions options() const {
    const std::string name = GetParam();
    SolverOptions o;
    o.sigma = problem.number("sigma");
    o.step = problem.number(name == "admm" ? "gamma" : "step");
    o.weight = problem.number("lambda");
    o.own.set("dual_step", problem.number("beta"));
    o.iterations = static_cast<int>(problem.number("iterations"));
    if (name == "hqs") {
      o.sigma = list("dpir.sigma");
      o.step = list("dpir.gamma");
    }
    return o;
  }

  void run(at::ScalarType type, const ProxOptions& prox, double tolerance) const {
    const at::Tensor& start = problem["start"];
    const Box image = test::image_of(start);
    const Network network = load_network("drunet", test::reference_path("drunet_gray"), 1);
    const Index3 alignment = network.alignment();
    test::on_groups([&](const Communicator& comm) {
      const auto transport = make_transport(comm, {}, TransportKind::mpi);
      Reducer reducer(comm);
      const Space space(comm, &reducer);
      const Decomposition d(image, alignment, grids(comm.size(), image).back());
      const Box block = d.block(comm.rank());

      std::vector<std::unique_ptr<LocalOperator>> parts;
      BlurOptions blur;
      blur.kernel = problem["kernel"];
      parts.push_back(make_blur(std::move(blur)));
      DataTermInput input;
      input.A = make_local_stack(
          {ProductSpace(ImageSpace(image), d), at::TensorOptions().dtype(type), transport, comm}, parts);
      input.y = {test::part_of(problem["y"], input.A->range().block(0, comm.rank()), type)};
      input.prox = prox;
      const auto data = make_least_squares(std::move(input), space);
      ExecutionOptions execution;
      execution.type = type;
      const auto denoiser =
          make_network_denoiser(network, execution, {d, ImageSpace(image), comm, transport});
      const SolverOptions o = options();
      const auto solver =
          make_solver(GetParam(), {*data, *denoiser, space, o, test::part_of(start, block, type)});

      int compared = 0;
      for (int k = 0; k < o.iterations; ++k) {
        solver->step(k);
        reducer.launch();
        reducer.finish();
        const std::string key = concat("x", k + 1);
        if (!wanted.has(key)) continue;
        ++compared;
        const at::Tensor& x = wanted[key];
        EXPECT_LT(test::difference(solver->image(), test::part_of(x, block, type), x), tolerance)
            << "iteration " << k + 1;
      }
      EXPECT_EQ(compared, 2);
    });
  }
};

TEST_P(Trajectories, AreTheReferenceInDouble) {
  run(at::kDouble, {.max_iterations = 500, .tolerance = 1e-13}, 1e-9);
}
// 1e-5 is what rounding leaves of one pass of the network; a step before it adds to that (1.03e-5 on three ranks where
// the compiler optimizes little).
TEST_P(Trajectories, AreTheReferenceInFloat) {
  run(at::kFloat, {.max_iterations = 100, .tolerance = 1e-7}, 2e-5);
}

TEST_P(Trajectories, Move) {  // else equality would say little
  EXPECT_GT(test::difference(problem["start"], wanted["x1"]), 1e-2);
  EXPECT_GT(test::difference(wanted["x1"], wanted["x8"]), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Reference, Trajectories, testing::Values("pgd", "hqs", "admm", "red"),
                         [](const auto& info) { return std::string(info.param); });

TEST(DpirSchedule, IsTheReferenceSchedule) {
  const Reference problem("solvers_problem");
  const DpirSchedule mine = dpir_schedule(problem.number("noise"));
  for (int k = 0; k < 8; ++k) {
    EXPECT_NEAR(mine.sigma.at(k), problem["dpir.sigma"][k].item().toDouble(), 1e-7);
    EXPECT_NEAR(mine.gamma.at(k) / problem["dpir.gamma"][k].item().toDouble(), 1, 1e-6);
  }
}

}  // namespace
}  // namespace tessera
