#include "backend/cpu/toolchain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "backend/cpu/elf_image.h"
#include "backend/cpu/protocol.h"
#include "base/clock.h"
#include "base/digest.h"
#include "sandbox/memfd.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

// Values stay as IEEE says: no -ffast-math, for candidates and baselines alike. errno and trapping semantics
// of libm are dropped because they only keep sqrt and comparisons from being vectorised.
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
                                                "-fcf-protection=none",
                                                "-fno-plt",
                                                "-w"};
const std::vector<std::string> kLinkFlags = {
    "-shared", "-nostdlib", "-nostartfiles",
    "-Wl,-z,now,-z,relro,-z,noexecstack,--hash-style=sysv,--build-id=none"};

constexpr double kReplySeconds = 10;  // that a worker may take beyond the compiler's own limit
constexpr int kCancelPollMs = 50;

/// Standard output of a trusted command.
Result<std::string> run_command(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "re");
  if (!pipe) return errno_error("cannot run '" + command + "'");
  std::string output;
  std::array<char, 4096> buffer;
  for (std::size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    output.append(buffer.data(), got);
  if (::pclose(pipe) != 0)
    return Error{ErrorCode::kUnavailable, "'" + command + "' failed: " + output,
                 "install g++ (Debian: apt-get install g++)"};
  return output;
}

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Result<Frame> await_reply(const HelperProcess& worker, double seconds, const CancelToken& cancel) {
  const auto deadline_ns = steady_clock().now_ns() + static_cast<std::int64_t>(seconds * 1e9);
  for (;;) {
    auto frame = worker.channel().receive(kCancelPollMs);
    if (frame.ok() || frame.error().code != ErrorCode::kTimeout) return frame;
    if (cancel.cancelled()) return Error{ErrorCode::kCancelled, "the build was cancelled"};
    if (steady_clock().now_ns() > deadline_ns) return frame;
  }
}

std::string joined(const std::vector<std::string>& flags) { return fmt::format("{}", fmt::join(flags, " ")); }

/// The digest of every file below a folder, by relative path.
Digest folder_digest(const std::string& folder) {
  std::map<std::string, std::string> files;
  std::error_code code;
  for (const auto& entry : fs::recursive_directory_iterator(folder, code))
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), folder).string()] =
          read_file(entry.path().string()).ok() ? *read_file(entry.path().string()) : "";
  Hasher hasher;
  for (const auto& [name, bytes] : files) hasher.add(name).add(bytes);
  return hasher.finish();
}

}  // namespace

std::string default_cache_folder() {
  if (const char* chosen = std::getenv("LATHE_CACHE"); chosen && *chosen) return chosen;
  if (::geteuid() == 0) return "/var/cache/lathe";
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::string(xdg) + "/lathe";
  const char* home = std::getenv("HOME");
  return std::string(home ? home : "/tmp") + "/.cache/lathe";
}

Result<std::unique_ptr<Toolchain>> Toolchain::create(const ToolchainOptions& options) {
  std::unique_ptr<Toolchain> toolchain(new Toolchain(options));
  LATHE_TRY(const std::string version, run_command("/usr/bin/g++ --version 2>&1 | head -1"));
  toolchain->version_ = version + joined(kCompileFlags) + joined(kLinkFlags);
  LATHE_TRY(toolchain->work_folder_, WorkFolder::make(options.cache_folder));
  LATHE_CHECK_OK(toolchain->install_headers());
  return toolchain;
}

Status Toolchain::install_headers() {
  LATHE_TRY(
      const std::string target,
      run_command(
          "/usr/bin/g++ -march=native -Q --help=target 2>/dev/null | grep -E 'march=|mtune=' | head -2"));
  version_ += target;
  const Digest key = Hasher().add(version_).add(folder_digest(options_.include_folder).hex()).finish();
  header_folder_ = options_.cache_folder + "/include-" + key.short_hex();
  const std::string precompiled = header_folder_ + "/lathe/cpu.h.gch";
  std::error_code code;
  if (fs::exists(precompiled, code)) return Ok{};
  const std::string staging = work_folder_.path() + "/staging";
  LATHE_CHECK_OK(make_directories(staging));
  fs::copy(options_.include_folder, staging, fs::copy_options::recursive, code);
  if (code)
    return Error{ErrorCode::kIo, "cannot copy '" + options_.include_folder + "': " + code.message(),
                 "reinstall Lathe"};
  const auto log = run_command(
      fmt::format("cd {} && /usr/bin/g++ {} -I. -x c++-header lathe/cpu.h -o lathe/cpu.h.gch 2>&1",
                  shell_quoted(staging), joined(kCompileFlags)));
  if (!log.ok()) {
    fs::remove_all(staging, code);
    return log.error();
  }
  fs::rename(staging, header_folder_, code);
  if (code) fs::remove_all(staging, code);  // another process was faster
  return fs::exists(precompiled, code)
             ? Status(Ok{})
             : Status(Error{ErrorCode::kIo, "cannot publish the precompiled header in " + header_folder_});
}

