// SPDX-License-Identifier: BSD-3-Clause
// The CUDA runtime's part of the stand-in: what src/comm calls, and what nvcc's launches call.
#include <cxxabi.h>

#include "capture.hpp"
#include "pack_body.hpp"

namespace tessera::test::pretended {
namespace {

cudaError_t allocate(void** p, std::size_t bytes, bool pinned) {
  if (const cudaError_t code = forbidden("an allocation")) return code;
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
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", device);  // the same for all ranks
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
  if (const cudaError_t code = forbidden("freeing memory")) return code;
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
  if (const cudaError_t code = forbidden("cudaDeviceSynchronize")) return code;
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
  if (const cudaError_t code = forbidden("cudaStreamSynchronize")) return code;
  Runtime& r = Runtime::get();
  r.wait_until("cudaStreamSynchronize", [&] { return r.stream(stream).queue.empty(); });
  return locked([&](Runtime& rt) { join(rt.host, rt.stream(stream).last); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  cudaError_t code = cudaSuccess;
  locked([&](Runtime& r) {
    const auto* e = reinterpret_cast<Event*>(event);
    if (!e->recorded) return;
    const auto capture = capture_of(stream);
    if (e->capture) {
      if (e->capture->ended)
        code = misuse("a wait for an event that was recorded in a capture, after its end",
                      cudaErrorCapturedEvent, capture);
      else if (capture && capture != e->capture)
        code = misuse("a wait that would join two captures", cudaErrorStreamCaptureMerge, capture);
      else {
        r.capturing[stream] = e->capture;
        e->capture->tails[stream].insert(e->after.begin(), e->after.end());
      }
      return;
    }
    if (capture) {
      code = misuse("a captured operation waits for an event of outside the capture",
                    cudaErrorStreamCaptureIsolation, capture);
      return;
    }
    const auto state = e->state;
    join(r.stream(stream).last, e->clock);
    enqueue(
        stream, "a wait for an event", {}, [state] { return state->done; }, [] {});
  });
  return code;
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
    e->capture = capture_of(stream);
    if (e->capture) {
      e->after = e->capture->tails[stream];
      return;
    }
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
  if (const cudaError_t code = forbidden("cudaEventQuery")) return code;
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
  if (const cudaError_t code = forbidden("cudaEventSynchronize")) return code;
  const auto* e = reinterpret_cast<Event*>(event);
  if (!e->recorded) return cudaSuccess;
  Runtime& r = Runtime::get();
  r.wait_until("cudaEventSynchronize", [&] { return e->state->done; });
  return locked([&](Runtime& rt) { join(rt.host, e->clock); });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  return locked([&](Runtime&) {
    const auto *from = reinterpret_cast<Event*>(a), *to = reinterpret_cast<Event*>(b);
    if (from->capture || to->capture || !from->state->done || !to->state->done)
      report("the time between events that have not happened");
    *ms = static_cast<float>((to->state->at - from->state->at) * 1e3);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  cudaError_t code = cudaSuccess;
  locked([&](Runtime& r) {
    // Pageable memory is read at once, into a buffer of the runtime's.
    std::shared_ptr<std::vector<char>> staged;
    if (const auto capture = capture_of(stream); capture && (!r.find(from) || !r.find(to))) {
      code = misuse("a copy of pageable memory in a capture", cudaErrorStreamCaptureUnsupported, capture);
      return;
    }
    if (!r.find(from)) {
      const auto* bytes_of = static_cast<const char*>(from);
      staged = std::make_shared<std::vector<char>>(bytes_of, bytes_of + bytes);
    }
    enqueue(stream, "a copy", {{from, bytes}, {to, bytes, true}}, nullptr,
            [=] { std::memcpy(to, staged ? staged->data() : from, bytes); });
  });
  return code;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t code = forbidden("cudaMemcpy")) return code;
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
