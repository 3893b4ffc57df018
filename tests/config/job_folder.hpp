// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tessera/app/operator_table.hpp"
#include "tessera/core/error.hpp"

namespace tessera::test {

/// Before the first job is parsed.
inline const bool choices_are_known = (know_choices(), true);

/// A folder of its own with the (empty) files that the jobs of these tests name; removed at the end.
class JobFolder {
 public:
  JobFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera-job-XXXXXX").string();
    if (!mkdtemp(name.data())) throw RunError("no temporary folder");
    path_ = std::filesystem::canonical(name).string();
    for (const char* file : {"photo.jpg", "photo.png", "y.h5", "k.npy", "w.tif", "m.png", "net.safetensors",
                             "cell.tif", "truth.tif", "psf.npy"})
      std::ofstream(path_ + '/' + file).flush();
  }
  ~JobFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Messages without the folder: the job file's places lose it, other paths begin with DIR.
  std::string shorten(std::string text) const {
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{path_ + "/photo.yaml", "photo.yaml"}, {path_, "DIR"}})
      for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    return text;
  }

 private:
  std::string path_;
};

}  // namespace tessera::test
