// SPDX-License-Identifier: BSD-3-Clause
// tessera plan: what a job would take on so many ranks of a machine, by arithmetic.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "command/command.hpp"
#include "job/inner_iterations.hpp"
#include "tessera/app/tuning.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/memory.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/keep_open.hpp"
#include "tessera/perf/disk.hpp"
#include "tessera/perf/published.hpp"

namespace tessera {
namespace {

struct PlanArguments {
  std::string job, machine, csv;
  std::vector<std::string> overrides, precisions;
  std::vector<int> ranks;
  std::vector<std::int64_t> sizes;  // sides of the images of strong and weak
  int threads = 0;                  // per rank, of this computer; 0: as jobs/launch.sh
  bool strong = false, weak = false;
};

struct Case {
  std::string table;  // job, strong, weak
  Box image;
  int ranks = 1;
  Precision precision = Precision::float32;
};

/// What a row is predicted from.
struct Source {
  Machine machine;
  int threads = 0;    // per rank; 0: not said
  double cores = 1;   // that all ranks compute on; ranks, where the file does not say their threads
  double memory = 0;  // per rank, bytes; 0: not known
};

struct Row {
  Case what;
  Source source;
  Grid3 grid{};
  Prediction p{};
  double budget = 0;
  double resident =
      0;  // bytes of a rank's process, program and libraries included; on a GPU those of its memory
  DiskBytes disk{};  // of a rank's scratch file in an iteration, where it does not fit
  bool fits() const { return budget <= 0 || resident <= budget; }
};

std::string size_text(const Box& image) { return fmt::format("{}", fmt::join(size_of(image), "x")); }

std::string grid_text(const Row& r) {
  const std::string depth = r.grid[0] > 1 ? fmt::format("{}x", r.grid[0]) : "";
  return fmt::format("{}{}x{}", depth, r.grid[1], r.grid[2]);
}

// Any number of ranks of the machine of --machine.
Source described(const Machine& machine, int ranks) {
  return {machine, machine.threads(), static_cast<double>(ranks) * std::max(1, machine.threads()),
          machine.memory};
}

// So many ranks on this computer, as jobs/launch.sh starts them.
Source on_this_computer(const RunPlan& plan, const Place& place, const std::optional<Machine>& measured) {
  const double cores = std::thread::hardware_concurrency(), all = place.ranks * place.threads;
  Source s{guessed_machine(plan.device.is_cuda()), 0, static_cast<double>(place.ranks), 0};
  if (measured) {
    s.machine = *measured;
    s.threads = place.threads;
    if (!plan.device.is_cuda()) s.cores = std::min(all, cores);
  }
  // Round numbers for more ranks than cores are of other hosts.
  if (measured || place.ranks <= cores) s.memory = static_cast<double>(available_bytes(plan, place.per_host));
  return s;
}

Row plan_case(const RunPlan& job, Source source, double inner, const Case& c) {
  const Machine& machine = source.machine;
  const bool gpu = machine.processors > 0;
  RunPlan plan = with_image(job, c.image, c.ranks);
  plan.job.execution.precision = c.precision;
  Modelled m = model_job(plan, gpu);
  if (inner > 0) m.data.inner = inner;
  Row row{.what = c, .source = source};
  const auto available = static_cast<std::int64_t>(source.memory);
  if (available > 0) row.budget = static_cast<double>(memory_budget(plan.job, available).value_or(available));
  Execution e = wanted_execution(plan, machine);
  if (m.network) {
    std::vector<Prediction> ranked = rank_ways(plan, m, machine, row.budget / 2);
    if (ranked.empty()) {  // nothing fits: say what the least would take
      ranked = rank_ways(plan, m, machine, 0);
      std::stable_sort(ranked.begin(), ranked.end(),
                       [](const Prediction& a, const Prediction& b) { return a.memory < b.memory; });
    }
    TESSERA_VALIDATE(!ranked.empty(), "denoiser.mode is ", word(plan.job.execution.mode), " on ", c.ranks,
                     " ranks (it cannot run there) write 'mode: auto', or plan for other ranks");
    e = ranked.front().execution;
    set_execution(plan, e);
  }
  row.grid = plan.decomposition.grid();
  row.p = predict(machine, m.network ? &*m.network : nullptr, m.data, plan.decomposition, e);
  row.resident = row.p.memory + (gpu ? 0.0 : static_cast<double>(process_bytes()));
  if (!row.fits() && !gpu && m.network && plan.job.scratch != "never")
    row.disk = most_disk_bytes(m.data, plan.decomposition, e, m.network->halo, row.budget / 2);
  return row;
}

// The row that the others of its table are measured against: the fewest ranks whose memory holds the job.
const Row& baseline(const std::vector<Row>& rows, const Row& of, bool weak) {
  const Row* best = nullptr;
  for (const Row& r : rows) {
    if (r.what.table != of.what.table || r.what.precision != of.what.precision) continue;
    if (!weak && r.what.image != of.what.image) continue;
    if (r.fits() && (!best || !best->fits() || r.p.ranks < best->p.ranks)) best = &r;
    if (!best) best = &r;
  }
  return *best;
}

// Pixels per second and core against those of the base: strong and weak scaling alike.
double efficiency_in_table(const std::vector<Row>& rows, const Row& r) {
  const Row& base = baseline(rows, r, r.what.table == "weak");
  const auto rate = [](const Row& row) {
    return static_cast<double>(row.what.image.pixels()) / (row.p.seconds() * row.source.cores);
  };
  return rate(r) / rate(base);
}

std::string limit_in_table(const std::vector<Row>& rows, const Row& r) {
  constexpr double kAlike = 0.05;  // the model's error is no smaller
  const Row& base = baseline(rows, r, r.what.table == "weak");
  if (&base != &r && efficiency_in_table(rows, r) > 1 - kAlike) return "-";
  Prediction before = base.p, now = r.p;
  before.ranks = static_cast<int>(base.source.cores);
  now.ranks = static_cast<int>(r.source.cores);
  if (r.what.table == "weak" && &base != &r) {
    // Against the same work per rank: what grew.
    now.denoise -= before.denoise;
    now.redundant -= before.redundant;
    now.data -= before.data;
    now.exposed -= before.exposed;
    now.reduce -= before.reduce;
    return limiting_term(now, now);
  }
  return limiting_term(before, now);
}

void print_rows(const std::vector<Row>& rows, const std::string& table) {
  bool anchored = false;
  for (const Row& r : rows) anchored = anchored || (r.what.table != "job" && r.what.table == table);
  std::printf("%-13s %6s %8s %9s %-9s %-6s %6s %10s %10s %10s %10s %10s %10s %6s  %-28s%s\n", "image",
              "ranks", "threads", "grid", "precision", "mode", "patch", "time/it", "denoise", "data",
              "hidden", "exchange", "memory", "eff.", "limit", anchored ? "  published: time/it, eff." : "");
  for (const Row& r : rows) {
    if (r.what.table != table) continue;
    const Execution& e = r.p.execution;
    const std::string patch = e.mode == ExecutionMode::layer ? fmt::format("k={}", e.halo_depth.value_or(1))
                              : e.patch                      ? fmt::format("{}", *e.patch)
                                                             : "block";
    std::string line = fmt::format(
        "{:<13} {:>6} {:>8} {:>9} {:<9} {:<6} {:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>5.0f}%  "
        "{:<28}",
        size_text(r.what.image), r.p.ranks,
        r.source.threads > 0 ? std::to_string(r.source.threads) : std::string("-"), grid_text(r),
        word(r.what.precision), r.p.denoise > 0 ? word(e.mode) : "none", patch, format_seconds(r.p.seconds()),
        format_seconds(r.p.denoise), format_seconds(r.p.data), format_seconds(r.p.hidden),
        format_seconds(r.p.exposed + r.p.reduce), format_bytes(r.resident) + (r.fits() ? "" : "!"),
        100 * efficiency_in_table(rows, r), limit_in_table(rows, r));
    const bool square = r.what.image.extent(1) == r.what.image.extent(2);
    if (const Published* known =
            square && anchored && table == "strong" && r.what.precision == Precision::float32
                ? published(r.what.image.extent(1), r.p.ranks)
                : nullptr) {
      const Published* first =
          published(known->size, 1) ? published(known->size, 1) : published(known->size, 2);
      line += fmt::format("  {:>10} {:>4.0f}%", format_seconds(known->seconds),
                          100 * first->seconds * first->ranks / (known->seconds * known->ranks));
    }
    std::printf("%s\n", line.c_str());
  }
}

// What the disks of rows have to do that do not fit into memory; their times are those of the arithmetic.
void say_disk(const std::vector<Row>& rows) {
  for (const Row& r : rows)
    if (r.disk.both() > 0)
      std::printf(
          "scratch: %s on %d rank%s reads %s and writes %s per rank in an iteration, beside its time above\n",
          size_text(r.what.image).c_str(), r.p.ranks, r.p.ranks == 1 ? "" : "s",
          format_bytes(r.disk.read).c_str(), format_bytes(r.disk.written).c_str());
}

// How many ranks the job deserves: of those that hold it the most that are worth their cores.
void say_deserved(const std::vector<Row>& rows) {
  constexpr double kWorth = 0.5;  // of what a core of the fewest ranks does
  const Row* best = nullptr;
  int most = 0;
  for (const Row& r : rows) {
    if (r.what.table != "job" || r.what.precision != rows.front().what.precision) continue;
    most = std::max(most, r.p.ranks);
    if (r.fits() && efficiency_in_table(rows, r) >= kWorth && (!best || r.p.seconds() < best->p.seconds()))
      best = &r;
  }
  if (!best || rows.size() < 2) return;
  std::printf(
      "take %d rank%s: %s an iteration%s\n", best->p.ranks, best->p.ranks == 1 ? "" : "s",
      format_seconds(best->p.seconds()).c_str(),
      best->p.ranks < most ? "; of more, a core does less than half of what it does on the fewest" : "");
}

std::string csv(const std::vector<Row>& rows, double inner) {
  std::string out =
      "table,machine,measured,height,width,ranks,grid_rows,grid_columns,precision,mode,patch,batch,halo_"
      "depth,"
      "transport,seconds,denoise_seconds,redundant_seconds,data_seconds,hidden_seconds,exposed_seconds,"
      "reduce_seconds,memory_bytes,data_bytes,budget_bytes,bytes_sent,efficiency,limit,published_seconds,"
      "published_efficiency,threads,cores,inner_iterations,resident_bytes,depth,grid_depth\n";
  for (const Row& r : rows) {
    const Prediction& p = r.p;
    const Execution& e = p.execution;
    const Machine& machine = r.source.machine;
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},", r.what.table, machine.name,
                       machine.measured ? "measured machine" : "predicted machine", r.what.image.extent(1),
                       r.what.image.extent(2), p.ranks, r.grid[1], r.grid[2], word(r.what.precision),
                       word(e.mode), e.patch.value_or(0), e.batch.value_or(1), e.halo_depth.value_or(1),
                       word(e.transport));
    out +=
        fmt::format("{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.0f},{:.0f},{:.0f},{:.0f},{:.6f},{},",
                    p.seconds(), p.denoise, p.redundant, p.data, p.hidden, p.exposed, p.reduce, p.memory,
                    p.data_bytes, r.budget, p.sent, efficiency_in_table(rows, r), limit_in_table(rows, r));
    const Published* known = r.what.table == "strong" && r.what.precision == Precision::float32 &&
                                     r.what.image.extent(1) == r.what.image.extent(2)
                                 ? published(r.what.image.extent(1), p.ranks)
                                 : nullptr;
    const Published* first = !known                      ? nullptr
                             : published(known->size, 1) ? published(known->size, 1)
                                                         : published(known->size, 2);
    out += known ? fmt::format("{},{:.6f}", known->seconds,
                               first->seconds * first->ranks / (known->seconds * known->ranks))
                 : std::string(",");
    out += fmt::format(",{},{:.0f},{:.4g},{:.0f},{},{}\n", r.source.threads, r.source.cores, inner,
                       r.resident, r.what.image.extent(0), r.grid[0]);
  }
  return out;
}

