// SPDX-License-Identifier: BSD-3-Clause
// tessera study: one question about this machine, asked by measuring.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "command/command.hpp"
#include "tessera/app/about.hpp"
#include "tessera/app/output.hpp"
#include "tessera/app/run_plan.hpp"
#include "tessera/core/error.hpp"
#include "tessera/core/phase.hpp"
#include "tessera/core/units.hpp"
#include "tessera/core/version.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/perf/study.hpp"
#include "tessera/scene/scene.hpp"
#include "tessera/train/train.hpp"

namespace tessera {
namespace {

struct StudyArguments {
  std::string name, out, weights, device = "auto";
  std::vector<std::string> networks, images;
  bool quick = false;
  double price = 0;        // of an hour; 0: not said
  std::int64_t scale = 0;  // sizes are divided by it; 0: by 8 when quick, else by 1
  std::string command_line;
};

// The picture of a study that was given none.
void write_scene(const std::string& path, std::int64_t side, const Communicator& comm) {
  const Box box = Box::image2d(side, side);
  const at::Tensor t = empty_block(3, box, at::kFloat);
  Scene(1).render(box, 3, t.mutable_data_ptr<float>(), side * side, side);
  write_image(path, {.space = ImageSpace(box, 3), .bits = 8}, Layout({box}), view(t, box), comm);
}

// A row with the price of a thousand of its pictures.
StudyRow priced(StudyRow row, const Study& study, double price) {
  const double rate = study.pictures_per_second(row);
  row.emplace_back(rate > 0 ? 1000 / rate * price / 3600 : 0.0);
  return row;
}

int execute(const StudyArguments& a, const Communicator& comm) {
  track_tensor_memory();
  StudyOptions options;
  options.device = choose_device(comm, a.device, GpuSharing::allowed).device;
  options.scale = a.scale > 0 ? a.scale : a.quick ? 8 : 1;
  options.networks = a.networks;
  options.images = a.images;
  options.weights = a.weights;
  const std::string folder = a.out.empty() ? "study-" + a.name : a.out;
  const bool first = comm.rank() == 0;
  Log log(first, "");
  if (a.name == "precision" && options.images.empty() && comm.size() == 1) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    options.images = {folder + "/scene.png"};
    comm.together([&] {
      TESSERA_VALIDATE(!std::filesystem::exists(options.images[0]), options.images[0],
                       " exists (a study never overwrites) name another folder with --out");
    });
    write_scene(options.images[0], std::max<std::int64_t>(32, 1024 / options.scale), comm);
    log.line("note: no --image was given; the picture is a synthetic scene, " + options.images[0]);
  }
  const std::unique_ptr<Study> study = make_study(a.name, options, comm);
  std::vector<StudyColumn> columns = study->columns();
  if (a.price > 0) {
    const bool runs_pictures = std::any_of(columns.begin(), columns.end(), [](const StudyColumn& c) {
      return c.name == "images_per_second" || c.name == "pixels_per_second";
    });
    TESSERA_VALIDATE(runs_pictures, "--price for study ", a.name,
                     " (it runs no pictures) it is for shape, batch, precision and loader");
    columns.push_back({"price_per_1000", 0.0});
  }

  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const char* threads = std::getenv("OMP_NUM_THREADS");
  std::unique_ptr<StudyTable> table;
  comm.together([&] {
    table = std::make_unique<StudyTable>(
        folder, a.name, columns,
        std::vector<std::pair<std::string, std::string>>{
            {"tessera_version", version()},
            {"tessera_commit", commit()},
            {"command_line", a.command_line},
            {"host", host},
            {"processor", processor_name()},
            {"threads", threads ? threads : "all"},
            {"device", options.device.is_cuda() ? fmt::format("cuda:{}", options.device.index) : "cpu"},
            {"ranks", std::to_string(comm.size())}},
        first);
  });
  log.line(fmt::format("study {}: {} rows into {}/{}.csv and .h5, sizes {}", a.name, study->rows(), folder,
                       a.name, options.scale == 1 ? "in full" : fmt::format("divided by {}", options.scale)));
  if (options.scale == 1 && !options.device.is_cuda() && first)
    log.line(fmt::format("the full sizes take about {} here; --quick scales them down",
                         format_seconds(study->estimate())));

  const double start = now();
  for (std::size_t k = 0; k < study->rows(); ++k) {
    StudyRow row = study->next();
    table->add(a.price > 0 ? priced(std::move(row), *study, a.price) : row);
    const double spent = now() - start;
    log.progress(fmt::format("row {}/{}  {} so far", k + 1, study->rows(), format_seconds(spent)),
                 k + 1 == study->rows());
  }
  log.line("");
  if (first) log.line(table->text());
  if (!study->note().empty()) log.line(study->note());
  log.line(fmt::format("a picture of it: jobs/plot_study.py {}", folder));
  return 0;
}

}  // namespace

Command study_command(CLI::App& app) {
  const auto a = std::make_shared<StudyArguments>();
  CLI::App* options = app.add_subcommand("study", "measure one question about this machine");
  studies().push_back({"loader", make_loader_study});  // perf knows nothing of training
  std::string names;
  for (const StudyKind& kind : studies()) names += kind.name + (&kind == &studies().back() ? "" : " | ");
  options->add_option("NAME", a->name, names + " (docs/performance.md)")->required();
  options->add_flag("--quick", a->quick, "smaller sizes, for CPUs");
  options->add_option("--scale", a->scale, "divide the sizes by this (quick: 8)")->check(above_zero());
  options->add_option("--out", a->out, "folder of the rows (study-NAME)");
  options->add_option("--network", a->networks, "of shape and batch; may be repeated (drunet, unet, dncnn)");
  options->add_option(
      "--image", a->images,
      "of precision and loader: pictures, of loader folders too; may be repeated (synthetic scenes)");
  options->add_option("--weights", a->weights, "of precision, for drunet (drunet_small_color)");
  options
      ->add_option("--price", a->price,
                   "of an hour of this machine: a column says that of a thousand pictures")
      ->check(above_zero());
  options->add_option("--device", a->device, "where")
      ->capture_default_str()
      ->check(one_of({"auto", "cpu", "cuda"}));
  options->footer(
      "Examples:\n  tessera study shape --quick --out runs/shape && jobs/plot_study.py runs/shape\n"
      "  tessera study precision --image photo.png\n  jobs/launch.sh -n 4 tessera study halo --quick");
  return {options,
          [a](const Launch& launch) {
            a->command_line = launch.command_line;
            return execute(*a, launch.comm);
          },
          Watched::together};
}

}  // namespace tessera
