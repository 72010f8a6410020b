#include "backend/cpu/imports.h"

#include <algorithm>
#include <array>
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
constexpr std::array<std::string_view, 9> kOthers = {"__assert_fail", "abort",   "bcmp",   "memchr", "memcmp",
                                                     "memcpy",        "memmove", "memset", "strlen"};

constexpr std::array<std::string_view, 7> kOutsidePrefixes = {"cblas_",  "dnnl_", "dl",         "_dl_",
                                                              "__libc_", "exec",  "posix_spawn"};
constexpr std::array<std::string_view, 44> kOutside = {
    "accept",   "bind",   "clock",  "clock_gettime", "clone",     "connect", "environ",      "fopen",
    "fork",     "getenv", "getpid", "gettimeofday",  "ioctl",     "kill",    "memfd_create", "mmap",
    "mprotect", "mremap", "munmap", "open",          "open64",    "openat",  "pipe",         "popen",
    "prctl",    "pread",  "ptrace", "pwrite",        "raise",     "read",    "recv",         "send",
    "setenv",   "shmat",  "shmget", "shm_open",      "sigaction", "signal",  "socket",       "syscall",
    "system",   "time",   "vfork",  "write"};

std::vector<std::string> list_allowed() {
  std::vector<std::string> names(kOthers.begin(), kOthers.end());
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

bool reaches_outside(std::string_view import) {
  return std::ranges::find(kOutside, import) != kOutside.end() ||
         std::ranges::any_of(kOutsidePrefixes,
                             [&](std::string_view prefix) { return import.starts_with(prefix); });
}

}  // namespace lathe
