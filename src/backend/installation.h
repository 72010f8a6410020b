#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace lathe {

/// The path of a part of the installation: `chosen` if not empty, else the first of `choices` that
/// exists.
Result<std::string> find_part(const std::string& chosen, const std::vector<std::string>& choices);

/// A helper program: `chosen`, or `name` beside the running program or in ../libexec.
Result<std::string> find_program(const std::string& chosen, const std::string& name);

/// The folder that holds lathe/cpu.h, of the installation or the source tree.
Result<std::string> device_header_folder();

}  // namespace lathe
