#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"
#include "sandbox/jail.h"

namespace lathe {
namespace {

// Debian 12's header knows ABI 1 to 3; the network and scope fields below are ABI 4 and 6.
struct RulesetAttr {
  std::uint64_t handled_access_fs;
  std::uint64_t handled_access_net;
  std::uint64_t scoped;
};
constexpr std::uint64_t kNetBindConnect = 3;
constexpr std::uint64_t kScopeSocketsAndSignals = 3;
constexpr std::uint64_t kTruncate = 1ULL << 14;
constexpr std::uint64_t kIoctlDev = 1ULL << 15;
constexpr std::uint64_t kRead =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kFileOnly =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;

int landlock_abi() {
  return static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
}

std::uint64_t all_file_rights(int abi) {
  std::uint64_t rights = (1ULL << 13) - 1;  // ABI 1
  if (abi >= 2) rights |= 1ULL << 13;       // refer
  if (abi >= 3) rights |= kTruncate;
  if (abi >= 5) rights |= kIoctlDev;
  return rights;
}

Status allow(int ruleset, const std::string& path, std::uint64_t rights) {
  UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd.valid())
    return errno == ENOENT ? Status(Ok{}) : Status(errno_error("cannot open '" + path + "' for the sandbox"));
  struct stat meta {};
  if (::fstat(fd.get(), &meta) == 0 && !S_ISDIR(meta.st_mode)) rights &= kFileOnly | kTruncate | kIoctlDev;
  landlock_path_beneath_attr rule{};
  rule.allowed_access = rights;
  rule.parent_fd = fd.get();
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
    return errno_error("cannot allow '" + path + "' in the sandbox");
  return Ok{};
}

}  // namespace

Status restrict_files(const JailSpec& spec) {
  const int abi = landlock_abi();
  if (abi < 1)
    return Error{ErrorCode::kUnavailable, "this kernel has no Landlock",
                 "boot with lsm=landlock,... (Linux 5.13 or newer)"};
  const std::uint64_t rights = all_file_rights(abi);
  RulesetAttr attr{rights, abi >= 4 ? kNetBindConnect : 0, abi >= 6 ? kScopeSocketsAndSignals : 0};
  const std::size_t size = abi >= 6 ? sizeof attr : abi >= 4 ? 16 : 8;
  UniqueFd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attr, size, 0)));
  if (!ruleset.valid()) return errno_error("cannot make a Landlock ruleset");
  for (const std::string& path : spec.readable) LATHE_CHECK_OK(allow(ruleset.get(), path, kRead));
  for (const std::string& path : spec.writable)
    LATHE_CHECK_OK(allow(ruleset.get(), path, rights & ~kIoctlDev));
  for (const std::string& path : spec.devices)
    LATHE_CHECK_OK(allow(
        ruleset.get(), path,
        LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | (rights & (kTruncate | kIoctlDev))));
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno_error("cannot set no_new_privs");
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0)
    return errno_error("cannot enforce Landlock");
  return Ok{};
}

}  // namespace lathe
