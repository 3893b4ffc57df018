// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Every name in a trace file, for its writer and its readers. docs/trace.md says what they hold; a changed
// meaning is a new kTraceSchema.

namespace tessera {

inline constexpr int kTraceSchema = 2;

namespace keys {

// Attributes of the root group. Numbers are int64 unless a type stands beside them, the rest is text.
inline constexpr const char* schema = "schema";
inline constexpr const char* version = "tessera_version";
inline constexpr const char* commit = "tessera_commit";
inline constexpr const char* job = "job";  // resolved, YAML
inline constexpr const char* command_line = "command_line";
inline constexpr const char* rank = "rank";
inline constexpr const char* ranks = "ranks";
inline constexpr const char* grid_depth = "grid_depth";  // of a volume; absent in old traces: 1
inline constexpr const char* grid_rows = "grid_rows";
inline constexpr const char* grid_columns = "grid_columns";
inline constexpr const char* own_box =
    "own_box";  // int64 (2, 3): first pixel, end, as (depth, height, width)
inline constexpr const char* host = "host";
inline constexpr const char* threads = "threads";  // of this rank
inline constexpr const char* sockets = "sockets";  // of the host
inline constexpr const char* cores = "cores";      // text: this rank may run on, such as "0-7,16"
inline constexpr const char* device = "device";
inline constexpr const char* libraries = "libraries";
inline constexpr const char* machine = "machine";
inline constexpr const char* start_time = "start_time";  // ISO 8601, when the file was made
inline constexpr const char* every = "every";
inline constexpr const char* restarts = "restarts";            // how often the run was resumed
inline constexpr const char* status = "status";                // running, or why the run ended
inline constexpr const char* trace_seconds = "trace_seconds";  // float64, time spent on the trace itself

// Tables: one compound dataset each, one row per iteration or finished phase.
inline constexpr const char* iterations = "iterations";
inline constexpr const char* phases = "phases";

// Columns of both.
inline constexpr const char* iteration = "iteration";
inline constexpr const char* start = "start";
inline constexpr const char* seconds = "seconds";

// Columns of /iterations.
inline constexpr const char* objective = "objective";
inline constexpr const char* chi2 = "chi2";
inline constexpr const char* residual = "residual";
inline constexpr const char* step = "step";
inline constexpr const char* sigma = "sigma";
inline constexpr const char* psnr = "psnr";

// Columns of /phases. phase and parent are HDF5 enumerations of the names in core/phase.hpp.
inline constexpr const char* phase = "phase";
inline constexpr const char* parent = "parent";
inline constexpr const char* own_seconds = "own_seconds";
inline constexpr const char* device_seconds = "device_seconds";  // only of a run on a device
inline constexpr const char* wait_seconds = "wait_seconds";
inline constexpr const char* flight_seconds = "flight_seconds";
inline constexpr const char* bytes_sent = "bytes_sent";
inline constexpr const char* bytes_read = "bytes_read";
inline constexpr const char* bytes_written = "bytes_written";
inline constexpr const char* bytes_received = "bytes_received";
inline constexpr const char* messages = "messages";
inline constexpr const char* allocated_bytes = "allocated_bytes";
inline constexpr const char* peak_bytes = "peak_bytes";
inline constexpr const char* resident_bytes = "resident_bytes";

}  // namespace keys
}  // namespace tessera
