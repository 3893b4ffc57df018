// SPDX-License-Identifier: BSD-3-Clause
// The one way of an image between a file and the ranks, whatever its format.
#include "tessera/io/distributed_image.hpp"

#include <mpi.h>

#include <algorithm>
#include <exception>
#include <memory>

#include "array_copy.hpp"
#include "packed.hpp"
#include "places.hpp"
#include "tessera/comm/exchange.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/io/keep_open.hpp"

namespace tessera {
namespace {

constexpr int kTag = 1;

// Rank 0's values on all ranks.
template <class... Values>
void broadcast(const Communicator& comm, Values&... values) {
  io::Packed sent;
  if (comm.rank() == 0) (sent.pass(values), ...);
  io::Packed got(comm.broadcast(sent.bytes(), 0));
  if (comm.rank() != 0) (got.pass(values), ...);
}

// A file that rank 0 has opened, and what all ranks know of it.
struct OpenImage {
  std::shared_ptr<ImageSource> source;  // null on the other ranks
  SourceInfo info;
  bool random_access = false;
};

OpenImage open_on_rank_0(const std::string& path, const Communicator& comm) {
  OpenImage out;
  comm.together([&] {
    if (comm.rank() != 0) return;
    out.source = shared_image(path);
    out.info = out.source->info();
    out.random_access = out.source->random_access();
  });
  broadcast(comm, out.info, out.random_access);
  return out;
}

// Rank 0 decodes box after box and sends each rank its part. A message without samples says that it failed.
template <class Sample, class Read>
void scatter(const std::vector<Box>& bands, const Layout& layout, const ArrayView& block,
             const Communicator& comm, Read read) {
  const MPI_Datatype type = sizeof(Sample) == 8 ? MPI_DOUBLE : MPI_FLOAT;
  std::exception_ptr problem;
  std::vector<Sample> band, parts;
  for (const Box& box : bands) {
    beat();
    const Box mine = box.intersect(block.box);
    const std::int64_t samples = mine.pixels() * block.channels;
    if (comm.rank() != 0) {
      if (mine.empty()) continue;
      parts.resize(static_cast<std::size_t>(samples));
      MPI_Status status;
      int got = 0;
      TESSERA_MPI(MPI_Recv(parts.data(), static_cast<int>(samples), type, 0, kTag, comm.handle(), &status));
      TESSERA_MPI(MPI_Get_count(&status, type, &got));
      if (got == 0) break;
      io::unpack(block, mine, 0, block.channels, parts.data());
      continue;
    }
    band.resize(static_cast<std::size_t>(box.pixels() * block.channels));
    try {
      read(box, band.data());
    } catch (const std::exception&) {
      problem = std::current_exception();
      Box rest;
      for (auto later = &box; later != bands.data() + bands.size(); ++later) rest = rest.hull(*later);
      for (const int rank : layout.overlapping(rest))
        if (rank != 0) TESSERA_MPI(MPI_Send(nullptr, 0, type, rank, kTag, comm.handle()));
      break;
    }
    const ArrayView view = io::dense_view(band.data(), box, block.channels);
    if (!mine.empty()) {
      parts.resize(static_cast<std::size_t>(samples));
      io::pack(view, mine, 0, block.channels, parts.data());
      io::unpack(block, mine, 0, block.channels, parts.data());
    }
    // Boxes may overlap, so one at a time: sends in flight could hold many copies of the band.
    for (const int rank : layout.overlapping(box)) {
      if (rank == 0) continue;
      const Box part = box.intersect(layout.box(rank));
      parts.resize(static_cast<std::size_t>(part.pixels() * block.channels));
      io::pack(view, part, 0, block.channels, parts.data());
      TESSERA_MPI(MPI_Send(parts.data(), static_cast<int>(parts.size()), type, rank, kTag, comm.handle()));
    }
  }
  comm.together([&] {
    if (problem) std::rethrow_exception(problem);
  });
}

void read_from_the_top(ImageSource* source, const Layout& layout, const ArrayView& block,
                       const Communicator& shared) {
  std::vector<Box> bands;
  shared.together([&] {
    if (source) bands = source->pieces(source->info().box, ImageSource::kBandBytes);
  });
  broadcast(shared, bands);
  const Communicator comm = shared.duplicate();  // no message of a transport can be mistaken for ours
  if (block.type == ElementType::float64)
    scatter<double>(bands, layout, block, comm, [&](const Box& box, double* to) { source->read(box, to); });
  else
    scatter<float>(bands, layout, block, comm,
                   [&](const Box& box, float* to) { source->read_floats(box, to); });
}

// Rank 0 puts bands of rows together from the other ranks' parts.
class Gathering {
 public:
  Gathering(const Box& image, const Layout& layout, const ArrayView& block, const Communicator& comm)
      : image_(image), layout_(layout), block_(block), comm_(comm) {}

