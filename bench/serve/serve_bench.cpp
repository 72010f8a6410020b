#include <fmt/format.h>
#include <signal.h>
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
#include "bench/serve/servers.h"
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
  double death = 0;      ///< chance that a worker ends at an order
  int front_kills = 0;   ///< kill -9 of a front end
  bool servers = false;  ///< Redis and PostgreSQL, with `fronts` front ends that share the workers
  int fronts = 2;
  int redis_kills = 0, redis_wipes = 0, postgres_kills = 0;
  double latency_seconds = 5;
  int latency_rate = 200;
  bool sorted = false;
  double prepare_seconds = 0;
  double sleep_seconds = 0;
};

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

class Bench {
 public:
  explicit Bench(const BenchOptions& options) : options_(options) {
    const std::size_t fronts = options.servers ? static_cast<std::size_t>(options.fronts) : 1;
    for (std::size_t i = 0; i < fronts; ++i) ports_.push_back(free_port());
    fronts_.resize(fronts);
    ::setenv("LATHE_FAKE_DEATH", std::to_string(options.death).c_str(), 1);
    ::setenv("LATHE_FAKE_PREPARE_SECONDS", std::to_string(options.prepare_seconds).c_str(), 1);
    Rng rng(Seed::from_number(7));
    for (int i = 0; i < options.evaluations; ++i) order_.push_back(i);
    if (!options.sorted) rng.shuffle(order_);
  }

  int run() {
    if (options_.servers && !start_servers()) return 1;
    for (std::size_t i = 0; i < fronts_.size(); ++i)
      if (!start(i)) return fmt::print(stderr, "lathe serve does not begin\n"), 1;
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
    fronts_.clear();
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
    HttpClient client(ports_[0]);
    for (int task = 0; task < options_.tasks; ++task) {
      const std::string text = task_of(task * std::max(1, options_.evaluations / options_.tasks));
      const auto known = client.post("/v1/evaluations?wait=30",
                                     json_text({{"task", {{"toml", text}}}, {"candidate", "first"}}));
      if (!known.ok() || known->status != 200) fmt::print(stderr, "a task is not taken\n");
    }
  }

  bool start_servers() {
    std::filesystem::create_directories(options_.store);
    std::filesystem::permissions(options_.store, std::filesystem::perms(0755));
    auto redis = RedisServer::start(options_.store + "/redis", true);
    auto postgres = PostgresServer::start(options_.store + "/postgres");
    for (const Error& error :
         {redis.ok() ? Error{} : redis.error(), postgres.ok() ? Error{} : postgres.error()})
      if (!error.message.empty()) fmt::print(stderr, "{}\n", error.to_string());
    if (!redis.ok() || !postgres.ok()) return false;
    redis_.emplace(*std::move(redis));
    postgres_.emplace(*std::move(postgres));
    return true;
  }

  bool start(std::size_t index) {
    const Process::Descriptor descriptors[] = {{2, 2}};
    const int workers = options_.workers / static_cast<int>(fronts_.size());
    Command command{.argv = {options_.lathe, "serve", "--port", std::to_string(ports_[index]), "--store",
                             postgres_ ? postgres_->url() : options_.store, "--device", "cpu", "--workers",
                             std::to_string(workers), "--worker-program", options_.worker},
                    .own_group = true};
    if (redis_) command.argv.insert(command.argv.end(), {"--queue", redis_->url()});
    auto process = Process::start(command, descriptors);
    if (!process.ok()) return false;
    {
      const std::lock_guard lock(mutex_);
      fronts_[index].emplace(*std::move(process));
    }
    HttpClient client(ports_[index]);
    for (int i = 0; i < 4000; ++i) {
      const auto answer = client.get("/readyz");
      if (answer.ok() && answer->status == 200) return true;
      pause(0.005);
    }
    return false;
  }

  /// Any of them, in turn.
  HttpClient& client_of(std::vector<HttpClient>& clients, std::size_t& turn) {
    return clients[turn++ % clients.size()];
  }
  std::vector<HttpClient> clients() const {
    std::vector<HttpClient> all;
    all.reserve(ports_.size());
    for (const int port : ports_) all.emplace_back(port);
    return all;
  }

