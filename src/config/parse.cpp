// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/config/parse.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <type_traits>
#include <utility>
#include <variant>

#include "document.hpp"
#include "table.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "values.hpp"

namespace tessera {
namespace config {
namespace {

namespace fs = std::filesystem;
using Present = std::map<std::string, std::string>;  // path -> place

std::string join(const std::string& a, const std::string& b) { return a.empty() ? b : a + '.' + b; }

/// The keys that may stand directly below `prefix`.
template <class T>
std::vector<std::string> names_below(const std::vector<Key<T>>& table, const std::string& prefix) {
  std::vector<std::string> names;
  const std::size_t start = prefix.empty() ? 0 : prefix.size() + 1;
  for (const Key<T>& key : table) {
    if (start > 0 && !key.info.path.starts_with(prefix + '.')) continue;
    const std::string name = key.info.path.substr(start, key.info.path.find('.', start) - start);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

[[noreturn]] void unknown_key(const std::string& place, const std::string& parent, const std::string& name,
                              const std::vector<std::string>& known) {
  std::string advice = nearest(name, known);
  if (!advice.empty()) advice = join(parent, advice);
  const auto depth = [](const std::string& path) { return std::count(path.begin(), path.end(), '.'); };
  if (advice.empty())
    for (const KeyInfo& key : job_keys())  // right name, wrong section; the outermost such key
      if (key.path.ends_with('.' + name) && (advice.empty() || depth(key.path) < depth(advice)))
        advice = key.path;
  if (!advice.empty()) {
    advice = "did you mean " + advice + '?';
  } else {
    for (const std::string& k : known) advice += (advice.empty() ? "known here: " : ", ") + k;
  }
  throw InputError(concat(place, ": unknown key ", join(parent, name), " (it would be ignored) ", advice));
}

/// Reads the keys of a node below `prefix` of the table.
template <class T>
void read_map(const Site& site, const Value& node, const std::string& prefix,
              const std::vector<Key<T>>& table, T& out) {
  const std::string parent = prefix.empty() ? site.path : join(site.path, prefix);
  if (node.kind != Value::Kind::map)
    reject({parent, site.folder}, node, "a map of keys", "write its keys below it");
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string& name = node.keys[i];
    const Value& value = node.items[i];
    const std::string path = join(prefix, name);
    const Site here{join(site.path, path), site.folder, site.present};
    const auto key =
        std::find_if(table.begin(), table.end(), [&](const auto& k) { return k.info.path == path; });
    const bool section = std::any_of(table.begin(), table.end(),
                                     [&](const auto& k) { return k.info.path.starts_with(path + '.'); });
    if (key == table.end() && !section) unknown_key(value.place, parent, name, names_below(table, prefix));
    (*site.present)[here.path] = value.place;
    if (section && (key == table.end() || value.kind == Value::Kind::map))
      read_map(site, value, path, table, out);
    else
      key->read(here, value, out);
  }
}

template <class T>
bool acts(const Key<T>& key, const T& config) {
  return std::all_of(key.when.begin(), key.when.end(), [&](const auto& w) { return w.acts(config); });
}

/// A key that was written and acts on nothing is an error: the user believes that it does something.
template <class T>
void refuse_idle(const Site& site, const std::vector<Key<T>>& table, const T& config) {
  for (const Key<T>& key : table) {
    const std::string path = join(site.path, key.info.path);
    const auto written = site.present->find(path);
    if (written == site.present->end()) continue;
    for (const When<T>& w : key.when)
      if (!w.acts(config))
        throw InputError(concat(written->second, ": ", path, " acts on nothing in this job (it acts only ",
                                w.text, ") remove it"));
  }
}

template <class T>
Value write_map(const std::vector<Key<T>>& table, const T& config) {
  Value out{.kind = Value::Kind::map};
  for (const Key<T>& key : table) {
    if (!acts(key, config)) continue;
    Value value = key.write(config);
    if (value.kind != Value::Kind::null) out.put(key.info.path, std::move(value));
  }
  return out;
}

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

/// The boundary that an operator's first blur has; empty where it has none.
std::string boundary_of(const OperatorConfig& op) {
  if (has_boundary(op)) return op.boundary;
  for (const OperatorConfig& part : op.parts)
    if (const std::string boundary = boundary_of(part); !boundary.empty()) return boundary;
  return {};
}

std::string penalty_solvers() {
  std::string out;
  for (const SolverChoice& row : choices().solvers)
    if (row.penalty) out += (out.empty() ? "" : " and ") + row.name;
  return out;
}

/// Options that nobody wrote get their defaults, so that jobs which say the same are equal.
void fill(const std::vector<Option>& known, Options& options) {
  for (const Option& o : known)
    std::visit([&](const auto& value) { options.slot<std::remove_cvref_t<decltype(value)>>(o); }, o.fallback);
}

/// Step, sigma and lambda are settled when the noise level and the operator's norm are known; what the file
/// alone decides is refused here.
void check_schedules(const Complaints& c, const JobConfig& job) {
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

/// What no key says alone: missing, contradictory, without effect. Fills in what only the whole file decides.
/// `boundary` is what measurements were made with, where their file says it.
void finish(const Site& site, const std::string& file, const std::string& boundary, JobConfig& job) {
  const Complaints c(site, file);
  ProblemConfig& problem = job.problem;
  c.refuse_if(
      !problem.has_truth() && problem.measurements.empty(), "problem.truth",
      "is missing, and so is problem.measurements (there is nothing to reconstruct) write one of them");
  const bool simulated = problem.measurements.empty();
  fill(chosen(job.solver).options, job.solver.options);
  fill(chosen(job.denoiser).options, job.denoiser.options);
  fill_boundary(problem.op, simulated ? "circular" : boundary.empty() ? "valid" : boundary);
  refuse_idle(site, job_table(), job);
  c.refuse_if(simulated && problem.scale.from_data, "problem.scale.factor",
              "is data (there are no measurements whose values could say it) write a number or auto");
  c.refuse_if(!problem.image.unit.empty() && problem.image.pixel.empty(), "problem.image.unit",
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
  c.refuse_if(
      job.denoiser.mode == "whole" && std::any_of(grid.begin(), grid.end(), [](auto n) { return n > 1; }),
      "denoiser.mode", "is whole (domain.grid asks for more than one rank) write patch");
  c.refuse_if(job.device == "cpu" && (job.domain.transport == "nccl" || job.domain.transport == "cuda-mpi"),
              "domain.transport",
              "is " + job.domain.transport + " (it moves device memory, device is cpu) write mpi");
  c.refuse_if(job.device == "cpu" && job.denoiser.precision == "tf32", "denoiser.precision",
              "is tf32 (only GPUs have it, device is cpu) write float32");

  const std::string& preview = job.output.preview;
  const std::string suffix = fs::path(preview).extension().string();
  const bool jpeg = suffix == ".jpg" || suffix == ".jpeg";
  c.refuse_if(
      !preview.empty() && (fs::path(preview).has_parent_path() ||
                           (!jpeg && suffix != ".png" && suffix != ".tif" && suffix != ".tiff")),
      "output.preview",
      "is " + preview +
          " (it must be the plain name of a .png, .jpg or .tif) write for example 'preview: result.png'");
  const std::int64_t bits = job.output.preview_bits;
  c.refuse_if(jpeg && bits > 8, "output.preview_bits",
              concat("is ", bits, " (JPEG has 8) write auto, or a preview .png or .tif"));
  c.refuse_if(suffix == ".png" && bits > 16, "output.preview_bits",
              concat("is ", bits, " (PNG has 8 or 16) write auto, or a preview .tif"));

  check_schedules(c, job);
  if (job.output.folder.empty())
    job.output.folder = absolute_path("runs/" + fs::path(file).stem().string(), job.folder);
}

}  // namespace

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

}  // namespace config

namespace config {
namespace {

void name_own_datasets(Value& v, const std::string& file) {
  if (v.text.starts_with(":/")) v.text = file + v.text;
  for (Value& item : v.items) name_own_datasets(item, file);
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return out;
}

/// Puts what the file says of its problem where the document says nothing; returns the keys taken.
std::vector<std::string> take_problem(Value& document, const Value& said) {
  Value* mine = document.find("problem");
  const Value* theirs = said.find("problem");
  std::vector<std::string> taken;
  if (!mine || !theirs) return taken;
  for (const char* key : {"operator", "noise", "seed"})
    if (const Value* v = theirs->find(key); v && !mine->find(key)) {
      mine->put(key, *v);
      taken.emplace_back(key);
    }
  const auto take_each = [&](const char* section, const char* name) {
    const Value* all = theirs->find(section);
    bool any = false;
    for (std::size_t i = 0; all && i < all->keys.size(); ++i) {
      const Value* here = mine->find(section);
      if (here && (here->kind != Value::Kind::map || here->find(all->keys[i]))) continue;
      mine->put(join(section, all->keys[i]), all->items[i]);
      any = true;
    }
    if (any) taken.emplace_back(name);
  };
  take_each("scale", "scale");
  if (!mine->find("truth")) take_each("image", "image size");
  return taken;
}

/// What the job says otherwise than the file of its measurements.
std::vector<std::string> differing(const ProblemConfig& job, const ProblemConfig& file) {
  std::vector<std::string> out;
  if (!(job.op == file.op)) out.emplace_back("operator");
  if (!(job.scale == file.scale)) out.emplace_back("scale");
  if (!(job.noise == file.noise)) out.emplace_back("noise");
  if (job.seed != file.seed) out.emplace_back("seed");
  return out;
}

Value document_of(const std::string& text, const std::string& path,
                  const std::vector<std::string>& overrides) {
  Value document = read_document(text, path);
  for (const std::string& override_text : overrides) apply_override(document, override_text);
  return document;
}

}  // namespace
}  // namespace config

JobConfig parse_job(const std::string& text, const std::string& path,
                    const std::vector<std::string>& overrides, const FileProblem& file) {
  using namespace config;
  JobConfig job;
  job.text = text;
  job.folder = fs::absolute(path).lexically_normal().parent_path().string();
  Value document = document_of(text, path, overrides);

  // A file for a later program has keys that this one cannot know: say that, not the first of them.
  if (const Value* schema = document.find("schema")) {
    std::int64_t version = 0;
    TESSERA_VALIDATE(!scan(*schema, {.least = kSchema + 1}, version), schema->place, ": schema is ", version,
                     " (this tessera reads schema ", kSchema, ") use a newer tessera");
  }
  std::optional<JobConfig> said;
  if (!file.text.empty()) {
    Value theirs = read_document(file.text, file.path);
    name_own_datasets(theirs, file.path);
    if (const std::vector<std::string> taken = take_problem(document, theirs); !taken.empty())
      job.notices.push_back(concat(listed(taken), " as ", file.path, " says"));
    theirs.put("problem.measurements", Value::quote(file.path));
    said = parse_job(write_document(theirs), file.path, {});
  }
  Present present;
  const Site site{"", job.folder, &present};
  read_map(site, document, "", job_table(), job);
  finish(site, path, said ? boundary_of(said->problem.op) : "", job);
  if (said)
    if (const std::vector<std::string> other = differing(job.problem, said->problem); !other.empty())
      job.notices.push_back(concat(listed(other), " as the job says, not as ", file.path, " does"));
  return job;
}

std::string named_measurements(const std::string& text, const std::string& path,
                               const std::vector<std::string>& overrides) {
  using namespace config;
  const Value document = document_of(text, path, overrides);
  const Value* problem = document.find("problem");
  const Value* v = problem ? problem->find("measurements") : nullptr;
  if (!v || v->kind != Value::Kind::scalar || v->text.empty()) return {};
  return absolute_path(v->text, fs::absolute(path).lexically_normal().parent_path().string());
}

std::string write_problem(const JobConfig& job) {
  using namespace config;
  const Value all = write_map(job_table(), job);
  Value out{.kind = Value::Kind::map};
  const Value* problem = all.find("problem");
  for (const char* key : {"operator", "scale", "noise", "seed"})
    if (const Value* v = problem->find(key)) out.put(join("problem", key), *v);
  for (const char* key : {"size", "channels"})
    if (const Value* image = problem->find("image"))
      if (const Value* v = image->find(key)) out.put(join("problem.image", key), *v);
  return write_document(out);
}

std::string write_job(const JobConfig& job) {
  return config::write_document(config::write_map(config::job_table(), job));
}

namespace config {
namespace {

void differences(const std::string& path, const Value* a, const Value* b, std::vector<std::string>& out) {
  const bool maps = (!a || a->kind == Value::Kind::map) && (!b || b->kind == Value::Kind::map);
  if (!maps) {
    if (!a || !b || show_whole(*a) != show_whole(*b)) out.push_back(path);
    return;
  }
  std::vector<std::string> keys;
  for (const Value* v : {a, b})
    for (std::size_t i = 0; v && i < v->keys.size(); ++i)
      if (std::find(keys.begin(), keys.end(), v->keys[i]) == keys.end()) keys.push_back(v->keys[i]);
  for (const std::string& key : keys)
    differences(join(path, key), a ? a->find(key) : nullptr, b ? b->find(key) : nullptr, out);
}

}  // namespace
}  // namespace config

std::vector<std::string> differing_keys(const std::string& a, const std::string& b) {
  const config::Value first = config::read_document(a, "a"), second = config::read_document(b, "b");
  std::vector<std::string> out;
  config::differences("", &first, &second, out);
  return out;
}

const std::vector<KeyInfo>& job_keys() {
  static const std::vector<KeyInfo> keys = [] {
    std::vector<KeyInfo> all;
    for (const auto& key : config::job_table()) {
      if (key.info.path != "problem.operator") {
        all.push_back(key.info);
        continue;
      }
      for (const auto& inner : config::operator_table()) {
        all.push_back(inner.info);
        all.back().path = key.info.path + '.' + all.back().path;
      }
    }
    return all;
  }();
  return keys;
}

std::optional<std::int64_t> memory_budget(const JobConfig& job, std::int64_t available) {
  if (job.memory == "auto") return std::nullopt;
  char* end = nullptr;
  const double share = std::strtod(job.memory.c_str(), &end);
  if (*end == '\0') return static_cast<std::int64_t>(share * static_cast<double>(available));
  return parse_bytes(job.memory);
}

}  // namespace tessera
