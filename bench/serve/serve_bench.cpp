#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/process.h"
#include "base/random.h"
#include "base/statistics.h"
#include "bench/serve/fake_verdict.h"
#include "bench/serve/http_client.h"
#include "record/json.h"
#include "sandbox/process.h"

// Drives lathe serve with fake workers over HTTP, kills its processes meanwhile, and compares what
// came back with what was sent: every request has one answer, and it is the right one.
namespace lathe::serve {
namespace {

struct BenchOptions {
  std::string lathe, worker, store;
  int evaluations = 20'000;
  int workers = 16;
  int submitters = 2;
  int batch = 64;
  int tasks = 8;
  double death = 0;     ///< chance that a worker ends at an order
  int front_kills = 0;  ///< kill -9 of the front end
  double latency_seconds = 5;
  int latency_rate = 200;
  bool sorted = false;
  double prepare_seconds = 0;
  double sleep_seconds = 0;
};

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

class Bench {
 public:
  explicit Bench(const BenchOptions& options) : options_(options), port_(free_port()) {
    ::setenv("LATHE_FAKE_DEATH", std::to_string(options.death).c_str(), 1);
    ::setenv("LATHE_FAKE_PREPARE_SECONDS", std::to_string(options.prepare_seconds).c_str(), 1);
    Rng rng(Seed::from_number(7));
    for (int i = 0; i < options.evaluations; ++i) order_.push_back(i);
    if (!options.sorted) rng.shuffle(order_);
  }

  int run() {
    if (!start()) return fmt::print(stderr, "lathe serve does not begin\n"), 1;
    make_tasks_known();
    const std::int64_t begin = steady_clock().now_ns();
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.submitters; ++i) threads.emplace_back([this, i] { submit_share(i); });
    threads.emplace_back([this] { read_all(); });
    threads.emplace_back([this] { disturb(); });
    for (std::thread& thread : threads) thread.join();
    const double seconds = seconds_since(begin);
    report(seconds);
    if (options_.latency_seconds > 0) measure_latency();
    front_.reset();
    return lost() + doubled_ + forged_ == 0 ? 0 : 1;
  }

 private:
  std::string text_of(int number) const {
    return fmt::format("candidate {} sleep={}", number, options_.sleep_seconds);
  }
  std::string task_of(int number) const {
    const int per_task = std::max(1, options_.evaluations / options_.tasks);
    const int task = std::min(number / per_task, options_.tasks - 1);
    return fmt::format(
        "name = \"task_{}\"\ndims = {{ n = [1, 4096] }}\ntensor = [{{ name = \"x\", shape = [\"n\"] }}]\n"
        "graph = \"y = add(x, x)\"\nbaselines = [\"naive\"]\nshape = [{{ name = \"small\", n = {} }}]\n",
        task, 1024 + task);
  }

  /// A text that came once is known by its digest.
  void make_tasks_known() {
    HttpClient client(port_);
    for (int task = 0; task < options_.tasks; ++task) {
      const std::string text = task_of(task * std::max(1, options_.evaluations / options_.tasks));
      const auto known = client.post("/v1/evaluations?wait=30",
                                     json_text({{"task", {{"toml", text}}}, {"candidate", "first"}}));
      if (!known.ok() || known->status != 200) fmt::print(stderr, "a task is not taken\n");
    }
  }

  bool start() {
    const Process::Descriptor descriptors[] = {{2, 2}};
    auto process =
        Process::start({.argv = {options_.lathe, "serve", "--port", std::to_string(port_), "--store",
                                 options_.store, "--device", "cpu", "--workers",
                                 std::to_string(options_.workers), "--worker-program", options_.worker},
                        .own_group = true},
                       descriptors);
    if (!process.ok()) return false;
    {
      const std::lock_guard lock(mutex_);
      front_.emplace(*std::move(process));
    }
    HttpClient client(port_);
    for (int i = 0; i < 2000; ++i) {
      const auto answer = client.get("/readyz");
      if (answer.ok() && answer->status == 200) return true;
      pause(0.005);
    }
    return false;
  }

