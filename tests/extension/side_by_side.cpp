// SPDX-License-Identifier: BSD-3-Clause
// Two jobs in one program: the first half of the ranks runs one while the other half runs the other, and then
// each the other's. Arguments: two jobs, and the folder that results go below.
#include <cstdlib>
#include <string>
#include <vector>

#include "tessera/app/commands.hpp"

namespace {

int run(const std::string& job, const std::string& folder, const tessera::Communicator& comm) {
  std::vector<std::string> words{"tessera", "run", job, "--set", "output.folder=" + folder};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return tessera::tessera_main(static_cast<int>(arguments.size()), arguments.data(), comm);
}

}  // namespace

int main(int argc, char** argv) {
  tessera::MpiSession session(&argc, &argv);
  if (argc != 4) session.end(2);
  const tessera::Communicator world = tessera::Communicator::world();
  const int half = 2 * world.rank() / world.size();
  const tessera::Communicator mine = world.split(half, world.rank());
  const std::string folder = argv[3];
  int code = run(argv[1 + half], folder + "/first-" + std::to_string(half), mine);
  if (code == 0) code = run(argv[2 - half], folder + "/second-" + std::to_string(1 - half), mine);
  session.end(code);
}
