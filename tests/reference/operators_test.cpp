// SPDX-License-Identifier: BSD-3-Clause
// Operators, their adjoints, proximal points and norms against the reference, on every grid of ranks.
#include <functional>
#include <utility>
#include <vector>

#include "reference/reference.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/data_term.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

using test::Reference;
using Parts = std::vector<std::unique_ptr<LocalOperator>>;

struct Case {
  std::string name;
  std::string file, prefix;
  std::function<Parts(const Reference&)> make;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::unique_ptr<LocalOperator> blur(const at::Tensor& kernel, Boundary boundary,
                                    BlurMethod method = BlurMethod::automatic, std::int64_t factor = 1) {
  BlurOptions options;
  options.kernel = kernel;
  options.boundary = boundary;
  options.method = method;
  options.factor = factor;
  return make_blur(std::move(options));
}

Parts one(std::unique_ptr<LocalOperator> op) {
  Parts parts;
  parts.push_back(std::move(op));
  return parts;
}

std::vector<Case> every_case() {
  std::vector<Case> all;
  for (const char* border : {"circular", "reflect", "replicate", "zero", "valid"})
    for (const char* kernel : {"odd", "even"})
      for (const auto& [label, method] :
           {std::pair{"direct", BlurMethod::direct}, {"fft", BlurMethod::fft}}) {
        const std::string prefix = std::string(kernel) + ".";
        all.push_back({std::string("blur_") + border + "_" + kernel + "_" + label,
                       std::string("operators_blur_") + border, prefix,
                       [=, method = method](const Reference& r) {
                         return one(blur(r[prefix + "kernel"], parse_boundary(border), method));
                       }});
      }
  for (const auto& [name, boundary] : {std::pair{"two_circular", Boundary::circular},
                                       {"three_circular", Boundary::circular},
                                       {"four_reflect", Boundary::reflect},
                                       {"two_valid", Boundary::valid},
                                       {"three_uneven", Boundary::replicate}}) {
    const std::string prefix = std::string(name) + ".";
    all.push_back({std::string("downsampling_") + name, "operators_downsampling", prefix,
                   [=, boundary = boundary](const Reference& r) {
                     return one(blur(r[prefix + "kernel"], boundary, BlurMethod::automatic,
                                     static_cast<std::int64_t>(r.number(prefix + "factor"))));
                   }});
  }
  all.push_back({"mask", "operators_mask", "", [](const Reference& r) {
                   return one(make_mask(r["mask"].unsqueeze(0), test::image_of(r["mask"])));
                 }});
  all.push_back({"stack", "operators_stack", "", [](const Reference& r) {
                   Parts parts;
                   parts.push_back(blur(r["odd"], Boundary::circular));
                   parts.push_back(blur(r["even"], Boundary::reflect));
                   parts.push_back(blur(r["odd"], Boundary::valid));
                   parts.push_back(blur(r["even"], Boundary::circular, BlurMethod::automatic, 2));
                   return parts;
                 }});
  return all;
}

// Both ways to compute a blur make the same operator: what is built on it needs one of them.
std::vector<Case> one_case_per_operator() {
  std::vector<Case> all = every_case();
  std::erase_if(all, [](const Case& c) { return c.name.find("_fft") != std::string::npos; });
  return all;
}

class Operators : public testing::TestWithParam<Case> {
 protected:
  Reference file{GetParam().file};
  const at::Tensor& operator[](const std::string& key) const { return file[GetParam().prefix + key]; }

  // This rank's samples of the parts yI or vI.
  Measurement parts_of(const DistributedOperator& A, const std::string& letter, int rank,
                       at::ScalarType type) const {
    Measurement m;
    for (std::size_t i = 0; i < A.range().parts(); ++i) {
      const at::Tensor& whole = (*this)[concat(letter, i)];
      EXPECT_EQ(A.range().part(i).box(), test::image_of(whole));
      EXPECT_EQ(A.range().part(i).space.channels, whole.size(0));
      m.push_back(test::part_of(whole, A.range().block(i, rank), type));
    }
    return m;
  }

