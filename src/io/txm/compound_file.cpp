// SPDX-License-Identifier: BSD-3-Clause
#include "txm/compound_file.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "tessera/core/error.hpp"

namespace tessera::io {
namespace {

constexpr std::uint32_t kMostSectors = 0xFFFFFFFA, kEndOfChain = 0xFFFFFFFE, kNoEntry = 0xFFFFFFFF;
constexpr std::int64_t kHeaderBytes = 512, kEntryBytes = 128, kMostEntries = 1'000'000;
constexpr std::size_t kHeaderTables = 109;  // sectors of the table that the header names itself

template <class T>
T number_at(const std::vector<std::uint8_t>& bytes, std::size_t at) {
  T out = 0;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

std::string small_letters(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

bool CompoundFile::knows(std::string_view head) {
  return head.starts_with("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1");
}

void CompoundFile::damaged(const std::string& what) const {
  throw InputError(concat("cannot read ", path(), " (", what, ") is the file complete? copy it again"));
}

CompoundFile::CompoundFile(const std::string& path) : file_(path) {
  std::vector<std::uint8_t> header(static_cast<std::size_t>(kHeaderBytes));
  if (file_.size() < kHeaderBytes)
    damaged(concat("it has ", file_.size(), " bytes, a compound file at least 512"));
  file_.read(0, kHeaderBytes, header.data());
  if (!knows(std::string_view(reinterpret_cast<const char*>(header.data()), 8)))
    damaged("it does not begin as a compound file does");
  const auto version = number_at<std::uint16_t>(header, 26), order = number_at<std::uint16_t>(header, 28),
             shift = number_at<std::uint16_t>(header, 30), small = number_at<std::uint16_t>(header, 32);
  if (order != 0xFFFE || (version != 3 && version != 4) || shift != (version == 3 ? 9 : 12) || small != 6)
    damaged(concat("its header says version ", version, " with sectors of 2^", shift, " and 2^", small,
                   " bytes; 3 and 4 have 2^9 or 2^12, and 2^6"));
  version3_ = version == 3;
  sector_ = std::int64_t{1} << shift;
  cutoff_ = number_at<std::uint32_t>(header, 56);
  if (cutoff_ != 4096) damaged(concat("its small streams end at ", cutoff_, " bytes, which are always 4096"));
  // The last sector may be cut off.
  sectors_ = std::max<std::int64_t>(0, (file_.size() - 1) / sector_);
  read_tables(header);
  read_directory(number_at<std::uint32_t>(header, 48));
}

// The table of all sectors, whose own sectors the header and a chain of further ones name; that of the small ones.
void CompoundFile::read_tables(const std::vector<std::uint8_t>& header) {
  const auto tables = static_cast<std::int64_t>(number_at<std::uint32_t>(header, 44));
  if (tables > sectors_)
    damaged(concat("its header names ", tables, " sectors of tables, the file has ", sectors_));
  std::vector<std::uint32_t> own;
  for (std::size_t k = 0; k < kHeaderTables && std::ssize(own) < tables; ++k)
    own.push_back(number_at<std::uint32_t>(header, 76 + 4 * k));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(sector_));
  const auto each = static_cast<std::size_t>(sector_ / 4);
  std::uint32_t further = number_at<std::uint32_t>(header, 68);
  for (std::int64_t walked = 0; std::ssize(own) < tables; ++walked) {
    if (further >= sectors_ || walked > tables) damaged("the list of its tables ends before the last one");
    file_.read(place(further), sector_, bytes.data());
    for (std::size_t k = 0; k + 1 < each && std::ssize(own) < tables; ++k)
      own.push_back(number_at<std::uint32_t>(bytes, 4 * k));
    further = number_at<std::uint32_t>(bytes, 4 * (each - 1));
  }
  const auto read_into = [&](const std::vector<std::uint32_t>& from, std::vector<std::uint32_t>& to) {
    to.resize(from.size() * each);
    for (std::size_t k = 0; k < from.size(); ++k) {
      if (from[k] >= sectors_)
        damaged(concat("a table lies in sector ", from[k], ", the file has ", sectors_));
      if (place(from[k]) + sector_ > file_.size()) damaged("a table of it is cut off");
      file_.read(place(from[k]), sector_, to.data() + k * each);
    }
  };
  read_into(own, next_);
  const auto small_tables = static_cast<std::int64_t>(number_at<std::uint32_t>(header, 64));
  if (small_tables > sectors_) damaged(concat("its header names ", small_tables, " tables of small sectors"));
  if (small_tables > 0)
    read_into(chain(next_, number_at<std::uint32_t>(header, 60), small_tables, "the table of small sectors"),
              small_next_);
}

// At most so many sectors, from the first on. A loop is refused (Brent, BIT 20 (1980) 176).
std::vector<std::uint32_t> CompoundFile::chain(const std::vector<std::uint32_t>& table, std::uint32_t first,
                                               std::int64_t most, const std::string& of) const {
  std::vector<std::uint32_t> out;
  std::uint32_t mark = kNoEntry;
  std::int64_t power = 1, length = 0;
  for (std::uint32_t at = first; at < kMostSectors && std::ssize(out) < most; at = table[at]) {
    if (at >= table.size()) damaged(concat(of, " goes on in sector ", at, ", which no table has"));
    if (at == mark) damaged(concat("the sectors of ", of, " make a loop"));
    if (length == power) {
      mark = at;
      power *= 2;
      length = 0;
    }
    ++length;
    out.push_back(at);
  }
  return out;
}

CompoundFile::Stream CompoundFile::in_sectors(const Entry& entry, const std::string& name) const {
  const bool small = !entry.root && entry.size < cutoff_;
  const std::int64_t unit = small ? small_ : sector_, wanted = (entry.size + unit - 1) / unit;
  const std::int64_t there = small ? smalls_.size : file_.size();
  if (entry.size < 0 || entry.size > there)
    damaged(concat(name, " has ", entry.size, " bytes, what holds it ", there));
  const std::vector<std::uint32_t> sectors = chain(small ? small_next_ : next_, entry.start, wanted, name);
  if (std::ssize(sectors) < wanted)
    damaged(concat(name, " has ", entry.size, " bytes, its sectors hold ", std::ssize(sectors) * unit));
  Stream out{.size = entry.size};
  for (std::int64_t k = 0; k < wanted; ++k) {
    const std::int64_t bytes = std::min(unit, entry.size - k * unit),
                       sector = sectors[static_cast<std::size_t>(k)];
    std::int64_t at = (sector + 1) * sector_;
    if (small) {  // within the stream of all small ones
      if (sector * unit + bytes > smalls_.size) damaged(concat(name, " goes on behind the small sectors"));
      const auto piece = std::upper_bound(smalls_.starts.begin(), smalls_.starts.end(), sector * unit) -
                         smalls_.starts.begin() - 1;
      at = smalls_.pieces[static_cast<std::size_t>(piece)].first + sector * unit -
           smalls_.starts[static_cast<std::size_t>(piece)];
    }
    if (at + bytes > file_.size()) damaged(concat(name, " is cut off"));
    if (!out.pieces.empty() && out.pieces.back().first + out.pieces.back().second == at) {
      out.pieces.back().second += bytes;
    } else {
      out.pieces.emplace_back(at, bytes);
      out.starts.push_back(k * unit);
    }
  }
  return out;
}

void CompoundFile::read_directory(std::uint32_t first) {
  const std::vector<std::uint32_t> sectors =
      chain(next_, first, kMostEntries * kEntryBytes / sector_, "its directory");
  if (sectors.empty()) damaged("it has no directory");
  std::vector<std::uint8_t> all(sectors.size() * static_cast<std::size_t>(sector_));
  for (std::size_t k = 0; k < sectors.size(); ++k) {
    if (sectors[k] >= sectors_ || place(sectors[k]) + sector_ > file_.size())
      damaged("its directory is cut off");
    file_.read(place(sectors[k]), sector_, all.data() + k * static_cast<std::size_t>(sector_));
  }
  const std::size_t count = all.size() / static_cast<std::size_t>(kEntryBytes);
  const auto number = [&](std::uint32_t entry, std::size_t at) {
    return number_at<std::uint32_t>(all, static_cast<std::size_t>(kEntryBytes) * entry + at);
  };
  const auto kind = [&](std::uint32_t entry) {
    return all[static_cast<std::size_t>(kEntryBytes) * entry + 66];
  };
  const auto entry_of = [&](std::uint32_t entry, bool root) {
    auto size = static_cast<std::int64_t>(number(entry, 120));
    if (!version3_) size |= static_cast<std::int64_t>(number(entry, 124)) << 32;
    return Entry{number(entry, 116), size, root};
  };
  if (kind(0) != 5) damaged("its directory does not begin with a root");
  if (const Entry root = entry_of(0, true); root.size > 0) smalls_ = in_sectors(root, "the small sectors");
  std::vector<char> seen(count, 0);
  // A folder's entries are a tree of their own; each once.
  std::vector<std::pair<std::uint32_t, std::string>> open{{number(0, 76), ""}};
  while (!open.empty()) {
    const auto [at, folder] = open.back();
    open.pop_back();
    if (at == kNoEntry) continue;
    if (at >= count || seen[at] != 0) damaged("its directory names an entry twice, or one that is not there");
    seen[at] = 1;
    std::string name;
    const std::size_t begin = static_cast<std::size_t>(kEntryBytes) * at;
    const std::size_t length = std::min<std::size_t>(number_at<std::uint16_t>(all, begin + 64), 64);
    for (std::size_t k = 0; k + 3 < length; k += 2)
      name += all[begin + k + 1] == 0 ? static_cast<char>(all[begin + k]) : '?';
    open.emplace_back(number(at, 68), folder);
    open.emplace_back(number(at, 72), folder);
    if (folder.size() + name.size() > 1024) damaged("its folders are nested too deep");
    if (kind(at) == 1) open.emplace_back(number(at, 76), folder + name + "/");
    if (kind(at) == 2) entries_[small_letters(folder + name)] = entry_of(at, false);
  }
}

const CompoundFile::Entry* CompoundFile::find(const std::string& name) const {
  const auto found = entries_.find(small_letters(name));
  return found == entries_.end() ? nullptr : &found->second;
}

bool CompoundFile::has(const std::string& name) const { return find(name) != nullptr; }

std::int64_t CompoundFile::size(const std::string& name) const {
  const Entry* const entry = find(name);
  return entry ? entry->size : 0;
}

CompoundFile::Stream CompoundFile::stream(const std::string& name) const {
  const Entry* const entry = find(name);
  if (!entry) damaged(concat("it has no ", name));
  return in_sectors(*entry, name);
}

void CompoundFile::read(const Stream& stream, std::int64_t offset, std::int64_t count, void* to) const {
  TESSERA_EXPECT(offset >= 0 && count >= 0 && offset + count <= stream.size, "bytes of the stream");
  auto* out = static_cast<std::uint8_t*>(to);
  auto k = static_cast<std::size_t>(std::upper_bound(stream.starts.begin(), stream.starts.end(), offset) -
                                    stream.starts.begin());
  for (k = k > 0 ? k - 1 : 0; count > 0; ++k) {
    const auto [at, bytes] = stream.pieces[k];
    const std::int64_t skip = offset - stream.starts[k], n = std::min(count, bytes - skip);
    file_.read(at + skip, n, out);
    out += n;
    offset += n;
    count -= n;
  }
}

std::vector<std::string> CompoundFile::names(const std::string& prefix) const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : entries_)
    if (name.starts_with(small_letters(prefix))) out.push_back(name);
  return out;
}

}  // namespace tessera::io
