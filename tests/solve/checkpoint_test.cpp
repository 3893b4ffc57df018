// SPDX-License-Identifier: BSD-3-Clause
// A run that goes on from a checkpoint against one that was never stopped, and checkpoints that were harmed.
#include "tessera/solve/checkpoint.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numbers>

#include "domain/operators.hpp"
#include "support/groups.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser.hpp"
#include "tessera/denoise/network_denoiser.hpp"
#include "tessera/denoise/total_variation.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A folder of the whole launch, removed at the end.
class Folder {
 public:
  Folder() {
    const Communicator world = Communicator::world();
    path_ = world.broadcast(fs::temp_directory_path() / concat("tessera-checkpoints-", ::getpid()), 0);
    if (world.rank() == 0) fs::create_directories(path_);
    world.barrier();
  }
  ~Folder() {
    const Communicator world = Communicator::world();
    world.barrier();
    if (world.rank() == 0) fs::remove_all(path_);
  }
  std::string file(const std::string& name) const { return path_ + '/' + name; }

 private:
  std::string path_;
};

at::Tensor pattern(const Box& image, const Box& block) {
  at::Tensor t = empty_block(1, block, at::kFloat);
  for (std::int64_t h = 0; h < block.extent(1); ++h)
    for (std::int64_t w = 0; w < block.extent(2); ++w) {
      const double i = static_cast<double>(h + block.lo()[1]), j = static_cast<double>(w + block.lo()[2]);
      t[0][h][w] = (3 * i > 2 * j ? 0.7 : 0.2) + 0.1 * std::sin(12.9898 * i + 78.233 * j);
    }
  return t;
}

enum class Prior { warm_tv, cycled_network, potential };

constexpr int kLimit = 10;

// All that one program builds for a run: 1 x 37 x 45, a blur with zeros around it, so that the norm comes
// from a power iteration and the prox from conjugate gradients.
struct Program {
  Program(const Communicator& c, const std::string& name, Prior prior, const Checkpoint* from = nullptr)
      : comm(c), cut(test::cut(Box::image2d(37, 45), c.size(), 8)), reducer(c), space(c, &reducer) {
    test::Stack parts;
    parts.push_back(test::blur(gaussian_kernel({1.5, 1.0}, 20), Boundary::zero));
    std::shared_ptr<DistributedOperator> A = test::place(parts, cut, 1, comm, at::kFloat);
    const Box block = cut.block(comm.rank());
    Measurement y = {pattern(cut.image(), block)};
    DataTermInput input{.A = A, .y = y, .weights = {}, .prox = {8, 1e-3}};
    data = find_solver(name).counts
               ? make_pointwise_term(std::move(input), make_poisson_loss(0.01, 0, 0.1), space)
               : make_least_squares(std::move(input), space);
    const DenoiserContext context{cut, ImageSpace(cut.image()), comm,
                                  make_transport(comm, {}, TransportKind::mpi)};
    if (prior == Prior::warm_tv)
      denoiser = make_total_variation({.iterations = 16, .warm_start = true}, context, at::kFloat);
    else if (prior == Prior::potential)
      denoiser = make_network_denoiser(
          with_potential(load_network(
              "gsdrunet", concat(std::getenv("TESSERA_SOURCE_DIR"), "/tests/reference/gsdrunet.safetensors"),
              1)),
          {}, context);
    else
      denoiser = make_network_denoiser(load_network("drunet", "drunet_small_gray", 1),
                                       {.averaging = Averaging::cycle}, context);
    if (from) restore_numbers(*from, data_fields());
    SolverOptions options;
    options.iterations = kLimit;
    options.sigma = Schedule::log_space(0.2, 0.05, kLimit);
    if (find_solver(name).needs_potential) options.sigma = 0.1;
    if (name == "hqs" || name == "admm") options.step = Schedule::log_space(0.5, 2, kLimit);
    options.weight = 0.1;
    const at::Tensor start = from ? at::zeros_like(y[0]) : y[0].clone();
    solver = make_solver(name, {*data, *denoiser, space, options, start});
    if (!from) return;
    restore_numbers(*from, fields());
    restore_images(*from, fields(), place(), comm);
    begin = from->loop;
  }

