#include "sandbox/jail.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/fd.h"
#include "tests/sandbox/child.h"

namespace lathe {
namespace {

constexpr int kRefused = 10;
constexpr int kAllowed = 11;
constexpr int kNotJailed = 12;

/// Why this machine cannot run a test of the feature; empty if it can. Unavailable features are
/// reported by `lathe doctor`; here they skip, visibly.
std::string lacking(const std::string& name) {
  for (const SandboxFeature& feature : probe_sandbox())
    if (feature.name == name && !feature.available) return name + ": " + feature.detail;
  return "";
}

bool readable(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)).valid();
}
bool writable(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).valid();
}

TEST(ProbeSandbox, NamesEveryFeatureAndChangesNothing) {
  const auto features = probe_sandbox();
  for (const char* name : {"namespaces", "Landlock", "seccomp deny list", "seccomp lock-down"})
    EXPECT_EQ(std::count_if(features.begin(), features.end(), [&](const auto& f) { return f.name == name; }),
              1)
        << name;
  for (const SandboxFeature& feature : features)
    EXPECT_TRUE(feature.available || feature.detail.find("without it") != std::string::npos) << feature.name;
  EXPECT_TRUE(readable("/etc/passwd"));
  EXPECT_TRUE(UniqueFd(::socket(AF_UNIX, SOCK_STREAM, 0)).valid());
}

/// Runs `attempt` behind Landlock that allows /usr for reading and one folder for writing.
class LandlockTest : public testing::Test {
 protected:
  LandlockTest() {
    std::string name = testing::TempDir() + "lathe-jail-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    ::mkdir((folder_ + "/mine").c_str(), 0700);
  }
  ~LandlockTest() override { std::filesystem::remove_all(folder_); }
  void SetUp() override {
    if (const auto why = lacking("Landlock"); !why.empty()) GTEST_SKIP() << why;
  }
  int jailed(const std::function<bool()>& attempt) const {
    return outcome_of_child([&] {
      JailSpec spec;
      spec.readable = {"/usr"};
      spec.writable = {folder_ + "/mine"};
      if (!restrict_files(spec).ok()) return kNotJailed;
      return attempt() ? kAllowed : kRefused;
    });
  }
  std::string folder_;
};

TEST_F(LandlockTest, HidesWhatIsNotListed) {
  EXPECT_EQ(jailed([] { return readable("/etc/passwd"); }), kRefused);
  EXPECT_EQ(jailed([] { return readable("/proc/self/environ"); }), kRefused);
  EXPECT_EQ(jailed([] { return ::access("/etc", F_OK) == 0 && readable("/etc"); }), kRefused);
  EXPECT_EQ(jailed([&] { return writable(folder_ + "/other"); }), kRefused);
}

TEST_F(LandlockTest, AllowsWhatIsListedAndNoMore) {
  EXPECT_EQ(jailed([] { return readable("/usr/bin"); }), kAllowed);
  EXPECT_EQ(jailed([] { return writable("/usr/lathe-test"); }), kRefused);
  EXPECT_EQ(jailed([&] { return writable(folder_ + "/mine/out"); }), kAllowed);
  EXPECT_EQ(jailed([&] { return readable(folder_ + "/mine/../../.."); }), kRefused);
}

TEST_F(LandlockTest, AChildInheritsIt) {
  EXPECT_EQ(jailed([] { return outcome_of_child([] { return readable("/etc/passwd") ? 1 : 0; }) == 1; }),
            kRefused);
}

TEST(RestrictResources, HoldsTheLimits) {
  JailSpec spec;
  spec.max_file_bytes = 4096;
  spec.max_open_files = 20;
  spec.max_address_bytes = 1u << 30;
  spec.max_cpu_seconds = 3;
  EXPECT_EQ(outcome_of_child([&] {
              if (!restrict_resources(spec).ok()) return kNotJailed;
              const auto is = [](__rlimit_resource what, rlim_t value) {
                rlimit limit{};
                return ::getrlimit(what, &limit) == 0 && limit.rlim_cur == value && limit.rlim_max == value;
              };
              return is(RLIMIT_FSIZE, 4096) && is(RLIMIT_NOFILE, 20) && is(RLIMIT_AS, 1u << 30) &&
                             is(RLIMIT_CPU, 3) && is(RLIMIT_CORE, 0)
                         ? 0
                         : 1;
            }),
            0);
}

