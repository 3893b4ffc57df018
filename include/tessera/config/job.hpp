// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/core/execution.hpp"
#include "tessera/core/options.hpp"
#include "tessera/core/tone_curve.hpp"

namespace tessera {

// One plain struct per stage, defaults in place. What the values are for is known elsewhere. docs/job_file.md
// has every key. After parse_job() paths are absolute and whatever the file alone decides is filled in.

// Outside of KernelConfig: a variant of nested types with defaults cannot be made inside their class.
struct GaussianKernel {
  std::array<double, 2> sigma{};  // rows, columns; pixels, or a share of the image width
  double depth = 0;               // of a volume, the first of three widths; 0: a picture's
  bool sigma_is_share = false;    // written as "1 %"
  double angle = 0;               // degrees
  bool operator==(const GaussianKernel&) const = default;
};

struct FileKernel {
  std::string path{};                  // picture, stack of pages, .npy, or .h5:/dataset
  bool normalize = true;               // divide by the sum
  std::vector<std::int64_t> center{};  // [slice,] row, column; empty: size / 2
  bool operator==(const FileKernel&) const = default;
};

struct KernelConfig {
  using Gaussian = GaussianKernel;
  using File = FileKernel;
  std::variant<Gaussian, File> form;
  bool operator==(const KernelConfig&) const = default;
};

struct OperatorConfig {
  std::string type = "identity";
  Options options{};  // of this type: OperatorChoice
  // blurs
  KernelConfig kernel{};
  std::string boundary{};  // circular | reflect | replicate | zero | valid; default: circular when simulated,
                           // valid for real data
  // stack
  std::vector<OperatorConfig> parts{};
  bool operator==(const OperatorConfig&) const = default;
};

struct NoiseConfig {
  double gaussian = 0;            // standard deviation
  double poisson = 0;             // gain; 0: none. y = gain P(x / gain)
  std::string unit = "internal";  // of both: internal | file
  /// Of measurements nothing need be said: the level is then estimated.
  bool given() const { return gaussian > 0 || poisson > 0; }
  bool operator==(const NoiseConfig&) const = default;
};

/// How measurements are simulated otherwise than the reconstruction assumes.
struct SimulateConfig {
  std::int64_t finer = 1;              // pixels of the truth per pixel of the unknown, on both axes
  std::string boundary;                // empty: the operator's
  std::optional<KernelConfig> kernel;  // none: the operator's
  std::int64_t bits = 0;               // 0: not quantized
  bool clip = false;                   // to [0, 1]
  bool operator==(const SimulateConfig&) const = default;
};

struct ScaleConfig {
  double offset = 0;
  double factor = 0;               // 0: the file format's full scale
  bool from_data = false;          // written as "data": the measurement's own largest value
  std::optional<ToneCurve> curve;  // in which the file stores light; none: auto
  bool operator==(const ScaleConfig&) const = default;
};

struct ImageConfig {
  std::vector<std::int64_t> size;  // [depth,] rows, columns; empty: from truth or measurements
  std::int64_t channels = 0;
  std::vector<double> pixel;
  std::string unit;
  bool operator==(const ImageConfig&) const = default;
};

/// A synthetic truth; none where `size` is empty.
struct SceneConfig {
  std::int64_t seed = 0;
  std::vector<std::int64_t> size;  // rows, columns
  std::int64_t channels = 3;
  bool operator==(const SceneConfig&) const = default;
};

struct LikelihoodConfig {
  std::string type = "gaussian";  // gaussian | poisson | huber
  double background = 0;          // poisson: mean that is there without an image, taken off the data
  double threshold = 1.345;       // huber: noise levels from which a sample counts as an outlier
  bool operator==(const LikelihoodConfig&) const = default;
};

/// What is bad in data: looked for in the samples, or as a file's flags say.
struct BadConfig {
  bool hot = false, dead = false, columns = false, rows = false, cosmic_rays = false, missing_tiles = false;
  std::string flags;              // a picture of whole numbers, in the measurements' layout
  std::vector<std::string> bits;  // names, or numbers whose bits are meant; empty: all
  bool looked_for() const { return hot || dead || columns || rows || cosmic_rays || missing_tiles; }
  bool any() const { return looked_for() || !flags.empty(); }
  bool operator==(const BadConfig&) const = default;
};

struct ProblemConfig {
  std::string truth, measurements, weights;
  std::string dark, flat;              // y = (file - dark) / flat
  SceneConfig scene;                   // key: truth.scene, in place of a file
  std::string clipping = "one-sided";  // of samples at the ends of their range: one-sided | data
  double saturation = 0;               // internal value from which samples count 0; 0: none
  BadConfig bad;
  ImageConfig image;
  ScaleConfig scale;
  OperatorConfig op;  // key: operator
  NoiseConfig noise;
  LikelihoodConfig likelihood;
  SimulateConfig simulate;
  std::int64_t seed = 0;
  bool has_truth() const { return !truth.empty() || !scene.size.empty(); }
  bool operator==(const ProblemConfig&) const = default;
};

struct DenoiserConfig {
  std::string network = "drunet";
  Options options{};    // of this network: DenoiserChoice
  std::string weights;  // shipped name, path, "random" (seeded); "": auto
  Precision early_precision =
      Precision::float32;  // while sigma is far above its last level; float32: as precision
  bool operator==(const DenoiserConfig&) const = default;
};

struct ScheduleConfig {
  std::vector<double> values = {};  // one, or a list
  std::string form = {};            // "", "log", "linear", "dpir"; with first, last
  double first = 0, last = 0;       // dpir: last is the noise level it ends at, first is not used
  bool automatic = true;            // the solver's own rule
  bool operator==(const ScheduleConfig&) const = default;
};

struct StopConfig {
  double residual = 0, chi2 = 0;  // 0: off
  bool rounding = true;           // where further iterations would move nothing
  bool operator==(const StopConfig&) const = default;
};

/// What nobody wrote: no part of what a job says, so that jobs that say the same are equal.
struct Chosen {
  bool solver = false;      // solver.name
  bool iterations = false;  // solver.iterations
  bool prior = false;       // the section denoiser
  bool arrays = false;      // operator and data are in memory: the job names neither
  static constexpr std::int64_t more_passes = 5;
  static constexpr const char* masked_solver = "admm";  // where pixels are missing
  static constexpr std::int64_t masked_passes = 16;
  /// One number for a checkpoint, and back.
  int bits() const { return int{solver} | int{iterations} << 1 | int{prior} << 2 | int{arrays} << 3; }
  static Chosen of(int bits) { return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0}; }
  bool operator==(const Chosen&) const { return true; }
};

