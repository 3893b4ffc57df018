// SPDX-License-Identifier: BSD-3-Clause
// A preload library that makes one call of one rank fail or take long:
//   TESSERA_FAULT="CALL RANK NTH WHAT"   for example "write 1 17 ENOSPC", "fsync 0 2 sleep=3", "MPI_Allreduce
//   2 5 MPI"
// WHAT: an errno name; short (half of the bytes, then as usual); sleep=SECONDS; MPI (the call returns an
// error); kill (SIGKILL before the call); alloc for operator new, which throws. "every" behind WHAT: all
// calls from the nth on. NTH 0: counts only. TESSERA_FAULT_LOG: a file; each process appends "rank CALL
// count" for every CALL at its end, and "fault" when it strikes.
//   TESSERA_FAULT_CLOCK=SECONDS: the date jumps back and forth by so much, every few readings, on each rank at
//   other ones. Alone or beside a fault.
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>

namespace {

constexpr const char* kCalls[] = {"open",      "write",     "pwrite",        "fsync",     "rename",
                                  "ftruncate", "flock",     "close",         "read",      "mkdir",
                                  "unlink",    "new",       "MPI_Allreduce", "MPI_Bcast", "MPI_Iallreduce",
                                  "MPI_Isend", "MPI_Irecv", "MPI_Waitall",   "MPI_Wait",  "MPI_Barrier",
                                  "MPI_Ssend", "MPI_Recv",  "MPI_Allgather"};
constexpr int kKinds = sizeof kCalls / sizeof kCalls[0];

struct Plan {
  int call = -1, rank = -1, error = 0;
  long nth = 0;
  double sleep = 0;
  bool brief = false, every = false, kill = false;
  const char* log = nullptr;
  const char* folder = nullptr;  // files elsewhere are left alone
};

Plan plan;
int my_rank = 0;
bool ready = false;
bool begun = false;  // main runs; before it the C++ runtime ends a program that gets no memory
std::atomic<long> counts[kKinds], dates;
long jump = 0;  // seconds
thread_local int inside = 0;

struct Name {
  const char* name;
  int value;
};
constexpr Name kErrors[] = {
    {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT},     {"EIO", EIO},       {"EINTR", EINTR}, {"ENOLCK", ENOLCK},
    {"EINVAL", EINVAL}, {"EMFILE", EMFILE},     {"EACCES", EACCES}, {"EROFS", EROFS}, {"ENOENT", ENOENT},
    {"EFBIG", EFBIG},   {"MPI", MPI_ERR_OTHER}, {"alloc", ENOMEM}};

int kind_of(const char* call) {
  for (int k = 0; k < kKinds; ++k)
    if (strcmp(kCalls[k], call) == 0) return k;
  return -1;
}

void note(const char* what, long n, const char* call) {
  if (!plan.log) return;
  char text[128];
  const int length = snprintf(text, sizeof text, "%d %s %ld %s\n", my_rank, call, n, what);
  using Open = int (*)(const char*, int, ...);
  static const auto open_it = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "open"));
  using Write = ssize_t (*)(int, const void*, size_t);
  static const auto write_it = reinterpret_cast<Write>(dlsym(RTLD_NEXT, "write"));
  const int fd = open_it(plan.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t done = write_it(fd, text, static_cast<size_t>(length));
  close(fd);
}

__attribute__((constructor)) void begin() {
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  const char* text = getenv("TESSERA_FAULT");
  const char* clock = getenv("TESSERA_FAULT_CLOCK");
  if (!text && !clock) return;
  if (clock) jump = atol(clock);
  my_rank = rank ? atoi(rank) : 0;
  char call[32] = "", what[32] = "", every[16] = "";
  if (text) sscanf(text, "%31s %d %ld %31s %15s", call, &plan.rank, &plan.nth, what, every);
  plan.call = kind_of(call);
  plan.every = strcmp(every, "every") == 0;
  plan.brief = strcmp(what, "short") == 0;
  plan.kill = strcmp(what, "kill") == 0;
  if (strncmp(what, "sleep=", 6) == 0) plan.sleep = atof(what + 6);
  for (const Name& e : kErrors)
    if (strcmp(e.name, what) == 0) plan.error = e.value;
  plan.log = getenv("TESSERA_FAULT_LOG");
  plan.folder = getenv("TESSERA_FAULT_FOLDER");
  // Of mpirun's environment; children of a rank, and mpirun itself, are left alone.
  const char* program = getenv("TESSERA_FAULT_PROGRAM");
  char self[4096] = "";
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  ready = n > 0 && (!program || strcmp(program, self) == 0);
}

