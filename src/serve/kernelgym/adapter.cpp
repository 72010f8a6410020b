#include "serve/kernelgym/adapter.h"

#include <fmt/format.h>

#include <algorithm>
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

constexpr double kLongestWaitSeconds = 60;  // before a waiting call looks again
constexpr int kTriesOfTheMachine = 3;       // before a client is told to come again
constexpr const char* kRetryAfterSeconds = "5";
constexpr const char* kCannotNow = "the service cannot do that now";
constexpr const char* kHasEnded = "the task has ended already";

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
  return kCannotNow;
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

/// What an answer to a task_id depends on besides the evaluation: kept with the name.
std::string details_of(const Request& request) {
  return json_text(
      {{"verbose", request.verbose}, {"correct_trials", request.correct_trials}, {"notes", request.notes}});
}

Answer answer_of(const NamedReport& named, const std::string& task_id) {
  const Report& report = named.report;
  Answer answer{.task_id = task_id,
                .id = report.id.hex(),
                .state = std::string(name(report.state)),
                .error = report.error,
                .verdict = {},
                .feedback = {},
                .submitted_unix_ms = report.submitted_unix_ms,
                .finished_unix_ms = report.finished_unix_ms};
  if (const auto details = parse_json(named.details, "details"); details.ok() && details->is_object()) {
    answer.verbose = details->value("verbose", true);
    answer.correct_trials = details->value("correct_trials", 0);
    answer.notes = details->value("notes", answer.notes);
  }
  const auto evidence = evidence_json(report, std::nullopt);
  if (!evidence.ok() || !evidence->contains("verdict")) return answer;
  if (auto verdict = verdict_from_json((*evidence)["verdict"]); verdict.ok())
    answer.verdict = *std::move(verdict);
  answer.feedback = evidence->value("feedback", "");
  return answer;
}

class Adapter final : public std::enable_shared_from_this<Adapter> {
 public:
  Adapter(Service& service, std::shared_ptr<Api> api, Computes where)
      : service_(service), api_(std::move(api)), inner_(api_->handler()), where_(where) {}

  /// A request on its way.
  struct Call {
    HttpRequest request;
    std::string task_id;  ///< of the path
    std::string client;
    Respond respond;
  };
  using CallPtr = std::shared_ptr<Call>;
  struct Route {
    const char* method;
    const char* path;   ///< as in the document: "/status/{task_id}"
    const char* right;  ///< whoever may GET or POST this may use it
    void (Adapter::*handle)(const CallPtr&);
  };
  static const std::vector<Route>& routes() {
    static const std::vector<Route> all = {
        {"POST", "/evaluate", "/v1/evaluations", &Adapter::evaluate},
        {"POST", "/evaluate/batch", "/v1/evaluations", &Adapter::evaluate_batch},
        {"POST", "/workflow/submit", "/v1/evaluations", &Adapter::submit_workflow},
        {"POST", "/debug/validate", "/v1/evaluations", &Adapter::validate},
        {"GET", "/status/{task_id}", "/v1/evaluations", &Adapter::status},
        {"GET", "/results/{task_id}", "/v1/evaluations", &Adapter::results},
        {"GET", "/workflow/results/{task_id}", "/v1/evaluations", &Adapter::workflow_results},
        {"DELETE", "/tasks/{task_id}", "/v1/evaluations/0", &Adapter::cancel},
        {"GET", "/health", "/metrics", &Adapter::health},
        {"GET", "/queue/status", "/metrics", &Adapter::queue_status},
        {"GET", "/workers/status", "/metrics", &Adapter::workers_status},
    };
    return all;
  }

  HttpHandler handler() {
    const auto self = shared_from_this();
    return {.admit = [self](const HttpRequest& request) { return self->admit(request); },
            .handle = [self](HttpRequest request,
                             Respond respond) { self->handle(std::move(request), std::move(respond)); },
            .fault = inner_.fault};
  }

 private:
  struct Match {
    const Route* route = nullptr;
    std::string task_id;
    std::string allowed;  ///< methods of the path, if there is no route
  };
  static Match match(const HttpRequest& request) {
    Match match;
    for (const Route& route : routes()) {
      const std::string_view pattern = route.path;
      const std::string_view path = pattern.substr(0, pattern.find('{'));
      const bool named = path != pattern;
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
      response.headers.emplace_back("X-Request-Id", api_->trace_of(request));
      return response;
    }
    HttpRequest right = request;
    right.path = found.route->right;
    return inner_.admit(right);
  }

