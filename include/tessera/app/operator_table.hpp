// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/config/choices.hpp"
#include "tessera/config/job.hpp"
#include "tessera/domain/operator_plan.hpp"
#include "tessera/io/distributed_image.hpp"

namespace tessera {

/// Files that describe operators, each read once per job: headers of masks, taps of kernels.
class OperatorFiles {
 public:
  /// Collective at the first call for a path.
  const SourceInfo& info(const std::string& path, const Communicator& comm);
  /// (1 or C, h, w), float64, as stored, the same on every rank; likewise.
  const at::Tensor& taps(const std::string& path, const Communicator& comm);
  /// Of every file that was asked for.
  const std::map<std::string, SourceInfo>& infos() const { return infos_; }

 private:
  std::map<std::string, SourceInfo> infos_;
  std::map<std::string, at::Tensor> taps_;
};

/// What an operator of the job file is made from.
struct OperatorRequest {
  const OperatorConfig& config;
  std::uint32_t index = 0;  // of the part in the job's list
  std::int64_t seed = 0;    // problem.seed
  Box image;
  std::int64_t channels = 1;
  Device device;  // that it will run on
  OperatorFiles& files;
  const Communicator& comm;
};

/// An operator of the job file, problem.operator.type: all that is known of it. `choice` has its name and
/// keys; the factories describe it, collectively, and read no pixels: a LocalOperator where a sample needs
/// few pixels around its own, else an OperatorPlan.
struct OperatorRow {
  OperatorChoice choice;
  std::unique_ptr<LocalOperator> (*local)(const OperatorRequest&) = nullptr;
  std::unique_ptr<OperatorPlan> (*global)(const OperatorRequest&) = nullptr;
  std::string every_pixel{};  // the operator whose samples it thins out; empty: itself
};

/// src/app/operators.cpp: every operator that a job may name. A program may add rows before it parses its
/// first job.
std::vector<OperatorRow>& operator_table();
const OperatorRow& find_operator(const std::string& name);

/// "96 x 70 x 83", or "70 x 83" of a picture.
std::string sides(const Box& box);

/// Options of an operator that name files.
std::vector<std::string*> files_of(OperatorConfig& op);

/// Tells the parser what the tables of operators, solvers and denoisers hold.
void know_choices();

}  // namespace tessera
