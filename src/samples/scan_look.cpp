// SPDX-License-Identifier: BSD-3-Clause
// What the views of a scan show, and whether it is what views of an object show.
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "scan_sense.hpp"
#include "scan_specks.hpp"
#include "tessera/core/error.hpp"
#include "tessera/samples/scan.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kLooked = 4;  // rows in the middle of the detector
constexpr std::int64_t kEnds = 3;    // columns at an end

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Row `row` of view `view`.
const double* line(const at::Tensor& rows, std::int64_t row, std::int64_t view) {
  return rows.const_data_ptr<double>() + (row * rows.size(1) + view) * rows.size(2);
}

// What the brightest samples of each view weigh.
std::vector<double> light(const ScanRows& look) {
  std::vector<double> out, all;
  const std::int64_t columns = look.y.size(2);
  for (std::int64_t v = 0; v < look.y.size(1); ++v) {
    all.clear();
    for (std::int64_t r = 0; r < look.y.size(0); ++r)
      all.insert(all.end(), line(look.weights, r, v), line(look.weights, r, v) + columns);
    const auto place = all.begin() + std::ssize(all) * 19 / 20;
    std::nth_element(all.begin(), place, all.end());
    out.push_back(*place);
  }
  return out;
}

bool one_value(const ScanRows& look, std::int64_t view) {
  const double first = *line(look.y, 0, view);
  for (std::int64_t r = 0; r < look.y.size(0); ++r) {
    const double* y = line(look.y, r, view);
    if (!std::all_of(y, y + look.y.size(2), [&](double v) { return v == first; })) return false;
  }
  return true;
}

bool same_view(const ScanRows& look, std::int64_t a, std::int64_t b) {
  const auto bytes = static_cast<std::size_t>(look.y.size(2)) * sizeof(double);
  for (std::int64_t r = 0; r < look.y.size(0); ++r)
    if (std::memcmp(line(look.y, r, a), line(look.y, r, b), bytes) != 0) return false;
  return true;
}

template <class T>
void keep(std::vector<T>& all, const std::vector<std::int64_t>& places) {
  std::vector<T> out;
  for (const std::int64_t k : places) out.push_back(all[static_cast<std::size_t>(k)]);
  all = std::move(out);
}

void keep_views(Scan& scan, ScanRows& look, const std::vector<std::int64_t>& left) {
  keep(scan.file.views.frames, left);
  keep(scan.file.angles, left);
  if (!scan.file.weights.empty()) keep(scan.file.weights.frames, left);
  const at::Tensor places = at::tensor(left);
  look = {look.y.index_select(1, places).contiguous(), look.weights.index_select(1, places).contiguous()};
}

// Views without light, and those that are the one before once more, at another angle: of a camera that hung.
void leave_out(Scan& scan, ScanRows& look, std::vector<std::string>& notices) {
  constexpr double kNoLight = 0.02;  // of the usual
  const std::int64_t views = look.y.size(1);
  const std::vector<double> lit = light(look);
  const double least = scan.transmission ? kNoLight * median(lit) : 0;
  std::vector<std::int64_t> left, moved;
  std::int64_t empty = 0, repeated = 0;
  for (std::int64_t v = 0; v < views; ++v) {
    if (!(lit[static_cast<std::size_t>(v)] > least) || one_value(look, v)) {
      ++empty;
      continue;
    }
    const bool turned = !left.empty() && scan.file.angles[static_cast<std::size_t>(v)] !=
                                             scan.file.angles[static_cast<std::size_t>(left.back())];
    if (turned && same_view(look, left.back(), v))
      ++repeated;
    else
      moved.push_back(v);
    left.push_back(v);
  }
  // Of a round object without noise all views are alike.
  if (2 * repeated < std::ssize(left))
    left = moved;
  else
    repeated = 0;
  if (left.empty() || std::ssize(left) == views) return;
  keep_views(scan, look, left);
  if (empty > 0)
    notices.push_back(concat(empty, " of ", views,
                             " views show nothing (no light, no numbers, or one value) and are left out"));
  if (repeated > 0)
    notices.push_back(
        concat(repeated, " of ", views,
               " views are the one before once more, though at another angle, and are left out"));
}

