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

/// liblathe_vendor.so or its like: `chosen`, or `name` in ../lib or beside the running program.
Result<std::string> find_vendor_library(const std::string& chosen, const std::string& name);

/// A folder of data, as "tests/conformance", that has `member`: of the unpacked archive, of an
/// installation (share/lathe), or of the source tree.
Result<std::string> find_data_folder(const std::string& folder, const std::string& member);

/// The folder that holds lathe/cpu.h.
Result<std::string> device_header_folder();

}  // namespace lathe
