#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "gym/gym.h"
#include "gym/version.h"
#include "serve/api.h"
#include "serve/memory_queue.h"
#include "serve/sqlite_ledger.h"
#include "task/spec.h"
#include "tests/store/fixtures.h"

namespace lathe::serve {

inline constexpr const char* kTinyTask = R"toml(
name = "tiny"
dims = { n = [1, 4096] }
tensor = [{ name = "x", shape = ["n"] }]
graph = "y = add(x, x)"
shape = [{ name = "small", n = 2048 }]
)toml";

/// A front end that listens, with its ledger in a folder.
class ListeningService {
 public:
  ~ListeningService() { stop(); }
  void stop() {
    if (!turning_.joinable()) return;
    stopping_ = true;
    turning_.join();
    server_->stop();
    service_.reset();
    server_.reset();
    api_.reset();
    ledger_.reset();
  }
  int port() const { return server_->port(); }

 protected:
  void open() {
    stop();
    ledger_ = *open_sqlite_ledger(folder_.path());
    queue_ = make_memory_queue({}, steady_clock());
    service_ = *Service::start(*ledger_, *queue_, steady_clock(), {}, *events_);
  }
  /// Behind open(); `adapted` may put another interface before the API's own.
  void listen(
      ApiOptions options, HttpLimits limits = {}, int port = 0,
      const std::function<HttpHandler(HttpHandler)>& adapted = [](HttpHandler own) { return own; }) {
    api_ = Api::make(*service_, std::move(options), null_sink());
    server_ = *HttpServer::start("127.0.0.1", port, limits, adapted(api_->handler()));
    stopping_ = false;
    turning_ = std::thread([this] {
      while (!stopping_) service_->turn(0.01);
    });
  }

  const TemporaryFolder folder_;
  EventSink* events_ = &null_sink();  // of the next open()
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<WorkQueue> queue_;
  std::unique_ptr<Service> service_;
  std::shared_ptr<Api> api_;
  std::unique_ptr<HttpServer> server_;
  std::atomic<bool> stopping_{false};
  std::thread turning_;
};

/// One that knows the tiny task, with a worker inside the process.
class ServiceHere : public ListeningService {
 public:
  /// What the worker says at once of an order; nullopt: nothing, until the order is cancelled.
  using Judge = std::function<std::optional<Verdict>(const WorkOrder&)>;

  ServiceHere() { start({}); }
  ~ServiceHere() { stop(); }

  void start(HttpLimits limits, bool with_worker = true, int port = 0) {
    open();
    const TaskSpec task = parse_task(kTinyTask, "tiny").value();
    const StoredTask tiny{task.digest, "tiny", kTinyTask};
    ASSERT_TRUE(ledger_->write({.tasks = {tiny}}).ok());
    listen({.device_kind = "cpu",
            .gym_version = kGymVersion,
            .own_tasks = {tiny},
            .max_unfinished = max_unfinished_},
           limits, port);
    if (with_worker)
      service_->worker_joined("w", {.kind = {"cpu", kGymVersion}, .device_name = "fake", .slots = 1000},
                              std::make_shared<Link>(*this));
  }

 protected:
  class Link final : public WorkerLink {
   public:
    explicit Link(ServiceHere& here) : here_(here) {}
    void send(const FrontMessage& message) override {
      if (const auto* order = std::get_if<WorkOrder>(&message)) {
        ++here_.orders_;
        if (auto verdict = here_.judge_(*order)) {
          verdict->task = order->task;
          verdict->candidate = digest_of(order->candidate);
          verdict->depth = order->depth;
          here_.service_->worker_said("w", WorkerAnswer{order->lease, std::move(verdict), {}});
        }
      }
      if (const auto* cancel = std::get_if<CancelOrder>(&message)) {
        ++here_.cancels_;
        here_.service_->worker_said(
            "w", WorkerAnswer{cancel->lease, std::nullopt, {ErrorCode::kCancelled, "cancelled"}});
      }
    }
    void end() override {}

   private:
    ServiceHere& here_;
  };

  static std::optional<Verdict> pass_unless_told_to_wait(const WorkOrder& order) {
    if (order.candidate.ends_with("wait")) return std::nullopt;
    Verdict verdict;
    verdict.outcome = Outcome::kPass;
    verdict.reason = "ok";
    return verdict;
  }

  Judge judge_ = pass_unless_told_to_wait;
  std::int64_t max_unfinished_ = 500;
  std::atomic<int> orders_{0}, cancels_{0};
};

}  // namespace lathe::serve
