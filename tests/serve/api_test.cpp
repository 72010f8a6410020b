#include "serve/api.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "bench/serve/http_client.h"
#include "gym/version.h"
#include "record/json.h"
#include "serve/remote_message.h"
#include "tests/serve/openapi_document.h"
#include "tests/serve/service_here.h"

namespace lathe::serve {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ApiTest : public testing::Test, public ServiceHere {
 protected:
  static json body(const Result<HttpAnswer>& answer) { return json::parse(answer->body); }
  static std::string submission(const std::string& candidate, json more = json::object()) {
    more["task"] = "tiny";
    more["candidate"] = candidate;
    return more.dump();
  }
};

TEST_F(ApiTest, OnePostOneVerdict) {
  HttpClient client(port());
  const auto answer = client.post("/v1/evaluations?wait=10", submission("x", {{"tag", "mine"}}));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, 200) << answer->body;
  const json evaluation = body(answer);
  EXPECT_EQ(evaluation["state"], "done");
  EXPECT_EQ(evaluation["tag"], "mine");
  EXPECT_EQ(evaluation["verdict"]["outcome"], "PASS");
  const std::string id = evaluation["id"];
  EXPECT_EQ(body(client.get("/v1/evaluations/" + id)), evaluation);
  EXPECT_EQ(body(client.get("/v1/evaluations/" + id + "/evidence"))["verdict"]["reason"], "ok");
  EXPECT_EQ(body(client.post("/v1/evaluations", submission("x")))["id"], id)
      << "the retry is the same evaluation";
}

