// SPDX-License-Identifier: BSD-3-Clause
// The operators of the job file: one row each, and what their factories read.
#include "tessera/app/operator_table.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "job/pixel_sizes.hpp"
#include "job/tomography.hpp"
#include "tessera/app/kernel_look.hpp"
#include "tessera/core/error.hpp"
#include "tessera/domain/tensor.hpp"
#include "tessera/physics/operators.hpp"

namespace tessera {
namespace {

// What to write where channels of a picture were meant as slices.
std::string as_volume(const OperatorRequest& in) {
  if (in.image.volume() || in.image.channels == 1) return "";
  const Box& b = in.image.box;
  return concat("; if its ", in.image.channels,
                " channels are the slices of a volume, write the measurement as (1, ", in.image.channels,
                ", ", b.extent(1), ", ", b.extent(2), "), numpy's a[None]");
}

// What a file of taps says, but for its axes where they are a volume's: a stack of slices is what it is taken for.
void say_kernel_note(const std::string& path, const SourceInfo& info, bool stack, OperatorFiles& files) {
  constexpr std::string_view kAxes = "(channels stand first; a volume is (1, D, H, W))";
  std::string note = info.note;
  if (const std::size_t at = note.find(kAxes); stack && at != std::string::npos) {
    note.erase(0, at + kAxes.size());
    note.erase(0, note.find_first_not_of("; "));
  }
  if (!note.empty()) files.note(concat(path, ": ", note));
}

struct FileTaps {
  at::Tensor taps;  // (1, d, h, w), or (C, d, h, w) with one kernel per channel; d = 1 of a picture
  std::vector<std::int64_t> center;  // its origin; empty: the middle
};

// The image's pixels: the job's or the truth's, else those of the first measurement. `factor`: of them in one of its.
Grid said_pixels(const OperatorRequest& in, const Index3& factor = {1, 1, 1}) {
  Grid image = in.image.grid;
  const bool said =
      std::any_of(image.begin(), image.end(), [](const auto& axis) { return axis.spacing > 0; });
  if (said || (in.index > 0 && factor != Index3{1, 1, 1})) return image;
  image = in.measured;
  for (std::size_t d = 0; d < 3; ++d) image[d].spacing /= static_cast<double>(factor[d]);
  return image;
}

// Taps on the image's pixels, where the kernel's file and that of the data state pixels of another size.
FileTaps on_pixels_of_image(const KernelConfig::File& file, FileTaps kernel, const Grid& own,
                            const OperatorRequest& in, const Index3& factor) {
  const Grid image = said_pixels(in, factor);
  std::array<double, 3> ratios = pixel_ratios(own, image);
  for (std::size_t d = 0; d < 3; ++d)
    if (kernel.taps.size(static_cast<std::int64_t>(d) + 1) == 1) ratios[d] = 0;
  if (!pixels_differ(ratios)) return kernel;
  std::array<std::int64_t, 3> origin{};
  for (std::size_t d = 0; d < 3; ++d) origin[d] = kernel.taps.size(static_cast<std::int64_t>(d) + 1) / 2;
  for (std::size_t k = 0, n = kernel.center.size(); k < n; ++k) origin[3 - n + k] = kernel.center[k];
  const at::Tensor taps = resampled(kernel.taps, ratios, origin);
  in.files.note(concat("kernel ", file.path, " has pixels of ", pixel_text(own, ratios), ", the image of ",
                       pixel_text(image, ratios), ", as their files say: it is resampled to ",
                       taps.size(1) > 1 ? concat(taps.size(1), " x ") : "", taps.size(2), " x ", taps.size(3),
                       " taps (where the files are wrong, problem.image.pixel and unit say the image's)"));
  return {taps, {}};
}

FileTaps file_kernel(const KernelConfig::File& file, const OperatorRequest& in, const Index3& factor) {
  at::Tensor taps = in.files.taps(file.path, in.comm);
  const SourceInfo& info = in.files.kernel_info(file.path);
  // An array of three axes is a stack of slices for a volume, unless they are as many as its channels.
  const bool stack =
      in.image.volume() && taps.size(1) == 1 && taps.size(0) > 1 && taps.size(0) != in.image.channels;
  if (stack) taps = taps.transpose(0, 1);
  say_kernel_note(file.path, info, stack, in.files);
  if (taps.eq(taps[0]).all().item().toBool()) taps = taps.slice(0, 0, 1);  // a gray kernel saved as RGB
  TESSERA_VALIDATE(taps.size(0) == 1 || taps.size(0) == in.image.channels, "kernel ", file.path, " has ",
                   taps.size(0), " channels that differ (the image has ", in.image.channels,
                   ") give one kernel, or one per channel of the image", as_volume(in));
  TESSERA_VALIDATE(in.image.volume() || taps.size(1) == 1, "kernel ", file.path, " is a stack of ",
                   taps.size(1), " slices (the image is a picture of ", sides(in.image.box),
                   ") give one of them", as_volume(in));
  TESSERA_VALIDATE(file.center.empty() || file.center.size() == (in.image.volume() ? 3U : 2U),
                   "kernel.center has ", file.center.size(), " numbers (the image is a ",
                   in.image.volume() ? "volume" : "picture", ") write ",
                   in.image.volume() ? "slice, row and column" : "row and column");
  const KernelLook look = look_at_kernel(file, taps, find_operator(in.config.type).every_pixel.empty());
  for (const std::string& line : look.warnings) in.files.warn(line);
  for (const std::string& line : look.notes) in.files.note(line);
  FileTaps out = on_pixels_of_image(file, {look.taps, file.center}, info.grid, in, factor);
  if (file.normalize) out.taps = out.taps / out.taps.sum(at::IntArrayRef{1, 2, 3}, /*keepdim=*/true);
  return out;
}

Option mask_file() {
  return {"file",
          std::string(),
          {.file = true},
          "",
          "picture, .npy or HDF5 of the image's size: pixels that are not 0 are measured"};
}
Option mask_keep() {
  return {"keep",
          std::optional<double>(),
          {.least = 0, .most = 1, .above = true, .example = "0.5"},
          "share",
          "measures this share of the pixels, drawn with problem.seed, in place of a file"};
}
Option method() {
  return {"method",
          std::string("auto"),
          {.choices = {"auto", "direct", "fft"}},
          "",
          "how the convolution is computed; the result is the same"};
}
Option factor() {
  return {"factor",
          std::vector<std::int64_t>{2},
          {.least = 1, .most = 16, .one = true, .longest = 3, .example = "2"},
          "",
          "keeps one sample in this many, on every axis; of a volume also three: of slices, rows, columns"};
}
Option phase() {
  return {"phase",
          std::vector<std::int64_t>{},
          {.least = 0, .most = 15, .word = "auto", .shortest = 2, .longest = 3, .example = "[1, 1]"},
          "pixels",
          "[slice,] row and column of the first sample, each below factor: of the image, or with boundary "
          "valid of "
          "what can be measured; auto: 0, but of a kernel file no wider than factor (binned pixels) the one "
          "with which the first sample sees the image's first pixels"};
}

std::unique_ptr<LocalOperator> mask(const OperatorRequest& in) {
  const Options& o = in.config.options;
  if (const auto keep = o.get<std::optional<double>>(mask_keep()))
    return make_random_mask(*keep, static_cast<std::uint64_t>(in.seed), in.index);
  const std::string path = o.get<std::string>(mask_file());
  const MaskFile& file = in.files.mask(path, in.comm);
  TESSERA_VALIDATE(file.info.box == in.image.box, "mask ", path, " is ", sides(file.info.box),
                   " (the image is ", sides(in.image.box), ") give a mask of the image's size");
  TESSERA_VALIDATE(file.gray || file.info.channels == in.image.channels, "mask ", path, " has ",
                   file.info.channels, " channels that differ (the image has ", in.image.channels,
                   ") give one channel, or as many as the image");
  TESSERA_VALIDATE(
      file.info.codes.empty(), "mask ", path, " holds codes, as its attributes say (", file.info.codes,
      ": a mask has not 0 where it measures) write 1 where the code is a good one and 0 elsewhere");
  if (const auto ratios = pixel_ratios(file.info.grid, said_pixels(in)); pixels_differ(ratios))
    in.files.warn(concat("mask ", path, " has pixels of ", pixel_text(file.info.grid, ratios),
                         ", the image of ", pixel_text(said_pixels(in), ratios),
                         ", as their files say: is it of the same grid?"));
  return make_mask([path, &files = in.files](const Layout& blocks, const Communicator& comm) {
    return files.marks(path, blocks, comm);  // they live as long as the job's description, which holds this
  });
}

std::optional<OptionFault> check_mask(const Options& o) {
  const bool file = !o.get<std::string>(mask_file()).empty(),
             keep = o.get<std::optional<double>>(mask_keep()).has_value();
  if (file && keep)
    return OptionFault{
        "keep", "is written beside file (only one of them can say which pixels are measured) remove one"};
  if (!file && !keep)
    return OptionFault{
        "keep",
        "is missing (a mask needs a share of pixels or a file) write for example 'keep: 0.5' or "
        "'file: m.png'"};
  return std::nullopt;
}

// Of slices, rows and columns of a volume.
Index3 factors(const std::vector<std::int64_t>& f) {
  return f.size() == 1 ? Index3{f[0], f[0], f[0]} : Index3{f[0], f[1], f[2]};
}

std::optional<OptionFault> check_downsampling(const Options& o) {
  const auto first = o.get<std::vector<std::int64_t>>(phase()),
             f = o.get<std::vector<std::int64_t>>(factor());
  if (f.size() == 2)
    return OptionFault{
        "factor",
        "has two numbers (it is one for every axis, or three for slices, rows and columns of a "
        "volume) write one or three"};
  if (std::ranges::max(f) == 1)
    return OptionFault{"factor",
                       "keeps every sample (a downsampling keeps one in 2 to 16 on some axis) use blur"};
  if (first.empty()) return std::nullopt;
  if (f.size() == 3 && first.size() != 3)
    return OptionFault{"phase", "has two numbers (factor has three) write slice, row and column"};
  for (std::size_t d = 0; d < first.size(); ++d)
    if (first[d] >= (f.size() == 1 ? f[0] : f[d]))
      return OptionFault{"phase",
                         concat("is ", first[d], " on axis ", d, " (the first sample is one of the first ",
                                f.size() == 1 ? f[0] : f[d], ") write a number below factor")};
  return std::nullopt;
}

// (h, w) or (C, h, w): of a picture.
BlurOptions blur_options(const OperatorRequest& in, std::int64_t factor = 1) {
  BlurOptions options;
  if (const auto* file = std::get_if<KernelConfig::File>(&in.config.kernel.form)) {
    const FileTaps kernel = file_kernel(*file, in, {1, factor, factor});
    options.kernel = kernel.taps.squeeze(1);
    if (const auto& c = kernel.center; !c.empty()) options.origin = {c[0], c[1]};
  } else {
    const auto& g = std::get<KernelConfig::Gaussian>(in.config.kernel.form);
    const double unit = g.sigma_is_share ? static_cast<double>(in.image.box.extent(2)) : 1.0;
    options.kernel = gaussian_kernel({g.sigma[0] * unit, g.sigma[1] * unit}, g.angle);
  }
  options.boundary = parse_boundary(in.config.boundary);
  options.method = parse_blur_method(in.config.options.get<std::string>(method()));
  options.device = in.device;
  return options;
}

// The Gaussian's widths fit the image: two of a picture, three of a volume.
void check_widths(const OperatorRequest& in) {
  const bool volume = in.image.volume();
  const auto* g = std::get_if<KernelConfig::Gaussian>(&in.config.kernel.form);
  if (!g) return;
  TESSERA_VALIDATE(!volume || g->depth > 0, "the kernel has two widths (the image is a volume of ",
                   sides(in.image.box), ", whose Gaussians have three) write ",
                   "'kernel: {gaussian: {sigma: [DEPTH, ROWS, COLUMNS]}}'");
  TESSERA_VALIDATE(volume || g->depth == 0, "the kernel has three widths (the image is a picture of ",
                   sides(in.image.box),
                   in.image.channels > 1 ? concat(", ", in.image.channels, " channels") : "",
                   ") write those of rows and columns", as_volume(in));
  TESSERA_VALIDATE(!volume || g->angle == 0, "the kernel is turned by ", g->angle,
                   " degrees (Gaussians of volumes stand along the axes) remove angle");
}

VolumeBlurOptions volume_blur_options(const OperatorRequest& in, const Index3& factor = {1, 1, 1}) {
  VolumeBlurOptions options;
  if (const auto* file = std::get_if<KernelConfig::File>(&in.config.kernel.form)) {
    const FileTaps kernel = file_kernel(*file, in, factor);
    options.kernel = kernel.taps;
    if (const auto& c = kernel.center; !c.empty()) options.origin = {c[0], c[1], c[2]};
  } else {
    const auto& g = std::get<KernelConfig::Gaussian>(in.config.kernel.form);
    const auto taps = [](double sigma) { return at::tensor(gaussian_taps(sigma), at::kDouble); };
    options.kernel = taps(g.depth).view({-1, 1, 1}) * taps(g.sigma[0]).view({-1, 1}) * taps(g.sigma[1]);
  }
  options.boundary = parse_boundary(in.config.boundary);
  options.method = parse_blur_method(in.config.options.get<std::string>(method()));
  return options;
}

std::unique_ptr<LocalOperator> blur(const OperatorRequest& in) {
  check_widths(in);
  if (!in.image.volume()) return make_blur(blur_options(in));
  const auto* g = std::get_if<KernelConfig::Gaussian>(&in.config.kernel.form);
  if (!g) return make_volume_blur(volume_blur_options(in));
  return make_gaussian_blur({g->depth, g->sigma[0], g->sigma[1]}, parse_boundary(in.config.boundary));
}

std::unique_ptr<LocalOperator> downsampling(const OperatorRequest& in) {
  const bool volume = in.image.volume();
  check_widths(in);
  const auto f = in.config.options.get<std::vector<std::int64_t>>(factor()),
             first = in.config.options.get<std::vector<std::int64_t>>(phase());
  TESSERA_VALIDATE(volume || f.size() == 1, "operator.factor has three numbers (the image is a picture of ",
                   sides(in.image.box), ") write one, for rows and columns");
  TESSERA_VALIDATE(first.empty() || first.size() == (volume ? 3U : 2U), "operator.phase has ", first.size(),
                   " numbers (the image is a ", volume ? "volume" : "picture", ") write ",
                   volume ? "slice, row and column" : "row and column");
  // The kernel is read, and looked at, once.
  std::function<std::unique_ptr<LocalOperator>(const Index3&)> make;
  if (volume)
    make = [options = volume_blur_options(in, factors(f)), factor = factors(f)](const Index3& from) mutable {
      options.factor = factor;
      options.phase = from;
      return make_volume_blur(options);
    };
  else
    make = [options = blur_options(in, f[0]), factor = f[0]](const Index3& from) mutable {
      options.factor = factor;
      options.phase = {from[1], from[2]};
      return make_blur(options);
    };
  if (!first.empty()) return make({volume ? first[0] : 0, first[first.size() - 2], first.back()});
  std::unique_ptr<LocalOperator> samples = make({});
  if (!std::holds_alternative<KernelConfig::File>(in.config.kernel.form)) return samples;
  const Index3 phase_of_bins = binning_phase(*samples);
  return phase_of_bins == Index3{} ? std::move(samples) : make(phase_of_bins);
}

}  // namespace

std::string sides(const Box& box) {
  return box.extent(0) > 1 ? concat(box.extent(0), " x ", box.extent(1), " x ", box.extent(2))
                           : concat(box.extent(1), " x ", box.extent(2));
}

std::vector<OperatorRow>& operator_table() {
  static std::vector<OperatorRow> rows = {
      {.choice = {.name = "identity", .pointwise = true, .same_grid = true},
       .local = [](const OperatorRequest&) { return make_identity(); }},
      {.choice = {.name = "mask",
                  .options = {mask_file(), mask_keep()},
                  .pointwise = true,
                  .same_grid = true,
                  .check = check_mask},
       .local = mask,
       .marks = mask_file()},
      {.choice = {.name = "blur", .options = {method()}, .kernel = true, .same_grid = true}, .local = blur},
      {.choice = {.name = "downsampling",
                  .options = {method(), factor(), phase()},
                  .kernel = true,
                  .check = check_downsampling},
       .local = downsampling,
       .every_pixel = "blur"},
      tomography(),
  };
  return rows;
}

const OperatorRow& find_operator(const std::string& name) {
  const std::vector<OperatorRow>& rows = operator_table();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const OperatorRow& r) { return r.choice.name == name; });
  TESSERA_EXPECT(row != rows.end(), "operator type ", name, " came through the parser");
  return *row;
}

bool takes_scan(const OperatorConfig& op) {
  return op.parts.empty() && find_operator(op.type).scan != nullptr;
}

std::vector<std::string*> files_of(OperatorConfig& op) {
  std::vector<std::string*> files;
  for (OperatorConfig& part : op.parts)
    for (std::string* file : files_of(part)) files.push_back(file);
  if (!op.parts.empty()) return files;
  for (const Option& o : find_operator(op.type).choice.options)
    if (o.rule.file)
      if (std::string& file = op.options.slot<std::string>(o); !file.empty()) files.push_back(&file);
  return files;
}

}  // namespace tessera
