#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/work_queue.h"

namespace lathe::serve {

/// What front ends have in common: evaluations that wait for one of them. A front end holds what it
/// was given until it says that it is done, or is silent for a while; its own WorkQueue says which
/// worker has what. It may be lost at any time: the ledger has everything. Calls come from one
/// thread at a time.
class SharedQueue {
 public:
  virtual ~SharedQueue() = default;

  struct Item {
    Digest id;
    WorkerKind kind;
    std::string client;  ///< whose share it counts against
    int priority = 0;
    std::int64_t since_unix_ms = 0;  ///< for the order within a client
  };
  /// Requests of clients that have ended, and where `gone` the evaluation with them: nobody is to
  /// work on it.
  struct Over {
    Digest id;
    bool gone = true;
    std::vector<std::string> clients = {};  ///< whose requests ended
    double seconds = 0;                     ///< what it cost, for the fair share
  };
  /// How many of a kind a front end can use: `now` for workers that are idle, `ahead` more where
  /// others do not need them.
  struct Wish {
    int now = 0;
    int ahead = 0;
  };
  struct Turn {
    std::vector<Item> added;       ///< known ones change nothing
    std::vector<Over> over;        ///< held or not; every front end is told
    std::vector<Digest> returned;  ///< held ones that others may have
    std::map<WorkerKind, Wish> wishes;
  };
  struct News {
    std::vector<Digest> given;
    std::vector<Over> over;  ///< by other front ends
    /// Something may have been lost: what the ledger has pending is to be added again, and
    /// everything that one waits for looked up.
    bool rebuild = false;
    /// Others took this front end for gone and have what it held.
    bool expelled = false;
    /// Versions of the gym that front ends have workers for; with `rebuild`.
    std::vector<std::string> live_versions = {};
  };
  /// One round trip with everything that has gathered since the last one. Errors: kIo; what the
  /// turn had is to be said again, other than `added`: a rebuild follows.
  virtual Result<News> exchange(const Turn& turn) = 0;
  /// Gives back everything that is held, before this front end ends.
  virtual void leave() = 0;
  virtual Result<QueueCounts> counts() = 0;
  /// Called from any thread when another front end has had something to say.
  virtual void on_news(std::function<void()> wake) = 0;
};

}  // namespace lathe::serve
