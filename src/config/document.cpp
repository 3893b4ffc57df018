// SPDX-License-Identifier: BSD-3-Clause
#include "document.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <sstream>
#include <utility>

#include "tessera/core/error.hpp"

namespace tessera::config {
namespace {

using Kind = Value::Kind;

// Aliases can make a small file endless (a node that holds itself) or huge (aliases of aliases).
constexpr int kDeepest = 20;
constexpr int kMostNodes = 100000;

struct Reader {
  std::string name;   // of the file, or "--set a=b"
  bool lines = true;  // an override has none
  int nodes = 0;

  std::string place(const YAML::Node& node) const {
    const YAML::Mark mark = node.Mark();
    return lines && mark.line >= 0 ? fmt::format("{}:{}", name, mark.line + 1) : name;
  }

  Value convert(const YAML::Node& node, int depth) {
    const std::string here = place(node);
    TESSERA_VALIDATE(depth < kDeepest && ++nodes < kMostNodes, here,
                     ": the values are nested too deep, or too many (no job needs more than ", kDeepest,
                     " levels) look for an alias '*' that stands for itself");
    Value value;
    value.place = here;
    if (node.IsScalar()) {
      value.kind = Kind::scalar;
      value.text = node.Scalar();
    } else if (node.IsSequence()) {
      value.kind = Kind::list;
      for (const YAML::Node& item : node) value.items.push_back(convert(item, depth + 1));
    } else if (node.IsMap()) {
      value.kind = Kind::map;
      for (const auto& entry : node) {
        const YAML::Node &key = entry.first, &item = entry.second;
        TESSERA_VALIDATE(key.IsScalar(), place(key),
                         ": a key is not a plain word (keys are names) write 'key: value'");
        if (const Value* first = value.find(key.Scalar()))
          throw InputError(concat(place(key), ": key ", key.Scalar(), " is written twice (first at ",
                                  first->place, ") remove one of them"));
        value.keys.push_back(key.Scalar());
        value.items.push_back(convert(item, depth + 1));
        value.items.back().place = place(key);
      }
    }
    return value;
  }
};

std::string plain_or_quoted(const Value& v) {
  if (!v.quoted) return v.text;
  std::string out = "\"";
  for (const char c : v.text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string flow(const Value& v) {
  std::string out;
  switch (v.kind) {
    case Kind::null:
      return "null";
    case Kind::scalar:
      return plain_or_quoted(v);
    case Kind::list:
      for (const Value& item : v.items) out += (out.empty() ? "" : ", ") + flow(item);
      return '[' + out + ']';
    case Kind::map:
      for (std::size_t i = 0; i < v.items.size(); ++i)
        out += (out.empty() ? "" : ", ") + v.keys[i] + ": " + flow(v.items[i]);
      return '{' + out + '}';
  }
  return out;
}

void block(const Value& v, const std::string& indent, std::string& out) {
  for (std::size_t i = 0; i < v.items.size(); ++i) {
    const Value& item = v.items[i];
    out += indent + v.keys[i] + ':';
    const bool long_list = item.kind == Kind::list && !item.items.empty() && item.items[0].kind == Kind::map;
    if (item.kind == Kind::map && !item.items.empty()) {
      out += '\n';
      block(item, indent + "  ", out);
    } else if (long_list) {
      out += '\n';
      for (const Value& entry : item.items) out += indent + "  - " + flow(entry) + '\n';
    } else {
      out += ' ' + flow(item) + '\n';
    }
  }
}

}  // namespace

const Value* Value::find(std::string_view key) const {
  const auto it = std::find(keys.begin(), keys.end(), key);
  return it == keys.end() ? nullptr : &items[static_cast<std::size_t>(it - keys.begin())];
}
Value* Value::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

void Value::put(std::string_view path, Value value) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  kind = Kind::map;
  Value* child = find(key);
  if (!child) {
    keys.push_back(key);
    items.emplace_back();
    child = &items.back();
  }
  if (dot == std::string_view::npos)
    *child = std::move(value);
  else
    child->put(path.substr(dot + 1), std::move(value));
}

namespace {

/// Whether a text holds more than one document. Not by LoadAll: yaml-cpp 0.7 finds documents without end
/// behind a ',' that stands outside of brackets.
class SecondDocument final : public YAML::EventHandler {
 public:
  static bool in(const std::string& text) {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    SecondDocument counts;
    while (counts.documents_ < 2 && parser.HandleNextDocument(counts)) {
    }
    return counts.documents_ > 1;
  }

