// SPDX-License-Identifier: BSD-3-Clause
// NCCL's part of the stand-in: a communicator that joins and takes groups when it pleases; messages over MPI.
#include <mpi.h>
#include <nccl.h>

#include <cstring>
#include <deque>
#include <list>

#include "capture.hpp"

using namespace tessera::test::pretended;
using tessera::concat;

namespace {

struct Message {
  bool send;
  char* data;
  std::size_t bytes;
  int peer;
};
struct Group {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Message> messages;
  std::uint64_t behind = 0;  // what the stream had been given when the group ended
};
struct Id {
  int root = 0, tag = 0;  // in the launch
};

thread_local Group group;
thread_local bool grouping = false;
int communicators = 0;

int world_rank() {
  int initialized = 0, rank = 0;
  PMPI_Initialized(&initialized);
  if (initialized) PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

}  // namespace

// The messages of one group under way; in a graph, of each launch in turn.
struct Flight {
  bool begun = false;
  std::vector<MPI_Request> requests;
};

struct ncclComm {
  int size = 0, rank = 0;
  Id id;
  std::vector<int> world;               // ranks in the launch; empty: still joining
  std::list<std::pair<int, int>> said;  // root: who has said where it is
  std::deque<Group> waiting;            // taken by no stream yet
  int running = 0;                      // groups in streams
  bool aborted = false;
  ncclResult_t error = ncclSuccess;
  bool blocking = false;
  std::list<std::weak_ptr<Flight>> recorded;  // in graphs

