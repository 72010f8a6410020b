#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>

#include "base/fd.h"
#include "sandbox/jail.h"

namespace lathe {
namespace {

constexpr unsigned kNobody = 65534;
constexpr int kNamespaces = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
constexpr const char* kPermission =
    "permit user namespaces (sysctl kernel.unprivileged_userns_clone=1; for a container --cap-add SYS_ADMIN "
    "or --security-opt seccomp=unconfined), or accept less with --reduced-jail";

Status write_text(const char* path, const std::string& text) {
  UniqueFd fd(::open(path, O_WRONLY | O_CLOEXEC));
  if (!fd.valid() || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return errno_error(std::string("cannot write ") + path);
  return Ok{};
}

/// A part of the file system, apart from the tree.
struct Piece {
  std::string path;
  UniqueFd mount;    ///< of what is no link
  std::string link;  ///< where a link leads
  bool is_folder = false;
};

Result<std::optional<Piece>> take_piece(const std::string& path, bool read_only) {
  Piece piece{path};
  struct stat meta {};
  if (::lstat(path.c_str(), &meta) != 0) {
    if (errno == ENOENT) return std::optional<Piece>();
    return errno_error("cannot show '" + path + "' to the jail");
  }
  if (S_ISLNK(meta.st_mode)) {
    std::error_code code;
    piece.link = std::filesystem::read_symlink(path, code).string();
    return std::optional(std::move(piece));
  }
  piece.is_folder = S_ISDIR(meta.st_mode);
  piece.mount =
      UniqueFd(::open_tree(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  if (!piece.mount.valid()) return errno_error("cannot show '" + path + "' to the jail");
  mount_attr sealed{};
  sealed.attr_set = MOUNT_ATTR_RDONLY;
  if (read_only &&
      ::mount_setattr(piece.mount.get(), "", AT_EMPTY_PATH | AT_RECURSIVE, &sealed, sizeof sealed) != 0)
    return errno_error("cannot protect '" + path + "' from the jail");
  return std::optional(std::move(piece));
}

/// Puts a piece where it was, below the working folder.
Status place(const Piece& piece) {
  const std::string path = piece.path.substr(1);
  const auto failed = [&] { return errno_error("cannot show '" + piece.path + "' to the jail"); };
  if (const auto slash = path.rfind('/'); slash != std::string::npos)
    LATHE_CHECK_OK(make_directories(path.substr(0, slash)));
  if (!piece.link.empty()) {
    if (::symlink(piece.link.c_str(), path.c_str()) != 0) return failed();
    return Ok{};
  }
  const int made = piece.is_folder ? ::mkdir(path.c_str(), 0755)
                   : UniqueFd(::open(path.c_str(), O_CREAT | O_CLOEXEC, 0644)).valid() ? 0
                                                                                       : -1;
  if (made != 0 && errno != EEXIST) return failed();
  if (::move_mount(piece.mount.get(), "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
    return failed();
  return Ok{};
}

/// Replaces the tree by one that has only the names of `spec`.
Status show_only(const NamespaceSpec& spec) {
  constexpr const char* kStage = "/usr";  // any folder that is sure to exist
  std::vector<Piece> pieces;
  for (const auto* paths : {&spec.readable, &spec.visible})
    for (const std::string& path : *paths) {
      LATHE_TRY(auto piece, take_piece(path, paths == &spec.readable));
      if (piece) pieces.push_back(*std::move(piece));
    }
  if (::mount("tmpfs", kStage, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") != 0 ||
      ::chdir(kStage) != 0)
    return errno_error("cannot make the jail's root");
  for (const Piece& piece : pieces) LATHE_CHECK_OK(place(piece));
  if (::mount(nullptr, ".", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) != 0)
    return errno_error("cannot protect the jail's root");
  // The old root lies above the new one until it is unmounted.
  if (::syscall(SYS_pivot_root, ".", ".") != 0 || ::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0)
    return errno_error("cannot enter the jail's root");
  return Ok{};
}

Status arrange_mounts(const NamespaceSpec& spec) {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return errno_error("cannot make mounts private");
  if (!spec.scratch.empty()) {
    const std::string options = "mode=0777,size=" + std::to_string(kScratchBytes);
    if (::mount("tmpfs", spec.scratch.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
      return errno_error("cannot make the jail's scratch folder");
  }
  return spec.visible.empty() ? Status(Ok{}) : show_only(spec);
}

bool become_nobody() {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0;
}

Status enter_as_user(const NamespaceSpec& spec, int namespaces) {
  const auto uid = ::geteuid();
  const auto gid = ::getegid();
  if (::unshare(CLONE_NEWUSER | namespaces) != 0) return errno_error("cannot enter a user namespace");
  LATHE_CHECK_OK(write_text("/proc/self/setgroups", "deny"));
  LATHE_CHECK_OK(
      write_text("/proc/self/uid_map", std::to_string(kNobody) + " " + std::to_string(uid) + " 1"));
  LATHE_CHECK_OK(
      write_text("/proc/self/gid_map", std::to_string(kNobody) + " " + std::to_string(gid) + " 1"));
  return arrange_mounts(spec);
}

Status enter_as_root(const NamespaceSpec& spec, int namespaces) {
  if (::unshare(namespaces) == 0) {
    LATHE_CHECK_OK(arrange_mounts(spec));
    if (!become_nobody()) return errno_error("cannot give up root");
    return Ok{};
  }
  if (errno != EPERM) return errno_error("cannot enter namespaces");
  // Root without CAP_SYS_ADMIN. Nobody's own id may always be mapped, root's only with CAP_SETFCAP;
  // but who changes its id loses its files under /proc until it is dumpable again.
  if (become_nobody()) ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  return enter_as_user(spec, namespaces);
}

Status limit(int resource, std::uint64_t value, const char* what) {
  rlimit both{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &both);
  both.rlim_cur = both.rlim_max = std::min<rlim_t>(value, both.rlim_max);  // it may only fall
  if (::setrlimit(static_cast<__rlimit_resource>(resource), &both) != 0)
    return errno_error(std::string("cannot limit ") + what);
  return Ok{};
}

}  // namespace

std::string_view name(JailKind kind) { return kind == JailKind::kFull ? "full" : "reduced"; }

Result<JailKind> parse_jail_kind(std::string_view name) {
  for (const JailKind kind : {JailKind::kFull, JailKind::kReduced})
    if (name == lathe::name(kind)) return kind;
  return invalid("'" + std::string(name) + "' is no kind of jail", "use full or reduced");
}

Status enter_namespaces(const NamespaceSpec& spec) {
  const int namespaces = kNamespaces | (spec.pids == PidNamespace::kNew ? CLONE_NEWPID : 0);
  Status entered = ::geteuid() == 0 ? enter_as_root(spec, namespaces) : enter_as_user(spec, namespaces);
  if (entered.ok()) return entered;
  Error error = std::move(entered).error();
  error.code = ErrorCode::kUnavailable;
  error.hint = kPermission;
  return error;
}

Status drop_privileges() {
  if (::geteuid() == 0) (void)become_nobody();  // a container may withhold CAP_SETUID
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  if (::syscall(SYS_capset, &header, none) != 0) return errno_error("cannot give up capabilities");
  return Ok{};
}

Status restrict_resources(const JailSpec& spec) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno_error("cannot set no_new_privs");
  LATHE_CHECK_OK(limit(RLIMIT_CORE, 0, "core dumps"));
  LATHE_CHECK_OK(limit(RLIMIT_FSIZE, spec.max_file_bytes, "file size"));
  LATHE_CHECK_OK(limit(RLIMIT_NOFILE, spec.max_open_files, "open files"));
  LATHE_CHECK_OK(limit(RLIMIT_NPROC, spec.max_processes, "processes"));
  if (spec.max_address_bytes) LATHE_CHECK_OK(limit(RLIMIT_AS, spec.max_address_bytes, "memory"));
  if (spec.max_cpu_seconds) LATHE_CHECK_OK(limit(RLIMIT_CPU, spec.max_cpu_seconds, "processor time"));
  return Ok{};
}

}  // namespace lathe