  std::vector<StateField> data_fields() { return named("data/", data->state()); }
  std::vector<StateField> fields() {
    std::vector<StateField> all = data_fields();
    for (const auto& more : {named("solver/", solver->state()), named("denoiser/", denoiser->state())})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static std::vector<StateField> named(const std::string& prefix, std::vector<StateField> fields) {
    for (StateField& f : fields) f.name = prefix + f.name;
    return fields;
  }
  CheckpointPlace place() const { return {cut.image(), cut.block(comm.rank())}; }

  LoopResult run(int iterations, Observer& observer) {
    return run_loop({.solver = *solver,
                     .data = *data,
                     .reducer = reducer,
                     .space = space,
                     .stop = {.iterations = iterations},
                     .observers = {&observer},
                     .pixels = static_cast<double>(cut.image().pixels()),
                     .begin = begin});
  }

  Communicator comm;
  Decomposition cut;
  Reducer reducer;
  Space space;
  std::unique_ptr<DataTerm> data;
  std::unique_ptr<Denoiser> denoiser;
  std::unique_ptr<Solver> solver;
  LoopState begin;
};

// Writes a checkpoint where so many iterations are done.
class Saver final : public Observer {
 public:
  Saver(Program& program, std::string path, int at) : program_(program), path_(std::move(path)), at_(at) {}
  bool wants_rest(int k) override { return k + 2 == at_; }
  void at_rest(const LoopState& state) override {
    if (state.iterations != at_) return;
    write_checkpoint(path_, {.loop = state}, program_.fields(), program_.place(), program_.comm);
    ++written;
  }
  int written = 0;

