// SPDX-License-Identifier: BSD-3-Clause
// tessera plan: what a job would take on so many ranks of a machine, by arithmetic.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tessera/app/commands.hpp"
#include "tessera/app/modelled.hpp"
#include "tessera/app/tuning.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/io/files.hpp"
#include "tessera/perf/published.hpp"

namespace tessera {
namespace {

struct Case {
  std::string table;  // job, strong, weak
  Box image;
  int ranks = 1;
  std::string precision;
};

struct Row {
  Case what;
  Grid3 grid{};
  Prediction p;
  double budget = 0;
  bool fits() const { return budget <= 0 || p.memory <= budget; }
};

std::string size_text(const Box& image) { return fmt::format("{}x{}", image.extent(1), image.extent(2)); }

Row plan_case(const Geometry& job, const Machine& machine, const Case& c, const Communicator& comm) {
  const bool gpu = machine.processors > 0;
  Geometry g = with_image(job, c.image, c.ranks);
  g.job.denoiser.precision = c.precision;
  const std::unique_ptr<Modelled> m = model_job(g, comm, gpu);
  Row row{c, {}, {}, 0};
  const auto available = static_cast<std::int64_t>(machine.memory);
  if (available > 0) row.budget = static_cast<double>(memory_budget(g.job, available).value_or(available));
  const Freedom f = job_freedom(g, machine, row.budget / 2);
  Execution e;
  e.transport = f.transport;
  e.precision = c.precision;
  if (m->network) {
    std::vector<Prediction> ranked = rank_ways(g, *m, machine, row.budget / 2);
    if (ranked.empty()) {  // nothing fits: say what the least would take
      ranked = rank_ways(g, *m, machine, 0);
      std::stable_sort(ranked.begin(), ranked.end(),
                       [](const Prediction& a, const Prediction& b) { return a.memory < b.memory; });
    }
    TESSERA_VALIDATE(!ranked.empty(), "denoiser.mode is ", g.job.denoiser.mode, " on ", c.ranks,
                     " ranks (it cannot run there) write 'mode: auto', or plan for other ranks");
    e = ranked.front().execution;
    set_execution(g, e);
  }
  row.grid = g.decomposition.grid();
  row.p = predict(machine, m->network ? &*m->network : nullptr, m->data, g.decomposition, g.channels, e);
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

double efficiency_in_table(const std::vector<Row>& rows, const Row& r) {
  const bool weak = r.what.table == "weak";
  const Row& base = baseline(rows, r, weak);
  return weak ? base.p.seconds() / r.p.seconds() : efficiency(base.p, r.p);
}

std::string limit_in_table(const std::vector<Row>& rows, const Row& r) {
  const Row& base = baseline(rows, r, r.what.table == "weak");
  Prediction scaled = base.p;
  if (r.what.table == "weak") scaled.ranks = r.p.ranks;  // as much per rank as before
  if (r.what.table == "weak" && &base != &r) {
    // Against the same work per rank: what grew.
    Prediction grew = r.p;
    grew.denoise -= scaled.denoise;
    grew.redundant -= scaled.redundant;
    grew.data -= scaled.data;
    grew.exposed -= scaled.exposed;
    grew.reduce -= scaled.reduce;
    return limiting_term(grew, grew);
  }
  return limiting_term(base.p, r.p);
}

void print_rows(const std::vector<Row>& rows, const std::string& table) {
  bool anchored = false;
  for (const Row& r : rows) anchored = anchored || (r.what.table != "job" && r.what.table == table);
  std::printf("%-13s %6s %9s %-9s %-6s %6s %10s %10s %10s %10s %10s %10s %6s  %-28s%s\n", "image", "ranks",
              "grid", "precision", "mode", "patch", "time/it", "denoise", "data", "hidden", "exposed",
              "memory", "eff.", "limit", anchored ? "  published: time/it, eff." : "");
  for (const Row& r : rows) {
    if (r.what.table != table) continue;
    const Execution& e = r.p.execution;
    const std::string patch = e.mode == ExecutionMode::layer ? fmt::format("k={}", e.depth)
                              : e.patch > 0                  ? fmt::format("{}", e.patch)
                                                             : "block";
    std::string line = fmt::format(
        "{:<13} {:>6} {:>9} {:<9} {:<6} {:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>5.0f}%  {:<28}",
        size_text(r.what.image), r.p.ranks, fmt::format("{}x{}", r.grid[1], r.grid[2]), r.what.precision,
        r.p.denoise > 0 ? name(e.mode) : "none", patch, format_seconds(r.p.seconds()),
        format_seconds(r.p.denoise), format_seconds(r.p.data), format_seconds(r.p.hidden),
        format_seconds(r.p.exposed + r.p.reduce), format_bytes(r.p.memory) + (r.fits() ? "" : "!"),
        100 * efficiency_in_table(rows, r), limit_in_table(rows, r));
    const bool square = r.what.image.extent(1) == r.what.image.extent(2);
    if (const Published* known = square && anchored && table == "strong" && r.what.precision == "float32"
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

std::string csv(const std::vector<Row>& rows, const Machine& machine) {
  std::string out =
      "table,machine,measured,height,width,ranks,grid_rows,grid_columns,precision,mode,patch,batch,halo_"
      "depth,"
      "transport,seconds,denoise_seconds,redundant_seconds,data_seconds,hidden_seconds,exposed_seconds,"
      "reduce_seconds,memory_bytes,data_bytes,budget_bytes,bytes_sent,efficiency,limit,published_seconds,"
      "published_efficiency\n";
  for (const Row& r : rows) {
    const Prediction& p = r.p;
    const Execution& e = p.execution;
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},", r.what.table, machine.name,
                       machine.measured ? "measured machine" : "predicted machine", r.what.image.extent(1),
                       r.what.image.extent(2), p.ranks, r.grid[1], r.grid[2], r.what.precision, name(e.mode),
                       e.patch, e.batch, e.depth, e.transport);
    out +=
        fmt::format("{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.0f},{:.0f},{:.0f},{:.0f},{:.6f},{},",
                    p.seconds(), p.denoise, p.redundant, p.data, p.hidden, p.exposed, p.reduce, p.memory,
                    p.data_bytes, r.budget, p.sent, efficiency_in_table(rows, r), limit_in_table(rows, r));
    const Published* known = r.what.table == "strong" && r.what.precision == "float32" &&
                                     r.what.image.extent(1) == r.what.image.extent(2)
                                 ? published(r.what.image.extent(1), p.ranks)
                                 : nullptr;
    const Published* first = !known                      ? nullptr
                             : published(known->size, 1) ? published(known->size, 1)
                                                         : published(known->size, 2);
    out += known ? fmt::format("{},{:.6f}\n", known->seconds,
                               first->seconds * first->ranks / (known->seconds * known->ranks))
                 : std::string(",\n");
  }
  return out;
}

}  // namespace

int plan_command(const PlanArguments& a, const Communicator& comm) {
  const JobConfig config = load_job(a.job, a.overrides, comm);
  TESSERA_VALIDATE(
      config.denoiser.network != "tv",
      "the denoiser is tv (its inner iterations end when they may, no plan can tell when) plan a "
      "network, or run it");
  JobConfig open = config;
  open.domain.grid.clear();  // a grid belongs to one number of ranks
  const Geometry g = plan_geometry(open, comm, 1);
  Machine machine;
  const Place place = this_launch(comm);
  comm.together([&] { machine = planning_machine(a.machine, g, place); });
  std::vector<std::string> precisions = a.precisions;
  if (precisions.empty()) precisions.push_back(g.job.denoiser.precision);
  std::vector<int> ranks = a.ranks;
  if (ranks.empty())
    ranks = a.strong || a.weak ? std::vector<int>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
                               : std::vector<int>{1, 2, 4, 8};
  std::vector<std::int64_t> sizes = a.sizes;
  if (sizes.empty()) sizes = {2048, 4096, 8192, 16384, 32768, 65536};

  std::vector<Case> cases;
  for (const std::string& precision : precisions) {
    if (!a.strong && !a.weak)
      for (const int r : ranks) cases.push_back({"job", g.image, r, precision});
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
  std::vector<Row> rows;
  comm.together([&] {
    for (const Case& c : cases) rows.push_back(plan_case(g, machine, c, Communicator()));
    if (comm.rank() == 0 && !a.csv.empty()) write_text(a.csv, csv(rows, machine));
  });
  if (comm.rank() != 0) return 0;

  std::printf("PREDICTED by the cost model from machine '%s', %s; %s, solver %s, %lld channels\n",
              machine.name.c_str(),
              machine.measured ? "measured on this computer" : "a description, not a measurement",
              g.job.denoiser.network.c_str(), g.job.solver.name.c_str(), static_cast<long long>(g.channels));
  for (const char* table : {"job", "strong", "weak"}) {
    const bool any =
        std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return r.what.table == table; });
    if (!any) continue;
    if (table != std::string("job"))
      std::printf("\n%s scaling, predicted\n", table == std::string("strong") ? "strong" : "weak");
    print_rows(rows, table);
  }
  std::printf(
      "time/it is the slowest rank's; eff. against the fewest ranks listed that hold the job; limit: what "
      "costs most of "
      "the difference; '!': more than the budget\n");
  if (a.strong)
    std::printf(
        "published: measured, deepinv.distributed on V100, float32, DRUNet on 8 downsamplings, patches of "
        "448 with "
        "overlap 32; efficiency against 1 GPU (8192: 2)\n");
  const bool guesses = g.job.solver.name == "hqs" || g.job.solver.name == "admm";
  if (guesses)
    std::printf("conjugate gradients, where they run, are counted as %lld iterations\n",
                static_cast<long long>(std::min(g.job.solver.prox_iterations, kInnerIterations)));
  return 0;
}

}  // namespace tessera
