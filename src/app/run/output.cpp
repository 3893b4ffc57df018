// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/output.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "job/shown_part.hpp"
#include "job/survey.hpp"
#include "run/folder_owner.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/units.hpp"
#include "tessera/core/version.hpp"
#include "tessera/domain/light.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/domain/tensor_memory.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/samples/masked_pixels.hpp"
#include "tessera/solve/checkpoint.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// mpirun gives every rank a pseudo terminal, whatever stands behind it: jobs/launch.sh knows and says so.
bool on_terminal() {
  if (const char* said = std::getenv("TESSERA_TERMINAL")) return said == std::string("1");
  return !mpi_running() && isatty(STDOUT_FILENO) != 0;
}

// Columns of the terminal; 0: not known. jobs/launch.sh measures it for its ranks.
std::size_t columns() {
  if (const char* said = std::getenv("TESSERA_COLUMNS"))
    return static_cast<std::size_t>(std::max(0, std::atoi(said)));
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// Of a line of parts that two blanks keep apart, as many as fit: one blank, then without what stands behind the second part.
std::string fitting(const std::string& text, std::size_t width) {
  if (width == 0) return text;
  std::vector<std::string> parts;
  for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 2)
    parts.push_back(text.substr(at, (end = text.find("  ", at)) - at));
  std::string line = text;  // the last column would begin a new line
  for (const char* between = "  "; line.size() >= width && parts.size() > 2; between = " ") {
    line = fmt::format("{}", fmt::join(parts, between));
    if (line.size() >= width && *(between + 1) == 0) parts.erase(parts.begin() + 2);
  }
  return line.substr(0, width - 1);
}

// Whether an iteration is worth a line of the file: 1, 2, 5, 10, 20 ...
bool round_number(int iteration) {
  while (iteration % 10 == 0) iteration /= 10;
  return iteration == 1 || iteration == 2 || iteration == 5;
}

// What a run makes anew; log.txt is kept where a run that was lost early starts again.
bool is_result(const std::string& name) {
  static const std::vector<std::string> names = {
      "trace",           "trace.h5",     "summary.json", "reconstruction.h5", "log.txt",
      "resolved.yaml",   "log",          "checkpoint",   "status.json",       "bad.png",
      "measurement.png", "residual.png", "chi2.png",     "geometry.png"};
  const bool old_trace = name.size() > 6 && name.starts_with("trace-") &&
                         name.find_first_not_of("0123456789", 6) == std::string::npos;
  return old_trace || std::find(names.begin(), names.end(), name) != names.end();
}

// What a folder may hold that a batch script has made ready.
bool ours(const std::string& name) {
  return is_result(name) || is_temporary(name) || name == "job.yaml" || name.starts_with("slurm") ||
         name.starts_with("iteration-");
}

}  // namespace

Log::Log(bool speaks, const std::string& path) : speaks_(speaks), terminal_(on_terminal()) {
  if (speaks && !path.empty()) file_ = std::fopen(path.c_str(), "a");
}
Log::~Log() {
  if (file_) std::fclose(file_);
}

void Log::line(const std::string& text) {
  if (!speaks_) return;
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  if (!file_) return;
  std::fprintf(file_, "%s\n", text.c_str());
  std::fflush(file_);
}

bool Log::progress_due(bool last) const {
  return speaks_ && (last || now() - last_print_ > (terminal_ ? 0.1 : 10));
}

void Log::progress(const std::string& text, bool last, bool keep) {
  if (keep && file_) {
    std::fprintf(file_, "%s\n", text.c_str());
    std::fflush(file_);
  }
  if (!progress_due(last)) return;
  last_print_ = now();
  if (terminal_)
    std::printf("\r%s\033[K%s", fitting(text, columns()).c_str(), last ? "\n" : "");
  else
    std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

OutputFolder::OutputFolder(std::string path, Use use, const Communicator& comm)
    : path_(std::move(path)), use_(use), comm_(comm) {
  comm_.together([&] {
    if (comm_.rank() != 0) return;
    look();
    std::error_code none;
    if (!fs::is_directory(path_, none)) return;
    owner_ = std::make_unique<FolderOwner>(path_, "output.folder");
    look();  // what stands there now is what this program finds
  });
}

OutputFolder::~OutputFolder() = default;

void OutputFolder::look() const {
  std::error_code ignored;
  TESSERA_VALIDATE(!fs::exists(path_, ignored) || fs::is_directory(path_, ignored), path_,
                   " is a file (a run writes a folder) ", "name another output.folder");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_, ignored))
    if (const std::string name = entry.path().filename().string(); name != FolderOwner::kFile)
      names.push_back(name);
  TESSERA_VALIDATE(
      use_ != Use::fresh || names.empty(), path_,
      " exists (a run never overwrites) name another output.folder, or add --force; --resume goes "
      "on with a run that has a checkpoint");
  if (use_ != Use::automatic || names.empty() || !CheckpointFolder(file("checkpoint")).list().empty()) return;
  TESSERA_VALIDATE(!fs::exists(file("reconstruction.h5"), ignored), path_,
                   " holds a result and no checkpoint (a run never overwrites, and there is nothing to go on "
                   "from) name another output.folder, or add --force");
  for (const std::string& name : names)
    TESSERA_VALIDATE(
        ours(name), path_, " holds ", name,
        " and no checkpoint (--resume=auto starts only in a folder that is new, or of a run) name "
        "another output.folder, or add --force");
}

