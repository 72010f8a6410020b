#include "serve/api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/guard.h"
#include "base/random.h"
#include "base/visible_text.h"
#include "baseline/baseline.h"
#include "record/json.h"
#include "serve/metrics.h"
#include "serve/remote_workers.h"
#include "serve/request_json.h"
#include "task/task_text.h"

namespace lathe::serve {
namespace {

using nlohmann::json;

constexpr double kLongestWaitSeconds = 60;
constexpr int kLongestList = 1000;
constexpr const char* kRetryAfterSeconds = "2";

/// A request on its way through a handler.
struct Call {
  HttpRequest request;
  std::string id;  ///< the path's {id}
  Principal principal;
  std::string trace;
  Naming naming = {};
  Respond respond;
};
using CallPtr = std::shared_ptr<Call>;

HttpResponse json_response(int status, const json& document) {
  return {.status = status, .body = json_text(document) + "\n"};
}

HttpResponse fault_response(int status, std::string_view code, const std::string& message,
                            const std::string& trace) {
  json error = {{"code", code}, {"message", message}, {"request_id", trace}};
  HttpResponse response = json_response(status, {{"error", std::move(error)}});
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", kRetryAfterSeconds);
  return response;
}

std::string busy_text(const Error& error) {
  const std::string hint = error.hint.empty() ? "" : "; " + error.hint;
  return fmt::format("{}{}, in {} seconds at the earliest", error.message, hint, kRetryAfterSeconds);
}

/// What an error tells a client: of its own mistakes everything, of the host's nothing.
HttpResponse error_response(const Error& error, const std::string& trace) {
  switch (error.code) {
    case ErrorCode::kInvalid: {
      const std::string hint = error.hint.empty() ? "" : "; " + error.hint;
      return fault_response(400, "invalid", error.message + hint, trace);
    }
    case ErrorCode::kNotFound:
      return fault_response(404, "not_found", error.message, trace);
    case ErrorCode::kCancelled:
      return fault_response(410, "gone", error.message, trace);
    case ErrorCode::kBusy:
      return fault_response(429, "busy", busy_text(error), trace);
    default:
      return fault_response(503, "unavailable", "the service cannot do that now; try again later", trace);
  }
}

std::string_view code_of(const Error& error) {
  return error.code == ErrorCode::kBusy       ? "busy"
         : error.code == ErrorCode::kNotFound ? "not_found"
                                              : "invalid";
}

bool is_trace(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyz"
             "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
             "0123456789-_.") == std::string_view::npos;
}

template <class Number>
Result<Number> number_in(const HttpRequest& request, const std::string& name, Number otherwise, Number low,
                         Number high) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return otherwise;
  Number value{};
  const char* const end = found->second.data() + found->second.size();
  const auto [last, error] = std::from_chars(found->second.data(), end, value);
  if (error != std::errc{} || last != end || !(value >= low) || !(value <= high))
    return invalid(fmt::format("{} is not a number from {} to {}", name, low, high));
  return value;
}

Status refuse_unknown(const std::map<std::string, std::string>& query, const std::set<std::string>& known) {
  for (const auto& [name, value] : query)
    if (!known.contains(name))
      return invalid(
          fmt::format("there is no query parameter '{}' here", visible_line(name)),
          known.empty() ? "this page has none" : fmt::format("this page has {}", fmt::join(known, ", ")));
  return Ok{};
}

Result<double> wait_seconds(const HttpRequest& request) {
  return number_in<double>(request, "wait", 0, 0, kLongestWaitSeconds);
}

Result<Digest> id_of(const Call& call) {
  auto id = Digest::from_hex(call.id);
  if (!id.ok()) return Error{ErrorCode::kNotFound, "there is no such evaluation"};
  return id;
}

Result<WorkerEnd> worker_end_in(const HttpRequest& request) {
  constexpr std::pair<const char*, WorkerEnd> kEnds[] = {
      {"asked", WorkerEnd::kAsked}, {"failed", WorkerEnd::kFailed}, {"killed", WorkerEnd::kKilled}};
  const auto found = request.query.find("end");
  for (const auto& [text, end] : kEnds)
    if (found != request.query.end() && found->second == text) return end;
  return invalid("end is none of asked, failed and killed");
}