// Views of the beam alone among those of an object: flats that nobody has taken out. Views of one object have one mass.
void leave_out_empty(Scan& scan, ScanRows& look) {
  constexpr std::int64_t kViews = 24;
  constexpr double kNone = 0.05, kFlat = 0.25, kErrors = 6;
  const at::Tensor p = look.y.mean(0);
  const std::int64_t views = p.size(0);
  if (views < kViews || p.size(1) < 16 || scan.climbs) return;
  const at::Tensor mass = p.sum(1), size = p.square().mean(1).sqrt();
  const double usual = mass.median().item<double>(), usual_size = size.median().item<double>();
  const at::Tensor none = mass.abs().lt(kNone * usual).logical_and(size.lt(kFlat * usual_size));
  const std::int64_t n = none.sum().item<std::int64_t>();
  if (!(usual > 0) || n == 0 || 2 * n > views) return;
  // Of noise alone masses are on both sides of 0.
  const at::Tensor others = mass.masked_select(none.logical_not());
  const double scatter = (others - usual).abs().median().item<double>() / 0.6745;
  if (!(usual > kErrors * scatter)) return;
  std::vector<std::int64_t> left;
  for (std::int64_t v = 0; v < views; ++v)
    if (!none[v].item<bool>()) left.push_back(v);
  keep_views(scan, look, left);
  scan.warnings.push_back(
      fmt::format("{} of {} views show no object (the beam alone, as flats among the views do) and are left "
                  "out, with their "
                  "angles: where angles were spread over all frames, those of the others are off; take such "
                  "frames out of the "
                  "file, and name them as problem.flat",
                  n, views));
}

// Columns that never change become those beside them.
void bridge_still_columns(const Scan& scan, ScanRows& look) {
  const std::int64_t columns = look.y.size(2);
  if (!may_be_stuck(scan)) return;
  const auto [least, most] = look.y.aminmax(1);
  for (std::int64_t r = 0; r < look.y.size(0); ++r) {
    const auto n = static_cast<std::size_t>(columns);
    const at::Tensor low = least[r].contiguous(), high = most[r].contiguous();
    const std::vector<bool> still =
        still_columns({low.const_data_ptr<double>(), n}, {high.const_data_ptr<double>(), n});
    for (std::int64_t i = 1; i < columns; ++i) {
      if (!still[static_cast<std::size_t>(i)]) continue;
      look.y[r].select(1, i).copy_(look.y[r].select(1, i - 1));
      look.weights[r].select(1, i).zero_();
    }
  }
}

// The noise of a line integral of weight 1, about: what samples differ by from their neighbors' mean.
double noise_of(const ScanRows& look) {
  std::vector<double> all;
  const std::int64_t columns = look.y.size(2);
  const std::int64_t step = std::max<std::int64_t>(1, look.y.numel() / (1 << 20));
  for (std::int64_t k = 0; k < look.y.size(0) * look.y.size(1); k += step) {
    const double *y = look.y.const_data_ptr<double>() + k * columns,
                 *w = look.weights.const_data_ptr<double>() + k * columns;
    for (std::int64_t i = 1; i + 1 < columns; ++i)
      if (w[i - 1] > 0 && w[i] > 0 && w[i + 1] > 0)
        all.push_back(std::abs(y[i] - (y[i - 1] + y[i + 1]) / 2) * std::sqrt(w[i] / 1.5));
  }
  return median(std::move(all)) / 0.6745;
}

