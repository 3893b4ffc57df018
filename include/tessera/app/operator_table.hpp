// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/Tensor.h>
#include <array>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/config/choices.hpp"
#include "tessera/config/job.hpp"
#include "tessera/domain/operator_plan.hpp"
#include "tessera/io/file_headers.hpp"
#include "tessera/samples/marks.hpp"
#include "tessera/samples/scan.hpp"

namespace tessera {

struct MaskFile {
  SourceInfo info;
  bool gray = true;  // one channel, or all alike
  MarkRule rule;
};

/// Files of a job, each looked at once: their headers; of those that describe operators, what marks in masks, taps of
/// kernels; and what is to be said of them.
class OperatorFiles {
 public:
  FileHeaders& headers() { return headers_; }
  /// (1 or C, d, h, w), float64, as stored, the same on every rank; d = 1: a picture. Collective at the first call for a path.
  const at::Tensor& taps(const std::string& path, const Communicator& comm);
  /// Its header; after taps().
  const SourceInfo& kernel_info(const std::string& path) const { return kernel_infos_.at(path); }
  /// Goes through all values of the file, and says what is odd about them; likewise.
  const MaskFile& mask(const std::string& path, const Communicator& comm);
  /// This rank's box of a mask, (1 or C, [D,] H, W), float32: 1 where a sample is measured, else 0. Collective.
  at::Tensor marks(const std::string& path, const Layout& layout, const Communicator& comm);

  /// One line each for the user, each once.
  void note(const std::string& line);
  void warn(const std::string& line);
  const std::vector<std::string>& notices() const { return notices_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  const SourceInfo& info_of(const std::string& path, const Communicator& comm);
  FileHeaders headers_;
  std::map<std::string, SourceInfo> kernel_infos_;
  std::map<std::string, at::Tensor> taps_;
  std::map<std::string, MaskFile> masks_;
  std::vector<std::string> notices_, warnings_;
};

/// What an operator of the job file is made from.
struct OperatorRequest {
  const OperatorConfig& config;
  std::uint32_t index = 0;  // of the part in the job's list
  std::int64_t seed = 0;    // problem.seed
  ImageSpace image;
  Device device;  // that it will run on
  OperatorFiles& files;
  const Communicator& comm;
  std::array<ImageSpace::Axis, 3> measured =
      ImageSpace().grid;  // pixels of its measurement, as the file says
};

/// An operator of the job file, problem.operator.type: all that is known of it. `choice` has its name and
/// keys; the factories describe it, collectively, and read no pixels: a LocalOperator where a sample needs
/// few pixels around its own, else an OperatorPlan.
struct OperatorRow {
  OperatorChoice choice;
  std::function<std::unique_ptr<LocalOperator>(const OperatorRequest&)> local{};
  std::function<std::unique_ptr<OperatorPlan>(const OperatorRequest&)> global{};
  std::string every_pixel{};  // the operator whose samples it thins out; empty: itself
  bool own_range = false;     // its samples are not in the range of the image
  std::optional<Option>
      marks{};  // that that names a file of 0 where a pixel is not measured, if it does no more
  /// Of an operator that measures views: which part of a scan its options ask for. By headers alone; not
  /// collective; InputError.
  std::function<Scan(const ProblemConfig&, ScanFile)> scan{};
  /// Completes the options by what files say (angles, the detector, the axis), so that nothing else reads them; of
  /// a scan also looks at its samples. `said`: as the job has them, gets what was found. Collective; InputError.
  std::function<void(OperatorConfig& part, OperatorConfig& said, Scan* scan,
                     std::vector<std::string>& notices, const Communicator&)>
      complete{};
};

/// src/app/job/operators.cpp: every operator that a job may name. A program may add rows before it parses its
/// first job.
std::vector<OperatorRow>& operator_table();
const OperatorRow& find_operator(const std::string& name);
/// Whether the measurements may be a scan: of an operator of one part that measures views.
bool takes_scan(const OperatorConfig& op);

/// "96 x 70 x 83", or "70 x 83" of a picture.
std::string sides(const Box& box);

/// Options of an operator that name files.
std::vector<std::string*> files_of(OperatorConfig& op);

/// Tells the parser what the tables of operators, solvers and denoisers hold.
void know_choices();

}  // namespace tessera