TEST(DenyDangerousCalls, RefusesSocketsTracingAndNamespacesAndLeavesFilesAlone) {
  const auto denied = [](const std::function<bool()>& attempt) {
    return outcome_of_child([&] {
      if (!deny_dangerous_calls().ok()) return kNotJailed;
      return attempt() ? kAllowed : kRefused;
    });
  };
  EXPECT_EQ(denied([] { return ::socket(AF_INET, SOCK_STREAM, 0) >= 0; }), kRefused);
  EXPECT_EQ(denied([] { return ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }), kRefused);
  EXPECT_EQ(denied([] { return ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0; }), kRefused);
  EXPECT_EQ(denied([] { return ::unshare(CLONE_NEWUSER) == 0; }), kRefused);
  EXPECT_EQ(denied([] { return readable("/usr"); }), kAllowed);
  EXPECT_EQ(denied([] { return outcome_of_child([] { return 0; }) == 0; }), kAllowed);
}

class LockDownTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = lacking("seccomp lock-down"); !why.empty()) GTEST_SKIP() << why;
  }
  static int locked(const std::function<int()>& body) {
    const LockDown lock_down = LockDown::prepare().value();
    return outcome_of_child([&] { return lock_down.apply().ok() ? body() : kNotJailed; });
  }
};

TEST_F(LockDownTest, LetsAProcessComputeAndExit) {
  EXPECT_EQ(locked([] {
              volatile double sum = 0;
              for (int i = 0; i < 1000; ++i) sum = sum + i;
              return sum == 499'500 ? 7 : 8;
            }),
            7);
}

TEST_F(LockDownTest, KillsAtEveryOtherCall) {
  EXPECT_EQ(locked([] { return static_cast<int>(::syscall(SYS_getpid)); }), -SIGSYS);
  EXPECT_EQ(locked([] { return static_cast<int>(::syscall(SYS_write, 1, "x", 1)); }), -SIGSYS);
  EXPECT_EQ(locked([] { return static_cast<int>(::syscall(SYS_fork)); }), -SIGSYS);
  EXPECT_EQ(locked([] { return static_cast<int>(::syscall(SYS_mmap, 0, 4096, 3, 34, -1, 0)); }), -SIGSYS);
  EXPECT_EQ(locked([] { return static_cast<int>(::syscall(SYS_openat, 0, "/", 0)); }), -SIGSYS);
}

TEST_F(LockDownTest, KillsAtCallsOfOtherAbis) {
  EXPECT_EQ(locked([] {
              long result = 0;
              asm volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");  // i386 getpid
              return static_cast<int>(result);
            }),
            -SIGSYS);
  EXPECT_EQ(locked([] { return static_cast<int>(::syscall(0x40000000L | SYS_getpid)); }), -SIGSYS);  // x32
}

class NamespaceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = lacking("namespaces"); !why.empty()) GTEST_SKIP() << why;
  }
  /// Runs `body` as the first process of the new namespaces.
  static int inside(const std::function<int()>& body) {
    return outcome_of_child([&] { return enter_namespaces().ok() ? outcome_of_child(body) : kNotJailed; });
  }
};

TEST_F(NamespaceTest, TheFirstProcessIsAloneAndNobody) {
  EXPECT_EQ(inside([] { return ::getpid() == 1 ? 0 : 1; }), 0);
  EXPECT_EQ(inside([] { return ::geteuid() == 0 || ::getuid() == 0 ? 1 : 0; }), 0);
  EXPECT_EQ(inside([] { return ::kill(-1, 0) == 0 ? 1 : 0; }), 0);
}

