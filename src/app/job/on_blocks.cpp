// SPDX-License-Identifier: BSD-3-Clause
// Data that a former plan read, on the blocks of the one that they asked for.
#include <utility>

#include "tessera/app/problem.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/domain/tensor.hpp"

namespace tessera {

Problem on_blocks(Problem problem, const RunPlan& plan, const Communicator& comm,
                  const std::shared_ptr<Transport>& transport) {
  std::shared_ptr<DistributedOperator> A = plan.op->place({plan.domain(), plan.options(), transport, comm});
  const std::shared_ptr<Transport> over = make_transport(comm, {}, TransportKind::mpi);
  const auto move = [&](at::Tensor& t, const Layout& own, const Layout& need, const ImageSpace& space) {
    const at::TensorOptions options = t.options();
    const Box from = own.box(comm.rank()), to = need.box(comm.rank());
    const at::Tensor host = t.to(at::kCPU, at::kFloat).contiguous();
    const std::int64_t channels = host.size(0);
    const at::Tensor moved = empty_block(channels, to, at::kFloat, space.axes);
    Exchange exchange(ExchangePlan(own, need, space.box, Border::zero, comm.rank()), over, channels,
                      ElementType::float32);
    exchange.begin(view(host, from), view(moved, to)).wait();
    t = moved.to(options);
  };
  const ProductSpace &before = problem.A->range(), &after = A->range();
  for (Measurement* const samples : {&problem.y, &problem.weights, &problem.ends})
    for (std::size_t i = 0; i < samples->size(); ++i)
      move((*samples)[i], before.layout(i), after.layout(i), after.part(i).space);
  if (problem.truth.defined())
    move(problem.truth, problem.A->domain().layout(0), A->domain().layout(0), plan.image);
  problem.A = std::move(A);
  return problem;
}

}  // namespace tessera
