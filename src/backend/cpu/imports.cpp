#include "backend/cpu/imports.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace lathe {
namespace {

/// Each also with the suffixes f and l, for float and long double.
constexpr std::array<std::string_view, 88> kMathematics = {
    "cabs",  "cacos",     "cacosh", "carg",     "casin",     "casinh",  "catan",  "catanh",    "ccos",
    "ccosh", "cexp",      "cimag",  "clog",     "clog10",    "conj",    "cpow",   "cproj",     "creal",
    "csin",  "csinh",     "csqrt",  "ctan",     "ctanh",     "j0",      "j1",     "jn",        "nexttoward",
    "y0",    "y1",        "yn",     "acos",     "acosh",     "asin",    "asinh",  "atan",      "atan2",
    "atanh", "cbrt",      "ceil",   "copysign", "cos",       "cosh",    "erf",    "erfc",      "exp",
    "exp10", "exp2",      "expm1",  "fabs",     "fdim",      "floor",   "fma",    "fmax",      "fmin",
    "fmod",  "frexp",     "hypot",  "ilogb",    "ldexp",     "lgamma",  "llrint", "llround",   "log",
    "log10", "log1p",     "log2",   "logb",     "lrint",     "lround",  "modf",   "nearbyint", "nextafter",
    "pow",   "remainder", "rint",   "round",    "roundeven", "scalbln", "scalbn", "sin",       "sincos",
    "sinh",  "sqrt",      "tan",    "tanh",     "tgamma",    "trunc",   "remquo"};
constexpr std::array<std::string_view, 7> kOthers = {"bcmp",    "memchr", "memcmp", "memcpy",
                                                     "memmove", "memset", "strlen"};
/// What classes with virtual destructors, std::function and std::array::at() refer to and seldom
/// call.
constexpr std::array<std::pair<std::string_view, protocol::SelfEnd>, 10> kEndings = {
    {{"__assert_fail", protocol::SelfEnd::kAssertion},
     {"abort", protocol::SelfEnd::kAbort},
     {"_ZSt9terminatev", protocol::SelfEnd::kTerminate},
     {"__cxa_pure_virtual", protocol::SelfEnd::kPureVirtual},
     {"_ZSt24__throw_out_of_range_fmtPKcz", protocol::SelfEnd::kOutOfRange},
     {"_ZSt25__throw_bad_function_callv", protocol::SelfEnd::kEmptyFunction},
     {"_ZdlPv", protocol::SelfEnd::kDelete},
     {"_ZdlPvm", protocol::SelfEnd::kDelete},
     {"_ZdaPv", protocol::SelfEnd::kDelete},
     {"_ZdlPvmSt11align_val_t", protocol::SelfEnd::kDelete}}};

constexpr std::array<std::string_view, 7> kOutsidePrefixes = {"cblas_",  "dnnl_", "dl",         "_dl_",
                                                              "__libc_", "exec",  "posix_spawn"};
constexpr std::array<std::string_view, 39> kOutside = {
    "accept",    "bind",   "clone",        "connect", "environ",  "fopen",  "fork",   "getpid",
    "ioctl",     "kill",   "memfd_create", "mmap",    "mprotect", "mremap", "munmap", "open",
    "open64",    "openat", "pipe",         "popen",   "prctl",    "pread",  "ptrace", "pwrite",
    "raise",     "read",   "recv",         "send",    "setenv",   "shmat",  "shmget", "shm_open",
    "sigaction", "signal", "socket",       "syscall", "system",   "vfork",  "write"};

std::vector<std::string> list_allowed() {
  std::vector<std::string> names(kOthers.begin(), kOthers.end());
  for (const auto& [name, end] : kEndings) names.emplace_back(name);
  for (const std::string_view name : kMathematics) {
    names.emplace_back(name);
    for (const char* suffix : {"f", "l"}) names.push_back(std::string(name) + suffix);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::span<const std::string> allowed_imports() {
  static const std::vector<std::string> names = list_allowed();
  return names;
}

std::optional<protocol::SelfEnd> ending_of(std::string_view import) {
  const auto found = std::ranges::find(kEndings, import, [](const auto& ending) { return ending.first; });
  return found == kEndings.end() ? std::nullopt : std::optional(found->second);
}

bool reaches_outside(std::string_view import) {
  return std::ranges::find(kOutside, import) != kOutside.end() ||
         std::ranges::any_of(kOutsidePrefixes,
                             [&](std::string_view prefix) { return import.starts_with(prefix); });
}

}  // namespace lathe