// Of the ends of the views: means of a few columns, the row sums' slopes there, and how far the views reach.
struct Ends {
  double left = 0, right = 0;              // usual values
  double left_slope = 0, right_slope = 0;  // inward, over those columns
  double scatter = 0;                      // of the ends over the views, the larger
  double low_scatter = 0;                  // of the lower end
  double far_scatter = 0;                  // of the ends of nine views in ten, the larger
  double middle = 0, peak = 0, least = 0;  // usual values amid the columns, largest and smallest of a view
  std::int64_t apart = 1;                  // slopes from an end to the middle
  bool together = false;                   // whether both go from early to late alike
  double early = 0, late = 0;  // both ends of the first and last tenth of the views, in the file's order
};

Ends ends_of(const ScanRows& look) {
  const std::int64_t columns = look.y.size(2), views = look.y.size(1),
                     wide = std::min(kEnds, columns / 4 + 1);
  const at::Tensor p = look.y.mean(0);  // (views, columns)
  const auto part = [&](std::int64_t from, std::int64_t count) { return p.narrow(1, from, count).mean(1); };
  const auto usual = [](const at::Tensor& t) { return t.median().item<double>(); };
  Ends e;
  const at::Tensor left = part(0, wide), right = part(columns - wide, wide);
  e.left = usual(left);
  e.right = usual(right);
  e.apart = std::max<std::int64_t>(1, columns / (2 * wide));
  const std::int64_t next = std::min(wide, columns - wide);
  e.left_slope = (part(next, wide) - left).mean().item<double>();
  e.right_slope = (part(columns - wide - next, wide) - right).mean().item<double>();
  const auto scatter = [&](const at::Tensor& t) { return (t - t.median()).abs().median().item<double>(); };
  e.scatter = std::max(scatter(left), scatter(right));
  e.low_scatter = scatter(e.left < e.right ? left : right);
  const auto far = [&](const at::Tensor& t) { return (t - t.median()).abs().quantile(0.9).item<double>(); };
  e.far_scatter = std::max(far(left), far(right));
  e.middle = usual(part(columns * 3 / 8, std::max<std::int64_t>(1, columns / 4)));
  e.peak = usual(p.amax(1));
  e.least = usual(p.amin(1));
  const std::int64_t some = std::max<std::int64_t>(1, views / 10);
  const auto gone = [&](const at::Tensor& end) {
    return std::pair(usual(end.narrow(0, 0, some)), usual(end.narrow(0, views - some, some)));
  };
  const auto [a, b] = gone(left);
  const auto [c, d] = gone(right);
  e.early = (a + c) / 2;
  e.late = (b + d) / 2;
  e.together = (b - a) * (d - c) > 0 &&
               std::min(std::abs(b - a), std::abs(d - c)) > 0.6 * std::max(std::abs(b - a), std::abs(d - c));
  return e;
}

// Floats that nobody has spoken of, of which those at both ends are the largest in all views.
void ask_for_values(const Scan& scan, const Ends& e) {
  const bool less = e.left > 0.2 && e.right > 0.2 && e.middle < 0.98 * std::min(e.left, e.right) &&
                    e.peak < 1.3 * std::max(e.left, e.right) && e.least > -0.05 * e.peak;
  const bool air = std::abs(e.left / e.right - 1) < 0.1 && e.scatter < 0.05 * e.left;
  if (!less || !(air || e.peak < 1.2)) return;
  throw InputError(fmt::format(
      "problem.operator.values is auto (the samples of {} are about {:.3g} at both ends of the detector and "
      "{:.3g} in "
      "its middle: what a beam leaves falls behind an object, line integrals would rise) write 'values: "
      "transmission', where 1 is the beam alone, with problem.flat where it is not, or 'values: "
      "line_integrals'",
      scan.file.views.path, (e.left + e.right) / 2, e.middle));
}

