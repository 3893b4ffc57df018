// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/core/execution.hpp"
#include "tessera/denoise/graph.hpp"

namespace tessera {

/// The solver whose passes around operator and denoiser were measured (Machine::state).
inline constexpr const char* kTimedSolver = "pgd";

/// Seconds of something as a function of its size, through measured points.
///
/// Between points log(seconds) is linear in log(size); above the last one the rate stays that of the last;
/// below the first one the first slope goes on. One point: proportional. No point: 0.
struct Curve {
  std::map<double, double> points;  // size -> seconds, all above 0
  double at(double size) const;
  bool operator==(const Curve&) const = default;
};

/// What one rank's layers of a shape take inside a pass of a network: output pixels of a call -> seconds.
struct LayerRate {
  Op op = Op::conv;  // input: the image's way into the network's layout, and the result's way out
  int kernel = 3;
  std::int64_t in = 0, out = 0;
  Curve seconds;
  Axes axes = Axes::picture;
  bool operator==(const LayerRate&) const = default;
};

/// Arithmetic of one precision: measured layers, or (where there are none) a peak and the fraction of it that
/// convolutions are taken to reach.
struct Throughput {
  std::vector<LayerRate> layers;
  double peak = 0;      // flop/s
  double fraction = 0;  // of the peak; above 1 where the library does with fewer products (Winograd)
  bool operator==(const Throughput&) const = default;
};

/// LogGP: a message of m bytes arrives L + 2 o + (m - 1) G after its sender turned to it; a rank may send
/// another one max(g, m G) later. Seconds, and seconds per byte.
/// Source: Alexandrov, Ionescu, Schauser, Scheiman, "LogGP: incorporating long messages into the LogP model",
/// SPAA 1995, 95.
struct Link {
  double L = 0, o = 0, g = 0, G = 0;
  bool overlaps = true;  // bytes move by themselves while the rank computes; false: its own core copies them
  bool operator==(const Link&) const = default;
};

/// Ranks of one host, and ranks of two.
struct Links {
  Link node, network;
  bool operator==(const Links&) const = default;
};

/// A machine as the cost model knows it: what one rank of it takes for each kind of work, all ranks of a host
/// busy. A measured one belongs to a launch: its ranks per host and threads per rank.
struct Machine {
  std::string name;
  bool measured = false;  // false: every prediction from it says so
  std::map<std::string, std::string> fingerprint;
  int ranks_per_node = 1;
  double memory = 0;    // bytes per rank
  int processors = 0;   // that share a call's output tiles (GPU); 0: no such rounding
  double tile = 16384;  // output values of one such tile
  double call = 0;      // seconds to start one call, for peaks
  double strip = 1;     // times a convolution of a strip of one row takes one of a square of as many pixels
  std::map<Precision, Throughput> precisions;
  Curve copy;         // bytes read + written by an elementwise pass -> seconds
  Curve pack;         // bytes of halo rows packed or unpacked -> seconds
  Curve transform;    // values of a tile -> seconds of one real transform and its product
  double direct = 0;  // products per second of a direct blur
  Curve state;        // values of the image -> seconds of an iteration around operator and denoiser
  Curve reduction;    // ranks -> seconds of one reduction of a few numbers
  std::map<TransportKind, Links> links;
  bool operator==(const Machine&) const = default;

  int threads() const;  ///< per rank, of the fingerprint; 0: not said
};

/// Reads a machine file; InputError names file, key and what is wrong. Not collective.
Machine parse_machine(const std::string& text, const std::string& path);
/// The file's text; parse_machine() gives the same machine back.
std::string write_machine(const Machine& machine);

/// The file that `name` means: a path (it has a / or ends in .yaml), or a supplied name, looked for in
/// $TESSERA_MACHINES, share/tessera/machines beside the program, and data/machines of the source tree.
/// InputError with the names that exist.
std::string find_machine(const std::string& name);

/// The one that a run on it takes: for `automatic` NCCL, else CUDA-aware MPI, else MPI.
TransportKind transport_on(const Machine& machine, TransportKind wanted);

/// Round numbers of a rank with a few cores, or with a GPU: for `auto` where nothing was measured.
Machine guessed_machine(bool gpu);

/// What measured numbers belong to: CPU, cores, ranks per host, threads per rank, device, library versions.
std::map<std::string, std::string> machine_fingerprint(int ranks_per_node, int threads,
                                                       const std::string& device);
/// The first entry in which they differ, as "torch was 2.10.0 and is 2.11.0"; empty: they are equal.
std::string difference(const std::map<std::string, std::string>& was,
                       const std::map<std::string, std::string>& is);

}  // namespace tessera
