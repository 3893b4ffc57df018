// SPDX-License-Identifier: BSD-3-Clause
// What the keys of a job mean to each other: rules between them, and defaults that follow from others.
#include "job_rules.hpp"

#include <algorithm>
#include <filesystem>
#include <type_traits>
#include <utility>
#include <variant>

#include "document.hpp"
#include "maps.hpp"
#include "table.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/image_format.hpp"
#include "values.hpp"

namespace tessera::config {
namespace {

namespace fs = std::filesystem;

/// Errors about a node: `PLACE: PATH PROBLEM`, at the nearest place that the file has.
class Complaints {
 public:
  Complaints(const Site& site, std::string file) : site_(site), file_(std::move(file)) {}
  bool has(const std::string& key) const { return site_.present->count(join(site_.path, key)) > 0; }
  void refuse_if(bool wrong, const std::string& key, const std::string& message) const {
    if (!wrong) return;
    std::string place_of = join(site_.path, key);
    auto at = site_.present->find(place_of);
    while (at == site_.present->end() && place_of.find('.') != std::string::npos) {
      place_of = place_of.substr(0, place_of.rfind('.'));
      at = site_.present->find(place_of);
    }
    throw InputError(
        concat(at == site_.present->end() ? file_ : at->second, ": ", join(site_.path, key), ' ', message));
  }