 private:
  Program& program_;
  std::string path_;
  int at_;
};

at::Tensor straight(const Communicator& comm, const std::string& solver, Prior prior) {
  Program program(comm, solver, prior);
  Observer nobody;
  return program.run(kLimit, nobody).image.clone();
}

void save(const Communicator& comm, const std::string& solver, Prior prior, const std::string& path, int at,
          int iterations) {
  Program program(comm, solver, prior);
  Saver saver(program, path, at);
  program.run(iterations, saver);
  EXPECT_EQ(saver.written, 1);
}

LoopResult resume(const Communicator& comm, const std::string& solver, Prior prior, const std::string& path) {
  const Checkpoint from = open_checkpoint(path, comm);
  Program program(comm, solver, prior, &from);
  Observer nobody;
  LoopResult result = program.run(kLimit, nobody);
  result.image = result.image.clone();
  return result;
}

// The first n ranks of the launch; alone on the others.
Communicator group(int n) {
  const Communicator world = Communicator::world();
  return world.split(world.rank() < n ? 0 : -1, world.rank());
}

void same_bits(const std::string& solver, Prior prior, int ranks) {
  const Folder folder;
  const Communicator world = Communicator::world(), comm = group(ranks);
  if (ranks > world.size() || world.rank() >= ranks) return test::meet(world);
  SCOPED_TRACE(concat(solver, " on ", ranks, " ranks"));
  const at::Tensor whole = straight(comm, solver, prior);
  save(comm, solver, prior, folder.file("middle.h5"), 4, kLimit);  // a rest on the way
  save(comm, solver, prior, folder.file("end.h5"), 4, 4);          // a run that ended there
  for (const char* name : {"middle.h5", "end.h5"}) {
    const LoopResult result = resume(comm, solver, prior, folder.file(name));
    EXPECT_EQ(result.iterations, kLimit);
    EXPECT_TRUE(result.image.equal(whole)) << name << ": differs by " << (result.image - whole).abs().max();
  }
  test::meet(world);
}

Prior prior_of(const SolverRow& row) { return row.needs_potential ? Prior::potential : Prior::warm_tv; }

TEST(Checkpoint, EverySolverGoesOnBitForBit) {
  for (const SolverRow& row : solver_table())
    for (const int ranks : {1, 3})
      if (!row.once) same_bits(row.name, prior_of(row), ranks);
}

TEST(Checkpoint, ANetworkThatTakesTurnsGoesOnBitForBit) { same_bits("pgd", Prior::cycled_network, 2); }

void other_ranks(const std::string& solver, Prior prior, int before, int after) {
  const Folder folder;
  const Communicator world = Communicator::world(), first = group(before), second = group(after);
  const int most = std::max(before, after);
  if (most > world.size() || world.rank() >= most) return test::meet(world);
  const Communicator both = before > after ? first : second;
  SCOPED_TRACE(concat(solver, " on ", before, ", then ", after, " ranks"));
  if (world.rank() < before) save(first, solver, prior, folder.file("c.h5"), 4, 4);
  both.barrier();
  if (world.rank() < after) {
    const at::Tensor whole = straight(second, solver, prior);
    const at::Tensor image = resume(second, solver, prior, folder.file("c.h5")).image;
    const Space space(second, nullptr);
    const double difference = space.norm(image - whole), size = space.norm(whole);
    EXPECT_GT(size, 0);
    EXPECT_LT(difference, 1e-5 * size);
  }
  both.barrier();
  test::meet(world);
}

TEST(Checkpoint, GoesOnOnAnotherNumberOfRanks) {
  for (const SolverRow& row : solver_table()) {
    const std::string& solver = row.name;
    if (row.once) continue;  // nothing to go on with
    other_ranks(solver, prior_of(row), 1, 3);
    other_ranks(solver, prior_of(row), 4, 2);
  }
  other_ranks("pgd", Prior::cycled_network, 1, 2);
}

const std::string kNoUtf8 = "M\xfcnchen/photo.png";  // in Latin-1

TEST(Checkpoint, IsTheSameFileForAnyCut) {
  const Folder folder;
  test::on_groups([&](const Communicator& comm) {
    const Decomposition cut = test::cut(Box::image2d(37, 45), comm.size(), 8);
    at::Tensor x = pattern(cut.image(), cut.block(comm.rank()));
    double number = 0.1;
    std::int64_t count = 7;
    const std::vector<StateField> fields = {
        {.name = "a/x", .image = &x}, {.name = "s", .scalar = &number}, {.name = "n", .count = &count}};
    const std::string path = folder.file(concat("c", comm.size(), ".h5"));
    write_checkpoint(path, {.texts = {{"job", "text"}, {"place", kNoUtf8}}}, fields,
                     {cut.image(), cut.block(comm.rank())}, comm);
    const Checkpoint read = open_checkpoint(path, comm);
    EXPECT_EQ(read.texts.at("job"), "text");
    EXPECT_EQ(read.texts.at("place"), kNoUtf8);
    const at::Tensor wanted = x.clone();
    x.zero_();
    number = 0;
    count = 0;
    restore_numbers(read, fields);
    restore_images(read, fields, {cut.image(), cut.block(comm.rank())}, comm);
    EXPECT_TRUE(x.equal(wanted));
    EXPECT_EQ(number, 0.1);
    EXPECT_EQ(count, 7);
    if (comm.rank() != 0) return;
    const auto bytes = [](const std::string& name) {
      std::ifstream file(name, std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    EXPECT_TRUE(bytes(path) == bytes(folder.file("c1.h5")));
  });
}

TEST(Checkpoint, ChecksumKnowsPlaceAndBitsAndNotTheCut) {
  const Box image = Box::image2d(37, 45);
  at::Tensor x = pattern(image, image);
  const std::uint64_t whole = local_checksum(x, image, image);
  for (const int ranks : {2, 5, 7}) {
    const Decomposition cut = test::cut(image, ranks);
    std::uint64_t sum = 0;
    for (int r = 0; r < ranks; ++r)
      sum += local_checksum(test::part_of(x, image, cut.block(r)), image, cut.block(r));
    EXPECT_EQ(sum, whole);
  }
  at::Tensor swapped = x.clone();
  swapped[0][3][4] = x[0][20][30];
  swapped[0][20][30] = x[0][3][4];
  EXPECT_NE(local_checksum(swapped, image, image), whole);
  at::Tensor negative_zero = at::zeros_like(x);
  const std::uint64_t zero = local_checksum(negative_zero, image, image);
  negative_zero[0][0][0] = -0.0;
  EXPECT_NE(local_checksum(negative_zero, image, image), zero);
}

// Two checkpoints, after 3 and 6 iterations; the pixels of the second are one higher.
struct Pair {
  explicit Pair(const Folder& folder) : path(folder.file("checkpoint")) {
    fs::create_directories(path);
    const CheckpointFolder all(path);
    for (const int iterations : {3, 6}) {
      at::Tensor x = pattern(image, image) + iterations;
      LoopState loop;
      loop.iterations = iterations;
      write_checkpoint(all.file(iterations), {.loop = loop}, {{.name = "x", .image = &x}}, {image, image},
                       {});
    }
  }
  std::string path;
  Box image = Box::image2d(37, 45);
};

TEST(Checkpoint, DamageIsSeenAndTheOneBeforeIsTaken) {
  const Folder folder;
  const Communicator world = Communicator::world();
  if (world.rank() == 0) {
    const Pair pair(folder);
    const CheckpointFolder all(pair.path);
    const std::string newest = all.file(6);
    const auto size = static_cast<std::int64_t>(fs::file_size(newest));
    const std::string copy = folder.file("whole");
    fs::copy_file(newest, copy);
    std::int64_t fell_back = 0;
    // All of them with TESSERA_EVERY_BYTE, for some minutes.
    const std::int64_t flips = std::getenv("TESSERA_EVERY_BYTE") ? size : 150;
    for (std::int64_t i = 0; i < flips; ++i) {
      fs::copy_file(copy, newest, fs::copy_options::overwrite_existing);
      {
        std::fstream file(newest, std::ios::binary | std::ios::in | std::ios::out);
        const std::int64_t place = (2 * i + 1) * size / (2 * flips);
        file.seekg(place);
        const char byte = static_cast<char>(file.get() ^ 0x10);
        file.seekp(place);
        file.put(byte);
      }
      std::vector<std::string> damaged;
      const Checkpoint c = all.newest_good({}, damaged);
      at::Tensor x = at::empty({1, 37, 45}, at::kFloat);
      restore_images(c, {{.name = "x", .image = &x}}, {pair.image, pair.image}, {});
      // Either the older one, or an unharmed state: HDF5 files have unused bytes.
      EXPECT_TRUE(x.equal(pattern(pair.image, pair.image) + c.loop.iterations)) << "byte " << i;
      EXPECT_EQ(damaged.size(), c.loop.iterations == 3 ? 1u : 0u);
      fell_back += c.loop.iterations == 3;
    }
    EXPECT_GT(fell_back, flips / 3) << "most bytes are pixels";
    std::printf("damaged bytes: %ld, seen in %ld, of no meaning in the others\n", static_cast<long>(flips),
                static_cast<long>(fell_back));
  }
  test::meet(world);
}

TEST(Checkpoint, SealsAllButThePixels) {
  const Folder folder;
  if (test::other_rank()) return;
  const Box image = Box::image2d(3, 100 * 512);  // of 100 chunks
  at::Tensor x = at::zeros_like(pattern(image, image)), y = x.clone();
  const std::string path = folder.file("chunks.h5");
  write_checkpoint(path, {}, {{.name = "x", .image = &x}, {.name = "y", .image = &y}}, {image, image}, {});
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const auto word = [&](std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, &bytes.at(at), sizeof value);
    return value;
  };
  const std::size_t pairs = word(bytes.size() - 16), seal = bytes.size() - 24 - 16 * pairs;
  std::size_t left_out = seal;
  for (std::size_t i = 0; i < 2 * pairs; i += 2) left_out -= word(seal + 8 * (i + 1)) - word(seal + 8 * i);
  EXPECT_EQ(left_out, 2 * image.pixels() * sizeof(float));
  EXPECT_GT(pairs, 3u) << "chunks that do not all lie together";
}

TEST(Checkpoint, ATruncatedOneIsPassedOverAndNoneLeftIsAnError) {
  const Folder folder;
  const Communicator world = Communicator::world();
  const CheckpointFolder all(folder.file("checkpoint"));
  if (world.rank() == 0) {
    const Pair pair(folder);
    fs::resize_file(all.file(6), fs::file_size(all.file(6)) / 2);
  }
  world.barrier();
  std::vector<std::string> damaged;
  EXPECT_EQ(all.newest_good(world, damaged).loop.iterations, 3);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_NE(damaged[0].find("iteration-0000006.h5"), std::string::npos) << damaged[0];
  world.barrier();
  if (world.rank() == 0) fs::resize_file(all.file(3), 100);
  world.barrier();
  damaged.clear();
  EXPECT_THROW(all.newest_good(world, damaged), InputError);
  EXPECT_EQ(damaged.size(), 2u);
  world.barrier();
}

TEST(Checkpoint, WhatCannotBeReadNowIsNoDamage) {
  const Folder folder;
  const Communicator world = Communicator::world();
  const CheckpointFolder all(folder.file("checkpoint"));
  if (world.rank() == 0) {
    const Pair pair(folder);
    fs::create_directory(all.file(9));  // stands for a disk error: it is there, and cannot be read
  }
  world.barrier();
  std::vector<std::string> damaged;
  EXPECT_THROW(all.newest_good(world, damaged), InputError);
  EXPECT_TRUE(damaged.empty()) << damaged[0];
  world.barrier();
  // A seal that claims as many pairs as the file could hold: refused before memory is asked for.
  if (world.rank() == 0) {
    fs::remove(all.file(9));
    fs::resize_file(all.file(6), std::uintmax_t{1} << 40);  // of holes
    std::ofstream tail(all.file(6), std::ios::binary | std::ios::app);
    const std::uint64_t words[] = {1, ((std::uint64_t{1} << 40) - 24) / 16, 0};
    tail.write(reinterpret_cast<const char*>(words), 16);
    tail.write("TESSEAL1", 8);
  }
  world.barrier();
  EXPECT_EQ(all.newest_good(world, damaged).loop.iterations, 3);
  EXPECT_EQ(damaged.size(), 1u);
  world.barrier();
}

TEST(Checkpoint, FolderKeepsTheNewestAndSetsDamagedOnesAside) {
  const Folder folder;
  if (test::other_rank()) return;
  const CheckpointFolder all(folder.file("c"));
  EXPECT_TRUE(all.list().empty());
  fs::create_directories(folder.file("c"));
  for (const int n : {2, 10, 9}) std::ofstream(all.file(n)) << n;
  std::ofstream(all.file(11) + ".tmp") << "unfinished";
  EXPECT_EQ(all.list(), (std::vector<std::string>{all.file(10), all.file(9), all.file(2)}));
  all.set_aside(9);
  EXPECT_EQ(all.list(), (std::vector<std::string>{all.file(9), all.file(2)}));
  EXPECT_TRUE(fs::exists(all.file(10) + ".damaged"));
  EXPECT_FALSE(fs::exists(all.file(11) + ".tmp"));
  all.prune(std::int64_t{1} << 31);
  EXPECT_EQ(all.list().size(), 2u);
  all.prune(1);
  EXPECT_EQ(all.list(), (std::vector<std::string>{all.file(9)}));
  all.prune(0);
  EXPECT_EQ(all.list().size(), 1u) << "never the newest";
}

}  // namespace
}  // namespace tessera
