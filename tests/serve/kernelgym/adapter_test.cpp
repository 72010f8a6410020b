#include "serve/kernelgym/adapter.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "bench/serve/http_client.h"
#include "candidate/candidate.h"
#include "gym/version.h"
#include "serve/kernelgym/request.h"
#include "serve/kernelgym/response.h"
#include "task/task_text.h"
#include "tests/serve/openapi_document.h"
#include "tests/serve/service_here.h"

namespace lathe::serve::kernelgym {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kReference = "import torch\n\nclass Model(torch.nn.Module):\n    pass\n";

json request(const std::string& task_id, const std::string& kernel, json more = json::object()) {
  more.update({{"task_id", task_id}, {"reference_code", kReference}, {"kernel_code", kernel}});
  return more;
}

/// A worker inside the process, whose verdict is what the kernel says: "PASS", "INFRA", ...
class ScriptedLink final : public WorkerLink {
 public:
  explicit ScriptedLink(Service& service) : service_(service) {}
  void send(const FrontMessage& message) override {
    if (std::holds_alternative<CancelOrder>(message)) ++cancels;
    const auto* order = std::get_if<WorkOrder>(&message);
    if (!order) return;
    ++orders;
    const std::string text = order->candidate.substr(order->candidate.find("\"\"\"", 3) + 3);
    if (text.starts_with("wait")) return;
    if (text.ends_with("slowly")) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    WorkerAnswer answer{order->lease, Verdict{}, {}};
    Verdict& verdict = *answer.verdict;
    if (const auto said = parse_outcome(text.substr(0, text.find(' '))); said.ok()) verdict.outcome = *said;
    if (text.starts_with("once") && orders > 1) verdict.outcome = Outcome::kPass;
    verdict.reason = "reason";
    verdict.detail = "Traceback\nValueError: the last line\n";
    verdict.task = order->task;
    verdict.candidate = digest_of(order->candidate);
    verdict.depth = order->depth;
    if (verdict.passed()) {
      verdict.timings = {{.shape = "only", .median_ns = 2e6, .pairs = 9}};
      verdict.speedups = {{.baseline = "naive", .shape = "only", .ratio = {1.4, 1.5, 1.6}}};
    }
    if (text.starts_with("broken")) {
      answer.verdict.reset();
      answer.error = {ErrorCode::kInvalid, "the process reference failed: no"};
    }
    last = *order;
    service_.worker_said("w", answer);
  }
  void end() override {}

  std::atomic<int> orders{0}, cancels{0};
  WorkOrder last;

 private:
  Service& service_;
};

class AdapterTest : public testing::Test, public ListeningService {
 protected:
  AdapterTest() { start(500); }
  ~AdapterTest() override { stop(); }  // before the link, which the service calls

  void start(std::int64_t max_unfinished) {
    open();
    listen({.device_kind = "host:cpu", .gym_version = kGymVersion, .max_unfinished = max_unfinished}, {}, 0,
           [this](const HttpHandler&) { return adapt(*service_, api_, Computes::kOnProcessor); });
    link_ = std::make_shared<ScriptedLink>(*service_);
    service_->worker_joined("w", {.kind = {"host:cpu", kGymVersion}, .device_name = "fake", .slots = 1000},
                            link_);
  }

  HttpAnswer post(const std::string& path, const json& body) {
    auto answer = HttpClient(server_->port()).post(path, body.dump());
    EXPECT_TRUE(answer.ok());
    return answer.ok() ? *answer : HttpAnswer{};
  }
  HttpAnswer get(const std::string& path) {
    auto answer = HttpClient(server_->port()).get(path);
    EXPECT_TRUE(answer.ok());
    return answer.ok() ? *answer : HttpAnswer{};
  }

