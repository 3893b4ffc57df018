// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/hdf5.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"

namespace tessera {
namespace {

// Rows cut into as many blocks as there are ranks, two columns of them from four ranks on; with `empty` the
// last rank has nothing. Edges fall where they fall: no chunk edge, no multiple of anything.
Box block(const Box& image, int ranks, int rank, bool empty) {
  const int active = empty && ranks > 1 ? ranks - 1 : ranks;
  if (rank >= active) return {};
  const int columns = active >= 4 && active % 2 == 0 ? 2 : 1, rows = active / columns;
  const auto cut = [](std::int64_t extent, int parts, int k) { return extent * k / parts; };
  const int i = rank / columns, j = rank % columns;
  return {{0, cut(image.extent(1), rows, i), cut(image.extent(2), columns, j)},
          {image.extent(0), cut(image.extent(1), rows, i + 1), cut(image.extent(2), columns, j + 1)}};
}

// Every sample holds its own address.
double address(const Box& image, std::int64_t c, std::int64_t z, std::int64_t y, std::int64_t x) {
  return static_cast<double>(((c * image.extent(0) + z) * image.extent(1) + y) * image.extent(2) + x) / 8;
}

// A block with channels last in memory, so that strides are not the dense ones.
template <class T>
struct Block {
  std::vector<T> data;
  ArrayView view;