// What cannot be planned is said before anything is read.
void check_arguments(const PlanArguments& a) {
  TESSERA_VALIDATE(a.sizes.empty() || a.strong || a.weak,
                   "--sizes is given (it is of the tables of --strong and --weak) add one of them, or change "
                   "the job's image");
  TESSERA_VALIDATE(
      a.threads == 0 || a.machine.empty(),
      "--threads is given beside --machine (a machine file has those of its launch) leave one out");
  for (const std::string& p : a.precisions) {
    if (from_word<Precision>(p)) continue;
    const std::string guess = p == "fp16" || p == "half" ? "float16"
                              : p == "fp32"              ? "float32"
                              : p == "bf16"              ? "bfloat16"
                                                         : nearest(p, words<Precision>());
    throw InputError(concat("--precision is ", p, " (it is float32, tf32, bfloat16 or float16) ",
                            guess.empty() ? "write one of them" : "did you mean " + guess + "?"));
  }
}

std::vector<Case> all_cases(const PlanArguments& a, const RunPlan& plan) {
  std::vector<Precision> precisions;
  for (const std::string& p : a.precisions) precisions.push_back(*from_word<Precision>(p));
  if (precisions.empty()) precisions.push_back(plan.job.execution.precision);
  std::vector<int> ranks = a.ranks;
  if (ranks.empty())
    ranks = a.strong || a.weak ? std::vector<int>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
                               : std::vector<int>{1, 2, 4, 8};
  std::vector<std::int64_t> sizes = a.sizes;
  if (sizes.empty()) sizes = {2048, 4096, 8192, 16384, 32768, 65536};
  std::vector<Case> cases;
  for (const Precision precision : precisions) {
    if (!a.strong && !a.weak)
      for (const int r : ranks) cases.push_back({"job", plan.image.box, r, precision});
    if (a.strong)
      for (const std::int64_t n : sizes)
        for (const int r : ranks) cases.push_back({"strong", Box::image2d(n, n), r, precision});
    if (a.weak)  // as many pixels per rank as sizes[0] squared, nearly square
      for (const int r : ranks) {
        int rows = 1;
        for (int k = 1; k * k <= r; ++k)
          if (r % k == 0) rows = k;
        cases.push_back({"weak", Box::image2d(sizes[0] * rows, sizes[0] * (r / rows)), r, precision});
      }
  }
  return cases;
}

