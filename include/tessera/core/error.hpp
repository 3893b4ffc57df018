// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace tessera {

/// A bug of ours: a contract between two parts of tessera was broken.
class ContractError : public std::logic_error {
  using std::logic_error::logic_error;
};

/// What InputError and RunError share.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  bool everywhere = false;  // every rank has it (Communicator::together): the ranks may go on after it
};

/// Bad input of the user: one message, exit code 2, nothing started and nothing overwritten.
class InputError : public Error {
  using Error::Error;
};

/// A file is not what was written: it was cut, or a checksum differs. A file that cannot be read is not that.
class DamageError : public InputError {
  using InputError::InputError;
};

/// A run failed on its way (a library call, a full disk, a lost peer): exit code 3.
class RunError : public Error {
  using Error::Error;
};

/// The parts of a message, joined as `<<` prints them.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace tessera

/// The user's input; always on. Message: `<problem> (<why it is one>) <suggestion>`.
#define TESSERA_VALIDATE(condition, ...)                                           \
  do {                                                                             \
    if (!(condition)) throw ::tessera::InputError(::tessera::concat(__VA_ARGS__)); \
  } while (false)

/// Our own bugs, at entry (EXPECT) and at exit (ENSURE) of a function; on in checked builds. The condition
/// must have no effect: it is not evaluated where checks are off.
#ifdef TESSERA_CHECKED
#define TESSERA_EXPECT(condition, ...)                                                               \
  do {                                                                                               \
    if (!(condition))                                                                                \
      throw ::tessera::ContractError(::tessera::concat(__FILE__, ":", __LINE__, ": ", __VA_ARGS__)); \
  } while (false)
#else
#define TESSERA_EXPECT(condition, ...) \
  do {                                 \
  } while (false)
#endif
#define TESSERA_ENSURE(condition, ...) TESSERA_EXPECT(condition, __VA_ARGS__)