  // The rows [y, y + rows) of a slice; on rank 0 dense (C, 1, rows, W), null elsewhere.
  const float* band(const Box& box) {
    beat();
    const Box mine = box.intersect(block_.box);
    part_.resize(static_cast<std::size_t>(mine.pixels() * block_.channels));
    if (!mine.empty()) io::pack(block_, mine, 0, block_.channels, part_.data());
    if (comm_.rank() != 0) {
      // Synchronous: small messages must not pile up on a rank 0 that is busy with the disk.
      if (!mine.empty())
        TESSERA_MPI(
            MPI_Ssend(part_.data(), static_cast<int>(part_.size()), MPI_FLOAT, 0, kTag, comm_.handle()));
      return nullptr;
    }
    band_.assign(static_cast<std::size_t>(box.pixels() * block_.channels), 0.0F);
    const ArrayView view = io::dense_view(band_.data(), box, block_.channels);
    for (const int rank : layout_.overlapping(box)) {
      const Box theirs = box.intersect(layout_.box(rank));
      if (rank != 0) {
        part_.resize(static_cast<std::size_t>(theirs.pixels() * block_.channels));
        TESSERA_MPI(MPI_Recv(part_.data(), static_cast<int>(part_.size()), MPI_FLOAT, rank, kTag,
                             comm_.handle(), MPI_STATUS_IGNORE));
      }
      io::unpack(view, theirs, 0, block_.channels, part_.data());
    }
    return band_.data();
  }

  template <class Take>
  void each_band(Take take) {
    const std::int64_t rows =
        std::max<std::int64_t>(1, ImageSource::kBandBytes / (image_.extent(2) * block_.channels * 4));
    for (std::int64_t z = image_.lo()[0]; z < image_.hi()[0]; ++z)
      for (std::int64_t y = image_.lo()[1]; y < image_.hi()[1]; y += rows) {
        const Box box = image_.intersect(Box({z, y, image_.lo()[2]}, {z + 1, y + rows, image_.hi()[2]}));
        take(box, band(box));
      }
  }

