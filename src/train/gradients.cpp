// SPDX-License-Identifier: BSD-3-Clause
#include "gradients.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "tessera/core/error.hpp"

namespace tessera::training {
namespace {

// to[i] += from[i].
void add(const at::Tensor& from, double* to) {
  const at::Tensor values = from.cpu().contiguous();
  const float* v = values.const_data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) to[i] += v[i];
}

}  // namespace

GradientSums::GradientSums(const Optimizer::Tensors& parameters, const std::vector<std::string>& order,
                           const Communicator& comm, std::int64_t bucket)
    : comm_(comm), parameters_(parameters.size()) {
  TESSERA_EXPECT(order.size() == parameters.size(), order.size(), " names of ", parameters.size(),
                 " parameters");
  for (auto name = order.rbegin(); name != order.rend(); ++name) {
    const auto place = parameters.find(*name);
    TESSERA_EXPECT(place != parameters.end(), "no parameter '", *name, "'");
    const std::int64_t size = place->second.numel();
    const auto in_last = buckets_.empty() ? bucket : static_cast<std::int64_t>(buckets_.back().sums.size());
    if (in_last + size > bucket) buckets_.emplace_back();
    Bucket& into = buckets_.back();
    Parameter& p = parameters_[static_cast<std::size_t>(std::distance(parameters.begin(), place))];
    p.leaf = place->second;
    p.bucket = buckets_.size() - 1;
    p.at = static_cast<std::int64_t>(into.sums.size());
    on_host_ = p.leaf.is_cpu();
    if (on_host_)
      p.hook = p.leaf.register_hook([this, &p](const at::Tensor& gradient) { made(p, gradient); });
    into.sums.resize(into.sums.size() + static_cast<std::size_t>(size));
    ++into.parameters;
  }
  buckets_.emplace_back().sums.resize(1);
}

GradientSums::~GradientSums() {
  if (!on_host_) return;
  for (const Parameter& p : parameters_) p.leaf.remove_hook(p.hook);
}

void GradientSums::begin() {
  listening_ = true;
  if (stay_on_device()) return;
  for (Bucket& b : buckets_) {
    std::fill(b.sums.begin(), b.sums.end(), 0.0);
    b.waits_for = b.parameters;
  }
  for (Parameter& p : parameters_) p.made = false;
  sent_ = 0;
}

// `gradient`: what the pass gives, before it is added to what lies in the leaf's grad.
void GradientSums::made(Parameter& p, const at::Tensor& gradient) {
  if (!listening_ || p.made) return;
  Bucket& bucket = buckets_[p.bucket];
  double* to = bucket.sums.data() + p.at;
  if (gradient.defined()) add(gradient, to);
  if (p.leaf.grad().defined()) add(p.leaf.grad(), to);
  p.made = true;
  --bucket.waits_for;
  send(buckets_.size() - 1);
  // MPI moves what is in flight when it is called.
  for (std::size_t b = 0; b < sent_; ++b) buckets_[b].pending.progress();
}

void GradientSums::send(std::size_t until) {
  for (; sent_ < until && buckets_[sent_].waits_for == 0; ++sent_)
    buckets_[sent_].pending = comm_.all_reduce_begin(buckets_[sent_].sums);
}

std::vector<at::Tensor> GradientSums::finish(double& extra) {
  TESSERA_EXPECT(listening_, "finish() without begin()");
  std::vector<at::Tensor> gradients;
  if (stay_on_device()) {
    listening_ = false;
    for (const Parameter& p : parameters_) {
      gradients.push_back(p.leaf.grad().defined() ? p.leaf.grad() : at::zeros_like(p.leaf));
      p.leaf.mutable_grad().reset();
    }
    return gradients;
  }
  for (Parameter& p : parameters_)  // what the pass did not come to
    if (!p.made) made(p, {});
  listening_ = false;
  buckets_.back().sums.front() = extra;
  send(buckets_.size());
  for (Bucket& b : buckets_) b.pending.wait();
  extra = buckets_.back().sums.front();
  for (const Parameter& p : parameters_) {
    const at::Tensor sum = at::empty(p.leaf.sizes(), at::kFloat);
    const double* from = buckets_[p.bucket].sums.data() + p.at;
    std::transform(from, from + sum.numel(), sum.mutable_data_ptr<float>(),
                   [](double v) { return static_cast<float>(v); });
    gradients.push_back(sum.to(p.leaf.device()));
    p.leaf.mutable_grad().reset();
  }
  return gradients;
}

std::vector<std::string> order_of(const Graph& graph, const Optimizer::Tensors& parameters) {
  std::vector<std::string> order;
  std::set<std::string> seen;
  const auto take = [&](const std::string& name) {
    if (parameters.contains(name) && seen.insert(name).second) order.push_back(name);
  };
  for (const Node& node : graph.nodes()) {
    take(node.weight);
    take(node.bias);
    for (const char* end : {".weight", ".bias"}) take(node.weight + end);  // of a norm
  }
  for (const auto& [name, tensor] : parameters) take(name);
  return order;
}

TrainRecord differentiate(const TrainOptions& o, const Graph& graph, const Batch& batch,
                          const Optimizer& optimizer, const std::vector<Picture>& pictures, Orbits* orbits,
                          std::int64_t step, GradientSums& sums, std::vector<at::Tensor>& gradients,
                          const Communicator& comm) {
  TrainRecord record;
  if (orbits) {  // first: its gradients lie in the parameters when the loss's are made
    const Visit visit = orbits->visit(graph, optimizer.parameters(), pictures, step, comm);
    record.penalty = visit.penalty;
    record.norm = visit.norm;
    record.largest_norm = visit.largest_norm;
  }
  sums.begin();
  const std::int64_t mine = batch.clean.size(0);
  if (mine > 0) {
    const at::AutoGradMode on(true);
    at::Tensor x = batch.noisy;
    if (o.precision == Precision::bfloat16) x = x.to(at::kBFloat16);
    x = x.contiguous(channels_last(x));
    const at::Tensor out = evaluate(graph, optimizer.parameters(), x, batch.sigma);
    const at::Tensor image = out.to(at::kFloat);
    const at::Tensor error =
        o.loss == Loss::l1 ? at::l1_loss(image, batch.clean) : at::mse_loss(image, batch.clean);
    const at::Tensor part = error * (static_cast<double>(mine) / static_cast<double>(o.batch));
    part.backward();
    record.loss = part.item<double>();
  }
  gradients = sums.finish(record.loss);
  return record;
}

}  // namespace tessera::training