TEST_F(ApiTest, APeerThatATaskDoesNotHaveIsRefusedWithItsSubmission) {
  HttpClient client(port());
  const json own = {{"task", "tiny"}, {"candidate", "x"}};
  const json product = {{"toml", R"toml(
name = "product"
dims = { n = [1, 64] }
tensor = [{ name = "a", shape = ["n", "n"] }, { name = "b", shape = ["n", "n"] }]
graph = "y = matmul(a, b)"
shape = [{ n = 64 }]
)toml"}};
  const std::string items = json({{"items", {own, {{"task", product}, {"candidate", "y"}}}}}).dump();
  const json taken = body(client.post("/v1/evaluations/batch?reward=speedup&peer=openblas", items))["items"];
  EXPECT_THAT(taken[0]["error"]["message"].get<std::string>(), HasSubstr("it has: naive"));
  EXPECT_TRUE(taken[1].contains("id")) << taken;
  EXPECT_TRUE(
      body(client.post("/v1/evaluations/batch?reward=speedup&peer=naive", items))["items"][0].contains("id"));

  const auto misspelt = client.post("/v1/evaluations/batch?reward=speedup&peer=opnblas", items);
  EXPECT_EQ(misspelt->status, 400);
  EXPECT_THAT(misspelt->body, HasSubstr("unknown peer 'opnblas'; one of: naive, openblas"));
  EXPECT_EQ(client.post("/v1/evaluations?reward=speedup&peer=openblas", own.dump())->status, 400);
}

TEST_F(ApiTest, ARewardIsRefusedWhereVerdictsOfTheDepthSayTooLittle) {
  judge_ = [](const WorkOrder& order) {
    Verdict verdict;
    verdict.outcome = order.candidate == "wrong" ? Outcome::kBuildFailed : Outcome::kPass;
    return std::optional(verdict);
  };
  HttpClient client(port());
  const auto status = [&](const char* reward, const char* depth) {
    const auto answer = client.post(std::string("/v1/evaluations?wait=10&reward=") + reward,
                                    submission("x", {{"depth", depth}}));
    return answer->status;
  };
  EXPECT_EQ(status("correct", "build"), 400) << "nothing is known of its correctness";
  EXPECT_EQ(status("correct", "verify"), 200);
  EXPECT_EQ(status("speedup", "verify"), 400) << "nothing is timed";
  EXPECT_EQ(status("speedup", "screen"), 200);
  EXPECT_EQ(status("dr_kernel_profiled", "final"), 400) << "nobody has looked whose kernels compute";
  const json items = {
      {"items",
       {{{"task", "tiny"}, {"candidate", "a"}, {"depth", "build"}}, {{"task", "tiny"}, {"candidate", "b"}}}}};
  const json taken = body(client.post("/v1/evaluations/batch?reward=speedup", items.dump()))["items"];
  EXPECT_EQ(taken[0]["error"]["message"], "the reward 'speedup' needs depth screen, this is build");
  EXPECT_TRUE(taken[1].contains("id"));

  for (const char* const candidate : {"right", "wrong"}) {
    const json built =
        body(client.post("/v1/evaluations?wait=10", submission(candidate, {{"depth", "build"}})));
    const auto evidence =
        client.get("/v1/evaluations/" + built["id"].get<std::string>() + "/evidence?reward=correct");
    EXPECT_EQ(evidence->status, 400) << candidate << ": failures alone would be paid";
  }
}

TEST_F(ApiTest, AnAnswerHasTheRewardThatItsSubmissionAsksFor) {
  judge_ = [](const WorkOrder& order) {
    Verdict verdict;
    verdict.outcome = order.candidate == "lost" ? Outcome::kInfra : Outcome::kPass;
    if (order.candidate == "fast") verdict.speedups = {{.baseline = "naive", .ratio = {2, 2.5, 3}}};
    return std::optional(verdict);
  };
  HttpClient client(port());
  const auto answer = [&](const std::string& candidate, const std::string& query) {
    return body(client.post("/v1/evaluations?wait=10" + query, submission(candidate)));
  };
  EXPECT_EQ(answer("fast", "&reward=speedup")["reward"], 3);
  EXPECT_FALSE(answer("fast", "").contains("reward"));
  EXPECT_FALSE(answer("lost", "&reward=speedup").contains("reward"));
  EXPECT_EQ(answer("lost", "&reward=speedup")["retry"], true);
}

TEST_F(ApiTest, ABaseSaysByHowMuchAKernelIsFaster) {
  judge_ = [](const WorkOrder& order) {
    Verdict verdict;
    verdict.outcome = order.candidate == "wrong" ? Outcome::kWrong : Outcome::kPass;
    const double mid = order.candidate == "fast" ? 4 : 2;
    verdict.speedups = {{.baseline = "naive", .ratio = {mid / 2, mid, mid * 2}}};
    return std::optional(verdict);
  };
  HttpClient client(port());
  const auto id = [&](const std::string& candidate) {
    return body(client.post("/v1/evaluations?wait=10", submission(candidate)))["id"].get<std::string>();
  };
  const std::string slow = id("slow"), wrong = id("wrong");
  const auto expect_gained = [](const json& answer) {
    EXPECT_NEAR(answer["over_base"]["low"].get<double>(), 0.5, 1e-9);
    EXPECT_NEAR(answer["over_base"]["mid"].get<double>(), 2, 1e-9);
    EXPECT_NEAR(answer["over_base"]["high"].get<double>(), 8, 1e-9);
  };
  expect_gained(body(client.post("/v1/evaluations?wait=10&base=" + slow, submission("fast"))));
  const std::string fast = "/v1/evaluations/" + id("fast");
  expect_gained(body(client.get(fast + "?base=" + slow)));
  expect_gained(body(client.get(fast + "/evidence?base=" + slow)));
  EXPECT_TRUE(body(client.get(fast + "?base=" + wrong))["over_base"].is_null());
  EXPECT_FALSE(body(client.get(fast)).contains("over_base"));
  EXPECT_EQ(client.get(fast + "?base=x")->status, 400);
  EXPECT_EQ(client.get(fast + "?base=" + std::string(64, 'a'))->status, 400);
  const json other = {
      {"toml", std::string(kTinyTask).replace(std::string(kTinyTask).find("tiny"), 4, "tall")}};
  const std::string stranger = body(
      client.post("/v1/evaluations?wait=10", json({{"task", other}, {"candidate", "slow"}}).dump()))["id"];
  EXPECT_THAT(client.get(fast + "?base=" + stranger)->body, HasSubstr("another task"));
}

TEST_F(ApiTest, ATasksTextCanBeHadAndSentAgain) {
  HttpClient client(port());
  const json task = body(client.get("/v1/tasks/tiny"));
  EXPECT_EQ(task["name"], "tiny");
  EXPECT_EQ(task["toml"], kTinyTask);
  EXPECT_EQ(body(client.get("/v1/tasks/" + task["digest"].get<std::string>())), task);
  const json again = {{"task", {{"toml", task["toml"]}}}, {"candidate", "x"}};
  EXPECT_EQ(body(client.post("/v1/evaluations", again.dump()))["task"], task["digest"]);
  EXPECT_EQ(client.get("/v1/tasks/unknown")->status, 404);
  EXPECT_EQ(client.get("/v1/tasks/" + std::string(64, 'a'))->status, 404);
}

TEST_F(ApiTest, TasksComeByNameDigestOrText) {
  HttpClient client(port());
  const json tasks = body(client.get("/v1/tasks"));
  ASSERT_EQ(tasks["items"].size(), 1u);
  const std::string digest = tasks["items"][0]["digest"];
  std::string text = kTinyTask;
  text.replace(text.find("2048"), 4, "1024");
  for (const json& task : {json("tiny"), json(digest), json({{"name", "tiny"}}), json({{"digest", digest}}),
                           json({{"toml", kTinyTask}}), json({{"toml", text}})}) {
    const auto answer =
        client.post("/v1/evaluations?wait=10", json({{"task", task}, {"candidate", "x"}}).dump());
    EXPECT_EQ(answer->status, 200) << answer->body;
  }
  const std::string other = parse_task(text, "task").value().digest.hex();
  EXPECT_EQ(
      client.post("/v1/evaluations?wait=10", json({{"task", other}, {"candidate", "y"}}).dump())->status, 200)
      << "a text that came once is known by its digest";
}

TEST_F(ApiTest, WhatIsWrongIsNamed) {
  HttpClient client(port());
  const auto refused = [&](const std::string& text, const std::string& part) {
    const auto answer = client.post("/v1/evaluations", text);
    EXPECT_EQ(answer->status, 400) << text;
    EXPECT_THAT(answer->body, HasSubstr(part)) << text;
  };
  refused("{", "the body");
  refused("[]", "object");
  refused(R"({"candidate":"x"})", "task");
  refused(R"({"task":"tiny"})", "candidate");
  refused(R"({"task":"none","candidate":"x"})", "name");
  refused(R"({"task":"tiny","candidate":"x","depth":"deep"})", "depth");
  refused(R"({"task":"tiny","candidate":"x","priority":1000})", "priority");
  refused(R"({"task":"tiny","candidate":"x","deadline_seconds":-1})", "deadline_seconds");
  refused(R"({"task":"tiny","candidate":"x","timeout":3})", "timeout");
  refused(R"({"task":{"toml":"name = 3"},"candidate":"x"})", "task:");
  refused(R"({"task":{"toml":"a","name":"b"},"candidate":"x"})", "one of");
  refused(R"({"task":"tiny","candidate":"x","tag":")" + std::string(300, 't') + "\"}", "tag");
  refused(std::string(100, '[') + std::string(100, ']'), "nested");
  EXPECT_EQ(client.get("/v1/evaluations/zzz")->status, 404);
  EXPECT_EQ(client.get("/v1/evaluations/" + std::string(64, '0'))->status, 404);
  EXPECT_EQ(client.get("/v1/evaluations?after=x")->status, 400);
  EXPECT_EQ(client.get("/v1/evaluations/" + std::string(64, '0') + "?wait=1e9")->status, 400);
  const auto typo = client.get("/v1/evaluations?limt=5&wait=0");
  EXPECT_EQ(typo->status, 400);
  EXPECT_THAT(typo->body, HasSubstr("'limt'"));
  EXPECT_THAT(typo->body, HasSubstr("after, client, limit, wait"));
  EXPECT_THAT(client.get("/v1/tasks?limit=5")->body, HasSubstr("this page has none"));
  EXPECT_EQ(client.get("/v1/evaluations?&limit=5&")->status, 200);
  EXPECT_EQ(client.get("/v1/evaluations?limit=5&limit=6")->status, 400) << "which is meant?";
  EXPECT_EQ(client.get("/nothing")->status, 404);
  EXPECT_THAT(client.get("/nothing")->body, HasSubstr("/openapi.json"));
  refused(R"({"task":"nothing","candidate":"x"})", "'nothing'");
  EXPECT_EQ(client.get("/v1/../etc/passwd")->status, 404);
  EXPECT_EQ(client.ask("PUT", "/v1/tasks", "")->status, 405);
  const auto status_of = [&](const std::string& content_type) {
    return client.ask("POST", "/v1/evaluations", submission("x"), {{"Content-Type", content_type}})->status;
  };
  for (const char* const wrong : {"text/plain", "application/jsonlines", "application", ""})
    EXPECT_EQ(status_of(wrong), 415) << wrong;
  const auto packed = client.ask("POST", "/v1/evaluations", submission("x"),
                                 {{"Content-Type", "application/json"}, {"Content-Encoding", "gzip"}});
  EXPECT_EQ(packed->status, 415);
  EXPECT_THAT(packed->body, HasSubstr("Content-Encoding"));
  for (const char* const right : {"application/json;charset=utf-8", "Application/JSON ; a=b"})
    EXPECT_LT(status_of(right), 300) << right;
}

