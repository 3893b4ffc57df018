// SPDX-License-Identifier: BSD-3-Clause
#include "command.hpp"
#include "tessera/app/problem.hpp"
#include "tessera/config/parse.hpp"
#include "tessera/io/files.hpp"

namespace tessera {

JobConfig load_job(const std::string& path, const std::vector<std::string>& overrides,
                   const Communicator& comm, Purpose purpose) {
  std::string text;
  comm.together([&] {
    if (comm.rank() == 0) text = read_text(path);
  });
  text = comm.broadcast(text, 0);
  FileProblem file;
  comm.together([&] { file.path = named_measurements(text, path, overrides); });
  file.text = measurement_problem(file.path, comm);
  JobConfig job;
  comm.together([&] { job = parse_job(text, path, overrides, file, purpose); });
  return job;
}

}  // namespace tessera
