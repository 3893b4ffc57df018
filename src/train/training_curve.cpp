// SPDX-License-Identifier: BSD-3-Clause
#include "training_curve.hpp"

#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"

namespace tessera::training {
namespace {

constexpr const char* kColumns = "step,seconds,loss,learning_rate,penalty,norm,largest_norm";
constexpr const char* kPsnr = ",psnr@";  // of each noise level, in 255ths

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream text(line + ',');
  for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
  return cells;
}

std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

// As the first line has it: a level that was read again is the same one.
double level_of(double sigma) { return std::stod(digits(255 * sigma)); }

}  // namespace

TrainingCurve::TrainingCurve(std::string path, std::int64_t step) : path_(std::move(path)) {
  if (step == 0 || !std::filesystem::exists(path_)) return;
  std::istringstream text(read_text(path_));
  std::string line;
  std::getline(text, line);
  const std::vector<std::string> head = cells_of(line);
  constexpr std::size_t first_psnr = 7;
  try {
    TESSERA_VALIDATE(line.starts_with(kColumns), "another first line");
    while (std::getline(text, line)) {
      const std::vector<std::string> cells = cells_of(line);
      Row row;
      TrainRecord& r = row.record;
      r.step = std::stoll(cells.at(0));
      if (r.step > step) break;  // of steps whose weights were not saved
      row.seconds = std::stod(cells.at(1));
      r.loss = std::stod(cells.at(2));
      r.learning_rate = std::stod(cells.at(3));
      r.penalty = std::stod(cells.at(4));
      r.norm = std::stod(cells.at(5));
      r.largest_norm = std::stod(cells.at(6));
      for (std::size_t k = first_psnr; k < head.size(); ++k)
        if (!cells.at(k).empty())
          r.psnr[std::stod(head[k].substr(head[k].find('@') + 1)) / 255] = std::stod(cells[k]);
      rows_.push_back(row);
    }
  } catch (const std::exception&) {
    throw InputError(concat(path_, " is not the curve of a training (line ", rows_.size() + 2,
                            " cannot be read) remove it, or name another output"));
  }
}

void TrainingCurve::save() const {
  std::set<double> levels;
  for (const Row& row : rows_)
    for (const auto& [sigma, psnr] : row.record.psnr) levels.insert(level_of(sigma));
  std::string text = kColumns;
  for (const double level : levels) text += kPsnr + digits(level);
  text += '\n';
  for (const auto& [r, seconds] : rows_) {
    text += std::to_string(r.step);
    for (const double value : {seconds, r.loss, r.learning_rate, r.penalty, r.norm, r.largest_norm})
      text += ',' + digits(value);
    std::map<double, double> measured;
    for (const auto& [sigma, psnr] : r.psnr) measured[level_of(sigma)] = psnr;
    for (const double level : levels)
      text += ',' + (measured.contains(level) ? digits(measured.at(level)) : std::string());
    text += '\n';
  }
  write_text(path_, text);
}

}  // namespace tessera::training
