// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/solve/checkpoint.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "mix.hpp"
#include "sealed_file.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/version.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kSchema = 2;
constexpr std::int64_t kTile = 512;  // side of what one rank reads at once to check a file

template <class Float, class Bits>
std::uint64_t sum_rows(const at::Tensor& t, const Box& image, const Box& block) {
  const Float* data = t.const_data_ptr<Float>();
  const Index3 n = block.extents(), at = block.lo() - image.lo(), all = image.extents();
  const std::int64_t rows = t.size(0) * n[0] * n[1];
  std::atomic<std::uint64_t> sum{0};
  at::parallel_for(0, rows, 64, [&](std::int64_t first, std::int64_t last) {
    std::uint64_t part = 0;
    for (std::int64_t r = first; r < last; ++r) {
      const std::int64_t c = r / (n[0] * n[1]), d = r / n[1] % n[0], h = r % n[1];
      const std::int64_t begin = ((c * all[0] + at[0] + d) * all[1] + at[1] + h) * all[2] + at[2];
      for (std::int64_t w = 0; w < n[2]; ++w)
        part += mix(mix(static_cast<std::uint64_t>(begin + w)) ^ std::bit_cast<Bits>(data[r * n[2] + w]));
    }
    sum += part;
  });
  return sum;
}

std::string hex(std::uint64_t v) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(v));
  return text;
}

std::string text_checksum(const std::string& text) {
  std::uint64_t sum = text.size();
  for (const char c : text) sum = mix(sum ^ static_cast<unsigned char>(c));
  return hex(sum);
}

// Sums modulo 2^64 over the ranks, in halves: MPI adds signed numbers.
void sum_over_ranks(std::vector<std::uint64_t>& sums, const Communicator& comm) {
  std::vector<std::int64_t> halves;
  for (const std::uint64_t s : sums) {
    halves.push_back(static_cast<std::int64_t>(s & 0xffffffffU));
    halves.push_back(static_cast<std::int64_t>(s >> 32));
  }
  comm.all_reduce(halves, Reduce::sum);
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] =
        static_cast<std::uint64_t>(halves[2 * i]) + (static_cast<std::uint64_t>(halves[2 * i + 1]) << 32);
}

// JSON has no NaN: null stands for it.
double number(const Json& j) {
  return j.is_null() ? std::numeric_limits<double>::quiet_NaN() : j.get<double>();
}

// A whole number; the library's own conversion takes any and does not look at its range.
int whole(const Json& j) {
  const double v = j.get<double>();
  if (v != std::floor(v) || std::abs(v) > std::numeric_limits<int>::max())
    throw Json::other_error::create(501, "no whole number", nullptr);
  return static_cast<int>(v);
}

// JSON is UTF-8, and the names of files in a text are any bytes: a text that is none becomes a list of them.
Json write_text(const std::string& text) {
  try {
    static_cast<void>(Json(text).dump());
    return text;
  } catch (const Json::type_error&) {
    return std::vector<std::uint8_t>(text.begin(), text.end());
  }
}
std::string read_text(const Json& j) {
  if (j.is_string()) return j.get<std::string>();
  std::string text;
  for (const Json& byte : j) text += static_cast<char>(static_cast<unsigned char>(whole(byte)));
  return text;
}

Json write_result(const IterationResult& r) {
  return {r.iteration, r.start, r.seconds, r.objective, r.chi2, r.residual, r.step, r.sigma, r.psnr};
}
IterationResult read_result(const Json& j) {
  IterationResult r;
  r.iteration = whole(j.at(0));
  std::size_t i = 1;
  for (double* v : {&r.start, &r.seconds, &r.objective, &r.chi2, &r.residual, &r.step, &r.sigma, &r.psnr})
    *v = number(j.at(i++));
  return r;
}

Json write_watch(const Watch& w) { return {w.count, w.smoothed, w.smallest, w.best, w.best_chi2, w.still}; }
Watch read_watch(const Json& j) {
  return {.count = whole(j.at(0)),
          .smoothed = number(j.at(1)),
          .smallest = number(j.at(2)),
          .best = whole(j.at(3)),
          .best_chi2 = number(j.at(4)),
          .still = j.size() > 5 ? whole(j.at(5)) : 0};  // written since 0.1.0's first checkpoints
}

