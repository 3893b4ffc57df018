// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/core/box.hpp"

namespace tessera {

/// Frames of a detector, one behind the other in an array of a file, and which of them are meant.
struct FrameStack {
  std::string path;                     // FILE or FILE:/dataset
  std::string type = "float32";         // of a sample
  std::int64_t count = 0;               // of frames in the file
  std::int64_t rows = 1, columns = 0;   // of a frame
  std::array<int, 3> axes{-1, -1, -1};  // of the array that are frames, rows, columns; -1: it has none
  std::vector<std::int64_t> frames;     // those that are meant, in their order
  bool empty() const { return frames.empty(); }
};

/// Where source, axis and detector stand, as a file states it: in micrometers, 0 is not known.
struct StatedGeometry {
  bool cone = false;  // else parallel
  double pitch = 0;   // of the detector's rows and columns; of a parallel beam at the axis
  double source_axis = 0, source_detector = 0;  // of a cone
  std::string unclear{};                        // why nothing follows from what it states
};

/// What the files of a tomographic scan hold.
struct ScanFile {
  std::string kind;            // "NXtomo", "DXchange"; "": an array
  FrameStack views;            // of the object
  FrameStack flats, darks;     // of the beam alone, of no beam; empty: the file has none
  FrameStack weights;          // inverse variances beside the samples; empty: none
  std::vector<double> angles;  // one per view, as the file has them; empty: it does not say
  std::string unit;            // of them: "degrees", "radians", another word, "" (it does not say)
  std::string angles_path;     // FILE:/dataset
  StatedGeometry stated{};
};

/// Recognizes a scan by its contents: NeXus' NXtomo (image_key, or image_key_control where that is there;
/// rotation_angle), DXchange (/exchange/data, data_white, data_dark, theta), a measurement file of tessera with
/// one part of one channel, or an array: (views, rows, columns), or (views, columns) of one row; an axis before them
/// has length 1. FILE.h5:/group or /dataset names one of several scans. Nothing where a file of tessera holds several
/// parts or channels. Reads no frames. Collective; InputError equal on all ranks.
/// Source: manual.nexusformat.org (NXtomo), F. De Carlo et al., J. Synchrotron Rad. 21 (2014) 1224 (DXchange).
std::optional<ScanFile> open_scan(const std::string& path, const Communicator& comm);

/// An array of frames: of the shape (n, rows, columns), one frame (rows, columns), or n of one row, (n, columns).
/// `rows`: of a frame, as the scan has it. Collective; InputError equal on all ranks.
FrameStack open_frames(const std::string& path, std::int64_t rows, const Communicator& comm);

/// Numbers of a text file (apart by space, comma or semicolon; # begins a comment), an .npy or a dataset.
struct AngleList {
  std::vector<double> values;
  std::string unit;  // as the dataset's attribute says it: "degrees", "radians", another word, ""
};
/// Collective; InputError equal on all ranks.
AngleList read_angles(const std::string& path, const Communicator& comm);

/// A stack that is open. Not collective; every rank that reads has one of its own.
class FrameReader {
 public:
  /// Memory beyond what is filled: what the file decodes together, and some 32 MiB.
  explicit FrameReader(const FrameStack& stack);
  ~FrameReader();
  /// Dense samples of a box (k, row, column), k counting stack.frames; as they are stored, missing ones NaN.
  void read(const Box& box, double* dense);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
