#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace lathe {

struct Frame {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

inline constexpr std::size_t kMaxFrameBytes = 96 * 1024;
inline constexpr std::size_t kMaxFrameFds = 64;

/// One end of a SOCK_SEQPACKET pair, which preserves frame boundaries and passes file descriptors
/// along. Larger payloads than kMaxFrameBytes are passed in a memfd. Not thread-safe.
class Channel {
 public:
  /// `peer_errors`: a non-blocking pipe from the peer's standard error. If the peer ends before its
  /// first frame, errors quote what it wrote there: one line of printable text. Closed by the first
  /// frame.
  explicit Channel(UniqueFd fd, UniqueFd peer_errors = {})
      : fd_(std::move(fd)), peer_errors_(std::move(peer_errors)) {}
  static Result<std::pair<Channel, Channel>> make_pair();

  /// `bytes` must not be empty: an empty frame is indistinguishable from the end of the channel.
  Status send(std::string_view bytes, const std::vector<int>& fds = {}) const;
  /// Errors: kTimeout after `timeout_ms` (-1 waits forever), kIo when the peer is gone, kCorrupt
  /// for an over-long frame. Descriptors arrive close-on-exec.
  Result<Frame> receive(int timeout_ms) const;
  /// Returns once a frame or the peer's end is there, or after so long, and does not sleep
  /// meanwhile.
  void look_out(std::int64_t spin_ns) const;
  int fd() const { return fd_.get(); }
  int release() { return fd_.release(); }

 private:
  Error peer_has_ended() const;

  UniqueFd fd_;
  mutable UniqueFd peer_errors_;
};

}  // namespace lathe