  void handle(HttpRequest request, Respond respond) {
    const Match found = match(request);
    if (!found.route && request.path == "/openapi.json") respond = with_additions(std::move(respond));
    if (!found.route) return inner_.handle(std::move(request), std::move(respond));
    const auto call = std::make_shared<Call>();
    call->task_id = found.task_id;
    const std::string trace = api_->trace_of(request);
    call->respond = [respond = std::move(respond), trace](HttpResponse response) {
      response.headers.emplace_back("X-Request-Id", trace);
      respond(std::move(response));
    };
    call->request = std::move(request);
    call->request.headers["x-request-id"] = trace;  // of what is asked in its name, and so in the logs
    const auto principal = api_->principal_of(call->request);
    if (!principal) return call->respond(refusal(401, "the token is not valid any more", call->task_id));
    call->client = principal->client;
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

  static Respond with_additions(Respond respond) {
    return [respond = std::move(respond)](HttpResponse response) {
      auto document = parse_json(response.body, "a document");
      if (response.status != 200 || !document.ok()) return respond(std::move(response));
      document->merge_patch(json::parse(kOpenApiAdditions));
      response.body = json_text(*document) + "\n";
      respond(std::move(response));
    };
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

  /// Submits and waits for the end, at most until the timeout; others can ask for it by name
  /// meanwhile.
  void submit(const CallPtr& call, const Request& request, int tries, const Done& done) {
    const std::int64_t begin_ns = steady_clock().now_ns();
    HttpRequest inner{.method = "POST",
                      .path = "/v1/evaluations",
                      .headers = call->request.headers,
                      .body = json_text(request.evaluation)};
    api_->submit_named(
        std::move(inner), {request.task_id, details_of(request)},
        [self = shared_from_this(), call, request, tries, begin_ns, done](const HttpResponse& response) {
          if (response.status != 202) return done(refused(response, request.task_id));
          const auto body = parse_json(response.body, "an answer");
          const auto id = Digest::from_hex(body.ok() ? body->value("id", "") : "");
          if (!id.ok()) return done(refused({.status = 500}, request.task_id));
          const auto left = [begin_ns, seconds = request.evaluation["deadline_seconds"].get<double>()] {
            return seconds - seconds_since(begin_ns);
          };
          self->wait({call->client, request.task_id, *id}, left, [=](const Outcome& outcome) {
            if (outcome.refused || !outcome.answer.is_retry() || tries == 1 || left() <= 0)
              return done(outcome);
            Request again = request;
            again.evaluation["deadline_seconds"] = left();
            self->submit(call, again, tries - 1, done);
          });
        });
  }

  /// The call's own timer: an equal one may have a later deadline, and the evaluation goes on for
  /// it.
  void wait(const NameQuery& query, const std::function<double()>& left, const Done& done) {
    const double seconds = std::clamp(left(), 0.0, kLongestWaitSeconds);
    service_.find_named(query, seconds, [=, self = shared_from_this()](const Service::FoundNamed& found) {
      Outcome outcome = outcome_of(found, query.name);
      if (is_unfinished(outcome)) {
        if (left() > 0) return self->wait(query, left, done);
        outcome.answer.state = name(State::kExpired);
        outcome.answer.finished_unix_ms = unix_milliseconds();
      }
      done(outcome);
    });
  }

  static Outcome outcome_of(const Service::FoundNamed& found, const std::string& task_id) {
    const std::string shown = task_id.substr(0, kMaxTaskIdBytes);
    if (!found.ok()) return {refusal(503, kCannotNow, shown), {.task_id = task_id}};
    if (!*found) return {refusal(404, "there is no task of that id", shown), {.task_id = task_id}};
    return {std::nullopt, answer_of(**found, task_id)};
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

  /// The last evaluation of the path's task_id.
  void look_up(const CallPtr& call, const Done& then) {
    service_.find_named({call->client, call->task_id}, 0, [call, then](const Service::FoundNamed& found) {
      then(outcome_of(found, call->task_id));
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
        return call->respond(refusal(404, kHasEnded, call->task_id));
      if (outcome.refused) return call->respond(*outcome.refused);
      const auto id = Digest::from_hex(outcome.answer.id);
      self->service_.cancel_named(
          call->client, id.ok() ? *id : Digest{}, call->task_id, [call](const Result<bool>& done) {
            if (!done.ok()) return call->respond(refusal(503, kCannotNow, call->task_id));
            if (!*done) return call->respond(refusal(404, kHasEnded, call->task_id));
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
  const std::shared_ptr<Api> api_;
  const HttpHandler inner_;
  const Computes where_;
  const std::int64_t started_ns_ = steady_clock().now_ns();
};

}  // namespace

std::vector<Api::Operation> operations() {
  std::vector<Api::Operation> all;
  for (const auto& route : Adapter::routes()) all.push_back({route.method, route.path});
  return all;
}

HttpHandler adapt(Service& service, std::shared_ptr<Api> api, Computes where) {
  return std::make_shared<Adapter>(service, std::move(api), where)->handler();
}

}  // namespace lathe::serve::kernelgym