  void join() {
    if (!world.empty() || behavior().nccl_never_joins) return;
    if (size == 1) {
      world = {world_rank()};
      return;
    }
    int there = 0, words[2];
    MPI_Status status;
    if (rank == 0) {
      for (;;) {
        PMPI_Iprobe(MPI_ANY_SOURCE, id.tag, MPI_COMM_WORLD, &there, &status);
        if (!there) break;
        PMPI_Recv(words, 2, MPI_INT, status.MPI_SOURCE, id.tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        said.emplace_back(words[0], words[1]);
      }
      if (static_cast<int>(said.size()) < size) return;
      world.resize(static_cast<std::size_t>(size));
      for (const auto& [r, w] : said) world[static_cast<std::size_t>(r)] = w;
      for (const int w : world) {
        MPI_Request request;
        if (w != world_rank()) {
          PMPI_Isend(world.data(), size, MPI_INT, w, id.tag + 1, MPI_COMM_WORLD, &request);
          PMPI_Request_free(&request);
        }
      }
      return;
    }
    PMPI_Iprobe(id.root, id.tag + 1, MPI_COMM_WORLD, &there, &status);
    if (!there) return;
    std::vector<int> all(static_cast<std::size_t>(size));
    PMPI_Recv(all.data(), size, MPI_INT, id.root, id.tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    world = all;
  }

  void launch(Group g) {
    if (given(g.stream) != g.behind) report("a group is launched behind what its stream was given after it");
    const auto flight = std::make_shared<Flight>();
    if (capture_of(g.stream)) recorded.push_back(flight);
    std::vector<Range> ranges;
    for (const Message& m : g.messages) ranges.push_back({m.data, m.bytes, !m.send});
    const auto begin = [this, g](Flight* flight) {
      ++running;
      std::vector<Message> own;  // to itself, in order
      for (const Message& m : g.messages)
        if (m.send && m.peer == rank) own.push_back(m);
      std::size_t next = 0;
      for (const Message& m : g.messages) {
        const int peer = world[static_cast<std::size_t>(m.peer)], tag = id.tag + 2;
        if (m.peer == rank) {
          if (!m.send) std::memcpy(m.data, own.at(next++).data, m.bytes);
          continue;
        }
        flight->requests.emplace_back();
        if (m.send)
          PMPI_Isend(m.data, static_cast<int>(m.bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                     &flight->requests.back());
        else
          PMPI_Irecv(m.data, static_cast<int>(m.bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                     &flight->requests.back());
      }
    };
    enqueue(
        g.stream, "an NCCL group", ranges,
        [this, begin, flight] {
          if (aborted) return true;
          if (behavior().nccl_group_hangs) return false;
          if (!std::exchange(flight->begun, true)) begin(flight.get());
          int done = 0;
          PMPI_Testall(static_cast<int>(flight->requests.size()), flight->requests.data(), &done,
                       MPI_STATUSES_IGNORE);
          return done != 0;
        },
        [this, flight] {
          for (MPI_Request& r : flight->requests)
            if (r != MPI_REQUEST_NULL) {
              PMPI_Cancel(&r);
              PMPI_Request_free(&r);
            }
          if (flight->begun) --running;
          *flight = {};
        });
  }

  /// Something of what is waiting happens, or nothing.
  ncclResult_t poll() {
    if (error != ncclSuccess) return error;
    join();
    if (!world.empty() && !waiting.empty() && chance(0.3)) {
      launch(std::move(waiting.front()));
      waiting.pop_front();
    }
    return world.empty() || !waiting.empty() ? ncclInProgress : ncclSuccess;
  }
};

extern "C" {

const char* ncclGetErrorString(ncclResult_t) { return "an error of the stand-in"; }
ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  with_lock([&] {
    const Id mine{world_rank(), 20000 + 3 * (communicators++ % 2000)};
    std::memcpy(id, &mine, sizeof mine);
  });
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (behavior().nccl_refuses) return ncclSystemError;
  with_lock([&] {
    *comm = new ncclComm{};
    (*comm)->size = size;
    (*comm)->rank = rank;
    std::memcpy(static_cast<void*>(&(*comm)->id), &id, sizeof(Id));
    (*comm)->blocking = config->blocking != 0;
    if (size == 1) return;
    const int words[2] = {rank, world_rank()};
    if (rank == 0)
      (*comm)->said.emplace_back(words[0], words[1]);
    else
      PMPI_Send(words, 2, MPI_INT, (*comm)->id.root, (*comm)->id.tag, MPI_COMM_WORLD);
  });
  if (config->blocking == 0) return ncclInProgress;
  const double start = seconds();
  for (bool joined = false; !joined; std::this_thread::sleep_for(std::chrono::microseconds(50))) {
    with_lock([&] {
      (*comm)->join();
      joined = !(*comm)->world.empty();
    });
    if (seconds() - start > 60) {
      std::fprintf(stderr, "a blocking communicator waits for ever for its ranks\n");
      std::abort();
    }
  }
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  with_lock([&] { *state = comm->poll(); });
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  with_lock([&] { comm->aborted = true; });  // its operations still refer to it: never freed
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  with_lock([&] {
    if (!comm->waiting.empty()) report("a communicator is finalized with a group that no stream has taken");
    for (const auto& flight : comm->recorded)
      if (!flight.expired())
        report("a communicator is finalized before a graph that holds its messages is gone");
  });
  if (!comm->blocking) return ncclInProgress;
  // It ends when all ranks have come here.
  int word = comm->rank;
  const int root = comm->world[0], ask = comm->id.tag, answer = comm->id.tag + 1;
  if (comm->rank > 0) PMPI_Send(&word, 1, MPI_INT, root, ask, MPI_COMM_WORLD);
  const double start = seconds();
  for (int wanted = comm->rank > 0 ? 1 : comm->size - 1; wanted > 0;) {
    int there = 0;
    MPI_Status status;
    PMPI_Iprobe(MPI_ANY_SOURCE, comm->rank > 0 ? answer : ask, MPI_COMM_WORLD, &there, &status);
    if (there) {
      PMPI_Recv(&word, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      --wanted;
    } else if (seconds() - start > 20) {
      with_lock([] { report("a communicator is finalized by some ranks alone: it waits for ever"); });
      return ncclSystemError;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  for (int r = 1; comm->rank == 0 && r < comm->size; ++r)
    PMPI_Send(&word, 1, MPI_INT, comm->world[static_cast<std::size_t>(r)], answer, MPI_COMM_WORLD);
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  with_lock([&] {
    if (comm->running > 0) report("a communicator is destroyed with groups in flight");
  });
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  grouping = true;
  group = {};
  return ncclSuccess;
}
static ncclResult_t add(bool send, const void* data, std::size_t bytes, int peer, ncclComm_t comm,
                        cudaStream_t stream) {
  with_lock([&] {
    if (!grouping) report("a message outside of a group");
    if (!comm->waiting.empty()) report("a call while the communicator is in progress");
    group.comm = comm;
    group.stream = stream;
    group.messages.push_back({send, static_cast<char*>(const_cast<void*>(data)), bytes, peer});
  });
  return comm->blocking ? ncclSuccess : ncclInProgress;
}
ncclResult_t ncclSend(const void* data, std::size_t n, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t s) {
  return add(true, data, n, peer, comm, s);
}
ncclResult_t ncclRecv(void* data, std::size_t n, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t s) {
  return add(false, data, n, peer, comm, s);
}
ncclResult_t ncclGroupEnd() {
  grouping = false;
  if (!group.comm) return ncclSuccess;
  ncclResult_t result = group.comm->blocking ? ncclSuccess : ncclInProgress;
  with_lock([&] {
    if (behavior().nccl_group_fails)
      result = group.comm->error = ncclSystemError;
    else {
      group.behind = given(group.stream);
      if (group.comm->blocking)
        group.comm->launch(group);
      else
        group.comm->waiting.push_back(group);
    }
  });
  return result;
}

}  // extern "C"
