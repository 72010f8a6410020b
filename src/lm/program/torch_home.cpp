#include "lm/program/torch_home.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/fd.h"
#include "base/process.h"

namespace lathe::lm {
namespace {

constexpr double kPythonSeconds = 20;

std::string python_torch() {
  // find_spec() does not run torch's own code, which takes seconds.
  constexpr char kAsk[] =
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else "
      "'')";
  const auto asked = run_command({.argv = {"python3", "-c", kAsk}}, "", kPythonSeconds);
  if (!asked.ok() || !asked->status.ok()) return "";
  return asked->output.substr(0, asked->output.find('\n'));
}

/// "" or why the folder cannot be used.
std::string objection(const std::string& folder) {
  std::error_code code;
  if (folder.empty() || !std::filesystem::exists(folder + "/lib/libtorch_cpu.so", code)) return "no LibTorch";
  const auto version = read_file(folder + "/version.py", 1 << 16);
  constexpr char kWanted[] = "__version__ = '" LATHE_TORCH_VERSION;
  if (version.ok() && version->find(kWanted) != std::string::npos) return "";
  return "not version " LATHE_TORCH_VERSION;
}

}  // namespace

Result<std::string> find_torch_libraries(const std::string& program_folder) {
  if (const char* const given = std::getenv("LATHE_TORCH"); given && *given) {
    const std::string why = objection(given);
    if (why.empty()) return std::string(given) + "/lib";
    return Error{ErrorCode::kNotFound, fmt::format("LATHE_TORCH={}: {}", given, why),
                 "give the folder `torch` of the Python package torch==" LATHE_TORCH_VERSION};
  }
  std::vector<std::string> folders = {program_folder + "/../lib/torch", LATHE_BUILT_WITH_TORCH};
  std::error_code code;
  const bool has_gpu = std::filesystem::exists("/dev/nvidiactl", code);
  std::string tried;
  for (int part = 0; part < 2; ++part) {
    const bool ask_python = has_gpu == (part == 0);
    for (const std::string& folder : ask_python ? std::vector{python_torch()} : folders) {
      const std::string why = objection(folder);
      if (why.empty()) return folder + "/lib";
      tried += fmt::format("; {}: {}", folder.empty() ? "python3" : folder, why);
    }
  }
  return Error{ErrorCode::kNotFound, "LibTorch " LATHE_TORCH_VERSION " was not found" + tried,
               "run scripts/fetch_torch.sh, or set LATHE_TORCH to the folder `torch` of that Python package"};
}

}  // namespace lathe::lm
