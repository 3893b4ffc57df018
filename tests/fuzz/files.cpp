// SPDX-License-Identifier: BSD-3-Clause
// Readers of files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "sealed_file.hpp"
#include "targets.hpp"
#include "tessera/denoise/network.hpp"
#include "tessera/io/distributed_image.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/io/safetensors.hpp"

namespace tessera::fuzz {
namespace {

const std::string& scratch() {
  static const std::string& folder = *[] {  // never destroyed: the last call is at exit
    auto* name = new std::string(::access("/dev/shm", W_OK) == 0 ? "/dev/shm/tessera-fuzz-XXXXXX"
                                                                 : "/tmp/tessera-fuzz-XXXXXX");
    if (!::mkdtemp(name->data())) std::abort();
    std::atexit([] { [[maybe_unused]] const int done = std::system(("rm -rf " + scratch()).c_str()); });
    return name;
  }();
  return folder;
}

}  // namespace

void require(bool holds, const char* words) {
  if (holds) return;
  std::fprintf(stderr, "property: %s\n", words);
  std::abort();
}

std::string as_file(const std::uint8_t* bytes, std::size_t count, const std::string& suffix) {
  const std::string path = scratch() + "/input" + suffix;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, bytes, count) != static_cast<ssize_t>(count)) std::abort();
  ::close(fd);
  return path;
}

// An even first byte: the rest as it stands. Odd: two bytes say how much of it is the header, and the length
// that the format wants in front is right.
std::vector<std::uint8_t> with_header_length(const std::uint8_t* bytes, std::size_t count) {
  std::vector<std::uint8_t> file(bytes + 1, bytes + count);
  if (bytes[0] & 1) {
    const std::size_t header = std::min<std::size_t>(file[0] | file[1] << 8, file.size() - 2);
    file.erase(file.begin(), file.begin() + 2);
    std::uint8_t length[8] = {};
    for (int k = 0; k < 8; ++k) length[k] = static_cast<std::uint8_t>(header >> (8 * k));
    file.insert(file.begin(), length, length + 8);
  }
  return file;
}

void safetensors(const std::uint8_t* bytes, std::size_t count) {
  if (count < 3) return;
  const std::vector<std::uint8_t> file = with_header_length(bytes, count);
  refused_or_fine([&] {
    const SafeTensors read = read_safetensors(as_file(file.data(), file.size(), ".safetensors"));
    std::size_t total = 0;
    for (const auto& [name, tensor] : read.tensors) total += tensor.bytes.size();
    require(total < file.size(), "tensors hold more than the file");
    // What was read is written and read again.
    const std::string again = as_file(nullptr, 0, ".again.safetensors");
    try {
      write_safetensors(again, read);
    } catch (const InputError&) {  // names that are no UTF-8
      return;
    }
    require(read_safetensors(again).tensors.size() == read.tensors.size(),
            "written and read is not the same");
  });
}

// Weights of a network: the first byte says which, the rest is as for safetensors.
void network(const std::uint8_t* bytes, std::size_t count) {
  if (count < 4) return;
  const std::vector<std::string> names = network_names();
  const std::vector<std::uint8_t> file = with_header_length(bytes + 1, count - 1);
  const std::string path = as_file(file.data(), file.size(), ".safetensors");
  refused_or_fine([&] {
    const Network read = load_network(names[bytes[0] % names.size()], path, bytes[0] & 64 ? 1 : 0);
    for (const auto& [name, shape] : weight_shapes(read.graph))
      require(read.weights.at(name).sizes() == at::IntArrayRef(shape), "a tensor of another shape");
  });
}

// As above: the magic, version 1 and the header's length are right where the first byte is odd.
void npy(const std::uint8_t* bytes, std::size_t count) {
  if (count < 2) return;
  std::vector<std::uint8_t> file(bytes + 1, bytes + count);
  if (bytes[0] & 1) {
    const std::size_t header = std::min<std::size_t>(file[0], file.size() - 1);
    file.erase(file.begin());
    const std::uint8_t front[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<std::uint8_t>(header), 0};
    file.insert(file.begin(), front, front + sizeof front);
  }
  const std::string path = as_file(file.data(), file.size(), ".npy");
  refused_or_fine([&] {
    const NpyArray read = read_npy(path);
    require(read.values.size() <= 8 * file.size(), "more values than the file has bits");
  });
  refused_or_fine([&] {
    const SourceInfo info = image_source_info(path, Communicator());
    require(info.box.pixels() > 0 && info.channels > 0, "an image without pixels");
  });
}

void seal(const std::uint8_t* bytes, std::size_t count) {
  refused_or_fine([&] { check_seal(as_file(bytes, count, ".h5")); });
}

void picture(const std::uint8_t* bytes, std::size_t count) {
  if (count < 2) return;
  constexpr const char* kSuffix[] = {".png", ".jpg", ".tif", ".fits"};
  const std::string path = as_file(bytes + 1, count - 1, kSuffix[bytes[0] % 4]);
  constexpr const char* kParts[] = {"", "0", "all", "slices", "channels"};
  const std::string part = kParts[bytes[0] / 4 % 5];
  refused_or_fine([&] {
    const std::string named = part.empty() ? path : path + ":/" + part;
    const auto whole = open_image(named);
    static_cast<void>(whole->metadata());
    const Box all = whole->info().box;
    const std::int64_t channels = whole->info().channels;
    require(!all.empty() && all.lo() == Index3{} && channels > 0, "a header that cannot be");
    // A small file may hold a large black image.
    if (all.extent(1) > 512 || all.extent(2) > 512 || all.extent(0) * channels > 64) return;
    std::vector<float> once(static_cast<std::size_t>(all.pixels() * channels)), again(once);
    whole->read_floats(all, once.data());
    const auto banded = open_image(named);
    const std::int64_t third = std::max<std::int64_t>(1, all.extent(1) / 3) * all.extent(2) * channels * 4;
    for (const Box& band : banded->pieces(all, third)) {
      std::vector<float> values(static_cast<std::size_t>(band.pixels() * channels));
      banded->read_floats(band, values.data());
      std::size_t at = 0;
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t z = band.lo()[0]; z < band.hi()[0]; ++z)
          for (std::int64_t y = band.lo()[1]; y < band.hi()[1]; ++y)
            for (std::int64_t x = band.lo()[2]; x < band.hi()[2]; ++x)
              again[static_cast<std::size_t>(((c * all.extent(0) + z) * all.extent(1) + y) * all.extent(2) +
                                             x)] = values[at++];
    }
    require(std::memcmp(once.data(), again.data(), once.size() * sizeof(float)) == 0,
            "bands differ from the whole");
  });
}

}  // namespace tessera::fuzz
