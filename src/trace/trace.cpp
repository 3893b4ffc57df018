// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/trace/trace.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/core/reason.hpp"
#include "tessera/core/scratch.hpp"
#include "tessera/io/files.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/hdf5_output.hpp"
#include "tessera/trace/keys.hpp"
#include "tessera/trace/table.hpp"

namespace tessera {
namespace {

using trace::Column;
using trace::Table;

struct IterationRow {
  std::int64_t iteration;
  double start, seconds, objective, chi2, residual, step, sigma, psnr;
};

struct PhaseRow {
  std::int64_t iteration;
  std::int8_t phase, parent;
  double start, seconds, own_seconds, wait_seconds, flight_seconds, device_seconds;
  std::int64_t bytes_sent, bytes_received, messages;
  std::int64_t bytes_read, bytes_written;
  std::int64_t allocated_bytes, peak_bytes, resident_bytes;
};

const std::vector<Column>& iteration_columns() {
  using R = IterationRow;
  static const hid_t real = H5T_NATIVE_DOUBLE, whole = H5T_NATIVE_INT64;
  static const std::vector<Column> columns = {{keys::iteration, offsetof(R, iteration), whole},
                                              {keys::start, offsetof(R, start), real},
                                              {keys::seconds, offsetof(R, seconds), real},
                                              {keys::objective, offsetof(R, objective), real},
                                              {keys::chi2, offsetof(R, chi2), real},
                                              {keys::residual, offsetof(R, residual), real},
                                              {keys::step, offsetof(R, step), real},
                                              {keys::sigma, offsetof(R, sigma), real},
                                              {keys::psnr, offsetof(R, psnr), real}};
  return columns;
}

std::vector<Column> phase_columns(hid_t phase) {
  using R = PhaseRow;
  const hid_t real = H5T_NATIVE_DOUBLE, whole = H5T_NATIVE_INT64;
  std::vector<Column> columns = {{keys::iteration, offsetof(R, iteration), whole},
                                 {keys::phase, offsetof(R, phase), phase},
                                 {keys::parent, offsetof(R, parent), phase},
                                 {keys::start, offsetof(R, start), real},
                                 {keys::seconds, offsetof(R, seconds), real},
                                 {keys::own_seconds, offsetof(R, own_seconds), real},
                                 {keys::wait_seconds, offsetof(R, wait_seconds), real},
                                 {keys::flight_seconds, offsetof(R, flight_seconds), real},
                                 {keys::bytes_sent, offsetof(R, bytes_sent), whole},
                                 {keys::bytes_received, offsetof(R, bytes_received), whole},
                                 {keys::messages, offsetof(R, messages), whole},
                                 {keys::allocated_bytes, offsetof(R, allocated_bytes), whole},
                                 {keys::peak_bytes, offsetof(R, peak_bytes), whole},
                                 {keys::resident_bytes, offsetof(R, resident_bytes), whole}};
  if (has_scratch()) {
    columns.push_back({keys::bytes_read, offsetof(R, bytes_read), whole});
    columns.push_back({keys::bytes_written, offsetof(R, bytes_written), whole});
  }
  if (has_device_clock()) columns.push_back({keys::device_seconds, offsetof(R, device_seconds), real});
  return columns;
}

/// The names of all phases, as HDF5 enumerates them.
H5Handle phase_type(const std::string& path) {
  H5Handle type(check_h5(H5Tenum_create(H5T_NATIVE_INT8), "H5Tenum_create", path), H5Tclose);
  for (int p = 0; p <= static_cast<int>(Phase::other); ++p) {
    const auto value = static_cast<std::int8_t>(p);
    check_h5(H5Tenum_insert(type.get(), name(static_cast<Phase>(p)), &value), "H5Tenum_insert", path);
  }
  return type;
}

H5Handle create_attribute(hid_t file, const char* key, hid_t type, const std::vector<hsize_t>& shape,
                          const std::string& path) {
  const H5Handle space(
      check_h5(shape.empty() ? H5Screate(H5S_SCALAR)
                             : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
               "H5Screate", path),
      H5Sclose);
  return {check_h5(H5Acreate2(file, key, type, space.get(), H5P_DEFAULT, H5P_DEFAULT), "H5Acreate", path),
          H5Aclose};
}

void put_attribute(hid_t file, const std::string& key, const std::string& value, const std::string& path) {
  // Variable length: an attribute of fixed length cannot pass 64 KiB, a job can.
  const H5Handle type(check_h5(H5Tcopy(H5T_C_S1), "H5Tcopy", path), H5Tclose);
  check_h5(H5Tset_size(type.get(), H5T_VARIABLE), "H5Tset_size", path);
  check_h5(H5Tset_cset(type.get(), H5T_CSET_UTF8), "H5Tset_cset", path);
  const H5Handle attribute = create_attribute(file, key.c_str(), type.get(), {}, path);
  const char* text = value.c_str();
  check_h5(H5Awrite(attribute.get(), type.get(), &text), "H5Awrite", path);
}

void put_attribute(hid_t file, const std::string& key, const std::vector<std::int64_t>& values,
                   const std::vector<hsize_t>& shape, const std::string& path) {
  const H5Handle attribute = create_attribute(file, key.c_str(), H5T_NATIVE_INT64, shape, path);
  check_h5(H5Awrite(attribute.get(), H5T_NATIVE_INT64, values.data()), "H5Awrite", path);
}

std::string rank_name(int rank) {
  char text[24];
  std::snprintf(text, sizeof text, "rank-%05d", rank);
  return text;
}

constexpr std::size_t kStatusLength = 16;
constexpr hsize_t kFirstRows = 16384;  // for which a new file has room

/// One trace file, open.
struct TraceFile {
  std::string path;
  std::unique_ptr<io::Hdf5Output> output;  // of a new one
  H5Handle file, phase_enum, seconds, status_type, status;
  Table<IterationRow> iterations;
  Table<PhaseRow> phases;