struct SolverConfig {
  std::string name = "auto";  // auto and 0 iterations: until parse_job() has chosen
  Options options{};          // of this solver: SolverChoice
  std::int64_t iterations = 0;
  ScheduleConfig step, sigma;
  std::optional<double> lambda;                 // unset: auto
  std::optional<std::array<double, 2>> bounds;  // may be infinite; unset: none
  std::int64_t prox_iterations = 200;
  double prox_tolerance = 0;   // rms error; 0: auto
  std::string start = "auto";  // auto | adjoint | measurement | zero | a file
  StopConfig stop;
  Chosen chosen;
  bool operator==(const SolverConfig&) const = default;
};

struct DomainConfig {
  std::vector<std::int64_t> grid;  // [depth,] rows, columns; empty: auto
  bool share_gpu = false;          // several ranks may compute on one GPU
  bool operator==(const DomainConfig&) const = default;
};

struct CheckpointConfig {
  double minutes = 5;           // 0: not by time
  std::int64_t iterations = 0;  // every n iterations; 0: not by count
  std::int64_t keep = 2;        // 0: none are written
  bool operator==(const CheckpointConfig&) const = default;
};

struct OutputConfig {
  std::string folder;
  std::string preview = "reconstruction.png";  // empty: none
  std::int64_t preview_bits = 0;               // 0: by the preview's format and the data
  std::string also;                            // the result in one more file; empty: none
  std::string zarr = "0.5";                    // version of OME-Zarr, where that is one
  std::string compression = "none";            // of results in HDF5: none, gzip
  bool crop = true;                            // to the measured region, for boundary valid
  std::int64_t snapshots = 0;                  // every n iterations; 0: none
  bool diagnostics = true;                     // of the result, at the end
  std::int64_t trace_every = 1;
  CheckpointConfig checkpoint;
  bool operator==(const OutputConfig&) const = default;
};

struct JobConfig {
  std::int64_t schema = 1;
  ProblemConfig problem;
  DenoiserConfig denoiser;
  SolverConfig solver;
  DomainConfig domain;
  Execution
      execution;  // keys: denoiser.mode, patch, batch, halo_depth, precision, averaging; domain.transport
  std::string device = "auto";
  bool deterministic = false;           // on a GPU: the same bits every time
  std::string memory = "auto";          // auto, a share "0.5", an amount "8 GiB"
  std::string scratch = "auto";         // auto, always, never
  std::string scratch_folder = "auto";  // auto, a path
  double watchdog = 300;                // seconds; 0: none
  OutputConfig output;

  std::string folder;                // of the job file: paths are relative to it
  std::string text;                  // the file as given
  std::vector<std::string> notices;  // what was taken from elsewhere, one line each
  bool operator==(const JobConfig&) const = default;
};

}  // namespace tessera