void OutputFolder::take_back() {
  if (made_.empty()) return;
  std::error_code none;
  for (const char* name : {"trace", "checkpoint"}) fs::remove(file(name), none);
  owner_.reset();  // with its file
  for (const std::string& folder : made_) fs::remove(folder, none);
}

void OutputFolder::create(bool goes_on) {
  comm_.together([&] {
    if (comm_.rank() != 0) return;
    std::error_code error;
    for (fs::path p = fs::absolute(path_).lexically_normal();
         !p.empty() && !fs::exists(p, error) && p != p.root_path(); p = p.parent_path())
      made_.push_back(p);
    fs::create_directories(path_, error);
    TESSERA_VALIDATE(!error, "cannot make ", path_, " (", error.message(), ") name another output.folder");
    if (!owner_) {  // it was not there before
      owner_ = std::make_unique<FolderOwner>(path_, "output.folder");
      look();
      TESSERA_VALIDATE(CheckpointFolder(file("checkpoint")).list().empty(), path_,
                       " was made by another run meanwhile (a run never overwrites) start again");
    }
    owner_->require();
    for (const char* folder : {"", "checkpoint", "trace", "log"})
      for (const auto& entry : fs::directory_iterator(file(folder), error))
        if (is_temporary(entry.path().filename().string())) fs::remove_all(entry.path(), error);
    std::vector<fs::path> old;
    for (const auto& entry : fs::directory_iterator(path_, error)) old.push_back(entry.path());
    for (const fs::path& path : old)
      if (const std::string name = path.filename().string();
          !goes_on && is_result(name) && (use_ != Use::automatic || name != "log.txt"))
        fs::remove_all(path, error);
    for (const char* name : {"trace", "checkpoint"}) {
      fs::create_directories(file(name), error);
      TESSERA_VALIDATE(!error, "cannot make ", file(name), " (", error.message(),
                       ") name another output.folder");
    }
  });
}

void OutputFolder::require_owner() const {
  if (owner_) owner_->require();
}

std::string resolved_text(const JobConfig& job, int ranks, const std::string& denoiser,
                          const std::string& inputs) {
  std::string text = write_job(job);
  text +=
      fmt::format("\n# tessera {} ({}), {} ranks\n# denoiser: {}\n", version(), commit(), ranks, denoiser);
  for (std::size_t at = 0, end = 0; (end = inputs.find('\n', at)) != std::string::npos; at = end + 1)
    text += "# sha256 " + inputs.substr(at, end + 1 - at);
  return text;
}

void write_preview(const std::string& path, const at::Tensor& image, const Box& box, const Layout& layout,
                   const Box& part, const PictureForm& form, const Communicator& comm,
                   const ImageRecord& about) {
  std::vector<Box> kept;
  for (int r = 0; r < layout.ranks(); ++r) kept.push_back(layout.box(r).intersect(part));
  const Box mine = box.intersect(part);
  at::Tensor host = crop(image, box, mine).to(at::kCPU, at::kFloat).contiguous();
  if (form.gain != 1 || form.bias != 0) host = host.mul(form.gain).add_(form.bias);
  ImageRecord record = about;
  record.space = about.space.on(part).with_channels(host.size(0));
  if (about.space.channels != host.size(0)) record.metadata.profile.clear();  // of other colors
  record.bits = form.bits;
  write_image(path, record, Layout(kept), view(host, mine), comm);
}

PictureForm in_file_units(const RunPlan& plan, int bits) {
  const double top = bits == 8 ? 255 : bits == 16 ? 65535 : 1;  // whole numbers are written of [0, 1]
  return {bits, plan.factor / top, plan.offset / top};
}

