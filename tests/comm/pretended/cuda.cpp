// SPDX-License-Identifier: BSD-3-Clause
// The CUDA runtime's part of the stand-in: what src/comm calls, and what nvcc's launches call.
#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "pack_body.hpp"
#include "runtime.hpp"
#include "tessera/core/error.hpp"

namespace tessera::test::pretended {

struct Access {
  const char *lo, *hi;
  bool write;
  int who;             // stream, 0: the host
  std::uint64_t when;  // in who's own time
  bool open;           // has not ended
  std::string what;
};

namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void join(Clock& into, const Clock& other) {
  for (const auto& [who, when] : other) into[who] = std::max(into[who], when);
}

struct Operation {
  std::string what;
  std::function<bool()> ready;
  std::function<void()> run;
  double not_before;
};
struct Stream {
  int id = 0;
  std::deque<Operation> queue;
  Clock last;
  bool busy = false;  // its head is running
};
struct Event {
  bool recorded = false;
  Clock clock;
  struct State {
    bool done = false;
    double at = 0;
  };
  std::shared_ptr<State> state = std::make_shared<State>();
};
struct Allocation {
  std::size_t bytes;
  bool pinned;
  std::deque<std::shared_ptr<Access>> accesses;
};

struct Runtime {
  std::recursive_mutex mutex;
  Behavior how;
  std::mt19937 random{1};
  std::map<const char*, Allocation> memory;
  std::map<cudaStream_t, std::unique_ptr<Stream>> streams;  // null: the default one
  int streams_made = 0;
  Clock host;
  std::set<std::string> found;
  std::set<int> devices;
  std::map<const void*, std::string> kernels;  // host stub -> name
  std::thread progress;
  bool stopping = false;

  static Runtime& get() {
    static auto& r = *new Runtime;  // outlives everything: static destructors of others call in
    return r;
  }

  Stream& stream(cudaStream_t s) {
    auto& slot = streams[s];
    if (!slot) {
      slot = std::make_unique<Stream>();
      slot->id = ++streams_made;
    }
    return *slot;
  }

  Allocation* find(const void* p, const char** base = nullptr) {
    const auto* at = static_cast<const char*>(p);
    auto it = memory.upper_bound(at);
    if (it == memory.begin()) return nullptr;
    --it;
    if (at >= it->first + std::max<std::size_t>(it->second.bytes, 1)) return nullptr;
    if (base) *base = it->first;
    return &it->second;
  }

  std::shared_ptr<Access> access(const Range& range, const Clock& clock, int who, bool open,
                                 const std::string& what) {
    const char* base = nullptr;
    Allocation* a = find(range.begin, &base);
    if (!a) return nullptr;
    const char* lo = range.bytes ? static_cast<const char*>(range.begin) : base;
    const char* hi = range.bytes ? lo + range.bytes : base + a->bytes;
    const auto known = [&](const Access& old) {
      const auto it = clock.find(old.who);
      return !old.open && it != clock.end() && it->second >= old.when;
    };
    for (const auto& old : a->accesses)
      if ((old->write || range.write) && old->lo < hi && lo < old->hi && !known(*old))
        report(concat("race: ", what, range.write ? " writes" : " reads", " what ", old->what,
                      old->write ? " writes" : " reads", ", and nothing orders them"));
    const auto own = clock.find(who);
    auto made = std::make_shared<Access>(
        Access{lo, hi, range.write, who, own == clock.end() ? 0 : own->second, open, what});
    a->accesses.push_back(made);
    if (a->accesses.size() > 64) a->accesses.pop_front();
    return made;
  }

  /// Runs one operation, of a stream taken by chance, that may run now.
  bool step() {
    std::vector<Stream*> order;
    for (auto& [handle, s] : streams)
      if (!s->queue.empty() && !s->busy) order.push_back(s.get());
    std::shuffle(order.begin(), order.end(), random);
    for (Stream* s : order) {
      Operation& head = s->queue.front();
      if (head.not_before > seconds() || (head.ready && !head.ready())) continue;
      s->busy = true;
      head.run();
      s->queue.pop_front();
      s->busy = false;
      return true;
    }
    return false;
  }