TEST_F(ApiTest, ATargetMayNameTheServerAsProxiesWriteIt) {
  HttpClient client(port());
  EXPECT_EQ(client.get("http://127.0.0.1/v1/tasks")->status, 200);
  EXPECT_EQ(client.get("http://127.0.0.1/v1/evaluations?after=x")->status, 400);
  EXPECT_EQ(client.get("http://127.0.0.1")->status, 404);
}

TEST_F(ApiTest, ABatchTakesWhatIsRightInIt) {
  HttpClient client(port());
  json items = json::array({{{"task", "tiny"}, {"candidate", "a"}},
                            {{"task", "none"}, {"candidate", "b"}},
                            {{"task", "tiny"}, {"candidate", "c"}}});
  const auto answer = client.post("/v1/evaluations/batch", json({{"items", items}}).dump());
  EXPECT_EQ(answer->status, 202);
  const json receipts = body(answer)["items"];
  EXPECT_EQ(receipts[0]["state"], "queued");
  EXPECT_EQ(receipts[1]["error"]["code"], "invalid");
  EXPECT_EQ(body(client.get("/v1/evaluations/" + receipts[2]["id"].get<std::string>() + "?wait=10"))["state"],
            "done");
}

TEST_F(ApiTest, ATextThatJsonCannotHoldSpoilsItsOwnItem) {
  HttpClient client(port());
  const auto answer = client.post("/v1/evaluations/batch",
                                  R"({"items": [{"task": "tiny", "candidate": "half of a pair: \ud800"},)"
                                  R"( {"task": "tiny", "candidate": "d"}]})");
  EXPECT_EQ(answer->status, 202) << answer->body;
  const json receipts = body(answer)["items"];
  EXPECT_EQ(receipts[0]["error"]["code"], "invalid");
  EXPECT_THAT(receipts[0]["error"]["message"].get<std::string>(), HasSubstr("surrogate"));
  EXPECT_EQ(receipts[1]["state"], "queued");
}

TEST_F(ApiTest, AFullQueueIs429) {
  HttpClient client(port());
  json items = json::array();
  for (int i = 0; i < 600; ++i)
    items.push_back({{"task", "tiny"}, {"candidate", "wait"}, {"depth", i % 2 ? "screen" : "final"}});
  for (int i = 0; i < 600; ++i)
    items[static_cast<std::size_t>(i)]["task"] = {
        {"toml", std::string(kTinyTask) + "# " + std::to_string(i)}};
  const auto some = client.post("/v1/evaluations/batch", json({{"items", items}}).dump());
  EXPECT_EQ(some->status, 202);
  EXPECT_EQ(body(some)["items"][599]["error"]["code"], "busy");
  const auto none = client.post("/v1/evaluations", submission("more"));
  EXPECT_EQ(none->status, 429);
  EXPECT_GT(std::atoi(none->headers.at("retry-after").c_str()), 0);
}

TEST_F(ApiTest, A429SaysWhoseLimitItIs) {
  const auto store = *TokenStore::open(folder_.path());
  const std::string token = store->add({"small", Role::kSubmit, 1}).value();
  api_->set_tokens(Tokens(*store->list()));
  HttpClient client(port(), token);
  EXPECT_EQ(client.post("/v1/evaluations", submission("one wait"))->status, 202);
  const auto refused = client.post("/v1/evaluations", submission("two wait"));
  EXPECT_EQ(refused->status, 429);
  const std::string seconds = refused->headers.at("retry-after");
  EXPECT_THAT(refused->body, HasSubstr("this client has 1 unfinished requests"));
  EXPECT_THAT(refused->body, HasSubstr("in " + seconds + " seconds"));
  const json items = {{{"task", "tiny"}, {"candidate", "three wait"}}};
  const auto batch = client.post("/v1/evaluations/batch", json({{"items", items}}).dump());
  EXPECT_EQ(batch->status, 429);
  EXPECT_THAT(batch->body, HasSubstr("this client has 1 unfinished requests"));
}

