// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/perf/study.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "study_tools.hpp"
#include "tessera/core/error.hpp"
#include "tessera/trace/table.hpp"

namespace tessera {
namespace {

constexpr std::size_t kText = 48;  // bytes of a text in HDF5, its end included
using Record = std::array<char, 2048>;

std::size_t width(const StudyValue& type) { return std::holds_alternative<std::string>(type) ? kText : 8; }

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string cell(const StudyValue& value, const char* format) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* count = std::get_if<std::int64_t>(&value)) return std::to_string(*count);
  return number(std::get<double>(value), format);
}

void attribute(hid_t file, const std::string& key, const std::string& value, const std::string& path) {
  const H5Handle type(check_h5(H5Tcopy(H5T_C_S1), "H5Tcopy", path), H5Tclose);
  check_h5(H5Tset_size(type.get(), std::max<std::size_t>(1, value.size())), "H5Tset_size", path);
  const H5Handle space(check_h5(H5Screate(H5S_SCALAR), "H5Screate", path), H5Sclose);
  const H5Handle made(
      check_h5(H5Acreate2(file, key.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), "H5Acreate",
               path),
      H5Aclose);
  check_h5(H5Awrite(made.get(), type.get(), value.c_str()), "H5Awrite", path);
}

}  // namespace

struct StudyTable::File {
  std::FILE* csv = nullptr;
  H5Handle text, h5;
  std::unique_ptr<trace::Table<Record>> table;
  ~File() {
    if (csv) std::fclose(csv);
  }
};

StudyTable::StudyTable(const std::string& folder, const std::string& name, std::vector<StudyColumn> columns,
                       const std::vector<std::pair<std::string, std::string>>& attributes, bool writes)
    : columns_(std::move(columns)) {
  if (!writes) return;
  const std::string csv = folder + "/" + name + ".csv", h5 = folder + "/" + name + ".h5";
  for (const std::string& path : {csv, h5})
    TESSERA_VALIDATE(!std::filesystem::exists(path), path,
                     " exists (a study never overwrites) name another folder with --out");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  file_ = std::make_unique<File>();
  file_->csv = std::fopen(csv.c_str(), "w");
  TESSERA_VALIDATE(file_->csv, csv, " cannot be written (", std::strerror(errno),
                   ") name another folder with --out");

  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const H5Handle access(check_h5(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate", h5), H5Pclose);
  check_h5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST), "H5Pset_libver_bounds",
           h5);
  file_->h5 = H5Handle(
      check_h5(H5Fcreate(h5.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "H5Fcreate", h5), H5Fclose);
  for (const auto& [key, value] : attributes) attribute(file_->h5.get(), key, value, h5);
  file_->text = H5Handle(check_h5(H5Tcopy(H5T_C_S1), "H5Tcopy", h5), H5Tclose);
  check_h5(H5Tset_size(file_->text.get(), kText), "H5Tset_size", h5);
  std::vector<trace::Column> list;
  std::size_t offset = 0;
  std::string head;
  for (const StudyColumn& c : columns_) {
    const hid_t type = std::holds_alternative<std::string>(c.type)    ? file_->text.get()
                       : std::holds_alternative<std::int64_t>(c.type) ? H5T_NATIVE_INT64
                                                                      : H5T_NATIVE_DOUBLE;
    list.push_back({c.name.c_str(), offset, type});
    offset += width(c.type);
    if (!head.empty()) head += ',';
    head += c.name;
  }
  TESSERA_EXPECT(offset <= sizeof(Record), "rows of ", offset, " bytes (a record holds ", sizeof(Record),
                 ") enlarge the record");
  constexpr hsize_t kChunk = 256;  // rows
  file_->table = std::make_unique<trace::Table<Record>>(file_->h5.get(), "rows", list, kChunk, h5);
  std::fprintf(file_->csv, "%s\n", head.c_str());
}
StudyTable::~StudyTable() = default;

void StudyTable::add(const StudyRow& row) {
  TESSERA_EXPECT(row.size() == columns_.size(), "a row of ", row.size(), " values for ", columns_.size(),
                 " columns (they would not line up) give one for each");
  rows_.push_back(row);
  if (!file_) return;
  Record record{};
  std::size_t offset = 0;
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    TESSERA_EXPECT(row[i].index() == columns_[i].type.index(), "column ", columns_[i].name,
                   " of another type (", "its file has one) convert it");
    if (const auto* text = std::get_if<std::string>(&row[i]))
      std::strncpy(record.data() + offset, text->c_str(), kText - 1);
    else if (const auto* count = std::get_if<std::int64_t>(&row[i]))
      std::memcpy(record.data() + offset, count, 8);
    else
      std::memcpy(record.data() + offset, &std::get<double>(row[i]), 8);
    offset += width(columns_[i].type);
    if (i > 0) line += ',';
    line += cell(row[i], "%.8g");
  }
  std::fprintf(file_->csv, "%s\n", line.c_str());
  std::fflush(file_->csv);
  file_->table->add(record);
  file_->table->append();
  check_h5(H5Fflush(file_->h5.get(), H5F_SCOPE_LOCAL), "H5Fflush", "the study's rows");
}

