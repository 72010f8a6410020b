#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/work_queue.h"

namespace lathe::serve {

/// The queue that front ends share: evaluations that wait for one of them. A front end holds what
/// it was given until it reports it over or falls silent; its own WorkQueue says which worker has
/// what. The queue may be lost at any time, because the ledger has everything. Called by one thread
/// at a time.
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
  /// Requests that have ended, and if `gone` the evaluation too: nobody should work on it any more.
  struct Over {
    Digest id;
    bool gone = true;
    std::vector<std::string> clients = {};  ///< whose requests ended
    double seconds = 0;                     ///< its cost, for the fair share
    bool answered = true;                   ///< else it was stopped: the cost says nothing of others'
    bool if_held = false;  ///< only if this front end holds it: it may have been added anew meanwhile
  };
  /// How many evaluations of a kind a front end can use: `now` for idle workers, and `ahead` more
  /// if no other front end needs them.
  struct Wish {
    int now = 0;
    int ahead = 0;
  };
  struct Turn {
    std::vector<Item> added;       ///< those already there are ignored
    std::vector<Over> over;        ///< held or not; every front end is told
    std::vector<Digest> returned;  ///< held ones given back for others
    std::map<WorkerKind, Wish> wishes;
  };
  struct News {
    std::vector<Digest> given;
    std::vector<Over> over;  ///< by other front ends
    /// Something may have been lost: add again what the ledger has pending, and look up everything
    /// that somebody waits for.
    bool rebuild = false;
    /// This front end was presumed dead, and others have what it held.
    bool expelled = false;
    /// Gym versions of the front ends that there are; empty where they were not asked for, or are
    /// not known yet. `rebuild` waits for them.
    std::vector<std::string> live_versions = {};
  };
  /// One round trip with everything that has accumulated since the last one. After kIo, repeat the
  /// turn without `added`, because a rebuild follows.
  virtual Result<News> exchange(const Turn& turn) = 0;
  /// Gives back everything that is held, before this front end ends.
  virtual void leave() = 0;
  virtual Result<QueueCounts> counts() = 0;
  /// Sets what to call, on any thread, when another front end has news.
  virtual void on_news(std::function<void()> wake) = 0;
};

}  // namespace lathe::serve