/// The rows, and what the user has to know of where they come from.
struct Prediction {
  std::vector<Row> rows;
  std::vector<std::string> notes;
};

Place place_of(const PlanArguments& a, int ranks, const Communicator& comm) {
  return ranks == comm.size() && a.threads == 0 ? this_launch(comm) : pretended_launch(ranks, a.threads);
}

// --machine holds for all ranks. This computer is known as far as it was measured: a row needs the file of
// its launch, since ranks that share cores or memory channels differ. Only where there is none at all, all
// rows are round numbers.
Prediction plan_all(const PlanArguments& a, const RunPlan& plan, const Communicator& comm, double inner) {
  Prediction predicted;
  const std::vector<Case> cases = all_cases(a, plan);
  if (!a.machine.empty()) {
    const std::string path = find_machine(a.machine);
    const Machine machine = parse_machine(read_text(path), path);
    for (const Case& c : cases)
      predicted.rows.push_back(plan_case(plan, described(machine, c.ranks), inner, c));
    return predicted;
  }
  std::map<std::pair<int, Precision>, std::optional<Machine>> measured;
  std::set<int> missing;
  for (const Case& c : cases) {
    RunPlan one = plan;
    one.job.execution.precision = c.precision;
    const auto& found = measured[{c.ranks, c.precision}] = measured_machine(one, place_of(a, c.ranks, comm));
    if (!found) missing.insert(c.ranks);
  }
  const bool any = std::any_of(measured.begin(), measured.end(), [](const auto& m) { return m.second; });
  for (const Case& c : cases) {
    const Place place = place_of(a, c.ranks, comm);
    const auto& found = measured[{c.ranks, c.precision}];
    if (found || !any)
      predicted.rows.push_back(plan_case(plan, on_this_computer(plan, place, found), inner, c));
  }
  std::string list;
  for (const int r : missing) list += (list.empty() ? "" : ", ") + std::to_string(r);
  if (!missing.empty())
    predicted.notes.push_back(fmt::format(
        "{} (this computer was not measured in such a launch) run {}jobs/launch.sh -n {} tessera tune {} "
        "--only-machine{}, or name a file with --machine",
        any ? fmt::format("no row for {} rank{}", list, list == "1" ? "" : "s")
            : "round numbers of a typical machine: expect errors of 2 to 3 times",
        a.threads > 0 ? fmt::format("OMP_NUM_THREADS={} ", a.threads) : "", missing.size() > 1 ? "N" : list,
        a.job, missing.size() > 1 ? fmt::format(" for N = {}", list) : ""));
  return predicted;
}

