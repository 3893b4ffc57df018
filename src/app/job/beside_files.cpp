// SPDX-License-Identifier: BSD-3-Clause
#include "job/beside_files.hpp"

#include "job/pixel_sizes.hpp"
#include "tessera/core/error.hpp"
#include "tessera/io/image_format.hpp"

namespace tessera {
namespace {

// A camera that was held upright stores its picture on its side, and says so: whoever reads the stored rows makes a mask
// that lies on its side, of the same size where it was held upside down or the picture is square.
bool turned(const SourceInfo& info) { return info.note.find("EXIF orientation") != std::string::npos; }

}  // namespace

void hold_against_measurement(const RunPlan& plan, const std::string& path, const SourceInfo& info) {
  if (info.box != plan.data.box) return;
  const auto ratios = pixel_ratios(info.grid, plan.data.grid);
  if (pixels_differ(ratios))
    plan.files->warn(concat(path, " has pixels of ", pixel_text(info.grid, ratios), ", the measurement of ",
                            pixel_text(plan.data.grid, ratios),
                            ", as their files say: is it of the same grid?"));
  say_turn(plan, path, info);
}

void say_turn(const RunPlan& plan, const std::string& path, const SourceInfo& info) {
  if (info.box == plan.data.box && turned(info) != turned(plan.data))
    plan.files->note(concat(turned(info) ? path : plan.job.problem.measurements,
                            " is turned as its EXIF orientation says, ",
                            turned(info) ? "the measurement" : path,
                            " says none: both must stand as a viewer shows them, not as rows are stored"));
}

void say_flags(const RunPlan& plan, const Communicator& comm) {
  const ProblemConfig& p = plan.job.problem;
  const std::size_t at = p.measurements.find(":/");
  if (at == std::string::npos || !p.weights.empty() || !p.bad.flags.empty()) return;
  const ImageFormat* const format = find_format(p.measurements);
  if (!format || format->name != "FITS") return;
  const std::string file = p.measurements.substr(0, at), part = p.measurements.substr(at + 2);
  const std::size_t comma = part.find(',');
  for (const char* const name : {"DQ", "MASK", "FLAGS", "BPM"}) {
    const std::string path = concat(file, ":/", name, comma == std::string::npos ? "" : part.substr(comma));
    if (path == p.measurements) return;
    try {
      const SourceInfo& info = plan.files->headers().image(path, comm);
      if (info.box != plan.data.box || info.type.starts_with("float")) continue;
    } catch (const InputError&) {
      continue;  // it has none of that name
    }
    plan.files->note(
        concat(path,
               " lies beside the measurement, of the same size, and is not used: of flags of bad samples, "
               "0 where one is good, write 'bad: {flags: \"",
               path, "\"}' in problem"));
    return;
  }
}

void refuse_codes(const std::string& path, const SourceInfo& info) {
  TESSERA_VALIDATE(info.codes.empty(), path, " holds codes, as its attributes say (", info.codes,
                   ": weights are inverse variances, 0 says nothing, and a mask has not 0 where it measures) "
                   "write 1 where the code is a good one and 0 elsewhere, or (codes & BITS) == 0 where bits "
                   "of it say what is bad");
}

}  // namespace tessera
