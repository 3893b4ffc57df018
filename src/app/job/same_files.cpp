// SPDX-License-Identifier: BSD-3-Clause
#include "job/same_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <map>
#include <sstream>

#include "tessera/app/operator_table.hpp"
#include "tessera/core/error.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/io/posix_file.hpp"

namespace tessera {
namespace {

// What a rank sees at a path. Ranks with the same `place` look at the same file.
struct Seen {
  std::string place = "-";
  std::int64_t size = -1, seconds = 0, nanoseconds = 0;  // size -1: nothing
  bool same_time(const Seen& o) const { return seconds == o.seconds && nanoseconds == o.nanoseconds; }
};

// Of a folder the file that stands for it.
Seen look(const std::string& path, const std::string& host) {
  struct stat about {};
  if (::stat(standing_file(path).c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return {};
  return {concat(host, '/', about.st_dev, '/', about.st_ino), about.st_size, about.st_mtim.tv_sec,
          about.st_mtim.tv_nsec};
}

// A number that follows from what the file holds: from its head and samples of the rest, or from all of it.
std::string digest(const std::string& named, bool whole) {
  const std::string path = standing_file(named);
  if (whole) return sha256(path);
  constexpr std::int64_t kHead = 1 << 16, kPart = 4096, kParts = 64;
  const io::InputFile file(path);
  std::string text;
  const auto take = [&](std::int64_t from, std::int64_t count) {
    const std::size_t had = text.size();
    count = std::min(count, file.size() - from);
    text.resize(had + static_cast<std::size_t>(count));
    file.read(from, count, text.data() + had);
  };
  take(0, kHead);
  for (std::int64_t k = 0; k < kParts && file.size() > kHead; ++k)
    take(kHead + (file.size() - kHead) * k / kParts, kPart);
  return std::to_string(std::hash<std::string>()(text));
}

std::string say(const Seen& seen) {
  if (seen.size < 0) return "nothing";
  char when[32];
  const auto seconds = static_cast<std::time_t>(seen.seconds);
  std::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", std::localtime(&seconds));
  return concat(seen.size, " bytes of ", when);
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

// Of the ranks of each place the first; ascending.
std::vector<std::size_t> first_of_each(const std::vector<Seen>& seen) {
  std::vector<std::size_t> ranks;
  for (std::size_t r = 0; r < seen.size(); ++r)
    if (std::none_of(ranks.begin(), ranks.end(),
                     [&](std::size_t k) { return seen[k].place == seen[r].place; }))
      ranks.push_back(r);
  return ranks;
}

void add(std::vector<std::string>& files, const std::string& path) {
  const std::string file = file_of(path);
  if (!file.empty() && std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
}

// On rank 0, of each path what each rank sees there; empty elsewhere.
std::vector<std::vector<Seen>> gather_looks(const std::vector<std::string>& paths, const Communicator& comm) {
  std::ostringstream mine;
  const std::string host = host_name();
  for (const std::string& path : paths) {
    const Seen s = look(path, host);
    mine << s.place << ' ' << s.size << ' ' << s.seconds << ' ' << s.nanoseconds << '\n';
  }
  std::vector<std::vector<Seen>> all(comm.rank() == 0 ? paths.size() : 0);
  for (const std::string& text : comm.gather(mine.str(), 0)) {
    std::istringstream in(text);
    for (std::vector<Seen>& of_path : all) {
      Seen s;
      in >> s.place >> s.size >> s.seconds >> s.nanoseconds;
      of_path.push_back(s);
    }
  }
  return all;
}

}  // namespace

std::string file_of(const std::string& path) { return path.substr(0, path.rfind(":/")); }

std::vector<std::string> read_by_ranks(const JobConfig& job) {
  std::vector<std::string> files;
  const ProblemConfig& p = job.problem;
  for (const std::string& path :
       {p.truth, p.measurements, p.weights, p.dark, p.flat, p.bad.flags, job.solver.start})
    add(files, path);
  OperatorConfig op = p.op;
  for (const std::string* file : files_of(op)) add(files, *file);
  const DenoiserConfig& d = job.denoiser;
  if (find_denoiser(d.network).network() && !d.weights.empty() && d.weights != "random")
    add(files, find_weights(d.weights));
  return files;
}

void require_same_files(const std::vector<std::string>& paths, const Communicator& comm) {
  if (comm.size() == 1 || paths.empty()) return;
  const std::vector<std::vector<Seen>> seen = gather_looks(paths, comm);
  // Rank 0 says who is to read what: lines of path, rank and whether all of it.
  std::string tasks;
  std::vector<std::string> hosts = comm.gather(host_name(), 0);
  const auto differ = [&](std::size_t path, std::size_t a, std::size_t b) {
    const auto at = [&](std::size_t r) {
      return fmt::format("{} on {} (rank {})", say(seen[path][r]), hosts[r], r);
    };
    throw InputError(concat(
        paths[path], " is not the same file on all nodes (", at(a), ", ", at(b),
        ": parts of the image would be made of each) name one that all nodes share, or copy it to all"));
  };
  comm.together([&] {
    for (std::size_t path = 0; path < seen.size(); ++path) {
      const std::vector<std::size_t> ranks = first_of_each(seen[path]);
      if (ranks.size() == 1) continue;
      bool same_time = true;
      for (const std::size_t r : ranks) {
        if (seen[path][r].size != seen[path][ranks[0]].size) differ(path, ranks[0], r);
        same_time = same_time && seen[path][r].same_time(seen[path][ranks[0]]);
      }
      for (const std::size_t r : ranks) tasks += fmt::format("{} {} {}\n", path, r, same_time ? 0 : 1);
    }
  });
  tasks = comm.broadcast(tasks, 0);
  std::string mine;
  comm.together([&] {
    std::istringstream in(tasks);
    int whole = 0, rank = 0;
    for (std::size_t path = 0; in >> path >> rank >> whole;)
      if (rank == comm.rank()) mine += fmt::format("{} {}\n", path, digest(paths[path], whole != 0));
  });
  const std::vector<std::string> digests = comm.gather(mine, 0);
  comm.together([&] {
    std::map<std::size_t, std::pair<std::size_t, std::string>>
        first;  // of a path: who read it, and what came of it
    for (std::size_t r = 0; r < digests.size(); ++r) {
      std::istringstream in(digests[r]);
      std::string sum;
      for (std::size_t path = 0; in >> path >> sum;)
        if (const auto [known, fresh] = first.try_emplace(path, r, sum);
            !fresh && known->second.second != sum)
          differ(path, known->second.first, r);
    }
  });
}

}  // namespace tessera