int data_bits(const RunPlan& plan) {
  return plan.data.type == "uint8" ? 8 : plan.data.type == "uint16" ? 16 : 32;
}

PictureForm preview_form(const RunPlan& plan) {
  constexpr double kCoarse = 32;  // steps between 0 and 1 below which rounding is damage
  const OutputConfig& out = plan.job.output;
  const int bits = static_cast<int>(out.preview_bits);
  const ImageFormat* const format = find_format(out.preview);
  // One that holds floats holds the data as they are.
  if (!format || !format->writes(32)) return {.bits = bits == 0 ? 8 : bits};
  const double top = bits == 8 ? 255 : 65535;
  TESSERA_VALIDATE(bits == 0 || bits == 32 || (plan.factor >= kCoarse && plan.offset + plan.factor <= top),
                   "output.preview_bits is ", bits,
                   " (a TIFF is in the units of the data, in which 0 and 1 "
                   "inside are ",
                   plan.offset, " and ", plan.offset + plan.factor,
                   ") write 'preview_bits: auto', or a .png, in which 1 inside is white");
  return in_file_units(plan, bits > 0 ? bits : format->writes(data_bits(plan)) ? data_bits(plan) : 32);
}

namespace {

// Pixel p of the image is sample step p + first of the file, along slices, rows and columns.
struct SampleGrid {
  std::array<double, 3> step{1, 1, 1}, first{};
};

// From a tap's pixel to the middle of all of them, along an axis.
double middle_of(const Convolution& samples, std::size_t d) {
  const std::array<std::int64_t, 3> others{0, d == 0 ? 2 : 1, d == 2 ? 2 : 3};
  const at::Tensor taps = samples.taps.sum(at::IntArrayRef(others)).to(at::kDouble).contiguous();
  double sum = 0, moment = 0;
  for (std::int64_t j = 0; j < taps.size(0); ++j) {
    const double tap = taps.const_data_ptr<double>()[j];
    sum += tap;
    moment += tap * static_cast<double>(samples.origin[d] - j);
  }
  return sum == 0 ? 0 : moment / sum;
}

// Of the first part, where it is that file; nothing where its samples stand nowhere in particular.
std::optional<SampleGrid> samples_on_image(const RunPlan& plan, const Box& file) {
  const ProductSpace range = plan.op->range(plan.domain());
  const ProductSpace::Part& part = range.part(0);
  if (!part.anchor || file.empty() || part.box().extents() != file.extents()) return std::nullopt;
  const std::vector<OperatorTraits::Part> parts = plan.op->traits(plan.domain()).parts;
  SampleGrid out;
  for (std::size_t d = 0; d < 3; ++d) {
    const auto factor = static_cast<double>(part.anchor->factor[d]);
    double own = static_cast<double>(part.anchor->offset[d]);
    if (factor > 1 && !parts.empty() && parts[0].convolution) own += middle_of(*parts[0].convolution, d);
    out.step[d] = 1 / factor;
    out.first[d] = -own / factor - static_cast<double>(part.box().lo()[d]);
  }
  return out;
}

}  // namespace

ImageRecord result_record(const RunPlan& plan, const Communicator& comm) {
  const ProblemConfig& problem = plan.job.problem;
  std::string path = problem.truth;
  if (path.empty() && !problem.measurements.empty() && !plan.scan)
    path = plan.files->headers().parts(problem.measurements, comm).front().path;
  ImageRecord record = record_from(path, comm);
  // Pixels of another grid are of another size.
  const ImageSpace found = record.space;
  record.space = ImageSpace(plan.image.box, plan.image.channels);
  if (found.box == plan.image.box) {
    record.space = found.with_channels(plan.image.channels);
  } else if (const auto grid = problem.truth.empty() ? samples_on_image(plan, found.box) : std::nullopt) {
    record.space = found.with_channels(plan.image.channels).on(plan.image.box);
    move_pixels(record, grid->step, grid->first);
  } else {
    forget_place(record.metadata);
  }
  if (found.channels != plan.image.channels) record.metadata.profile.clear();  // of other colors
  const ImageConfig& grid = problem.image;
  for (std::size_t k = 0; k < grid.pixel.size(); ++k) {
    ImageSpace::Axis& axis = record.space.grid[3 - grid.pixel.size() + k];
    axis = {axis.name, grid.pixel[k], grid.unit};
  }
  return record;
}

