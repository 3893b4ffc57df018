// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/core/paths.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "tessera/core/error.hpp"

namespace tessera {
namespace {

std::string value_of(const std::string& name, const std::string& said, const std::string& path) {
  const char* value = std::getenv(name.c_str());
  TESSERA_VALIDATE(value && *value, "the path ", path, " has ", said, " (", name,
                   " is not set here) write the path itself");
  return value;
}

bool in_name(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::string expand_path(const std::string& path, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (path.find_first_of("~$") == std::string::npos || fs::exists(fs::path(folder) / path, none)) return path;
  std::string out;
  std::size_t at = 0;
  if (path[0] == '~') {
    at = std::min(path.find('/'), path.size());
    TESSERA_VALIDATE(at == 1, "the path ", path, " begins at ", path.substr(0, at),
                     " (only ~ alone stands for a folder, your home) write the path itself");
    out = value_of("HOME", "~", path);
  }
  while (at < path.size()) {
    const bool braced = path[at] == '$' && at + 1 < path.size() && path[at + 1] == '{';
    const std::size_t begin = at + (braced ? 2 : 1);
    std::size_t end = begin;
    while (end < path.size() && in_name(path[end])) ++end;
    const bool named =
        path[at] == '$' && end > begin && std::isdigit(static_cast<unsigned char>(path[begin])) == 0;
    if (!named || (braced && (end == path.size() || path[end] != '}'))) {
      out += path[at++];
      continue;
    }
    const std::string name = path.substr(begin, end - begin);
    out += value_of(name, "$" + name, path);
    at = end + (braced ? 1 : 0);
  }
  return out;
}

}  // namespace tessera