  /// A new one, with room for rows.
  TraceFile(const std::string& where, const std::string& said, hsize_t iteration_rows, hsize_t phase_rows)
      : path(said),
        output(std::make_unique<io::Hdf5Output>(where, said)),
        file(output->begin()),
        phase_enum(phase_type(path)),
        iterations(file.get(), keys::iterations, iteration_columns(), iteration_rows, path),
        phases(file.get(), keys::phases, phase_columns(phase_enum.get()), phase_rows, path) {}
  /// One that is there, to be read.
  explicit TraceFile(const std::string& where)
      : path(where),
        file(io::open_hdf5(path)),
        phase_enum(phase_type(path)),
        iterations(file.get(), keys::iterations, iteration_columns(), path),
        phases(file.get(), keys::phases, phase_columns(phase_enum.get()), path) {}

  TraceFile(TraceFile&&) = default;
  TraceFile& operator=(TraceFile&&) = delete;  // would free an output before its file is closed

  void put_attributes(const TraceHeader& header, int every, int restarts) {
    put_attribute(file.get(), keys::schema, {kTraceSchema}, {}, path);
    put_attribute(file.get(), keys::every, {every}, {}, path);
    put_attribute(file.get(), keys::restarts, {restarts}, {}, path);
    for (const auto& [key, value] : header.text) put_attribute(file.get(), key, value, path);
    for (const auto& [key, value] : header.numbers) put_attribute(file.get(), key, {value}, {}, path);
    const Index3 lo = header.own.lo(), hi = header.own.hi();
    put_attribute(file.get(), keys::own_box, {lo[0], lo[1], lo[2], hi[0], hi[1], hi[2]}, {2, 3}, path);
    seconds = create_attribute(file.get(), keys::trace_seconds, H5T_NATIVE_DOUBLE, {}, path);
    status_type = H5Handle(check_h5(H5Tcopy(H5T_C_S1), "H5Tcopy", path), H5Tclose);
    check_h5(H5Tset_size(status_type.get(), kStatusLength), "H5Tset_size", path);
    status = create_attribute(file.get(), keys::status, status_type.get(), {}, path);
  }
  void put_status(const std::string& text) {
    std::array<char, kStatusLength> fixed{};
    text.copy(fixed.data(), kStatusLength - 1);
    check_h5(H5Awrite(status.get(), status_type.get(), fixed.data()), "H5Awrite", path);
  }
  void flush(double all_seconds) {
    iterations.append();
    phases.append();
    check_h5(H5Awrite(seconds.get(), H5T_NATIVE_DOUBLE, &all_seconds), "H5Awrite", path);
    check_h5(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "H5Fflush", path);
    output->require();
  }
};

// RunError where it does not hold so many values.
H5Handle open_attribute(hid_t file, const char* key, hssize_t count, const std::string& path) {
  H5Handle attribute(check_h5(H5Aopen(file, key, H5P_DEFAULT), "H5Aopen", path), H5Aclose);
  const H5Handle space(check_h5(H5Aget_space(attribute.get()), "H5Aget_space", path), H5Sclose);
  if (H5Sget_simple_extent_npoints(space.get()) != count)
    throw RunError(concat(path, ": the attribute ", key, " does not hold ", count, " values"));
  return attribute;
}

void read_numbers(hid_t file, const char* key, hid_t type, hssize_t count, void* to,
                  const std::string& path) {
  const H5Handle attribute = open_attribute(file, key, count, path);
  check_h5(H5Aread(attribute.get(), type, to), "H5Aread", path);
}

std::string text_attribute(hid_t file, const char* key, const std::string& path) {
  const H5Handle attribute = open_attribute(file, key, 1, path);
  const H5Handle type(check_h5(H5Aget_type(attribute.get()), "H5Aget_type", path), H5Tclose);
  if (H5Tis_variable_str(type.get()) <= 0)
    throw RunError(concat(path, ": the attribute ", key, " is no text"));
  char* text = nullptr;
  check_h5(H5Aread(attribute.get(), type.get(), &text), "H5Aread", path);
  const std::string value = text ? text : "";
  H5free_memory(text);
  return value;
}

}  // namespace

struct TraceWriter::Impl {
  std::string path;
  TraceHeader header;
  int every, restarts;
  std::optional<TraceFile> file;  // none once it could not be written
  std::string problem;            // why
  std::string status = "running";
  std::optional<IterationResult> left_out;  // the newest iteration, where `every` skips it
  std::map<Phase, PhaseTotal> totals;
  double inside = 0;                    // seconds in calls of this class
  double inside_before = 0, clock = 0;  // of earlier programs of the run
  double last_flush = 0;                // when
  double interval = 0;                  // seconds that have to pass until the next