  Block(const Box& box, std::int64_t channels)
      : data(static_cast<std::size_t>(box.pixels() * channels), T(-1)) {
    view.data = data.data();
    view.box = box;
    view.channels = channels;
    view.channel_stride = 1;
    view.stride = {box.extent(1) * box.extent(2) * channels, box.extent(2) * channels, channels};
    view.type = sizeof(T) == 8 ? ElementType::float64 : ElementType::float32;
  }
  template <class Visit>
  void each(Visit visit) {
    std::size_t at = 0;
    for (std::int64_t z = view.box.lo()[0]; z < view.box.hi()[0]; ++z)
      for (std::int64_t y = view.box.lo()[1]; y < view.box.hi()[1]; ++y)
        for (std::int64_t x = view.box.lo()[2]; x < view.box.hi()[2]; ++x)
          for (std::int64_t c = 0; c < view.channels; ++c) visit(c, z, y, x, data[at++]);
  }
};

template <class T>
void write_addresses(const std::string& path, const Box& image, std::int64_t channels,
                     const Communicator& comm, bool empty) {
  Block<T> own(block(image, comm.size(), comm.rank(), empty), channels);
  own.each(
      [&](auto c, auto z, auto y, auto x, T& value) { value = static_cast<T>(address(image, c, z, y, x)); });
  Hdf5File file = Hdf5File::create(path, comm);
  file.write("/image", image, own.view);
  file.write("/group/second", image, own.view);
  file.set_attribute("/image", "unit", "um");
  file.set_attribute("/", "schema", 1.0);
  file.set_attribute("/", "long", std::string(200000, 'x'));
  file.close();
}

struct Case {
  Box image;
  std::int64_t channels;
};
const std::vector<Case> kCases{{Box::image2d(1031, 613), 1},
                               {Box::image2d(37, 1100), 3},
                               {Box::image2d(5, 3), 2},
                               {Box({0, 0, 0}, {67, 70, 65}), 1}};

TEST(Hdf5, AddressesComeBackOnEveryNumberOfRanksAndTheFileIsTheSame) {
  std::map<std::string, std::string> reference;  // case -> SHA-256 of the file that one rank wrote
  test::on_groups([&](const Communicator& comm) {
    for (std::size_t k = 0; k < kCases.size(); ++k)
      for (const bool empty : {false, true}) {
        const auto& [image, channels] = kCases[k];
        const std::string path = concat("ranks_", comm.size(), "_case_", k, ".h5");
        SCOPED_TRACE(path);
        write_addresses<float>(path, image, channels, comm, empty);
        comm.barrier();
        EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
        const std::string sum = sha256(path);
        const std::string first = reference.emplace(concat("case_", k), sum).first->second;
        EXPECT_EQ(sum, first);

        Hdf5File file = Hdf5File::open(path, comm);
        EXPECT_EQ(file.info("/image").channels, channels);
        EXPECT_EQ(file.info("/image").box, image);
        EXPECT_EQ(file.info("/image").type, "float32");
        // Read with other blocks than those written: the groups of ranks change places.
        Block<double> back(block(image, comm.size(), comm.size() - 1 - comm.rank(), !empty), channels);
        file.read("/image", back.view);
        int wrong = 0;
        back.each([&](auto c, auto z, auto y, auto x, double value) {
          wrong += value != static_cast<float>(address(image, c, z, y, x));
        });
        EXPECT_EQ(wrong, 0);
        comm.barrier();
      }
  });
}

TEST(Hdf5, AttributesListsAndLookUps) {
  test::on_groups([](const Communicator& comm) {
    const std::string path = concat("attributes_", comm.size(), ".h5");
    write_addresses<double>(path, Box::image2d(9, 7), 1, comm, false);
    const Hdf5File file = Hdf5File::open(path, comm);
    EXPECT_EQ(file.info("image").type, "float64");
    EXPECT_EQ(file.text_attribute("/image", "unit"), "um");
    EXPECT_EQ(file.number_attribute("/", "schema"), 1.0);
    EXPECT_EQ(file.text_attribute("/", "long"), std::string(200000, 'x'));
    EXPECT_EQ(file.text_attribute("/", "none"), std::nullopt);
    EXPECT_EQ(file.text_attribute("/", "schema"), std::nullopt);  // a number
    EXPECT_EQ(file.number_attribute("/none", "schema"), std::nullopt);
    EXPECT_EQ(file.list("/"), (std::vector<std::string>{"group", "image"}));
    EXPECT_EQ(file.list("/group"), std::vector<std::string>{"second"});
    EXPECT_TRUE(file.has("/group/second"));
    EXPECT_FALSE(file.has("/grup/second"));
    EXPECT_FALSE(file.has("/group/third"));
    comm.barrier();
  });
}

TEST(Hdf5, NumbersOfEveryTypeAreConverted) {
  const std::string path = concat("types_", Communicator::world().rank(), ".h5");
  Hdf5File file = Hdf5File::create(path, Communicator());
  const std::array<hsize_t, 2> shape{2, 3};
  const std::array<std::uint16_t, 6> values{0, 1, 2, 255, 4095, 65535};
  const H5Handle space(H5Screate_simple(2, shape.data(), nullptr), H5Sclose);
  for (const auto& [name, type] : std::map<std::string, hid_t>{
           {"uint16", H5T_STD_U16BE}, {"int32", H5T_STD_I32LE}, {"float64", H5T_IEEE_F64BE}}) {
    const H5Handle set(
        H5Dcreate2(file.id(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
        H5Dclose);
    ASSERT_GE(H5Dwrite(set.get(), H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  }
  // PyTables' bool, and flags of 16 bits.
  const std::array<std::uint8_t, 6> bits{0, 1, 1, 0, 0, 1};
  for (const auto& [name, type] :
       std::map<std::string, hid_t>{{"bits", H5T_STD_B8LE}, {"flags", H5T_STD_B16BE}}) {
    const H5Handle set(
        H5Dcreate2(file.id(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
        H5Dclose);
    ASSERT_GE(H5Dwrite(set.get(), H5T_NATIVE_B8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bits.data()), 0);
  }
  file.close();
  Hdf5File back = Hdf5File::open(path, Communicator());
  for (const std::string name : {"bits", "flags"}) {
    EXPECT_EQ(back.info(name).type, name == "bits" ? "bool" : "uint16");
    Block<float> read(Box::image2d(2, 3), 1);
    back.read(name, read.view);
    EXPECT_EQ(read.data, (std::vector<float>{0, 1, 1, 0, 0, 1})) << name;
    Block<double> wide(Box::image2d(2, 3), 1);
    back.read(name, wide.view);
    EXPECT_EQ(wide.data, (std::vector<double>{0, 1, 1, 0, 0, 1})) << name;
  }
  for (const std::string name : {"uint16", "int32", "float64"}) {
    EXPECT_EQ(back.info(name).type, name);
    EXPECT_EQ(back.info(name).shape, (std::vector<std::int64_t>{2, 3}));
    Block<float> read(Box::image2d(2, 3), 1);
    back.read(name, read.view);
    EXPECT_EQ(read.data, (std::vector<float>{0, 1, 2, 255, 4095, 65535})) << name;
  }
}

std::string read_error(const std::string& path, const Communicator& comm,
                       const std::string& dataset = "/image") {
  try {
    Hdf5File file = Hdf5File::open(path, comm);
    // Only the last rank asks for more than there is; the message must still be everyone's.
    Block<float> block(comm.rank() == comm.size() - 1 ? Box::image2d(100, 7) : Box(), 1);
    file.read(dataset, block.view);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Hdf5, BadFilesAreOneMessageOnAllRanks) {
  test::on_groups([](const Communicator& comm) {
    const std::string good = concat("good_", comm.size(), ".h5"), cut = concat("cut_", comm.size(), ".h5"),
                      text = concat("text_", comm.size(), ".h5");
    write_addresses<float>(good, Box::image2d(600, 7), 1, comm, false);
    if (comm.rank() == 0) {
      std::filesystem::copy_file(good, cut, std::filesystem::copy_options::overwrite_existing);
      std::filesystem::resize_file(cut, std::filesystem::file_size(good) / 2);
      std::ofstream(text) << "this is text";
    }
    comm.barrier();
    for (const auto& [path, dataset, says] :
         std::vector<std::array<std::string, 3>>{{"missing.h5", "/image", "No such file"},
                                                 {".", "/image", "not a regular file"},
                                                 {text, "/image", "no HDF5 file"},
                                                 {cut, "/image", "truncated"},
                                                 {good, "/imgae", "no dataset /imgae"},
                                                 {good, "/group", "H5Dopen failed"}}) {
      SCOPED_TRACE(path + dataset);
      const std::string message = read_error(path, comm, dataset);
      EXPECT_NE(message.find(says), std::string::npos) << message;
      EXPECT_NE(message.find(path), std::string::npos) << message;
      EXPECT_EQ(message, comm.broadcast(message, 0));
    }
    Hdf5File file = Hdf5File::open(good, comm);
    Block<float> wide(comm.rank() == comm.size() - 1 ? Box::image2d(600, 8) : Box(), 1);
    EXPECT_THROW(file.read("/image", wide.view), InputError);
    comm.barrier();
  });
}

TEST(Hdf5, UnfinishedFilesLeaveNothing) {
  test::on_groups([](const Communicator& comm) {
    const std::string path = concat("unfinished_", comm.size(), ".h5");
    if (comm.rank() == 0) std::filesystem::remove(path);
    comm.barrier();
    {
      Block<float> own(block(Box::image2d(30, 20), comm.size(), comm.rank(), false), 1);
      Hdf5File file = Hdf5File::create(path, comm);
      file.write("/image", Box::image2d(30, 20), own.view);
    }
    comm.barrier();
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
    EXPECT_THROW(Hdf5File::create("no_such_folder/a.h5", comm), RunError);
    comm.barrier();
  });
}

TEST(Hdf5, AKilledWriterLeavesTheFileThatWasThere) {
  if (test::other_rank()) return;
  const std::string path = "killed.h5";
  write_addresses<float>(path, Box::image2d(6, 5), 1, Communicator(), false);
  const std::string before = sha256(path);
  const pid_t child = ::fork();
  if (child == 0) {
    Hdf5File file = Hdf5File::create(path, Communicator());
    Block<float> own(Box::image2d(600, 500), 1);
    file.write("/image", Box::image2d(600, 500), own.view);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(sha256(path), before);
  write_addresses<float>(path, Box::image2d(6, 5), 1, Communicator(),
                         false);  // a left-over .tmp is no obstacle
  EXPECT_EQ(sha256(path), before);
}

}  // namespace
}  // namespace tessera
