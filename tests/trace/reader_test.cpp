// SPDX-License-Identifier: BSD-3-Clause
// jobs/read_trace.py and the examples of docs/trace.md, on a trace of three ranks.
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "tessera/core/phase.hpp"
#include "tessera/trace/keys.hpp"
#include "tessera/trace/trace.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string text;
};
Outcome shell(const std::string& command) {
  Outcome out;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return out;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.text.append(buffer, n);
  const int status = pclose(pipe);
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

class Reader : public testing::Test {
 protected:
  void SetUp() override {
    source = std::getenv("TESSERA_SOURCE_DIR") ? std::getenv("TESSERA_SOURCE_DIR") : "";
    ASSERT_FALSE(source.empty()) << "ctest sets TESSERA_SOURCE_DIR";
    python = fs::exists(source + "/.venv/bin/python") ? source + "/.venv/bin/python" : "python3";
    if (const Outcome found = shell(python + " -c 'import h5py, pandas'"); found.code != 0)
      GTEST_SKIP() << python << " has no h5py and pandas: " << found.text;

    std::string name = (fs::temp_directory_path() / "tessera-reader-XXXXXX").string();
    folder = mkdtemp(name.data());
    take_phases();
    for (int rank = 0; rank < 3; ++rank) {
      TraceHeader header;
      header.numbers = {{keys::rank, rank}, {keys::ranks, 3}};
      TraceWriter trace(folder + '/' + trace_name(rank), header);
      for (int k = 0; k < 4; ++k) {
        set_iteration(k);
        {
          const PhaseScope outer(Phase::denoise);
          const PhaseScope inner(Phase::halo);
          count_sent(100 * (rank + 1), 1);
        }
        IterationResult result;
        result.iteration = k;
        result.seconds = 0.5;
        result.psnr = 20 + k;
        result.residual = 0.125;
        trace.on_result(result);
      }
      trace.at_end(StopReason::limit);
    }
    set_iteration(-1);
    write_trace_index(folder + "/trace.h5", 3);
  }
  void TearDown() override {
    if (folder.empty()) return;
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  Outcome run_python(const std::string& code) const {
    std::ofstream(folder + "/script.py") << code;
    return shell("cd " + folder + " && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" + source + "/jobs " + python +
                 " script.py");
  }

  std::string source, python, folder;
};

TEST_F(Reader, GivesFramesOfAllRanks) {
  const Outcome out = run_python(R"(
from read_trace import read_trace
iterations, phases = read_trace(".")
assert len(iterations) == 12 and len(phases) == 24, (len(iterations), len(phases))
assert sorted(iterations["rank"].unique()) == [0, 1, 2]
assert list(iterations[iterations["rank"] == 1]["psnr"]) == [20, 21, 22, 23]
assert iterations["objective"].isna().all()
halo = phases[phases["phase"] == "halo"]
assert len(halo) == 12 and (halo["parent"] == "denoise").all()
assert (halo.groupby("rank")["bytes_sent"].sum() == [400, 800, 1200]).all()
assert list(halo[halo["rank"] == 2]["iteration"]) == [0, 1, 2, 3]
)");
  EXPECT_EQ(out.code, 0) << out.text;
}

TEST_F(Reader, PrintsASummary) {
  const Outcome out = shell(python + ' ' + source + "/jobs/read_trace.py " + folder);
  EXPECT_EQ(out.code, 0) << out.text;
  for (const char* part : {"3 ranks, status limit", "4 iterations recorded, the last is 3", "PSNR 23.00 dB",
                           "halo", "denoise", "the trace itself took"})
    EXPECT_NE(out.text.find(part), std::string::npos) << part << " in:\n" << out.text;
  EXPECT_NE(out.text.find("800"), std::string::npos) << "mean of 400, 800, 1200 bytes in:\n" << out.text;
}

TEST_F(Reader, SaysThatAFolderHasNoTrace) {
  const Outcome out = shell(python + ' ' + source + "/jobs/read_trace.py /proc");
  EXPECT_EQ(out.code, 1);
  EXPECT_NE(out.text.find("read_trace: no trace/rank-*.h5 in /proc"), std::string::npos) << out.text;
}

TEST_F(Reader, RunsTheExamplesOfItsPage) {
  std::ifstream file(source + "/docs/trace.md");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  int examples = 0;
  for (std::size_t at = 0; (at = page.find("```python\n", at)) != std::string::npos; ++examples) {
    at += 10;
    const std::size_t end = page.find("```", at);
    ASSERT_NE(end, std::string::npos);
    const Outcome out = run_python(page.substr(at, end - at));
    EXPECT_EQ(out.code, 0) << out.text << "\nof\n" << page.substr(at, end - at);
    at = end;
  }
  EXPECT_EQ(examples, 2);
}

TEST(TraceReference, NamesEveryKey) {
  const char* source = std::getenv("TESSERA_SOURCE_DIR");
  ASSERT_TRUE(source) << "ctest sets it";
  std::ifstream page_file(std::string(source) + "/docs/trace.md"),
      keys_file(std::string(source) + "/include/tessera/trace/keys.hpp");
  std::ostringstream page, header;
  page << page_file.rdbuf();
  header << keys_file.rdbuf();
  const std::string text = header.str();
  int names = 0;
  for (std::size_t at = 0; (at = text.find(" = \"", at)) != std::string::npos; ++names) {
    at += 4;
    const std::string key = text.substr(at, text.find('"', at) - at);
    EXPECT_TRUE(page.str().find('`' + key + '`') != std::string::npos ||
                page.str().find("`/" + key + '`') != std::string::npos)
        << key << " is not in docs/trace.md";
  }
  EXPECT_GT(names, 30);
}

}  // namespace
}  // namespace tessera