/// Whether a Content-Type is JSON's, parameters aside.
bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  std::string_view type = content_type.substr(0, content_type.find(';'));
  type = type.substr(0, type.find_last_not_of(" \t") + 1);
  return std::equal(type.begin(), type.end(), kJson.begin(), kJson.end(),
                    [](char c, char small) { return std::tolower(static_cast<unsigned char>(c)) == small; });
}

bool names_this_machine(std::string host) {
  for (char& c : host) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (const std::size_t colon = host.rfind(':');
      colon != std::string::npos && host.find(']', colon) == std::string::npos)
    host.resize(colon);
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

class TheApi final : public Api, public std::enable_shared_from_this<TheApi> {
 public:
  TheApi(Service& service, ApiOptions options, EventSink& events)
      : service_(service),
        options_(std::move(options)),
        events_(events),
        remote_workers_(RemoteWorkers::make(service, {options_.device_kind, options_.gym_version})),
        tokens_(std::make_shared<Tokens>(Tokens({}))) {
    for (const StoredTask& task : options_.known_tasks) known_.emplace(task.digest, task.name);
    for (const StoredTask& task : options_.own_tasks) {
      known_.emplace(task.digest, task.name);
      own_.emplace(task.name, task.digest);
      own_texts_.emplace(task.digest, task.text);
    }
  }

  HttpHandler handler() override {
    const auto self = shared_from_this();
    return {.admit = [self](const HttpRequest& request) { return self->admit(request); },
            .handle = [self](HttpRequest request,
                             Respond respond) { self->handle(std::move(request), std::move(respond)); },
            .fault = [self](int status,
                            const std::string& why) { return self->refusal({}, status, "refused", why); }};
  }

  void set_tokens(Tokens tokens) override {
    const auto fresh = std::make_shared<Tokens>(std::move(tokens));
    if (!fresh->empty()) had_tokens_ = true;
    const std::lock_guard lock(mutex_);
    tokens_ = fresh;
  }

  void add_known_tasks(const std::vector<StoredTask>& tasks) override { remember(tasks); }

  /// Where there have never been tokens there is one client.
  std::optional<Principal> principal_of(const HttpRequest& request) override {
    if (is_open()) return Principal{"local", Role::kAdmin, options_.max_unfinished};
    return tokens()->find(request.header("authorization"));
  }

  std::string trace_of(const HttpRequest& request) override {
    const std::string given = request.header("x-request-id");
    return is_trace(given) ? given : fmt::format("{}-{}", start_, ++count_);
  }

  void submit_named(HttpRequest request, Naming naming, Respond respond) override {
    handle(std::move(request), std::move(respond), std::move(naming));
  }

  struct Route {
    Operation operation;
    std::optional<Role> role;  ///< absent: anybody
    void (TheApi::*handle)(const CallPtr&);
  };
  static const std::vector<Route>& routes() {
    static const std::vector<Route> all = {
        {{"POST", "/v1/evaluations", {"base", "peer", "reward", "wait"}}, Role::kSubmit, &TheApi::submit},
        {{"GET", "/v1/evaluations", {"after", "client", "limit", "wait"}},
         Role::kRead,
         &TheApi::list_finished},
        {{"POST", "/v1/evaluations/batch", {"peer", "reward"}}, Role::kSubmit, &TheApi::submit_batch},
        {{"GET", "/v1/evaluations/{id}", {"base", "client", "wait"}}, Role::kRead, &TheApi::show},
        {{"DELETE", "/v1/evaluations/{id}", {"client"}}, Role::kSubmit, &TheApi::cancel},
        {{"GET", "/v1/evaluations/{id}/evidence", {"base", "client", "peer", "reward"}},
         Role::kRead,
         &TheApi::evidence},
        {{"GET", "/v1/events", {"after", "client"}}, Role::kRead, &TheApi::events},
        {{"GET", "/v1/device"}, Role::kRead, &TheApi::device},
        {{"GET", "/v1/tasks"}, Role::kRead, &TheApi::list_tasks},
        {{"GET", "/v1/tasks/{id}"}, Role::kRead, &TheApi::show_task},
        {{"GET", "/metrics"}, Role::kRead, &TheApi::metrics},
        {{"POST", "/v1/workers"}, Role::kWorker, &TheApi::worker_joins},
        {{"DELETE", "/v1/workers/{id}", {"end"}}, Role::kWorker, &TheApi::worker_ends},
        {{"GET", "/v1/workers/{id}/messages", {"after", "wait"}}, Role::kWorker, &TheApi::worker_listens},
        {{"POST", "/v1/workers/{id}/messages"}, Role::kWorker, &TheApi::worker_says},
        {{"GET", "/healthz"}, std::nullopt, &TheApi::alive},
        {{"GET", "/readyz"}, std::nullopt, &TheApi::ready},
        {{"GET", "/openapi.json"}, std::nullopt, &TheApi::document},
    };
    return all;
  }

 private:
  struct Match {
    const Route* route = nullptr;
    std::string id;
    std::string allowed;  ///< methods of the path, if there is no route
  };
  static Match match(const HttpRequest& request) {
    Match match;
    for (const Route& route : routes()) {
      const std::string_view pattern = route.operation.path;
      const std::size_t hole = pattern.find("{id}");
      std::string id;
      if (request.path == "/v1/evaluations/batch" && hole != std::string_view::npos) continue;
      if (hole == std::string_view::npos) {
        if (request.path != pattern) continue;
      } else {
        const std::string_view tail = pattern.substr(hole + 4);
        if (request.path.size() < hole + tail.size() || !request.path.starts_with(pattern.substr(0, hole)) ||
            !request.path.ends_with(tail))
          continue;
        id = request.path.substr(hole, request.path.size() - hole - tail.size());
        if (id.empty() || id.find('/') != std::string::npos) continue;
      }
      if (request.method == route.operation.method) return {&route, id, {}};
      const std::string_view method = route.operation.method;
      match.allowed += match.allowed.empty() ? "" : ", ";
      match.allowed += method == "GET" ? "GET, HEAD" : method;
    }
    return match;
  }

  std::shared_ptr<const Tokens> tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }

  bool is_open() { return options_.open_without_tokens && !had_tokens_ && tokens()->empty(); }

  /// An answer without a call.
  HttpResponse refusal(const HttpRequest& request, int status, std::string_view code,
                       const std::string& message) {
    const std::string trace = trace_of(request);
    HttpResponse response = refused_response(status, code, message, trace);
    response.headers.emplace_back("X-Request-Id", trace);
    return response;
  }

  std::optional<HttpResponse> admit(const HttpRequest& request) {
    const auto refused = [&](int status, std::string_view code, const std::string& message) {
      return refusal(request, status, code, message);
    };
    const Match found = match(request);
    if (!found.route) {
      if (found.allowed.empty())
        return refused(404, "not_found", "there is no such page; /openapi.json lists all");
      HttpResponse response = refused(405, "method", "this page does not take " + request.method);
      response.headers.emplace_back("Allow", found.allowed);
      return response;
    }
    if (!found.route->role) return std::nullopt;
    // A web page that the user of this machine looks at must not be taken for the user.
    if (is_open() && !names_this_machine(request.header("host")))
      return refused(403, "forbidden", "without tokens this service is for 127.0.0.1 alone");
    if (request.method == "POST" && !is_json(request.header("content-type")))
      return refused(415, "content_type", "send application/json");
    if (const auto coding = request.header("content-encoding"); !coding.empty() && coding != "identity")
      return refused(415, "content_encoding", "send the body without a Content-Encoding");
    const auto principal = principal_of(request);
    if (!principal)
      return refused(401, "unauthorized",
                     request.header("authorization").empty()
                         ? "send a token: Authorization: Bearer lathe_..."
                         : "there is no such token; send Authorization: Bearer lathe_...");
    if (!may(principal->role, *found.route->role))
      return refused(403, "forbidden",
                     fmt::format("this takes a token of the role {}", name(*found.route->role)));
    return std::nullopt;
  }

  void handle(HttpRequest request, Respond respond, Naming naming = {}) {
    const auto call = std::make_shared<Call>();
    call->naming = std::move(naming);
    call->trace = trace_of(request);
    call->respond = [respond = std::move(respond), trace = call->trace](HttpResponse response) {
      response.headers.emplace_back("X-Request-Id", trace);
      respond(std::move(response));
    };
    const Match found = match(request);
    const auto principal = found.route && found.route->role ? principal_of(request) : Principal{};
    if (!found.route || !principal)  // a token that was removed since
      return call->respond(
          refused_response(401, "unauthorized", "the token is not valid any more", call->trace));
    call->id = found.id;
    call->principal = *principal;
    call->request = std::move(request);
    if (const Status known = refuse_unknown(call->request.query, found.route->operation.query); !known.ok())
      return refuse(call, known.error());
    if (const auto whose = call->request.query.find("client"); whose != call->request.query.end()) {
      if (!may_see_others(*principal) && whose->second != principal->client)
        return call->respond(refused_response(
            403, "forbidden", "other clients' requests are for tokens of the roles read and admin",
            call->trace));
      call->principal.client = whose->second;
    }
    const Status status = without_exceptions([&]() -> Status {
      (this->*found.route->handle)(call);
      return Ok{};
    });
    if (status.ok()) return;
    events_.on_event(
        {Severity::kError, "serve.fault", status.error().to_string(), {{"request", call->trace}}});
    call->respond(fault_response(500, "internal", "a fault of the service", call->trace));
  }

  static bool may_see_others(const Principal& principal) {
    return principal.role == Role::kRead || principal.role == Role::kAdmin;
  }

  void refuse(const CallPtr& call, const Error& error) {
    call->respond(logged(error_response(error, call->trace), call->trace, error.message));
  }

  HttpResponse refused_response(int status, std::string_view code, const std::string& message,
                                const std::string& trace) {
    return logged(fault_response(status, code, message, trace), trace, message);
  }

  HttpResponse logged(HttpResponse response, const std::string& trace, const std::string& why) {
    events_.on_event({Severity::kInfo,
                      "serve.refused",
                      visible_line(why),
                      {{"request", trace}, {"status", std::to_string(response.status)}}});
    return response;
  }

  /// The submission of an item; a task that came as text is added to `tasks`.
  Result<Submission> submission_of(EvaluationItem item, const std::optional<RewardQuestion>& reward,
                                   const Call& call, std::vector<StoredTask>& tasks) {
    Submission submission;
    std::optional<TaskText> sent;
    if (!item.task.toml.empty()) {
      TaskText text{std::move(item.task.toml)};
      if (!item.task.files.empty()) text.module = item.task.files.begin()->second;
      submission.key.task = text.digest();
      if (!known_task({.digest = submission.key.task}).ok()) {
        LATHE_TRY(TaskSpec spec, parse_sent_task(text, item.task.files));
        tasks.push_back({spec.digest, spec.name, text.joined()});
      }
      sent = std::move(text);
    } else {
      LATHE_TRY(submission.key.task, known_task(item.task));
    }
    if (reward) LATHE_CHECK_OK(check_depth(reward->reward, item.depth));
    if (reward && !reward->peer.empty()) LATHE_CHECK_OK(check_peer(reward->peer, submission.key.task, sent));
    submission.key.candidate = digest_of(item.candidate);
    submission.key.depth = item.depth;
    submission.key.device_kind = options_.device_kind;
    submission.key.gym_version = options_.gym_version;
    submission.candidate = std::move(item.candidate);
    submission.client = call.principal.client;
    submission.tag = std::move(item.tag);
    submission.naming = call.naming;
    submission.trace = call.trace;
    submission.priority = item.priority;
    submission.submitted_unix_ms = unix_milliseconds();
    if (item.deadline_seconds > 0)
      submission.deadline_unix_ms =
          submission.submitted_unix_ms + static_cast<std::int64_t>(item.deadline_seconds * 1000);
    return submission;
  }

  /// Of a task that is named by its digest nothing is known here: its verdicts tell.
  Status check_peer(const std::string& peer, const Digest& task, const std::optional<TaskText>& sent) {
    const std::vector<std::string> peers = peers_of(task, sent);
    if (peers.empty() || std::ranges::find(peers, peer) != peers.end()) return Ok{};
    return invalid(fmt::format("the task has no peer '{}' on this service's device", peer),
                   fmt::format("it has: {}", fmt::join(peers, ", ")));
  }

  std::vector<std::string> peers_of(const Digest& task, const std::optional<TaskText>& sent) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = peers_.find(task); known != peers_.end()) return known->second;
    }
    const auto own = own_texts_.find(task);
    if (!sent && own == own_texts_.end()) return {};
    const auto spec = parse_task_text(sent ? *sent : TaskText::split(own->second), "task");
    if (!spec.ok()) return {};
    const bool on_gpu = options_.device_kind.starts_with("cuda");
    std::vector<std::string> peers = baseline_names(*spec, on_gpu ? Dialect::kCuda : Dialect::kCpu);
    const std::lock_guard lock(mutex_);
    if (known_.contains(task)) peers_.emplace(task, peers);
    return peers;
  }

  /// A task that came as text, if this service's device can have it.
  Result<TaskSpec> parse_sent_task(const TaskText& text, const std::map<std::string, std::string>& files) {
    auto spec = parse_task_text(text, "task");
    if (!spec.ok()) return invalid(spec.error().to_string());
    const bool on_host = options_.device_kind.starts_with("host:");
    if (on_host && spec->reference != ReferenceKind::kProcess)
      return invalid("this service runs host programs (--device " + options_.device_kind +
                     "): its tasks have a process reference");
    if (!on_host && spec->reference == ReferenceKind::kProcess)
      return invalid("tasks with a process reference need a service with --device host:cpu or host:cuda");
    if (spec->reference == ReferenceKind::kNative)
      return invalid("tasks with a native reference are taken by name alone");
    if (on_host && !files.contains(spec->reference_source))
      return invalid("task.files has no '" + spec->reference_source + "', which is the reference's source");
    return spec;
  }

  Result<Digest> known_task(const TaskReference& task) {
    const std::lock_guard lock(mutex_);
    if (task.digest) {
      if (known_.contains(*task.digest)) return *task.digest;
      return invalid("there is no task of that digest", "send its text as {\"toml\": ...} first");
    }
    const auto found = own_.find(task.name);
    if (found == own_.end())
      return invalid("there is no task of that name, '" + visible_line(task.name) + "'",
                     "GET /v1/tasks lists them");
    return found->second;
  }

  void remember(const std::vector<StoredTask>& tasks) {
    const std::lock_guard lock(mutex_);
    for (const StoredTask& task : tasks) known_.emplace(task.digest, task.name);
  }

  void submit(const CallPtr& call) {
    const auto wait = wait_seconds(call->request);
    if (!wait.ok()) return refuse(call, wait.error());
    const auto reward = parse_reward(call->request.query);
    if (!reward.ok()) return refuse(call, reward.error());
    auto item = parse_evaluation(call->request.body);
    if (!item.ok()) return refuse(call, item.error());
    Service::Batch batch{.max_unfinished = call->principal.max_unfinished};
    auto submission = submission_of(*std::move(item), *reward, *call, batch.tasks);
    if (!submission.ok()) return refuse(call, submission.error());
    batch.submissions.push_back(*std::move(submission));
    const auto tasks = batch.tasks;
    service_.submit(std::move(batch), [self = shared_from_this(), call, tasks, seconds = *wait,
                                       reward = *reward](Service::Receipts receipts) {
      if (!receipts.ok()) return self->refuse(call, receipts.error());
      if (!receipts->front().ok()) return self->refuse(call, receipts->front().error());
      self->remember(tasks);
      if (!call->naming.name.empty())
        return call->respond(json_response(202, {{"id", receipts->front()->id.hex()}}));
      self->show_when_final(call, receipts->front()->id, seconds, reward);
    });
  }

  void submit_batch(const CallPtr& call) {
    const auto reward = parse_reward(call->request.query);
    if (!reward.ok()) return refuse(call, reward.error());
    auto items = parse_batch(call->request.body);
    if (!items.ok()) return refuse(call, items.error());
    Service::Batch batch{.max_unfinished = call->principal.max_unfinished};
    std::vector<std::optional<Error>> errors;  // of each item
    std::vector<Digest> asked;                 // the task of each submission
    for (auto& item : *items) {
      auto submission =
          item.ok() ? submission_of(*std::move(item), *reward, *call, batch.tasks) : item.error();
      errors.push_back(submission.ok() ? std::nullopt : std::optional(submission.error()));
      if (!submission.ok()) continue;
      asked.push_back(submission->key.task);
      batch.submissions.push_back(*std::move(submission));
    }
    const auto tasks = batch.tasks;
    service_.submit(std::move(batch),
                    [self = shared_from_this(), call, tasks, errors, asked](Service::Receipts receipts) {
                      if (!receipts.ok()) return self->refuse(call, receipts.error());
                      for (const StoredTask& task : tasks)
                        for (std::size_t i = 0; i < asked.size(); ++i)
                          if (asked[i] == task.digest && (*receipts)[i].ok()) self->remember({task});
                      call->respond(batch_response(errors, *receipts));
                    });
  }

  static HttpResponse batch_response(const std::vector<std::optional<Error>>& errors,
                                     const std::vector<Result<Receipt>>& receipts) {
    json items = json::array();
    std::size_t next = 0, busy = 0;
    for (const auto& wrong : errors) {
      const Result<Receipt> receipt = wrong ? Result<Receipt>(*wrong) : receipts[next++];
      if (receipt.ok()) {
        const bool known = receipt->admission == Admission::kKnown;
        items.push_back({{"id", receipt->id.hex()}, {"state", name(known ? State::kDone : State::kQueued)}});
        continue;
      }
      const bool is_busy = receipt.error().code == ErrorCode::kBusy;
      busy += is_busy;
      const std::string hint = receipt.error().hint.empty() ? "" : "; " + receipt.error().hint;
      const std::string message = is_busy ? busy_text(receipt.error()) : receipt.error().message + hint;
      items.push_back({{"error", {{"code", code_of(receipt.error())}, {"message", message}}}});
    }
    const int status = busy == items.size() ? 429 : 202;
    HttpResponse response = json_response(status, {{"items", std::move(items)}});
    if (busy > 0) response.headers.emplace_back("Retry-After", kRetryAfterSeconds);
    return response;
  }

  /// Calls `show` with the report of a request, or refuses.
  std::function<void(const Service::Found&)> with_report(const CallPtr& call,
                                                         std::function<void(const Report&)> show) {
    return [self = shared_from_this(), call, show = std::move(show)](const Service::Found& found) {
      if (!found.ok()) return self->refuse(call, found.error());
      if (!*found) return self->refuse(call, {ErrorCode::kNotFound, "there is no such evaluation"});
      show(**found);
    };
  }

  void show_when_final(const CallPtr& call, const Digest& id, double seconds,
                       const std::optional<RewardQuestion>& reward = {}) {
    service_.wait_for(call->principal.client, id, seconds,
                      with_report(call, [self = shared_from_this(), call, reward](const Report& report) {
                        json document = to_json(report);
                        if (reward)
                          if (const auto asked = reward_json(report, *reward); asked.ok())
                            document.update(*asked);
                        self->respond_with_base(call, is_final(report.state) ? 200 : 202, document, report);
                      }));
  }

  /// Adds "over_base" to a document, where a base is named.
  void respond_with_base(const CallPtr& call, int status, json document, const Report& report) {
    const auto base = call->request.query.find("base");
    if (base == call->request.query.end()) return call->respond(json_response(status, document));
    const auto id = Digest::from_hex(base->second);
    if (!id.ok()) return refuse(call, invalid("base is no id of an evaluation"));
    service_.find(call->principal.client, *id,
                  [self = shared_from_this(), call, status, document, report](const Service::Found& found) {
                    if (!found.ok()) return self->refuse(call, found.error());
                    if (!*found) return self->refuse(call, invalid("there is no such evaluation as base"));
                    auto over = over_base_json(report, **found);
                    if (!over.ok()) return self->refuse(call, over.error());
                    json whole = document;
                    whole["over_base"] = *std::move(over);
                    call->respond(json_response(status, whole));
                  });
  }

  void show(const CallPtr& call) {
    const auto id = id_of(*call);
    const auto wait = wait_seconds(call->request);
    if (!id.ok()) return refuse(call, id.error());
    if (!wait.ok()) return refuse(call, wait.error());
    show_when_final(call, *id, *wait);
  }

  void evidence(const CallPtr& call) {
    const auto id = id_of(*call);
    const auto reward = parse_reward(call->request.query);
    if (!id.ok()) return refuse(call, id.error());
    if (!reward.ok()) return refuse(call, reward.error());
    service_.find(
        call->principal.client, *id,
        with_report(call, [self = shared_from_this(), call, reward = *reward](const Report& report) {
          const auto document = evidence_json(report, reward);
          if (!document.ok()) return self->refuse(call, document.error());
          self->respond_with_base(call, 200, *document, report);
        }));
  }

  void cancel(const CallPtr& call) {
    const auto id = id_of(*call);
    if (!id.ok()) return refuse(call, id.error());
    service_.cancel(call->principal.client, *id,
                    [self = shared_from_this(), call, id = *id](const Result<bool>& done) {
                      if (!done.ok()) return self->refuse(call, done.error());
                      self->show_when_final(call, id, 0);
                    });
  }

  void list_finished(const CallPtr& call) {
    const auto after = number_in<std::int64_t>(call->request, "after", 0, 0, INT64_MAX);
    const auto limit = number_in<int>(call->request, "limit", 100, 1, kLongestList);
    const auto wait = wait_seconds(call->request);
    if (!after.ok()) return refuse(call, after.error());
    if (!limit.ok()) return refuse(call, limit.error());
    if (!wait.ok()) return refuse(call, wait.error());
    service_.wait_for_next(call->principal.client, *after, *limit, *wait,
                           [self = shared_from_this(), call](const Service::Reports& reports) {
                             if (!reports.ok()) return self->refuse(call, reports.error());
                             json items = json::array();
                             for (const Report& report : *reports) items.push_back(to_json(report));
                             call->respond(json_response(200, {{"items", std::move(items)}}));
                           });
  }

  /// A client's place in its stream of events.
  struct Stream {
    std::atomic<std::int64_t> after{0};
    std::atomic<std::int64_t> waiting{0};
  };

  void events(const CallPtr& call) {
    if (const std::string last = call->request.header("last-event-id"); !last.empty())
      call->request.query["after"] = last;
    const auto after = number_in<std::int64_t>(call->request, "after", 0, 0, INT64_MAX);
    if (!after.ok()) return refuse(call, after.error());
    const auto stream = std::make_shared<Stream>();
    stream->after = *after;
    HttpResponse response{.content_type = "text/event-stream", .headers = {{"Cache-Control", "no-store"}}};
    response.stream = [self = shared_from_this(), stream, call](HttpResponse::Piece piece) {
      constexpr double kForever = 1e8;
      stream->waiting =
          self->service_.wait_for_next(call->principal.client, stream->after, 100, kForever,
                                       [self, call, stream, piece](const Service::Reports& reports) {
                                         const bool is_voided = !self->principal_of(call->request);
                                         if (is_voided || !reports.ok()) return piece(std::nullopt);
                                         std::string text;
                                         for (const Report& report : *reports)
                                           text += fmt::format("event: evaluation\nid: {}\ndata: {}\n\n",
                                                               report.sequence, json_text(to_json(report)));
                                         if (!reports->empty()) stream->after = reports->back().sequence;
                                         piece(std::move(text));
                                       });
    };
    response.gone = [self = shared_from_this(), stream] { self->service_.stop_waiting(stream->waiting); };
    call->respond(std::move(response));
  }

  void list_tasks(const CallPtr& call) {
    json items = json::array();
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [task, digest] : own_) items.push_back({{"name", task}, {"digest", digest.hex()}});
    }
    call->respond(json_response(200, {{"items", std::move(items)}}));
  }

  /// In the form of a submission's task, so that it can be sent to another service.
  void show_task(const CallPtr& call) {
    auto digest = Digest::from_hex(call->id);
    if (!digest.ok()) digest = known_task({.name = call->id});
    const auto text = digest.ok() ? own_texts_.find(*digest) : own_texts_.end();
    if (text == own_texts_.end())
      return refuse(call, {ErrorCode::kNotFound, "there is no task of that name; GET /v1/tasks lists them"});
    const TaskText parts = TaskText::split(text->second);
    const auto spec = parse_task_text(parts, "task");
    if (!spec.ok()) return refuse(call, spec.error());
    json document = {{"name", spec->name}, {"digest", digest->hex()}, {"toml", parts.toml}};
    if (parts.module) document["files"] = {{spec->reference_source, *parts.module}};
    call->respond(json_response(200, document));
  }

  void device(const CallPtr& call) {
    service_.counts([self = shared_from_this(), call](const Result<ServiceCounts>& counts) {
      if (!counts.ok()) return self->refuse(call, counts.error());
      if (!counts->device)
        return call->respond(self->refused_response(
            503, "unavailable", "no worker of this front end has measured its device yet", call->trace));
      call->respond(json_response(
          200, {{"gym_version", self->options_.gym_version}, {"device", lathe::to_json(*counts->device)}}));
    });
  }

  void metrics(const CallPtr& call) {
    service_.counts([self = shared_from_this(), call](const Result<ServiceCounts>& counts) {
      if (!counts.ok()) return self->refuse(call, counts.error());
      call->respond({.content_type = "text/plain; version=0.0.4",
                     .body = metrics_text(*counts, self->options_.quarantined_workers())});
    });
  }

  void worker_joins(const CallPtr& call) {
    const auto join = parse_join(call->request.body);
    if (!join.ok()) return refuse(call, join.error());
    const auto session = remote_workers_->join(call->principal.client, *join);
    if (session.ok()) return call->respond(json_response(200, {{"session", *session}}));
    if (session.error().code != ErrorCode::kUnavailable) return refuse(call, session.error());
    events_.on_event({Severity::kWarning,
                      "serve.worker_refused",
                      session.error().message,
                      {{"worker", call->principal.client + "/" + join->name}}});
    call->respond(fault_response(409, "other_kind", session.error().message, call->trace));
  }

  void worker_listens(const CallPtr& call) {
    const auto after = number_in<std::int64_t>(call->request, "after", 0, 0, INT64_MAX);
    const auto wait = wait_seconds(call->request);
    if (!after.ok()) return refuse(call, after.error());
    if (!wait.ok()) return refuse(call, wait.error());
    remote_workers_->poll(call->principal.client, call->id, *after, *wait,
                          [self = shared_from_this(), call](const RemoteWorkers::Polled& batch) {
                            if (!batch.ok()) return self->refuse(call, batch.error());
                            call->respond({.body = encode(*batch) + "\n"});
                          });
  }

  void worker_says(const CallPtr& call) {
    const auto received = remote_workers_->say(call->principal.client, call->id, call->request.body);
    if (!received.ok()) return refuse(call, received.error());
    call->respond(json_response(200, {{"received", *received}}));
  }

  void worker_ends(const CallPtr& call) {
    const auto end = worker_end_in(call->request);
    if (!end.ok()) return refuse(call, end.error());
    const Status status = remote_workers_->end(call->principal.client, call->id, *end);
    if (!status.ok()) return refuse(call, status.error());
    call->respond(json_response(200, {{"status", "ended"}}));
  }

  void alive(const CallPtr& call) { call->respond(json_response(200, {{"status", "alive"}})); }

  void ready(const CallPtr& call) {
    service_.counts([call](const Result<ServiceCounts>& counts) {
      const bool ready = counts.ok() && counts->ready;
      call->respond(json_response(ready ? 200 : 503, {{"status", ready ? "ready" : "not ready"}}));
    });
  }

  void document(const CallPtr& call) {
    if (!is_open()) return call->respond({.body = kOpenApiDocument});
    json open = json::parse(kOpenApiDocument);
    open.erase("security");
    call->respond(json_response(200, open));
  }

  Service& service_;
  const ApiOptions options_;
  EventSink& events_;
  const std::unique_ptr<RemoteWorkers> remote_workers_;
  const std::string start_ = [] {
    Digest random;
    random.bytes = Seed::from_system().bytes;
    return random.short_hex();
  }();
  std::atomic<std::int64_t> count_{0};
  std::atomic<bool> had_tokens_{false};
  std::mutex mutex_;
  std::shared_ptr<const Tokens> tokens_;
  std::map<Digest, std::string> known_;
  std::map<std::string, Digest> own_;
  std::map<Digest, std::string> own_texts_;           // as it was made
  std::map<Digest, std::vector<std::string>> peers_;  // of those that submissions with a peer named
};

}  // namespace

std::shared_ptr<Api> Api::make(Service& service, ApiOptions options, EventSink& events) {
  return std::make_shared<TheApi>(service, std::move(options), events);
}

std::vector<Api::Operation> Api::operations() {
  std::vector<Operation> all;
  for (const auto& route : TheApi::routes()) all.push_back(route.operation);
  return all;
}

}  // namespace lathe::serve
