// SPDX-License-Identifier: BSD-3-Clause
// The keys of a job's section output.
#include "table_keys.hpp"

namespace tessera::config {

std::vector<Key<JobConfig>> output_keys(const std::vector<When<JobConfig>>& cropped) {
  using Job = JobConfig;
  using W = std::vector<When<Job>>;
  const W also = {{"with output.also", [](const Job& j) { return !j.output.also.empty(); }}};
  const W preview = {{"with output.preview", [](const Job& j) { return !j.output.preview.empty(); }}};
  const Rule not_negative{.least = 0};
  return {
      key<Job>(
          {"output.folder", "text", "", "runs/NAME of the job file", "a path", "made by the run"},
          [](const Site& s, const Value& v, Job& j) {
            if (!scan(v, {}, j.output.folder)) reject(s, v, "the path of a folder", "write one path");
            j.output.folder = absolute_path(j.output.folder, s.folder);
          },
          [](const Job& j) { return print(j.output.folder, {}); }),
      key<Job>(
          "output.preview", TESSERA_AT(output.preview), {.word = "none"}, "",
          "name of a picture in the folder: .png or .jpg to be looked at, 1 inside is white; .tif in the "
          "type and units of the data"),
      key<Job>(
          {"output.preview_bits", "whole number", "bits", "auto", "8, 16, 32 (floats, .tif) or auto",
           "of a sample of the preview; auto: 8 to be looked at, in .tif those of the data"},
          [](const Site& s, const Value& v, Job& j) {
            j.output.preview_bits = 0;
            if (v.kind == Value::Kind::scalar && v.text == "auto") return;
            if (!scan(v, {}, j.output.preview_bits) ||
                (j.output.preview_bits != 8 && j.output.preview_bits != 16 && j.output.preview_bits != 32))
              reject(s, v, "auto, 8, 16 or 32", "write for example 'preview_bits: 16'");
          },
          [](const Job& j) {
            return j.output.preview_bits == 0 ? Value::scalar("auto") : print(j.output.preview_bits, {});
          },
          preview),
      key<Job>("output.also", TESSERA_AT(output.also), {.word = "none"}, "",
               "name of one more file of the whole result in the folder, floats in the units of the data: "
               ".ome.zarr, .tif or another by its suffix"),
      key<Job>("output.zarr", TESSERA_AT(output.zarr), {.choices = {"0.4", "0.5"}}, "",
               "version of OME-Zarr that is written", also),
      key<Job>("output.compression", TESSERA_AT(output.compression), {.choices = {"none", "gzip"}}, "",
               "of reconstruction.h5 and of an HDF5 file of output.also; gzip: behind a shuffle, without "
               "loss, which "
               "every HDF5 reads"),
      key<Job>("output.crop", TESSERA_AT(output.crop), {}, "", "cuts the result to the measured region",
               cropped),
      key<Job>("output.snapshots", TESSERA_AT(output.snapshots), not_negative, "iterations",
               "writes the image every so many; 0: never"),
      key<Job>("output.diagnostics", TESSERA_AT(output.diagnostics), {}, "",
               "judges the result by its residual and the denoiser at it: a forward, up to 11 passes of the "
               "network, two pictures; warnings in the log"),
      key<Job>("output.trace.every", TESSERA_AT(output.trace_every), {.least = 1, .most = 1000000},
               "iterations", "records every n-th iteration in the trace"),
      key<Job>("output.checkpoint.minutes", TESSERA_AT(output.checkpoint.minutes), not_negative, "minutes",
               "writes a checkpoint every so often; 0: not by time. One is also written on SIGUSR1, on "
               "SIGTERM and at the end"),
      key<Job>("output.checkpoint.iterations", TESSERA_AT(output.checkpoint.iterations), not_negative,
               "iterations", "writes one every so many; 0: not by count"),
      key<Job>("output.checkpoint.keep", TESSERA_AT(output.checkpoint.keep), not_negative, "files",
               "how many are kept; 0: none is written, and a signal ends the run at once"),
  };
}

}  // namespace tessera::config
