// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tessera/app/run_plan.hpp"
#include "tessera/core/scratch.hpp"
#include "tessera/solve/observer.hpp"
#include "tessera/trace/trace.hpp"

namespace tessera {

/// What rank 0 says: to the terminal and to log.txt. Other ranks say nothing through it.
class Log {
 public:
  Log(bool speaks, const std::string& path);
  ~Log();
  void line(const std::string& text);
  /// Overwrites the terminal's last line where it is one, cut to its width; else prints now and then. In the file too where
  /// it is to be kept.
  void progress(const std::string& text, bool last, bool keep = false);
  /// Whether progress() would print now.
  bool progress_due(bool last) const;

 private:
  bool speaks_;
  bool terminal_;
  std::FILE* file_ = nullptr;
  double last_print_ = -1e9;
};

class FolderOwner;

/// The output folder of a run: job.yaml, resolved.yaml, trace/, log.txt, pictures, reconstruction.h5,
/// summary.json. From the first look at it (or from when it is made) until its destruction it is this
/// program's alone (FolderOwner).
class OutputFolder {
 public:
  /// What to do where it holds something: refuse, start over it, go on with a run, or whichever of the latter
  /// two is right for what stands there.
  enum class Use { fresh, force, resume, automatic };
  /// Makes nothing but the mark of its owner, where the folder is there. InputError where it is a file, is in
  /// use, holds something (fresh), or something other than an unfinished run (automatic, without
  /// checkpoints). Collective.
  OutputFolder(std::string path, Use use, const Communicator& comm);
  ~OutputFolder();
  /// Makes it; results of an earlier run are removed unless this one goes on with it, and what a killed
  /// program left unfinished. Collective.
  void create(bool goes_on);
  /// Removes what create() made, folders above it too, as far as they are empty: the run was refused. Not collective.
  void take_back();
  /// RunError where another program has taken it over. On rank 0.
  void require_owner() const;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  void look() const;
  std::string path_;
  Use use_;
  Communicator comm_;
  std::vector<std::string> made_;       // on rank 0: folders that were not there, innermost first
  std::unique_ptr<FolderOwner> owner_;  // on rank 0
};

/// resolved.yaml: the job with every choice, then (as comments) versions and `inputs`, SHA-256 and path of
/// what was read, one a line.
std::string resolved_text(const JobConfig& job, int ranks, const std::string& denoiser,
                          const std::string& inputs);

/// How a picture holds an image in internal range: its sample, as ImageSink takes it, is internal * gain +
/// bias. As it stands: to be looked at, 8 bits, 1 inside is white.
struct PictureForm {
  int bits = 8;
  double gain = 1, bias = 0;
};
/// The units of the job's data, in 8, 16 or 32 bits (floats).
PictureForm in_file_units(const RunPlan& plan, int bits);
/// The bits that hold the data's type of number: 32 where it is neither uint8 nor uint16.
int data_bits(const RunPlan& plan);
/// What output.preview is: TIFF in the units of the data, PNG and JPEG to be looked at. InputError where
/// units and bits do not fit.
PictureForm preview_form(const RunPlan& plan);

/// What a file of the result may say: what the job says of its grid, else what the truth or the measurement
/// says, where it has the same. Collective.
ImageRecord result_record(const RunPlan& plan, const Communicator& comm);
/// The image in file units, float32 (float64 where units are extreme and the format has it), with what its
/// values mean where the format can say it. `part`: what to keep. Collective.
void write_image(const std::string& path, const RunPlan& plan, const at::Tensor& image, const Box& part,
                 const Communicator& comm);
/// InputError where the file that output.also names cannot hold the result.
void require_also(const RunPlan& plan);
/// reconstruction.h5, the file of output.also and the preview. Collective. `part`: what to keep; `record`: result_record().
void write_reconstruction(const OutputFolder& folder, const RunPlan& plan, const at::Tensor& image,
                          const Box& part, const ImageRecord& record, const Communicator& comm);
/// measurement.png, which reports show: the first part of y, clamped to [0, 1]. Nothing without a preview, or
/// where the part is no picture or has more than 4096 x 4096 samples (a big PNG takes minutes). Collective.
void write_measurement(const OutputFolder& folder, const RunPlan& plan, const ProductSpace& layout,
                       const at::Tensor& y, const Communicator& comm);
/// bad.png, where there are weights (of the first part): black samples that count 0, however they came by that, white all
/// others. Nothing under the same conditions. Collective.
void write_bad(const OutputFolder& folder, const RunPlan& plan, const ProductSpace& layout,
               const at::Tensor& weights, const Communicator& comm);
/// A picture of a distributed image in internal range; channels 1 or 3. `about`: space and metadata of the whole
/// image, which go along as far as the format can say them. Collective.
void write_preview(const std::string& path, const at::Tensor& image, const Box& box, const Layout& layout,
                   const Box& part, const PictureForm& form, const Communicator& comm,
                   const ImageRecord& about = {});

/// Progress on rank 0: iterations, seconds per iteration, time left, residual, PSNR when known.
class Progress final : public Observer {
 public:
  Progress(Log& log, int iterations) : log_(log), iterations_(iterations) {}
  void on_result(const IterationResult& result) override;
  /// Median seconds per iteration so far, without the first (it warms up).
  double seconds_per_iteration() const;
  /// Of all of them, on this rank.
  double seconds() const;

 private:
  Log& log_;
  int iterations_;
  std::vector<double> seconds_;
  double kept_ = -1e9;  // when a line went into the log's file
};

/// What this rank sent and waited for so far, and what went between it and disks (all of it: files, scratch).
struct Traffic {
  double bytes = 0, wait = 0;
  DiskTraffic disk{};
};
Traffic traffic(const TraceWriter& trace);

/// Numbers of the loop for summary.json; `seconds`: of this rank's iterations. Collective.
struct LoopSummary {
  double bytes_sent_per_iteration = 0;              // all ranks together, reductions not counted
  double exposed_wait_fraction = 0;                 // of the iterations' time, all ranks (docs/trace.md)
  std::vector<double> peak_bytes, peak_data_bytes;  // per rank, tracked
  std::vector<double> resident_peak_bytes;          // per rank, of the process
  std::vector<double> scratch_bytes;                // per rank, the file's size; 0: none
  double read_per_iteration = 0, written_per_iteration = 0;  // from disks and to them, all ranks together
};
LoopSummary summarize(const Traffic& before, const Traffic& after, double seconds, int iterations,
                      const Communicator& comm);

/// The final table: phase, time (mean and worst rank), share, bytes, exposed wait, peak memory. Collective.
std::string phase_table(const TraceWriter& trace, const Communicator& comm);

}  // namespace tessera