Result<HelperProcess> Toolchain::borrow_worker() {
  std::lock_guard lock(mutex_);
  if (idle_.empty())
    return HelperProcess::spawn(options_.runner_program, {"compile", work_folder_.path(), header_folder_});
  HelperProcess worker = std::move(idle_.back());
  idle_.pop_back();
  return worker;
}

void Toolchain::return_worker(HelperProcess worker) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(worker));
}

Result<BuildResult> Toolchain::build(const std::string& source, const Dims& constants,
                                     const CancelToken& cancel) {
  // Nothing but comments may stand before the candidate's own #include, or the precompiled header is not
  // used.
  const std::string unit = "#line 1 \"candidate\"\n" + source;
  std::vector<std::string> defines;
  for (const auto& [name, value] : constants) defines.push_back(fmt::format("-D{}={}", name, value));
  const Digest key = Hasher().add(version_).add(header_folder_).add(joined(defines)).add(unit).finish();
  const std::string cached = options_.cache_folder + "/object-" + key.hex();
  if (auto bytes = read_file(cached); bytes.ok() && parse_elf(*bytes).ok()) {
    BuildResult hit{.ok = true};
    hit.artifact = {key, *std::move(bytes)};
    hit.facts.code_bytes = static_cast<std::int64_t>(parse_elf(hit.artifact.bytes)->code_bytes);
    return hit;
  }
  LATHE_TRY(BuildResult result, compile(unit, defines, cancel));
  result.artifact.key = key;
  if (result.ok) publish(cached, result.artifact.bytes);
  return result;
}

/// Atomic, as others read the cache. A copy that cannot be kept costs another build, no more.
void Toolchain::publish(const std::string& path, const std::string& bytes) const {
  const std::string draft = work_folder_.path() + path.substr(path.rfind('/'));
  if (write_file_atomically(draft, bytes).ok()) (void)::rename(draft.c_str(), path.c_str());
}

Result<BuildResult> Toolchain::compile(const std::string& unit, const std::vector<std::string>& defines,
                                       const CancelToken& cancel) {
  protocol::CompileJob job{unit, kCompileFlags, options_.timeout_seconds};
  job.flags.push_back("-I" + header_folder_);
  job.flags.insert(job.flags.end(), defines.begin(), defines.end());
  job.flags.insert(job.flags.end(), kLinkFlags.begin(), kLinkFlags.end());
  LATHE_TRY(const UniqueFd payload, make_sealed_memfd("job", protocol::encode(job)));
  LATHE_TRY(HelperProcess worker, borrow_worker());
  LATHE_CHECK_OK(worker.channel().send("compile", {payload.get()}));
  LATHE_TRY(const Frame frame, await_reply(worker, options_.timeout_seconds + kReplySeconds,
                                           cancel));  // else the worker is killed
  LATHE_TRY(const auto reply, protocol::decode_compile_reply(frame.bytes));
  return_worker(std::move(worker));

  if (reply.infra)
    return Error{ErrorCode::kUnavailable, "the compile jail failed: " + reply.log, "run lathe doctor"};
  BuildResult result;
  result.facts.log = reply.log;
  result.facts.seconds = reply.seconds;
  result.reason = reply.timed_out ? "compile_timeout" : "compile_error";
  if (!reply.ok || frame.fds.size() != 1) return result;
  const off_t size = ::lseek(frame.fds[0].get(), 0, SEEK_END);
  LATHE_TRY(const Mapping object, map_shared(frame.fds[0], static_cast<std::size_t>(size), false));
  result.artifact.bytes.assign(reinterpret_cast<const char*>(object.data()), object.size());
  const auto image = parse_elf(result.artifact.bytes);
  if (!image.ok()) {
    const ElfRefusal refusal = refusal_of(image.error());
    result.reason = refusal.reason;
    result.facts.log += refusal.detail;
    result.outcome = refusal.reason == "bad_elf" ? Outcome::kBuildFailed : Outcome::kTampered;
    return result;
  }
  result.ok = true;
  result.reason.clear();
  result.facts.code_bytes = static_cast<std::int64_t>(image->code_bytes);
  return result;
}

}  // namespace lathe
