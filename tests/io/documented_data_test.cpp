// SPDX-License-Identifier: BSD-3-Clause
// Runs the Python snippets of docs/your_data.md and reads with tessera what they wrote.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/measurement_file.hpp"

namespace tessera {
namespace {

std::string source() {
  const char* folder = std::getenv("TESSERA_SOURCE_DIR");
  return folder ? folder : ".";
}

// Runs Python text in the working folder; false where .venv has no h5py.
bool run(const std::string& name, const std::string& text) {
  const std::string python = source() + "/.venv/bin/python";
  if (std::system((python + " -c 'import h5py' > /dev/null 2>&1").c_str()) != 0) return false;
  write_text(name, text);
  EXPECT_EQ(std::system((python + " " + name).c_str()), 0) << text;
  return true;
}

std::vector<std::string> snippets() {
  const std::string page = read_text(source() + "/docs/your_data.md"), open = "```python\n";
  std::vector<std::string> out;
  for (std::size_t at = page.find(open); at != std::string::npos; at = page.find(open, at)) {
    at += open.size();
    out.push_back(page.substr(at, page.find("```", at) - at));
  }
  return out;
}

ArrayView view_of(std::vector<float>& data, const Box& box, std::int64_t channels) {
  data.assign(static_cast<std::size_t>(box.pixels() * channels), -7);
  ArrayView view;
  view.data = data.data();
  view.box = box;
  view.channels = channels;
  view.channel_stride = box.pixels();
  view.stride = {box.extent(1) * box.extent(2), box.extent(2), 1};
  return view;
}

TEST(DocumentedData, TheMeasurementAndTheKernelOfTheManualAreRead) {
  const std::vector<std::string> python = snippets();
  ASSERT_EQ(python.size(), 2U);
  for (const std::string name : {"y.h5", "psf.npy"}) std::filesystem::remove(name);
  if (!run("measurement.py", python[0])) GTEST_SKIP() << "no h5py in .venv";
  const Communicator self;
  const std::vector<MeasurementPartInfo> info = measurement_info("y.h5", self);
  ASSERT_EQ(info.size(), 1U);
  EXPECT_EQ(info[0].source.box, Box::image2d(64, 96));
  EXPECT_EQ(info[0].source.channels, 1);
  EXPECT_TRUE(has_weights("y.h5", self));
  EXPECT_EQ(Hdf5File::open("y.h5", self).text_attribute("/measurements", "job"),
            "problem:\n  operator: {type: blur, kernel: {file: psf.npy}}\n");
  std::vector<float> samples, weights;
  const Box grid = info[0].source.box;
  const Layout layout({grid});
  read_measurements("y.h5", "measurements", {{grid, layout, view_of(samples, grid, 1)}}, self);
  read_measurements("y.h5", "weights", {{grid, layout, view_of(weights, grid, 1)}}, self);
  int masked = 0;
  for (std::size_t k = 0; k < samples.size(); ++k) {
    EXPECT_TRUE(samples[k] >= 0 && samples[k] < 1);
    EXPECT_EQ(weights[k], samples[k] > 0.98F ? 0 : 1 / 1e-4F);
    masked += weights[k] == 0;
  }
  EXPECT_GT(masked, 0);

  ASSERT_TRUE(run("kernel.py", python[1]));
  const NpyArray kernel = read_npy("psf.npy");
  EXPECT_EQ(kernel.shape, (std::vector<std::int64_t>{15, 15}));
  double sum = 0;
  for (const double v : kernel.values) sum += v;
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(DocumentedData, OtherTypesFiltersAndMasksOfH5pyAreRead) {
  if (!run("other.py", R"(import h5py, numpy as np
a = np.arange(3 * 40 * 50).reshape(3, 40, 50)
with h5py.File("other.h5", "w") as f:
    f.create_dataset("measurements/0", data=a.astype(">u2"), chunks=(3, 40, 50), compression="gzip", shuffle=True)
    f.create_dataset("weights/0", data=(a[0] % 2 == 0))
    f["text"] = "hello"
    f["complex"] = np.zeros((4, 4), np.complex64)
    f["image"] = a[0].astype("f8")
)"))
    GTEST_SKIP() << "no h5py in .venv";
  const Communicator self;
  const std::vector<MeasurementPartInfo> info = measurement_info("other.h5", self);
  EXPECT_EQ(info.at(0).source.full_scale, 65535);
  std::vector<float> samples, weights;
  const Box grid = Box::image2d(40, 50);
  const Layout layout({grid});
  read_measurements("other.h5", "measurements", {{grid, layout, view_of(samples, grid, 3)}}, self);
  read_measurements("other.h5", "weights", {{grid, layout, view_of(weights, grid, 3)}}, self);
  for (std::size_t k = 0; k < samples.size(); ++k) {
    ASSERT_EQ(samples[k], static_cast<float>(k));
    ASSERT_EQ(weights[k], k % 2000 % 2 == 0 ? 1 : 0);  // one mask for all channels
  }
  EXPECT_EQ(image_source_info("other.h5", self).box, grid);
  EXPECT_EQ(image_source_info("other.h5:/measurements/0", self).full_scale, 65535);
  EXPECT_THROW(image_source_info("other.h5:/text", self), InputError);
  EXPECT_THROW(image_source_info("other.h5:/complex", self), InputError);
  EXPECT_THROW(image_source_info("other.h5:/measurements", self), InputError);
}

}  // namespace
}  // namespace tessera
