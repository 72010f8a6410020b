// lathe-torch: finds LibTorch on this machine and becomes lathe-torch-engine, or lathe-torch-train
// for the verb `train`, which are linked against it. So one build runs beside the wheel that it was
// built with and beside a GPU machine's complete torch.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/guard.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "lm/program/torch_home.h"

namespace lathe::lm {
namespace {

/// Folders of CUDA toolkits, newest first, for a torch without NVIDIA's packages beside it.
std::vector<std::string> toolkit_folders() {
  std::vector<std::string> folders;
  std::error_code code;
  for (std::filesystem::directory_iterator it("/usr/local", code), end; !code && it != end;
       it.increment(code))
    if (it->path().filename().string().starts_with("cuda")) folders.push_back(it->path().string() + "/lib64");
  std::ranges::sort(folders, std::greater());
  return folders;
}

Status become_engine(char** argv) {
  const std::string folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  LATHE_TRY(std::string path, find_torch_libraries(folder));
  for (const std::string& toolkit : toolkit_folders()) path += ":" + toolkit;
  if (const char* const own = std::getenv("LD_LIBRARY_PATH"); own && *own) path += std::string(":") + own;
  ::setenv("LD_LIBRARY_PATH", path.c_str(), 1);
  const bool trains = argv[0] && argv[1] && std::string_view(argv[1]) == "train";
  // A processor that someone else uses makes threads that spin wait for it; steps are long enough
  // to sleep.
  if (trains) ::setenv("OMP_WAIT_POLICY", "passive", 0);
  const std::string engine = folder + (trains ? "/lathe-torch-train" : "/lathe-torch-engine");
  ::execv(engine.c_str(), argv);
  return errno_error("cannot start " + engine, "build or install Lathe whole");
}

}  // namespace
}  // namespace lathe::lm

int main(int, char** argv) {
  using namespace lathe;
  if (!cli::open_standard_streams()) return cli::kMachine;
  const Status failed = without_exceptions([&] { return lm::become_engine(argv); });
  return cli::fail(failed.error());
}