  void submit_share(int share) {
    HttpClient client(port_);
    for (std::size_t at = static_cast<std::size_t>(share * options_.batch); at < order_.size();
         at += static_cast<std::size_t>(options_.submitters * options_.batch)) {
      nlohmann::json items = nlohmann::json::array();
      const std::size_t end = std::min(order_.size(), at + static_cast<std::size_t>(options_.batch));
      for (std::size_t i = at; i < end; ++i)
        items.push_back({{"task", {{"digest", digest_of(task_of(order_[i])).hex()}}},
                         {"candidate", text_of(order_[i])},
                         {"tag", std::to_string(order_[i])}});
      const std::string body = json_text({{"items", items}});
      for (;;) {
        const auto answer = client.post("/v1/evaluations/batch", body);
        if (answer.ok() && answer->status == 202 && answer->body.find("\"error\"") == std::string::npos)
          break;
        ++retries_;
        pause(answer.ok() ? 0.1 : 0.02);
      }
    }
  }

  void read_all() {
    HttpClient client(port_);
    std::vector<bool> seen(order_.size());
    std::int64_t after = 0, last_news = steady_clock().now_ns();
    while (answered_ < options_.evaluations && seconds_since(last_news) < 60) {
      const auto answer = client.get(fmt::format("/v1/evaluations?after={}&limit=1000&wait=5", after));
      if (!answer.ok() || answer->status != 200) {
        pause(0.02);
        continue;
      }
      const auto document = nlohmann::json::parse(answer->body);
      for (const auto& item : document["items"]) {
        last_news = steady_clock().now_ns();
        if (item["sequence"].get<std::int64_t>() <= after) ++doubled_;
        after = item["sequence"].get<std::int64_t>();
        if (item["tag"] == "") continue;
        const auto number = static_cast<std::size_t>(std::stoi(item["tag"].get<std::string>()));
        if (seen[number]) ++doubled_;
        seen[number] = true;
        check(static_cast<int>(number), item);
        ++answered_;
        if (answered_ == options_.evaluations / 4) quarter_kib_ = resident_kib();
      }
    }
  }

  void check(int number, const nlohmann::json& item) {
    const std::string text = text_of(number);
    const Digest digest = digest_of(text);
    const auto verdict = item.value("verdict", nlohmann::json::object());
    if (verdict.value("reason", "") == "worker_killed") {
      ++condemned_;
      return;
    }
    const char* outcome = digest.bytes[0] % 2 ? "PASS" : "WRONG";
    if (item["state"] != "done" || item["candidate"] != digest.hex() ||
        verdict.value("outcome", "") != outcome || verdict.value("reason", "") != digest.short_hex())
      ++forged_;
  }

  void disturb() {
    Rng rng(Seed::from_number(11));
    for (int i = 0; i < options_.front_kills && answered_ < options_.evaluations; ++i) {
      const int at = options_.evaluations * (i + 1) / (options_.front_kills + 1);
      while (answered_ < at) pause(0.005);
      pause(rng.uniform() * 0.05);
      const std::int64_t begin = steady_clock().now_ns();
      front_->kill();
      if (!start()) fmt::print(stderr, "lathe serve does not begin again\n");
      slowest_restart_ = std::max(slowest_restart_, seconds_since(begin));
    }
  }

  double resident_kib() {
    const std::lock_guard lock(mutex_);
    std::ifstream status(fmt::format("/proc/{}/status", front_->pid()));
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmRSS:")) return std::atof(line.c_str() + 6);
    return 0;
  }

  int lost() const { return options_.evaluations - answered_; }