// The light of the flats' frames in these rows, a median each.
std::vector<double> levels(const FrameStack& flats, const Box& rows, const Communicator& comm) {
  std::vector<double> out(flats.frames.size());
  comm.together([&] {
    if (comm.rank() != 0) return;
    FrameReader reader(flats);
    std::vector<double> frame(static_cast<std::size_t>(rows.pixels()));
    for (std::size_t k = 0; k < out.size(); ++k) {
      const auto at = static_cast<std::int64_t>(k);
      reader.read({{at, rows.lo()[1], rows.lo()[2]}, {at + 1, rows.hi()[1], rows.hi()[2]}}, frame.data());
      std::erase_if(frame, [](double v) { return !std::isfinite(v); });
      out[k] = median(frame);
      frame.resize(static_cast<std::size_t>(rows.pixels()));
    }
  });
  comm.all_reduce(out, Reduce::sum);
  return out;
}

void compare_flats(Scan& scan, std::vector<std::string>& notices, const Communicator& comm) {
  constexpr double kSame = 0.005, kApart = 0.05;
  const std::int64_t rows = std::min(kLooked, scan.rows), first = scan.first_row + (scan.rows - rows) / 2;
  const Box looked({0, first, 0}, {1, first + rows, scan.file.views.columns});
  std::vector<double> groups;
  for (const FrameStack& group : flat_groups(scan.file)) {
    const std::vector<double> all = levels(group, looked, comm);
    groups.push_back(median(all));
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    const auto odd = std::count_if(all.begin(), all.end(), [&](double level) {
      return std::abs(level - groups.back()) > kApart * std::abs(groups.back());
    });
    if (odd == 0) continue;
    scan.warnings.push_back(
        all.size() > 2 && 3 * odd < std::ssize(all)
            ? fmt::format(
                  "{} of {} flats differ from the others by more than {:.0f} % (levels {:.4g} to {:.4g}: a "
                  "shutter, another exposure): they are left out",
                  odd, all.size(), 100 * kApart, *least, *most)
            : fmt::format(
                  "the flats differ by {:.0f} % (levels {:.4g} to {:.4g}: the beam or the exposure changed, "
                  "and the file does not say which belong to which views): line integrals are off by up to "
                  "{:.2g}; name those that were taken with the views as problem.flat",
                  100 * (*most / *least - 1), *least, *most, std::abs(std::log(*most / *least))));
  }
  if (groups.size() < 2) return;
  const auto [least, most] = std::minmax_element(groups.begin(), groups.end());
  scan.beam_changed = *least > 0 && *most / *least - 1 > kSame;
  if (scan.beam_changed)
    notices.push_back(
        fmt::format("the beam changed by {:.1f} % between {} groups of flats: each view is divided by what "
                    "lies between those before and after it",
                    100 * (*most / *least - 1), groups.size()));
}

