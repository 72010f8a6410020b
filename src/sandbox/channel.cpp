#include "sandbox/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace lathe {
namespace {

constexpr std::size_t kMostErrorBytes = 512;

/// Untrusted bytes as one line that a terminal shows as they are.
std::string one_line(std::string_view bytes) {
  while (!bytes.empty() && (bytes.back() == '\n' || bytes.back() == ' ')) bytes.remove_suffix(1);
  std::string line;
  for (const char byte : bytes) {
    const bool printable = byte >= ' ' && byte <= '~';
    line += printable ? std::string(1, byte) : byte == '\n' ? "; " : "?";
  }
  return line;
}

}  // namespace

Result<std::pair<Channel, Channel>> Channel::make_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return errno_error("cannot make a socket pair");
  return std::pair(Channel(UniqueFd(ends[0])), Channel(UniqueFd(ends[1])));
}

Status Channel::send(std::string_view bytes, const std::vector<int>& fds) const {
  assert(!bytes.empty());
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFrameFds)> control{};
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  for (;;) {
    if (::sendmsg(fd_.get(), &message, MSG_NOSIGNAL) >= 0) return Ok{};
    if (errno == EPIPE || errno == ECONNRESET) return peer_has_ended();
    if (errno != EINTR) return errno_error("cannot send a frame");
  }
}

Error Channel::peer_has_ended() const {
  std::array<char, kMostErrorBytes> bytes{};
  const ssize_t got =
      peer_errors_.valid() ? ::read(peer_errors_.get(), bytes.data(), bytes.size()) : ssize_t{0};
  const std::string said = got > 0 ? one_line({bytes.data(), static_cast<std::size_t>(got)}) : "";
  if (said.empty()) return {ErrorCode::kIo, "the peer closed the channel"};
  return {ErrorCode::kIo, "a helper program ended at its start: " + said,
          "run lathe doctor; where it names a library, build or install Lathe whole"};
}

void Channel::look_out(std::int64_t spin_ns) const {
  pollfd waiting{fd_.get(), POLLIN, 0};
  const std::int64_t end_ns = steady_clock().now_ns() + spin_ns;
  while (steady_clock().now_ns() < end_ns && ::poll(&waiting, 1, 0) == 0) __builtin_ia32_pause();
}

Result<Frame> Channel::receive(int timeout_ms) const {
  pollfd waiting{fd_.get(), POLLIN, 0};
  int ready = 0;
  do ready = ::poll(&waiting, 1, timeout_ms);
  while (ready < 0 && errno == EINTR);
  if (ready < 0) return errno_error("cannot wait for a frame");
  if (ready == 0) return Error{ErrorCode::kTimeout, "no frame came in time"};

  Frame frame;
  frame.bytes.resize(kMaxFrameBytes);
  iovec part{frame.bytes.data(), frame.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFrameFds)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do got = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0 && errno == ECONNRESET) return peer_has_ended();  // it left frames unread
  if (got < 0) return errno_error("cannot receive a frame");
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      frame.fds.emplace_back(fd);
    }
  }
  if (got == 0) return peer_has_ended();
  peer_errors_ = UniqueFd();
  if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) return Error{ErrorCode::kCorrupt, "a frame was too long"};
  frame.bytes.resize(static_cast<std::size_t>(got));
  return frame;
}

}  // namespace lathe
