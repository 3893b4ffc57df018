// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/core/box.hpp"
#include "tessera/domain/state.hpp"
#include "tessera/solve/observer.hpp"

namespace tessera {

/// What a checkpoint says beside its images. The caller's own entries stand beside the scalars and counts of
/// the fields, which are put in and taken out by their names.
struct Checkpoint {
  LoopState loop{};
  std::map<std::string, double> numbers{};
  std::map<std::string, std::string> texts{};
  std::map<std::string, std::vector<double>> lists{};
  std::string path{};  // of the file it was read from
};

/// Where this rank's part of every image field lies.
struct CheckpointPlace {
  Box image;  // all pixels, from 0
  Box block;  // this rank's
};

/// HDF5: a dataset /fields/NAME per image field in fixed chunks (Hdf5File), the rest as JSON in the
/// attribute `header`, a checksum for each. Whole or absent, and the same file for any cut into blocks.
/// `before_commit`: called on rank 0 before the file gets its name; it may throw. Collective. RunError or
/// InputError equal on all ranks.
void write_checkpoint(const std::string& path, Checkpoint checkpoint, const std::vector<StateField>& fields,
                      const CheckpointPlace& place, const Communicator& comm,
                      const std::function<void()>& before_commit = {});

/// Reads all of a checkpoint once, spread over the ranks, and compares its checksums. Collective. Errors,
/// equal on all ranks: DamageError (what is wrong with it), InputError where it cannot be read or is of
/// another tessera.
Checkpoint open_checkpoint(const std::string& path, const Communicator& comm);

/// Scalars and counts of `fields`; no file is read. InputError where one is missing.
void restore_numbers(const Checkpoint& checkpoint, const std::vector<StateField>& fields);
/// Images of `fields` into the tensors that they point to. Collective. InputError equal on all ranks.
void restore_images(const Checkpoint& checkpoint, const std::vector<StateField>& fields,
                    const CheckpointPlace& place, const Communicator& comm);

/// The checkpoints of a run: files iteration-0000012.h5, 12 being the iterations done.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}
  /// Newest first; unfinished and set-aside files do not count. Not collective.
  std::vector<std::string> list() const;
  std::string file(int iterations) const;
  /// The newest good one. `damaged` gets one line for each that was passed over. Collective; InputError where
  /// there is none, where none is good, and where one cannot be read for another reason.
  Checkpoint newest_good(const Communicator& comm, std::vector<std::string>& damaged) const;
  /// Renames files newer than these iterations to *.damaged and removes unfinished ones. One process.
  void set_aside(int newer_than) const;
  /// Removes all but the newest `keep`, and never the newest. One process.
  void prune(std::int64_t keep) const;

 private:
  std::string path_;
};

/// Order-free: the sum over elements of a mix of global index and bits, modulo 2^64, of this rank's part.
/// `tensor` holds `block` of an image `image`, (C, [D,] H, W), host memory, float32 or float64.
std::uint64_t local_checksum(const at::Tensor& tensor, const Box& image, const Box& block);

/// Bytes of the image fields of all ranks together.
std::int64_t checkpoint_bytes(const std::vector<StateField>& fields, const Box& image);

}  // namespace tessera