// Whether what lies beside the object has another value than 0: at both ends, evenly, and not rising inward.
bool judge_air(Scan& scan, const Ends& e) {
  constexpr double kFar = 0.04, kEven = 0.25, kPercent = 0.2;
  const double low = std::min(e.left, e.right), high = std::max(e.left, e.right), far = kFar * (e.peak - low),
               even = kEven * std::max(std::abs(low), std::abs(high));
  if (low < -far && e.low_scatter < -low / 4 && high > low / 2) {
    scan.warnings.push_back(fmt::format(
        "one end of all views is at {:.3g}, evenly, and the other at {:.3g}, where a ray has 0 or more ({}) "
        "{}",
        low, high,
        scan.transmission ? "the flats are darker there: the object stood in them" : "a background",
        scan.transmission ? "give flats of the beam alone as problem.flat" : "subtract it"));
    return true;
  }
  // Behind an object that goes on, the views fall at the ends as they do before them, or faster.
  const double fall = 0.25 * (e.peak - high) / static_cast<double>(e.apart);
  const bool level = std::abs(e.left_slope) < fall && std::abs(e.right_slope) < fall;
  if (!level) return false;
  const std::string cure =
      scan.transmission
          ? "give flats that belong to the views as problem.flat, or take 'solver: {name: fbp}', "
            "which an offset changes least"
          : "subtract it, or take 'solver: {name: fbp}', which it changes least";
  if (e.together && std::abs(e.late - e.early) > far && e.scatter < std::abs(e.late - e.early)) {
    scan.warnings.push_back(fmt::format(
        "the ends of the views go from {:.3g} to {:.3g} in the course of the scan, where a ray beside the "
        "object has 0 (the beam changed{}) {}",
        e.early, e.late, scan.transmission ? ", and the flats do not say so" : "", cure));
    return true;
  }
  // A slab's ends rise with its tilt.
  if (high - low > even || std::min(std::abs(low), std::abs(high)) < far || e.scatter > even / 2 ||
      e.far_scatter > even)
    return false;
  if (const double level = (low + high) / 2; scan.transmission && scan.file.flats.empty()) {
    scan.warnings.push_back(
        fmt::format("a ray beside the object has {:.4g} in the file, evenly, at both ends of all views, "
                    "where the share of the beam is 1 ({}): "
                    "all line integrals are off by {:.3g}; divide the samples by that, or give frames of the "
                    "beam alone as "
                    "problem.flat",
                    std::exp(-level),
                    std::abs(level + std::log(100)) < kPercent ? "the samples are percent"
                                                               : "the beam is not divided out",
                    level));
    return true;
  }
  scan.warnings.push_back(fmt::format(
      "both ends of all views are at {:.3g}, evenly, where a ray beside the object has 0 ({}): all line "
      "integrals are off by that; {}",
      (low + high) / 2,
      scan.transmission ? "the flats are of another exposure, or the beam has changed" : "a background",
      cure));
  return true;
}

// Columns, from the axis, up to which some views show more than noise.
double reach_of(const at::Tensor& p, double axis, double least) {
  double reach = 0;
  const at::Tensor shown = p.gt(least).sum(0);
  for (std::int64_t i = 0; i < p.size(1); ++i)
    if (shown[i].item<std::int64_t>() * 50 > p.size(0))
      reach = std::max(reach, std::abs(static_cast<double>(i) - axis));
  return reach;
}

// An object takes from the beam: its line integrals are not below those beside it, and not below 0 as a whole.
void judge_sign(Scan& scan, const ScanRows& look, const Ends& e) {
  constexpr double kBelow = 0.6, kBeside = 0.5;  // of all values' sizes; of what is amid the columns
  const double sum = look.y.sum().item<double>(), size = look.y.abs().sum().item<double>();
  const double beside = std::max(e.left, e.right);
  if (!(sum < -kBelow * size) || !(e.middle < 0) || !(beside > kBeside * e.middle)) return;
  scan.warnings.push_back(fmt::format(
      "the line integrals are negative as a whole, {:.3g} amid the columns and {:.3g} and {:.3g} at both "
      "ends ({}) {}",
      e.middle, e.left, e.right,
      scan.transmission
          ? "the object is brighter than the flats: frames that are stored inverted"
          : "an object that weakens the beam has positive ones: log(I / I0) lacks its minus, and the "
            "image is the negative of the object's",
      scan.transmission ? "invert them before" : "store -1 times the samples"));
}

// All views have one mass, all columns have not: of an array whose first axis is the detector's it is the other way.
void judge_axes(Scan& scan, const at::Tensor& p) {
  constexpr double kEven = 0.03, kUneven = 0.2;
  const auto spread = [](const at::Tensor& sums) {
    const double mean = sums.mean().item<double>();
    return mean > 0 ? sums.std().item<double>() / mean : 0;
  };
  if (scan.rows > 1 || p.size(0) < 16 || p.size(1) < 16) return;
  if (const double even = spread(p.sum(0)), uneven = spread(p.sum(1)); even < kEven && uneven > kUneven)
    scan.warnings.push_back(fmt::format(
        "{} looks transposed: sums over what should be views differ by {:.1g} %, sums over what "
        "should be columns by {:.0f} % (views of one object have one mass) write it with the views first",
        scan.file.views.path, 100 * even, 100 * uneven));
}

}  // namespace

