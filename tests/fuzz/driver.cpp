// SPDX-License-Identifier: BSD-3-Clause
// fuzz_cases FOLDER: every file of FOLDER/TARGET once, by any compiler. With libFuzzer: fuzz_TARGET.
#include "targets.hpp"

#ifdef TESSERA_FUZZ_TARGET

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  tessera::fuzz::TESSERA_FUZZ_TARGET(bytes, count);
  return 0;
}

#else

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  if (argc != 2) return 2;
  for (const auto& target : tessera::fuzz::kTargets) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(fs::path(argv[1]) / target.name))
      files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const fs::path& path : files) {
      std::ifstream file(path, std::ios::binary);
      const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
      std::printf("%s\n", path.c_str());  // the one that fails is the last
      std::fflush(stdout);
      target.run(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    }
    if (files.empty()) return 1;  // a test of nothing
    std::printf("%s: %zu inputs\n", target.name, files.size());
  }
  return 0;
}

#endif