Json write_header(const Checkpoint& c) {
  Json j;
  j["schema"] = kSchema;
  j["tessera"] = version();
  j["loop"] = {{"iterations", c.loop.iterations},
               {"last", write_result(c.loop.last)},
               {"seconds", c.loop.seconds},
               {"reason", static_cast<int>(c.loop.reason)},
               {"decisive", write_result(c.loop.decisive)},
               {"watch", write_watch(c.loop.watch)},
               {"stood", c.loop.stood}};
  j["numbers"] = c.numbers;
  j["texts"] = Json::object();
  for (const auto& [key, text] : c.texts) j["texts"][key] = write_text(text);
  j["lists"] = c.lists;
  return j;
}

Checkpoint read_header(const Json& j) {
  Checkpoint c;
  const Json& loop = j.at("loop");
  c.loop.iterations = whole(loop.at("iterations"));
  c.loop.last = read_result(loop.at("last"));
  c.loop.seconds = number(loop.at("seconds"));
  const int reason = whole(loop.at("reason"));
  if (c.loop.iterations < 0 || reason < 0 || reason > static_cast<int>(StopReason::diverged))
    throw Json::other_error::create(501, "no place of a loop", nullptr);
  c.loop.reason = static_cast<StopReason>(reason);
  c.loop.decisive = read_result(loop.at("decisive"));
  c.loop.watch = read_watch(loop.at("watch"));
  c.loop.stood = loop.value("stood", false);
  for (const auto& [key, value] : j.at("numbers").items()) c.numbers[key] = number(value);
  for (const auto& [key, text] : j.at("texts").items()) c.texts[key] = read_text(text);
  c.lists = j.at("lists").get<std::map<std::string, std::vector<double>>>();
  return c;
}

std::string dataset(const std::string& field) { return "/fields/" + field; }

// Runs what takes values out of a header: one that has other types or lacks some is damaged.
template <class Work>
auto from_header(const std::string& path, Work work) {
  try {
    return work();
  } catch (const Json::exception& e) {
    throw DamageError(concat(path, " is damaged (its header cannot be read: ", e.what(), ")"));
  }
}

// The header's text, checked; every rank reads it for itself.
Json checked_header(const Hdf5File& file, const std::string& path) {
  const auto text = file.text_attribute("/", "header"), sum = file.text_attribute("/", "header_checksum");
  TESSERA_VALIDATE(text && sum, path, " has no header (it is no checkpoint) take it away");
  if (text_checksum(*text) != *sum)
    throw DamageError(concat(path, " is damaged (the checksum of its header differs)"));
  return from_header(path, [&] {
    Json j = Json::parse(*text);
    const int schema = whole(j.at("schema"));
    TESSERA_VALIDATE(schema == kSchema, path, " has checkpoint schema ", schema, " (this tessera knows ",
                     kSchema, ") use the tessera that wrote it");
    for (const auto& [name, sum] : j.at("fields").items())
      static_cast<void>(sum.get_ref<const std::string&>());
    return j;
  });
}

}  // namespace

std::uint64_t local_checksum(const at::Tensor& tensor, const Box& image, const Box& block) {
  if (block.empty()) return 0;
  const at::Tensor t = tensor.contiguous();
  return t.scalar_type() == at::kDouble ? sum_rows<double, std::uint64_t>(t, image, block)
                                        : sum_rows<float, std::uint32_t>(t, image, block);
}

std::int64_t checkpoint_bytes(const std::vector<StateField>& fields, const Box& image) {
  std::int64_t bytes = 0;
  for (const StateField& f : fields)
    if (f.image)
      bytes += f.image->size(0) * image.pixels() * static_cast<std::int64_t>(f.image->element_size());
  return bytes;
}

