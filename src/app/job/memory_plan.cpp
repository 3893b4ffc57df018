// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/app/memory_plan.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tessera/app/tuning.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/units.hpp"

namespace tessera {
namespace {

constexpr double kMargin = 1.15;  // of the cost model
constexpr std::int64_t kSlack = std::int64_t{16} << 20;
// Of the state's file that has to be resident: what is read and written at one moment, and the kernel's pages around it.
constexpr std::int64_t kWindow = std::int64_t{48} << 20;

std::int64_t with_margin(double bytes) { return static_cast<std::int64_t>(kMargin * bytes); }

std::string in_words(std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

void add_bytes(const RunPlan& plan, MemoryPlan& m) {
  const Modelled model = model_job(plan, plan.device.is_cuda());
  const Index3 halo = plan.network ? window_halo(*plan.network) : Index3{};
  // A start that fills what no sample sees takes more for a moment than an iteration, whose images it has not made yet.
  constexpr double kFilling = 5;
  const auto thins = [](const OperatorConfig& part) { return find_operator(part.type).marks.has_value(); };
  const bool fills =
      plan.job.solver.start == "auto" &&
      (!plan.job.problem.weights.empty() || std::any_of(plan.parts.begin(), plan.parts.end(), thins));
  double most = 0, file = 0;
  for (const auto& [rank, count] :
       representatives(plan.decomposition, std::max<std::int64_t>(longest(halo), 64))) {
    const auto kept = static_cast<double>(
        data_memory(plan.decomposition, model.data, halo, plan.job.execution.planes, rank));
    most = std::max(most, kept + data_moment(model.data, plan.decomposition, rank));
    file = std::max(file, kept + data_moment(model.data, plan.decomposition, rank, fills ? kFilling : 1));
  }
  m.state = with_margin(most) + kSlack;
  m.file = with_margin(file) + kSlack;
  if (!model.network) return;
  const Precision precision = plan.job.execution.precision, early = plan.job.denoiser.early_precision;
  double weights = weight_memory(*model.network, precision, plan.device.is_cuda());
  if (early != Precision::float32 && early != precision)
    weights += weight_memory(*model.network, early, plan.device.is_cuda());
  m.weights = with_margin(weights);
}

[[noreturn]] void refuse(const RunPlan& plan, const MemoryPlan& m) {
  const std::int64_t needed = m.program + m.weights + (m.scratch ? kWindow + m.margin : m.state);
  const char* const what = m.scratch ? "a window of the scratch file" : "state, data";
  throw InputError(concat(m.budget ? "memory is " : "free memory is ", in_words(m.most), " per rank (",
                          m.program > 0 ? "program, libraries, " : "", what,
                          m.weights > 0 ? " and weights" : "", " of a rank take up to ", in_words(needed),
                          plan.network ? ", which leaves the network nothing) " : ") ",
                          m.budget ? "raise it, or use more ranks" : "use more ranks on more nodes",
                          !m.scratch && plan.job.scratch == "never" && !plan.device.is_cuda()
                              ? ", or leave 'scratch: never' out"
                              : ""));
}

std::string existing(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code none;
  fs::path there = fs::absolute(folder, none);
  while (!fs::is_directory(there, none) && there.has_relative_path()) there = there.parent_path();
  return there.string();
}

}  // namespace

MemoryPlan plan_memory(const RunPlan& plan, std::int64_t available) {
  MemoryPlan m;
  const auto budget = memory_budget(plan.job, available);
  m.most = budget.value_or(available);
  m.budget = budget.has_value();
  const bool device = plan.device.is_cuda();
  TESSERA_VALIDATE(
      !device || plan.job.scratch != "always",
      "scratch is always (the state lies on the GPU, and this is for what does not fit into a host's "
      "memory) write 'scratch: auto', or 'device: cpu'");
  // A budget is of the whole process; what is free is beside what it has already.
  const std::string& scratch = plan.job.scratch;
  m.program = !device && (budget || scratch != "never") ? process_bytes() : 0;
  const std::int64_t program = budget ? m.program : 0;
  add_bytes(plan, m);
  const bool fits = m.most > program + m.state + m.weights;
  m.scratch = !device && scratch != "never" && (scratch == "always" || !fits);
  if (!m.scratch) {
    m.program = program;
    if (!plan.network && !budget) return m;  // it may end, and nothing here knows better
    m.features = m.most - program - m.state - m.weights;
  } else {
    // One fault may make a folio of megabytes resident, of which a window reads a row.
    m.margin = std::min(m.most / 4, std::int64_t{512} << 20);
    const std::int64_t left = m.most - program - m.weights - m.margin;
    m.features = left - std::min(m.state, std::max(kWindow, left / 4));
  }
  if (m.features <= 0) refuse(plan, m);
  if (!budget) m.features = std::min(m.features, available / 2);
  return m;
}

std::string scratch_folder(const JobConfig& job) {
  const std::string& named = job.scratch_folder;
  std::vector<std::string> folders;
  if (named != "auto") {
    TESSERA_VALIDATE(std::filesystem::is_directory(named), "scratch_folder ", named,
                     " is not there (the state is kept in a file in it) make it, or name another");
    folders = {named};
  } else {
    for (const char* const name : {"SLURM_TMPDIR", "TMPDIR"})
      if (const char* const value = std::getenv(name); value && std::filesystem::is_directory(value))
        folders.emplace_back(value);
    folders.push_back(existing(job.output.folder.empty() ? "." : job.output.folder));
  }
  for (const std::string& folder : folders)
    if (!scratch_disk(folder).in_memory) return folder;
  throw InputError(concat("the scratch folder ", folders.back(), " is in memory (",
                          scratch_disk(folders.back()).type,
                          ", which takes what the file is to spare) name one on a disk by scratch_folder"));
}

std::unique_ptr<ScratchScope> open_scratch(const RunPlan& plan, const Communicator& comm, std::string& said) {
  std::unique_ptr<ScratchScope> scope;
  comm.together([&] {
    const MemoryPlan m = plan_memory(plan, available_bytes(plan, comm.local_size()));
    if (!m.scratch) return;
    // The heap gives back what is freed: glibc keeps up to 64 MB of it, and more between other pieces.
    ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 1 << 20);
    const std::string folder = scratch_folder(plan.job);
    const ScratchDisk disk = scratch_disk(folder);
    const std::int64_t all = m.file * comm.local_size();
    TESSERA_VALIDATE(disk.free > all, "the disk of the scratch folder ", folder, " has ", in_words(disk.free),
                     " left (the state of ", comm.local_size(), " rank", comm.local_size() == 1 ? "" : "s",
                     " takes ", in_words(all), ") free space there, or name another scratch_folder");
    const std::int64_t block = plan.image.bytes(plan.decomposition.block(comm.rank()));
    const std::int64_t least = std::max<std::int64_t>(std::int64_t{1} << 18, block / 8);
    scope = std::make_unique<ScratchScope>(
        std::make_shared<Scratch>(folder, (m.budget ? 0 : m.program) + m.most - m.margin), least);
    said = fmt::format("the state, about {} per rank, lies in a scratch file in {}{} ({})", in_words(m.file),
                       folder, disk.type.empty() ? "" : ", " + disk.type,
                       plan.job.scratch == "always" ? "scratch: always"
                                                    : fmt::format("memory is {} per rank", in_words(m.most)));
    if (const double rate = comm.local_rank() == 0 ? disk_rate(folder) : 0; rate > 0) {
      said.insert(said.size() - 1, fmt::format(", the disk goes at {}/s", format_bytes(rate)));
      constexpr double kSlow = 200e6;
      if (rate < kSlow) said += ": it will limit, name a faster one by scratch_folder";
    }
    if (disk.remote)
      said += ", over a network, whose rate may limit: scratch_folder names a disk of the node";
  });
  return scope;
}

}  // namespace tessera
