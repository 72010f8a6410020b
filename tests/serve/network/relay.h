#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "base/random.h"

namespace lathe::serve {

/// What happens to a connection on its way; each chance is that of one piece of up to 4 KiB.
struct RelayFaults {
  double longest_delay_seconds = 0;  ///< of a piece, one way
  double cut = 0;                    ///< the connection ends in the middle of the piece
  double silence = 0;                ///< nothing passes any more either way, and a while later it ends
  int most = 1 << 30;                ///< cuts and silences in all; then the network is well
};

/// A network between clients and a port of 127.0.0.1: it listens on a port of its own, passes on
/// what comes, in order, and does so as badly as it is told. What it does follows from its seed and
/// the order in which pieces come.
class Relay {
 public:
  Relay(int to_port, Seed seed);
  ~Relay();
  Relay(const Relay&) = delete;

  int port() const { return port_; }
  void set(const RelayFaults& faults);
  /// While true nothing passes and nobody is told: connections stay, new ones wait.
  void hold(bool held);
  int connections() const { return connections_; }
  int faults() const { return cuts_ + silences_; }

 private:
  struct Piece {
    double due = 0;
    std::string bytes;
    bool is_last = false;  ///< the connection ends behind it
  };
  struct Way {
    int from = -1, to = -1;
    std::list<Piece> pieces = {};
    bool ended = false;  ///< its sender has closed
  };
  struct Connection {
    Way there, back;
    double silent_until = 0;
    bool over = false;
  };

  void run();
  void accept();
  void take(Connection& connection, Way& way, double now);
  void pass(Connection& connection, Way& way, double now);
  static void end(Connection& connection, bool by_reset);

  const int to_port_;
  int port_ = 0, listening_ = -1;
  Rng rng_;
  std::mutex mutex_;
  RelayFaults faults_;
  bool held_ = false;
  std::list<Connection> open_;
  std::atomic<int> connections_{0}, cuts_{0}, silences_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace lathe::serve
