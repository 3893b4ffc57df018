// SPDX-License-Identifier: BSD-3-Clause
// The bits of inner products, norms and data steps do not depend on the number of threads.
#include <ATen/ops/scalar_tensor.h>

#include "domain/operators.hpp"
#include "support/threads.hpp"

namespace tessera {
namespace {

using test::random_tensor;
using test::same_on_any_threads;
using test::Stack;

const Box kImage = Box::image2d(251, 203);

TEST(DomainThreads, InnerProductsHaveTheSameBits) {
  const at::Tensor a = random_tensor({3, 701, 403}, 1), b = random_tensor({3, 701, 403}, 2);
  same_on_any_threads([&] {
    return std::vector<at::Tensor>{local_dot(a, b), local_dot(a.to(at::kFloat), b.to(at::kFloat))};
  });
}

TEST(DomainThreads, GradientProxAndNormHaveTheSameBitsInEveryForm) {
  const Communicator self;
  enum Form { pointwise, by_fft, direct, decimated, weighted };
  for (const Form form : {pointwise, by_fft, direct, decimated, weighted}) {
    SCOPED_TRACE(testing::Message() << "form " << form);
    same_on_any_threads([&] {
      Stack parts;
      if (form == pointwise) {
        parts.push_back(make_random_mask(0.4, 1));
      } else if (form == direct) {
        parts.push_back(test::blur(gaussian_kernel({0.5, 0.5}), Boundary::zero));
      } else if (form == decimated) {
        parts.push_back(test::blur(gaussian_kernel({1.2, 1.2}), Boundary::reflect, 2));
      } else {
        parts.push_back(test::blur(gaussian_kernel({1.5, 0.7}, 20), Boundary::circular));
        parts.push_back(test::blur(gaussian_kernel({0.9, 1.2}), Boundary::circular));
      }
      const std::shared_ptr<DistributedOperator> A =
          test::place(parts, test::cut(kImage, 1), 3, self, at::kFloat);
      Reducer reducer(self);
      const Space space(self, &reducer);
      Measurement y = A->make_measurement(), weights;
      for (std::size_t i = 0; i < y.size(); ++i) y[i].copy_(random_tensor(y[i].sizes(), i));
      if (form == weighted)
        for (const at::Tensor& part : y) weights.push_back(part + 0.6);
      const auto f = make_least_squares({A, y, weights, 0, {4, 1e-12}, 0}, space);
      const at::Tensor x = random_tensor({3, 251, 203}, 5).to(at::kFloat);
      at::Tensor gradient = A->make_image(), u = A->make_image();
      f->gradient(x, gradient);
      const Deferred objective = f->objective();
      f->prox(x, 3.0, u, false);
      reducer.launch();
      reducer.finish();
      return std::vector<at::Tensor>{gradient, u, at::scalar_tensor(f->lipschitz(), at::kDouble),
                                     at::scalar_tensor(objective.value(), at::kDouble)};
    });
  }
}

}  // namespace
}  // namespace tessera