  void submit_share(int share) {
    auto fronts = clients();
    std::size_t turn = static_cast<std::size_t>(share);
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
        const auto answer = client_of(fronts, turn).post("/v1/evaluations/batch", body);
        if (answer.ok() && answer->status == 202 && answer->body.find("\"error\"") == std::string::npos)
          break;
        ++retries_;
        pause(answer.ok() ? 0.1 : 0.02);
      }
    }
  }

  void read_all() {
    auto fronts = clients();
    std::size_t turn = 0;
    std::vector<bool> seen(order_.size());
    std::int64_t after = 0, last_news = steady_clock().now_ns();
    while (answered_ < options_.evaluations && seconds_since(last_news) < 60) {
      const auto answer =
          fronts[turn % fronts.size()].get(fmt::format("/v1/evaluations?after={}&limit=1000&wait=5", after));
      if (!answer.ok() || answer->status != 200) {
        ++turn;
        pause(0.02);
        continue;
      }
      const auto document = nlohmann::json::parse(answer->body);
      if (!document["items"].empty()) {
        longest_pause_ = std::max(longest_pause_, seconds_since(last_news));
        last_news = steady_clock().now_ns();
      }
      for (const auto& item : document["items"]) {
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

  /// Faults in a random order, at even distances.
  void disturb() {
    enum class Fault { kFront, kRedis, kWipe, kPostgres };
    std::vector<Fault> faults;
    for (int i = 0; i < options_.front_kills; ++i) faults.push_back(Fault::kFront);
    for (int i = 0; i < options_.redis_kills; ++i) faults.push_back(Fault::kRedis);
    for (int i = 0; i < options_.redis_wipes; ++i) faults.push_back(Fault::kWipe);
    for (int i = 0; i < options_.postgres_kills; ++i) faults.push_back(Fault::kPostgres);
    Rng rng(Seed::from_number(11));
    rng.shuffle(faults);
    for (std::size_t i = 0; i < faults.size() && answered_ < options_.evaluations; ++i) {
      const std::size_t at = order_.size() * (i + 1) / (faults.size() + 1);
      while (answered_ < static_cast<int>(at)) pause(0.005);
      pause(rng.uniform() * 0.05);
      const std::int64_t begin = steady_clock().now_ns();
      bool is_back = true;
      if (faults[i] == Fault::kFront) {
        const std::size_t index = rng.below(fronts_.size());
        fronts_[index]->kill();
        is_back = start(index);
        slowest_restart_ = std::max(slowest_restart_, seconds_since(begin));
      } else if (faults[i] == Fault::kPostgres) {
        postgres_->kill();
        is_back = postgres_->restart().ok();
      } else {
        redis_->kill();
        if (faults[i] == Fault::kWipe) std::filesystem::remove_all(options_.store + "/redis/appendonlydir");
        is_back = redis_->restart().ok();
      }
      if (!is_back) fmt::print(stderr, "what was killed does not begin again\n");
    }
  }

  double resident_kib() {
    const std::lock_guard lock(mutex_);
    std::ifstream status(fmt::format("/proc/{}/status", fronts_[0]->pid()));
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
    fmt::print("longest time without an answer {:.2f} s\n", longest_pause_);
    if (options_.servers)
      fmt::print("front ends {}  Redis killed {}  wiped {}  PostgreSQL killed {}\n", fronts_.size(),
                 options_.redis_kills, options_.redis_wipes, options_.postgres_kills);
    fmt::print("resident MiB at a quarter {:.0f}, at the end {:.0f}\n", quarter_kib_ / 1024.0,
               resident_kib() / 1024.0);
    HttpClient client(ports_[0]);
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
        HttpClient client(ports_[static_cast<std::size_t>(t) % ports_.size()]);
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
  std::vector<int> ports_;
  std::vector<int> order_;
  std::mutex mutex_;
  std::optional<RedisServer> redis_;
  std::optional<PostgresServer> postgres_;
  std::vector<std::optional<Process>> fronts_;
  std::atomic<int> answered_{0}, doubled_{0}, forged_{0}, condemned_{0}, retries_{0};
  double slowest_restart_ = 0;
  double longest_pause_ = 0;
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
  app.add_flag("--servers", options.servers, "Several front ends with Redis and PostgreSQL, started here");
  app.add_option("--fronts", options.fronts, "Front ends, with --servers");
  app.add_option("--redis-kills", options.redis_kills,
                 "How often Redis is killed; it has an append-only file");
  app.add_option("--redis-wipes", options.redis_wipes, "How often it is killed and its file removed");
  app.add_option("--postgres-kills", options.postgres_kills, "How often PostgreSQL is killed");
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
