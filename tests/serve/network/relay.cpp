#include "tests/serve/network/relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "base/clock.h"

namespace lathe::serve {
namespace {

constexpr std::size_t kPieceBytes = 4096;
constexpr std::size_t kMostPieces = 64;  // on a way, before its sender has to wait
constexpr double kLongestSilenceSeconds = 3;

double now_seconds() { return static_cast<double>(steady_clock().now_ns()) * 1e-9; }

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void prepare(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace

Relay::Relay(int to_port, Seed seed) : to_port_(to_port), rng_(seed) {
  listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listening_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listening_, 64) != 0 ||
      ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    std::abort();
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

Relay::~Relay() {
  stopping_ = true;
  thread_.join();
  for (Connection& connection : open_) end(connection, true);
  ::close(listening_);
}

void Relay::set(const RelayFaults& faults) {
  const std::lock_guard lock(mutex_);
  faults_ = faults;
}

void Relay::hold(bool held) {
  const std::lock_guard lock(mutex_);
  held_ = held;
}

void Relay::run() {
  while (!stopping_) {
    std::vector<pollfd> wanted{{listening_, POLLIN, 0}};
    {
      const std::lock_guard lock(mutex_);
      for (const Connection& connection : open_)
        for (const Way* way : {&connection.there, &connection.back})
          if (!way->ended && way->pieces.size() < kMostPieces && !held_)
            wanted.push_back({way->from, POLLIN, 0});
    }
    ::poll(wanted.data(), wanted.size(), 1);
    const std::lock_guard lock(mutex_);
    if (held_) {
      ::usleep(1000);
      continue;
    }
    accept();
    const double now = now_seconds();
    for (auto at = open_.begin(); at != open_.end();) {
      Connection& connection = *at;
      if (connection.silent_until > 0) {
        if (now > connection.silent_until) end(connection, true);
      } else {
        for (Way* way : {&connection.there, &connection.back})
          if (!connection.over) take(connection, *way, now);
        for (Way* way : {&connection.there, &connection.back})
          if (!connection.over && connection.silent_until == 0) pass(connection, *way, now);
      }
      at = connection.over ? open_.erase(at) : std::next(at);
    }
  }
}

void Relay::accept() {
  const int from = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
  if (from < 0) return;
  const int to = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(to_port_);
  if (::connect(to, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(from);
    ::close(to);
    return;
  }
  prepare(from);
  prepare(to);
  ++connections_;
  open_.push_back({.there = {from, to}, .back = {to, from}});
}

/// What has come on a way, and what is to become of it.
void Relay::take(Connection& connection, Way& way, double now) {
  if (way.ended || way.pieces.size() >= kMostPieces) return;
  char bytes[kPieceBytes];
  const ssize_t got = ::recv(way.from, bytes, sizeof bytes, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    way.ended = true;
    way.pieces.push_back({way.pieces.empty() ? now : way.pieces.back().due, "", true});
    return;
  }
  Piece piece{now + rng_.uniform() * faults_.longest_delay_seconds,
              std::string(bytes, static_cast<std::size_t>(got))};
  if (!way.pieces.empty()) piece.due = std::max(piece.due, way.pieces.back().due);
  const bool is_well = faults() >= faults_.most;
  if (!is_well && rng_.chance(faults_.silence)) {
    ++silences_;
    connection.silent_until = now + rng_.uniform() * kLongestSilenceSeconds;
    return;
  }
  if (!is_well && rng_.chance(faults_.cut)) {
    ++cuts_;
    piece.bytes.resize(rng_.below(piece.bytes.size() + 1));
    piece.is_last = true;
  }
  way.pieces.push_back(std::move(piece));
}

void Relay::pass(Connection& connection, Way& way, double now) {
  while (!way.pieces.empty() && way.pieces.front().due <= now) {
    Piece& piece = way.pieces.front();
    while (!piece.bytes.empty()) {
      const ssize_t sent = ::send(way.to, piece.bytes.data(), piece.bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (sent <= 0) return end(connection, true);
      piece.bytes.erase(0, static_cast<std::size_t>(sent));
    }
    if (piece.is_last) return end(connection, rng_.chance(0.5));
    way.pieces.pop_front();
  }
}

/// `by_reset`: as a machine does that knows of no such connection.
void Relay::end(Connection& connection, bool by_reset) {
  for (const int fd : {connection.there.from, connection.there.to}) {
    const linger now{1, 0};
    if (by_reset) ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(fd);
  }
  connection.over = true;
}

}  // namespace lathe::serve
