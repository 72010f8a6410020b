#include "serve/metrics.h"

#include <fmt/format.h>

namespace lathe::serve {
namespace {

class Page {
 public:
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <class Number>
  void value(Number number, const std::string& labels = "") {
    add("", labels, fmt::format("{}", number));
  }
  void histogram(const std::string& labels, const ServiceCounts::Histogram& histogram) {
    std::int64_t below = 0;
    for (std::size_t i = 0; i < histogram.buckets.size(); ++i) {
      below += histogram.buckets[i];
      const std::string bound = i < std::size(kStageBounds) ? fmt::format("{}", kStageBounds[i]) : "+Inf";
      add("_bucket", labels + ",le=\"" + bound + "\"", fmt::format("{}", below));
    }
    add("_sum", labels, fmt::format("{}", histogram.sum));
    add("_count", labels, fmt::format("{}", below));
  }
  std::string take() { return std::move(text_); }

 private:
  void add(const char* suffix, const std::string& labels, const std::string& number) {
    text_ += name_ + suffix + (labels.empty() ? "" : "{" + labels + "}") + " " + number + "\n";
  }
  std::string name_, text_;
};

std::string label(const char* name, const std::string& value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return fmt::format("{}=\"{}\"", name, escaped);
}

std::string device_labels(const WorkerState& worker) {
  return label("worker", worker.name) + "," + label("device", worker.device_name);
}

}  // namespace

std::string metrics_text(const ServiceCounts& counts, int quarantined_workers) {
  Page page;
  page.family("lathe_queue_waiting", "gauge", "Evaluations that wait for a worker, by priority.");
  for (const auto& [priority, of] : counts.queue.by_priority)
    page.value(of.waiting, label("priority", std::to_string(priority)));
  page.family("lathe_queue_oldest_seconds", "gauge", "How long the oldest of them has waited.");
  for (const auto& [priority, of] : counts.queue.by_priority)
    page.value(of.oldest_seconds, label("priority", std::to_string(priority)));
  page.family("lathe_queue_leased", "gauge", "Evaluations that workers have in hand.");
  page.value(counts.queue.leased);
  page.family("lathe_requests_unfinished", "gauge", "Clients' requests without an answer yet.");
  page.value(counts.unfinished_requests);
  page.family("lathe_admissions_total", "counter", "Submitted items by what became of them.");
  for (const auto& [what, count] : counts.admissions) page.value(count, label("result", what));
  page.family("lathe_evaluations_total", "counter", "Evaluations by the outcome of their verdict.");
  for (const auto& [outcome, count] : counts.verdicts) page.value(count, label("outcome", outcome));
  page.family("lathe_unanswered_total", "counter", "Requests that ended without a verdict.");
  for (const auto& [state, count] : counts.unanswered) page.value(count, label("state", state));
  page.family("lathe_stage_seconds", "histogram",
              "What evaluations spent in each stage; total is from the submission on.");
  for (const auto& [stage, histogram] : counts.stages) page.histogram(label("stage", stage), histogram);
  page.family("lathe_lease_expiries_total", "counter", "Leases that ended with a lost worker.");
  page.value(counts.queue.expired_leases);
  page.family("lathe_workers_lost_total", "counter", "Workers that ended unasked or fell silent.");
  page.value(counts.lost_workers);
  page.family("lathe_answers_late_total", "counter", "Answers under a lease that was over.");
  page.value(counts.late_answers);
  page.family("lathe_answers_refused_total", "counter", "Answers that were not about what was asked.");
  page.value(counts.refused_answers);
  page.family("lathe_write_failures_total", "counter", "Transactions that the ledger did not take.");
  page.value(counts.write_failures);
  page.family("lathe_workers_quarantined", "gauge", "Workers that cannot begin.");
  page.value(quarantined_workers);
  page.family("lathe_worker_in_hand", "gauge", "Evaluations that a worker has in hand.");
  for (const WorkerState& worker : counts.workers) page.value(worker.in_hand, label("worker", worker.name));
  page.family("lathe_device_busy_share", "gauge",
              "Share of the last heartbeat's time in which the device computed.");
  for (const WorkerState& worker : counts.workers) page.value(worker.busy_share, device_labels(worker));
  page.family("lathe_device_clock_mhz", "gauge",
              "The device's clock while the worker timed a candidate last, where the device tells it.");
  for (const WorkerState& worker : counts.workers)
    if (const auto clock = worker.device_state.find("clock_mhz"); clock != worker.device_state.end())
      page.value(clock->second, device_labels(worker));
  page.family("lathe_device_throttled_share", "gauge",
              "Share of that time in which the device slowed itself down, by reason; none: it did not.");
  constexpr std::string_view kThrottled = "throttled.";
  for (const WorkerState& worker : counts.workers)
    for (const auto& [name, share] : worker.device_state)
      if (name.starts_with(kThrottled))
        page.value(share, device_labels(worker) + "," + label("reason", name.substr(kThrottled.size())));
  return page.take();
}

}  // namespace lathe::serve
