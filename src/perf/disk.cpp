// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/perf/disk.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/core/error.hpp"
#include "tessera/denoise/planes.hpp"
#include "tessera/solve/solver.hpp"

namespace tessera {
namespace {

// One way through images, all at once from their first row to their last.
struct Pass {
  std::vector<std::string> reads, writes;
};

std::vector<std::string> names_in(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

// "x y > z": an image on both sides is changed in place.
Pass pass_of(const std::string& text) {
  const std::size_t arrow = text.find('>');
  if (arrow == std::string::npos) return {names_in(text), {}};
  return {names_in(text.substr(0, arrow)), names_in(text.substr(arrow + 1))};
}

// The passes of one iteration: what the solver's row says, its words for the data term and the denoiser written out.
class Iteration {
 public:
  Iteration(const DataWork& data, const Decomposition& d, const Execution& execution, const Index3& halo,
            int rank)
      : data_(data) {
    const ProductSpace domain(data.image.on(d.image()), d), range = data.op->range(domain);
    const double image = static_cast<double>(data.image.bytes(d.block(rank)));
    traffic_ = data_traffic(d, data, rank);
    sizes_[""] = image;
    sizes_["left"] = sizes_["y"] = sizes_["weights"] = sizes_["mask"] = sizes_["balance"] =
        static_cast<double>(range.values(rank) * domain.part(0).space.element_bytes);
    const double padded = static_cast<double>(data.op->memory(domain, rank));
    padded_ = padded > 0;
    sizes_["padded"] = padded;
    masked_ = !padded_ && data.op->traits(domain).pointwise();
    alone_ = d.ranks() == 1;
    for (const Decomposition& cut : plane_cuts(d, execution.planes)) {
      ++kinds_;
      const bool moved = cut.ranks() > 1 || cut.image() != cut.padded();
      const Box region = cut.padded_block(rank).grow({halo, halo}).intersect(cut.padded());
      const std::string name = concat("region", kinds_);
      regions_.push_back(moved ? name : "");
      sizes_[name] = static_cast<double>(data.image.bytes(region));
    }
    for (std::string step : steps(find_solver(data.solver).passes)) write_out(step);
    if (data.truth) add("x truth");
    add("x > best");
  }

  const std::vector<Pass>& passes() const { return passes_; }
  /// Of all images that it goes over.
  double bytes() const {
    std::set<std::string> images;
    for (const Pass& pass : passes_) {
      images.insert(pass.reads.begin(), pass.reads.end());
      images.insert(pass.writes.begin(), pass.writes.end());
    }
    double sum = 0;
    for (const std::string& image : images) sum += bytes(image);
    return sum;
  }
  double bytes(const std::string& image) const {
    const auto own = sizes_.find(image);
    return own != sizes_.end() ? own->second : sizes_.at("");
  }

 private:
  static std::vector<std::string> steps(const std::string& text) {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string step; std::getline(in, step, ';');) all.push_back(step);
    return all;
  }
  void add(const std::string& text) { passes_.push_back(pass_of(text)); }

  void write_out(const std::string& step) {
    const std::vector<std::string> w = names_in(step);
    TESSERA_EXPECT(!w.empty(), "a solver's passes have an empty step");
    const std::string from = w.size() > 1 ? w[1] : "", to = w.back();
    if (w[0] == "measure") {
      measure(from);
    } else if (w[0] == "gradient") {
      measure(from);
      adjoint(to);
    } else if (w[0] == "adjoint") {
      adjoint(to);
    } else if (w[0] == "prox") {
      prox(from, to);
    } else if (w[0] == "denoise") {
      denoise(from, to);
    } else {
      add(step);
    }
  }

  void apply(const std::string& x) {
    if (padded_) add(x + " > padded");
    add((padded_ ? "padded" : x) + (masked_ ? " mask > left" : " > left"));
  }
  void measure(const std::string& x) {
    apply(x);
    add(data_.weighted ? "left y weights > left" : "left y > left");
  }
  void adjoint(const std::string& x) {
    const std::string to = padded_ ? "padded" : x;
    add("> " + x);
    if (padded_) add("> padded");
    add("left " + to + (masked_ ? " mask > " : " > ") + to);
    if (padded_) add("padded " + x + " > " + x);
  }
  void transform(const std::string& from, const std::string& to) {
    if (alone_) {
      add(from + " > spectrum");
    } else {
      for (const char* const step : {" > rows", "rows > turned", "turned > spectrum"})
        add(step[0] == ' ' ? from + step : step);
    }
    add("spectrum > spectrum");
    if (!alone_) add("spectrum > turned");
    if (!alone_) add("turned > rows");
    add((alone_ ? "spectrum > " : "rows > ") + to);
  }
  void prox(const std::string& z, const std::string& to) {
    switch (traffic_.prox ? traffic_.prox->kind : ProxPlan::Kind::pointwise) {
      case ProxPlan::Kind::pointwise:
        return add(z + " adjoint diagonal > " + to);
      case ProxPlan::Kind::fourier:
        if (alone_) return transform(z + " adjoint", to);
        add(z + " adjoint > " + to);
        return transform(to, to);
      case ProxPlan::Kind::coarse:
        apply(z);
        add("left y > left");
        for (const char* const image : {"rows", "turned", "spectrum"}) sizes_[image] = sizes_["left"];
        transform("left", "left");
        adjoint(to);
        return add(z + " " + to + " > " + to);
      case ProxPlan::Kind::iterative:
        return conjugate_gradients(z, to);
    }
  }
  // M p = p + gamma A^T W A p, or its residual.
  void normal(const std::string& from, const std::string& to) {
    apply(from);
    if (data_.weighted) add("left weights > left");
    adjoint(to);
    add(from + " " + to + " > " + to);
  }
  void precondition() {
    if (!traffic_.prox->transformed) return;
    add("residual root > product");
    transform("product", "product");
    add("product residual root > product");
  }
  void conjugate_gradients(const std::string& z, const std::string& to) {
    const std::string mixed = traffic_.prox->transformed ? "product" : "residual";
    add(z + " > " + to);
    measure(to);
    adjoint("residual");
    add(to + " " + z + " residual > residual");
    precondition();
    add(mixed + " > direction");
    add("residual direction");
    for (int k = 0; k < static_cast<int>(std::lround(data_.inner)); ++k) {
      normal("direction", "product");
      add("direction product");
      add("direction " + to + " > " + to);
      add("product residual > residual");
      precondition();
      add("residual " + mixed);
      add(mixed + " direction > direction");
    }
  }
  void denoise(const std::string& from, const std::string& to) {
    for (std::size_t k = 0; k < regions_.size(); ++k) {
      const std::string& region = regions_[k];
      if (!region.empty()) add(from + " > " + region);
      const std::string made = k == 0 ? to : "kind";
      add((region.empty() ? from : region) + " > " + made);
      if (k > 0) add(to + " kind > " + to);
    }
    if (regions_.size() > 1) add(to + " > " + to);
  }

  const DataWork& data_;
  DataTraffic traffic_;
  std::map<std::string, double> sizes_;  // "": of an image
  bool padded_ = false, masked_ = false, alone_ = true;
  int kinds_ = 0;
  std::vector<std::string> regions_;  // of each kind of planes; empty: the image itself
  std::vector<Pass> passes_;
};

// Parts of images in the order in which they were used.
class Cache {
 public:
  explicit Cache(double most) : most_(most) {}