void print_sources(const std::vector<Row>& rows) {
  std::set<std::string> said;
  for (const Row& r : rows) {
    const Machine& m = r.source.machine;
    const std::string line =
        m.measured ? fmt::format("{}, measured with {} rank{} of {} thread{}", m.name, m.ranks_per_node,
                                 m.ranks_per_node == 1 ? "" : "s", m.threads(), m.threads() == 1 ? "" : "s")
                   : m.name + ", a description, not a measurement";
    if (said.insert(line).second) std::printf("machine: %s\n", line.c_str());
  }
}

int execute(const PlanArguments& a, const Communicator& comm) {
  const KeepOpen reading;
  check_arguments(a);
  const JobConfig config = load_job(a.job, a.overrides, comm);
  TESSERA_VALIDATE(find_denoiser(config.denoiser.network).steady, "the denoiser is ", config.denoiser.network,
                   " (its inner iterations end when they may, no plan can tell when) plan a "
                   "network, or run it");
  JobConfig open = config;
  open.domain.grid.clear();  // a grid belongs to one number of ranks
  const RunPlan plan = plan_run(open, comm, 1);
  InnerIterations inner;
  if (runs_conjugate_gradients(plan, model_job(plan, plan.device.is_cuda())))
    comm.together([&] { inner = expected_inner(plan); });
  Prediction predicted;
  comm.together([&] {
    predicted = plan_all(a, plan, comm, inner.count);
    if (comm.rank() == 0 && !a.csv.empty()) write_text(a.csv, csv(predicted.rows, inner.count));
  });
  if (comm.rank() != 0) return 0;

  std::printf("PREDICTED by the cost model; %s, solver %s, %lld channels\n",
              plan.job.denoiser.network.c_str(), plan.job.solver.name.c_str(),
              static_cast<long long>(plan.image.channels));
  print_sources(predicted.rows);
  for (const std::string& note : predicted.notes) std::printf("note: %s\n", note.c_str());
  for (const std::string& warning : plan.files->warnings()) std::printf("warning: %s\n", warning.c_str());
  if (inner.count > 0)
    std::printf("conjugate gradients: %.1f per data step, %s (solver.prox_iterations allows %lld)\n",
                inner.count, inner.source.c_str(), static_cast<long long>(plan.job.solver.prox_iterations));
  for (const char* table : {"job", "strong", "weak"}) {
    const bool any = std::any_of(predicted.rows.begin(), predicted.rows.end(),
                                 [&](const Row& r) { return r.what.table == table; });
    if (!any) continue;
    if (table != std::string("job"))
      std::printf("\n%s scaling, predicted\n", table == std::string("strong") ? "strong" : "weak");
    print_rows(predicted.rows, table);
    if (table == std::string("job")) say_deserved(predicted.rows);
  }
  say_disk(predicted.rows);
  std::printf(
      "time/it is the slowest rank's; eff.: pixels per second and core against the fewest ranks listed that "
      "hold the job; limit: what costs most of the difference, where that is 5 %% or more; '!': more memory "
      "than a rank has\n");
  if (a.strong)
    std::printf(
        "published: measured, deepinv.distributed on V100, float32, DRUNet on 8 downsamplings, patches of "
        "448 with "
        "overlap 32; efficiency against 1 GPU (8192: 2)\n");
  return 0;
}

}  // namespace

