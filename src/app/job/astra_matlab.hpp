// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera {

/// ASTRA's dict of a geometry in a file of MATLAB, as MATLAB and scipy.io.savemat write it, as the JSON text of that dict: the
/// struct that has a field type, or the variables themselves. `bytes`: the file. InputError as read_matlab(), and where
/// there is none or there are several. Not collective.
std::string astra_json(const std::string& bytes, const std::string& path);

}  // namespace tessera