void write_checkpoint(const std::string& path, Checkpoint checkpoint, const std::vector<StateField>& fields,
                      const CheckpointPlace& place, const Communicator& comm,
                      const std::function<void()>& before_commit) {
  const PhaseScope phase(Phase::checkpoint);
  Hdf5File file = Hdf5File::create(path, comm);
  std::vector<std::string> datasets;
  std::vector<std::uint64_t> sums;
  for (const StateField& f : fields) {
    if (!f.image) continue;
    at::Tensor host;
    comm.together([&] {
      host = f.image->to(at::kCPU).contiguous();
      sums.push_back(local_checksum(host, place.image, place.block));
      datasets.push_back(dataset(f.name));
    });
    file.write(datasets.back(), place.image, view(host, place.block));
  }
  std::string text;
  sum_over_ranks(sums, comm);
  comm.together([&] {
    if (comm.rank() != 0) return;  // what one rank writes counts: times differ between ranks
    for (const StateField& f : fields) {
      if (f.scalar) checkpoint.numbers[f.name] = *f.scalar;
      if (f.count) checkpoint.numbers[f.name] = static_cast<double>(*f.count);
    }
    Json header = write_header(checkpoint);
    header["fields"] = Json::object();
    std::size_t next = 0;
    for (const StateField& f : fields)
      if (f.image) header["fields"][f.name] = hex(sums[next++]);
    text = header.dump();
  });
  file.set_attribute("/", "header", text);
  file.set_attribute("/", "header_checksum", text_checksum(text));
  file.close([&](const std::string& temporary) {
    seal_file(temporary, datasets);
    if (before_commit) before_commit();
  });
}

Checkpoint open_checkpoint(const std::string& path, const Communicator& comm) {
  const PhaseScope phase(Phase::checkpoint);
  Json header;
  std::vector<std::uint64_t> sums;
  comm.together([&] {
    if (comm.rank() == 0) check_seal(path);
  });
  comm.together([&] {
    // Each rank opens it for itself: ranks that find damage must not leave others inside a collective call.
    Hdf5File file = Hdf5File::open(path, Communicator());
    header = checked_header(file, path);
    std::int64_t next = 0;  // tiles in turn
    for (const auto& [name, sum] : header.at("fields").items()) {
      const DatasetInfo about = file.info(dataset(name));
      const bool wide = about.type == "float64";
      const std::int64_t deep = about.box.extent(0) > 1 ? 64 : 1, side = deep > 1 ? 64 : kTile;
      std::uint64_t mine = 0;
      for (std::int64_t d = 0; d < about.box.extent(0); d += deep)
        for (std::int64_t h = 0; h < about.box.extent(1); h += side)
          for (std::int64_t w = 0; w < about.box.extent(2); w += side) {
            if (next++ % comm.size() != comm.rank()) continue;
            const Box tile = Box({d, h, w}, {d + deep, h + side, w + side}).intersect(about.box);
            const at::Tensor values = empty_block(about.channels, tile, wide ? at::kDouble : at::kFloat);
            file.read(dataset(name), view(values, tile));
            mine += local_checksum(values, about.box, tile);
            beat();
          }
      sums.push_back(mine);
    }
  });
  sum_over_ranks(sums, comm);
  std::size_t next = 0;
  Checkpoint out;
  comm.together([&] {
    for (const auto& [name, sum] : header.at("fields").items())
      if (hex(sums[next++]) != sum.get<std::string>())
        throw DamageError(concat(path, " is damaged (the checksum of its field ", name, " differs)"));
    out = from_header(path, [&] { return read_header(header); });
    out.path = path;
  });
  return out;
}

void restore_numbers(const Checkpoint& checkpoint, const std::vector<StateField>& fields) {
  for (const StateField& f : fields) {
    if (f.image) continue;
    const auto found = checkpoint.numbers.find(f.name);
    TESSERA_VALIDATE(found != checkpoint.numbers.end(), checkpoint.path, " has no ", f.name,
                     " (another tessera wrote it) resume with that one, or start again with --force");
    constexpr double kMost = 9007199254740992.0;  // 2^53: whole numbers up to it are exact
    TESSERA_VALIDATE(!f.count || std::abs(found->second) <= kMost, checkpoint.path, " says that ", f.name,
                     " is ", found->second, " (no count) start again with --force");
    if (f.scalar) *f.scalar = found->second;
    if (f.count) *f.count = static_cast<std::int64_t>(found->second);
  }
}

