// The program that confines itself before anything untrusted reaches it. `run` serves a candidate's
// blocks, `compile` serves compile jobs. Both are started by the broker and end when it closes the
// channel.

#include <fcntl.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>

#include "backend/cpu/runner/compile_worker.h"
#include "backend/cpu/runner/zygote.h"
#include "sandbox/process.h"

namespace lathe {
namespace {

/// What a runner acquires before it confines itself: libraries, and the seccomp filter for its
/// children.
struct Preparations {
  std::optional<VendorLibrary> vendor;
  std::optional<LockDown> lock_down;
};

Result<Preparations> prepare(const std::string& vendor_path) {
  Preparations preparations;
  if (vendor_path != "-") {
    // One thread until a block asks for more: a runner must be single-threaded to enter namespaces.
    ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
    ::setenv("OMP_NUM_THREADS", "1", 1);
    LATHE_TRY(preparations.vendor, VendorLibrary::open(vendor_path));
  }
  LATHE_TRY(preparations.lock_down, LockDown::prepare());
  return preparations;
}

Status confine() {
  JailSpec spec;
  spec.readable = {"/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/sys/devices/system/cpu", "/proc/cpuinfo"};
  LATHE_CHECK_OK(restrict_resources(spec));
  LATHE_CHECK_OK(restrict_files(spec));
  return deny_dangerous_calls();
}

Result<Zygote> load(Frame frame, const Preparations& preparations) {
  if (frame.fds.empty()) return Error{ErrorCode::kCorrupt, "a load frame came without its payload"};
  const off_t size = ::lseek(frame.fds[0].get(), 0, SEEK_END);
  LATHE_TRY(const Mapping payload, map_shared(frame.fds[0], static_cast<std::size_t>(size), false));
  LATHE_TRY(auto request,
            protocol::decode_load({reinterpret_cast<const char*>(payload.data()), payload.size()}));
  frame.fds.erase(frame.fds.begin());
  return Zygote::load(std::move(request), std::move(frame.fds), *preparations.lock_down,
                      preparations.vendor ? &*preparations.vendor : nullptr);
}

int serve_run(const Channel& channel, const Preparations& preparations) {
  const Status confined = confine();
  auto frame = channel.receive(-1);
  if (!frame.ok()) return 0;
  auto zygote = confined.ok() ? load(*std::move(frame), preparations) : Result<Zygote>(confined.error());
  const auto reply = zygote.ok() ? protocol::LoadReply{.ok = true} : protocol::refusal(zygote.error());
  if (channel.send(protocol::encode(reply)).ok() && reply.ok) zygote->serve(channel);
  return 0;
}

/// Starts this program again without address randomisation. Where code lies decides which branches
/// collide in the predictor's tables: at random places, two processes that run one branchy kernel
/// differ by 5%. A candidate learns nothing by it, for its process holds no secret. Where the
/// machine forbids it, times are only noisier.
void fix_addresses(char** argv) {
  constexpr unsigned long kAsk = 0xffffffff;
  const int now = ::personality(kAsk);
  if (now < 0 || (now & ADDR_NO_RANDOMIZE) != 0) return;
  if (::personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) < 0) return;
  ::execv("/proc/self/exe", argv);
}

int run_main(int argc, char** argv) {
  const std::string role = argc > 2 ? argv[1] : "";
  if (role == "run") fix_addresses(argv);
  const Channel channel{UniqueFd(kHelperChannelFd)};
  ::fcntl(kHelperChannelFd, F_SETFD, FD_CLOEXEC);  // the compiler must not inherit it
  const auto jail = parse_jail_kind(argc > 2 ? argv[2] : "");
  if (role == "run" && argc == 4 && jail.ok()) {
    const auto preparations = prepare(argv[3]);
    if (!preparations.ok()) return fail_to_start(preparations.error());
    return serve_in_namespaces([&] { return serve_run(channel, *preparations); }, {}, *jail);
  }
  if (role == "compile" && argc >= 5 && jail.ok()) {
    const CompileFolders folders{argv[3], argv[4], {argv + 5, argv + argc}};
    return serve_in_namespaces([&] { return serve_compiles(channel, folders), 0; },
                               {.visible = visible_to_compilers(folders)}, *jail);
  }
  constexpr char kUsage[] = "lathe-runner is started by lathe; it is not meant to be run by hand\n";
  return ::write(2, kUsage, sizeof kUsage - 1) < 0 ? 1 : 64;
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) { return lathe::run_main(argc, argv); }