__attribute__((destructor)) void end() {
  static bool ended = false;
  if (!ready || plan.nth != 0 || ended) return;
  ended = true;
  ++inside;
  for (int k = 0; k < kKinds; ++k)
    if (counts[k] > 0) note("counted", counts[k], kCalls[k]);
  if (dates > 0) note("counted", dates, "clock");
}

// What is added to this reading of the date.
time_t shift() {
  if (!ready || jump == 0) return 0;
  const long n = dates++;
  return jump * ((n / 3 + my_rank) % 3 - 1);
}

struct Verdict {
  int error = 0;
  bool brief = false;
};

// Counts the call; what shall become of it.
Verdict ask(int kind) {
  if (!ready || inside > 0) return {};
  ++inside;
  const long n = ++counts[kind];
  Verdict v;
  if (kind == plan.call && my_rank == plan.rank && plan.nth > 0 &&
      (n == plan.nth || (plan.every && n > plan.nth))) {
    if (n == plan.nth) note("fault", n, kCalls[kind]);
    if (plan.kill) raise(SIGKILL);
    if (plan.sleep > 0) {
      timespec t{static_cast<time_t>(plan.sleep),
                 static_cast<long>((plan.sleep - static_cast<long>(plan.sleep)) * 1e9)};
      while (nanosleep(&t, &t) != 0) {
      }
    }
    v = {plan.error, plan.brief};
  }
  --inside;
  return v;
}

// Of a path, or of an open file: whether it lies where faults happen.
bool here(const char* path) {
  if (!ready || !path) return false;
  if (!plan.folder) return true;
  return strncmp(path, plan.folder, strlen(plan.folder)) == 0;
}
bool here(int fd) {
  if (!ready || fd < 0) return false;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return false;
  path[n] = '\0';
  return here(static_cast<const char*>(path));
}

template <class F>
F real(const char* name) {
  ++inside;
  const auto f = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
  --inside;
  return f;
}

}  // namespace

#define REAL(name) static const auto next = real<decltype(&::name)>(#name)
#define FAIL_IF(where, call, failed)                 \
  if (here(where)) {                                 \
    static const int kind = kind_of(call);           \
    if (const Verdict v = ask(kind); v.error != 0) { \
      errno = v.error;                               \
      return failed;                                 \
    }                                                \
  }

extern "C" {

// How the program ends: destructors of libraries are passed over.
[[noreturn]] void _exit(int code) {
  REAL(_exit);
  end();
  next(code);
  __builtin_unreachable();
}

int clock_gettime(clockid_t clock, timespec* t) {
  REAL(clock_gettime);
  const int code = next(clock, t);
  if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) t->tv_sec += shift();
  return code;
}
int gettimeofday(timeval* t, void* zone) {
  using F = int (*)(timeval*, void*);
  static const auto next = real<F>("gettimeofday");
  const int code = next(t, zone);
  if (code == 0) t->tv_sec += shift();
  return code;
}
time_t time(time_t* t) {
  REAL(time);
  const time_t now = next(nullptr) + shift();
  if (t) *t = now;
  return now;
}