void restore_images(const Checkpoint& checkpoint, const std::vector<StateField>& fields,
                    const CheckpointPlace& place, const Communicator& comm) {
  const PhaseScope phase(Phase::checkpoint);
  Hdf5File file = Hdf5File::open(checkpoint.path, comm);
  Json header;
  comm.together([&] { header = checked_header(file, checkpoint.path); });
  for (const StateField& f : fields) {
    if (!f.image) continue;
    at::Tensor host;
    std::vector<std::uint64_t> sum;
    comm.together([&] {
      TESSERA_VALIDATE(header.at("fields").contains(f.name), checkpoint.path, " has no field ", f.name,
                       " (another tessera wrote it) resume with that one, or start again with --force");
      host = at::empty(f.image->sizes(), at::TensorOptions(f.image->scalar_type()));
    });
    file.read(dataset(f.name), view(host, place.block));
    comm.together([&] {
      f.image->copy_(host);
      sum = {local_checksum(host, place.image, place.block)};
    });
    sum_over_ranks(sum, comm);
    TESSERA_VALIDATE(hex(sum[0]) == header["fields"][f.name].get<std::string>(), checkpoint.path,
                     " was read with errors (the checksum of its field ", f.name, " differs) check the disk");
  }
}

std::string CheckpointFolder::file(int iterations) const {
  char name[40];
  std::snprintf(name, sizeof name, "/iteration-%07d.h5", iterations);
  return path_ + name;
}

namespace {

// The iterations that a checkpoint's name says; -1 for other files.
int iterations_of(const fs::path& path) {
  int n = -1, length = 0;
  const std::string name = path.filename().string();
  if (std::sscanf(name.c_str(), "iteration-%d.h5%n", &n, &length) != 1 ||
      length != static_cast<int>(name.size()))
    return -1;
  return n;
}

std::vector<fs::path> entries(const std::string& folder) {
  std::error_code none;
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder, none)) out.push_back(entry.path());
  return out;
}

}  // namespace

std::vector<std::string> CheckpointFolder::list() const {
  std::vector<fs::path> found = entries(path_);
  std::erase_if(found, [](const fs::path& p) { return iterations_of(p) < 0; });
  std::sort(found.begin(), found.end(),
            [](const fs::path& a, const fs::path& b) { return iterations_of(a) > iterations_of(b); });
  return {found.begin(), found.end()};
}

Checkpoint CheckpointFolder::newest_good(const Communicator& comm, std::vector<std::string>& damaged) const {
  std::string names;  // as rank 0 sees the folder
  if (comm.rank() == 0)
    for (const std::string& path : list()) names += path + '\n';
  names = comm.broadcast(names, 0);
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = names.find('\n', at);
    try {
      return open_checkpoint(names.substr(at, end - at), comm);
    } catch (const DamageError& e) {  // on all ranks alike; a file that cannot be read now may be good
      damaged.push_back(e.what());
    }
    at = end + 1;
  }
  std::string all;
  for (const std::string& line : damaged) all += (all.empty() ? "" : "; ") + line;
  TESSERA_VALIDATE(damaged.empty(), "no good checkpoint in ", path_, " (", all,
                   ") start again with --force, or in another output.folder");
  throw InputError(concat("no checkpoint in ", path_,
                          " (there is nothing to resume) start without --resume, or with --resume=auto"));
}

void CheckpointFolder::set_aside(int newer_than) const {
  std::error_code none;
  for (const fs::path& p : entries(path_)) {
    if (iterations_of(p) > newer_than) fs::rename(p, p.string() + ".damaged", none);
    if (p.extension() == ".tmp" || p.extension() == ".part") fs::remove(p, none);
  }
}

void CheckpointFolder::prune(std::int64_t keep) const {
  const std::vector<std::string> all = list();
  std::error_code none;
  for (auto i = static_cast<std::size_t>(std::max<std::int64_t>(keep, 1)); i < all.size(); ++i)
    fs::remove(all[i], none);
}

}  // namespace tessera
