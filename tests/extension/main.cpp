// SPDX-License-Identifier: BSD-3-Clause
// tessera with one more of everything: each is one file beside this one, and one row here.
#include "tessera/app/commands.hpp"
#include "tessera/app/operator_table.hpp"
#include "tessera/denoise/denoiser_table.hpp"
#include "tessera/io/image_format.hpp"
#include "tessera/settings/settings.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {

DenoiserRow blend();
ImageFormat plain();
OperatorRow coils();
OperatorRow difference();
OperatorRow exposures();
OperatorRow means();
SolverRow douglas_rachford();
DenoiserRow shrink();
DenoiserRow sketch();
SettingsRule small_images();

}  // namespace tessera

int main(int argc, char** argv) {
  tessera::MpiSession session(&argc, &argv);
  tessera::image_formats().push_back(tessera::plain());
  tessera::operator_table().push_back(tessera::coils());
  tessera::operator_table().push_back(tessera::difference());
  tessera::operator_table().push_back(tessera::exposures());
  tessera::operator_table().push_back(tessera::means());
  tessera::solver_table().push_back(tessera::douglas_rachford());
  tessera::denoiser_table().push_back(tessera::blend());
  tessera::denoiser_table().push_back(tessera::shrink());
  tessera::denoiser_table().push_back(tessera::sketch());
  tessera::rule_table().push_back(tessera::small_images());
  session.end(tessera::tessera_main(argc, argv, tessera::Communicator::world()));
}
