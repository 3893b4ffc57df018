// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/core/execution.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/perf/study.hpp"

namespace tessera {

/// What the loss is made of: mean absolute or mean squared error.
enum class Loss { l1, l2 };
template <>
inline constexpr std::array kWords<Loss>{"l1", "l2"};

/// muon: steps along orthogonalized momenta, for kernels that mix channels; adam for what is left.
enum class OptimizerKind { adam, muon };
template <>
inline constexpr std::array kWords<OptimizerKind>{"adam", "muon"};

/// What training reports: after every step the loss and the
/// estimated norm; the PSNR where it was measured.
struct TrainRecord {
  std::int64_t step = 0;            // done so far
  double loss = 0;                  // of this step's batch, range [0, 1]
  double learning_rate = 0;         // of this step
  double penalty = 0;               // on the Jacobian, beside the loss
  double norm = 0;                  // mean estimate of |2 D' - 1| over the orbits of this step; 0: no orbits
  double largest_norm = 0;          // the largest of them
  std::map<double, double> psnr{};  // sigma -> mean PSNR in dB over the validation images; mostly empty
};

/// A penalty that keeps plug-and-play iterations stable: weight * mean of max(0, |2 D' - 1|^2 - bound^2) over
/// points that such iterations visit. With |2 D' - 1| <= 1 everywhere they would converge; see
/// docs/training.md.
struct JacobianOptions {
  double weight = 0;          // 0: no penalty, and none of its cost
  double bound = 1;           // norms up to this cost nothing
  std::int64_t orbits = 12;   // small reconstructions kept beside the training, of all ranks together
  std::int64_t batch = 3;     // of them visited per step; each visit costs some 10 evaluations of a crop
  std::int64_t length = 200;  // at most so many visits, then another picture and operator
  std::int64_t power_iterations = 1;             // per visit; directions are kept between visits
  std::pair<double, double> sigma{0.002, 0.08};  // noise levels of the orbits, evenly in their logarithm
};

/// A denoiser is trained to map clean + sigma * noise, and sigma, to clean. A network of volumes learns from volumes:
/// all that is said of pictures holds for them, with one axis more.
struct TrainOptions {
  NetworkOptions network{};
  std::string start{};   // weights to begin from (shipped name or path); empty: seeded, close to D(x) = x
  std::string output{};  // the weights, safetensors; beside it `output`.state, which resuming needs,
                         // `output`.curve.csv and, with `validate`, `output`.png to look at

  // Clean crops
  std::vector<std::string> photographs{};  // folders of pictures, or of volumes
  std::vector<std::string> exclude{};      // "name" or "folder/name", without suffix
  double dead_leaves = 0.1;                // share of crops that are drawn scenes
  double shrink = 0.25;                    // share of photograph crops taken at half their resolution
  std::int64_t crop = 64;   // side of a square or a cube; a multiple of the network's alignment
  std::int64_t batch = 16;  // crops per step, of all ranks together
  std::pair<double, double> sigma{0.0, 50.0 / 255.0};  // uniform between them, range [0, 1]

  JacobianOptions jacobian{};

  // Steps
  std::int64_t steps = 20000;         // 0: only measure `start`
  double learning_rate = 1e-3;        // rises over `warmup` steps, then falls to the final one as a cosine
  double final_learning_rate = 1e-6;  //
  std::int64_t warmup = 200;
  Loss loss = Loss::l1;
  OptimizerKind optimizer = OptimizerKind::adam;
  double weight_decay = 0;  // kernels shrink by learning_rate * weight_decay in a step
  double clip = 0.5;        // largest norm of the gradient; longer ones are shortened; 0: off
  double ema = 0.999;       // the weights written are a running mean with this memory
  Precision precision =
      Precision::float32;       // or bfloat16: features in bfloat16, weights and moments in float32
  std::string device = "auto";  // or cpu, cuda: auto takes a GPU where there is one
  std::uint64_t seed = 0;

  // Around it
  std::int64_t workers = 1;        // threads per rank that make the next steps' batches; 0: the training does
  std::int64_t prefetch = 2;       // batches that each of them makes ahead
  double seconds = 0;              // stop after this long, with the state saved; 0: when the steps are done
  double checkpoint_seconds = 60;  // between two saved states
  std::int64_t log_every = 100;    // steps between two lines; 0: silent
  std::string validate{};          // folder of pictures (volumes) never trained on; empty: none
  std::vector<double> validate_sigma{15.0 / 255.0, 25.0 / 255.0, 50.0 / 255.0};
  std::int64_t validate_every = 2000;  // steps; and at the end
  std::function<void(const TrainRecord&)> observe{};
  std::function<int()> stop{};  // collective, asked after each step: 0, or the exit code to save and end with
  std::function<void()>
      may_save{};  // rank 0's, before it writes: throws where the output is not its own any more
};

/// Trains, or goes on where `output`.state stands (same options; `steps` and the time limit may change).
/// Every rank computes its part of a batch, gradients are summed over the ranks. Random numbers depend on
/// (seed, step, crop), not on ranks, workers and interruptions. With no step left (or `steps` 0) only the
/// validation is done.
/// Collective. Returns the exit code: 0 when all steps are done, 85 when the time ran out before, or what `stop`
/// said.
/// Errors: InputError for bad options, RunError when the loss is no number any more.
int train(const TrainOptions& options, const Communicator& comm);

/// The `train` section of a job file: keys checked, paths relative to the file. InputError names the line.
TrainOptions parse_train_job(const std::string& text, const std::string& path);

/// `tessera train JOB.yaml`; `prepare` may add to what the file says. Collective.
int run_train_file(const std::string& path, const Communicator& comm,
                   const std::function<void(TrainOptions&)>& prepare = {});

/// Mean PSNR (dB, peak 1, output clamped to [0, 1]) over the pictures of a folder, each with its own seeded
/// noise; the whole image at once, in float32.
double validation_psnr(const Network& network, const std::string& folder, double sigma, std::uint64_t seed);

/// `tessera study loader`: images per second of the loader alone, of training alone and of both, over
/// precisions, batches and workers.
std::unique_ptr<Study> make_loader_study(const StudyOptions& options, const Communicator& comm);

}  // namespace tessera