Command plan_command(CLI::App& app) {
  const auto a = std::make_shared<PlanArguments>();
  CLI::App* options = app.add_subcommand(
      "plan", "predicted time, memory and efficiency on pretended ranks of a machine; runs nothing");
  options->add_option("JOB", a->job, "job file")->required();
  options->add_option("--set", a->overrides, "key.path=value");
  options
      ->add_option("--ranks", a->ranks,
                   "numbers of ranks, such as 1,4,16 (default: 1 to 8; scaling: 1 to 1024)")
      ->delimiter(',')
      ->check(above_zero());
  options->add_option(
      "--machine", a->machine,
      "machine file, or a supplied one: a100-, b200-, h100- or h200-nvlink-infiniband, v100 (default: "
      "measured here)");
  options
      ->add_option("--threads", a->threads,
                   "per rank, on this computer (default: its cores over the ranks, as jobs/launch.sh)")
      ->check(above_zero());
  options->add_option("--precision", a->precisions, "over the job's, such as float32,bfloat16")
      ->delimiter(',');
  options->add_flag("--strong", a->strong, "strong scaling of square images");
  options->add_flag("--weak", a->weak, "weak scaling: a square of the first size per rank");
  options->add_option("--sizes", a->sizes, "sides of those images (default: 2048 to 65536)")
      ->delimiter(',')
      ->check(above_zero());
  options->add_option("--csv", a->csv, "write the rows to this file too");
  options->footer(
      "Examples: tessera plan photo.yaml --ranks 1,2,4,8\n"
      "          tessera plan photo.yaml --machine h200-nvlink-infiniband --strong --sizes 4096 --csv "
      "strong.csv");
  return {options, [a](const Launch& launch) { return execute(*a, launch.comm); }, Watched::never};
}

}  // namespace tessera
