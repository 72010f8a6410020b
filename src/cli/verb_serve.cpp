#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "backend/installation.h"
#include "base/clock.h"
#include "cli/console.h"
#include "cli/device_choice.h"
#include "cli/json_log.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "cli/worker_programs.h"
#include "gym/gym.h"
#include "gym/version.h"
#include "serve/api.h"
#include "serve/kernelgym/adapter.h"
#include "serve/memory_queue.h"
#include "serve/postgres_connection.h"
#include "serve/postgres_ledger.h"
#include "serve/redis_queue.h"
#include "serve/sqlite_ledger.h"
#include "serve/url_scheme.h"
#include "serve/worker_pool.h"
#include "task/task_text.h"

namespace lathe::cli {
namespace {

struct ServeOptions {
  CommonOptions common;
  std::string address = "127.0.0.1";
  int port = 8320;
  int max_unfinished = 100'000;
  int drain_seconds = 30;
  double keep_days = 0;
  int workers = 1;
  bool kernelgym = false;
  bool until_eof = false;
  std::string queue;
  std::string worker_program;
  std::string gym_version = kGymVersion;
  std::string task_folder;
};

struct TokenOptions {
  CommonOptions common;
  std::string name;
  std::string role = "submit";
  int max_unfinished = 20'000;
};

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

CLI::Validator ip_address() {
  return {[](std::string& text) -> std::string {
            in6_addr parsed;
            if (::inet_pton(AF_INET, text.c_str(), &parsed) == 1) return {};
            if (::inet_pton(AF_INET6, text.c_str(), &parsed) == 1) return {};
            return fmt::format("'{}' is no IP address", text);
          },
          "IP"};
}

/// Each connection takes a descriptor, and workers, store and queue need theirs however many
/// clients there are. The usual soft limit is 1024.
serve::HttpLimits http_limits() {
  constexpr rlim_t kOpenFiles = 4096;
  serve::HttpLimits limits;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return limits;
  rlimit more = files;
  more.rlim_cur = std::min(files.rlim_max, kOpenFiles);
  if (more.rlim_cur > files.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &more) == 0) files = more;
  limits.connections =
      static_cast<int>(std::min<rlim_t>(static_cast<rlim_t>(limits.connections), files.rlim_cur / 2));
  return limits;
}

/// Whether the other end of the pipe at standard input is closed: whoever held it is gone.
bool input_has_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0 && (input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

/// The kind of evaluations that clients ask for. Without workers here, the device need not be here.
Result<std::string> device_kind_of(const ServeOptions& options, const std::vector<std::string>& devices) {
  if (!devices.empty()) return kind_of_device(devices.front());
  LATHE_TRY(const DeviceChoice choice, parse_device(options.common.device));
  if (choice.wants_gpu()) return std::string("cuda");
  if (choice.kind == DeviceChoice::Kind::kHostCuda) return std::string("host:cuda");
  LATHE_TRY(const auto here, worker_devices(options.common.device));
  return kind_of_device(here.front());
}

/// Lathe's own tasks that the device can have, which clients may name; the ledger gets them.
Result<std::vector<serve::StoredTask>> record_tasks(const std::string& folder, bool on_host,
                                                    serve::Ledger& ledger) {
  std::vector<serve::StoredTask> tasks;
  std::error_code code;
  for (std::filesystem::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    if (it->path().extension() != ".toml") continue;
    LATHE_TRY(TaskSpec task, load_task(it->path().string()));
    if ((task.reference == ReferenceKind::kProcess) != on_host) continue;
    tasks.push_back({task.digest, task.name, text_of(task).joined()});
  }
  if (code)
    return Error{ErrorCode::kNotFound, "cannot read the folder '" + folder + "': " + code.message(),
                 "name one of tasks with --tasks"};
  LATHE_CHECK_OK(ledger.write({.tasks = tasks}));
  return tasks;
}

/// A folder or a URL of PostgreSQL's. Messages leave a URL out, for it may have a password.
Result<std::string> store_place(const CommonOptions& options) {
  constexpr const char* kRemedy = "name a folder, or postgres://USER:PASSWORD@HOST/DATABASE";
  const std::string store = store_folder(options);
  const std::string scheme = serve::url_scheme(store);
  if (scheme == "redis" || scheme == "rediss")
    return invalid("--store is a folder or a PostgreSQL; Redis is the queue",
                   "give the redis:// URL to --queue, and to --store postgres://USER:PASSWORD@HOST/DATABASE");
  if (store.find("://") != std::string::npos && !serve::is_postgres_url(store))
    return invalid("--store knows no " + (scheme.empty() ? "such URL" : scheme + "://"), kRemedy);
  return store;
}

Result<std::unique_ptr<serve::TokenStore>> open_tokens(const CommonOptions& options) {
  LATHE_TRY(const std::string store, store_place(options));
  return serve::is_postgres_url(store) ? serve::open_postgres_tokens(store) : serve::TokenStore::open(store);
}

/// To look is not to make a store.
Result<std::unique_ptr<serve::TokenStore>> open_existing_tokens(const CommonOptions& options) {
  LATHE_TRY(const std::string store, store_place(options));
  if (!serve::is_postgres_url(store) && ::access((store + "/serve.db").c_str(), F_OK) != 0)
    return Error{ErrorCode::kNotFound, "there is no service's store in '" + store + "'",
                 "name one with --store or LATHE_STORE; lathe serve token add makes one"};
  return open_tokens(options);
}

Result<std::unique_ptr<serve::Ledger>> open_ledger(const ServeOptions& options) {
  LATHE_TRY(const std::string store, store_place(options.common));
  if (serve::is_postgres_url(store) != options.queue.empty())
    return serve::is_postgres_url(store) ? serve::open_postgres_ledger(store)
                                         : serve::open_sqlite_ledger(store);
  if (options.queue.empty())
    return invalid("a store in PostgreSQL needs a queue that front ends share",
                   "add --queue redis://HOST:PORT");
  return invalid("front ends with a common queue need a common store",
                 "add --store postgres://USER:PASSWORD@HOST/DATABASE");
}

Result<std::optional<serve::RedisUrl>> queue_place(const ServeOptions& options) {
  std::optional<serve::RedisUrl> url;
  if (!options.queue.empty()) {
    LATHE_TRY(url, serve::parse_redis_url(options.queue));
  }
  return url;
}

Result<std::unique_ptr<serve::SharedQueue>> open_queue(const std::optional<serve::RedisUrl>& url,
                                                       const std::string& gym_version, EventSink& log) {
  if (!url) return std::unique_ptr<serve::SharedQueue>();
  return serve::open_redis_queue({.url = *url, .gym_version = gym_version}, steady_clock(), log);
}

Result<int> serve_until_stopped(const ServeOptions& options) {
  JsonLog log("serve");
  const serve::HttpLimits limits = http_limits();
  LATHE_TRY(const auto queue_url, queue_place(options));
  LATHE_TRY(const auto ledger, open_ledger(options));
  LATHE_TRY(const auto shared, open_queue(queue_url, options.gym_version, log));
  LATHE_TRY(const auto token_store, open_tokens(options.common));
  LATHE_TRY(auto records, token_store->list());
  if (!is_loopback(options.address) && records.empty())
    return invalid("others than this machine would reach " + options.address + " without a token",
                   "make one first: lathe serve token add NAME");
  std::vector<std::string> devices;
  if (options.workers > 0) {
    LATHE_TRY(devices, worker_devices(options.common.device));
  }
  LATHE_TRY(const std::string device_kind, device_kind_of(options, devices));
  LATHE_TRY(auto programs,
            worker_programs(options.common, devices, {options.worker_program, options.workers}));
  if (options.kernelgym && !device_kind.starts_with("host:"))
    return invalid("KernelGYM's requests are Python modules, which " + device_kind + " does not run",
                   "add --device host:cpu or host:cuda");
  std::string task_folder = options.task_folder;
  if (task_folder.empty()) {
    LATHE_TRY(task_folder, find_data_folder("tasks", "softmax_rows.toml"));
  }
  LATHE_TRY(auto own_tasks, record_tasks(task_folder, device_kind.starts_with("host:"), *ledger));
  LATHE_TRY(auto known_tasks, ledger->tasks());

  const auto queue = serve::make_memory_queue({}, steady_clock());
  LATHE_TRY(auto service, serve::Service::start(*ledger, *queue, steady_clock(),
                                                {.max_unfinished = options.max_unfinished,
                                                 .gym_version = options.gym_version,
                                                 .keep_seconds = options.keep_days * 86400,
                                                 .shared = shared.get()},
                                                log));
  auto pool = serve::WorkerPool::start(*service, std::move(programs), log);
  const auto api = serve::Api::make(*service,
                                    {.device_kind = device_kind,
                                     .gym_version = options.gym_version,
                                     .own_tasks = std::move(own_tasks),
                                     .known_tasks = std::move(known_tasks),
                                     .max_unfinished = options.max_unfinished,
                                     .open_without_tokens = is_loopback(options.address),
                                     .quarantined_workers = [&] { return pool ? pool->quarantined() : 0; }},
                                    log);
  api->set_tokens(serve::Tokens(std::move(records)));
  serve::HttpHandler handler = api->handler();
  if (options.kernelgym)
    handler = serve::kernelgym::adapt(*service, api,
                                      device_kind == "host:cuda" ? serve::kernelgym::Computes::kOnGpu
                                                                 : serve::kernelgym::Computes::kOnProcessor);
  LATHE_TRY(const auto server,
            serve::HttpServer::start(options.address, options.port, limits, std::move(handler)));
  print("listening on http://{}\n", serve::host_and_port(options.address, server->port()));
  flush_standard_output();

  std::int64_t looked_ns = steady_clock().now_ns();
  std::optional<Error> hopeless;
  while (!stop_token().cancelled() && !hopeless && !(options.until_eof && input_has_ended())) {
    service->turn(0.05);
    if (seconds_since(looked_ns) < 1) continue;
    looked_ns = steady_clock().now_ns();
    hopeless = pool->hopeless();
    if (auto fresh = token_store->list(); fresh.ok()) api->set_tokens(serve::Tokens(*std::move(fresh)));
    if (shared)
      if (const auto tasks = ledger->tasks(); tasks.ok()) api->add_known_tasks(*tasks);
  }
  if (!hopeless)
    log.on_event({Severity::kInfo, "serve.draining",
                  "what is under way is finished, the rest waits for the next start"});
  service->drain();
  const std::int64_t drain_ns = steady_clock().now_ns();
  service->turn(0);
  while (!service->is_idle() && seconds_since(drain_ns) < options.drain_seconds) service->turn(0.05);
  server->stop();
  pool.reset();
  service->turn(0);
  service.reset();
  if (hopeless) return *hopeless;
  log.on_event({Severity::kInfo, "serve.stopped", ""});
  return static_cast<int>(kSuccess);
}

Result<int> add_token(const TokenOptions& options) {
  LATHE_TRY(const auto tokens, open_tokens(options.common));
  LATHE_TRY(const serve::Role role, serve::parse_role(options.role));
  LATHE_TRY(const std::string token, tokens->add({options.name, role, options.max_unfinished}));
  print("{}\n", token);
  return static_cast<int>(kSuccess);
}

Result<int> list_tokens(const TokenOptions& options) {
  LATHE_TRY(const auto tokens, open_existing_tokens(options.common));
  LATHE_TRY(const auto records, tokens->list());
  for (const serve::TokenRecord& record : records)
    print("{:<24} {:<7} {:>9} unfinished at most\n", record.principal.client, name(record.principal.role),
          record.principal.max_unfinished);
  return static_cast<int>(kSuccess);
}

Result<int> remove_token(const TokenOptions& options) {
  LATHE_TRY(const auto tokens, open_existing_tokens(options.common));
  LATHE_CHECK_OK(tokens->remove(options.name));
  return static_cast<int>(kSuccess);
}

void add_tokens(CLI::App& serve, Run& run) {
  CLI::App* token =
      serve.add_subcommand("token", "Who may use the service; without tokens, this machine alone");
  token->require_subcommand(1);
  const auto options = std::make_shared<TokenOptions>();
  const auto add = [&](const char* name, const char* what, Result<int> (*act)(const TokenOptions&)) {
    CLI::App* verb = token->add_subcommand(name, what);
    add_store(*verb, options->common);
    verb->callback([options, act, &run] {
      run = [options, act] {
        const auto code = act(*options);
        return code.ok() ? *code : fail(code.error());
      };
    });
    return verb;
  };
  CLI::App* adds = add("add", "Make a token and print it: nobody can read it again", add_token);
  adds->add_option("NAME", options->name, "Its owner, as logs and the fair share know it")->required();
  adds->add_option("--role", options->role, "read, submit, admin or worker")
      ->check(CLI::IsMember({"read", "submit", "admin", "worker"}))
      ->capture_default_str();
  adds->add_option("--max-unfinished", options->max_unfinished, "Requests that it may have unfinished")
      ->check(one_or_more())
      ->capture_default_str();
  add("list", "Names and roles", list_tokens);
  add("remove", "Void a token", remove_token)
      ->add_option("NAME", options->name, "As it was added")
      ->required();
}

}  // namespace

void add_serve(CLI::App& app, Run& run) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* verb = app.add_subcommand(kServe.name, kServe.about);
  verb->add_option("--address", options->address, "Where to listen; others than 127.0.0.1 need tokens")
      ->check(ip_address())
      ->capture_default_str();
  verb->add_option("--port", options->port, "0 takes a free one")
      ->check(whole_number(0, 65535))
      ->capture_default_str();
  verb->add_option("--max-unfinished", options->max_unfinished, "Requests of all clients, before it is busy")
      ->check(one_or_more())
      ->capture_default_str();
  verb->add_option("--drain-seconds", options->drain_seconds, "For what is under way, after SIGTERM")
      ->check(whole_number(0, 86400))
      ->capture_default_str();
  verb->add_option("--keep-days", options->keep_days,
                   "Forget requests that long after their end, and verdicts that nobody's request is left "
                   "of; 0: never")
      ->check(CLI::Range(0.0, 36500.0))
      ->capture_default_str();
  verb->add_option("--tasks", options->task_folder, "Tasks that clients may name (default: Lathe's own)");
  verb->add_option(
          "--queue", options->queue,
          "redis://:PASSWORD@HOST:PORT: the queue of several front ends, with --store postgres://...")
      ->envname("LATHE_QUEUE");
  verb->add_flag("--kernelgym", options->kernelgym,
                 "Also answer clients of KernelGYM's (/evaluate, ...), with --device host:cpu or host:cuda");
  verb->add_flag("--until-eof", options->until_eof,
                 "End, as at SIGTERM, with the program that holds the other end of standard input's pipe");
  verb->add_option("--workers", options->workers,
                   "A number a device; none: others have them, which lathe worker brings here")
      ->check(whole_number(0, 1024))
      ->transform(CLI::Transformer(std::map<std::string, int>{{"none", 0}}))
      ->capture_default_str();
  verb->add_option("--worker-program", options->worker_program, "")->group("");
  verb->add_option("--gym-version", options->gym_version, "")->group("");  // of workers that a test brings
  add_threads(*verb, options->common);
  add_device(*verb, options->common);
  add_store(*verb, options->common);
  add_tokens(*verb, run);
  verb->callback([options, verb, &run] {
    if (!verb->get_subcommands().empty()) return;
    run = [options] {
      const auto code = serve_until_stopped(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli
