// SPDX-License-Identifier: BSD-3-Clause
// The keys of a job.
#include <filesystem>

#include "table_keys.hpp"
#include "tessera/core/error.hpp"

namespace tessera::config {
namespace {

using Job = JobConfig;

When<Job> solver_is(std::vector<std::string> names) {
  return is<Job>("solver.name", TESSERA_AT(solver.name), std::move(names));
}
When<Job> network_is(std::vector<std::string> names) {
  return is<Job>("denoiser.network", TESSERA_AT(denoiser.network), std::move(names));
}

bool crops(const OperatorConfig& op) {
  return op.boundary == "valid" || std::any_of(op.parts.begin(), op.parts.end(), crops);
}

bool blurs(const OperatorConfig& op) {
  return chosen(op).kernel || std::any_of(op.parts.begin(), op.parts.end(), blurs);
}

std::string listed(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> or_auto(std::vector<std::string> names) {
  names.insert(names.begin(), kAutoSolver);
  return names;
}

// Any type whose kernel has the keys of one.
std::string kernel_type() {
  return names(choices().operators, [](const OperatorChoice& op) { return op.kernel; }).front();
}

using JobKeys = std::vector<Key<Job>>;

// The keys of a job, section by section; above them when they may stand.
struct JobTable {
  using W = std::vector<When<Job>>;
  const W simulated = {
      {"without problem.measurements", [](const Job& j) { return j.problem.measurements.empty(); }}};
  const W simulated_blur = {simulated[0],
                            {"for operators with a blur", [](const Job& j) { return blurs(j.problem.op); }}};
  const W measured = {
      {"with problem.measurements", [](const Job& j) { return !j.problem.measurements.empty(); }}};
  const W grid = {measured[0],
                  {"without problem.truth", [](const Job& j) { return !j.problem.has_truth(); }}};
  const W scene = {
      {"with problem.truth.scene.size", [](const Job& j) { return !j.problem.scene.size.empty(); }}};
  const std::vector<SolverChoice>& solvers = choices().solvers;
  const std::vector<DenoiserChoice>& denoisers = choices().denoisers;
  const std::vector<std::string> penalties = names(solvers, [](const SolverChoice& s) { return s.penalty; });
  const std::vector<std::string> proximal = names(solvers, [](const SolverChoice& s) { return s.proximal; });
  const std::vector<std::string> gradients =
      names(solvers, [](const SolverChoice& s) { return !s.penalty && !s.bare; });
  const std::vector<std::string> weighing = names(solvers, [](const SolverChoice& s) { return s.weighs; });
  const std::vector<std::string> leveled =
      names(denoisers, [](const DenoiserChoice& d) { return d.takes_sigma; });
  const W network = {network_is(names(denoisers, [](const DenoiserChoice& d) { return d.network; }))};
  const When<Job> random{"with denoiser.weights random",
                         [](const Job& j) { return j.denoiser.weights == "random"; }};
  const W windows = {network[0], {"for denoiser.mode auto, patch", [](const Job& j) {
                                    return j.execution.mode != ExecutionMode::whole &&
                                           j.execution.mode != ExecutionMode::layer;
                                  }}};
  const W layers = {network[0], {"for denoiser.mode layer", [](const Job& j) {
                                   return j.execution.mode == ExecutionMode::layer;
                                 }}};
  const std::vector<std::string> products =
      names(choices().operators, [](const OperatorChoice& op) { return op.pointwise; });
  const W by_cg = {solver_is(proximal),
                   {fmt::format("for operators other than {}", fmt::join(products, " and ")),
                    [](const Job& j) { return !chosen(j.problem.op).pointwise; }}};
  const W stepping = {solver_is(names(solvers, [](const SolverChoice& s) { return !s.bare; }))};
  const W iterating = {solver_is(names(solvers, [](const SolverChoice& s) { return !s.once; }))};
  const W cropped = {{"for boundary valid", [](const Job& j) { return crops(j.problem.op); }}};
  const Rule positive{.least = 0, .above = true};
  const Rule not_negative{.least = 0};

  JobKeys general() const;
  JobKeys data() const;
  JobKeys noise() const;
  JobKeys denoiser() const;
  JobKeys solver() const;
  JobKeys execution() const;
  JobKeys all() const;
};

JobKeys JobTable::general() const {
  return {
      key<Job>("schema", TESSERA_AT(schema), {.least = 1}, "", "version of the job file's keys"),
      key<Job>(
          {"relative_to", "text", "", "the job file's folder", "a folder",
           "where relative paths begin, for a copy of a job file that lies elsewhere"},
          [](const Site& s, const Value& v, Job&) {  // parse_job() has taken it: other keys need it
            std::error_code none;
            if (v.kind != Value::Kind::scalar || !std::filesystem::is_directory(s.folder, none))
              reject(s, v, "the path of a folder", "name the one in which the original lies");
          },
          [](const Job&) { return Value{}; }),
  };
}

// What is known: files, units, operator.
JobKeys JobTable::data() const {
  return {
      key<Job>("problem.truth", TESSERA_AT(problem.truth), {.file = true}, "",
               "the true image: without measurements they are simulated from it; with measurements it only "
               "scores the result"),
      key<Job>("problem.truth.scene.size", TESSERA_AT(problem.scene.size),
               {.least = 1, .most = 1 << 30, .shortest = 2, .longest = 2, .example = "[32768, 32768]"},
               "pixels", "in place of a file: a synthetic scene of so many rows and columns"),
      key<Job>("problem.truth.scene.seed", TESSERA_AT(problem.scene.seed), not_negative, "",
               "of the scene; the same pixels for any size and any number of ranks", scene),
      key<Job>("problem.truth.scene.channels", TESSERA_AT(problem.scene.channels),
               {.least = 1, .most = 65535}, "", "3: color; 1: its luminance; others: a spectrum", scene),
      key<Job>("problem.measurements", TESSERA_AT(problem.measurements), {.file = true}, "",
               "measured data: HDF5 (/measurements/0 ...), or where the operator has one part an image; of "
               "tomography a "
               "scan: DXchange, NXtomo, or an array (views, rows, columns)"),
      key<Job>("problem.weights", TESSERA_AT(problem.weights), {.file = true}, "",
               "inverse variance of each sample, in the measurements' layout; 0 or NaN: not used. Only 0 and "
               "1: a mask",
               measured),
      key<Job>("problem.dark", TESSERA_AT(problem.dark), {.file = true}, "",
               "file units to subtract from each sample, in the measurements' layout; of a scan frames "
               "without beam, "
               "averaged",
               measured),
      key<Job>("problem.flat", TESSERA_AT(problem.flat), {.file = true}, "",
               "sensitivity of each sample, divided by its mean: y = (file - dark) / flat; 0 or less: not "
               "used; of a scan "
               "frames of the beam alone, averaged",
               measured),
      key<Job>("problem.saturation", TESSERA_AT(problem.saturation),
               {.least = 0, .above = true, .word = "none", .example = "0.99"}, "internal range",
               "samples from this value on are not used", measured),
      key<Job>("problem.clipping", TESSERA_AT(problem.clipping), {.choices = {"one-sided", "data"}}, "",
               "samples that pile up at the smallest or largest value of their type: what lies beyond was "
               "cut off, so that "
               "they are a bound from one side; data: values as all others",
               measured),
      key<Job>("problem.bad.hot", TESSERA_AT(problem.bad.hot), {}, "",
               "single samples far above all around them count 0", measured),
      key<Job>("problem.bad.dead", TESSERA_AT(problem.bad.dead), {}, "",
               "single samples far below all around them count 0", measured),
      key<Job>("problem.bad.columns", TESSERA_AT(problem.bad.columns), {}, "",
               "columns that stand out all along, up to three beside each other, count 0", measured),
      key<Job>("problem.bad.rows", TESSERA_AT(problem.bad.rows), {}, "", "rows likewise", measured),
      key<Job>("problem.bad.cosmic_rays", TESSERA_AT(problem.bad.cosmic_rays), {}, "",
               "bright spots and tracks that are sharper than stars, or than the kernel, count 0", measured),
      key<Job>("problem.bad.missing_tiles", TESSERA_AT(problem.bad.missing_tiles), {}, "",
               "rectangles of exactly one value, 8 x 8 samples and more, count 0", measured),
      key<Job>("problem.bad.flags", TESSERA_AT(problem.bad.flags), {.file = true}, "",
               "flags of the samples, whole numbers in the measurements' layout: those with any bit that "
               "`bits` names count 0",
               measured),
      key<Job>("problem.bad.bits", TESSERA_AT(problem.bad.bits),
               {.word = "all", .shortest = 1, .longest = 64, .example = "[DO_NOT_USE, 4]"}, "",
               "names (the file's own MP_ cards, JWST's, HST's) or numbers, which are bits added up",
               {measured[0],
                {"with problem.bad.flags", [](const Job& j) { return !j.problem.bad.flags.empty(); }}}),
      key<Job>(
          "problem.image.size", TESSERA_AT(problem.image.size),
          {.least = 1, .word = "auto", .shortest = 2, .longest = 3, .example = "[2048, 3072]"}, "pixels",
          "rows and columns of the unknown image, of a volume after its depth; auto: from the measurements",
          grid),
      key<Job>("problem.image.channels", TESSERA_AT(problem.image.channels),
               {.least = 1, .word = "auto", .example = "3"}, "",
               "of the unknown image; auto: from the measurements", grid),
      key<Job>("problem.image.pixel", TESSERA_AT(problem.image.pixel),
               {.least = 0, .above = true, .shortest = 2, .longest = 3, .example = "[0.1, 0.1]"},
               "problem.image.unit",
               "height and width of a pixel, of a volume after its depth; written into the result"),
      key<Job>("problem.image.unit", TESSERA_AT(problem.image.unit), {.example = "um"}, "",
               "of problem.image.pixel, or of a scan's lengths, whose voxels then are the result's pixels"),
      key<Job>("problem.scale.offset", TESSERA_AT(problem.scale.offset), {}, "file units",
               "file value that is 0 inside; inside = (file - offset) / factor, undone on output"),
      key<Job>(
          {"problem.scale.factor", "number", "file units", "auto", "> 0, auto or data",
           "file units that are 1 inside; auto: full scale of the file's type (255, 65535), less where the "
           "values use fewer bits, and for floats 1, or what all but one sample in 10,000 stay below; data: "
           "that value, whatever the type"},
          [](const Site& s, const Value& v, Job& j) {
            ScaleConfig& scale = j.problem.scale;
            scale.factor = 0;
            scale.from_data = v.kind == Value::Kind::scalar && v.text == "data";
            const bool automatic = v.kind == Value::Kind::scalar && v.text == "auto";
            if (!scale.from_data && !automatic && !scan(v, {.least = 0, .above = true}, scale.factor))
              reject(s, v, "a number > 0, auto or data", "write for example 'factor: 65535'");
          },
          [](const Job& j) {
            return j.problem.scale.from_data ? Value::scalar("data")
                                             : print(j.problem.scale.factor, {.word = "auto"});
          }),
      key<Job>(
          {"problem.scale.curve", "word", "", "auto", "auto, none, linear, srgb or {gamma: number}",
           "how the file stores light; inside is light, undone on output. auto: what the file says and its "
           "samples show, where a photograph is blurred; none, linear: samples are what they are"},
          [](const Site& s, const Value& v, Job& j) { read_curve(s, v, j.problem.scale.curve); },
          [](const Job& j) { return print_curve(j.problem.scale.curve); }),
      key<Job>(
          {"problem.operator", "operator", "", "", "", "the physics; its keys follow"},
          [](const Site& s, const Value& v, Job& j) { j.problem.op = read_operator(s, v); },
          [](const Job& j) { return write_operator(j.problem.op); }),
  };
}

// How samples scatter, and how they are simulated.
JobKeys JobTable::noise() const {
  return {
      key<Job>("problem.noise.gaussian", TESSERA_AT(problem.noise.gaussian), not_negative,
               "problem.noise.unit",
               "standard deviation; 0: none. Where measurements have 0 for this and poisson, both are "
               "estimated from the data"),
      key<Job>("problem.noise.poisson", TESSERA_AT(problem.noise.poisson), not_negative, "problem.noise.unit",
               "gain g of the counts, y = g P(x / g), before the Gaussian noise; 0: none. Samples then weigh "
               "as the inverse of their variance"),
      key<Job>("problem.noise.unit", TESSERA_AT(problem.noise.unit), {.choices = {"internal", "file"}}, "",
               "of gaussian and poisson; file: as a camera's data sheet has them, read noise in counts and "
               "counts per electron"),
      key<Job>("problem.simulate.finer", TESSERA_AT(problem.simulate.finer), {.least = 1, .most = 16}, "",
               "pixels of the truth per pixel of the unknown, on both axes: the truth is blurred on its own "
               "grid, and each sample is the mean over its pixels",
               simulated),
      key<Job>("problem.simulate.boundary", TESSERA_AT(problem.simulate.boundary),
               {.choices = {"circular", "reflect", "replicate", "zero"}, .fallback = "the operator's"}, "",
               "what lies beyond the truth while measurements are made", simulated_blur),
      key<Job>(
          {"problem.simulate.kernel", "kernel", "", "the operator's", "",
           "measurements are made with it, on the truth's grid, while the reconstruction assumes the "
           "operator's; keys as below problem.operator.kernel"},
          [](const Site& s, const Value& v, Job& j) {
            Value blur{.kind = Value::Kind::map};
            blur.put("type", Value::scalar(kernel_type()));
            blur.put("kernel", v);
            blur.items[0].place = blur.items[1].place = v.place;
            const std::string section = s.path.substr(0, s.path.rfind('.'));
            j.problem.simulate.kernel = read_operator({section, s.folder, s.present}, blur).kernel;
          },
          [](const Job& j) {
            if (!j.problem.simulate.kernel) return Value{};
            return *write_operator({.type = kernel_type(), .kernel = *j.problem.simulate.kernel})
                        .find("kernel");
          },
          simulated_blur),
      key<Job>("problem.simulate.bits", TESSERA_AT(problem.simulate.bits), {.least = 0, .most = 24}, "bits",
               "rounds the samples to so many bits over [0, 1]; 0: not", simulated),
      key<Job>("problem.simulate.clip", TESSERA_AT(problem.simulate.clip), {}, "",
               "cuts the samples to [0, 1], as a detector does", simulated),
      key<Job>("problem.likelihood.type", TESSERA_AT(problem.likelihood.type),
               {.choices = {"gaussian", "poisson", "huber"}}, "",
               "how samples scatter: weighted least squares; Kullback-Leibler for counts of gain "
               "problem.noise.poisson (read noise by shifting); Huber's for outliers"),
      key<Job>("problem.likelihood.background", TESSERA_AT(problem.likelihood.background), not_negative,
               "internal range", "mean count without an image; it is not in the data any more",
               {is<Job>("problem.likelihood.type", TESSERA_AT(problem.likelihood.type), {"poisson"})}),
      key<Job>("problem.likelihood.threshold", TESSERA_AT(problem.likelihood.threshold), positive,
               "noise levels", "a sample that is farther off pulls no harder",
               {is<Job>("problem.likelihood.type", TESSERA_AT(problem.likelihood.type), {"huber"})}),
      key<Job>("problem.seed", TESSERA_AT(problem.seed), not_negative, "",
               "of noise, random masks and random weights; the same numbers for any number of ranks"),
  };
}

JobKeys JobTable::denoiser() const {
  return {
      key<Job>("denoiser.network", TESSERA_AT(denoiser.network), {.choices = names(denoisers)}, "",
               "the prior; tv: total variation, needs no weights; none: no prior"),
      key<Job>(
          {"denoiser.weights", "word or file", "", "auto",
           "auto, random, the name of a shipped file, or a path",
           fmt::format(
               "trained weights; auto: the small shipped ones of {} for gray or color, in their stable form "
               "where the job writes a sigma, unless {} end at 0.04 or more or take dpir; a value with '/' "
               "or ending in "
               ".safetensors is a path",
               listed(names(denoisers, [](const DenoiserChoice& d) { return d.shipped; })),
               fmt::join(penalties, " or "))},
          [](const Site& s, const Value& v, Job& j) {
            std::string& weights = j.denoiser.weights;
            if (!scan(v, {}, weights))
              reject(s, v, "a name or a path", "write for example 'weights: random'");
            if (weights == "auto") weights.clear();
            if (weights.find('/') != std::string::npos || weights.ends_with(".safetensors"))
              weights = existing_file(s, v);
          },
          [](const Job& j) { return print(j.denoiser.weights, {.choices = {"random"}, .word = "auto"}); },
          network),
      key<Job>(
          {"denoiser.planes", "word or list", "", "auto", "auto, all, axial, coronal, sagittal, or a list",
           "in which planes a network for pictures sees a volume, the mean over them: axial of constant z "
           "(depth), "
           "coronal of constant y (height), sagittal of constant x (width); auto: those whose pixels are "
           "about "
           "square"},
          [](const Site& s, const Value& v, Job& j) { read_planes(s, v, j.execution.planes); },
          [](const Job& j) { return print_planes(j.execution.planes); }, network),
      key<Job>("denoiser.mode", TESSERA_AT(execution.mode), {}, "",
               "whole image at once (one rank only); patch: windows with an exact halo; layer: whole blocks, "
               "with a thin halo for "
               "each convolution; auto: what tessera tune found, else what the cost model thinks fastest",
               network),
      key<Job>("denoiser.patch", TESSERA_AT(execution.patch), {.least = 1, .word = "auto", .example = "256"},
               "pixels",
               "a window has at most patch x patch pixels without its halo; a multiple of the network's "
               "alignment",
               windows),
      key<Job>("denoiser.batch", TESSERA_AT(execution.batch), {.least = 1, .word = "auto", .example = "4"},
               "windows", "how many windows, or of a volume by planes planes, go through the network at once",
               windows),
      key<Job>("denoiser.halo_depth", TESSERA_AT(execution.halo_depth),
               {.least = 1, .word = "auto", .example = "2"}, "convolutions",
               "how many share one exchange: fewer and larger messages for a rim that is computed twice",
               layers),
      key<Job>("denoiser.precision", TESSERA_AT(execution.precision), {}, "",
               "of the network; float32 is IEEE float32", network),
      key<Job>(
          "denoiser.early_precision", TESSERA_AT(denoiser.early_precision), {}, "",
          "of the first iterations, while a sigma that falls by itself is 3 times its last level or more, "
          "0.06 at least; float32: as precision",
          network),
      key<Job>(
          "denoiser.averaging", TESSERA_AT(execution.averaging), {}, "",
          "mean over flips (4, of a network of volumes 8) or over these with quarter turns as well (8; 48, "
          "or 16 where spacing along one axis differs by more than 1.5); cycle: the next of all at each call",
          network),
  };
}

JobKeys JobTable::solver() const {
  return {
      key<Job>("solver.name", TESSERA_AT(solver.name), {.choices = or_auto(names(solvers))}, "",
               "the iteration; auto: by operator, denoiser and data (docs/solvers.md)"),
      key<Job>(
          "solver.iterations", TESSERA_AT(solver.iterations),
          {.least = 0, .most = 1000000, .above = true, .word = "auto", .example = "20"}, "",
          "how many, at most; auto: as many as the solver that was chosen needs, 20 of one that is named",
          iterating),
      key<Job>(
          {"solver.step", "schedule", "", "auto", "> 0",
           fmt::format(
               "gradient step ({}) or penalty gamma ({}); auto: from sigma and lambda; dpir only for {}",
               listed(gradients), listed(penalties), listed(penalties))},
          [](const Site& s, const Value& v, Job& j) {
            read_schedule(s, v, {.least = 0, .above = true}, j.solver.step);
          },
          [](const Job& j) { return print_schedule(j.solver.step); }, stepping),
      key<Job>(
          {"solver.sigma", "schedule", "internal range", "auto", ">= 0",
           fmt::format("noise level for the denoiser; auto: from step and lambda (docs/solvers.md), for {} "
                       "falling to it",
                       fmt::join(penalties, " and "))},
          [](const Site& s, const Value& v, Job& j) { read_schedule(s, v, {.least = 0}, j.solver.sigma); },
          [](const Job& j) { return print_schedule(j.solver.sigma); }, {network_is(leveled)}),
      key<Job>(
          "solver.lambda", TESSERA_AT(solver.lambda),
          {.least = 0, .above = true, .word = "auto", .example = "1"}, "",
          "strength of the prior, the same problem for every solver: sigma^2 = step lambda noise^2; auto: "
          "from sigma, else the solver's usual one",
          {{fmt::format("for denoiser.network {}, or solver.name {}", fmt::join(leveled, ", "),
                        fmt::join(weighing, ", ")),
            [](const Job& j) { return chosen(j.denoiser).takes_sigma || chosen(j.solver).weighs; }}}),
      key<Job>(
          {"solver.bounds", "word or 2 numbers", "internal range", "none",
           "none, nonnegative, or [least, most]; .inf is legal",
           "the image stays between them: a projection after every denoising step"},
          [](const Site& s, const Value& v, Job& j) { read_bounds(s, v, j.solver.bounds); },
          [](const Job& j) { return print_bounds(j.solver.bounds); }),
      key<Job>("solver.prox_iterations", TESSERA_AT(solver.prox_iterations), {.least = 1, .most = 1000000},
               "", "conjugate gradients inside a step, at most", by_cg),
      key<Job>("solver.prox_tolerance", TESSERA_AT(solver.prox_tolerance),
               {.least = 0, .most = 1, .above = true, .word = "auto", .example = "1e-4"}, "internal range",
               "largest rms error of their result; auto: 0.01 sqrt(gamma) noise, 1e-5 without noise", by_cg),
      key<Job>(
          {"solver.start", "word or file", "", "auto", "auto, adjoint, measurement, zero or a path",
           "first image: A^T y, y itself, 0, or an image file; auto: each pixel's mean of the samples that "
           "see it, and pixels that none sees filled from their neighbors; of projections the direct "
           "reconstruction where there is one and a prior follows"},
          [](const Site& s, const Value& v, Job& j) {
            const std::vector<std::string> words = {"auto", "adjoint", "measurement", "zero"};
            j.solver.start =
                scan(v, {.choices = words}, j.solver.start) ? v.text : existing_file(s, v, words);
          },
          [](const Job& j) {
            return print(j.solver.start, {.choices = {"auto", "adjoint", "measurement", "zero"}});
          },
          iterating),
      key<Job>("solver.stop.residual", TESSERA_AT(solver.stop.residual), not_negative, "",
               "stops when the image's relative change falls below; 0: off", iterating),
      key<Job>("solver.stop.chi2", TESSERA_AT(solver.stop.chi2), not_negative, "noise variance",
               "stops when the mean squared residual per sample falls below; 1: at the noise level; 0: off",
               iterating),
      key<Job>(
          "solver.stop.rounding", TESSERA_AT(solver.stop.rounding), {}, "",
          "stops when 3 iterations in a row moved the image by no more than float32's rounding (2.4e-7); "
          "false: goes on to the limit",
          iterating),
  };
}

// Where and how it runs.
JobKeys JobTable::execution() const {
  return {
      key<Job>(
          "domain.grid", TESSERA_AT(domain.grid),
          {.least = 1, .word = "auto", .shortest = 2, .longest = 3, .example = "[2, 2]"}, "ranks",
          "rows and columns of blocks, of a volume after those along its depth; their product is the number "
          "of ranks"),
      key<Job>("domain.transport", TESSERA_AT(execution.transport), {}, "",
               "how borders travel: MPI through host memory, MPI from device memory, NCCL"),
      key<Job>("domain.share_gpu", TESSERA_AT(domain.share_gpu), {}, "",
               "true: several ranks may compute on one GPU, which is an error otherwise"),
      key<Job>("device", TESSERA_AT(device), {.choices = {"auto", "cpu", "cuda"}}, "",
               "auto: a GPU where there is one"),
      key<Job>(
          "deterministic", TESSERA_AT(deterministic), {}, "",
          "true: on a GPU the same bits every time, by convolutions chosen without trials; slower. A CPU "
          "gives them always"),
      key<Job>(
          {"memory", "number or text", "share, or bytes with unit", "auto",
           "> 0, <= 1, an amount >= 1 MiB, or auto",
           "resident memory that one rank may use, program included; auto: what is there"},
          [](const Site& s, const Value& v, Job& j) { read_memory(s, v, j.memory); },
          [](const Job& j) { return Value::scalar(j.memory); }),
      key<Job>("scratch", TESSERA_AT(scratch), {.choices = {"auto", "always", "never"}}, "",
               "whether the state lies in a file: auto, where it does not fit into memory"),
      key<Job>(
          {"scratch_folder", "text", "", "auto", "a path, or auto",
           "where that file lies; auto: $SLURM_TMPDIR, $TMPDIR, else beside the results"},
          [](const Site& s, const Value& v, Job& j) {
            if (!scan(v, {}, j.scratch_folder)) reject(s, v, "the path of a folder", "write one path");
            if (j.scratch_folder != "auto") j.scratch_folder = absolute_path(j.scratch_folder, s.folder);
          },
          [](const Job& j) { return print(j.scratch_folder, {}); }),
      key<Job>("watchdog", TESSERA_AT(watchdog), not_negative, "s",
               "ends the job when a rank makes no progress for so long; 0: never"),
  };
}

JobKeys JobTable::all() const {
  JobKeys table;
  for (const JobKeys& keys :
       {general(), data(), noise(), denoiser(), solver(), execution(), output_keys(cropped)})
    table.insert(table.end(), keys.begin(), keys.end());
  add_option_keys(table, "denoiser.", denoisers, TESSERA_AT(denoiser.options), network_is,
                  [&](const DenoiserChoice& row) { return row.network ? W{random} : W{}; });
  add_option_keys(table, "solver.", solvers, TESSERA_AT(solver.options), solver_is,
                  [](const SolverChoice&) { return W{}; });
  return table;
}

template <class Row>
const Row& row_of(const std::vector<Row>& rows, const std::string& name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
  TESSERA_EXPECT(row != rows.end(), name, " came through the parser");
  return *row;
}

}  // namespace

const OperatorChoice& chosen(const OperatorConfig& op) {
  static const OperatorChoice stack{.name = kStack};
  return op.type == kStack ? stack : row_of(choices().operators, op.type);
}
const SolverChoice& chosen(const SolverConfig& solver) { return row_of(choices().solvers, solver.name); }
const DenoiserChoice& chosen(const DenoiserConfig& denoiser) {
  return row_of(choices().denoisers, denoiser.network);
}

const std::vector<Key<Job>>& job_table() {
  static const std::vector<Key<Job>> table = JobTable().all();
  return table;
}

}  // namespace tessera::config
