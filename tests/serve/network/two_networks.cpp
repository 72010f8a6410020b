#include "tests/serve/network/two_networks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>

#include <cstring>
#include <thread>

#include "base/clock.h"

namespace lathe::serve {
namespace {

constexpr const char* kNowhere = "02:00:00:00:00:99";  // nobody's hardware address

UniqueFd namespace_of(const std::string& process) {
  return UniqueFd(::open(("/proc/" + process + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
}

bool are_same(const UniqueFd& a, const UniqueFd& b) {
  struct stat one {
  }, other{};
  return ::fstat(a.get(), &one) == 0 && ::fstat(b.get(), &other) == 0 && one.st_ino == other.st_ino;
}

Result<std::string> printed(const std::string& command) {
  LATHE_TRY(const Completed done, run_command({.argv = {"sh", "-c", command}}, "", 20));
  if (!done.status.ok()) return Error{ErrorCode::kUnavailable, command + ": " + done.errors};
  return done.output;
}

}  // namespace

Result<std::unique_ptr<TwoNetworks>> TwoNetworks::make() {
  std::unique_ptr<TwoNetworks> two(new TwoNetworks);
  two->before_ = namespace_of("thread-self");
  if (::unshare(CLONE_NEWNET) != 0)
    return Error{ErrorCode::kUnavailable, fmt::format("network namespaces: {}", std::strerror(errno))};
  two->near_ = namespace_of("thread-self");
  LATHE_CHECK_OK(two->connect());
  return two;
}

Status TwoNetworks::connect() {
  LATHE_TRY(Process holder,
            Process::start({.argv = {"unshare", "--net", "sleep", "infinity"}, .own_group = true}, {}));
  far_holder_.emplace(std::move(holder));
  const std::string pid = std::to_string(far_holder_->pid());
  const std::int64_t begin_ns = steady_clock().now_ns();
  do {
    if (far_holder_->has_ended() || seconds_since(begin_ns) > 5)
      return Error{ErrorCode::kUnavailable, "unshare --net does not work here"};
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    far_ = namespace_of(pid);
  } while (far_.get() < 0 || are_same(far_, near_));
  LATHE_CHECK_OK(run(false, "ip link set lo up"));
  LATHE_CHECK_OK(run(false, "ip link add near0 type veth peer name far0 netns " + pid));
  LATHE_CHECK_OK(run(false, fmt::format("ip address add {}/24 dev near0 && ip link set near0 up", kNear)));
  LATHE_CHECK_OK(run(
      true, fmt::format("ip link set lo up && ip address add {}/24 dev far0 && ip link set far0 up", kFar)));
  const char* const hardware = "ip -o link show {} | sed 's/.*link.ether \\([^ ]*\\).*/\\1/'";
  LATHE_TRY(near_hardware_, printed(fmt::format(fmt::runtime(hardware), "near0")));
  Result<std::string> far_hardware = std::string();
  in_far([&] { far_hardware = printed(fmt::format(fmt::runtime(hardware), "far0")); });
  LATHE_TRY(far_hardware_, std::move(far_hardware));
  return mend();
}

TwoNetworks::~TwoNetworks() { (void)::setns(before_.get(), CLONE_NEWNET); }

void TwoNetworks::in_far(const std::function<void()>& act) const {
  if (::setns(far_.get(), CLONE_NEWNET) != 0) std::abort();
  act();
  if (::setns(near_.get(), CLONE_NEWNET) != 0) std::abort();
}

Status TwoNetworks::run(bool far, const std::string& command) const {
  Status done = Ok{};
  const auto act = [&] {
    if (const auto output = printed(command); !output.ok()) done = output.error();
  };
  far ? in_far(act) : act();
  return done;
}

Status TwoNetworks::cut() {
  const std::string to_nobody =
      fmt::format("ip neighbour replace {{}} lladdr {} dev {{}} nud permanent", kNowhere);
  LATHE_CHECK_OK(run(false, fmt::format(fmt::runtime(to_nobody), kFar, "near0")));
  return run(true, fmt::format(fmt::runtime(to_nobody), kNear, "far0"));
}

Status TwoNetworks::mend() {
  const auto reach = [](const char* address, const std::string& hardware, const char* device) {
    return fmt::format("ip neighbour replace {} lladdr {} dev {} nud permanent", address,
                       hardware.substr(0, hardware.find('\n')), device);
  };
  LATHE_CHECK_OK(run(false, reach(kFar, far_hardware_, "near0")));
  return run(true, reach(kNear, near_hardware_, "far0"));
}

Status TwoNetworks::delay(const std::string& netem) {
  LATHE_CHECK_OK(run(false, "tc qdisc replace dev near0 root netem " + netem));
  return run(true, "tc qdisc replace dev far0 root netem " + netem);
}

}  // namespace lathe::serve
