// SPDX-License-Identifier: BSD-3-Clause
// A job's text, who sends what to whom, and who hangs.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "comm/border_reference.hpp"
#include "heartbeat_board.hpp"
#include "scenes.hpp"
#include "targets.hpp"
#include "tessera/app/operator_table.hpp"
#include "tessera/comm/exchange_plan.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/core/error.hpp"
#include "tessera/perf/machine.hpp"
#include "tessera/perf/tuned.hpp"
#include "tessera/train/train.hpp"

namespace tessera::fuzz {

void job(const std::uint8_t* bytes, std::size_t count) {
  [[maybe_unused]] static const bool known = (know_choices(), true);
  const std::string text(reinterpret_cast<const char*>(bytes), count);
  std::string written;
  try {
    written = write_job(parse_job(text, "/fuzz/job.yaml", {}));
  } catch (const InputError&) {
    return;
  }
  std::string again;
  try {
    again = write_job(parse_job(written, "/fuzz/job.yaml", {}));
  } catch (const InputError& e) {
    require(false, (std::string("what was written is refused: ") + e.what() + "\n" + written).c_str());
  }
  require(again == written, ("written twice is not the same:\n" + written + "---\n" + again).c_str());
  require(differing_keys(written, again).empty(), "equal jobs differ");
}

// The other texts that are read, by the first byte: a training job, a machine, tuned choices.
void texts(const std::uint8_t* bytes, std::size_t count) {
  if (count < 1) return;
  const std::string text(reinterpret_cast<const char*>(bytes + 1), count - 1);
  refused_or_fine([&] {
    if (bytes[0] % 3 == 0) {
      static_cast<void>(parse_train_job(text, "/fuzz/train.yaml"));
    } else if (bytes[0] % 3 == 1) {
      const std::string written = write_machine(parse_machine(text, "/fuzz/machine.yaml"));
      require(
          write_machine(parse_machine(written, "/fuzz/machine.yaml")) == written,  // rounded once, not twice
          "another machine than was written");
    } else {
      static_cast<void>(read_tuned(as_file(bytes + 1, count - 1, ".yaml")));
    }
  });
}

// A crop of a picture of up to 40 x 40: it reads inside the picture, and writes every value once.
void crop(const std::uint8_t* bytes, std::size_t count) {
  Numbers next(bytes, count);
  training::Picture picture{.name = "fuzz",
                            .channels = next.below(2) ? 3 : 1,
                            .height = 1 + next.below(40),
                            .width = 1 + next.below(40)};
  picture.values.assign(static_cast<std::size_t>(picture.channels * picture.height * picture.width), 255);
  const bool shrink = next.below(2) == 1;
  const std::int64_t side = 1 + next.below(static_cast<int>(std::min(
                                    picture.height, picture.width)));  // training skips smaller pictures
  training::Draws draws(static_cast<std::uint64_t>(next.below(256)), next.below(256), next.below(16));
  std::vector<float> out(static_cast<std::size_t>(picture.channels * side * side), -1.0F);
  refused_or_fine([&] {
    training::photograph_crop(picture, shrink, {1, side, side}, draws, out.data());
    for (const float value : out) require(value == 1.0F, "a value that is not the picture's");
  });
}

Box pixel(const Index3& at) { return {at, at + Index3{1, 1, 1}}; }

// An image of up to 9 x 9 on up to 4 ranks, rows cut anywhere, boxes needed anywhere: every needed pixel
// comes once, from its owner, and is the one that walking across the border finds; both sides list the same.
void plan(const std::uint8_t* bytes, std::size_t count) {
  Numbers next(bytes, count);
  const Border border = test::kBorders[next.below(5)];
  const Box image = Box::image2d(1 + next.below(9), 1 + next.below(9));
  const int ranks = 1 + next.below(4);
  std::vector<std::int64_t> cuts{0};
  for (int r = 1; r < ranks; ++r) cuts.push_back(next.below(static_cast<int>(image.extent(1)) + 1));
  cuts.push_back(image.extent(1));
  std::sort(cuts.begin(), cuts.end());
  std::vector<Box> own, need;
  for (int r = 0; r < ranks; ++r) {
    const auto k = static_cast<std::size_t>(r);
    own.push_back(Box({0, cuts[k], 0}, {1, cuts[k + 1], image.extent(2)}));
    Index3 lo{0, next.below(24) - 12, next.below(24) - 12};
    Index3 hi{1, lo[1] + next.below(12), lo[2] + next.below(12)};
    Box box(lo, hi);
    need.push_back(border == Border::none ? box.intersect(image) : box);
  }
  const Layout owners(own), needs(need);
  std::map<std::pair<int, int>, std::int64_t> sent, received;
  for (int r = 0; r < ranks; ++r) {
    const ExchangePlan p(owners, needs, image, border, r);
    std::map<Index3, std::pair<int, Index3>> got;  // needed pixel -> from which rank, which pixel; -1: zero
    const auto take = [&](int from, const Piece& piece) {
      const Box& to = piece.to;
      for (std::int64_t y = to.lo()[1]; y < to.hi()[1]; ++y)
        for (std::int64_t x = to.lo()[2]; x < to.hi()[2]; ++x) {
          Index3 source{};
          const Index3 at{to.lo()[0], y, x};
          for (std::size_t d = 0; d < 3; ++d)
            source[d] = piece.from[d] + piece.step[d] * (at[d] - to.lo()[d]);
          require(got.emplace(at, std::pair(from, source)).second, "a pixel comes twice");
        }
    };
    for (const Piece& piece : p.local()) take(r, piece);
    for (const Piece& piece : p.zeros()) take(-1, piece);
    for (const Message& m : p.receives()) {
      for (const Piece& piece : m.pieces) take(m.peer, piece);
      received[{m.peer, r}] += m.pixels;
    }
    for (const Message& m : p.sends()) sent[{r, m.peer}] += m.pixels;
    const Box& box = need[static_cast<std::size_t>(r)];
    require(static_cast<std::int64_t>(got.size()) == box.pixels(), "pixels are missing, or too many");
    for (const auto& [at, what] : got) {
      const auto wanted = test::walk(at, image, border);
      require(box.contains(pixel(at)), "a pixel that nobody needs");
      require(what.first < 0 ? !wanted : wanted && *wanted == what.second,
              "another pixel than walking finds");
      if (what.first >= 0)
        require(own[static_cast<std::size_t>(what.first)].contains(pixel(what.second)),
                "from a rank that does not own it");
    }
  }
  require(sent == received, "senders and receivers disagree");
}

void diagnosis(const std::uint8_t* bytes, std::size_t count) {
  Numbers next(bytes, count);
  const int known = 1 + next.below(5), self = next.below(6);
  const double limit = 1 + next.below(3);
  std::vector<Sighting> ranks;
  bool hangs = false;
  for (int r = 0; r < known; ++r) {
    Sighting s;
    s.rank = r;
    s.beats = static_cast<std::uint64_t>(next.below(4));
    s.iteration = next.below(3) - 1;
    s.phase = static_cast<Phase>(next.below(static_cast<int>(Phase::other) + 1));
    s.waiting_for = next.below(8) - 2;
    s.quiet = next.below(12);
    s.silent = std::min<double>(next.below(12), s.quiet);
    s.slowest = next.below(3);
    hangs |= s.quiet > limit;
    ranks.push_back(s);
  }
  const std::string verdict = diagnose(ranks, self, limit, next.below(9));
  require(verdict.empty() || hangs, "a verdict where nobody hangs");
  require(verdict.empty() || verdict.starts_with("rank "), "a verdict that names no rank");
}

}  // namespace tessera::fuzz