  // Whether it was there; from now on it is.
  bool use(const std::string& image, int part, double bytes) {
    const auto key = std::make_pair(image, part);
    const auto found = last_.find(key);
    const bool there = found != last_.end();
    if (there)
      order_.erase(found->second);
    else
      held_ += bytes;
    last_[key] = ++clock_;
    order_[clock_] = {key, bytes};
    while (held_ > most_ && !order_.empty()) {
      held_ -= order_.begin()->second.bytes;
      last_.erase(order_.begin()->second.key);
      order_.erase(order_.begin());
    }
    return there;
  }

 private:
  struct Held {
    std::pair<std::string, int> key;
    double bytes;
  };
  double most_, held_ = 0;
  std::int64_t clock_ = 0;
  std::map<std::pair<std::string, int>, std::int64_t> last_;
  std::map<std::int64_t, Held> order_;
};

}  // namespace

DiskBytes disk_bytes(const DataWork& data, const Decomposition& decomposition, const Execution& execution,
                     const Index3& denoiser_halo, double cache, int rank) {
  if (find_solver(data.solver).passes.empty()) return {};
  const Iteration iteration(data, decomposition, execution, denoiser_halo, rank);
  constexpr int kParts = 32, kTurns = 3;  // the last one counts
  Cache held(cache);
  DiskBytes sum;
  for (int turn = 0; turn < kTurns; ++turn)
    for (const Pass& pass : iteration.passes())
      for (int part = 0; part < kParts; ++part) {
        const bool counts = turn == kTurns - 1;
        for (const std::string& image : pass.reads) {
          const double bytes = iteration.bytes(image) / kParts;
          if (!held.use(image, part, bytes) && counts) sum.read += bytes;
        }
        for (const std::string& image : pass.writes) {
          const double bytes = iteration.bytes(image) / kParts;
          held.use(image, part, bytes);
          if (counts) sum.written += bytes;
        }
      }
  // Where little is cached the kernel writes pages before they are full, and once more then: measured at 0.06, 0.19 and 0.27
  // of the images in the cache, 1.5, 1.27 and 1.09 times (tests/bench/large.py with 16384, 8192 and 4096 pixels).
  constexpr double kAgain = 0.55, kEnough = 0.33;
  sum.written *= 1 + kAgain * std::max(0.0, 1 - cache / iteration.bytes() / kEnough);
  return sum;
}

DiskBytes most_disk_bytes(const DataWork& data, const Decomposition& decomposition,
                          const Execution& execution, const Index3& denoiser_halo, double cache) {
  DiskBytes most;
  for (const auto& [rank, count] : representatives(decomposition, longest(denoiser_halo))) {
    const DiskBytes bytes = disk_bytes(data, decomposition, execution, denoiser_halo, cache, rank);
    if (bytes.both() > most.both()) most = bytes;
  }
  return most;
}

}  // namespace tessera
