// SPDX-License-Identifier: BSD-3-Clause
// Nodes of a document against a table of keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "document.hpp"
#include "table.hpp"
#include "tessera/core/error.hpp"

namespace tessera::config {

inline std::string join(const std::string& a, const std::string& b) { return a.empty() ? b : a + '.' + b; }

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

/// InputError with what was probably meant.
[[noreturn]] void unknown_key(const std::string& place, const std::string& parent, const std::string& name,
                              const std::vector<std::string>& known);

/// Reads the keys of a node below `prefix` of the table.
template <class T>
void read_map(const Site& site, const Value& node, const std::string& prefix,
              const std::vector<Key<T>>& table, T& out) {
  const std::string parent = prefix.empty() ? site.path : join(site.path, prefix);
  if (node.kind != Value::Kind::map) {
    std::string known;
    for (const std::string& name : names_below(table, prefix)) known += (known.empty() ? "" : ", ") + name;
    reject({parent, site.folder}, node, "a map of keys", "write its keys below it; known here: " + known);
  }
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

}  // namespace tessera::config
