// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tessera {

// One plain struct per stage, defaults in place. What the values are for is known elsewhere.

struct KernelConfig {
  struct Gaussian {
    std::array<double, 2> sigma{};  // rows, columns; pixels, or a share of the image width
    bool sigma_is_share = false;    // written as "1 %"
    double angle = 0;               // degrees
  };
  struct File {
    std::string path;                                   // picture, .npy, or .h5:/dataset
    bool normalize = true;                              // divide by the sum
    std::optional<std::array<std::int64_t, 2>> center;  // default: size / 2
  };
  std::variant<Gaussian, File> form;
};

struct OperatorConfig {
  std::string type = "identity";  // identity | mask | blur | downsampling | stack
  // mask
  std::string mask_file;
  std::optional<double> keep;  // share of pixels kept, seeded
  // blur, downsampling
  KernelConfig kernel;
  std::string boundary;  // circular | reflect | replicate | zero | valid; default: circular when simulated,
                         // valid for real data
  std::string method = "auto";  // auto | direct | fft
  std::int64_t factor = 2;      // downsampling
  // stack
  std::vector<OperatorConfig> parts;
};

struct NoiseConfig {
  double gaussian = 0;  // standard deviation
  double poisson = 0;   // gain; 0: none. y = gain P(x / gain)
};

struct ScaleConfig {
  double offset = 0;
  double factor = 0;  // 0: the file format's full scale
};

struct ImageConfig {
  std::vector<std::int64_t> size;  // rows, columns; empty: from truth or measurements
  std::int64_t channels = 0;
  std::vector<double> pixel;
  std::string unit;
};

struct ProblemConfig {
  std::string truth, measurements, weights;
  double saturation = 0;  // internal value from which samples count 0; 0: none
  ImageConfig image;
  ScaleConfig scale;
  OperatorConfig op;  // key: operator
  NoiseConfig noise;
  std::int64_t seed = 0;
};

struct DenoiserConfig {
  std::string network = "drunet";                        // drunet | dncnn | unet | tv | none
  std::string weights;                                   // shipped name, path, or "random" (seeded)
  std::string mode = "auto";                             // auto | whole | patch | layer
  std::optional<std::int64_t> patch, batch, halo_depth;  // unset: auto
  std::string precision = "float32";
  std::string averaging = "none";  // none | cycle | flips | all
  // network shape, for random weights
  std::vector<std::int64_t> widths;
  std::optional<std::int64_t> blocks, depth;
  // tv
  double weight = 1.0;
  std::int64_t iterations = 100;
};

struct ScheduleConfig {
  std::vector<double> values;  // one, or a list
  std::string form;            // "", "log", "linear", "dpir"; with first, last
  double first = 0, last = 0;
  bool automatic = true;  // nothing was written
};

struct StopConfig {
  double residual = 0, chi2 = 0;  // 0: off
};

struct SolverConfig {
  std::string name = "pgd";  // pgd | fista | hqs | admm | red
  std::int64_t iterations = 20;
  ScheduleConfig step, sigma;
  double relaxation = 1.0, lambda = 1.0, momentum = 3.0, dual_step = 1.0;
  std::int64_t prox_iterations = 50;
  double prox_tolerance = 1e-5;
  std::string start = "adjoint";  // adjoint | measurement | zero | a file
  StopConfig stop;
};

struct DomainConfig {
  std::vector<std::int64_t> grid;  // rows, columns; empty: auto
  std::string transport = "auto";  // auto | mpi | cuda-mpi | nccl
};

struct OutputConfig {
  std::string folder;
  std::string preview = "reconstruction.png";  // empty: none
  std::int64_t preview_bits = 8;
  bool crop = true;            // to the measured region, for boundary valid
  std::int64_t snapshots = 0;  // every n iterations; 0: none
  std::int64_t trace_every = 1;
};

struct JobConfig {
  std::int64_t schema = 1;
  ProblemConfig problem;
  DenoiserConfig denoiser;
  SolverConfig solver;
  DomainConfig domain;
  std::string device = "auto";
  std::string memory = "auto";
  double watchdog = 300;
  OutputConfig output;

  std::string folder;  // of the job file: paths are relative to it
  std::string text;    // the file as given
};

}  // namespace tessera
