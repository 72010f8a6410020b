#include "backend/host/python.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/process.h"

namespace lathe::host {
namespace {

constexpr double kSeconds = 60;

// Prints the interpreter, a line of versions, then folders, each behind its kind.
constexpr const char* kQuestion = R"py(
import importlib.util, os, platform, sys, sysconfig
spec = importlib.util.find_spec("torch")
if spec is None:
    sys.exit(3)
import torch
print("program", sys.executable)
print("version Python", platform.python_version() + ", torch", torch.__version__)
for path in {sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(torch.__file__))}:
    print("folder", os.path.realpath(path))
root = os.path.join(os.path.dirname(torch.__file__), "include")
print("include", os.path.realpath(root))
print("include", os.path.realpath(os.path.join(root, "torch/csrc/api/include")))
print("include", sysconfig.get_paths()["include"])
print("library", os.path.realpath(os.path.join(os.path.dirname(torch.__file__), "lib")))
triton = importlib.util.find_spec("triton")
if triton is not None and triton.origin:
    print("include", os.path.realpath(os.path.join(os.path.dirname(triton.origin), "backends/nvidia/include")))
)py";

Error without_torch(const std::string& program, const std::string& why) {
  return {ErrorCode::kUnavailable, "no Python candidates: " + program + " " + why,
          "install PyTorch for it (Debian: apt-get install python3-torch; for load_inline libtorch-dev and "
          "pybind11-dev besides), or name another interpreter in LATHE_PYTHON"};
}

Result<Python> ask(const std::string& program) {
  Python python;
  auto run = run_command({.argv = {program, "-I", "-c", kQuestion}}, {}, kSeconds);
  if (!run.ok()) return without_torch(program, "does not start: " + run.error().message);
  if (run->status.code == 3 && run->status.signal == 0) return without_torch(program, "has no torch");
  if (!run->status.ok()) return without_torch(program, "cannot import torch: " + run->errors.substr(0, 1000));
  std::istringstream lines(run->output);
  for (std::string line; std::getline(lines, line);) {
    const std::string rest = line.substr(std::min(line.size(), line.find(' ') + 1));
    if (line.starts_with("program ")) python.program = rest;
    if (line.starts_with("version ")) python.version = rest;
    if (line.starts_with("include ")) python.includes.push_back(rest);
    if (line.starts_with("library ") && std::filesystem::exists(rest)) python.libraries.push_back(rest);
    if (line.starts_with("folder ") && !rest.starts_with("/usr/") && rest != "/usr" && rest != "/")
      python.folders.push_back(rest);
  }
  // Debian's package has links there to the headers of its own.
  if (std::filesystem::exists("/usr/include/torch/csrc/api/include"))
    python.includes.emplace_back("/usr/include/torch/csrc/api/include");
  if (python.version.empty() || python.program.empty())
    return without_torch(program, "says nothing of torch");
  return python;
}

}  // namespace

Result<Python> find_python(const std::string& chosen) {
  const char* const named = std::getenv("LATHE_PYTHON");
  if (!chosen.empty()) return ask(chosen);
  if (named && *named) return ask(named);
  auto first = ask("/usr/bin/python3");
  if (first.ok()) return first;
  auto on_path = ask("python3");
  return on_path.ok() ? std::move(on_path) : std::move(first);
}

}  // namespace lathe::host
