// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::config {

/// One node of a job file, with the place where it stands: "photo.yaml:12", or the override it came from.
///
/// A tree of values, without YAML's aliases: what YAML leaves open (a key written twice, two documents, nodes
/// that hold themselves) is refused on the way in.
struct Value {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text = {};               // scalar
  bool quoted = false;                 // scalar: written with quotes, a free text
  std::vector<Value> items = {};       // of a list; the values of a map
  std::vector<std::string> keys = {};  // of a map, one per item, in the order of the file
  std::string place = {};              // of the key for a map's value

  static Value scalar(std::string text) { return {.kind = Kind::scalar, .text = std::move(text)}; }
  static Value quote(std::string text) {
    return {.kind = Kind::scalar, .text = std::move(text), .quoted = true};
  }
  static Value list(std::vector<Value> items) { return {.kind = Kind::list, .items = std::move(items)}; }

  /// The value of a key; null pointer where there is none.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  /// Puts a value at a dotted path of maps, which are made on the way.
  void put(std::string_view path, Value value);
};

/// The text of a job file as a tree; `name` is how places call the file. InputError.
Value read_document(const std::string& text, const std::string& name);

/// Applies "key.path=value": the value is YAML, a number in the path is the index of a list, the value null
/// takes the key away. InputError.
void apply_override(Value& document, const std::string& override_text);

/// Block YAML, one key a line; lists stand on one line.
std::string write_document(const Value& document);

/// On one line, at most about 60 characters, for messages.
std::string show(const Value& value);
/// All of it, in one line.
std::string show_whole(const Value& value);

}  // namespace tessera::config
