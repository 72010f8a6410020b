#include "serve/kernelgym/adapter.h"

#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/clock.h"
#include "base/guard.h"
#include "base/visible_text.h"
#include "record/json.h"
#include "serve/kernelgym/response.h"
#include "serve/request_json.h"

namespace lathe::serve::kernelgym {
namespace {

using nlohmann::json;

constexpr std::size_t kMostNames = 1 << 17;
constexpr int kTriesOfTheMachine = 3;  // before a client is told to come again
constexpr int kPage = 1000;
constexpr const char* kRetryAfterSeconds = "5";

HttpResponse json_response(int status, const json& document) {
  HttpResponse response{.status = status, .body = json_text(document) + "\n"};
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", kRetryAfterSeconds);
  return response;
}

HttpResponse refusal(int status, const std::string& message, const std::string& task_id = {}) {
  const char* const code = status == 429   ? "RESOURCE_ERROR"
                           : status >= 500 ? "SYSTEM_ERROR"
                                           : "VALIDATION_ERROR";
  HttpResponse response = json_response(status, error_json(code, message, task_id));
  response.headers.emplace_back("X-Error-Code", code);
  return response;
}

/// What an answer of Lathe's own interface says is wrong.
std::string message_in(const HttpResponse& response) {
  const auto body = parse_json(response.body, "an answer");
  if (body.ok() && body->is_object() && body->contains("error") && (*body)["error"].is_object())
    return (*body)["error"].value("message", "");
  return "the service cannot do that now";
}

/// %41 is A.
std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      const char c = at < text.size() ? text[at] : ' ';
      return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    };
    if (text[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
      plain += static_cast<char>(16 * digit(i + 1) + digit(i + 2));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// What is remembered of a task_id.
struct Named {
  std::string id;
  bool verbose = true;
  int correct_trials = 0;
  std::vector<std::string> notes = {};
  std::int64_t sequence = INT64_MAX;  ///< of the ledger, where it says so
};

/// The evaluations of task_ids, the latest of each. Thread-safe.
class Names {
 public:
  void set(const Digest& key, Named named) {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = names_.try_emplace(key);
    if (is_new || at->second.sequence <= named.sequence) at->second = std::move(named);
    if (!is_new) return;
    order_.push_back(key);
    if (order_.size() <= kMostNames) return;
    names_.erase(order_.front());
    order_.pop_front();
    read_.clear();
  }
  std::optional<Named> find(const Digest& key) {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(key);
    return found == names_.end() ? std::nullopt : std::optional(found->second);
  }
  /// How far a client's finished requests have been read.
  std::int64_t read(const Digest& client) {
    const std::lock_guard lock(mutex_);
    return read_[client];
  }
  void set_read(const Digest& client, std::int64_t sequence) {
    const std::lock_guard lock(mutex_);
    read_[client] = sequence;
  }

 private:
  std::mutex mutex_;
  std::map<Digest, Named> names_;
  std::deque<Digest> order_;
  std::map<Digest, std::int64_t> read_;
};

class Adapter final : public std::enable_shared_from_this<Adapter> {
 public:
  Adapter(Service& service, HttpHandler inner, Computes where)
      : service_(service), inner_(std::move(inner)), where_(where) {}

  HttpHandler handler() {
    const auto self = shared_from_this();
    return {.admit = [self](const HttpRequest& request) { return self->admit(request); },
            .handle = [self](HttpRequest request,
                             Respond respond) { self->handle(std::move(request), std::move(respond)); },
            .fault = inner_.fault};
  }

 private:
  /// A request on its way.
  struct Call {
    HttpRequest request;
    std::string task_id;  ///< of the path
    Respond respond;
  };
  using CallPtr = std::shared_ptr<Call>;
  struct Route {
    const char* method;
    const char* path;   ///< ends with a slash where a task_id follows
    const char* right;  ///< whoever may GET or POST this may use it
    void (Adapter::*handle)(const CallPtr&);
  };
  static const std::vector<Route>& routes() {
    static const std::vector<Route> all = {
        {"POST", "/evaluate", "/v1/evaluations", &Adapter::evaluate},
        {"POST", "/evaluate/batch", "/v1/evaluations", &Adapter::evaluate_batch},
        {"POST", "/workflow/submit", "/v1/evaluations", &Adapter::submit_workflow},
        {"POST", "/debug/validate", "/v1/evaluations", &Adapter::validate},
        {"GET", "/status/", "/v1/evaluations", &Adapter::status},
        {"GET", "/results/", "/v1/evaluations", &Adapter::results},
        {"GET", "/workflow/results/", "/v1/evaluations", &Adapter::workflow_results},
        {"DELETE", "/tasks/", "/v1/evaluations/0", &Adapter::cancel},
        {"GET", "/health", "/metrics", &Adapter::health},
        {"GET", "/queue/status", "/metrics", &Adapter::queue_status},
        {"GET", "/workers/status", "/metrics", &Adapter::workers_status},
    };
    return all;
  }
  struct Match {
    const Route* route = nullptr;
    std::string task_id;
    std::string allowed;  ///< methods of the path, if there is no route
  };
  static Match match(const HttpRequest& request) {
    Match match;
    for (const Route& route : routes()) {
      const std::string_view path = route.path;
      const bool named = path.ends_with('/');
      if (named ? !request.path.starts_with(path) || request.path.size() == path.size()
                : request.path != path)
        continue;
      if (request.method == route.method)
        return {&route, named ? decoded(request.path.substr(path.size())) : "", {}};
      match.allowed = std::string_view(route.method) == "GET" ? "GET, HEAD" : route.method;
    }
    return match;
  }

  std::optional<HttpResponse> admit(const HttpRequest& request) {
    const Match found = match(request);
    if (!found.route && found.allowed.empty()) return inner_.admit(request);
    if (!found.route) {
      HttpResponse response = refusal(405, "this page does not take " + request.method);
      response.headers.emplace_back("Allow", found.allowed);
      return response;
    }
    HttpRequest right = request;
    right.path = found.route->right;
    return inner_.admit(right);
  }

  void handle(HttpRequest request, Respond respond) {
    const Match found = match(request);
    if (!found.route) return inner_.handle(std::move(request), std::move(respond));
    const auto call = std::make_shared<Call>();
    call->task_id = found.task_id;
    call->respond = std::move(respond);
    call->request = std::move(request);
    if (const auto& query = call->request.query; !query.empty())
      return call->respond(refusal(
          400,
          "there is no query parameter '" + visible_line(query.begin()->first) + "' here; this page has none",
          call->task_id));
    const lathe::Status done = without_exceptions([&]() -> lathe::Status {
      (this->*found.route->handle)(call);
      return Ok{};
    });
    if (!done.ok()) call->respond(refusal(500, "a fault of the service", call->task_id));
  }

  /// Asks Lathe's own interface in the name of the call's client.
  void ask(const CallPtr& call, const std::string& method, const std::string& target, std::string body,
           Respond respond) {
    HttpRequest request{.method = method, .path = target, .body = std::move(body)};
    if (const std::size_t mark = target.find('?'); mark != std::string::npos) {
      request.path.resize(mark);
      std::string_view rest = std::string_view(target).substr(mark + 1);
      while (!rest.empty()) {
        const std::string_view pair = rest.substr(0, rest.find('&'));
        rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
        const std::size_t equal = pair.find('=');
        request.query[std::string(pair.substr(0, equal))] = pair.substr(equal + 1);
      }
    }
    for (const char* const header : {"authorization", "host", "x-request-id"})
      if (const auto found = call->request.headers.find(header); found != call->request.headers.end())
        request.headers.insert(*found);
    request.headers["content-type"] = "application/json";
    inner_.handle(std::move(request), std::move(respond));
  }

  static Digest key_of(const CallPtr& call, const std::string& task_id) {
    return Hasher().add("lathe.kernelgym").add(call->request.header("authorization")).add(task_id).finish();
  }

  /// Either a response that says what is wrong, or an answer.
  struct Outcome {
    std::optional<HttpResponse> refused;
    Answer answer;
  };
  using Done = std::function<void(Outcome)>;

  static Outcome refused(const HttpResponse& response, const std::string& task_id) {
    return {refusal(response.status, message_in(response), task_id), {.task_id = task_id}};
  }

  /// Submits and waits for the end, however long it takes; others can ask for it by name meanwhile.
  void submit(const CallPtr& call, const Request& request, int tries, Done done) {
    const std::int64_t begin_ns = steady_clock().now_ns();
    ask(call, "POST", "/v1/evaluations", json_text(request.evaluation),
        [self = shared_from_this(), call, request, tries, begin_ns, done](const HttpResponse& response) {
          if (response.status != 200 && response.status != 202)
            return done(refused(response, request.task_id));
          const auto body = parse_json(response.body, "an answer");
          if (!body.ok()) return done(refused({.status = 500}, request.task_id));
          const Named named{body->value("id", ""), request.verbose, request.correct_trials, request.notes};
          self->names_.set(key_of(call, request.task_id), named);
          const Done when_final = [self, call, request, tries, begin_ns, done](const Outcome& outcome) {
            const double left =
                request.evaluation["deadline_seconds"].get<double>() - seconds_since(begin_ns);
            if (outcome.refused || !outcome.answer.is_retry() || tries == 1 || left <= 0)
              return done(outcome);
            Request again = request;
            again.evaluation["deadline_seconds"] = left;
            self->submit(call, again, tries - 1, done);
          };
          if (response.status == 202) return self->wait(call, request.task_id, named, when_final);
          self->add_evidence(call, request.task_id, named, *body, when_final);
        });
  }

  void wait(const CallPtr& call, const std::string& task_id, const Named& named, const Done& done) {
    ask(call, "GET", "/v1/evaluations/" + named.id + "?wait=60", {},
        [self = shared_from_this(), call, task_id, named, done](const HttpResponse& response) {
          if (response.status == 202) return self->wait(call, task_id, named, done);
          self->take_state(call, task_id, named, response, done);
        });
  }

  void take_state(const CallPtr& call, const std::string& task_id, const Named& named,
                  const HttpResponse& response, const Done& done) {
    if (response.status != 200 && response.status != 202) return done(refused(response, task_id));
    const auto body = parse_json(response.body, "an answer");
    if (!body.ok()) return done(refused({.status = 500}, task_id));
    add_evidence(call, task_id, named, *body, done);
  }

  /// `state` is what /v1/evaluations/{id} shows.
  void add_evidence(const CallPtr& call, const std::string& task_id, const Named& named, const json& state,
                    const Done& done) {
    Answer answer{.task_id = task_id,
                  .id = named.id,
                  .state = state.value("state", ""),
                  .error = state.value("error", ""),
                  .verdict = {},
                  .feedback = {},
                  .submitted_unix_ms = state.value("submitted_unix_ms", std::int64_t{0}),
                  .finished_unix_ms = state.value("finished_unix_ms", std::int64_t{0}),
                  .verbose = named.verbose,
                  .correct_trials = named.correct_trials,
                  .notes = named.notes};
    if (answer.state != "done") return done({std::nullopt, std::move(answer)});
    ask(call, "GET", "/v1/evaluations/" + named.id + "/evidence", {},
        [answer, done](const HttpResponse& response) {
          Outcome outcome{std::nullopt, answer};
          const auto body = parse_json(response.body, "evidence");
          if (response.status != 200 || !body.ok()) return done(refused(response, answer.task_id));
          if (body->contains("verdict"))
            if (auto verdict = verdict_from_json((*body)["verdict"]); verdict.ok())
              outcome.answer.verdict = *std::move(verdict);
          outcome.answer.feedback = body->value("feedback", "");
          done(std::move(outcome));
        });
  }

  static Result<json> body_of(const CallPtr& call) {
    LATHE_TRY(json body, parse_body(call->request.body));
    if (!body.is_object()) return invalid("the body is no object");
    return body;
  }

  static std::string text_of(const Error& error) {
    return error.hint.empty() ? error.message : error.message + "; " + error.hint;
  }

  static HttpResponse response_of(const Outcome& outcome) {
    if (outcome.refused) return *outcome.refused;
    const json body = evaluation_json(outcome.answer);
    if (outcome.answer.is_retry()) return refusal(503, body["error_message"], outcome.answer.task_id);
    return json_response(200, body);
  }

  static std::string task_id_in(const json& body) {
    const auto found = body.is_object() ? body.find("task_id") : body.end();
    return found != body.end() && found->is_string() ? found->get<std::string>().substr(0, kMaxTaskIdBytes)
                                                     : "";
  }

  void evaluate(const CallPtr& call) {
    const auto body = body_of(call);
    if (!body.ok()) return call->respond(refusal(400, text_of(body.error())));
    const auto request = parse_request(*body, where_);
    if (!request.ok()) return call->respond(refusal(400, text_of(request.error()), task_id_in(*body)));
    submit(call, *request, kTriesOfTheMachine,
           [call](const Outcome& outcome) { call->respond(response_of(outcome)); });
  }

  void submit_workflow(const CallPtr& call) {
    const auto body = body_of(call);
    if (!body.ok()) return call->respond(refusal(400, text_of(body.error())));
    json request = body->value("payload", json::object());
    for (const auto& field : body->items()) {
      if (field.key() == "payload" || field.value().is_null()) continue;
      if (request.is_object()) request[field.key()] = field.value();
    }
    const auto parsed = parse_request(request, where_);
    if (!parsed.ok()) return call->respond(refusal(400, text_of(parsed.error()), task_id_in(request)));
    submit(call, *parsed, kTriesOfTheMachine, [call](const Outcome& outcome) {
      call->respond(outcome.refused || outcome.answer.is_retry()
                        ? response_of(outcome)
                        : json_response(200, workflow_json(outcome.answer)));
    });
  }

  static json workflow_json(const Answer& answer) {
    json result = evaluation_json(answer);
    json document = {{"task_id", answer.task_id}, {"status", result["status"]}};
    for (const char* const field : {"error_message", "error_code", "submitted_at", "completed_at"})
      document[field] = result[field];
    result.erase("status");
    document["result"] = std::move(result);
    return document;
  }

  void validate(const CallPtr& call) {
    const auto body = body_of(call);
    if (!body.ok()) return call->respond(refusal(400, text_of(body.error())));
    const auto request = parse_request(*body, where_);
    json document = {{"valid", request.ok()},
                     {"errors", json::array()},
                     {"task_id", task_id_in(*body)},
                     {"workflow", "kernelbench"}};
    if (!request.ok()) document["errors"].push_back(text_of(request.error()));
    if (request.ok()) document["notes"] = request->notes;
    call->respond(json_response(200, document));
  }

  /// A batch on its way: every item ends by itself.
  struct Batch {
    std::string id;
    std::int64_t submitted_unix_ms = unix_milliseconds();
    std::mutex mutex;
    std::vector<json> results;
    std::size_t unfinished = 0;
    int failed = 0;
    std::optional<HttpResponse> busy;
  };

  void evaluate_batch(const CallPtr& call) {
    const auto parsed = parse_batch(call->request.body);
    if (!parsed.ok()) return call->respond(refusal(400, text_of(parsed.error())));
    const std::vector<Result<json>>& tasks = parsed->tasks;
    const auto batch = std::make_shared<Batch>();
    batch->id = parsed->batch_id;
    batch->results.resize(tasks.size());
    batch->unfinished = tasks.size();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const auto request = tasks[i].ok() ? parse_request(*tasks[i], where_) : tasks[i].error();
      if (!request.ok()) {
        const std::string task_id = tasks[i].ok() ? task_id_in(*tasks[i]) : "";
        const Outcome wrong{refusal(400, text_of(request.error()), task_id), {.task_id = task_id}};
        end_item(call, *batch, i, wrong);
        continue;
      }
      submit(call, *request, kTriesOfTheMachine,
             [call, batch, i](const Outcome& outcome) { end_item(call, *batch, i, outcome); });
    }
  }

  static void end_item(const CallPtr& call, Batch& batch, std::size_t index, const Outcome& outcome) {
    const std::lock_guard lock(batch.mutex);
    json& result = batch.results[index];
    result = evaluation_json(outcome.answer);
    if (outcome.refused) {
      const auto error = parse_json(outcome.refused->body, "a refusal");
      result["status"] = "failed";
      result["error_message"] = error.ok() ? (*error)["message"] : json("refused");
      result["error_code"] = error.ok() ? (*error)["error_code"] : json("SYSTEM_ERROR");
      if (outcome.refused->status == 429) batch.busy = outcome.refused;
    }
    batch.failed += result["status"] != "completed";
    if (--batch.unfinished > 0) return;
    if (batch.busy) return call->respond(*batch.busy);  // what was taken is known when it is sent again
    const auto total = static_cast<int>(batch.results.size());
    call->respond(json_response(200, {{"batch_id", batch.id},
                                      {"total_tasks", total},
                                      {"completed_tasks", total - batch.failed},
                                      {"failed_tasks", batch.failed},
                                      {"results", batch.results},
                                      {"batch_status", "completed"},
                                      {"submitted_at", iso_time(batch.submitted_unix_ms)},
                                      {"completed_at", iso_time(unix_milliseconds())}}));
  }

  using FoundName = std::function<void(std::optional<Named>)>;
  /// The evaluation of the path's task_id: what this process was asked, else what the client's
  /// finished requests say, which carry the task_id as their tag.
  void find(const CallPtr& call, const FoundName& done) {
    if (auto named = names_.find(key_of(call, call->task_id))) return done(std::move(named));
    read_finished(call, done);
  }
  /// To the end: a task_id that was used again names the last of its evaluations.
  void read_finished(const CallPtr& call, const FoundName& done) {
    const Digest client = key_of(call, {});
    ask(call, "GET", fmt::format("/v1/evaluations?after={}&limit={}", names_.read(client), kPage), {},
        [self = shared_from_this(), call, client, done](const HttpResponse& response) {
          const auto body = parse_json(response.body, "an answer");
          const json items =
              response.status == 200 && body.ok() ? body->value("items", json::array()) : json();
          if (items.empty()) return done(self->names_.find(key_of(call, call->task_id)));
          for (const json& item : items)
            self->names_.set(
                key_of(call, item.value("tag", "")),
                {.id = item.value("id", ""), .sequence = item.value("sequence", std::int64_t{0})});
          self->names_.set_read(client, items.back().value("sequence", std::int64_t{0}));
          self->read_finished(call, done);
        });
  }

  void look_up(const CallPtr& call, const std::function<void(const Outcome&)>& then) {
    find(call, [self = shared_from_this(), call, then](const std::optional<Named>& named) {
      if (!named)
        return call->respond(
            refusal(404, "there is no task of that id", call->task_id.substr(0, kMaxTaskIdBytes)));
      self->ask(call, "GET", "/v1/evaluations/" + named->id, {},
                [self, call, named = *named, then](const HttpResponse& response) {
                  self->take_state(call, call->task_id, named, response, then);
                });
    });
  }

  void status(const CallPtr& call) {
    look_up(call, [call](const Outcome& outcome) {
      if (outcome.refused || outcome.answer.is_retry()) return call->respond(response_of(outcome));
      call->respond(json_response(200, status_json(outcome.answer)));
    });
  }

  void results(const CallPtr& call) {
    look_up(call, [call](const Outcome& outcome) {
      if (is_unfinished(outcome)) return call->respond(refusal(404, "there is no result yet", call->task_id));
      call->respond(response_of(outcome));
    });
  }

  void workflow_results(const CallPtr& call) {
    look_up(call, [call](const Outcome& outcome) {
      if (is_unfinished(outcome)) return call->respond(refusal(404, "there is no result yet", call->task_id));
      if (outcome.refused || outcome.answer.is_retry()) return call->respond(response_of(outcome));
      call->respond(json_response(200, workflow_json(outcome.answer)));
    });
  }

  static bool is_unfinished(const Outcome& outcome) {
    return !outcome.refused && (outcome.answer.state == "queued" || outcome.answer.state == "running");
  }

  void cancel(const CallPtr& call) {
    look_up(call, [self = shared_from_this(), call](const Outcome& outcome) {
      if (!outcome.refused && !is_unfinished(outcome))
        return call->respond(refusal(404, "the task has ended already", call->task_id));
      if (outcome.refused) return call->respond(*outcome.refused);
      self->ask(call, "DELETE", "/v1/evaluations/" + outcome.answer.id, {},
                [call](const HttpResponse& response) {
                  if (response.status >= 300)
                    return call->respond(refusal(response.status, message_in(response), call->task_id));
                  call->respond(json_response(200, {{"message", "cancelled"}, {"task_id", call->task_id}}));
                });
    });
  }

  void with_counts(const CallPtr& call, const std::function<HttpResponse(const ServiceCounts&)>& make) {
    service_.counts([call, make](const Result<ServiceCounts>& counts) {
      call->respond(counts.ok() ? make(*counts) : refusal(503, "the service cannot say that now"));
    });
  }

  static json workers_json(const ServiceCounts& counts) {
    json workers = json::object();
    for (const WorkerState& worker : counts.workers)
      workers[worker.name] = {{"device", worker.device_name},
                              {"status", "online"},
                              {"active_tasks", worker.in_hand},
                              {"busy_share", worker.busy_share}};
    return workers;
  }

  static std::int64_t answered(const ServiceCounts& counts) {
    return std::accumulate(counts.verdicts.begin(), counts.verdicts.end(), std::int64_t{0},
                           [](std::int64_t sum, const auto& verdicts) { return sum + verdicts.second; });
  }

  static json queue_json(const ServiceCounts& counts) {
    return {{"pending", counts.queue.waiting},
            {"processing", counts.queue.leased},
            {"completed", answered(counts)}};
  }

  void health(const CallPtr& call) {
    with_counts(call, [self = shared_from_this()](const ServiceCounts& counts) {
      return json_response(counts.ready ? 200 : 503, {{"status", counts.ready ? "healthy" : "unhealthy"},
                                                      {"timestamp", iso_time(unix_milliseconds())},
                                                      {"gpu_status", json::object()},
                                                      {"workers", workers_json(counts)},
                                                      {"queue_status", queue_json(counts)},
                                                      {"memory_usage", json::object()},
                                                      {"active_tasks", counts.queue.leased},
                                                      {"total_processed", answered(counts)},
                                                      {"uptime", seconds_since(self->started_ns_)}});
    });
  }

  void queue_status(const CallPtr& call) {
    with_counts(call, [](const ServiceCounts& counts) {
      json document = queue_json(counts);
      json in_hand = json::object();
      for (const WorkerState& worker : counts.workers) in_hand[worker.name] = worker.in_hand;
      document["worker_queues"] = std::move(in_hand);
      return json_response(200, document);
    });
  }

  void workers_status(const CallPtr& call) {
    with_counts(call, [](const ServiceCounts& counts) { return json_response(200, workers_json(counts)); });
  }

  Service& service_;
  const HttpHandler inner_;
  const Computes where_;
  const std::int64_t started_ns_ = steady_clock().now_ns();
  Names names_;
};

}  // namespace

HttpHandler adapt(Service& service, HttpHandler inner, Computes where) {
  return std::make_shared<Adapter>(service, std::move(inner), where)->handler();
}

}  // namespace lathe::serve::kernelgym