  Impl(const std::string& where, const TraceHeader& what, int n, const TraceBegin& begin)
      : path(where), header(what), every(n), restarts(begin.restarts), clock(begin.clock) {
    std::error_code error;
    const auto parent = std::filesystem::path(path).parent_path();
    if (!parent.empty()) std::filesystem::create_directories(parent, error);
    if (error) throw RunError(concat("cannot make ", parent.string(), " (", error.message(), ")"));
    const auto all = [](const auto&) { return true; };
    if (!begin.same_file) {
      renew(nullptr, all, all);
      return;
    }
    const TraceFile old(path);
    read_numbers(old.file.get(), keys::trace_seconds, H5T_NATIVE_DOUBLE, 1, &inside_before, path);
    header.text[keys::start_time] = text_attribute(old.file.get(), keys::start_time, path);
    renew(
        &old, [&](const IterationRow& r) { return r.iteration < begin.iterations; },
        [&](const PhaseRow& r) { return r.iteration < begin.iterations && r.start < begin.clock; });
  }

  /// A new file in place of an old one, with its rows and room for some more; whole or absent.
  template <class KeepIteration, class KeepPhase>
  void renew(const TraceFile* old, KeepIteration keep_iteration, KeepPhase keep_phase) {
    constexpr hsize_t kMore = 4;  // rows are copied as often as their number grows by this factor
    const auto room = [&](hsize_t rows) { return std::max(kFirstRows, kMore * rows); };
    const std::string temporary = temporary_name(path);
    try {
      TraceFile next(temporary, path, room(old ? old->iterations.rows() : 0),
                     room(old ? old->phases.rows() : 0));
      next.put_attributes(header, every, restarts);
      if (old) {
        next.iterations.take(old->iterations, keep_iteration);
        next.phases.take(old->phases, keep_phase);
      }
      next.put_status(status);
      next.flush(inside_before + inside);
      std::error_code error;
      std::filesystem::rename(temporary, path, error);
      if (error)
        throw RunError(concat("cannot rename ", temporary, " to ", path, " (", error.message(), ")"));
      file.reset();  // HDF5 closes the old one through its own output, which has to be there
      file.emplace(std::move(next));
    } catch (...) {
      std::error_code none;
      std::filesystem::remove(temporary, none);
      throw;
    }
  }

  /// The run is worth more than its trace: where that cannot be written it ends, and `problem` says why.
  template <class Work>
  void try_to(Work work) {
    const Clock timed(*this);
    try {
      work();
    } catch (const std::exception& e) {
      problem = reason(e);
      file.reset();
    }
  }

  bool recorded(std::int64_t iteration) const { return iteration < 0 || iteration % every == 0; }

  void add(const IterationResult& r) {
    if (file)
      file->iterations.add({r.iteration, clock + r.start, r.seconds, r.objective, r.chi2, r.residual, r.step,
                            r.sigma, r.psnr});
  }

  void take() {
    for (const PhaseRecord& r : take_phases()) {
      PhaseTotal& t = totals[r.phase];
      t.seconds += r.seconds;
      t.own_seconds += r.own_seconds;
      t.wait_seconds += r.wait_seconds;
      t.bytes_sent += r.bytes_sent;
      t.bytes_received += r.bytes_received;
      t.messages += r.messages;
      t.peak_bytes = std::max(t.peak_bytes, r.peak_bytes);
      ++t.calls;
      if (file && recorded(r.iteration))
        file->phases.add({r.iteration, static_cast<std::int8_t>(r.phase), static_cast<std::int8_t>(r.parent),
                          clock + r.start, r.seconds, r.own_seconds, r.wait_seconds, r.flight_seconds,
                          r.device_seconds, r.bytes_sent, r.bytes_received, r.messages, r.bytes_read,
                          r.bytes_written, r.allocated_bytes, r.peak_bytes, r.resident_bytes});
    }
  }

