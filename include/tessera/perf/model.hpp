// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/execution.hpp"
#include "tessera/denoise/network_work.hpp"
#include "tessera/domain/prox_plan.hpp"
#include "tessera/perf/machine.hpp"

namespace tessera {

/// The solver around the denoiser.
struct DataWork {
  const OperatorPlan* op = nullptr;
  ImageSpace image{};  // the unknown; its box is the decomposition's
  std::string solver = "pgd";
  double inner = 0;       // conjugate gradients per proximal step, mean
  bool weighted = false;  // weights or saturation: no closed form
  bool truth = false;     // one more image
  int prior = 0;          // images that the denoiser keeps
};

/// One iteration on the slowest rank, seconds. Without measured == true in the machine file it is a guess in
/// numbers.
struct Prediction {
  Execution execution;
  int ranks = 1;
  double denoise = 0;    // network arithmetic, halo work included
  double redundant = 0;  // the part of denoise that is spent on pixels of other ranks or windows
  double data = 0;       // operator, adjoint or proximal step, and the passes of the solver around them
  double exposed = 0;    // communication that nothing hides: packing, overheads, waiting
  double hidden = 0;     // communication behind arithmetic
  double reduce = 0;
  double memory = 0;      // bytes, fullest rank: data + weights + features
  double data_bytes = 0;  // of it: state, measurements, halos, as `tessera check` prints
  double sent = 0;        // bytes, all ranks together (data step per inner iteration, as `tessera check`)
  double seconds() const { return denoise + data + exposed + reduce; }
};

/// Time and memory of one iteration by arithmetic; no MPI, any number of pretended ranks.
///
///   denoise  sum over windows (or the block) and layers of seconds(shape, pixels) + passes / bandwidth
///   exchange busy = pack + unpack + (sends + receives) o; in flight L + sum of max(g, m G), the node's
///            and the network's messages at once; exposed = busy + max(0, in flight - work beside it)
///   data     transforms, taps and passes of the operators; closed-form prox: two distributed transforms;
///            else data.inner conjugate gradients and the residual that they begin with
///   reduce   one reduction, hidden behind an iteration unless conjugate gradients wait for it
/// in LogGP parameters (see Link). Up to 64 ranks every one is looked at, beyond one of each kind (block
/// size, distance to the border). InputError where the machine file lacks a precision or a transport.
/// `network` null: no denoiser.
Prediction predict(const Machine& machine, const NetworkWork* network, const DataWork& data,
                   const Decomposition& decomposition, const Execution& execution);

/// Ranks to look at, and how many each stands for: every one up to 64, beyond one of each kind.
std::map<int, int> representatives(const Decomposition& decomposition, std::int64_t halo);
constexpr int kEveryRank = 64;

/// Seconds of one pass of the network over `batch` windows of so many pixels (depth, rows, columns).
double pass_seconds(const Machine& machine, const NetworkWork& network, Precision precision,
                    const Index3& window, std::int64_t batch);
/// The same where a part of the result is wanted, in pixels of the window.
double pass_seconds(const Machine& machine, const NetworkWork& network, Precision precision,
                    const Box& window, const Box& core, std::int64_t batch);
/// Seconds of one layer that makes `pixels` output pixels: as measured, else by passes over memory.
double layer_seconds(const Machine& machine, Precision precision, const NetworkWork::Layer& layer,
                     double pixels);
/// The same of a convolution: as measured, else as one of a shape that is like it, else by the peak.
double convolution_seconds(const Machine& machine, Precision precision, const NetworkWork::Layer& layer,
                           double pixels);
/// Whether the rate is of layers of this shape.
bool measures(const LayerRate& rate, const NetworkWork::Layer& layer);
/// Whether a machine has measured every layer of this network in this precision.
bool knows(const Machine& machine, const NetworkWork& network, Precision precision);

/// Every execution worth a look that has what `wanted` sets, fastest first (but for predictions within 5 %, of which the one with the
/// least redundant work leads), by what they take on the rank with the largest window; empty where none fits
/// `feature_memory`, bytes per rank that features may take (0: any). predict() says more about one of them.
std::vector<Prediction> rank_executions(const Machine& machine, const NetworkWork& network,
                                        const DataWork& data, const Decomposition& decomposition,
                                        const Execution& wanted, double feature_memory = 0);

/// The term that costs most of what is lost against `one`, a prediction on fewer ranks; with itself, the
/// largest term.
std::string limiting_term(const Prediction& one, const Prediction& many);

/// Images of the solver's state and of the loop around it.
int state_images(const std::string& solver);
/// Bytes of state, measurements, halos and what a proximal step keeps on `rank`: what `tessera check` prints.
/// By planes the denoiser's halo is that of each kind of them, which has a region of its own.
std::int64_t data_memory(const Decomposition& decomposition, const DataWork& data,
                         const Index3& denoiser_halo, const Planes& planes, int rank);
/// Bytes that the data step takes for a moment: tiles and spectra, or `images` images where it has none.
double data_moment(const DataWork& data, const Decomposition& decomposition, int rank, double images = 4);
/// Bytes of a network's weights, as read and as its convolutions want them.
double weight_memory(const NetworkWork& network, Precision precision, bool on_device);

/// The exchanges of one data step of `rank`, and how often each runs in it; for conjugate gradients those of
/// one inner iteration, with its preconditioner.
struct DataTraffic {
  std::optional<ProxPlan> prox;  // of a solver that takes proximal steps; none: it takes gradients
  std::vector<PlannedExchange> exchanges;
  bool iterative() const { return prox && prox->kind == ProxPlan::Kind::iterative; }
  std::int64_t bytes_sent() const;
};
DataTraffic data_traffic(const Decomposition& decomposition, const DataWork& data, int rank);

}  // namespace tessera
