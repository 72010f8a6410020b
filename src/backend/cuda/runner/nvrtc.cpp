#include "backend/cuda/runner/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "base/clock.h"
#include "base/symbol_binder.h"

namespace lathe::cuda {

struct Nvrtc::Functions {
  using Code = int;
  using Program = struct ProgramTag*;
  Code (*version)(int* major, int* minor);
  Code (*create)(Program*, const char* source, const char* name, int headers, const char* const* texts,
                 const char* const* names);
  Code (*destroy)(Program*);
  Code (*compile)(Program, int count, const char* const* options);
  Code (*log_size)(Program, std::size_t*);
  Code (*log)(Program, char*);
  Code (*cubin_size)(Program, std::size_t*);
  Code (*cubin)(Program, char*);
};

namespace {

constexpr std::array kLibraries = {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.13",
                                   "/usr/local/cuda/lib64/libnvrtc.so.12"};

/// The sizes that NVRTC reports include a terminating zero.
template <class Size, class Get, class Program>
std::string text_of(Program program, Size size, Get get) {
  std::size_t bytes = 0;
  if (size(program, &bytes) != 0 || bytes == 0) return {};
  std::string text(bytes, '\0');
  get(program, text.data());
  return text;
}

}  // namespace

Result<Nvrtc> Nvrtc::open() {
  void* const library = open_library(kLibraries);
  if (library == nullptr)
    return Error{ErrorCode::kUnavailable, "no libnvrtc", "install the CUDA toolkit 12 or later"};
  static Functions functions;
  SymbolBinder binder(library);
  binder.bind(functions.version, "nvrtcVersion");
  binder.bind(functions.create, "nvrtcCreateProgram");
  binder.bind(functions.destroy, "nvrtcDestroyProgram");
  binder.bind(functions.compile, "nvrtcCompileProgram");
  binder.bind(functions.log_size, "nvrtcGetProgramLogSize");
  binder.bind(functions.log, "nvrtcGetProgramLog");
  binder.bind(functions.cubin_size, "nvrtcGetCUBINSize");
  binder.bind(functions.cubin, "nvrtcGetCUBIN");
  int major = 0, minor = 0;
  if (binder.missing() || functions.version(&major, &minor) != 0)
    return Error{ErrorCode::kUnavailable, "libnvrtc lacks functions that Lathe needs",
                 "install CUDA 12 or later"};
  Nvrtc nvrtc;
  nvrtc.functions_ = &functions;
  nvrtc.version_ = fmt::format("{}.{}", major, minor);
  return nvrtc;
}

Compiled Nvrtc::compile(const std::string& source, const std::vector<std::string>& flags) const {
  Compiled result;
  const auto begin_ns = steady_clock().now_ns();
  Functions::Program program = nullptr;
  if (functions_->create(&program, source.c_str(), "candidate.cu", 0, nullptr, nullptr) != 0) {
    result.log = "NVRTC cannot read the source";
    return result;
  }
  std::vector<const char*> options = {"-std=c++20", "-default-device"};
  for (const std::string& flag : flags) options.push_back(flag.c_str());
  result.ok = functions_->compile(program, static_cast<int>(options.size()), options.data()) == 0;
  result.log = text_of(program, functions_->log_size, functions_->log);
  while (!result.log.empty() && (result.log.back() == '\0' || result.log.back() == '\n'))
    result.log.pop_back();
  if (result.ok) result.cubin = text_of(program, functions_->cubin_size, functions_->cubin);
  functions_->destroy(&program);
  result.seconds = seconds_since(begin_ns);
  return result;
}

}  // namespace lathe::cuda
