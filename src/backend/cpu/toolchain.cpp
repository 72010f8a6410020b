#include "backend/cpu/toolchain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "backend/cpu/build_refusal.h"
#include "backend/cpu/elf_image.h"
#include "backend/cpu/protocol.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/process.h"

namespace lathe {
namespace {

// IEEE semantics hold for candidates and baselines alike: no -ffast-math. libm's errno and trapping
// semantics are dropped because their only effect is to prevent the vectorisation of sqrt and
// comparisons. The hardening that distributions enable by default is off, because it calls
// functions that candidates must not import.
const std::vector<std::string> kCompileFlags = {"-O3",
                                                "-march=native",
                                                "-std=c++20",
                                                "-fPIC",
                                                "-ffp-contract=fast",
                                                "-fno-math-errno",
                                                "-fno-trapping-math",
                                                "-fno-exceptions",
                                                "-fno-rtti",
                                                "-fno-threadsafe-statics",
                                                "-fno-asynchronous-unwind-tables",
                                                "-fno-stack-protector",
                                                "-U_FORTIFY_SOURCE",
                                                "-fcf-protection=none",
                                                "-fno-plt",
                                                "-w"};
const std::vector<std::string> kLinkFlags = {
    "-shared", "-nostdlib", "-nostartfiles",
    "-Wl,-z,now,-z,relro,-z,noexecstack,--hash-style=sysv,--build-id=none"};

constexpr double kToolSeconds = 60;

/// The same as in the jail: what the user's variables say (CPATH, GCC_EXEC_PREFIX, a PATH without
/// the assembler) must neither break nor change headers that later runs find precompiled.
const std::vector<std::string> kEnvironment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"};

/// What to do where the trusted compiler fails on Lathe's own sources.
std::string remedy_for(const std::string& said) {
  const auto says = [&](const char* words) { return said.find(words) != std::string::npos; };
  if (says("No space left") || says("quota exceeded") || says("File size limit"))
    return "make room where the cache is, or set LATHE_CACHE to another folder of your own";
  if (says("out of memory") || says("memory exhausted") || says("Cannot allocate memory"))
    return "raise the memory limit";
  return "check the installation of g++ (Debian: apt-get install g++)";
}

/// Standard output of the trusted compiler.
Result<std::string> run_compiler(std::vector<std::string> flags, std::string folder = {}) {
  flags.insert(flags.begin(), "/usr/bin/g++");
  LATHE_TRY(Completed run,
            run_command({.argv = flags, .environment = kEnvironment, .folder = std::move(folder)}, {},
                        kToolSeconds));
  if (!run.status.ok())
    return Error{ErrorCode::kUnavailable, fmt::format("'{}' failed: {}", fmt::join(flags, " "), run.errors),
                 remedy_for(run.errors)};
  return std::move(run.output);
}

/// The processor that -march=native stands for, from the compiler's list of options.
std::string native_target(const std::string& help) {
  std::istringstream lines(help);
  std::string target;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  -march=") || line.starts_with("  -mtune=")) target += line + "\n";
  return target;
}

std::string joined(const std::vector<std::string>& flags) { return fmt::format("{}", fmt::join(flags, " ")); }

Status precompile(const std::string& include_folder, const std::string& staging) {
  LATHE_CHECK_OK(copy_folder(include_folder, staging));
  std::vector<std::string> flags = kCompileFlags;
  flags.insert(flags.end(), {"-I.", "-x", "c++-header", "lathe/cpu.h", "-o", "lathe/cpu.h.gch"});
  const auto log = run_compiler(std::move(flags), staging);
  return log.ok() ? Status(Ok{}) : Status(log.error());
}

/// g++ uses the precompiled header only if nothing but comments precedes the candidate's #include.
std::string unit_of(const std::string& source) { return "#line 1 \"candidate\"\n" + source; }

}  // namespace

Result<std::unique_ptr<Toolchain>> Toolchain::create(const ToolchainOptions& options) {
  if (::access("/usr/bin/g++", X_OK) != 0)
    return Error{ErrorCode::kUnavailable,
                 "there is no /usr/bin/g++, which compiles kernels for the processor",
                 "install g++ (Debian and Ubuntu: apt-get install g++)"};
  LATHE_TRY(const std::string version, run_compiler({"--version"}));
  LATHE_TRY(const std::string target, run_compiler({"-march=native", "-Q", "--help=target"}));
  std::unique_ptr<Toolchain> toolchain(new Toolchain(options.timeout_seconds));
  toolchain->version_ = version.substr(0, version.find('\n') + 1) + joined(kCompileFlags) +
                        joined(kLinkFlags) + native_target(target);
  const Digest headers =
      Hasher().add(toolchain->version_).add(folder_digest(options.include_folder).hex()).finish();
  LATHE_TRY(toolchain->shop_,
            CompileShop::open(
                {.cache_folder = options.cache_folder,
                 .header_name = "include-" + headers.short_hex(),
                 .fill_headers = [from = options.include_folder](
                                     const auto& staging) { return precompile(from, staging); },
                 .runner_program = options.runner_program,
                 .worker_args =
                     [jail = options.jail](const auto& work, const auto& include) {
                       return std::vector<std::string>{"compile", std::string(name(jail)), work, include};
                     },
                 .worker_processors = options.processors}));
  return toolchain;
}

Result<BuildResult> Toolchain::build(const std::string& source, const CancelToken& cancel) {
  const Digest key = Hasher().add(version_).add(shop_->header_folder()).add(unit_of(source)).finish();
  if (auto bytes = shop_->find(key); bytes && parse_elf(*bytes).ok()) {
    BuildResult hit{.ok = true};
    hit.artifact = {key, *std::move(bytes)};
    hit.facts.code_bytes = static_cast<std::int64_t>(parse_elf(hit.artifact.bytes)->code_bytes);
    return hit;
  }
  LATHE_TRY(BuildResult result, compile(source, cancel));
  result.artifact.key = key;
  if (result.ok) shop_->publish(key, result.artifact.bytes);
  return result;
}

Result<BuildResult> Toolchain::compile(const std::string& source, const CancelToken& cancel) {
  protocol::CompileJob job{unit_of(source), kCompileFlags, timeout_seconds_};
  job.flags.insert(job.flags.end(), kLinkFlags.begin(), kLinkFlags.end());
  LATHE_TRY(CompiledObject object, shop_->run(std::move(job), cancel));
  BuildResult result;
  result.facts.log = std::move(object.reply.log);
  result.facts.seconds = object.reply.seconds;
  result.reason = object.reply.timed_out ? "compile_timeout" : "compile_error";
  if (!object.reply.ok) {
    result.facts.log = hints_on_log(result.facts.log, source) + result.facts.log;
    return result;
  }
  result.artifact.bytes = std::move(object.bytes);
  const auto image = parse_elf(result.artifact.bytes);
  if (!image.ok()) {
    BuildRefusal refusal = explain_refusal(image.error(), result.artifact.bytes, source);
    result.outcome = refusal.outcome;
    result.reason = std::move(refusal.reason);
    result.facts.log = refusal.text + "\n" + result.facts.log;
    return result;
  }
  result.ok = true;
  result.reason.clear();
  result.facts.code_bytes = static_cast<std::int64_t>(image->code_bytes);
  return result;
}

}  // namespace lathe