namespace {

void write_in_units(const std::string& path, const RunPlan& plan, const at::Tensor& image, const Box& part,
                    ImageRecord record, const Communicator& comm) {
  const Box block = plan.decomposition.block(comm.rank());
  const Box mine = block.intersect(part);
  // float32 holds the units of nearly all files; not fluxes of 1e-40, nor small differences of large numbers.
  constexpr double kFar = 512;
  const bool extreme =
      float_exponent(std::abs(plan.factor)) != 0 || std::abs(plan.offset) > kFar * std::abs(plan.factor);
  const at::Tensor units = stored_of(crop(image, block, mine), plan.curve)
                               .to(at::kCPU, extreme ? at::kDouble : at::kFloat, false, /*copy=*/true)
                               .contiguous()
                               .mul_(plan.factor)
                               .add_(plan.offset);
  std::vector<Box> kept;
  for (int r = 0; r < comm.size(); ++r) kept.push_back(plan.decomposition.block(r).intersect(part));
  record.space = record.space.on(part);
  record.bits = extreme && output_format(path).writes(64) ? 64 : 32;
  record.says_scale = true;
  record.factor = plan.factor;
  record.offset = plan.offset;
  record.curve = plan.curve;
  record.version = plan.job.output.zarr;
  if (plan.job.output.compression != "none") record.compression = plan.job.output.compression;
  write_image(path, record, Layout(kept), view(units, mine), comm);
}

}  // namespace

void write_image(const std::string& path, const RunPlan& plan, const at::Tensor& image, const Box& part,
                 const Communicator& comm) {
  write_in_units(path, plan, image, part, result_record(plan, comm), comm);
}

void require_also(const RunPlan& plan) {
  const std::string& also = plan.job.output.also;
  if (also.empty()) return;
  require_writable(output_format(also), also, {.space = plan.image});
}

void write_reconstruction(const OutputFolder& folder, const RunPlan& plan, const at::Tensor& image,
                          const Box& part, const ImageRecord& record, const Communicator& comm) {
  const PhaseScope phase(Phase::write);
  write_in_units(folder.file("reconstruction.h5"), plan, image, part, record, comm);
  const OutputConfig& out = plan.job.output;
  if (!out.also.empty()) write_in_units(folder.file(out.also), plan, image, part, record, comm);
  if (!out.preview.empty() && (plan.image.channels == 1 || plan.image.channels == 3))
    write_preview(folder.file(out.preview), stored_of(image, plan.curve),
                  plan.decomposition.block(comm.rank()), plan.decomposition.layout(), middle_slice(part),
                  preview_form(plan), comm, record);
}

void write_measurement(const OutputFolder& folder, const RunPlan& plan, const ProductSpace& layout,
                       const at::Tensor& y, const Communicator& comm) {
  constexpr std::int64_t kMost = 4096 * 4096;
  const ImageSpace& space = layout.part(0).space;
  if (plan.job.output.preview.empty() || (space.channels != 1 && space.channels != 3)) return;
  const ShownPart shown = shown_part(layout, 0, y, comm.rank());
  if (shown.box.pixels() > kMost) return;
  const PhaseScope phase(Phase::write);
  PictureForm form;
  if (!in_image_range(plan)) {
    double most =
        shown.values.numel() > 0 ? shown.values.nan_to_num(0.0, 0.0, 0.0).max().item().toDouble() : 0;
    comm.all_reduce({&most, 1}, Reduce::max);
    if (most > 0) form.gain = 1 / most;
  }
  const at::Tensor values = in_image_range(plan) ? stored_of(shown.values, plan.curve) : shown.values;
  write_preview(folder.file("measurement.png"), values, shown.layout.box(comm.rank()), shown.layout,
                shown.box, form, comm, record_from(plan.job.problem.truth, comm));
}

void write_bad(const OutputFolder& folder, const RunPlan& plan, const ProductSpace& layout,
               const at::Tensor& weights, const Communicator& comm) {
  constexpr std::int64_t kMost = 4096 * 4096;
  if (plan.job.output.preview.empty() || !weights.defined()) return;
  if (const std::int64_t n = layout.part(0).space.channels; n != 1 && n != 3) return;
  const ShownPart shown = shown_part(layout, 0, weights, comm.rank());
  if (shown.box.pixels() > kMost) return;
  const PhaseScope phase(Phase::write);
  write_preview(folder.file("bad.png"), shown.values.ne(0).to(at::kFloat), shown.layout.box(comm.rank()),
                shown.layout, shown.box, {}, comm);
}