 private:
  Box image_;
  const Layout& layout_;
  const ArrayView& block_;
  Communicator comm_;
  std::vector<float> band_, part_;
};

void write_by_bands(const ImageFormat& format, const std::string& path, const ImageRecord& record,
                    const Layout& layout, const ArrayView& block, const Communicator& shared) {
  const Communicator comm = shared.duplicate();
  std::unique_ptr<ImageSink> sink;
  comm.together([&] {
    if (comm.rank() == 0) sink = format.create(path, record, Communicator());
  });
  std::exception_ptr problem;
  Gathering(record.space.box, layout, block, comm).each_band([&](const Box& box, const float* values) {
    try {
      if (sink && !problem) sink->write(box, values);
    } catch (const std::exception&) {
      problem = std::current_exception();  // the other ranks go on sending; what they send is dropped
    }
  });
  comm.together([&] {
    if (problem) std::rethrow_exception(problem);
    if (sink) sink->finish();
  });
}

// Every chunk as a whole by one rank, the first of those that own most of it: its owners send it what they have.
void write_by_chunks(ImageSink& sink, const Box& image, const Layout& layout, const ArrayView& block,
                     const Communicator& comm) {
  std::vector<std::vector<Box>> of_rank(static_cast<std::size_t>(comm.size()));
  std::size_t rounds = 0;
  const Index3 step = sink.chunk();
  for (std::int64_t z = image.lo()[0]; z < image.hi()[0]; z += step[0])
    for (std::int64_t y = image.lo()[1]; y < image.hi()[1]; y += step[1])
      for (std::int64_t x = image.lo()[2]; x < image.hi()[2]; x += step[2]) {
        const Box chunk = image.intersect(Box({z, y, x}, Index3{z, y, x} + step));
        std::size_t best = 0;
        std::int64_t most = -1;
        for (const int rank : layout.overlapping(chunk))
          if (const std::int64_t pixels = chunk.intersect(layout.box(rank)).pixels(); pixels > most) {
            most = pixels;
            best = static_cast<std::size_t>(rank);
          }
        of_rank[best].push_back(chunk);
        rounds = std::max(rounds, of_rank[best].size());
      }
  const std::shared_ptr<Transport> transport = make_transport(comm, {}, TransportKind::mpi);
  std::exception_ptr problem;  // of this rank; the others go on, and need what it has
  std::vector<double> doubles;
  std::vector<float> floats;
  for (std::size_t k = 0; k < rounds; ++k) {
    beat();
    std::vector<Box> needs;
    for (const std::vector<Box>& chunks : of_rank) needs.push_back(k < chunks.size() ? chunks[k] : Box());
    const Box mine = needs[static_cast<std::size_t>(comm.rank())];
    const std::int64_t count = mine.pixels() * block.channels;
    const bool wide = block.type == ElementType::float64;
    doubles.resize(static_cast<std::size_t>(wide ? count : 0));
    floats.resize(static_cast<std::size_t>(wide ? 0 : count));
    const ArrayView chunk = wide ? io::dense_view(doubles.data(), mine, block.channels)
                                 : io::dense_view(floats.data(), mine, block.channels);
    Exchange exchange(ExchangePlan(layout, Layout(needs), image, Border::none, comm.rank()), transport,
                      block.channels, block.type);
    exchange.begin(block, chunk).wait();
    try {
      if (!problem && !mine.empty()) sink.write_chunk(chunk);
    } catch (const std::exception&) {
      problem = std::current_exception();
    }
  }
  comm.together([&] {
    if (problem) std::rethrow_exception(problem);
  });
}

}  // namespace

SourceInfo image_source_info(const std::string& path, const Communicator& comm) {
  return open_on_rank_0(path, comm).info;
}

ImageRecord record_from(const std::string& path, const Communicator& comm) {
  ImageRecord out;
  if (comm.rank() == 0 && !path.empty()) {
    try {
      const std::shared_ptr<ImageSource> source = shared_image(path);
      out.metadata = source->metadata();
      out.space = source->info();
    } catch (const Error&) {
      out = {};  // what goes along with a result must not keep it from being written
    }
  }
  broadcast(comm, out.space, out.metadata);
  return out;
}

void forget_place(Metadata& metadata) {
  std::erase_if(metadata.text, [](const auto& pair) { return io::is_place(pair.first); });
}

void move_pixels(ImageRecord& record, const std::array<double, 3>& step, const std::array<double, 3>& first) {
  std::array<double, 3> spacing{};
  bool known = false;
  for (std::size_t d = 0; d < 3; ++d) {
    spacing[d] = record.space.grid[d].spacing;
    record.space.grid[d].spacing *= step[d];
    known = known || spacing[d] > 0;
  }
  std::vector<std::pair<std::string, std::string>>& texts = record.metadata.text;
  if (known && io::numbers_of(texts, io::kTranslation, 3).empty())
    texts.emplace_back(io::kTranslation, "0 0 0");  // of the pixels that these were
  io::move_place(texts, spacing, step, first);
}

void read_image(const std::string& path, const Layout& layout, const ArrayView& block,
                const Communicator& comm) {
  OpenImage file = open_on_rank_0(path, comm);
  const SourceInfo& about = file.info;
  comm.together([&] {
    io::require_host(block);
    if (layout.ranks() != comm.size() || layout.box(comm.rank()) != block.box)
      throw ContractError(concat("the block ", block.box, " is not this rank's box of the layout"));
    TESSERA_VALIDATE(block.channels == about.channels && about.box.contains(block.box), path, " holds ",
                     about.channels, " channels of ", about.box, " (", block.channels, " of ", block.box,
                     " are needed) is it the right file?");
  });
  if (!file.random_access) return read_from_the_top(file.source.get(), layout, block, comm);
  comm.together([&] {
    if (block.box.empty()) return;
    if (!file.source) file.source = shared_image(path);
    file.source->fill(block);
  });
}

bool visit_samples(const std::string& path, const Communicator& comm, const ImageSource::Visit& visit) {
  OpenImage file = open_on_rank_0(path, comm);
  bool whole_pixels = true;
  comm.together([&] {
    if (!file.source && file.random_access) file.source = shared_image(path);
    if (file.source) whole_pixels = file.source->visit(comm.rank(), comm.size(), visit);
  });
  broadcast(comm, whole_pixels);
  return whole_pixels;
}

void write_image(const std::string& path, const ImageRecord& record, const Layout& layout,
                 const ArrayView& block, const Communicator& comm) {
  const ImageFormat* format = nullptr;
  comm.together([&] {
    io::require_host(block);
    if (layout.ranks() != comm.size() || layout.box(comm.rank()) != block.box ||
        !record.space.box.contains(block.box) || record.space.channels != block.channels)
      throw ContractError(concat("the block ", block.box, " of ", block.channels,
                                 " channels is not this rank's part of ", record.space.channels, " of ",
                                 record.space.box));
    format = &output_format(path);
    require_writable(*format, path, record);
  });
  if (!format->shared) return write_by_bands(*format, path, record, layout, block, comm);
  const std::unique_ptr<ImageSink> sink = format->create(path, record, comm);
  if (sink->chunk() == Index3{})
    sink->write_block(block);
  else
    write_by_chunks(*sink, record.space.box, layout, block, comm);
  sink->finish();
}

}  // namespace tessera
