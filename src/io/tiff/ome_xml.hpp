// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::io {

// As much of XML as OME's descriptions need.
// Source: https://docs.openmicroscopy.org/ome-model/6.3.1/ome-tiff/specification.html

constexpr std::string_view kXmlSpace = " \t\r\n";

/// The value of an element's attribute as it is written; empty where there is none.
inline std::string_view attribute(std::string_view element, std::string_view name) {
  for (std::size_t at = element.find(name); at != std::string_view::npos; at = element.find(name, at + 1)) {
    if (at == 0 || kXmlSpace.find(element[at - 1]) == kXmlSpace.npos) continue;
    const std::size_t equal = element.find_first_not_of(kXmlSpace, at + name.size());
    if (equal == element.npos || element[equal] != '=') continue;
    const std::size_t quote = element.find_first_not_of(kXmlSpace, equal + 1);
    if (quote == element.npos) continue;
    return element.substr(quote + 1, element.find(element[quote], quote + 1) - quote - 1);
  }
  return {};
}

/// From `<name` or `<prefix:name` to the next `>`, moving `at` there; empty at the end.
inline std::string_view next_element(std::string_view xml, std::string_view name, std::size_t& at) {
  for (at = xml.find('<', at); at != xml.npos; at = xml.find('<', at + 1)) {
    const std::string_view rest = xml.substr(at + 1);
    const std::string_view word = rest.substr(0, std::min(rest.find_first_of(" \t\r\n/>"), rest.size()));
    const std::size_t colon = word.find(':');
    if (word.substr(colon == word.npos ? 0 : colon + 1) != name) continue;
    const std::size_t first = at;
    at = xml.find('>', at);
    return at == xml.npos ? std::string_view() : xml.substr(first, at - first);
  }
  return {};
}

/// A text as it is written between elements or quotes, and back.
inline constexpr std::pair<char, std::string_view> kXmlNames[] = {
    {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&apos;"}};
inline std::string xml_written(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto found = std::find_if(std::begin(kXmlNames), std::end(kXmlNames),
                                    [&](const auto& name) { return name.first == c; });
    if (found == std::end(kXmlNames))
      out += c;
    else
      out += found->second;
  }
  return out;
}
inline std::string xml_meant(std::string_view written) {
  std::string out;
  for (std::size_t at = 0; at < written.size();) {
    const auto found = std::find_if(std::begin(kXmlNames), std::end(kXmlNames), [&](const auto& name) {
      return written.substr(at).starts_with(name.second);
    });
    const bool named = found != std::end(kXmlNames);
    out += named ? found->first : written[at];
    at += named ? found->second.size() : 1;
  }
  return out;
}

}  // namespace tessera::io
