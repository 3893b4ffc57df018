// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/io/distributed_image.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "array_copy.hpp"
#include "npy_image.hpp"
#include "source.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

using io::NpyImage;
using io::Source;

constexpr std::int64_t kBandBytes = 8 << 20;  // float32 samples that rank 0 holds at once

constexpr int kTag = 1;

// Bands of stored rows, from the top of the first slice, in displayed coordinates.
std::vector<Box> stored_bands(const ImageInfo& info) {
  const std::int64_t columns = info.height * info.width / info.stored_rows;
  const std::int64_t rows = std::max<std::int64_t>(1, kBandBytes / (columns * info.channels * 4));
  std::vector<Box> bands;
  for (std::int64_t z = 0; z < info.depth; ++z)
    for (std::int64_t r = 0; r < info.stored_rows; r += rows)
      bands.push_back(stored_rows_box(info, r, std::min(rows, info.stored_rows - r), z));
  return bands;
}

// Rank 0 decodes band after band and sends each rank its part. A message without samples says that it failed.
template <class Sample>
void scatter(ImageReader* reader, const std::vector<Box>& bands, const Layout& layout, const ArrayView& block,
             const Communicator& comm) {
  const MPI_Datatype type = sizeof(Sample) == 8 ? MPI_DOUBLE : MPI_FLOAT;
  std::string problem;
  std::vector<Sample> band, parts;
  std::vector<MPI_Request> sends;
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
      reader->read(box, band.data());
    } catch (const InputError& e) {
      problem = e.what();
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
    if (!problem.empty()) throw InputError(problem);
  });
}

template <class Sample>
void read_own(ImageReader& reader, const ArrayView& block) {
  std::vector<Sample> band;
  for (const Box& part : reading_pieces(block.box, reader.info(), kBandBytes)) {
    beat();
    band.resize(static_cast<std::size_t>(part.pixels() * block.channels));
    reader.read(part, band.data());
    io::unpack(block, part, 0, block.channels, band.data());
  }
}

void read_picture(const Source& source, const Layout& layout, const ArrayView& block,
                  const Communicator& comm) {
  std::optional<ImageReader> reader;
  ImageInfo info;
  comm.together([&] {
    if (comm.rank() != 0) return;
    reader.emplace(source.file, source.part);
    info = reader->info();
  });
  std::array<std::int64_t, 7> shape{info.height, info.width,       info.stored_rows,  info.channels,
                                    info.depth,  info.orientation, info.random_access};
  comm.broadcast(shape.data(), sizeof shape, 0);
  const bool precise = block.type == ElementType::float64;
  if (shape[6] == 0) {
    info.height = shape[0];
    info.width = shape[1];
    info.stored_rows = shape[2];
    info.channels = shape[3];
    info.depth = shape[4];
    info.orientation = static_cast<int>(shape[5]);
    const Communicator own_space = comm.duplicate();  // no message of a transport can be mistaken for ours
    ImageReader* const own = reader ? &*reader : nullptr;
    return precise ? scatter<double>(own, stored_bands(info), layout, block, own_space)
                   : scatter<float>(own, stored_bands(info), layout, block, own_space);
  }
  comm.together([&] {
    if (block.box.empty()) return;
    if (!reader) reader.emplace(source.file, source.part);
    precise ? read_own<double>(*reader, block) : read_own<float>(*reader, block);
  });
}

}  // namespace

void read_image(const std::string& path, const Layout& layout, const ArrayView& block,
                const Communicator& comm) {
  const SourceInfo about = image_source_info(path, comm);
  const Source source = io::source_of(path);
  comm.together([&] {
    io::require_host(block);
    if (layout.ranks() != comm.size() || layout.box(comm.rank()) != block.box)
      throw ContractError(concat("the block ", block.box, " is not this rank's box of the layout"));
    TESSERA_VALIDATE(block.channels == about.channels && about.box.contains(block.box), path, " holds ",
                     about.channels, " channels of ", about.box, " (", block.channels, " of ", block.box,
                     " are needed) is it the right file?");
  });
  if (source.kind == ImageFormat::Kind::hdf5) {
    Hdf5File file = Hdf5File::open(source.file, comm);
    file.read(io::dataset_of(source, file), block);
  } else if (source.kind == ImageFormat::Kind::npy) {
    comm.together([&] {
      if (!block.box.empty()) NpyImage(source.file).read(block);
    });
  } else {
    read_picture(source, layout, block, comm);
  }
}

