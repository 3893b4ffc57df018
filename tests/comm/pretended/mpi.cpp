// SPDX-License-Identifier: BSD-3-Clause
// What MPI does to device and pinned memory, told to the stand-in through MPI's profiling names.
#include <mpi.h>

#include "runtime.hpp"

using namespace tessera::test::pretended;

namespace {

// Of the main thread. Sends that are done at once may all have the same handle.
std::multimap<MPI_Request, std::shared_ptr<Access>> flights;

void begin(const void* data, int count, MPI_Datatype type, bool write, MPI_Request request) {
  int size = 0;
  PMPI_Type_size(type, &size);
  const auto bytes = static_cast<std::size_t>(size) * static_cast<std::size_t>(count);
  if (bytes == 0) return;
  if (auto access =
          begin_access({data, bytes, write}, write ? "a message that arrives" : "a message that leaves"))
    flights.emplace(request, access);
}
void end(MPI_Request request) {
  const auto [first, last] = flights.equal_range(request);
  for (auto it = first; it != last; ++it) end_access(it->second);
  flights.erase(first, last);
}

}  // namespace

extern "C" {

// The stand-in's thread moves messages too.
int MPI_Init_thread(int* argc, char*** argv, int, int* provided) {
  return PMPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, provided);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const int code = PMPI_Irecv(data, count, type, from, tag, comm, request);
  begin(data, count, type, true, *request);
  return code;
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const int code = PMPI_Isend(data, count, type, to, tag, comm, request);
  begin(data, count, type, false, *request);
  return code;
}
int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  const MPI_Request was = *request;
  const int code = PMPI_Wait(request, status);
  end(was);
  return code;
}
int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  const std::vector<MPI_Request> were(requests, requests + count);
  const int code = PMPI_Waitall(count, requests, statuses);
  for (const MPI_Request r : were) end(r);
  return code;
}
int MPI_Testall(int count, MPI_Request* requests, int* done, MPI_Status* statuses) {
  const std::vector<MPI_Request> were(requests, requests + count);
  const int code = PMPI_Testall(count, requests, done, statuses);
  if (*done)
    for (const MPI_Request r : were) end(r);
  return code;
}

}  // extern "C"