int open(const char* path, int flags, ...) {
  REAL(open);
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  FAIL_IF(path, "open", -1)
  return next(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  REAL(open64);
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  FAIL_IF(path, "open", -1)
  return next(path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  REAL(fopen);
  FAIL_IF(path, "open", nullptr)
  return next(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  REAL(fopen64);
  FAIL_IF(path, "open", nullptr)
  return next(path, mode);
}

#define WRITES(name, call, ...)            \
  if (here(fd)) {                          \
    static const int kind = kind_of(call); \
    const Verdict v = ask(kind);           \
    if (v.error != 0) {                    \
      errno = v.error;                     \
      return -1;                           \
    }                                      \
    if (v.brief && count > 1) count /= 2;  \
  }
ssize_t write(int fd, const void* from, size_t count) {
  REAL(write);
  WRITES(write, "write")
  return next(fd, from, count);
}
ssize_t pwrite(int fd, const void* from, size_t count, off_t at) {
  REAL(pwrite);
  WRITES(pwrite, "pwrite")
  return next(fd, from, count, at);
}
ssize_t pwrite64(int fd, const void* from, size_t count, off64_t at) {
  REAL(pwrite64);
  WRITES(pwrite64, "pwrite")
  return next(fd, from, count, at);
}
ssize_t pread(int fd, void* to, size_t count, off_t at) {
  REAL(pread);
  WRITES(pread, "read")
  return next(fd, to, count, at);
}
ssize_t pread64(int fd, void* to, size_t count, off64_t at) {
  REAL(pread64);
  WRITES(pread64, "read")
  return next(fd, to, count, at);
}
ssize_t read(int fd, void* to, size_t count) {
  REAL(read);
  WRITES(read, "read")
  return next(fd, to, count);
}
size_t fwrite(const void* from, size_t size, size_t count, FILE* file) {
  REAL(fwrite);
  FAIL_IF(fileno(file), "write", 0)
  return next(from, size, count, file);
}
int fsync(int fd) {
  REAL(fsync);
  FAIL_IF(fd, "fsync", -1)
  return next(fd);
}
int rename(const char* from, const char* to) {
  REAL(rename);
  FAIL_IF(to, "rename", -1)
  return next(from, to);
}
int ftruncate(int fd, off_t length) noexcept {
  REAL(ftruncate);
  FAIL_IF(fd, "ftruncate", -1)
  return next(fd, length);
}
int ftruncate64(int fd, off64_t length) noexcept {
  REAL(ftruncate64);
  FAIL_IF(fd, "ftruncate", -1)
  return next(fd, length);
}
int flock(int fd, int how) noexcept {
  REAL(flock);
  FAIL_IF(fd, "flock", -1)
  return next(fd, how);
}
int mkdir(const char* path, mode_t mode) noexcept {
  REAL(mkdir);
  FAIL_IF(path, "mkdir", -1)
  return next(path, mode);
}
int unlink(const char* path) noexcept {
  REAL(unlink);
  FAIL_IF(path, "unlink", -1)
  return next(path);
}
int close(int fd) {
  REAL(close);
  if (here(fd)) {
    static const int kind = kind_of("close");
    if (const Verdict v = ask(kind); v.error != 0) {
      next(fd);
      errno = v.error;
      return -1;
    }
  }
  return next(fd);
}

#define MPI_FAULT(name)                                            \
  {                                                                \
    static const int kind = kind_of(#name);                        \
    if (const Verdict v = ask(kind); v.error != 0) return v.error; \
  }
int MPI_Allreduce(const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c) {
  MPI_FAULT(MPI_Allreduce)
  return PMPI_Allreduce(a, b, n, t, o, c);
}
int MPI_Bcast(void* a, int n, MPI_Datatype t, int r, MPI_Comm c) {
  MPI_FAULT(MPI_Bcast)
  return PMPI_Bcast(a, n, t, r, c);
}
int MPI_Iallreduce(const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* q) {
  MPI_FAULT(MPI_Iallreduce)
  return PMPI_Iallreduce(a, b, n, t, o, c, q);
}
int MPI_Isend(const void* a, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Request* q) {
  MPI_FAULT(MPI_Isend)
  return PMPI_Isend(a, n, t, r, g, c, q);
}
int MPI_Irecv(void* a, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Request* q) {
  MPI_FAULT(MPI_Irecv)
  return PMPI_Irecv(a, n, t, r, g, c, q);
}
int MPI_Waitall(int n, MPI_Request* q, MPI_Status* s) {
  MPI_FAULT(MPI_Waitall)
  return PMPI_Waitall(n, q, s);
}
int MPI_Wait(MPI_Request* q, MPI_Status* s) {
  MPI_FAULT(MPI_Wait)
  return PMPI_Wait(q, s);
}
int MPI_Init_thread(int* argc, char*** argv, int wanted, int* given) {
  begun = true;
  return PMPI_Init_thread(argc, argv, wanted, given);
}
int MPI_Barrier(MPI_Comm c) {
  MPI_FAULT(MPI_Barrier)
  return PMPI_Barrier(c);
}
int MPI_Ssend(const void* a, int n, MPI_Datatype t, int r, int g, MPI_Comm c) {
  MPI_FAULT(MPI_Ssend)
  return PMPI_Ssend(a, n, t, r, g, c);
}
int MPI_Recv(void* a, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Status* s) {
  MPI_FAULT(MPI_Recv)
  return PMPI_Recv(a, n, t, r, g, c, s);
}
int MPI_Allgather(const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c) {
  MPI_FAULT(MPI_Allgather)
  return PMPI_Allgather(a, n, t, b, m, u, c);
}

}  // extern "C"

// Of the program's own code and of libraries in C++; malloc is left alone, since C libraries end the process
// without it.
void* operator new(size_t size) {
  static const int kind = kind_of("new");
  if (ready && begun && ask(kind).error != 0) throw std::bad_alloc();
  if (void* p = malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
void* operator new[](size_t size) { return operator new(size); }
void operator delete(void* p) noexcept { free(p); }
void operator delete[](void* p) noexcept { free(p); }
void operator delete(void* p, size_t) noexcept { free(p); }
void operator delete[](void* p, size_t) noexcept { free(p); }
