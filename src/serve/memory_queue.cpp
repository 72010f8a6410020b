#include "serve/memory_queue.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace lathe::serve {
namespace {

constexpr std::size_t kRememberedCosts = 1 << 14;

std::int64_t to_ns(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

/// Where an item stands among a client's: the lowest goes first. Age and priority in one number
/// that does not change while the item waits.
using Rank = std::int64_t;
using Line = std::set<std::pair<Rank, Digest>>;

struct Entry {
  WorkItem item;
  Rank rank = 0;
  std::int64_t lease = 0;  ///< 0: waiting
  std::string worker = {};
  double charged_seconds = 0;
  std::int64_t leased_ns = 0;
};

struct Account {
  std::map<Digest, Line> by_task;  ///< no line is empty
  double used_seconds = 0;         ///< virtual time: a client that was idle does not save up
};

/// The waiting items for one kind of worker.
struct Pool {
  std::map<std::string, Account> clients;
  Line suspects;             ///< items that have lost a worker
  std::string reserved_for;  ///< the worker that takes no more work until it can take a suspect
  double now_seconds = 0;    ///< virtual time of the last client served
};

struct Holder {
  WorkerKind kind;
  std::set<std::int64_t> leases;
  bool has_suspect = false;
  std::int64_t beat_ns = 0;
  std::string client;            ///< served last
  std::optional<Digest> task;    ///< taken last
  std::deque<Digest> had_tasks;  ///< the newest at the back
};

class MemoryQueue final : public WorkQueue {
 public:
  MemoryQueue(const SchedulePolicy& policy, const Clock& clock)
      : policy_(policy), clock_(clock), asked_ns_(clock.now_ns()) {}

  Status add(const WorkItem& item) override {
    const auto [entry, is_new] = entries_.try_emplace(item.id, Entry{item});
    if (!is_new) return Ok{};
    entry->second.rank = item.waiting_since_ns - to_ns(policy_.aging_seconds) * item.priority;
    ++per_client_[item.client];
    wait(entry->second);
    return Ok{};
  }

  Result<std::vector<Lease>> take(const std::string& name, const WorkerKind& kind, int most) override {
    Holder& worker = worker_of(name);
    worker.kind = kind;
    Pool& pool = pools_[kind];
    std::vector<Lease> leases;
    if (worker.has_suspect) return leases;
    while (std::cmp_less(leases.size(), most)) {
      if (!pool.suspects.empty() && (pool.reserved_for.empty() || pool.reserved_for == name)) {
        if (!worker.leases.empty()) {
          pool.reserved_for = name;
          return leases;
        }
        pool.reserved_for.clear();
        worker.has_suspect = true;
        leases.push_back(lease(entries_.at(pool.suspects.begin()->second), name, worker, pool));
        return leases;
      }
      const auto client = next_client(pool, worker);
      if (client == pool.clients.end()) return leases;
      Entry& entry = entries_.at(next_item(client->second, worker));
      leases.push_back(lease(entry, name, worker, pool));
    }
    return leases;
  }

  Status renew(const std::string& worker) override {
    worker_of(worker).beat_ns = clock_.now_ns();
    return Ok{};
  }

  Result<bool> finish(std::int64_t number, double seconds) override {
    const auto found = leases_.find(number);
    if (found == leases_.end()) return false;
    const Digest id = found->second;
    Entry& entry = entries_.at(id);
    if (seconds > 0) {
      learn_cost(entry.item.task, seconds);
      charge(entry, seconds);
    }
    LATHE_CHECK_OK(drop(id));
    return true;
  }

  Result<std::vector<WorkItem>> release(const std::string& name, bool lost) override {
    std::vector<WorkItem> released;
    const auto found = workers_.find(name);
    if (found == workers_.end()) return released;
    const auto numbers = found->second.leases;
    Pool& pool = pools_[found->second.kind];
    if (pool.reserved_for == name) pool.reserved_for.clear();
    workers_.erase(found);
    for (const std::int64_t number : numbers) {
      Entry& entry = entries_.at(leases_.at(number));
      leases_.erase(number);
      entry.lease = 0;
      if (lost) {
        ++entry.item.lost_workers;
        ++expired_leases_;
      }
      wait(entry);
      released.push_back(entry.item);
    }
    return released;
  }

  Result<std::int64_t> drop(const Digest& id) override {
    const auto found = entries_.find(id);
    if (found == entries_.end()) return std::int64_t{0};
    Entry& entry = found->second;
    const std::int64_t lease = entry.lease;
    if (lease == 0) {
      leave(entry);
    } else {
      if (entry.charged_seconds >= 0)  // what is withdrawn, or late, took the worker's time as well
        charge(entry, seconds_of(entry));
      leases_.erase(lease);
      if (const auto worker = workers_.find(entry.worker); worker != workers_.end()) {
        worker->second.leases.erase(lease);
        if (worker->second.leases.empty()) worker->second.has_suspect = false;
      }
    }
    if (const auto count = per_client_.find(entry.item.client); --count->second == 0)
      per_client_.erase(count);
    entries_.erase(found);
    return lease;
  }

  Result<std::vector<std::string>> silent_workers() override {
    const std::int64_t now = clock_.now_ns();
    const std::int64_t lease_ns = to_ns(policy_.lease_seconds);
    const std::int64_t gap = now - std::exchange(asked_ns_, now);
    std::vector<std::string> silent;
    for (auto& [name, worker] : workers_) {
      if (gap > lease_ns / 2) worker.beat_ns = std::min(now, worker.beat_ns + gap);
      if (now - worker.beat_ns > lease_ns) silent.push_back(name);
    }
    return silent;
  }

  Result<bool> is_leased(const Digest& id) override {
    const auto found = entries_.find(id);
    return found != entries_.end() && found->second.lease != 0;
  }

  Result<double> leased_seconds(const Digest& id) override {
    const auto found = entries_.find(id);
    return found == entries_.end() || found->second.lease == 0 ? 0 : seconds_of(found->second);
  }

  Result<QueueCounts> counts() override {
    QueueCounts counts;
    const std::int64_t now = clock_.now_ns();
    for (const auto& [id, entry] : entries_) {
      if (entry.lease != 0) continue;
      QueueCounts::Class& of_priority = counts.by_priority[entry.item.priority];
      ++of_priority.waiting;
      of_priority.oldest_seconds =
          std::max(of_priority.oldest_seconds, static_cast<double>(now - entry.item.waiting_since_ns) * 1e-9);
    }
    counts.by_client = per_client_;
    counts.leased = static_cast<std::int64_t>(leases_.size());
    counts.waiting = static_cast<std::int64_t>(entries_.size()) - counts.leased;
    counts.expired_leases = expired_leases_;
    return counts;
  }

 private:
  using Clients = std::map<std::string, Account>;

  Holder& worker_of(const std::string& name) {
    const auto [worker, is_new] = workers_.try_emplace(name);
    if (is_new) worker->second.beat_ns = clock_.now_ns();
    return worker->second;
  }

  void wait(const Entry& entry) {
    const WorkItem& item = entry.item;
    Pool& pool = pools_[item.kind];
    if (item.lost_workers > 0) {
      pool.suspects.emplace(entry.rank, item.id);
      return;
    }
    Account& client = pool.clients[item.client];
    if (client.by_task.empty()) client.used_seconds = std::max(client.used_seconds, pool.now_seconds);
    client.by_task[item.task].emplace(entry.rank, item.id);
  }

  void leave(const Entry& entry) {
    const WorkItem& item = entry.item;
    Pool& pool = pools_[item.kind];
    if (item.lost_workers > 0) {
      pool.suspects.erase({entry.rank, item.id});
      return;
    }
    Account& client = pool.clients.at(item.client);
    const auto line = client.by_task.find(item.task);
    line->second.erase({entry.rank, item.id});
    if (line->second.empty()) client.by_task.erase(line);
    // An idle client is forgotten once it has no advantage left to forget.
    if (client.by_task.empty() && client.used_seconds <= pool.now_seconds) pool.clients.erase(item.client);
  }

  Lease lease(Entry& entry, const std::string& name, Holder& worker, Pool& pool) {
    const WorkItem& item = entry.item;
    entry.charged_seconds = cost_of(item.task);
    if (const auto client = pool.clients.find(item.client); client != pool.clients.end()) {
      pool.now_seconds = std::max(pool.now_seconds, client->second.used_seconds);
      client->second.used_seconds += entry.charged_seconds;
    }
    leave(entry);
    entry.lease = ++last_lease_;
    entry.leased_ns = clock_.now_ns();
    entry.worker = name;
    leases_[entry.lease] = item.id;
    worker.leases.insert(entry.lease);
    worker.client = item.client;
    if (worker.task != item.task) {
      worker.task = item.task;
      std::erase(worker.had_tasks, item.task);
      worker.had_tasks.push_back(item.task);
      if (std::cmp_greater(worker.had_tasks.size(), policy_.warm_tasks)) worker.had_tasks.pop_front();
    }
    return {entry.lease, item};
  }

  /// The one that has used least; the worker stays with its last one for a while.
  Clients::iterator next_client(Pool& pool, const Holder& worker) {
    auto next = pool.clients.end();
    for (auto client = pool.clients.begin(); client != pool.clients.end(); ++client) {
      if (client->second.by_task.empty()) continue;
      if (next == pool.clients.end() || client->second.used_seconds < next->second.used_seconds)
        next = client;
    }
    if (next == pool.clients.end()) return next;
    const auto last = pool.clients.find(worker.client);
    const bool stays = last != pool.clients.end() && !last->second.by_task.empty() &&
                       last->second.used_seconds <= next->second.used_seconds + policy_.share_seconds;
    return stays ? last : next;
  }

  Digest next_item(const Account& client, const Holder& worker) {
    const std::int64_t bonus = to_ns(policy_.locality_seconds);
    Rank best = std::numeric_limits<Rank>::max();
    const Line* line = nullptr;
    for (const auto& [task, waiting] : client.by_task) {
      Rank rank = waiting.begin()->first;
      if (worker.task == task)
        rank -= bonus;
      else if (std::find(worker.had_tasks.begin(), worker.had_tasks.end(), task) != worker.had_tasks.end())
        rank -= bonus / 2;
      else if (is_another_workers(task))
        rank += bonus / 4;
      if (!line || rank < best) {
        best = rank;
        line = &waiting;
      }
    }
    return line->begin()->second;
  }

  bool is_another_workers(const Digest& task) const {
    return std::any_of(workers_.begin(), workers_.end(),
                       [&](const auto& worker) { return worker.second.task == task; });
  }

  double seconds_of(const Entry& entry) const {
    return static_cast<double>(clock_.now_ns() - entry.leased_ns) * 1e-9;
  }

  /// Instead of the estimate; once.
  void charge(Entry& entry, double seconds) {
    auto& clients = pools_[entry.item.kind].clients;
    if (const auto client = clients.find(entry.item.client); client != clients.end())
      client->second.used_seconds += seconds - entry.charged_seconds;
    entry.charged_seconds = -1;
  }

  double cost_of(const Digest& task) const {
    const auto cost = costs_.find(task);
    return cost == costs_.end() ? mean_cost_ : cost->second;
  }

  void learn_cost(const Digest& task, double seconds) {
    constexpr double kNewest = 0.1;
    mean_cost_ += kNewest * (seconds - mean_cost_);
    if (costs_.size() >= kRememberedCosts) costs_.clear();
    const auto [cost, is_new] = costs_.try_emplace(task, seconds);
    if (!is_new) cost->second += kNewest * (seconds - cost->second);
  }

  const SchedulePolicy policy_;
  const Clock& clock_;
  std::map<Digest, Entry> entries_;
  std::map<WorkerKind, Pool> pools_;
  std::map<std::string, Holder> workers_;
  std::map<std::int64_t, Digest> leases_;
  std::map<std::string, std::int64_t> per_client_;
  std::map<Digest, double> costs_;
  double mean_cost_ = 0.1;
  std::int64_t last_lease_ = 0;
  std::int64_t expired_leases_ = 0;
  std::int64_t asked_ns_;
};

}  // namespace

std::unique_ptr<WorkQueue> make_memory_queue(const SchedulePolicy& policy, const Clock& clock) {
  return std::make_unique<MemoryQueue>(policy, clock);
}

}  // namespace lathe::serve