 private:
  const Site& site_;
  std::string file_;
};

void check_operator(const Site& site, const OperatorForm& form) {
  const Complaints c(site, "");
  const OperatorConfig& op = form.op;
  refuse_idle(site, operator_table(), form);
  const OperatorChoice& row = chosen(op);
  if (row.kernel) {
    const bool gaussian = c.has("kernel.gaussian"), file = c.has("kernel.file");
    c.refuse_if(gaussian && file, "kernel.file",
                "is written beside gaussian (a kernel is one or the other) remove one");
    c.refuse_if(gaussian && !c.has("kernel.gaussian.sigma"), "kernel.gaussian.sigma",
                "is missing (a Gaussian needs its widths) write for example 'sigma: 1.6'");
    for (const char* key : {"kernel.normalize", "kernel.center"})
      c.refuse_if(!file && c.has(key), key,
                  "acts on nothing in this job (it acts only with kernel.file) remove it");
    c.refuse_if(
        !gaussian && !file, "kernel",
        "is missing (" + op.type + " needs one) write for example 'kernel: {gaussian: {sigma: 1.6}}'");
  }
  if (row.check)
    if (const auto fault = row.check(op.options)) c.refuse_if(true, fault->key, fault->message);
  if (op.type != kStack) return;
  c.refuse_if(op.parts.empty(), "parts",
              "is missing (a stack needs its operators) write for example 'parts: [{type: identity}]'");
  for (std::size_t i = 0; i < op.parts.size(); ++i)
    c.refuse_if(op.parts[i].type == kStack, "parts." + std::to_string(i) + ".type",
                "is stack (parts of a stack cannot be stacks) list its parts in the outer one");
  if (!c.has("angles")) return;
  c.refuse_if(form.count == 0, "angles.count",
              "is missing (angles need their number) write for example 'count: 8'");
  c.refuse_if(op.parts.size() != 1 || !c.has("parts.0.kernel.gaussian"), "angles",
              "do not fit the parts (they turn one part with a Gaussian kernel) write that one part");
  c.refuse_if(c.has("parts.0.kernel.gaussian.angle"), "parts.0.kernel.gaussian.angle",
              "acts on nothing in this job (angles gives every angle) remove it");
}

bool has_boundary(const OperatorConfig& op) { return chosen(op).kernel; }

void fill_boundary(OperatorConfig& op, const std::string& boundary) {
  if (has_boundary(op) && op.boundary.empty()) op.boundary = boundary;
  for (OperatorConfig& part : op.parts) fill_boundary(part, boundary);
}

std::string penalty_solvers() {
  std::string out;
  for (const SolverChoice& row : choices().solvers)
    if (row.penalty) out += (out.empty() ? "" : " and ") + row.name;
  return out;
}

constexpr std::int64_t kUsual = 20;  // iterations of a solver that the job names

struct Choice {
  const char* solver;
  std::int64_t iterations;
};

Choice choice_for(const JobConfig& job) {
  const DenoiserChoice& denoiser = chosen(job.denoiser);
  // A number as step means a gradient's; what has no noise level to go down needs small steps.
  if (!job.solver.step.automatic && job.solver.step.form != "dpir") return {"pgd", kUsual};
  if (!denoiser.network) return {denoiser.takes_sigma ? "admm" : "pgd", denoiser.takes_sigma ? 60 : kUsual};
  if (!denoiser.takes_sigma) return {"pgd", kUsual};
  if (job.solver.chosen.arrays) return {"hqs", Chosen::more_passes};  // nothing is known of the operator
  const ScheduleConfig& sigma = job.solver.sigma;
  const bool pointwise = chosen(job.problem.op).pointwise;
  if (pointwise && job.problem.likelihood.type == "huber")
    return {"pgd", kUsual};  // proximal points keep outliers
  if (is_denoising(job.problem) && sigma.form.empty() && sigma.values.size() < 2 &&
      job.solver.start == "auto")
    return {"hqs", 1};
  if (job.problem.op.type != "identity" && pointwise) return {Chosen::masked_solver, Chosen::masked_passes};
  return {"hqs", Chosen::more_passes};
}

/// Options of a row, with defaults where nobody wrote them, so that jobs which say the same are equal; those of
/// another row go.
void fill(const std::vector<Option>& known, Options& options) {
  Options filled;
  for (const Option& o : known)
    std::visit(
        [&](const auto& value) { filled.set(o.name, options.get<std::remove_cvref_t<decltype(value)>>(o)); },
        o.fallback);
  options = std::move(filled);
}

/// What `solver.name: auto` and `solver.iterations: auto` stand for, by what the file says of operator, denoiser and
/// data; other keys stay as they are. docs/solvers.md has the rule and its figures.
void choose_solver(SolverConfig& solver, const JobConfig& job) {
  std::int64_t usual = kUsual;
  if (solver.chosen.solver) {
    const Choice choice = choice_for(job);
    solver.name = choice.solver;
    usual = choice.iterations;
  }
  if (chosen(solver).once) usual = 1;
  const std::size_t listed = std::max(solver.step.values.size(), solver.sigma.values.size());
  if (solver.chosen.iterations) solver.iterations = std::max(usual, static_cast<std::int64_t>(listed));
}

/// What the job leaves open, and a first choice of it.
void choose_solver(const Site& site, Purpose purpose, JobConfig& job) {
  SolverConfig& solver = job.solver;
  const auto written = [&](const std::string& key) { return site.present->count(join(site.path, key)) > 0; };
  solver.chosen = {.solver = solver.name == kAutoSolver,
                   .iterations = solver.iterations == 0,
                   .prior = !written("denoiser"),
                   .arrays = purpose == Purpose::arrays};
  // An option says whose it is, unless the solver that is chosen has it too.
  if (solver.chosen.solver) {
    const auto has_one = [&](const SolverChoice& row) {
      return std::ranges::any_of(row.options, [&](const Option& o) { return written("solver." + o.name); });
    };
    const std::string usual = choice_for(job).solver;
    for (const SolverChoice& row : choices().solvers) {
      if (row.name == usual || !has_one(row)) continue;
      solver.name = row.name;
      solver.chosen.solver = false;
      break;
    }
  }
  choose_solver(solver, job);
}

void without_denoiser(JobConfig& job) {
  for (const DenoiserChoice& row : choices().denoisers)
    if (!row.network && !row.takes_sigma) {
      job.denoiser = DenoiserConfig();
      job.denoiser.network = row.name;
    }
}

/// A solver of data alone brings no denoiser along, one of counts their likelihood.
void for_bare(const Complaints& c, JobConfig& job) {
  const SolverChoice& solver = chosen(job.solver);
  if (!solver.bare) return;
  if (job.solver.chosen.prior) without_denoiser(job);
  const DenoiserChoice& denoiser = chosen(job.denoiser);
  c.refuse_if(denoiser.network || denoiser.takes_sigma, "denoiser.network",
              "is " + denoiser.name + " (" + job.solver.name +
                  (solver.once ? " has no denoising step: its window smooths)"
                               : " has no denoising step: it is stopped before it follows the noise)") +
                  " leave the section out");
  std::string& likelihood = job.problem.likelihood.type;
  if (solver.counts && !c.has("problem.likelihood.type")) likelihood = "poisson";
  c.refuse_if(solver.counts && likelihood != "poisson", "problem.likelihood.type",
              "is " + likelihood + " (" + job.solver.name + " is for counts) write poisson, or leave it out");
  c.refuse_if(!solver.counts && likelihood != "gaussian", "problem.likelihood.type",
              "is " + likelihood + " (" + job.solver.name +
                  " is for linear samples of any scatter) leave it out, or take another solver");
}

}  // namespace

std::string boundary_of(const OperatorConfig& op) {
  if (has_boundary(op)) return op.boundary;
  for (const OperatorConfig& part : op.parts)
    if (const std::string boundary = boundary_of(part); !boundary.empty()) return boundary;
  return {};
}

void finish(const Site& site, const std::string& file, const std::string& boundary, Purpose purpose,
            JobConfig& job) {
  const Complaints c(site, file);
  ProblemConfig& problem = job.problem;
  c.refuse_if(
      purpose != Purpose::arrays && !problem.has_truth() && problem.measurements.empty(), "problem.truth",
      "is missing, and so is problem.measurements (there is nothing to reconstruct) write one of them");
  const bool simulated = problem.measurements.empty() && purpose != Purpose::arrays;
  choose_solver(site, purpose, job);
  for_bare(c, job);
  fill(chosen(job.solver).options, job.solver.options);
  fill(chosen(job.denoiser).options, job.denoiser.options);
  fill_boundary(problem.op, simulated ? "circular" : boundary.empty() ? "valid" : boundary);
  refuse_idle(site, job_table(), job);
  c.refuse_if(simulated && problem.scale.from_data, "problem.scale.factor",
              "is data (there are no measurements whose values could say it) write a number or auto");
  const std::vector<Option>& own = chosen(problem.op).options;
  const bool lengths =
      std::any_of(own.begin(), own.end(), [](const Option& o) { return o.name == "detector.pitch"; });
  c.refuse_if(!problem.image.unit.empty() && problem.image.pixel.empty() && !lengths, "problem.image.unit",
              "is written without pixel (there is nothing in that unit) write pixel or remove it");

  c.refuse_if(problem.likelihood.type == "poisson" && !problem.flat.empty(), "problem.flat",
              "stands beside likelihood poisson (divided by it, samples are no counts of one gain) write "
              "likelihood gaussian, whose weights know it");
  const std::string& start = job.solver.start;
  c.refuse_if(start == "measurement" && (!chosen(problem.op).same_grid || problem.op.boundary == "valid"),
              "solver.start",
              "is measurement (this operator's measurement is no image of the unknown's size) write adjoint");
  const DenoiserChoice& denoiser = chosen(job.denoiser);
  c.refuse_if(denoiser.network && !denoiser.shipped && job.denoiser.weights.empty(), "denoiser.weights",
              "is missing (no weights of " + job.denoiser.network + " are shipped) write a path, or random");
  const auto& grid = job.domain.grid;
  c.refuse_if(job.execution.mode == ExecutionMode::whole &&
                  std::any_of(grid.begin(), grid.end(), [](auto n) { return n > 1; }),
              "denoiser.mode", "is whole (domain.grid asks for more than one rank) write patch");
  const TransportKind transport = job.execution.transport;
  c.refuse_if(
      job.device == "cpu" && (transport == TransportKind::nccl || transport == TransportKind::cuda_mpi),
      "domain.transport",
      concat("is ", word(transport), " (it moves device memory, device is cpu) write mpi"));
  c.refuse_if(job.device == "cpu" && job.execution.precision == Precision::tf32, "denoiser.precision",
              "is tf32 (only GPUs have it, device is cpu) write float32");
  c.refuse_if(job.device == "cpu" && job.denoiser.early_precision == Precision::tf32,
              "denoiser.early_precision", "is tf32 (only GPUs have it, device is cpu) write float32");

  const std::string& preview = job.output.preview;
  c.refuse_if(!preview.empty() && (fs::path(preview).has_parent_path() || !is_picture(preview)),
              "output.preview",
              concat("is ", preview, " (it must be the plain name of a ",
                     suffix_list([](const ImageFormat& f) { return f.create && f.picture && f.writes(8); }),
                     ") write for example 'preview: result.png'"));
  const std::int64_t bits = job.output.preview_bits;
  if (const ImageFormat* const format = find_format(preview); is_picture(preview) && bits > 0)
    c.refuse_if(!format->writes(bits), "output.preview_bits",
                concat("is ", bits, " (", format->name, " has at most ", format->bits.back(),
                       ") write auto, or a preview .tif"));

  const std::string& also = job.output.also;
  const ImageFormat* const of_also = find_format(also);
  c.refuse_if(!also.empty() && (fs::path(also).has_parent_path() || !of_also || !of_also->create ||
                                !of_also->writes(32) || also == preview || also == "reconstruction.h5"),
              "output.also",
              concat("is ", also, " (it must be the plain name of another ",
                     suffix_list([](const ImageFormat& f) { return f.create && f.writes(32); }),
                     ") write for example 'also: result.ome.zarr'"));

  if (job.output.folder.empty())
    job.output.folder = absolute_path("runs/" + fs::path(file).stem().string(), job.folder);
}

void check_schedules(const Site& site, const std::string& file, const JobConfig& job) {
  const Complaints c(site, file);
  const SolverConfig& solver = job.solver;
  const ProblemConfig& problem = job.problem;
  const bool penalty = chosen(solver).penalty, takes_sigma = chosen(job.denoiser).takes_sigma;
  const bool noiseless =
      problem.measurements.empty() && problem.noise.gaussian == 0 && problem.noise.poisson == 0;
  c.refuse_if(
      noiseless && takes_sigma && solver.sigma.automatic, "solver.sigma",
      "is missing (the data have no noise, the denoiser needs a level) write for example 'sigma: 0.02'");
  c.refuse_if(noiseless && solver.lambda && takes_sigma, "solver.lambda",
              "acts on nothing (the data have no noise to weigh the prior against) remove it");
  c.refuse_if(takes_sigma && !chosen(solver).weighs && solver.lambda && !solver.sigma.automatic &&
                  !solver.step.automatic,
              "solver.lambda",
              "is written beside step and sigma (sigma^2 = step lambda noise^2: two of them say the third) "
              "remove one");
  c.refuse_if(solver.step.form == "dpir" && !penalty, "solver.step",
              "is dpir (" + solver.name + " takes a gradient step, dpir are penalties of " +
                  penalty_solvers() + ") write auto");
  for (const auto& [key, schedule] :
       {std::pair<const char*, const ScheduleConfig&>{"solver.step", solver.step},
        {"solver.sigma", solver.sigma}}) {
    c.refuse_if(schedule.form == "dpir" && schedule.last == 0 && noiseless, key,
                "is dpir (the noise level that it ends at is not known) write for example {dpir: 0.02}");
    c.refuse_if(static_cast<std::int64_t>(schedule.values.size()) > solver.iterations, key,
                concat("has ", schedule.values.size(), " values (solver.iterations is ", solver.iterations,
                       ", the others would be ignored) shorten the list"));
  }
}

OperatorConfig read_operator(const Site& site, const Value& value) {
  OperatorForm form;
  read_map(site, value, "", operator_table(), form);
  check_operator(site, form);
  fill(chosen(form.op).options, form.op.options);
  if (form.count > 0) {
    const OperatorConfig part = form.op.parts[0];
    form.op.parts.assign(static_cast<std::size_t>(form.count), part);
    for (std::int64_t k = 0; k < form.count; ++k)
      std::get<KernelConfig::Gaussian>(form.op.parts[static_cast<std::size_t>(k)].kernel.form).angle =
          form.first +
          (form.last - form.first) * static_cast<double>(k) / static_cast<double>(form.count - 1);
  }
  return form.op;
}

Value write_operator(const OperatorConfig& op) { return write_map(operator_table(), OperatorForm{.op = op}); }

}  // namespace tessera::config

namespace tessera {

bool is_denoising(const ProblemConfig& problem) {
  return problem.op.type == "identity" && problem.weights.empty() && problem.flat.empty() &&
         problem.saturation == 0 && !problem.bad.any() && problem.likelihood.type == "gaussian" &&
         problem.noise.poisson == 0;
}

JobConfig with_denoiser(JobConfig job, const std::string& network) {
  job.denoiser = DenoiserConfig();
  job.denoiser.network = network;
  config::fill(config::chosen(job.denoiser).options, job.denoiser.options);
  config::choose_solver(job.solver, job);
  config::fill(config::chosen(job.solver).options, job.solver.options);
  return job;
}

JobConfig with_solver(JobConfig job, const std::string& name, std::int64_t iterations) {
  job.solver.name = name;
  if (job.solver.chosen.iterations) job.solver.iterations = iterations;
  const SolverChoice& row = config::chosen(job.solver);
  if (row.bare) config::without_denoiser(job);
  if (row.counts) job.problem.likelihood.type = "poisson";
  config::fill(config::chosen(job.denoiser).options, job.denoiser.options);
  config::fill(config::chosen(job.solver).options, job.solver.options);
  return job;
}

}  // namespace tessera