  enum class On { one_grid, every_grid };
  // body(A, block, space) on every group of ranks.
  template <class Body>
  void everywhere(at::ScalarType type, On on, Body body) const {
    const at::Tensor& x = (*this)["x"];
    const Box image = test::image_of(x);
    test::on_groups([&](const Communicator& comm) {
      const auto transport = make_transport(comm, {}, TransportKind::mpi);
      Reducer reducer(comm);
      const Space space(comm, &reducer);
      std::vector<Grid3> all = grids(comm.size(), image);
      if (on == On::one_grid) all.erase(all.begin(), all.end() - 1);
      for (const Grid3& grid : all) {
        const Decomposition d(image, {1, 1, 1}, grid);
        std::shared_ptr<DistributedOperator> A = make_local_stack(
            {ProductSpace(ImageSpace(image, x.size(0)), d), at::TensorOptions().dtype(type), transport, comm},
            GetParam().make(file));
        body(A, d.block(comm.rank()), space);
      }
    });
  }

  void forward_and_adjoint(at::ScalarType type, double tolerance) const {
    everywhere(type, On::every_grid, [&](const auto& A, const Box& block, const Space& space) {
      const int rank = space.comm().rank();
      Measurement y = A->make_measurement();
      A->apply(test::part_of((*this)["x"], block, type), y);
      const Measurement wanted = parts_of(*A, "y", rank, type);
      for (std::size_t i = 0; i < y.size(); ++i)
        EXPECT_LT(test::difference(y[i], wanted[i], (*this)[concat("y", i)]), tolerance) << "part " << i;
      at::Tensor x = A->make_image();
      A->adjoint(parts_of(*A, "v", rank, type), x);
      const at::Tensor& adjoint = (*this)["adjoint"];
      EXPECT_LT(test::difference(x, test::part_of(adjoint, block, type), adjoint), tolerance);
    });
  }

  void prox(at::ScalarType type, const ProxOptions& options, double tolerance) const {
    everywhere(type, On::one_grid, [&](const auto& A, const Box& block, const Space& space) {
      DataTermInput input;
      input.A = A;
      input.y = parts_of(*A, "y", space.comm().rank(), type);
      input.prox = options;
      const auto data = make_least_squares(std::move(input), space);
      at::Tensor out = A->make_image();
      data->prox(test::part_of((*this)["z"], block, type), (*this)["gamma"].item().toDouble(), out);
      const at::Tensor& wanted = (*this)["prox"];
      EXPECT_LT(test::difference(out, test::part_of(wanted, block, type), wanted), tolerance);
    });
  }
};

TEST_P(Operators, ForwardAndAdjointInDouble) { forward_and_adjoint(at::kDouble, 1e-12); }
TEST_P(Operators, ForwardAndAdjointInFloat) { forward_and_adjoint(at::kFloat, 1e-5); }
class DataTerms : public Operators {};
TEST_P(DataTerms, ProximalPointInDouble) {
  prox(at::kDouble, {.max_iterations = 300, .tolerance = 1e-13}, 1e-10);
}
TEST_P(DataTerms, ProximalPointInFloat) { prox(at::kFloat, {.max_iterations = 50, .tolerance = 1e-6}, 1e-5); }

TEST_P(DataTerms, HaveTheNorm) {
  const double wanted = (*this)["norm_squared"].item().toDouble();
  everywhere(at::kDouble, On::one_grid, [&](const auto& A, const Box&, const Space& space) {
    if (A->norm_squared()) {
      EXPECT_NEAR(*A->norm_squared(), wanted, 1e-6 * wanted);
    } else {
      const double norm = operator_norm_squared(*A, space, 1);
      EXPECT_GT(norm, 0.999 * wanted);
      EXPECT_LT(norm, 1.03 * wanted);
    }
  });
}

const auto name_of = [](const testing::TestParamInfo<Case>& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Reference, Operators, testing::ValuesIn(every_case()), name_of);
INSTANTIATE_TEST_SUITE_P(Reference, DataTerms, testing::ValuesIn(one_case_per_operator()), name_of);

TEST(GaussianKernel, IsTheReferenceKernel) {
  const Reference file("operators_gaussian");
  for (const std::string name : {"isotropic", "rows", "oblique", "steep"}) {
    const at::Tensor& sigma = file[name + ".sigma"];
    const at::Tensor kernel = gaussian_kernel({sigma[0].item().toDouble(), sigma[1].item().toDouble()},
                                              file.number(name + ".angle"));
    EXPECT_LT(test::difference(kernel.squeeze(), file[name + ".kernel"]), 1e-12) << name;
  }
}

}  // namespace
}  // namespace tessera