  void report(double seconds) {
    fmt::print("evaluations {}  workers {}  tasks {}\n", options_.evaluations, options_.workers,
               options_.tasks);
    fmt::print("seconds {:.1f}  evaluations a second {:.0f}\n", seconds, answered_ / seconds);
    fmt::print("lost {}  doubled {}  forged {}  condemned {}\n", lost(), doubled_.load(), forged_.load(),
               condemned_.load());
    fmt::print("front end killed {} times, ready again after {:.2f} s at most; retried posts {}\n",
               options_.front_kills, slowest_restart_, retries_.load());
    fmt::print("resident MiB at a quarter {:.0f}, at the end {:.0f}\n", quarter_kib_ / 1024.0,
               resident_kib() / 1024.0);
    HttpClient client(port_);
    if (const auto answer = client.get("/metrics"); answer.ok())
      for (const char* name :
           {"lathe_workers_lost_total ", "lathe_lease_expiries_total ", "lathe_answers_late_total "})
        if (const auto at = answer->body.find(std::string("\n") + name); at != std::string::npos)
          fmt::print("{}\n", answer->body.substr(at + 1, answer->body.find('\n', at + 1) - at - 1));
  }

  /// One at a time on each of four connections, at a fixed rate far below saturation.
  void measure_latency() {
    std::vector<double> milliseconds;
    std::mutex mutex;
    std::vector<std::thread> threads;
    const int count = static_cast<int>(options_.latency_seconds * options_.latency_rate / 4);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        HttpClient client(port_);
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < count; ++i) {
          std::this_thread::sleep_until(begin +
                                        std::chrono::duration<double>(i * 4.0 / options_.latency_rate));
          const std::int64_t sent = steady_clock().now_ns();
          const auto answer =
              client.post("/v1/evaluations?wait=30",
                          json_text({{"task", "relu"},
                                     {"candidate", fmt::format("latency {} {} {}", t, i, ::getpid())}}));
          const double ms = seconds_since(sent) * 1e3;
          const std::lock_guard lock(mutex);
          if (answer.ok() && answer->status == 200) milliseconds.push_back(ms);
        }
      });
    for (std::thread& thread : threads) thread.join();
    fmt::print(
        "at {} a second: answered {} of {}, from POST to verdict ms: median {:.2f}  p99 {:.2f}  most "
        "{:.2f}\n",
        options_.latency_rate, milliseconds.size(), count * 4, quantile(milliseconds, 0.5),
        quantile(milliseconds, 0.99), quantile(milliseconds, 1));
  }

  const BenchOptions options_;
  const int port_;
  std::vector<int> order_;
  std::mutex mutex_;
  std::optional<Process> front_;
  std::atomic<int> answered_{0}, doubled_{0}, forged_{0}, condemned_{0}, retries_{0};
  double slowest_restart_ = 0;
  double quarter_kib_ = 0;
};

}  // namespace
}  // namespace lathe::serve

int main(int argc, char** argv) {
  using namespace lathe;
  serve::BenchOptions options;
  CLI::App app{"Drives lathe serve with fake workers and checks every answer."};
  app.add_option("--evaluations", options.evaluations);
  app.add_option("--workers", options.workers);
  app.add_option("--submitters", options.submitters);
  app.add_option("--batch", options.batch);
  app.add_option("--tasks", options.tasks);
  app.add_option("--death", options.death, "Chance that a worker is killed by an order");
  app.add_option("--front-kills", options.front_kills, "How often the front end is killed");
  app.add_option("--latency-seconds", options.latency_seconds);
  app.add_option("--latency-rate", options.latency_rate);
  app.add_option("--prepare-seconds", options.prepare_seconds,
                 "What a task costs a worker that has it not among its last four");
  app.add_option("--sleep-seconds", options.sleep_seconds, "What a candidate costs");
  app.add_flag("--sorted", options.sorted, "Submit by task instead of mixed");
  CLI11_PARSE(app, argc, argv);
  options.lathe = sibling_program("lathe").value();
  options.worker = sibling_program("serve_fake_worker").value();
  options.store =
      (std::filesystem::temp_directory_path() / fmt::format("lathe-serve-bench-{}", ::getpid())).string();
  const int code = serve::Bench(options).run();
  std::filesystem::remove_all(options.store);
  return code;
}
