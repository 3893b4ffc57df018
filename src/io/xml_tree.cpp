// SPDX-License-Identifier: BSD-3-Clause
#include "xml_tree.hpp"

#include <algorithm>

#include "tiff/ome_xml.hpp"

namespace tessera::io {
namespace {

constexpr std::size_t kDeepestElement = 64;
constexpr auto kNowhere = std::string_view::npos;

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kXmlSpace);
  if (first == kNowhere) return "";
  return xml_meant(text.substr(first, text.find_last_not_of(kXmlSpace) + 1 - first));
}

// name="value" and so on, up to the end of a tag.
std::vector<std::pair<std::string, std::string>> attributes_of(std::string_view tag) {
  std::vector<std::pair<std::string, std::string>> out;
  for (std::size_t at = tag.find_first_of(kXmlSpace); at < tag.size();) {
    const std::size_t equal = tag.find('=', at);
    const std::size_t quote = equal == kNowhere ? equal : tag.find_first_of("\"'", equal);
    const std::size_t end = quote == kNowhere ? quote : tag.find(tag[quote], quote + 1);
    if (end == kNowhere) break;
    out.emplace_back(trimmed(tag.substr(at, equal - at)), xml_meant(tag.substr(quote + 1, end - quote - 1)));
    at = end + 1;
  }
  return out;
}

// Where a tag that begins at `at` ends: a > outside of quotes.
std::size_t end_of_tag(std::string_view xml, std::size_t at) {
  char quote = 0;
  for (; at < xml.size(); ++at) {
    if (quote ? xml[at] == quote : xml[at] == '"' || xml[at] == '\'') quote = quote ? '\0' : xml[at];
    if (!quote && xml[at] == '>') return at;
  }
  return kNowhere;
}

// Behind the comment, declaration or instruction at `at`; `at` where there is none.
std::size_t behind_other(std::string_view xml, std::size_t at) {
  const std::string_view rest = xml.substr(at);
  const std::string_view end = rest.starts_with("<!--") ? "-->"
                               : rest.starts_with("<?") ? "?>"
                               : rest.starts_with("<!") ? ">"
                                                        : "";
  if (end.empty()) return at;
  const std::size_t found = xml.find(end, at);
  return found == kNowhere ? xml.size() : found + end.size();
}

}  // namespace

XmlElement parse_xml(std::string_view xml) {
  std::vector<XmlElement> open;  // from the outermost on
  std::size_t deeper = 0;        // elements that are left out
  std::size_t text_from = 0;
  for (std::size_t at = xml.find('<'); at != kNowhere; at = xml.find('<', at)) {
    if (const std::size_t next = behind_other(xml, at); next != at) {
      at = next;
      continue;
    }
    if (!open.empty() && deeper == 0 && open.back().children.empty() && open.back().text.empty())
      open.back().text = trimmed(xml.substr(text_from, at - text_from));
    const std::size_t end = end_of_tag(xml, at);
    if (end == kNowhere) return {};
    std::string_view tag = xml.substr(at + 1, end - at - 1);
    at = text_from = end + 1;
    const bool closes = tag.starts_with("/"), alone = tag.ends_with("/");
    if (closes && deeper > 0) {
      --deeper;
      continue;
    }
    if (!closes && open.size() == kDeepestElement) {
      deeper += alone ? 0 : 1;
      continue;
    }
    if (!closes) {
      if (alone) tag.remove_suffix(1);
      XmlElement made;
      made.name = std::string(tag.substr(0, std::min(tag.find_first_of(kXmlSpace), tag.size())));
      made.attributes = attributes_of(tag);
      open.push_back(std::move(made));
    }
    if (!closes && !alone) continue;
    if (open.empty()) return {};
    XmlElement done = std::move(open.back());
    open.pop_back();
    if (closes && trimmed(tag.substr(1)) != done.name) return {};
    if (open.empty()) return done;
    open.back().children.push_back(std::move(done));
  }
  return {};
}

const XmlElement* XmlElement::child(std::string_view wanted) const {
  for (const XmlElement& one : children)
    if (one.name == wanted) return &one;
  return nullptr;
}
std::string XmlElement::attribute(std::string_view wanted) const {
  for (const auto& [key, value] : attributes)
    if (key == wanted) return value;
  return "";
}
std::string XmlElement::word(std::string_view wanted) const {
  const XmlElement* const one = child(wanted);
  return one ? one->text : "";
}

}  // namespace tessera::io
