// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/operator_table.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/comm/gpu.hpp"
#include "tessera/comm/transport_start.hpp"
#include "tessera/config/job.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/domain/decomposition.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/samples/scan.hpp"
#include "tessera/settings/settings.hpp"

namespace tessera {

/// What a job is before anything is computed: file headers, weights, arithmetic. Equal on all ranks.
struct RunPlan {
  JobConfig asked;                // the job as it was given
  Settings settings;              // what it leaves open, as far as is known
  JobConfig job;                  // with these; autos of grid, scale and weights resolved
  ImageSpace image;               // the unknown
  double offset = 0, factor = 1;  // file value = curve.stored(internal) * factor + offset
  ToneCurve curve;                // inside is light, or what is stored
  bool curve_open = false;        // until the samples are seen, choose_curve()
  bool gray = false;              // files of three equal channels are read as one
  SourceInfo data;                // the file in whose units the image is: of measurements, else of the truth
  std::array<double, 2> truth_scale{0, 1};  // offset and factor of the truth, which may have its own
  std::optional<Network> network;           // none: tv, no prior
  Decomposition decomposition;
  bool grid_given = false;  // by the job: else another mode may want another grid
  Device device;
  int sharers = 1;                    // ranks on that GPU
  std::vector<OperatorConfig> parts;  // the operator as a list
  std::shared_ptr<OperatorFiles> files;
  std::shared_ptr<OperatorPlan> op;  // described by them, on `image`
  std::optional<SourceInfo> truth;
  std::optional<Scan> scan;          // the measurements, where they are one
  std::vector<std::string> notices;  // one line each, for the user
  std::size_t of_files = 0;          // how many of them are of the files, whatever the settings

  at::TensorOptions options() const;
  ProductSpace domain() const;  // the image, cut by the decomposition
};

/// Collective over `comm`; `ranks` may be pretended (tessera check). InputError for whatever can be known by
/// now. `files`: read before, by another plan of this job.
RunPlan plan_run(const JobConfig& job, const Communicator& comm, int ranks,
                 std::shared_ptr<OperatorFiles> files = nullptr);

/// The operator of the job alone, on an image: `parts`, `files` and `op`. Collective; InputError.
RunPlan plan_operator(const JobConfig& job, const ImageSpace& image, const Communicator& comm);

/// The same as plan_run() where operator and data are in memory: `job` is read for Purpose::arrays. Values are in internal
/// range. Collective.
RunPlan plan_arrays(const JobConfig& job, const ImageSpace& image, std::shared_ptr<OperatorPlan> op,
                    const Communicator& comm);

/// The same job under other settings: its network, its blocks. Choices of execution are open again. Collective.
RunPlan with_settings(const RunPlan& plan, const Settings& settings, const Communicator& comm);

/// Sizes and grids as the job writes them: [rows, columns], of a volume [depth, rows, columns].
Box box_of(const std::vector<std::int64_t>& size);
std::vector<std::int64_t> size_of(const Box& image);
/// The middle slice of a volume, to be looked at; a picture is its own.
Box middle_slice(const Box& image);

/// The same job on another image, cut for `ranks` pretended ranks.
RunPlan with_image(const RunPlan& plan, const Box& image, int ranks);

/// Describes operators on plan.image.box, `first` being the place of the first of them in the job's list.
/// Collective: files that plan.files does not know yet are looked at. InputError on all ranks.
std::unique_ptr<OperatorPlan> describe(const RunPlan& plan, const std::vector<OperatorConfig>& parts,
                                       std::size_t first, Device device, const Communicator& comm);

/// The job's transport, tried out on its grid of blocks; the watchdog's limit holds, but a minute at most.
/// Collective.
StartedTransport open_transport(const RunPlan& plan, const Communicator& comm);

}  // namespace tessera
