// SPDX-License-Identifier: BSD-3-Clause
// A preload library that writes down what a process opens: TESSERA_OPENS=FOLDER. Each call of open, openat, fopen and
// their like on a path in that folder becomes a line "rank name" of FOLDER.opens.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace {

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void note(const char* path) {
  const char* const folder = getenv("TESSERA_OPENS");
  if (!folder || !path || strncmp(path, folder, strlen(folder)) != 0 || path[strlen(folder)] != '/') return;
  const char* const rank = getenv("OMPI_COMM_WORLD_RANK");
  char log[4096], line[4096];
  snprintf(log, sizeof log, "%s.opens", folder);
  const int length = snprintf(line, sizeof line, "%s %s\n", rank ? rank : "0", path + strlen(folder) + 1);
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  const int to = real(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (to < 0 || write(to, line, static_cast<size_t>(length)) != length) abort();
  close(to);
}

}  // namespace

#define TESSERA_OPEN(name)                                                        \
  int name(const char* path, int flags, ...) {                                    \
    va_list rest;                                                                 \
    va_start(rest, flags);                                                        \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                                 \
    note(path);                                                                   \
    static const auto real = next<int (*)(const char*, int, ...)>(#name);         \
    return real(path, flags, mode);                                               \
  }
#define TESSERA_OPENAT(name)                                                      \
  int name(int folder, const char* path, int flags, ...) {                        \
    va_list rest;                                                                 \
    va_start(rest, flags);                                                        \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                                 \
    note(path);                                                                   \
    static const auto real = next<int (*)(int, const char*, int, ...)>(#name);    \
    return real(folder, path, flags, mode);                                       \
  }
#define TESSERA_CHECKED(name)                                        \
  int name(const char* path, int flags) {                            \
    note(path);                                                      \
    static const auto real = next<int (*)(const char*, int)>(#name); \
    return real(path, flags);                                        \
  }
#define TESSERA_FOPEN(name)                                                    \
  FILE* name(const char* path, const char* mode) {                             \
    note(path);                                                                \
    static const auto real = next<FILE* (*)(const char*, const char*)>(#name); \
    return real(path, mode);                                                   \
  }

extern "C" {
TESSERA_OPEN(open)
TESSERA_OPEN(open64)
TESSERA_OPENAT(openat)
TESSERA_OPENAT(openat64)
TESSERA_CHECKED(__open_2)
TESSERA_CHECKED(__open64_2)
TESSERA_FOPEN(fopen)
TESSERA_FOPEN(fopen64)
}