  void to_disk() {
    if (!file) return;
    const double begin = now();
    const auto all = [](const auto&) { return true; };
    if (file->iterations.has_room() && file->phases.has_room())
      file->flush(inside_before + inside);
    else
      renew(&*file, all, all);
    last_flush = now();
    // A slow disk is asked less often, so that the trace stays below half a percent of the run; never less
    // often than every second, so that nothing older than two is lost with the process.
    interval = std::clamp(200 * (last_flush - begin), 0.1, 1.0);
  }

  void to_disk_when_due() {
    if (file && now() - last_flush >= interval &&
        (file->iterations.has_pending() || file->phases.has_pending()))
      to_disk();
  }

  /// Adds the time of its scope to `inside`.
  struct Clock {
    explicit Clock(Impl& i) : impl(i) {}
    ~Clock() { impl.inside += now() - begin; }
    Clock(const Clock&) = delete;
    Clock& operator=(const Clock&) = delete;
    Impl& impl;
    double begin = now();
  };
};

TraceWriter::TraceWriter(const std::string& path, const TraceHeader& header, int every,
                         const TraceBegin& begin) {
  TESSERA_EXPECT(every >= 1, "every is ", every, " (a trace of every 0th iteration is empty) pass 1 for all");
  const double start = now();
  impl_ = std::make_unique<Impl>(path, header, every, begin);
  impl_->inside += now() - start;
}

bool TraceWriter::continues(const std::string& path, const TraceHeader& header) {
  try {
    const TraceFile old(path);
    std::int64_t schema = 0, ranks = 0;
    std::array<std::int64_t, 6> box{};
    double seconds = 0;
    const hid_t file = old.file.get(), whole = H5T_NATIVE_INT64;
    read_numbers(file, keys::schema, whole, 1, &schema, path);
    read_numbers(file, keys::ranks, whole, 1, &ranks, path);
    read_numbers(file, keys::own_box, whole, 6, box.data(), path);
    read_numbers(file, keys::trace_seconds, H5T_NATIVE_DOUBLE, 1, &seconds, path);
    text_attribute(file, keys::start_time, path);
    return schema == kTraceSchema && ranks == header.numbers.at(keys::ranks) &&
           Box({box[0], box[1], box[2]}, {box[3], box[4], box[5]}) == header.own;
  } catch (const RunError&) {
    return false;
  }
}

void TraceWriter::at_rest(const LoopState&) { flush(); }

TraceWriter::~TraceWriter() { flush(); }

void TraceWriter::after_step(int, const Solver&) {
  impl_->try_to([&] {
    impl_->take();
    impl_->to_disk_when_due();
  });
}

void TraceWriter::on_result(const IterationResult& result) {
  impl_->try_to([&] {
    impl_->take();
    impl_->left_out.reset();
    if (impl_->recorded(result.iteration))
      impl_->add(result);
    else
      impl_->left_out = result;
    impl_->to_disk_when_due();
  });
}

void TraceWriter::at_end(StopReason reason) {
  impl_->try_to([&] {
    if (impl_->left_out) impl_->add(*impl_->left_out);
    impl_->left_out.reset();
    impl_->status = name(reason);
    if (impl_->file) impl_->file->put_status(impl_->status);
    impl_->take();
    impl_->to_disk();
  });
}

void TraceWriter::flush() {
  impl_->try_to([&] {
    impl_->take();
    impl_->to_disk();
  });
}

const std::string& TraceWriter::problem() const { return impl_->problem; }
const std::map<Phase, TraceWriter::PhaseTotal>& TraceWriter::totals() const { return impl_->totals; }
double TraceWriter::seconds_inside() const { return impl_->inside; }

std::string trace_name(int rank) { return "trace/" + rank_name(rank) + ".h5"; }

void write_trace_index(const std::string& path, int ranks) {
  write_whole(path, [&](const std::string& temporary) {
    io::Hdf5Output output(temporary, path);
    H5Handle file = output.begin();
    put_attribute(file.get(), keys::schema, {kTraceSchema}, {}, path);
    put_attribute(file.get(), keys::ranks, {ranks}, {}, path);
    for (int r = 0; r < ranks; ++r)
      check_h5(H5Lcreate_external(trace_name(r).c_str(), "/", file.get(), rank_name(r).c_str(), H5P_DEFAULT,
                                  H5P_DEFAULT),
               "H5Lcreate_external", path);
    check_h5(H5Fclose(file.release()), "H5Fclose", path);
    output.require();
  });
}

}  // namespace tessera