  /// A call that blocks; its answer is 0 where the service ended meanwhile.
  std::future<HttpAnswer> call(const json& body) {
    return std::async(std::launch::async, [port = server_->port(), text = body.dump()] {
      auto answer = HttpClient(port).post("/evaluate", text);
      return answer.ok() ? *std::move(answer) : HttpAnswer{.status = 0};
    });
  }
  std::string status_of(const std::string& task_id) {
    const HttpAnswer answer = get("/status/" + task_id);
    return answer.status == 200 ? json::parse(answer.body)["status"] : json("unknown");
  }
  bool becomes(const std::string& task_id, const std::string& status) {
    for (int i = 0; i < 500; ++i) {
      if (status_of(task_id) == status) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  int remove(const std::string& task_id) {
    return HttpClient(server_->port()).remove("/tasks/" + task_id)->status;
  }
  static bool is_answered(const std::future<HttpAnswer>& call) {
    return call.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  std::shared_ptr<ScriptedLink> link_;
};

TEST_F(AdapterTest, AReferenceAndAKernelBecomeAProcessTaskAndACandidate) {
  const json answer = json::parse(post("/evaluate", request("a", "PASS")).body);
  EXPECT_NEAR(answer["speedup"].get<double>(), 1.5, 1e-9);
  EXPECT_NEAR(answer["kernel_runtime"].get<double>(), 2, 1e-9) << "milliseconds";
  EXPECT_NEAR(answer["reference_runtime"].get<double>(), 3, 1e-9);
  EXPECT_NEAR(answer["metadata"]["speedup_low"].get<double>(), 1.4, 1e-9);
  const auto task = parse_task_text(TaskText::split(link_->last.task_text), "task");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  EXPECT_EQ(task->digest, link_->last.task);
  EXPECT_EQ(task->reference_text, kReference);
  EXPECT_EQ(task->reference_entry, "Model");
  EXPECT_TRUE(task->fixed);
  const auto candidate = parse_candidate(link_->last.candidate, "candidate");
  ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
  EXPECT_EQ(candidate->host_program().entry, "ModelNew");
  EXPECT_EQ(link_->last.candidate.find('\n'), std::string::npos) << "the kernel's lines keep their numbers";
  EXPECT_EQ(link_->last.depth, Depth::kScreen);
  post("/evaluate", request("b", "PASS", {{"run_performance", false}}));
  EXPECT_EQ(link_->last.depth, Depth::kVerify);
}

TEST_F(AdapterTest, AMachineThatFailsIsNeverANumber) {
  const HttpAnswer answer = post("/evaluate", request("i", "INFRA"));
  EXPECT_EQ(answer.status, 503) << answer.body;
  EXPECT_EQ(answer.headers.count("retry-after"), 1u);
  EXPECT_EQ(link_->orders, 3) << "it tries again by itself";
  EXPECT_EQ(json::parse(answer.body)["error_code"], "SYSTEM_ERROR");
  EXPECT_FALSE(json::parse(answer.body).contains("speedup"));
  EXPECT_EQ(get("/status/i").status, 503);
  EXPECT_EQ(get("/results/i").status, 503);
  const json batch =
      json::parse(post("/evaluate/batch", {{"batch_id", "b"}, {"tasks", {request("i2", "INFRA 2")}}}).body);
  EXPECT_EQ(batch["results"][0]["status"], "failed");
  for (const char* const field : {"compiled", "correctness", "decoy_kernel", "speedup", "kernel_runtime"})
    EXPECT_EQ(batch["results"][0][field], nullptr) << field;
}

TEST_F(AdapterTest, AMachineThatFailsOnceCostsTheClientNothing) {
  const HttpAnswer answer = post("/evaluate", request("o", "once"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json::parse(answer.body)["correctness"], true);
}

TEST_F(AdapterTest, ATimeoutIsThatOfAllTries) {
  EXPECT_EQ(post("/evaluate", request("t", "INFRA slowly", {{"timeout", 10}})).status, 503);
  EXPECT_EQ(link_->orders, 3);
  EXPECT_LT(link_->last.deadline_seconds, 10 - 0.7);
  EXPECT_GT(link_->last.deadline_seconds, 0.5);
}

TEST_F(AdapterTest, ABatchHasNoFieldThatNobodyReads) {
  json batch = {{"batch_id", "b"}, {"tasks", {request("x", "PASS")}}, {"timeout", 60}};
  const HttpAnswer refused = post("/evaluate/batch", batch);
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("'timeout'"));
  EXPECT_EQ(link_->orders, 0);
  batch.erase("timeout");
  EXPECT_EQ(post("/evaluate/batch", batch).status, 200);
  batch.erase("batch_id");
  EXPECT_EQ(post("/evaluate/batch", batch).status, 400);
}

TEST_F(AdapterTest, AKernelThatJsonCannotHoldSpoilsItsOwnItem) {
  std::string batch =
      json({{"batch_id", "b"}, {"tasks", {request("x", "LONE"), request("y", "PASS")}}}).dump();
  batch.replace(batch.find("LONE"), 4, "\\ud800");
  HttpClient client(server_->port());
  const auto answer = client.post("/evaluate/batch", batch);
  ASSERT_EQ(answer->status, 200) << answer->body;
  const json results = json::parse(answer->body)["results"];
  EXPECT_EQ(results[0]["status"], "failed");
  EXPECT_THAT(results[0]["error_message"].get<std::string>(), HasSubstr("surrogate"));
  EXPECT_EQ(results[1]["status"], "completed");
}

TEST_F(AdapterTest, AFieldThatIsGivenTwiceIsRefused) {
  std::string body = request("x", "PASS").dump();
  body.replace(0, 1, "{\"kernel_code\": \"FAIL\",");
  const auto answer = HttpClient(server_->port()).post("/evaluate", body);
  EXPECT_EQ(answer->status, 400);
  EXPECT_THAT(answer->body, HasSubstr("the field 'kernel_code' twice"));
  EXPECT_EQ(link_->orders, 0);
}

TEST_F(AdapterTest, AQueryIsRefused) {
  const HttpAnswer answer = get("/queue/status?verbose=1");
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("'verbose'"));
}

TEST_F(AdapterTest, EachOutcomeHasItsFields) {
  const struct {
    const char* outcome;
    json compiled, correctness, decoy;
    const char* error;
  } cases[] = {{"BUILD_FAILED", false, false, false, "COMPILATION_ERROR"},
               {"WRONG", true, false, false, "CORRECTNESS_ERROR"},
               {"CRASH", true, false, false, "RUNTIME_ERROR"},
               {"TIMEOUT", true, false, false, "TIMEOUT_ERROR"},
               {"TAMPERED", true, false, true, "CORRECTNESS_ERROR"},
               {"SUSPECT", true, nullptr, false, "CORRECTNESS_ERROR"}};
  for (const auto& one : cases) {
    const json answer = json::parse(post("/evaluate", request(one.outcome, one.outcome)).body);
    EXPECT_EQ(answer["status"], "completed") << one.outcome;
    EXPECT_EQ(answer["compiled"], one.compiled) << one.outcome;
    EXPECT_EQ(answer["correctness"], one.correctness) << one.outcome;
    EXPECT_EQ(answer["decoy_kernel"], one.decoy) << one.outcome;
    EXPECT_EQ(answer["error_code"], one.error) << one.outcome;
    EXPECT_EQ(answer["metadata"]["outcome"], one.outcome);
    EXPECT_THAT(answer["error_message"].get<std::string>(), HasSubstr("Traceback"));
  }
  const json brief =
      json::parse(post("/evaluate", request("brief", "CRASH", {{"verbose_errors", false}})).body);
  EXPECT_EQ(brief["error_message"], "CRASH reason: ValueError: the last line");
  const json broken = json::parse(post("/evaluate", request("broken", "broken")).body);
  EXPECT_EQ(broken["status"], "failed");
  EXPECT_EQ(broken["error_code"], "VALIDATION_ERROR");
  EXPECT_EQ(broken["compiled"], nullptr);
}

TEST_F(AdapterTest, TheLastEvaluationOfATaskIdCountsAlsoAfterARestart) {
  post("/evaluate", request("a/b é", "WRONG"));
  post("/evaluate", request("a/b é", "PASS"));
  const std::string path = "/results/a%2Fb%20%C3%A9";
  EXPECT_EQ(json::parse(get(path).body)["correctness"], true);
  start(500);
  EXPECT_EQ(json::parse(get(path).body)["correctness"], true) << "it is in the ledger";
  EXPECT_EQ(json::parse(get("/status/a%2Fb%20%C3%A9").body)["status"], "completed");
  EXPECT_EQ(get("/results/unknown").status, 404);
}

TEST_F(AdapterTest, TaskIdsThatShareAnEvaluationEndEachByItself) {
  auto a = call(request("same_a", "wait")), b = call(request("same_b", "wait"));
  ASSERT_TRUE(becomes("same_a", "processing"));
  ASSERT_TRUE(becomes("same_b", "processing"));
  EXPECT_EQ(remove("same_b"), 200);
  EXPECT_EQ(json::parse(b.get().body)["error_message"], "cancelled");
  EXPECT_EQ(status_of("same_b"), "failed");
  EXPECT_EQ(remove("same_b"), 404) << "it has ended";
  EXPECT_EQ(status_of("same_a"), "processing");
  EXPECT_FALSE(is_answered(a));
  EXPECT_EQ(link_->cancels, 0) << "same_a wants it";
  EXPECT_EQ(remove("same_a"), 200);
  EXPECT_EQ(json::parse(a.get().body)["error_message"], "cancelled");
  EXPECT_EQ(link_->cancels, 1) << "nobody wants it any more";
  EXPECT_EQ(link_->orders, 1);
}

TEST_F(AdapterTest, EachCallHasItsOwnTimer) {
  auto slow = call(request("same_a", "wait", {{"timeout", 40}}));
  ASSERT_TRUE(becomes("same_a", "processing"));
  const auto begin = std::chrono::steady_clock::now();
  auto quick = call(request("same_b", "wait", {{"timeout", 10}}));
  auto again = call(request("same_a", "wait", {{"timeout", 11}}));
  EXPECT_EQ(json::parse(quick.get().body)["status"], "timeout");
  EXPECT_EQ(status_of("same_b"), "timeout");
  EXPECT_EQ(json::parse(again.get().body)["status"], "timeout") << "that call's";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(get("/results/same_a").status, 404) << "no result yet";
  EXPECT_FALSE(is_answered(slow));
  EXPECT_EQ(remove("same_a"), 200);
  EXPECT_EQ(json::parse(slow.get().body)["error_message"], "cancelled");
}

TEST_F(AdapterTest, EveryTaskIdIsKnownAfterARestart) {
  post("/evaluate", request("done_a", "PASS"));
  post("/evaluate", request("done_b", "PASS", {{"verbose_errors", false}}));
  post("/evaluate", request("brief", "CRASH", {{"verbose_errors", false}, {"force_refresh", true}}));
  auto a = call(request("open_a", "wait")), b = call(request("open_b", "wait"));
  ASSERT_TRUE(becomes("open_a", "processing"));
  ASSERT_TRUE(becomes("open_b", "processing"));
  EXPECT_EQ(remove("open_b"), 200);
  start(500);
  for (const char* const task_id : {"done_a", "done_b"})
    EXPECT_EQ(json::parse(get(std::string("/results/") + task_id).body)["correctness"], true) << task_id;
  const json brief = json::parse(get("/results/brief").body);
  EXPECT_EQ(brief["error_message"], "CRASH reason: ValueError: the last line") << "as it was asked for";
  EXPECT_THAT(brief["metadata"]["notes"].dump(), HasSubstr("force_refresh"));
  EXPECT_TRUE(becomes("open_a", "processing"));
  EXPECT_EQ(get("/results/open_a").status, 404) << "no result yet";
  EXPECT_EQ(status_of("open_b"), "failed");
  EXPECT_EQ(remove("open_a"), 200);
  EXPECT_EQ(status_of("open_a"), "failed");
  EXPECT_EQ(link_->cancels, 1);
}

TEST_F(AdapterTest, ATaskIdThatIsUsedAgainNamesTheLastOfItsEvaluations) {
  auto first = call(request("again", "wait 1"));
  ASSERT_TRUE(becomes("again", "processing"));
  EXPECT_EQ(json::parse(post("/evaluate", request("again", "PASS")).body)["correctness"], true);
  EXPECT_EQ(status_of("again"), "completed");
  EXPECT_FALSE(is_answered(first)) << "that call asked for other code";
  auto third = call(request("again", "wait 1"));
  ASSERT_TRUE(becomes("again", "processing"));
  EXPECT_EQ(remove("again"), 200);
  EXPECT_EQ(json::parse(first.get().body)["status"], "failed");
  EXPECT_EQ(json::parse(third.get().body)["status"], "failed");
}

TEST_F(AdapterTest, ATaskIsKnownWhileItIsEvaluated) {
  std::thread client([&] { post("/evaluate", request("slow", "wait")); });
  bool known = false;
  for (int i = 0; i < 500 && !known; ++i) {
    known = get("/status/slow").status == 200;
    if (!known) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(known) << "within seconds, not at the end of a long poll";
  EXPECT_EQ(json::parse(get("/status/slow").body)["status"], "processing");
  EXPECT_EQ(get("/results/slow").status, 404) << "no result yet";
  EXPECT_EQ(HttpClient(server_->port()).remove("/tasks/slow")->status, 200);
  client.join();
  EXPECT_EQ(json::parse(get("/status/slow").body)["status"], "failed");
}

TEST_F(AdapterTest, FullMeansTooManyRequests) {
  start(0);
  const HttpAnswer one = post("/evaluate", request("x", "PASS"));
  EXPECT_EQ(one.status, 429) << one.body;
  EXPECT_EQ(one.headers.count("retry-after"), 1u);
  EXPECT_EQ(json::parse(one.body)["error_code"], "RESOURCE_ERROR");
  EXPECT_EQ(post("/evaluate/batch", {{"batch_id", "b"}, {"tasks", {request("y", "PASS")}}}).status, 429);
}

TEST_F(AdapterTest, OtherClientsDoNotSeeATask) {
  const auto store = *TokenStore::open(folder_.path());
  const std::string a = store->add({"a", Role::kSubmit, 100}).value(),
                    b = store->add({"b", Role::kSubmit, 100}).value();
  api_->set_tokens(Tokens(*store->list()));
  EXPECT_EQ(post("/evaluate", request("x", "PASS")).status, 401);
  EXPECT_EQ(get("/health").status, 401);
  HttpClient first(server_->port(), a), second(server_->port(), b);
  EXPECT_EQ(first.post("/evaluate", request("x", "PASS").dump())->status, 200);
  EXPECT_EQ(first.get("/results/x")->status, 200);
  EXPECT_EQ(second.get("/results/x")->status, 404);
  EXPECT_EQ(second.remove("/tasks/x")->status, 404);
}

TEST_F(AdapterTest, AWorkflowIsTheSameByAnotherName) {
  json payload = request("w", "PASS");
  payload.erase("task_id");
  const json answer = json::parse(
      post("/workflow/submit", {{"workflow", "kernelbench"}, {"payload", payload}, {"task_id", "w"}}).body);
  EXPECT_EQ(answer["task_id"], "w");
  EXPECT_EQ(answer["result"]["correctness"], true) << answer;
  EXPECT_EQ(post("/workflow/submit", {{"workflow", "other"}, {"payload", payload}, {"task_id", "w"}}).status,
            400);
  EXPECT_EQ(post("/workflow/submit", {{"payload", 3}, {"task_id", "w"}}).status, 400);
}

TEST_F(AdapterTest, WhatIsNotHonouredToTheLetterIsSaid) {
  const json answer =
      json::parse(post("/evaluate", request("n", "PASS", {{"num_warmup", 7}, {"force_refresh", true}})).body);
  const std::string notes = answer["metadata"]["notes"].dump();
  EXPECT_THAT(notes, HasSubstr("num_warmup"));
  EXPECT_THAT(notes, HasSubstr("force_refresh"));
  EXPECT_THAT(notes, HasSubstr("num_correct_trials")) << "the worker has made none";
}

TEST_F(AdapterTest, EveryAnswerHasARequestIdWhichTheLogsName) {
  RecordingSink log;
  events_ = &log;
  start(500);
  HttpClient client(server_->port());
  const auto check = [&](const char* method, const std::string& path, const std::string& body = "") {
    for (const char* const given : {"step-7", "no id at all"}) {
      const auto answer = client.ask(method, path, body, {{"X-Request-Id", given}});
      const auto told = answer->headers.find("x-request-id");
      ASSERT_NE(told, answer->headers.end()) << path << answer->status;
      EXPECT_EQ(told->second == given, std::string(given) == "step-7") << told->second;
    }
  };
  const std::string body = request("a", "PASS").dump();
  for (const char* const path : {"/evaluate", "/workflow/submit", "/debug/validate"}) {
    check("POST", path, body);
    check("POST", path, "{}");
  }
  check("POST", "/evaluate/batch", json({{"batch_id", "b"}, {"tasks", {request("b", "WRONG")}}}).dump());
  for (const char* const path : {"/status/", "/results/", "/workflow/results/"})
    for (const char* const task_id : {"a", "nobody"}) check("GET", std::string(path) + task_id);
  check("DELETE", "/tasks/a");
  for (const char* const path :
       {"/health", "/queue/status", "/workers/status", "/metrics", "/evaluate", "/health?x=1"})
    check("GET", path);
  const auto concluded = [&] {
    std::vector<std::string> requests;
    for (const Event& event : log.events())
      if (event.kind == "serve.concluded") requests.push_back(event.fields.at("request"));
    return requests;
  };
  EXPECT_THAT(concluded(), testing::ElementsAre("step-7", "step-7"));
  const auto made = client.post("/evaluate", request("c", "CRASH").dump());
  EXPECT_EQ(concluded().back(), made->headers.at("x-request-id")) << "what was told is what is logged";
  stop();
}

TEST_F(AdapterTest, TheDocumentIsWhatIsServed) {
  const json document = json::parse(get("/openapi.json").body);
  std::vector<Api::Operation> all = operations();
  EXPECT_EQ(all.size(), 11u);
  for (const auto& own : Api::operations()) all.push_back(own);
  EXPECT_EQ(operations_in(document), names_of(all));

  HttpClient client(server_->port());
  const auto check = [&](int status, const std::string& method, const std::string& path,
                         std::string target = {}, const std::string& text = {}) {
    if (target.empty()) target = path;
    const auto answer = client.ask(method, target, text);
    EXPECT_EQ(answer->status, status) << method << " " << target << " " << answer->body;
    const json response = response_in(document, path, method, answer->status);
    ASSERT_TRUE(response.contains("content")) << method << " " << target << " " << answer->status;
    const json& schema = response["content"]["application/json"]["schema"];
    EXPECT_EQ(objection(document, schema, json::parse(answer->body)), "") << target << " " << answer->body;
  };
  const json asked = request("a", "PASS", {{"num_warmup", 3}});
  EXPECT_EQ(objection(document, document["components"]["schemas"]["KernelGymRequest"], asked), "");
  for (const char* const path : {"/evaluate", "/workflow/submit", "/debug/validate"}) {
    check(200, "POST", path, path, asked.dump());
    check(400, "POST", path, path, "[]");
  }
  check(200, "POST", "/debug/validate", {}, "{}");
  check(503, "POST", "/evaluate", {}, request("i", "INFRA").dump());
  const json batch = {{"batch_id", "b"},
                      {"tasks", {request("b", "WRONG"), request("c", "PASS", {{"surprise", 1}})}}};
  check(200, "POST", "/evaluate/batch", {}, batch.dump());
  check(400, "POST", "/evaluate/batch", {}, "{}");
  for (const std::string path : {"/status/", "/results/", "/workflow/results/"}) {
    check(200, "GET", path + "{task_id}", path + "a");
    check(404, "GET", path + "{task_id}", path + "nobody");
    check(400, "GET", path + "{task_id}", path + "a?x=1");
    check(503, "GET", path + "{task_id}", path + "i");
  }
  check(404, "DELETE", "/tasks/{task_id}", "/tasks/a");
  auto waiting = call(request("w", "wait"));
  ASSERT_TRUE(becomes("w", "processing"));
  check(200, "DELETE", "/tasks/{task_id}", "/tasks/w");
  for (const char* const path : {"/health", "/queue/status", "/workers/status"}) check(200, "GET", path);
  start(0);
  const auto full = HttpClient(server_->port()).post("/evaluate", request("f", "PASS 2").dump());
  EXPECT_EQ(full->status, 429);
  EXPECT_TRUE(response_in(document, "/evaluate", "POST", 429).contains("content"));
}

TEST(Response, CorrectTrialsAreTheInputsThatWereCompared) {
  Answer answer{.task_id = "t", .id = "1", .state = "done"};
  answer.correct_trials = 2;
  Verdict& verdict = answer.verdict.emplace();
  verdict.outcome = Outcome::kPass;
  for (const char* const distribution : {"normal", "zeros", "zeros", "normal"})
    verdict.evidence.cases.push_back({.shape = "fixed", .distribution = distribution});
  EXPECT_EQ(evaluation_json(answer)["metadata"]["num_correct_trials"], 2) << "each was computed twice";
  EXPECT_TRUE(evaluation_json(answer)["metadata"]["notes"].empty());
  answer.correct_trials = 3;
  EXPECT_THAT(evaluation_json(answer)["metadata"]["notes"].dump(), HasSubstr("num_correct_trials: 2 inputs"));
  verdict.outcome = Outcome::kCrash;
  verdict.evidence.cases = {{.shape = "fixed", .distribution = "several", .pass = false}};
  EXPECT_EQ(evaluation_json(answer)["metadata"]["num_correct_trials"], 0) << "it gave no output";
}

TEST(Response, AProfileHasTheNamesThatTrainersRead) {
  Answer answer{.task_id = "t", .id = "1", .state = "done"};
  Verdict& verdict = answer.verdict.emplace();
  verdict.outcome = Outcome::kPass;
  verdict.depth = Depth::kProfile;
  verdict.profiles = {
      {.shape = "fixed",
       .counters = {{"kernels", 4}, {"own_kernels", 3}, {"kernel_ns", 2000}, {"own_kernel_ns", 1500}}}};
  verdict.profile["launched_share"] = 0.75;
  const json metadata = evaluation_json(answer)["metadata"];
  EXPECT_EQ(metadata["num_total_kernels"], 4);
  EXPECT_EQ(metadata["num_custom_kernels"], 3);
  EXPECT_EQ(metadata["total_kernel_run_time_in_profiling_us"], 2.0);
  EXPECT_EQ(metadata["custom_kernel_cuda_time_in_profiling_us"], 1.5);
  EXPECT_EQ(metadata["launched_share"], 0.75);
  EXPECT_TRUE(metadata["notes"].empty());
  verdict.profiles = {{.shape = "fixed", .notes = {"no CUPTI here"}}};
  const json unmeasured = evaluation_json(answer)["metadata"];
  EXPECT_FALSE(unmeasured.contains("num_total_kernels")) << "a profile is never made up";
  EXPECT_THAT(unmeasured["notes"].dump(), HasSubstr("no CUPTI here"));
  verdict.depth = Depth::kScreen;
  EXPECT_TRUE(evaluation_json(answer)["metadata"]["notes"].empty()) << "none was asked for";
}

TEST(Request, AGpuTakesWhatAProcessorRefusesAndTheOtherWayRound) {
  const auto taken = [](const char* field, const json& value, Computes where) {
    return parse_request(request("a", "x", {{field, value}}), where);
  };
  for (const char* const backend : {"triton", "cuda"}) {
    EXPECT_FALSE(taken("backend", backend, Computes::kOnProcessor).ok());
    EXPECT_TRUE(taken("backend", backend, Computes::kOnGpu).ok());
  }
  EXPECT_FALSE(taken("backend", "cpu", Computes::kOnGpu).ok());
  for (const char* const device : {"cuda", "cuda:3", "gpu", "host:cuda"}) {
    EXPECT_FALSE(taken("device_preference", device, Computes::kOnProcessor).ok());
    EXPECT_TRUE(taken("device_preference", device, Computes::kOnGpu).ok());
  }
  for (const char* const device : {"cpu", "cudax", "tpu"})
    EXPECT_FALSE(taken("device_preference", device, Computes::kOnGpu).ok()) << device;
  const auto detecting = taken("run_triton_detection", true, Computes::kOnGpu);
  ASSERT_TRUE(detecting.ok()) << detecting.error().to_string();
  EXPECT_THAT(json(detecting->notes).dump(), HasSubstr("run_triton_detection"));
}

TEST(Request, AProfileIsMadeWhereItCanBe) {
  const auto asked = [](json more, Computes where) {
    return parse_request(request("a", "x", std::move(more)), where);
  };
  const auto processor = asked({{"enable_profiling", true}}, Computes::kOnProcessor);
  ASSERT_FALSE(processor.ok());
  EXPECT_THAT(processor.error().message, HasSubstr("no device counters"));
  const auto depth = [&](json more) {
    return asked(std::move(more), Computes::kOnGpu).value().evaluation["depth"];
  };
  EXPECT_EQ(depth({{"enable_profiling", true}}), "profile");
  EXPECT_EQ(depth({{"enable_profiling", false}}), "screen");
  const auto untimed = asked({{"enable_profiling", true}, {"run_performance", false}}, Computes::kOnGpu);
  ASSERT_TRUE(untimed.ok());
  EXPECT_EQ(untimed->evaluation["depth"], "verify");
  EXPECT_THAT(json(untimed->notes).dump(), HasSubstr("enable_profiling"));
}

/// What a field's values do: kept to the letter without a word.
TEST(Request, AFieldIsHonouredNotedOrRefused) {
  const json noted = {{"uuid", "u"},
                      {"is_valid", true},
                      {"use_reference_cache", true},
                      {"force_refresh", true},
                      {"num_warmup", 3},
                      {"num_perf_trials", 100},
                      {"detect_decoy_kernel", false},
                      {"backend", "triton"},
                      {"device_preference", "cuda:1"},
                      {"run_triton_detection", true},
                      {"enable_triton_detection", true}};
  for (const auto& [field, value] : noted.items()) {
    const auto taken = parse_request(request("a", "x", {{field, value}}), Computes::kOnGpu);
    ASSERT_TRUE(taken.ok()) << taken.error().to_string();
    ASSERT_EQ(taken->notes.size(), 1u) << field;
    EXPECT_TRUE(taken->notes[0].starts_with(field + ": ")) << taken->notes[0];
  }
  const json refused = {{"workflow", "other"},      {"toolkit", "other"},
                        {"backend_adapter", "x"},   {"reference_backend", "torch_compile"},
                        {"run_correctness", false}, {"cases", {1}},
                        {"cases_code", "x"},        {"resources", {{"gpus", 2}}}};
  for (const auto& [field, value] : refused.items())
    EXPECT_FALSE(parse_request(request("a", "x", {{field, value}}), Computes::kOnGpu).ok()) << field;
  const json honoured = {{"workflow", "kernelbench"},
                         {"reference_backend", "pytorch"},
                         {"uuid", ""},
                         {"is_valid", false},
                         {"use_reference_cache", false},
                         {"force_refresh", false},
                         {"run_correctness", true},
                         {"run_triton_detection", false},
                         {"timeout", 20},
                         {"priority", "high"},
                         {"verbose_errors", false},
                         {"run_performance", false},
                         {"entry_point", "Net"},
                         {"device_preference", "cuda"},
                         {"num_correct_trials", 3},
                         {"enable_profiling", true},
                         {"cases_code", ""}};
  for (const auto& [field, value] : honoured.items()) {
    const auto taken = parse_request(request("a", "x", {{field, value}}), Computes::kOnGpu);
    ASSERT_TRUE(taken.ok()) << taken.error().to_string();
    EXPECT_TRUE(taken->notes.empty()) << field << json(taken->notes);
  }
}

TEST(Request, AnyJsonIsRefusedOrUnderstood) {
  for (const json& node :
       {json(), json(3), json::array({1}), json::object(), json("x"), json({{"task_id", 3}}),
        json({{"task_id", "a"}, {"reference_code", json::array()}})})
    EXPECT_FALSE(parse_request(node, Computes::kOnProcessor).ok()) << node;
  EXPECT_TRUE(parse_request(request("a", "x"), Computes::kOnProcessor).ok());
  json nulls = request("a", "x");
  for (const char* const field : {"backend", "timeout", "priority", "entry_point", "resources", "cases"})
    nulls[field] = nullptr;
  EXPECT_TRUE(parse_request(nulls, Computes::kOnProcessor).ok()) << "null is as good as absent";
}

}  // namespace
}  // namespace lathe::serve::kernelgym