  void wait_until(const char* who, const std::function<bool()>& done) {
    const double start = seconds();
    for (;;) {
      {
        const std::lock_guard lock(mutex);
        if (done()) return;
        if (step()) continue;
        if (seconds() - start > 60) {
          std::string held;
          for (auto& [handle, s] : streams)
            if (!s->queue.empty()) held += concat(" [", s->id, ": ", s->queue.front().what, ']');
          std::fprintf(stderr, "%s waits for ever; streams stand at%s\n", who, held.c_str());
          std::abort();
        }
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  bool idle() const {
    return std::all_of(streams.begin(), streams.end(), [](const auto& s) { return s.second->queue.empty(); });
  }
  void join_all() {
    for (auto& [handle, s] : streams) join(host, s->last);
  }

  /// A device works on while the host is elsewhere.
  void start() {
    if (progress.joinable()) return;
    progress = std::thread([this] {
      for (;;) {
        {
          const std::lock_guard lock(mutex);
          if (stopping) return;
          if (step()) continue;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
    std::atexit([] {
      Runtime& r = get();
      {
        const std::lock_guard lock(r.mutex);
        r.stopping = true;
      }
      r.progress.join();
    });
  }
};

thread_local int device_now = 0;
thread_local cudaError_t last_error = cudaSuccess;

template <class Work>
cudaError_t locked(Work work) {
  Runtime& r = Runtime::get();
  const std::lock_guard lock(r.mutex);
  r.start();
  work(r);
  return cudaSuccess;
}

}  // namespace

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
  join(s.last, r.host);
  ++s.last[s.id];
  for (const Range& range : ranges) r.access(range, s.last, s.id, false, what);
  const double wait = std::uniform_real_distribution<double>(0, r.how.latest)(r.random);
  s.queue.push_back({what, std::move(ready), std::move(run), chance(0.5) ? 0 : seconds() + wait});
}

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

namespace {

cudaError_t allocate(void** p, std::size_t bytes, bool pinned) {
  return locked([&](Runtime& r) {
    *p = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    std::memset(*p, 0x7f, bytes);  // large numbers, where something reads what nobody wrote
    r.memory[static_cast<const char*>(*p)] = {bytes, pinned, {}};
    r.devices.insert(device_now);
  });
}

/// Of a kernel's host body, by its name.
template <class T>
void launch_shares(unsigned blocks, unsigned threads, void** args, cudaStream_t stream,
                   const std::string& name) {
  const auto mode = *static_cast<pack::Mode*>(args[0]);
  const auto* cells = *static_cast<const pack::DeviceCell**>(args[1]);
  const auto* terms = *static_cast<const pack::Term**>(args[2]);
  const auto* shares = *static_cast<const pack::Share**>(args[3]);
  T* to = *static_cast<T**>(args[4]);
  const T* from = *static_cast<const T**>(args[5]);
  enqueue(stream, name, {{cells}, {terms}, {shares}, {from}, {to, 0, true}}, nullptr, [=] {
    for (unsigned b = 0; b < blocks; ++b)
      for (unsigned t = 0; t < threads; ++t)
        pack::run_share(mode, cells, terms, shares[b], to, from, t, threads);
  });
}

using Launch = void (*)(unsigned, unsigned, void**, cudaStream_t, const std::string&);
const std::map<std::string, Launch>& bodies() {
  static const std::map<std::string, Launch> table = {
      {"float", launch_shares<float>},
      {"double", launch_shares<double>},
      {"__half", launch_shares<__half>},
      {"__nv_bfloat16", launch_shares<__nv_bfloat16>},
      {"tessera::pack::Complex<float>", launch_shares<pack::Complex<float>>},
      {"tessera::pack::Complex<double>", launch_shares<pack::Complex<double>>},
      {"tessera::pack::Raw<unsigned short, 1>", launch_shares<pack::Raw<std::uint16_t>>},
      {"tessera::pack::Raw<unsigned int, 1>", launch_shares<pack::Raw<std::uint32_t>>},
      {"tessera::pack::Raw<unsigned long, 1>", launch_shares<pack::Raw<std::uint64_t>>},
      {"tessera::pack::Raw<unsigned long, 2>", launch_shares<pack::Raw<std::uint64_t, 2>>}};
  return table;
}

cudaError_t launch(const void* stub, dim3 grid, dim3 block, void** args, cudaStream_t stream) {
  return locked([&](Runtime& r) {
    const std::string name = r.kernels.at(stub), mark = "run_shares<";
    const std::size_t begin = name.find(mark), end = name.find(">(");
    if (begin == std::string::npos || end == std::string::npos) {
      std::fprintf(stderr, "the stand-in has no body for the kernel %s\n", name.c_str());
      std::abort();
    }
    std::string type = name.substr(begin + mark.size(), end - begin - mark.size());
    while (!type.empty() && type.back() == ' ') type.pop_back();
    bodies().at(type)(grid.x, block.x, args, stream, "the kernel run_shares<" + type + ">");
  });
}

struct {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
} configuration;

}  // namespace
}  // namespace tessera::test::pretended

using namespace tessera::test::pretended;

extern "C" {

cudaError_t cudaGetDeviceCount(int* n) {
  *n = behavior().gpus;
  return *n > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
cudaError_t cudaGetDevice(int* device) {
  *device = device_now;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= behavior().gpus) return cudaErrorInvalidDevice;
  device_now = device;
  return locked([&](Runtime& r) { r.devices.insert(device); });  // makes a context there
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  std::memset(p, 0, sizeof *p);
  std::snprintf(p->name, sizeof p->name, "pretended");
  p->uuid.bytes[0] = static_cast<char>(device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  // Every rank its own GPU, as NCCL wants it.
  std::snprintf(text, static_cast<std::size_t>(size), "%d:%d", static_cast<int>(getpid()), device);
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaSuccess ? "no error" : "an error of the stand-in";
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaMalloc(void** p, std::size_t bytes) { return allocate(p, bytes, false); }
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) { return allocate(p, bytes, true); }
cudaError_t cudaFree(void* p) {
  if (!p) return cudaSuccess;
  cudaDeviceSynchronize();
  return locked([&](Runtime& r) {
    r.memory.erase(static_cast<const char*>(p));
    std::free(p);
  });
}
cudaError_t cudaFreeHost(void* p) {
  if (!p) return cudaSuccess;
  locked([&](Runtime& r) {  // it does not wait for streams
    r.access({p, 0, true}, r.host, 0, false, "freeing pinned memory");
  });
  return cudaFree(p);
}

cudaError_t cudaDeviceSynchronize() {
  Runtime& r = Runtime::get();
  r.wait_until("cudaDeviceSynchronize", [&] { return r.idle(); });
  return locked([](Runtime& rt) { rt.join_all(); });
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return locked([&](Runtime& r) {
    *stream = reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(0x1000 + r.streams_made));
    r.stream(*stream);
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }  // what it holds still runs
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Runtime& r = Runtime::get();
  r.wait_until("cudaStreamSynchronize", [&] { return r.stream(stream).queue.empty(); });
  return locked([&](Runtime& rt) { join(rt.host, rt.stream(stream).last); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return locked([&](Runtime& r) {
    const auto* e = reinterpret_cast<Event*>(event);
    if (!e->recorded) return;
    const auto state = e->state;
    join(r.stream(stream).last, e->clock);
    enqueue(
        stream, "a wait for an event", {}, [state] { return state->done; }, [] {});
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return locked([&](Runtime&) { delete reinterpret_cast<Event*>(event); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return locked([&](Runtime& r) {
    auto* e = reinterpret_cast<Event*>(event);
    e->recorded = true;
    e->state = std::make_shared<Event::State>();
    const auto state = e->state;
    enqueue(stream, "an event", {}, nullptr, [state] {
      state->done = true;
      state->at = seconds();
    });
    e->clock = r.stream(stream).last;
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  bool done = true;
  locked([&](Runtime& r) {
    const auto* e = reinterpret_cast<Event*>(event);
    if (!e->recorded) return;
    if (chance(0.5)) r.step();
    done = e->state->done;
    if (done) join(r.host, e->clock);
  });
  return done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const auto* e = reinterpret_cast<Event*>(event);
  if (!e->recorded) return cudaSuccess;
  Runtime& r = Runtime::get();
  r.wait_until("cudaEventSynchronize", [&] { return e->state->done; });
  return locked([&](Runtime& rt) { join(rt.host, e->clock); });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  return locked([&](Runtime&) {
    const auto *from = reinterpret_cast<Event*>(a), *to = reinterpret_cast<Event*>(b);
    if (!from->state->done || !to->state->done) report("the time between events that have not happened");
    *ms = static_cast<float>((to->state->at - from->state->at) * 1e3);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return locked([&](Runtime& r) {
    // Pageable memory is read at once, into a buffer of the runtime's.
    std::shared_ptr<std::vector<char>> staged;
    if (!r.find(from)) {
      const auto* bytes_of = static_cast<const char*>(from);
      staged = std::make_shared<std::vector<char>>(bytes_of, bytes_of + bytes);
    }
    enqueue(stream, "a copy", {{from, bytes}, {to, bytes, true}}, nullptr,
            [=] { std::memcpy(to, staged ? staged->data() : from, bytes); });
  });
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  bool pageable = false;
  locked([&](Runtime& r) { pageable = !r.find(from); });
  // To the device from pageable memory: returns once the bytes are staged.
  return kind == cudaMemcpyHostToDevice && pageable ? cudaSuccess : cudaStreamSynchronize(nullptr);
}

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  int status = 0;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  Runtime::get().kernels[stub] = plain ? plain : name;
  std::free(plain);
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, std::size_t,
                               cudaStream_t stream) {
  return launch(reinterpret_cast<const void*>(kernel), grid, block, args, stream);
}
cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** args, std::size_t,
                             cudaStream_t stream) {
  return launch(stub, grid, block, args, stream);
}

}  // extern "C"
