// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/config/parse.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "document.hpp"
#include "job_rules.hpp"
#include "maps.hpp"
#include "table.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "values.hpp"

namespace tessera {
namespace config {
namespace {

namespace fs = std::filesystem;
using Present = std::map<std::string, std::string>;  // path -> place

}  // namespace

void unknown_key(const std::string& place, const std::string& parent, const std::string& name,
                 const std::vector<std::string>& known) {
  std::string advice = nearest(name, known);
  if (!advice.empty()) advice = join(parent, advice);
  // Right name, wrong section: one inside of this section where there is any, else the outermost such key.
  const std::string inside = '.' + parent.substr(parent.rfind('.') + 1) + '.';
  const auto far = [&](const std::string& path) {
    return std::count(path.begin(), path.end(), '.') + (path.find(inside) == std::string::npos ? 1000 : 0);
  };
  if (advice.empty())
    for (const KeyInfo& key : job_keys())
      if (key.path.ends_with('.' + name) && (advice.empty() || far(key.path) < far(advice)))
        advice = key.path;
  if (!advice.empty()) {
    advice = "did you mean " + advice + '?';
  } else {
    for (const std::string& k : known) advice += (advice.empty() ? "known here: " : ", ") + k;
  }
  throw InputError(concat(place, ": unknown key ", join(parent, name), " (it would be ignored) ", advice));
}

namespace {

void name_own_datasets(Value& v, const std::string& file) {
  if (v.text.starts_with(":/")) v.text = file + v.text;
  for (Value& item : v.items) name_own_datasets(item, file);
}

std::string enumerated(const std::vector<std::string>& names) {
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

/// `bad: [hot, dead]` and `bad: all` are short for keys that are true.
void spread_bad(Value& document) {
  Value* problem = document.find("problem");
  Value* bad = problem ? problem->find("bad") : nullptr;
  if (!bad || bad->kind == Value::Kind::map || bad->kind == Value::Kind::null) return;
  std::vector<Value> words = bad->kind == Value::Kind::list ? bad->items : std::vector<Value>{*bad};
  const std::vector<std::string> all{"hot", "dead", "columns", "rows", "cosmic_rays", "missing_tiles"};
  if (words.size() == 1 && words[0].text == "all") {
    words.clear();
    for (const std::string& name : all) words.push_back(Value::scalar(name));
  }
  Value out{.kind = Value::Kind::map};
  out.place = bad->place;
  for (const Value& word : words) {
    if (word.kind != Value::Kind::scalar || std::find(all.begin(), all.end(), word.text) == all.end())
      reject({"problem.bad", "", nullptr}, word.kind == Value::Kind::null ? *bad : word,
             "all, or a list of " + enumerated(all), "write for example 'bad: [hot, cosmic_rays]'");
    out.put(word.text, Value::scalar("true"));
    out.items.back().place = bad->place;
  }
  *bad = std::move(out);
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

/// Where relative paths begin: at the job file's folder, or, for a copy of one, where it says.
std::string folder_of(const Value& document, const std::string& path) {
  const std::string folder = fs::absolute(path).lexically_normal().parent_path().string();
  const Value* said = document.find("relative_to");
  return said && said->kind == Value::Kind::scalar ? absolute_path(said->text, folder) : folder;
}

}  // namespace
}  // namespace config

JobConfig parse_job(const std::string& text, const std::string& path,
                    const std::vector<std::string>& overrides, const FileProblem& file, Purpose purpose) {
  using namespace config;
  JobConfig job;
  job.text = text;
  Value document = document_of(text, path, overrides);
  job.folder = folder_of(document, path);

  // A file for a later program has keys that this one cannot know: say that, not the first of them.
  if (const Value* schema = document.find("schema")) {
    std::int64_t version = 0;
    TESSERA_VALIDATE(!scan(*schema, {.least = kSchema + 1}, version), schema->place, ": schema is ", version,
                     " (this tessera reads schema ", kSchema, ") use a newer tessera");
  }
  spread_bad(document);
  std::optional<JobConfig> said;
  if (!file.text.empty()) {
    Value theirs = read_document(file.text, file.path);
    name_own_datasets(theirs, file.path);
    if (const std::vector<std::string> taken = take_problem(document, theirs); !taken.empty())
      job.notices.push_back(concat(enumerated(taken), " as ", file.path, " says"));
    theirs.put("problem.measurements", Value::quote(file.path));
    said = parse_job(write_document(theirs), file.path, {});
  }
  Present present;
  const Site site{"", job.folder, &present};
  read_map(site, document, "", job_table(), job);
  finish(site, path, said ? boundary_of(said->problem.op) : "", purpose, job);
  if (purpose == Purpose::reconstruct) check_schedules(site, path, job);
  if (said)
    if (const std::vector<std::string> other = differing(job.problem, said->problem); !other.empty())
      job.notices.push_back(concat(enumerated(other), " as the job says, not as ", file.path, " does"));
  return job;
}

std::string named_measurements(const std::string& text, const std::string& path,
                               const std::vector<std::string>& overrides) {
  using namespace config;
  const Value document = document_of(text, path, overrides);
  const Value* problem = document.find("problem");
  const Value* v = problem ? problem->find("measurements") : nullptr;
  if (!v || v->kind != Value::Kind::scalar || v->text.empty()) return {};
  return absolute_path(v->text, folder_of(document, path));
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

}  // namespace tessera