std::string StudyTable::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths.push_back(columns_[i].name.size());
    for (const StudyRow& row : rows_) widths[i] = std::max(widths[i], cell(row[i], "%.4g").size());
  }
  const auto line = [&](const auto& at) {
    std::string out;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string value = at(i);
      const std::string space(widths[i] - value.size(), ' ');
      const bool left = std::holds_alternative<std::string>(columns_[i].type);
      if (i > 0) out += "  ";
      out += left ? value + space : space + value;
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    return out + "\n";
  };
  std::string out = line([&](std::size_t i) { return columns_[i].name; });
  for (const StudyRow& row : rows_) out += line([&](std::size_t i) { return cell(row[i], "%.4g"); });
  return out;
}

double number_of(const Study& study, const StudyRow& row, const std::string& column) {
  const std::vector<StudyColumn> columns = study.columns();
  const auto found =
      std::find_if(columns.begin(), columns.end(), [&](const StudyColumn& c) { return c.name == column; });
  TESSERA_EXPECT(found != columns.end(), "the study has no column ", column);
  return std::get<double>(row[static_cast<std::size_t>(found - columns.begin())]);
}

std::vector<StudyKind>& studies() {
  const auto alone = [](auto make) {
    return [make](const StudyOptions& options, const Communicator&) { return make(options); };
  };
  static std::vector<StudyKind> all{
      {"shape", alone(make_shape_study)},   {"batch", alone(make_batch_study)},
      {"layers", alone(make_layers_study)}, {"kernels", alone(make_kernels_study)},
      {"precision", make_precision_study},  {"halo", make_halo_study}};
  return all;
}

std::unique_ptr<Study> make_study(const std::string& name, const StudyOptions& options,
                                  const Communicator& comm) {
  TESSERA_VALIDATE(options.scale >= 1, "--scale is ", options.scale,
                   " (sizes are divided by it) give 1 or more");
  const bool halo = name == "halo";
  TESSERA_VALIDATE(!halo || comm.size() > 1,
                   "study halo on one rank (it measures messages between ranks) start it on several: "
                   "jobs/launch.sh -n 2 tessera study halo");
  TESSERA_VALIDATE(halo || comm.size() == 1, "study ", name, " on ", comm.size(),
                   " ranks (it measures one) start it without a launcher");
  std::string known;
  for (const StudyKind& kind : studies()) {
    if (kind.name == name) return kind.make(options, comm);
    known += known.empty() ? kind.name : ", " + kind.name;
  }
  throw InputError(concat("there is no study ", name, " (it is none of ", known, ") choose one of them"));
}

}  // namespace tessera