void visit_samples(const std::string& path, const Communicator& comm,
                   const std::function<void(const double*, std::int64_t)>& visit) {
  const SourceInfo about = image_source_info(path, comm);
  const Source source = io::source_of(path);
  if (source.kind == ImageFormat::Kind::hdf5) {
    const Hdf5File file = Hdf5File::open(source.file, comm);
    return file.visit(io::dataset_of(source, file), visit);
  }
  std::int64_t from_the_top = 0;  // what decodes only so is one rank's
  std::optional<ImageReader> picture;
  comm.together([&] {
    if (source.kind != ImageFormat::Kind::picture || comm.rank() != 0) return;
    picture.emplace(source.file, source.part);
    from_the_top = !picture->info().random_access;
  });
  comm.broadcast(&from_the_top, sizeof from_the_top, 0);
  comm.together([&] {
    std::optional<NpyImage> array;
    if (source.kind == ImageFormat::Kind::picture && !picture && !from_the_top)
      picture.emplace(source.file, source.part);
    if (source.kind == ImageFormat::Kind::npy) array.emplace(source.file);
    std::vector<float> band;
    std::vector<double> values;
    const auto give = [&](const Box& box) {
      beat();
      values.resize(static_cast<std::size_t>(box.pixels() * about.channels));
      if (array) array->read(io::dense_view(values.data(), box, about.channels));
      if (picture) {
        band.resize(values.size());
        picture->read(box, band.data());
        std::copy(band.begin(), band.end(), values.begin());
      }
      visit(values.data(), std::ssize(values));
    };
    if (from_the_top) {
      if (comm.rank() == 0)
        for (const Box& box : stored_bands(picture->info())) give(box);
      return;
    }
    const ImageInfo rows{
        .height = about.box.extent(1), .width = about.box.extent(2), .channels = about.channels};
    std::int64_t turn = 0;
    for (const Box& box : reading_pieces(about.box, picture ? picture->info() : rows, kBandBytes))
      if (turn++ % comm.size() == comm.rank()) give(box);
  });
}

void write_picture(const std::string& path, const Box& image, const Layout& layout, const ArrayView& block,
                   int bits, const Communicator& shared, const std::string& profile_from) {
  const Communicator comm = shared.duplicate();
  std::optional<ImageWriter> writer;
  comm.together([&] {
    io::require_host(block);
    if (layout.ranks() != comm.size() || layout.box(comm.rank()) != block.box || image.extent(0) != 1)
      throw ContractError(concat("the block ", block.box, " is not this rank's box of a plane ", image));
    if (comm.rank() != 0) return;
    std::vector<std::uint8_t> profile;
    if (is_picture(profile_from)) profile = ImageReader(profile_from).profile();
    writer.emplace(path, image.extent(1), image.extent(2), block.channels, bits, std::move(profile));
  });
  const std::int64_t rows = std::max<std::int64_t>(1, kBandBytes / (image.extent(2) * block.channels * 4));
  std::string problem;
  std::vector<float> band, part;
  for (std::int64_t y = image.lo()[1]; y < image.hi()[1]; y += rows) {
    beat();
    const Box box =
        image.intersect(Box({image.lo()[0], y, image.lo()[2]}, {image.hi()[0], y + rows, image.hi()[2]}));
    const Box mine = box.intersect(block.box);
    part.resize(static_cast<std::size_t>(mine.pixels() * block.channels));
    if (!mine.empty()) io::pack(block, mine, 0, block.channels, part.data());
    if (comm.rank() != 0) {
      // Synchronous: small messages must not pile up on a rank 0 that is busy with the disk.
      if (!mine.empty())
        TESSERA_MPI(MPI_Ssend(part.data(), static_cast<int>(part.size()), MPI_FLOAT, 0, kTag, comm.handle()));
      continue;
    }
    band.assign(static_cast<std::size_t>(box.pixels() * block.channels), 0.0F);
    const ArrayView view = io::dense_view(band.data(), box, block.channels);
    for (const int rank : layout.overlapping(box)) {
      const Box theirs = box.intersect(layout.box(rank));
      if (rank != 0) {
        part.resize(static_cast<std::size_t>(theirs.pixels() * block.channels));
        TESSERA_MPI(MPI_Recv(part.data(), static_cast<int>(part.size()), MPI_FLOAT, rank, kTag, comm.handle(),
                             MPI_STATUS_IGNORE));
      }
      io::unpack(view, theirs, 0, block.channels, part.data());
    }
    try {
      if (problem.empty()) writer->write_rows(y - image.lo()[1], box.extent(1), band.data());
    } catch (const RunError& e) {
      problem = e.what();  // the other ranks go on sending; what they send is dropped
    }
  }
  comm.together([&] {
    if (!problem.empty()) throw RunError(problem);
    if (writer) writer->finish();
  });
}

}  // namespace tessera