TEST_F(NamespaceTest, OnlyVisibleNamesExist) {
  std::string folder = testing::TempDir() + "lathe-visible-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  const std::string hidden = folder + "-hidden";
  ASSERT_EQ(::mkdir(hidden.c_str(), 0755), 0);
  const auto sees = [&](const std::function<bool()>& look) {
    return outcome_of_child([&] {
      const NamespaceSpec spec{.visible = {"/usr", "/lib", "/bin", "/no/such", "/dev/null", folder}};
      if (!enter_namespaces(spec).ok()) return kNotJailed;
      return outcome_of_child([&] { return look() ? kAllowed : kRefused; });
    });
  };
  const auto exists = [](const std::string& path) { return ::access(path.c_str(), F_OK) == 0; };
  for (const std::string path : {"/usr/bin", "/lib/", "/bin/sh", "/dev/null", "/dev", "/"})
    EXPECT_EQ(sees([&] { return exists(path); }), kAllowed) << path;
  for (const std::string& path : {std::string("/etc"), std::string("/proc"), std::string("/root"), hidden,
                                  folder + "/../" + std::filesystem::path(hidden).filename().string()})
    EXPECT_EQ(sees([&] { return exists(path); }), kRefused) << path;
  EXPECT_EQ(sees([&] { return writable(folder + "/made"); }), kAllowed);
  EXPECT_EQ(sees([] { return writable("/made") || ::mkdir("/dev/made", 0755) == 0; }), kRefused);
  EXPECT_TRUE(exists(folder + "/made")) << "it is the same folder";
  EXPECT_TRUE(exists("/etc/passwd")) << "nothing has changed outside";
  std::filesystem::remove_all(folder);
  std::filesystem::remove_all(hidden);
}

TEST_F(NamespaceTest, RootWithoutTheRightToMountTakesAUserNamespace) {
  if (::geteuid() != 0) GTEST_SKIP() << "this is about root";
  for (const bool may_change_user : {true, false}) {
    const int outcome = outcome_of_child([&] {
      ::prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN);
      __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
      __user_cap_data_struct sets[2] = {};
      ::syscall(SYS_capget, &header, sets);
      std::uint32_t without = 1u << CAP_SYS_ADMIN;
      if (!may_change_user) without |= 1u << CAP_SETUID | 1u << CAP_SETGID;
      sets[0].effective &= ~without;
      sets[0].permitted &= ~without;
      if (::syscall(SYS_capset, &header, sets) != 0) return kNotJailed;
      if (const Status entered = enter_namespaces({.visible = {"/usr"}}); !entered.ok()) return kRefused;
      return outcome_of_child([] { return ::getpid() == 1 && ::access("/etc", F_OK) != 0 ? kAllowed : 1; });
    });
    EXPECT_EQ(outcome, kAllowed) << (may_change_user ? "with" : "without") << " CAP_SETUID";
  }
}

TEST(ReducedJail, LeavesNoPrivilege) {
  EXPECT_EQ(outcome_of_child([] {
              if (!drop_privileges().ok()) return kNotJailed;
              return ::geteuid() == 0 || ::setuid(0) == 0 || ::chroot("/") == 0 ? kAllowed : kRefused;
            }),
            kRefused);
}

TEST_F(NamespaceTest, HasNoNetwork) {
  EXPECT_EQ(inside([] {
              const UniqueFd socket_fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
              sockaddr_in address{};
              address.sin_family = AF_INET;
              address.sin_port = htons(53);
              address.sin_addr.s_addr = htonl(0x01010101);
              const auto* where = reinterpret_cast<const sockaddr*>(&address);
              return ::connect(socket_fd.get(), where, sizeof address) == 0 ? kAllowed : kRefused;
            }),
            kRefused);
  EXPECT_EQ(inside([] {
              struct if_nameindex* const all = ::if_nameindex();
              int others = 0;
              for (auto* each = all; each && each->if_index != 0; ++each)
                others += std::string(each->if_name) != "lo";
              return others;
            }),
            0);
}

TEST_F(NamespaceTest, CannotSignalTheProcessThatMadeIt) {
  const pid_t outside = ::getpid();
  EXPECT_EQ(inside([&] { return ::kill(outside, 0) == 0 && outside != 1 ? kAllowed : kRefused; }), kRefused);
}

}  // namespace
}  // namespace lathe
