#include "train/program/team.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "cli/console.h"
#include "cli/exit_code.h"

namespace lathe::train {
namespace {

constexpr int kLinkFd = 3;
constexpr int kToNoticeMs = 5000, kToBeSeenMs = 2000;
constexpr double kToEndSeconds = 10;
constexpr std::size_t kMostSaidBytes = 2000;

/// How a child ended, which is not reaped.
ExitStatus status_of(pid_t pid) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  if (info.si_code == CLD_EXITED) return {info.si_status, 0};
  return {0, info.si_status};
}

/// The end of a file's text, on one line.
std::string last_words(const UniqueFd& file) {
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(kMostSaidBytes));
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), from);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

Result<std::unique_ptr<Team>> Team::gather(int size, int rank, const std::vector<std::string>& arguments) {
  auto team = std::unique_ptr<Team>(new Team());
  if (size == 1) return team;
  // NCCL's processes meet on this machine, whatever other networks it has.
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  if (rank > 0) {
    LATHE_TRY(team->links_, join(size, rank));
    return team;
  }
  std::vector<UniqueFd> links;
  for (int other = 1; other < size; ++other) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      return errno_error("cannot make a socket");
    links.emplace_back(ends[0]);
    const UniqueFd theirs(ends[1]);
    std::vector<std::string> words = arguments;
    words.insert(words.end(), {"--rank", std::to_string(other)});
    LATHE_TRY(Member member, start(words, theirs));
    team->members_.push_back(std::move(member));
  }
  team->links_ = Links(std::move(links));
  team->stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!team->stop_.valid()) return errno_error("cannot make an event");
  team->watcher_ = std::thread([&first = *team] { first.watch(); });
  return team;
}

Team::~Team() { stop_watching(); }

Result<Team::Member> Team::start(const std::vector<std::string>& words, const UniqueFd& link) {
  UniqueFd said(::memfd_create("lathe-torch-train", MFD_CLOEXEC));
  if (!said.valid()) return errno_error("cannot make memory for what a process prints");
  std::error_code code;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", code);
  // Its name is the program's, and the verb that launchers put behind their name stays.
  Command command{.argv = words, .own_group = true};
  command.argv[0] = program;
  const std::array<Process::Descriptor, 2> descriptors{{{said.get(), STDERR_FILENO}, {link.get(), kLinkFd}}};
  LATHE_TRY(Process process, Process::start(command, descriptors));
  UniqueFd end(static_cast<int>(::syscall(SYS_pidfd_open, process.pid(), 0)));
  if (!end.valid()) return errno_error("cannot watch a process");
  return Member{std::move(process), std::move(end), std::move(said)};
}

Result<Links> Team::join(int size, int rank) {
  UniqueFd first(kLinkFd);
  int type = 0;
  socklen_t length = sizeof type;
  if (::getsockopt(kLinkFd, SOL_SOCKET, SO_TYPE, &type, &length) != 0)
    return invalid("a run's first process alone starts others", "leave --rank out");
  ::fcntl(kLinkFd, F_SETFD, FD_CLOEXEC);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Links links(rank, size, std::move(first));
  if (links.broken()) return Error{ErrorCode::kCancelled, "the run's first process is gone"};
  return links;
}

const Team::Member* Team::ended(int milliseconds) const {
  std::vector<pollfd> ends;
  for (const Member& member : members_) ends.push_back({member.end.get(), POLLIN, 0});
  if (::poll(ends.data(), ends.size(), milliseconds) <= 0) return nullptr;
  const auto first = std::ranges::find_if(ends, [](const pollfd& end) { return end.revents != 0; });
  return first == ends.end() ? nullptr : &members_[static_cast<std::size_t>(first - ends.begin())];
}

Error Team::fate_of(const Member& member) const {
  const auto rank = &member - members_.data() + 1;
  std::string text =
      fmt::format("the process of device {} ended: {}", rank, status_of(member.process.pid()).to_string());
  if (const std::string said = last_words(member.said); !said.empty()) text += ", saying: " + said;
  return {ErrorCode::kUnavailable, std::move(text), "go on from the last checkpoint: --resume"};
}

Error Team::explained(const Error& error) const {
  if (!is_first() || error.code != ErrorCode::kUnavailable || !links_.broken()) return error;
  const Member* const member = ended(kToBeSeenMs);
  return member ? fate_of(*member) : error;
}

void Team::part() {
  if (!is_first()) return links_.wait_for_end();
  stop_watching();
  links_ = Links();
  for (Member& member : members_) (void)member.process.wait(kToEndSeconds);
}

void Team::watch() const {
  std::vector<pollfd> waiting{{stop_.get(), POLLIN, 0}};
  for (const Member& member : members_) waiting.push_back({member.end.get(), POLLIN, 0});
  while (::poll(waiting.data(), waiting.size(), -1) < 0) {
  }
  if (waiting[0].revents != 0 || ::poll(waiting.data(), 1, kToNoticeMs) > 0) return;
  const Member* const member = ended(0);
  if (member) ::_exit(cli::fail(fate_of(*member)));
}

void Team::stop_watching() {
  if (!watcher_.joinable()) return;
  const std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  watcher_.join();
}

}  // namespace lathe::train
