// SPDX-License-Identifier: BSD-3-Clause
// The keys of an operator.
#include "table_keys.hpp"

namespace tessera::config {
namespace {

using Gaussian = KernelConfig::Gaussian;
using KernelFile = KernelConfig::File;

/// A kernel of this form, made so if it is another: the first key of a form decides.
template <class Form>
Form& form_of(OperatorForm& c) {
  if (auto* form = std::get_if<Form>(&c.op.kernel.form)) return *form;
  return c.op.kernel.form.emplace<Form>();
}

When<OperatorForm> type_is(std::vector<std::string> types) {
  return is<OperatorForm>("type", TESSERA_AT(op.type), std::move(types));
}

std::vector<Key<OperatorForm>> kernel_keys() {
  using F = OperatorForm;
  const std::vector<When<F>> kernel = {
      type_is(names(choices().operators, [](const OperatorChoice& row) { return row.kernel; }))};
  return {
      key<F>(
          {"kernel.gaussian.sigma", "1 to 3 numbers", "pixels, or % of the image width", "required", "> 0",
           "standard deviations along rows (down) and columns (right); one number for both; of a volume "
           "three, "
           "depth first, in pixels"},
          [](const Site& s, const Value& v, F& c) { read_gaussian_widths(s, v, form_of<Gaussian>(c)); },
          [](const F& c) {
            const auto* g = std::get_if<Gaussian>(&c.op.kernel.form);
            return g ? print_gaussian_widths(*g) : Value{};
          },
          kernel),
      key<F>(
          {"kernel.gaussian.angle", "number", "degrees", "0", "", "turns the Gaussian"},
          [](const Site& s, const Value& v, F& c) {
            if (!scan(v, {}, form_of<Gaussian>(c).angle)) reject(s, v, "a number", "write for example 45");
          },
          [](const F& c) {
            const auto* g = std::get_if<Gaussian>(&c.op.kernel.form);
            return g ? print(g->angle, {}) : Value{};
          },
          kernel),
      key<F>(
          {"kernel.file", "file", "", "none", "",
           "picture, .npy or HDF5 (k.h5:/dataset) with the kernel, of a volume a stack (k.tif:/all), in "
           "place of a "
           "Gaussian"},
          [](const Site& s, const Value& v, F& c) { form_of<KernelFile>(c).path = existing_file(s, v); },
          [](const F& c) {
            const auto* f = std::get_if<KernelFile>(&c.op.kernel.form);
            return f ? print(f->path, {}) : Value{};
          },
          kernel),
      key<F>(
          {"kernel.normalize", "true or false", "", "true", "only with kernel.file",
           "divides the kernel by its sum"},
          [](const Site& s, const Value& v, F& c) {
            if (!scan(v, {}, form_of<KernelFile>(c).normalize))
              reject(s, v, "true or false", "write for example 'normalize: false'");
          },
          [](const F& c) {
            const auto* f = std::get_if<KernelFile>(&c.op.kernel.form);
            return f ? print(f->normalize, {}) : Value{};
          },
          kernel),
      key<F>(
          {"kernel.center", "2 to 3 whole numbers", "pixels", "auto", ">= 0 or auto; only with kernel.file",
           "row and column of the kernel's origin, of a volume's after its slice, from 0; auto: size / 2, "
           "rounded down"},
          [](const Site& s, const Value& v, F& c) {
            auto& center = form_of<KernelFile>(c).center;
            center.clear();
            if (v.kind == Value::Kind::scalar && v.text == "auto") return;
            if (!scan(v, {.least = 0, .shortest = 2, .longest = 3}, center))
              reject(s, v, "2 to 3 whole numbers >= 0 or auto", "write for example 'center: [7, 7]'");
          },
          [](const F& c) {
            const auto* f = std::get_if<KernelFile>(&c.op.kernel.form);
            return f ? print(f->center, {.word = "auto"}) : Value{};
          },
          kernel),
      key<F>("boundary", TESSERA_AT(op.boundary),
             {.choices = {"circular", "reflect", "replicate", "zero", "valid"},
              .fallback = "circular; valid with problem.measurements"},
             "", "what lies beyond the image; valid: only samples that need nothing from there", kernel),
  };
}

std::vector<Key<OperatorForm>> stack_keys() {
  using F = OperatorForm;
  const std::vector<When<F>> stack = {type_is({kStack})};
  return {
      key<F>(
          {"parts", "list of operators", "", "required", "not stacks themselves",
           "operators that see the same image; each entry has the keys of an operator"},
          [](const Site& s, const Value& v, F& c) {
            if (v.kind != Value::Kind::list || v.items.empty())
              reject(s, v, "a list of operators",
                     "write for example [{type: identity}, {type: mask, keep: 0.5}]");
            for (std::size_t i = 0; i < v.items.size(); ++i)
              c.op.parts.push_back(
                  read_operator({s.path + '.' + std::to_string(i), s.folder, s.present}, v.items[i]));
          },
          [](const F& c) {
            Value list = Value::list({});
            for (const OperatorConfig& part : c.op.parts) list.items.push_back(write_operator(part));
            return list;
          },
          stack),
      key<F>("angles.count", TESSERA_AT(count),
             {.least = 2, .most = 65535, .example = "8", .fallback = "required"}, "",
             "repeats the stack's one Gaussian part this often, turned from first to last", stack),
      key<F>("angles.first", TESSERA_AT(first), {}, "degrees", "angle of the first of them", stack),
      key<F>("angles.last", TESSERA_AT(last), {}, "degrees", "angle of the last of them", stack),
  };
}

std::vector<Key<OperatorForm>> make_operator_table() {
  using F = OperatorForm;
  const std::vector<OperatorChoice>& rows = choices().operators;
  std::vector<std::string> types = names(rows);
  types.emplace_back(kStack);
  std::vector<Key<F>> table = {
      key<F>("type", TESSERA_AT(op.type), {.choices = types}, "",
             "what is measured: the image itself, some of its pixels, a blur of it, a blur "
             "on a coarser grid, or several of them")};
  for (const auto& keys : {kernel_keys(), stack_keys()}) table.insert(table.end(), keys.begin(), keys.end());
  add_option_keys(table, "", rows, TESSERA_AT(op.options), type_is,
                  [](const OperatorChoice&) { return std::vector<When<F>>{}; });
  for (Key<F>& k : table)
    if (k.info.path.starts_with("angles.")) k.write = [](const F&) { return Value{}; };  // parts say it all
  return table;
}

}  // namespace

const std::vector<Key<OperatorForm>>& operator_table() {
  static const std::vector<Key<OperatorForm>> table = make_operator_table();
  return table;
}

}  // namespace tessera::config
