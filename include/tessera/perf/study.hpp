// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/comm/exchange.hpp"

namespace tessera {

using StudyValue = std::variant<std::string, std::int64_t, double>;
using StudyRow = std::vector<StudyValue>;

/// A column of a study's table; an example value fixes its type. Text is cut to 47 characters in HDF5.
struct StudyColumn {
  std::string name;
  StudyValue type;
};

struct StudyOptions {
  std::int64_t scale = 1;             // sizes are divided by it; --quick: 8
  std::vector<std::string> networks;  // of shape and batch; empty: drunet, unet, dncnn
  std::vector<std::string> images;    // of precision; of loader, or folders; empty: synthetic scenes
  std::string weights;                // of precision
  Device device{};
};

/// Where the rows of a study go: NAME.csv and NAME.h5 (dataset /rows) in a folder, each row on disk before
/// the next one is measured, so that a killed study keeps what it had. Only rank 0 writes; the others' is
/// silent.
class StudyTable {
 public:
  /// InputError where one of the files exists.
  StudyTable(const std::string& folder, const std::string& name, std::vector<StudyColumn> columns,
             const std::vector<std::pair<std::string, std::string>>& attributes, bool writes);
  ~StudyTable();
  void add(const StudyRow& row);
  /// The rows as aligned text.
  std::string text() const;
  std::size_t rows() const { return rows_.size(); }

 private:
  struct File;
  std::vector<StudyColumn> columns_;
  std::vector<StudyRow> rows_;
  std::unique_ptr<File> file_;
};

/// One question, asked by measuring.
class Study {
 public:
  virtual ~Study() = default;
  virtual std::vector<StudyColumn> columns() const = 0;
  /// About how long run() takes on this machine, seconds; measures for a moment. Not collective.
  virtual double estimate() = 0;
  virtual std::size_t rows() const = 0;
  /// The next row; called rows() times. Collective.
  virtual StudyRow next() = 0;
  /// Of a row, where it ran pictures; 0: it did not.
  virtual double pictures_per_second(const StudyRow&) const { return 0; }
  /// What belongs under the table; empty: nothing.
  virtual std::string note() const { return {}; }
};

/// The number of a row in the column of that name. ContractError where there is none.
double number_of(const Study& study, const StudyRow& row, const std::string& column);

/// A study by its name; `make` throws InputError where it cannot run here.
struct StudyKind {
  std::string name;
  std::function<std::unique_ptr<Study>(const StudyOptions&, const Communicator&)> make;
};
/// All of them. A program may add its own before the first is made.
std::vector<StudyKind>& studies();

/// InputError for an unknown name, and where the study cannot run here (halo on one rank).
std::unique_ptr<Study> make_study(const std::string& name, const StudyOptions& options,
                                  const Communicator& comm);

}  // namespace tessera
