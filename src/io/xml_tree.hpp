// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::io {

/// An element of XML with what is in it. Text is what stands before its first child, without blanks around it.
struct XmlElement {
  std::string name, text;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;

  /// The first child of that name; null where there is none.
  const XmlElement* child(std::string_view name) const;
  std::string attribute(std::string_view name) const;  // or ""
  std::string word(std::string_view name) const;       // text of the first child of that name, or ""
};

/// The outermost element; one without a name where the text is no XML of which all elements end. Comments, declarations
/// and what lies deeper than 64 elements are left out.
XmlElement parse_xml(std::string_view xml);

}  // namespace tessera::io