void Progress::on_result(const IterationResult& r) {
  seconds_.push_back(r.seconds);
  const bool last = r.iteration + 1 == iterations_;
  const bool keep = last || round_number(r.iteration + 1) || now() - kept_ > 10;
  if (!keep && !log_.progress_due(last)) return;  // the median of many iterations is not free
  if (keep) kept_ = now();
  const double each = seconds_per_iteration();
  std::string text =
      fmt::format("iteration {}/{}  {}/it  left {}", r.iteration + 1, iterations_, format_seconds(each),
                  format_seconds(each * (iterations_ - r.iteration - 1)));
  text += fmt::format("  change {:.2e}", r.residual);
  if (!std::isnan(r.chi2)) text += fmt::format("  chi2 {:.3g}", r.chi2);
  if (!std::isnan(r.psnr)) text += fmt::format("  PSNR {:.2f} dB", r.psnr);
  log_.progress(text, last, keep);
}

double Progress::seconds() const { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }

double Progress::seconds_per_iteration() const {
  if (seconds_.empty()) return 0;
  std::vector<double> s(seconds_.begin() + (seconds_.size() > 1 ? 1 : 0), seconds_.end());
  std::nth_element(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(s.size() / 2), s.end());
  return s[s.size() / 2];
}

Traffic traffic(const TraceWriter& trace) {
  Traffic t;
  for (const auto& [phase, total] : trace.totals()) {
    t.bytes += static_cast<double>(total.bytes_sent);
    t.wait += total.wait_seconds;
  }
  t.disk = disk_traffic();
  return t;
}

LoopSummary summarize(const Traffic& before, const Traffic& after, double seconds, int iterations,
                      const Communicator& comm) {
  double sums[5] = {after.bytes - before.bytes, after.wait - before.wait, seconds,
                    static_cast<double>(after.disk.read - before.disk.read),
                    static_cast<double>(after.disk.written - before.disk.written)};
  comm.all_reduce(sums, Reduce::sum);
  LoopSummary s;
  s.bytes_sent_per_iteration = iterations > 0 ? sums[0] / iterations : 0;
  s.exposed_wait_fraction = sums[2] > 0 ? sums[1] / sums[2] : 0;
  s.peak_bytes = comm.all_gather(static_cast<double>(memory_peak()));
  s.peak_data_bytes = comm.all_gather(static_cast<double>(memory_peak(MemoryUse::data)));
  s.scratch_bytes = comm.all_gather(static_cast<double>(scratch_bytes()));
  if (iterations > 0) {
    s.read_per_iteration = sums[3] / iterations;
    s.written_per_iteration = sums[4] / iterations;
  }
  s.resident_peak_bytes = comm.all_gather(static_cast<double>(resident_peak_bytes()));
  return s;
}

std::string phase_table(const TraceWriter& trace, const Communicator& comm) {
  constexpr std::array kinds = {Phase::load,       Phase::halo,    Phase::op,      Phase::adjoint,
                                Phase::prox,       Phase::denoise, Phase::reduce,  Phase::metrics,
                                Phase::checkpoint, Phase::write,   Phase::scratch, Phase::other};
  std::vector<double> sums, worst;
  for (const Phase p : kinds) {
    const auto found = trace.totals().find(p);
    const TraceWriter::PhaseTotal t =
        found == trace.totals().end() ? TraceWriter::PhaseTotal{} : found->second;
    for (const double v : {t.own_seconds, static_cast<double>(t.bytes_sent), t.wait_seconds,
                           static_cast<double>(t.peak_bytes)}) {
      sums.push_back(v);
      worst.push_back(v);
    }
  }
  comm.all_reduce(sums, Reduce::sum);
  comm.all_reduce(worst, Reduce::max);
  const double ranks = comm.size();
  double total = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) total += sums[4 * i] / ranks;

  std::string out = fmt::format("{:<10} {:>10} {:>10} {:>6} {:>10} {:>10} {:>10}\n", "phase", "mean", "worst",
                                "share", "sent", "waited", "peak mem");
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (worst[4 * i] <= 0) continue;
    const double mean = sums[4 * i] / ranks;
    out += fmt::format("{:<10} {:>10} {:>10} {:>5.1f}% {:>10} {:>10} {:>10}\n", name(kinds[i]),
                       format_seconds(mean), format_seconds(worst[4 * i]), total > 0 ? 100 * mean / total : 0,
                       format_bytes(sums[4 * i + 1]), format_seconds(worst[4 * i + 2]),
                       format_bytes(worst[4 * i + 3]));
  }
  return out;
}

}  // namespace tessera