ScanRows look_at_scan(Scan& scan, bool values_said, std::vector<std::string>& notices,
                      const Communicator& comm) {
  const std::int64_t rows = std::min(kLooked, scan.rows);
  scan.noise = 0;
  check_frames(scan, values_said, notices, comm);
  ScanRows look = scan_rows(scan, (scan.rows - rows) / 2, rows, comm);
  leave_out(scan, look, notices);
  const Ends before = ends_of(look);
  const bool own = scan.file.views.path.find(":/measurements/") != std::string::npos;  // of tessera simulate
  if (!values_said && !own && !scan.transmission) ask_for_values(scan, before);
  if (scan.transmission) {
    if (!scan.file.flats.empty()) compare_flats(scan, notices, comm);
    // Bright fringes of phases look like zingers.
    scan.noise = scan.phase[1] > 0 ? 0 : std::max(noise_of(look), 1e-12);
    look = scan_rows(scan, (scan.rows - rows) / 2, rows, comm);  // without zingers
  } else if (!own) {
    bridge_still_columns(scan, look);
    scan.noise = std::max(noise_of(look), 1e-12);
    if ((scan.specks = shows_specks(scan, look))) look = scan_rows(scan, (scan.rows - rows) / 2, rows, comm);
  }
  bridge_still_columns(scan, look);
  leave_out_empty(scan, look);
  judge_sign(scan, look, ends_of(look));
  judge_axes(scan, look.y.mean(0));
  judge_order(scan, look);
  judge_returns(scan, look);
  judge_frames(scan, look, comm);
  judge_gains(scan, look, notices);
  if (const double level = image_level(look.y); level > 0) scan.level = level;
  return look;
}

void judge_width(Scan& scan, const ScanRows& look, double axis_off, bool turn) {
  constexpr double kFar = 0.05;
  const Ends e = ends_of(look);
  if (judge_air(scan, e)) return;
  judge_light(scan, look);
  if (!(e.peak > 0)) return;
  const std::int64_t columns = look.y.size(2);
  // Most views of a helix do not show what is amid the detector's rows.
  const double peak = std::max(e.peak, look.y.mean(0).amax(1).quantile(0.9).item<double>());
  const double axis = 0.5 * static_cast<double>(columns - 1) + axis_off, cut = kFar * peak;
  const double to_left = axis + 0.5, to_right = static_cast<double>(columns) - 0.5 - axis;
  const bool left = e.left > cut, right = e.right > cut, right_far = to_right > to_left;
  if (!left && !right) return;
  const auto even = [](double side) { return 2 * static_cast<std::int64_t>(std::ceil(side / 2)); };
  if (turn && std::abs(axis_off) > 0.5 && !(right_far ? right : left)) {  // each side sees its half
    const double reach = reach_of(look.y.mean(0), axis, std::max(0.02 * e.peak, 0.0));
    scan.side = std::max(columns, even(2 * reach + 4));
    scan.wide_reason = fmt::format(
        "the axis stands near an end of the detector, and the views of a whole turn show the object up to "
        "{:.0f} "
        "columns from it: the image is as wide (problem.image.size says otherwise)",
        reach);
    return;
  }
  // A disk whose views had these values in the middle and at the end: p^2 = 4 (R^2 - s^2).
  const double end = std::min(to_left, to_right), edge = (e.left + e.right) / 2;
  const double wide =
      edge < 0.95 * e.middle ? end / std::sqrt(1 - edge * edge / e.middle / e.middle) : 3 * end;
  scan.wide =
      even(std::clamp(2.1 * wide, 1.25 * static_cast<double>(columns), 3.0 * static_cast<double>(columns)));
  scan.wide_reason = fmt::format(
      "the object is wider than the detector (the views are at {:.3g} and {:.3g} at its ends, up to {:.3g} "
      "between)",
      e.left, e.right, e.peak);
}

}  // namespace tessera
