#include "backend/cuda/broker/disassembler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "backend/object_cache.h"
#include "base/fd.h"

namespace lathe::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "nvdisasm";
/// In PyPI's nvidia-cuda-nvdisasm and triton.
constexpr const char* kInPackages[] = {"nvidia/cu13/bin/nvdisasm", "triton/backends/nvidia/bin/nvdisasm"};
constexpr double kTimeoutSeconds = 60;  // on a machine that is busy with other kernels
constexpr std::size_t kMaxCubinBytes = 4u << 20;

bool can_run(const fs::path& program) { return ::access(program.c_str(), X_OK) == 0; }

std::vector<fs::path> folders_on_path() {
  std::vector<fs::path> folders;
  const char* const path = std::getenv("PATH");
  std::istringstream list(path ? path : "");
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty()) folders.emplace_back(folder);
  return folders;
}

/// nvdisasm in the Python installation whose programs are in `folder`; empty if there is none.
fs::path in_python(const fs::path& folder) {
  std::error_code code;
  for (const char* library : {"lib", "local/lib"})
    for (fs::directory_iterator python(folder.parent_path() / library, code), end; !code && python != end;
         python.increment(code)) {
      if (!python->path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"})
        for (const char* place : kInPackages)
          if (const fs::path program = python->path() / packages / place; can_run(program)) return program;
    }
  return {};
}

}  // namespace

std::string find_disassembler() {
  std::vector<fs::path> folders = folders_on_path();
  for (const fs::path& folder : folders)
    if (can_run(folder / kName)) return folder / kName;
  if (const fs::path program = fs::path("/usr/local/cuda/bin") / kName; can_run(program)) return program;
  std::error_code code;
  for (const fs::path& folder : folders) {
    if (!can_run(folder / "python3")) continue;
    if (const fs::path program = in_python(folder); !program.empty()) return program;
    const fs::path real = fs::canonical(folder / "python3", code).parent_path();
    if (const fs::path program = in_python(real); !code && !program.empty()) return program;
  }
  return {};
}

Result<std::unique_ptr<Disassembler>> Disassembler::open(const std::string& runner_program,
                                                         const std::string& cache_folder) {
  const std::string program = find_disassembler();
  if (program.empty())
    return Error{ErrorCode::kUnavailable, "no nvdisasm: the instruction mix is unknown",
                 "install the CUDA toolkit's binary utilities, or PyPI's nvidia-cuda-nvdisasm"};
  LATHE_TRY(const std::string bytes, read_file(program));
  LATHE_TRY(const ObjectCache cache, ObjectCache::open(cache_folder));
  LATHE_TRY(const std::string folder,
            cache.publish_folder(
                "nvdisasm-" + digest_of(bytes).short_hex(), [&](const std::string& staging) -> Status {
                  std::error_code code;
                  fs::copy_file(program, staging + "/" + kName, code);
                  if (!code) return Ok{};
                  return Error{ErrorCode::kUnavailable, "cannot copy nvdisasm: " + code.message()};
                }));
  return std::unique_ptr<Disassembler>(new Disassembler(runner_program, folder + "/" + kName));
}

Result<std::string> Disassembler::run(const std::string& cubin) {
  if (cubin.size() > kMaxCubinBytes)
    return Error{ErrorCode::kUnavailable, "the cubin is too large to disassemble"};
  LATHE_TRY(CompiledObject text, workers_.run({cubin, {}, kTimeoutSeconds}, {}));
  if (text.reply.timed_out)
    return Error{ErrorCode::kUnavailable, fmt::format("nvdisasm took more than {:.0f} s", kTimeoutSeconds)};
  if (!text.reply.ok)
    return Error{ErrorCode::kUnavailable, "nvdisasm failed: " + text.reply.log.substr(0, 200)};
  return std::move(text.bytes);
}

}  // namespace lathe::cuda
