// SPDX-License-Identifier: BSD-3-Clause
#include "gradients.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/zeros_like.h>

namespace tessera::training {
namespace {

/// Adds the gradients of all ranks; returns the loss of the whole batch. Collective.
double sum_gradients(std::vector<at::Tensor>& gradients, double loss, const Communicator& comm) {
  std::int64_t count = 1;
  for (const at::Tensor& g : gradients) count += g.numel();
  std::vector<double> sums(count);
  sums[0] = loss;
  std::int64_t at = 1;
  for (const at::Tensor& g : gradients)
    for (std::int64_t i = 0; i < g.numel(); ++i) sums[at++] = g.data_ptr<float>()[i];
  comm.all_reduce(sums, Reduce::sum);
  at = 1;
  for (at::Tensor& g : gradients)
    for (std::int64_t i = 0; i < g.numel(); ++i) g.data_ptr<float>()[i] = static_cast<float>(sums[at++]);
  return sums[0];
}

}  // namespace

TrainRecord differentiate(const TrainOptions& o, const Graph& graph, const Batch& batch,
                          const Optimizer& optimizer, const std::vector<Picture>& pictures, Orbits* orbits,
                          std::int64_t step, std::vector<at::Tensor>& gradients, const Communicator& comm) {
  TrainRecord record;
  const std::int64_t mine = batch.clean.size(0);
  if (mine > 0) {
    const at::AutoGradMode on(true);
    at::Tensor x = batch.noisy;
    if (o.precision == Precision::bfloat16) x = x.to(at::kBFloat16);
    x = x.contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor out = evaluate(graph, optimizer.parameters(), x, batch.sigma);
    const at::Tensor image = out.to(at::kFloat);
    const at::Tensor error =
        o.loss == Loss::l1 ? at::l1_loss(image, batch.clean) : at::mse_loss(image, batch.clean);
    const at::Tensor part = error * (static_cast<double>(mine) / static_cast<double>(o.batch));
    part.backward();
    record.loss = part.item<double>();
  }
  if (orbits) {
    const Visit visit = orbits->visit(graph, optimizer.parameters(), pictures, step, comm);
    record.penalty = visit.penalty;
    record.norm = visit.norm;
    record.largest_norm = visit.largest_norm;
  }
  gradients.clear();
  for (const auto& [name, tensor] : optimizer.parameters()) {
    gradients.push_back(tensor.grad().defined() ? tensor.grad().contiguous() : at::zeros_like(tensor));
    tensor.mutable_grad().reset();
  }
  record.loss = sum_gradients(gradients, record.loss, comm);
  return record;
}

}  // namespace tessera::training