TEST_F(ApiTest, CancellationIsSeenByWhoWaits) {
  HttpClient client(port()), waiting(port());
  const std::string id = body(client.post("/v1/evaluations", submission("wait")))["id"];
  std::thread waits(
      [&] { EXPECT_EQ(body(waiting.get("/v1/evaluations/" + id + "?wait=30"))["state"], "cancelled"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(body(client.remove("/v1/evaluations/" + id))["state"], "cancelled");
  waits.join();
}

TEST_F(ApiTest, EventsComeInOrderOfCompletionAndResume) {
  HttpClient client(port());
  for (const char* candidate : {"a", "b", "c"})
    (void)client.post("/v1/evaluations?wait=10", submission(candidate, {{"tag", candidate}}));
  const std::string all =
      HttpClient::exchange(port(), "GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 1);
  EXPECT_THAT(all, HasSubstr("text/event-stream"));
  EXPECT_LT(all.find("\"tag\":\"a\""), all.find("\"tag\":\"b\""));
  const std::string rest = HttpClient::exchange(
      port(), "GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: 2\r\n\r\n", 1);
  EXPECT_THAT(rest, HasSubstr("id: 3\n"));
  EXPECT_THAT(rest, testing::Not(HasSubstr("id: 2\n")));
}

TEST_F(ApiTest, EventsEndWithTheirToken) {
  const auto store = *TokenStore::open(folder_.path());
  const std::string token = store->add({"trainer", Role::kSubmit, 100}).value();
  api_->set_tokens(Tokens(*store->list()));
  HttpClient trainer(port(), token);
  (void)trainer.post("/v1/evaluations?wait=10", submission("early"));
  const json waits = body(trainer.post("/v1/evaluations", submission("wait", {{"tag", "late"}})));
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ASSERT_TRUE(store->remove("trainer").ok());
    api_->set_tokens(Tokens(*store->list()));
    service_->cancel("trainer", *Digest::from_hex(waits["id"].get<std::string>()), [](Result<bool>) {});
  });
  const std::string got = HttpClient::exchange(
      port(), "GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + token + "\r\n\r\n", 1);
  ends.join();
  EXPECT_THAT(got, HasSubstr("id: 1\n"));
  EXPECT_THAT(got, testing::Not(HasSubstr("late")));
}

TEST_F(ApiTest, TokensDecideWhoMayWhat) {
  const auto store = *TokenStore::open(folder_.path());
  const auto token = [&](const char* name, Role role) { return store->add({name, role, 100}).value(); };
  const std::string reads = token("reader", Role::kRead), submits = token("trainer", Role::kSubmit),
                    other = token("other", Role::kSubmit);
  EXPECT_FALSE(store->add({"reader", Role::kRead, 1}).ok());
  api_->set_tokens(Tokens(*store->list()));
  HttpClient nobody(port()), reader(port(), reads), trainer(port(), submits), stranger(port(), other);
  HttpClient wrong(port(), submits.substr(0, submits.size() - 1) + (submits.back() == '0' ? "1" : "0"));
  EXPECT_EQ(nobody.get("/v1/tasks")->status, 401);
  EXPECT_EQ(wrong.get("/v1/tasks")->status, 401);
  EXPECT_THAT(nobody.get("/v1/tasks")->body, HasSubstr("send a token"));
  EXPECT_THAT(wrong.get("/v1/tasks")->body, HasSubstr("there is no such token"));
  EXPECT_EQ(reader.get("/v1/tasks")->status, 200);
  EXPECT_EQ(reader.post("/v1/evaluations", submission("x"))->status, 403);
  const auto done = trainer.post("/v1/evaluations?wait=10", submission("x"));
  EXPECT_EQ(done->status, 200);
  EXPECT_EQ(stranger.get("/v1/evaluations/" + body(done)["id"].get<std::string>())->status, 404)
      << "not this client's";
  const std::string of_trainer = "/v1/evaluations/" + body(done)["id"].get<std::string>() + "?client=trainer";
  EXPECT_EQ(reader.get(of_trainer)->status, 200);
  EXPECT_EQ(body(reader.get("/v1/evaluations?client=trainer"))["items"].size(), 1u);
  EXPECT_EQ(stranger.get(of_trainer)->status, 403);
  EXPECT_EQ(trainer.get(of_trainer)->status, 200) << "its own name";
  HttpClient admin(port(), token("admin", Role::kAdmin));
  api_->set_tokens(Tokens(*store->list()));
  const std::string waits = body(trainer.post("/v1/evaluations", submission("wait")))["id"];
  EXPECT_EQ(reader.remove("/v1/evaluations/" + waits + "?client=trainer")->status, 403);
  EXPECT_EQ(body(admin.remove("/v1/evaluations/" + waits + "?client=trainer"))["state"], "cancelled");
  EXPECT_EQ(nobody.get("/healthz")->status, 200);
  EXPECT_TRUE(store->remove("trainer").ok());
  api_->set_tokens(Tokens(*store->list()));
  EXPECT_EQ(trainer.get("/v1/tasks")->status, 401);
  HttpClient worker(port(), token("gpu", Role::kWorker));
  api_->set_tokens(Tokens(*store->list()));
  const std::string join =
      encode(WorkerJoin{"box/cpu", {.kind = {"cpu", kGymVersion}, .device_name = "fake", .slots = 1}});
  EXPECT_EQ(nobody.post("/v1/workers", join)->status, 401);
  EXPECT_EQ(reader.post("/v1/workers", join)->status, 403);
  EXPECT_EQ(stranger.post("/v1/workers", join)->status, 403) << "who submits does not judge";
  EXPECT_EQ(worker.post("/v1/workers", join)->status, 200);
  EXPECT_EQ(worker.get("/v1/tasks")->status, 403) << "a worker sees its orders alone";
  EXPECT_EQ(worker.get("/metrics")->status, 403);
  EXPECT_EQ(worker.post("/v1/evaluations", submission("x"))->status, 403);
  const std::string database =
      read_file(folder_.path() + "/serve.db").value() + read_file(folder_.path() + "/serve.db-wal").value();
  EXPECT_EQ(database.find(reads.substr(reads.rfind('_') + 1)), std::string::npos) << "no secret is stored";
}

TEST_F(ApiTest, ARefusalIsInTheLogUnderTheRequestsId) {
  RecordingSink log;
  const auto api = Api::make(*service_, {.device_kind = "cpu"}, log);
  const HttpHandler handler = api->handler();
  const auto refused =
      handler.admit({.method = "GET", .path = "/nowhere", .headers = {{"x-request-id", "lost"}}});
  ASSERT_TRUE(refused);
  HttpResponse invalid;
  handler.handle(
      {.method = "POST", .path = "/v1/evaluations", .headers = {{"x-request-id", "half"}}, .body = "{"},
      [&](HttpResponse response) { invalid = std::move(response); });
  EXPECT_EQ(invalid.status, 400);
  ASSERT_EQ(log.events().size(), 2u);
  using Fields = std::map<std::string, std::string>;
  EXPECT_EQ(log.events()[0].fields, (Fields{{"request", "lost"}, {"status", "404"}}));
  EXPECT_EQ(log.events()[1].fields, (Fields{{"request", "half"}, {"status", "400"}}));
}

TEST_F(ApiTest, TheSchemeOfATokenMayBeWrittenInAnyCase) {
  const auto store = *TokenStore::open(folder_.path());
  const std::string token = store->add({"reader", Role::kRead, 100}).value();
  api_->set_tokens(Tokens(*store->list()));
  HttpClient client(port());
  const auto status = [&](const std::string& authorization) {
    return client.ask("GET", "/v1/tasks", "", {{"Authorization", authorization}})->status;
  };
  for (const char* const scheme : {"Bearer ", "bearer ", "BEARER ", "bEARER  "})
    EXPECT_EQ(status(scheme + token), 200) << scheme;
  for (const char* const scheme : {"Basic ", "Bearer", "Bearer\t", "Bearers ", ""})
    EXPECT_EQ(status(scheme + token), 401) << scheme;
  EXPECT_EQ(status("Bearer "), 401);
  EXPECT_EQ(status("Bearer lathe_"), 401);
}

TEST_F(ApiTest, WithoutItsLastTokenAServiceIsClosed) {
  const auto store = *TokenStore::open(folder_.path());
  api_->set_tokens(Tokens({}));
  HttpClient nobody(port());
  EXPECT_EQ(nobody.get("/v1/tasks")->status, 200) << "there were none";
  EXPECT_FALSE(body(nobody.get("/openapi.json")).contains("security"));
  HttpClient trainer(port(), store->add({"trainer", Role::kSubmit, 100}).value());
  api_->set_tokens(Tokens(*store->list()));
  EXPECT_EQ(trainer.get("/v1/tasks")->status, 200);
  ASSERT_TRUE(store->remove("trainer").ok());
  api_->set_tokens(Tokens(*store->list()));
  EXPECT_EQ(nobody.get("/v1/tasks")->status, 401);
  EXPECT_TRUE(body(nobody.get("/openapi.json")).contains("security"));
  EXPECT_EQ(trainer.get("/v1/tasks")->status, 401);
  EXPECT_EQ(trainer.post("/v1/evaluations", submission("x"))->status, 401);
  EXPECT_EQ(nobody.get("/healthz")->status, 200);
}

TEST_F(ApiTest, AWorkerElsewhereAnswersAndIsHeldToItsOrders) {
  start({}, false);
  HttpClient client(port()), worker(port());
  const auto join = [&] {
    const auto joined = worker.post(
        "/v1/workers",
        encode(WorkerJoin{"box/cpu", {.kind = {"cpu", kGymVersion}, .device_name = "fake", .slots = 1}}));
    return "/v1/workers/" + body(joined)["session"].get<std::string>();
  };
  const auto order_of = [&](const std::string& session) {
    const auto batch = parse_front_batch(worker.get(session + "/messages?wait=20")->body);
    return std::get<WorkOrder>(batch->messages.at(0));
  };
  const auto answer_to = [](const WorkOrder& order) {
    WorkerAnswer answer{order.lease, Verdict{}, {}};
    answer.verdict->outcome = Outcome::kPass;
    answer.verdict->reason = "ok";
    answer.verdict->task = order.task;
    answer.verdict->candidate = digest_of(order.candidate);
    answer.verdict->depth = order.depth;
    return answer;
  };
  const std::string id = body(client.post("/v1/evaluations", submission("x")))["id"];
  const std::string forger = join();
  WorkerAnswer forged = answer_to(order_of(forger));
  forged.verdict->candidate = digest_of("another");
  EXPECT_EQ(worker.post(forger + "/messages", encode(WorkerBatch{1, {forged}}))->status, 200);
  EXPECT_THAT(worker.get(forger + "/messages?after=1&wait=20")->status, testing::AnyOf(404, 410))
      << "its session is over";
  EXPECT_NE(body(client.get("/v1/evaluations/" + id))["state"], "done");

  const std::string broken = join();
  const WorkOrder lost = order_of(broken);
  EXPECT_EQ(worker.post(broken + "/messages", "{\"first\": 1, \"messages\": [7]}")->status, 400);
  EXPECT_THAT(worker.post(broken + "/messages", encode(WorkerBatch{1, {answer_to(lost)}}))->status,
              testing::AnyOf(404, 410));

  const std::string honest = join();
  const WorkOrder order = order_of(honest);
  EXPECT_EQ(worker.post(honest + "/messages", encode(WorkerBatch{1, {answer_to(order)}}))->status, 200);
  EXPECT_EQ(body(client.get("/v1/evaluations/" + id + "?wait=20"))["verdict"]["outcome"], "PASS");
  EXPECT_EQ(worker.remove(honest + "?end=asked")->status, 200);
  EXPECT_THAT(client.get("/metrics")->body, HasSubstr("lathe_answers_refused_total 1\n"));
}

TEST_F(ApiTest, AWebPageIsNotTheUser) {
  HttpClient client(port());
  const std::string rebound =
      HttpClient::exchange(port(), "GET /v1/tasks HTTP/1.1\r\nHost: evil.example\r\n\r\n", 1);
  EXPECT_THAT(rebound, HasSubstr("403"));
}

TEST_F(ApiTest, HealthAndReadinessAreTwoThings) {
  HttpClient client(port());
  EXPECT_EQ(client.get("/readyz")->status, 200);
  start({}, false);
  HttpClient again(port());
  EXPECT_EQ(again.get("/healthz")->status, 200);
  EXPECT_EQ(again.get("/readyz")->status, 503);
}

TEST_F(ApiTest, MetricsAreRealNumbers) {
  HttpClient client(port());
  (void)client.post("/v1/evaluations?wait=10", submission("x"));
  (void)client.post("/v1/evaluations?wait=10", submission("x"));
  const std::string text = client.get("/metrics")->body;
  EXPECT_THAT(text, HasSubstr("lathe_evaluations_total{outcome=\"PASS\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lathe_admissions_total{result=\"known\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lathe_stage_seconds_count{stage=\"total\"} 1\n"));
}

TEST_F(ApiTest, MetricsHaveTheClocksOfDevicesThatTellThem) {
  HttpClient client(port());
  const auto page = [&] { return client.get("/metrics")->body; };
  EXPECT_THAT(page(), testing::Not(HasSubstr("lathe_device_clock_mhz{"))) << "it has timed nothing yet";
  judge_ = [](const WorkOrder& order) {
    auto verdict = pass_unless_told_to_wait(order);
    if (order.candidate == "slowed") verdict->profile = {{"clock_mhz", 1410}, {"throttled.thermal", 0.25}};
    if (order.candidate == "fast") verdict->profile = {{"clock_mhz", 1980}, {"power_w", 300}};
    return verdict;
  };
  (void)client.post("/v1/evaluations?wait=10", submission("slowed"));
  (void)client.post("/v1/evaluations?wait=10", submission("not timed"));
  const std::string device = "{worker=\"w\",device=\"fake\"";
  EXPECT_THAT(page(), HasSubstr("lathe_device_clock_mhz" + device + "} 1410\n"));
  EXPECT_THAT(page(), HasSubstr("lathe_device_throttled_share" + device + ",reason=\"thermal\"} 0.25\n"));
  (void)client.post("/v1/evaluations?wait=10", submission("fast"));
  EXPECT_THAT(page(), HasSubstr("lathe_device_clock_mhz" + device + "} 1980\n"));
  EXPECT_THAT(page(), testing::Not(HasSubstr("lathe_device_throttled_share{")));
}

TEST_F(ApiTest, OversizedSlowAndBrokenRequestsAreCutOff) {
  start({.header_bytes = 2000, .body_bytes = 5000, .header_seconds = 0.5, .body_seconds = 0.5});
  HttpClient client(port());
  const auto large = client.post("/v1/evaluations", submission(std::string(6000, 'x')));
  EXPECT_EQ(large->status, 413);
  EXPECT_THAT(large->body, HasSubstr("larger than 5000 bytes"));
  EXPECT_EQ(client.ask("GET", "/v1/tasks", "", {{"X-Large", std::string(3000, 'x')}})->status, 431);
  const auto begin = steady_clock().now_ns();
  EXPECT_EQ(HttpClient::exchange(port(), "GET /v1/tasks HT", 20), "");
  EXPECT_THAT(HttpClient::exchange(port(),
                                   "POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                   "application/json\r\nContent-Length: 100\r\n\r\n{",
                                   20),
              "");
  EXPECT_LT(seconds_since(begin), 15) << "both were cut off";
  EXPECT_THAT(HttpClient::exchange(port(), "\x16\x03\x01 nonsense\r\n\r\n", 1), HasSubstr("400"));
  EXPECT_EQ(client.get("/v1/tasks")->status, 200);
}

TEST_F(ApiTest, BodiesOnTheirWayHaveACommonLimit) {
  start({.body_bytes = 5000, .all_bodies_bytes = 8000});
  HttpClient client(port());
  const auto answer_in_time = [&](int status) {
    HttpAnswer answer;
    for (int tries = 0; tries < 200 && answer.status != status; ++tries) {
      if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      answer = *client.post("/v1/evaluations?wait=10", submission(std::string(4000, 'x')));
    }
    return answer;
  };
  for (const char* begun : {"Content-Length: 5000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n64\r\n{"}) {
    auto slow = std::async(std::launch::async, [&] {
      const std::string head =
          "POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
      while (HttpClient::exchange(port(), head + begun, 1).find(" 503 ") != std::string::npos) continue;
    });
    const HttpAnswer refused = answer_in_time(503);
    ASSERT_EQ(refused.status, 503) << begun;
    EXPECT_EQ(refused.headers.at("retry-after"), "2");
    EXPECT_EQ(client.post("/v1/evaluations?wait=10", submission("x"))->status, 200) << "there is room for it";
    EXPECT_EQ(client.get("/v1/tasks")->status, 200);
    slow.get();
    EXPECT_EQ(answer_in_time(200).status, 200) << begun;
  }
}

TEST_F(ApiTest, ARewardThatIsNotThereRefusesTheSubmission) {
  HttpClient client(port());
  for (const std::string path : {"/v1/evaluations", "/v1/evaluations/batch"}) {
    const auto answer = client.post(path + "?reward=best",
                                    path.ends_with("batch")
                                        ? json({{"items", {{{"task", "tiny"}, {"candidate", "z"}}}}}).dump()
                                        : submission("z"));
    EXPECT_EQ(answer->status, 400) << path;
    EXPECT_THAT(body(answer)["error"]["message"].get<std::string>(), HasSubstr("unknown reward 'best'"));
  }
  EXPECT_EQ(body(client.get("/v1/evaluations"))["items"].size(), 0U);
  EXPECT_EQ(client.post("/v1/evaluations?wait=10&reward=correct", submission("z"))->status, 200);
}

TEST_F(ApiTest, RequestsCarryTheirIds) {
  HttpClient client(port());
  EXPECT_EQ(client.ask("GET", "/v1/tasks", "", {{"X-Request-Id", "abc-1"}})->headers.at("x-request-id"),
            "abc-1");
  EXPECT_NE(client.ask("GET", "/v1/tasks", "", {{"X-Request-Id", "a b<"}})->headers.at("x-request-id"),
            "a b<");
}

TEST_F(ApiTest, TwoHundredClientsAtOnce) {
  std::atomic<int> done{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 200; ++c)
    clients.emplace_back([&, c] {
      HttpClient client(port());
      for (int i = 0; i < 5; ++i) {
        const auto answer =
            client.post("/v1/evaluations?wait=30", submission(std::to_string(c) + "." + std::to_string(i)));
        done += answer.ok() && answer->status == 200;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(done, 1000);
}

TEST_F(ApiTest, HeadIsGetWithoutItsBody) {
  const auto head = [&](const std::string& target) {
    return HttpClient::exchange(
        port(), "HEAD " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 5);
  };
  const std::size_t bytes = HttpClient(port()).get("/v1/tasks")->body.size();
  const std::string tasks = head("/v1/tasks");
  EXPECT_THAT(tasks, testing::StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(tasks, HasSubstr("Content-Length: " + std::to_string(bytes) + "\r\n"));
  EXPECT_THAT(tasks, testing::EndsWith("\r\n\r\n"));
  EXPECT_THAT(head("/nothing"), testing::StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(head("/nothing"), testing::EndsWith("\r\n\r\n"));
  EXPECT_THAT(head("/healthz"), testing::StartsWith("HTTP/1.1 200"));
  const auto begin = steady_clock().now_ns();
  const std::string events = head("/v1/events");
  EXPECT_THAT(events, HasSubstr("text/event-stream"));
  EXPECT_THAT(events, testing::EndsWith("\r\n\r\n"));
  EXPECT_LT(seconds_since(begin), 4) << "what has no end is not waited for";
  const std::string both = HttpClient::exchange(port(),
                                                "HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
                                                "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                                "Connection: close\r\n\r\n",
                                                5);
  EXPECT_THAT(both, testing::EndsWith("{\"status\":\"alive\"}\n")) << "the connection goes on";
}

TEST_F(ApiTest, TheDocumentHasEveryWayToBeRefused) {
  start({.header_bytes = 2000, .body_bytes = 5000});
  HttpClient nobody(port());
  const json document = body(nobody.get("/openapi.json"));
  const auto store = *TokenStore::open(folder_.path());
  const auto token = [&](const char* name, Role role) { return store->add({name, role, 100}).value(); };
  HttpClient admin(port(), token("admin", Role::kAdmin)), reader(port(), token("reader", Role::kRead)),
      worker(port(), token("worker", Role::kWorker));
  api_->set_tokens(Tokens(*store->list()));
  for (const auto& [method, path, query] : Api::operations()) {
    std::string target = path;
    if (const std::size_t hole = target.find("{id}"); hole != std::string::npos)
      target.replace(hole, 4, std::string(64, 'a'));
    const auto is_refused = [&, method = std::string(method), path = std::string(path)](
                                HttpClient& client, int status, const std::string& text,
                                const std::map<std::string, std::string>& headers) {
      const auto answer = client.ask(method, target, text, headers);
      ASSERT_TRUE(answer.ok()) << method << " " << path << " " << status;
      EXPECT_EQ(answer->status, status) << method << " " << path;
      EXPECT_TRUE(response_in(document, path, method, status).contains("content"))
          << method << " " << path << " " << status;
      EXPECT_EQ(body(answer)["error"]["request_id"], answer->headers.at("x-request-id"))
          << method << " " << path << " " << status;
    };
    is_refused(admin, 431, "", {{"X-Large", std::string(3000, 'x')}});
    if (std::string(method) == "POST") {
      is_refused(admin, 413, std::string(6000, ' '), {});
      is_refused(admin, 415, "{}", {{"Content-Type", "text/plain"}});
      is_refused(admin, 400, "{", {});
    }
    std::string lower(method);
    for (char& c : lower) c = static_cast<char>(std::tolower(c));
    std::set<std::string> described;
    for (const json& parameter : document["paths"][path][lower].value("parameters", json::array()))
      if (parameter["in"] == "query") described.insert(parameter["name"]);
    EXPECT_EQ(query, described) << method << " " << path;
    const bool is_open = document["paths"][path].front().value("security", json("token")).empty();
    if (!is_open) {
      const bool is_for_workers = target.starts_with("/v1/workers");
      is_refused(nobody, 401, "", {});
      is_refused(is_for_workers ? reader : worker, 403, "", {});
    }
    const auto other = admin.ask("PUT", target, "");
    EXPECT_EQ(other->status, 405) << path;
    std::set<std::string> allowed, has;
    std::string names = other->headers.at("allow");
    for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 2)
      allowed.insert(names.substr(at, (end = names.find(", ", at)) - at));
    for (const auto& operation : Api::operations())
      if (std::string(operation.path) == path) has.insert(operation.method);
    if (has.contains("GET")) has.insert("HEAD");
    EXPECT_EQ(allowed, has) << path;
  }
}

TEST_F(ApiTest, TheDocumentIsWhatIsServed) {
  HttpClient client(port());
  const json document = body(client.get("/openapi.json"));
  EXPECT_EQ(operations_in(document), names_of(Api::operations()));

  const std::string id = body(client.post("/v1/evaluations?wait=10", submission("x")))["id"];
  const auto check = [&](const std::string& method, const std::string& path, const std::string& target,
                         const std::string& text = "") {
    const auto answer = client.ask(method, target, text);
    const json response = response_in(document, path, method, answer->status);
    ASSERT_TRUE(response.contains("content")) << target << " " << answer->status;
    const json& content = response["content"];
    ASSERT_TRUE(content.contains("application/json")) << target;
    EXPECT_EQ(objection(document, content["application/json"]["schema"], body(answer)), "")
        << target << " " << answer->body;
  };
  check("POST", "/v1/evaluations", "/v1/evaluations?wait=10", submission("y"));
  check("POST", "/v1/evaluations", "/v1/evaluations", submission("wait"));
  check("POST", "/v1/evaluations", "/v1/evaluations", "{}");
  check("POST", "/v1/evaluations/batch", "/v1/evaluations/batch",
        json({{"items", {{{"task", "tiny"}, {"candidate", "z"}}}}}).dump());
  check("GET", "/v1/evaluations", "/v1/evaluations");
  check("GET", "/v1/evaluations/{id}", "/v1/evaluations/" + id);
  check("GET", "/v1/evaluations/{id}", "/v1/evaluations/" + std::string(64, 'a'));
  for (const char* query : {"", "?reward=correct", "?reward=best", "?reward=correct&peer=nobody"})
    check("GET", "/v1/evaluations/{id}/evidence", "/v1/evaluations/" + id + "/evidence" + query);
  check("DELETE", "/v1/evaluations/{id}", "/v1/evaluations/" + id);
  check("GET", "/v1/tasks", "/v1/tasks");
  check("GET", "/v1/tasks/{id}", "/v1/tasks/tiny");
  check("GET", "/v1/tasks/{id}", "/v1/tasks/unknown");
  check("GET", "/v1/evaluations/{id}", "/v1/evaluations/" + id + "?base=" + id);
  check("POST", "/v1/evaluations", "/v1/evaluations?wait=10&reward=speedup&base=" + id, submission("x"));
  check("GET", "/v1/device", "/v1/device");
  service_->worker_said("w",
                        WorkerDevice{{.device = {.kind = "cpu", .name = "box", .facts = {{"l2_bytes", 9}}},
                                      .peaks = {.levels = {{"L1", 1, 2}}}}});
  check("GET", "/v1/device", "/v1/device");
  check("GET", "/healthz", "/healthz");
  check("GET", "/readyz", "/readyz");

  WorkerJoin join{"box/cpu", {.kind = {"cpu", kGymVersion}, .device_name = "fake", .slots = 1}};
  const std::string session = body(client.post("/v1/workers", encode(join)))["session"];
  const std::string messages = "/v1/workers/" + session + "/messages",
                    none = "/v1/workers/" + std::string(64, 'a');
  check("POST", "/v1/workers", "/v1/workers", encode(join));
  check("POST", "/v1/workers", "/v1/workers", "{}");
  join.hello.kind.gym_version += "x";
  check("POST", "/v1/workers", "/v1/workers", encode(join));
  check("GET", "/v1/workers/{id}/messages", messages);
  check("GET", "/v1/workers/{id}/messages", messages + "?after=x");
  check("GET", "/v1/workers/{id}/messages", none + "/messages");
  check("POST", "/v1/workers/{id}/messages", messages, encode(WorkerBatch{1, {WorkerBeat{}}}));
  check("POST", "/v1/workers/{id}/messages", none + "/messages", encode(WorkerBatch{1, {WorkerBeat{}}}));
  check("POST", "/v1/workers/{id}/messages", messages, "{}");
  check("DELETE", "/v1/workers/{id}", none + "?end=asked");
  check("DELETE", "/v1/workers/{id}", none);
  const json& schemas = document["components"]["schemas"];
  EXPECT_EQ(objection(document, schemas["WorkerJoin"], json::parse(encode(join))), "");
  EXPECT_EQ(objection(document, schemas["WorkerBatch"]["properties"]["messages"]["items"]["oneOf"][1],
                      to_json(WorkerMessage(WorkerAnswer{1, std::nullopt, {ErrorCode::kIo, "x"}}))),
            "");
  EXPECT_EQ(objection(document, schemas["FrontBatch"]["properties"]["messages"]["items"]["oneOf"][0],
                      to_json(FrontMessage(WorkOrder{}))),
            "");
}

}  // namespace
}  // namespace lathe::serve
