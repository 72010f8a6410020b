#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace lathe::host {

/// A Python interpreter that has torch.
struct Python {
  std::string program;
  std::string version;                 ///< "Python 3.11.2, torch 1.13.0a0"
  std::vector<std::string> folders;    ///< beyond /usr that it reads
  std::vector<std::string> includes;   ///< for extensions: Python's, torch's, pybind11's, Triton's headers
  std::vector<std::string> libraries;  ///< folders of torch's, where the linker does not look by itself
};

/// Asks an interpreter, which takes a second. `chosen`: $LATHE_PYTHON, else /usr/bin/python3 where
/// it is empty. kUnavailable, with what to install.
Result<Python> find_python(const std::string& chosen);

}  // namespace lathe::host
