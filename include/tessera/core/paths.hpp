// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera {

/// A path of a job file with the home folder for a leading ~ and the environment's values for $NAME and ${NAME}, as a shell
/// would read it; as it stands where there is something of that name in `folder`. InputError for another's home and for
/// variables that are not set.
std::string expand_path(const std::string& path, const std::string& folder);

}  // namespace tessera