 private:
  void OnDocumentStart(const YAML::Mark&) override { ++documents_; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}

  int documents_ = 0;
};

}  // namespace

Value read_document(const std::string& text, const std::string& name) {
  YAML::Node document;
  bool more = false;
  try {
    more = SecondDocument::in(text);
    if (!more) document = YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw InputError(fmt::format("{}:{}: the file is not YAML ({}) check indentation, colons and brackets",
                                 name, error.mark.line + 1, error.msg));
  }
  TESSERA_VALIDATE(!more, name, ": the file holds more than one document (a job is one) remove what follows ",
                   "'---', or a ',' that stands alone");
  Value value;
  if (document.IsDefined() && !document.IsNull()) value = Reader{name}.convert(document, 0);
  TESSERA_VALIDATE(value.kind == Kind::map, name, ": the file holds no keys (a job is a map of keys) ",
                   "start from an example of docs/job_file.md");
  return value;
}

void apply_override(Value& document, const std::string& text) {
  const std::string place = "--set " + text;
  const std::size_t equal = text.find('=');
  TESSERA_VALIDATE(equal != std::string::npos && equal > 0, place,
                   ": no key=value (an override names a key and its value) write for example ",
                   "--set solver.iterations=50");
  const std::string path = text.substr(0, equal);
  Value value;
  try {
    value = Reader{place, false}.convert(YAML::Load(text.substr(equal + 1)), 0);
  } catch (const YAML::Exception& error) {
    throw InputError(concat(place, ": the value is not YAML (", error.msg, ") put quotes around it"));
  }

  Value* at = &document;
  for (std::size_t start = 0;;) {
    const std::size_t dot = path.find('.', start);
    const std::string key = path.substr(start, dot - start);
    const bool last = dot == std::string::npos;
    Value* next = nullptr;
    if (at->kind == Kind::list) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
      TESSERA_VALIDATE(error == std::errc{} && end == key.data() + key.size() && index < at->items.size(),
                       place, ": ", path.substr(0, start - 1), " has no entry '", key, "' (it is a list of ",
                       at->items.size(), ", counted from 0) name one of them or replace the list");
      next = &at->items[index];
      TESSERA_VALIDATE(!last || value.kind != Kind::null, place,
                       ": an entry of a list cannot be taken away (",
                       "the others would move) replace the list");
    } else {
      TESSERA_VALIDATE(at->kind != Kind::scalar, place, ": ", path.substr(0, start ? start - 1 : 0), " is ",
                       show(*at), " in the file (a single value has no keys below it) set it as a whole");
      at->kind = Kind::map;
      next = at->find(key);
      if (last && value.kind == Kind::null) {
        TESSERA_VALIDATE(next, place, ": ", path,
                         " is not in the file (null takes a key away) leave this out");
        const auto i = next - at->items.data();
        at->keys.erase(at->keys.begin() + i);
        at->items.erase(at->items.begin() + i);
        return;
      }
      if (!next) {
        at->keys.push_back(key);
        at->items.emplace_back();
        next = &at->items.back();
        next->place = place;
      }
    }
    if (last) {
      *next = std::move(value);
      return;
    }
    at = next;
    start = dot + 1;
  }
}

std::string write_document(const Value& document) {
  std::string out;
  block(document, "", out);
  return out;
}

std::string show_whole(const Value& value) { return flow(value); }

std::string show(const Value& value) {
  std::string text = value.kind == Kind::scalar ? (value.text.empty() ? "''" : value.text) : flow(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace tessera::config
