// SPDX-License-Identifier: BSD-3-Clause
// One line per denoiser; its file says the rest.
#include "tessera/core/error.hpp"
#include "tessera/core/units.hpp"
#include "tessera/denoise/denoiser_table.hpp"

namespace tessera {

DenoiserRow drunet_row();
DenoiserRow dncnn_row();
DenoiserRow unet_row();
DenoiserRow gsdrunet_row();
DenoiserRow ffdnet_row();
DenoiserRow scunet_row();
DenoiserRow restormer_row();
DenoiserRow drunet3d_row();
DenoiserRow dncnn3d_row();
DenoiserRow traced_row();
DenoiserRow total_variation_row();
DenoiserRow identity_row();

std::vector<DenoiserRow>& denoiser_table() {
  static std::vector<DenoiserRow> rows = {
      drunet_row(),    dncnn_row(),    unet_row(),    gsdrunet_row(), ffdnet_row(),          scunet_row(),
      restormer_row(), drunet3d_row(), dncnn3d_row(), traced_row(),   total_variation_row(), identity_row(),
  };
  return rows;
}

const DenoiserRow& find_denoiser(const std::string& name) {
  std::vector<std::string> known;
  for (const DenoiserRow& row : denoiser_table()) {
    if (row.name == name) return row;
    known.push_back(row.name);
  }
  std::string list;
  for (const std::string& n : known) list += (list.empty() ? "" : ", ") + n;
  const std::string near = nearest(name, known);
  throw InputError(concat("unknown network ", name, " (known: ", list, ") ",
                          near.empty() ? std::string("use one of them") : "did you mean " + near + "?"));
}

Option widths_option() {
  return {"widths",
          std::vector<std::int64_t>{},
          {.least = 1, .word = "auto", .example = "[16, 32, 64, 128]"},
          "channels",
          "of the network's scales; auto: as published"};
}
Option blocks_option() {
  return {"blocks",
          std::optional<std::int64_t>{},
          {.least = 1, .word = "auto", .example = "2"},
          "",
          "residual blocks per scale; auto: as published (drunet, drunet3d 4, gsdrunet 2, scunet 4, "
          "restormer 4 to 8)"};
}
Option depth_option() {
  return {"depth",
          std::optional<std::int64_t>{},
          {.least = 2, .word = "auto", .example = "17"},
          "",
          "convolutions; auto: as published (dncnn, dncnn3d 20, ffdnet 15)"};
}

NetworkOptions published_network(const std::string& name) {
  const DenoiserRow& row = find_denoiser(name);
  NetworkOptions o = row.published;
  o.name = row.name;
  return o;
}

NetworkOptions network_options(const DenoiserRow& row, std::int64_t channels, const Options& options) {
  NetworkOptions o = published_network(row.name);
  o.channels = channels;
  o.widths = options.get<std::vector<std::int64_t>>(widths_option());
  if (const auto blocks = options.get<std::optional<std::int64_t>>(blocks_option())) {
    o.blocks = *blocks;
    o.stages.clear();
  }
  o.depth = options.get<std::optional<std::int64_t>>(depth_option()).value_or(o.depth);
  return o;
}

}  // namespace tessera
