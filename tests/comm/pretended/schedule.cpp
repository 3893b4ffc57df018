// SPDX-License-Identifier: BSD-3-Clause
// What the stand-in's files ask of its streams, and what tests ask of it.
#include "schedule.hpp"

#include "capture.hpp"

namespace tessera::test::pretended {

void behave(const Behavior& b) {
  locked([&](Runtime& r) {
    r.how = b;
    r.random.seed(b.seed);
    r.devices.clear();
  });
}
std::vector<std::string> findings() {
  std::vector<std::string> out;
  locked([&](Runtime& r) {
    out.assign(r.found.begin(), r.found.end());
    r.found.clear();
  });
  return out;
}
std::set<int> devices_in_use() {
  std::set<int> out;
  locked([&](Runtime& r) { out = r.devices; });
  return out;
}
const Behavior& behavior() { return Runtime::get().how; }
void with_lock(const std::function<void()>& work) {
  locked([&](Runtime&) { work(); });
}
bool chance(double probability) {
  return std::uniform_real_distribution<double>(0, 1)(Runtime::get().random) < probability;
}
void report(const std::string& finding) {
  if (Runtime::get().found.insert(finding).second) std::fprintf(stderr, "stand-in: %s\n", finding.c_str());
}

void enqueue(cudaStream_t handle, const std::string& what, const std::vector<Range>& ranges,
             std::function<bool()> ready, std::function<void()> run) {
  Runtime& r = Runtime::get();
  r.devices.insert(device_now);
  Stream& s = r.stream(handle);
  ++s.given;
  if (const auto capture = capture_of(handle)) {
    record(capture, {what, ranges, std::move(ready), std::move(run), handle, {}});
    return;
  }
  join(s.last, r.host);
  ++s.last[s.id];
  for (const Range& range : ranges) r.access(range, s.last, s.id, false, what);
  const double wait = std::uniform_real_distribution<double>(0, r.how.latest)(r.random);
  s.queue.push_back({what, std::move(ready), std::move(run), chance(0.5) ? 0 : seconds() + wait});
}

std::uint64_t given(cudaStream_t handle) { return Runtime::get().stream(handle).given; }

std::shared_ptr<Access> begin_access(const Range& range, const std::string& what) {
  std::shared_ptr<Access> made;
  locked([&](Runtime& r) {
    ++r.host[0];
    made = r.access(range, r.host, 0, true, what);
  });
  return made;
}
void end_access(const std::shared_ptr<Access>& access) {
  locked([&](Runtime& r) {
    access->when = ++r.host[0];
    access->open = false;
  });
}

}  // namespace tessera::test::pretended
