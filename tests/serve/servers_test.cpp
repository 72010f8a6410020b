#include "bench/serve/servers.h"

#include <filesystem>
#include <thread>

#include "serve/postgres_connection.h"
#include "serve/postgres_ledger.h"
#include "serve/redis_queue.h"
#include "serve/service.h"
#include "tests/serve/ledger_contract.h"
#include "tests/store/fixtures.h"

// The ledger in PostgreSQL and the queue in Redis, each against a real server of this program's
// own.
namespace lathe::serve {
namespace {

/// One for all tests of a program: making one takes seconds.
PostgresServer& postgres() {
  static const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  static PostgresServer server = [] {
    auto started = PostgresServer::start(folder.path() + "/postgres");
    if (!started.ok()) {
      ADD_FAILURE() << started.error().to_string();
      std::abort();
    }
    return *std::move(started);
  }();
  return server;
}

std::string fresh_database() {
  static int count = 0;
  const std::string name = "test" + std::to_string(++count);
  EXPECT_TRUE(postgres().create_database(name).ok());
  return postgres().url(name);
}

INSTANTIATE_TEST_SUITE_P(Postgres, LedgerContract,
                         testing::Values(LedgerMaker{"postgres",
                                                     [] {
                                                       const std::string url = fresh_database();
                                                       return [url] {
                                                         auto ledger = open_postgres_ledger(url);
                                                         EXPECT_TRUE(ledger.ok())
                                                             << ledger.error().to_string();
                                                         return *std::move(ledger);
                                                       };
                                                     }}),
                         [](const auto& maker) { return maker.param.name; });

TEST(PostgresLedger, TwoFrontEndsAdmitOneOfTwoEqualRequests) {
  const std::string url = fresh_database();
  const auto first = *open_postgres_ledger(url), second = *open_postgres_ledger(url);
  Submission mine = make_submission("x"), theirs = make_submission("x", "b");
  EXPECT_EQ(first->write({.submissions = {{mine, 10}}, .max_all = 10})->submissions.at(0), Admission::kNew);
  EXPECT_EQ(second->write({.submissions = {{theirs, 10}}, .max_all = 10})->submissions.at(0),
            Admission::kJoined);
  const LedgerChanges end{.ends = {{mine.key.id(), make_conclusion(mine)}}};
  EXPECT_TRUE(second->write(end)->ends.at(0).first);
  EXPECT_FALSE(first->write(end)->ends.at(0).first);
  EXPECT_EQ(second->write({.submissions = {{make_submission("y"), 10}}, .max_all = 1})->submissions.at(0),
            Admission::kNew)
      << "limits are common";
  EXPECT_EQ(first->write({.submissions = {{make_submission("z"), 10}}, .max_all = 1})->submissions.at(0),
            Admission::kRefused);
}

TEST(PostgresLedger, AServerThatWasKilledAndCameBackHasWhatItHasSaid) {
  const std::string url = fresh_database();
  const auto ledger = *open_postgres_ledger(url);
  const Submission x = make_submission("x");
  ASSERT_TRUE(ledger->write({.submissions = {{x, 10}}, .max_all = 10}).ok());
  postgres().kill();
  const auto failed = ledger->write({.ends = {{x.key.id(), make_conclusion(x)}}});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().to_string().find("p@ss"), std::string::npos);
  ASSERT_TRUE(postgres().restart().ok());
  for (int i = 0; i < 100 && !ledger->pending().ok(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(ledger->pending()->size(), 1u);
  EXPECT_TRUE(ledger->write({.ends = {{x.key.id(), make_conclusion(x)}}})->ends.at(0).first);
}

/// Rows that the database's statements have read until now.
std::int64_t rows_read(Ledger& ledger, const std::string& url) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // a session reports once a second
  EXPECT_TRUE(ledger.unfinished().ok());
  const auto connection = *PostgresConnection::open(url);
  const PostgresConnection::Query query[] = {
      {"SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)::bigint + "
       "(SELECT sum(seq_tup_read) FROM pg_stat_user_tables)::bigint"}};
  return connection->run(query).value().at(0).integer(0, 0);
}

TEST(PostgresLedger, WhatATurnReadsDoesNotGrowWithWhatWaits) {
  constexpr int kWaiting = 3000, kOfATurn = 32;
  const std::string url = fresh_database();
  const auto ledger = *open_postgres_ledger(url);
  const auto submissions = [](const std::string& name, int count) {
    std::vector<LedgerChanges::Entry> entries;
    for (int i = 0; i < count; ++i) entries.push_back({make_submission(name + std::to_string(i)), 1 << 20});
    return entries;
  };
  ASSERT_TRUE(ledger->write({.submissions = submissions("waits", kWaiting), .max_all = 1 << 20}).ok());
  const std::int64_t before = rows_read(*ledger, url);
  const auto mine = submissions("mine", kOfATurn);
  LedgerChanges ends;
  std::vector<Digest> ids;
  std::vector<Ledger::Name> names;
  for (const auto& [submission, most] : mine) {
    ids.push_back(submission.key.id());
    names.emplace_back(submission.client, ids.back());
    ends.ends.push_back({ids.back(), make_conclusion(submission)});
  }
  ASSERT_TRUE(ledger->write({.submissions = mine, .max_all = 1 << 20}).ok());
  EXPECT_EQ(ledger->wanted(ids)->size(), ids.size());
  for (int i = 0; i < kOfATurn; ++i)
    ends.withdrawals.push_back(
        {"a", make_submission("waits" + std::to_string(i)).key.id(), State::kCancelled});
  EXPECT_TRUE(ledger->write(ends)->withdrawals.at(0).unwanted);
  EXPECT_EQ(ledger->find(names)->size(), ids.size());
  EXPECT_EQ(ledger->finished(std::vector<FinishedQuery>{{"a", 0, kOfATurn}})->at(0).size(), ids.size());
  EXPECT_LT(rows_read(*ledger, url) - before, 20 * kOfATurn);
}

TEST(PostgresLedger, ErrorsSayWhereAndNeverThePassword) {
  std::string url = postgres().url();
  url.replace(url.find("p%40ss"), 6, "secret");
  const auto refused = open_postgres_ledger(url);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("127.0.0.1:" + std::to_string(postgres().port())));
  EXPECT_THAT(refused.error().hint, testing::HasSubstr("password"));
  const std::vector<std::string> others = {url, "postgres://lathe:secret@127.0.0.1:1/x",
                                           "postgres://u:secret%zz@h/d",
                                           "postgres://u:secret@h:port:9/d?nonsense=secret"};
  for (const std::string& wrong : others) {
    const auto error = open_postgres_ledger(wrong);
    ASSERT_FALSE(error.ok());
    EXPECT_THAT(error.error().to_string(), testing::Not(testing::HasSubstr("secret"))) << wrong;
  }
}

TEST(PostgresTokens, AreThoseOfEveryFrontEnd) {
  const std::string url = fresh_database();
  const auto first = *open_postgres_tokens(url), second = *open_postgres_tokens(url);
  const auto token = first->add({"trainer", Role::kSubmit, 7});
  ASSERT_TRUE(token.ok());
  const Tokens tokens(second->list().value());
  EXPECT_EQ(tokens.find("Bearer " + *token)->client, "trainer");
  EXPECT_EQ(tokens.find("Bearer " + *token)->max_unfinished, 7);
  EXPECT_FALSE(first->add({"trainer", Role::kSubmit, 7}).ok());
  EXPECT_TRUE(second->remove("trainer").ok());
  EXPECT_EQ(first->remove("trainer").error().code, ErrorCode::kNotFound);
}

class RedisQueueTest : public testing::Test {
 protected:
  RedisQueueTest() {
    auto started = RedisServer::start(folder_.path(), true);
    if (!started.ok()) std::abort();
    server_.emplace(*std::move(started));
    const auto first = open();  // whoever starts on a fresh server keeps silent about versions for a lease
    (void)first->exchange({});
    first->leave();
    run({"DEL", "lathe:fresh"});  // it has been there for long
    a_ = open();
    b_ = open();
    (void)a_->exchange({});
    (void)b_->exchange({});
  }
  std::unique_ptr<SharedQueue> open(const std::string& version = "1") {
    auto queue = open_redis_queue({.url = parse_redis_url(server_->url()).value(), .gym_version = version},
                                  clock_, null_sink());
    EXPECT_TRUE(queue.ok());
    return *std::move(queue);
  }
  static SharedQueue::Item item(const std::string& text, const std::string& client = "a", int priority = 0,
                                std::int64_t since = 1'000'000) {
    return {digest_of(text), {"cpu", "1"}, client, priority, since};
  }
  static SharedQueue::News say(SharedQueue& queue, const SharedQueue::Turn& turn = {}) {
    auto news = queue.exchange(turn);
    EXPECT_TRUE(news.ok()) << news.error().to_string();
    return news.ok() ? *std::move(news) : SharedQueue::News{};
  }
  static std::vector<Digest> take(SharedQueue& queue, int now, int ahead = 0,
                                  const WorkerKind& kind = {"cpu", "1"}) {
    return say(queue, {.wishes = {{kind, {now, ahead}}}}).given;
  }
  void pass(double seconds, SharedQueue& alive) {
    for (double passed = 0; passed < seconds; passed += 0.5) {
      clock_.advance_ns(500'000'000);
      last_ = say(alive);
      rebuilt_ |= last_.rebuild;
    }
  }

  FakeClock clock_;
  const TemporaryFolder folder_;
  std::optional<RedisServer> server_;
  std::unique_ptr<SharedQueue> a_, b_;
  void wipe() { run({"FLUSHALL"}); }
  /// The first text of the reply.
  std::string run(const RedisCommand& command) {
    const auto redis = *RedisConnection::open(*parse_redis_url(server_->url()));
    const auto reply = redis->run(command);
    EXPECT_TRUE(reply.ok()) << reply.error().to_string();
    return reply.ok() && reply->size() > 0 ? (*reply)[0].text() : std::string();
  }

  SharedQueue::News last_;
  bool rebuilt_ = false;
};

TEST_F(RedisQueueTest, AnItemIsGivenOnceAndIsGoneWhenItIsOver) {
  say(*a_, {.added = {item("x"), item("x"), item("y")}});
  EXPECT_THAT(take(*b_, 1), testing::ElementsAre(digest_of("x")));
  EXPECT_THAT(take(*a_, 5), testing::ElementsAre(digest_of("y")));
  EXPECT_EQ(a_->counts()->leased, 2);
  say(*b_, {.over = {{digest_of("x"), true, {"a", "b"}, 0.1}}});
  const auto heard = say(*a_).over;
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].id, digest_of("x"));
  EXPECT_TRUE(heard[0].gone);
  EXPECT_THAT(heard[0].clients, testing::ElementsAre("a", "b"));
  EXPECT_TRUE(say(*b_).over.empty()) << "one's own news";
  EXPECT_EQ(a_->counts()->leased, 1);
  say(*a_, {.added = {item("x", "a", 0, 1'000'001)}});
  EXPECT_THAT(take(*b_, 5), testing::ElementsAre(digest_of("x"))) << "it may be asked for anew";
}

TEST_F(RedisQueueTest, WhatIsAskedForAnewBeforeItIsOverIsNotLost) {
  say(*a_, {.added = {item("x")}});
  EXPECT_EQ(take(*a_, 1).size(), 1u);
  say(*b_, {.added = {item("x", "b", 0, 2'000'000)}});
  EXPECT_TRUE(take(*b_, 1).empty());
  say(*a_, {.over = {{digest_of("x")}}});
  EXPECT_THAT(take(*b_, 1), testing::ElementsAre(digest_of("x")));
}

TEST_F(RedisQueueTest, WhatIsAskedForAnewIsNotOverBecauseTheFirstOneWas) {
  say(*a_, {.added = {item("x")}});
  EXPECT_EQ(take(*a_, 1).size(), 1u);
  say(*b_, {.over = {{digest_of("x")}}});
  say(*b_, {.added = {item("x", "b", 0, 2'000'000)}});
  say(*a_, {.over = {{.id = digest_of("x"), .if_held = true}}});
  EXPECT_THAT(take(*b_, 1), testing::ElementsAre(digest_of("x")));
  say(*a_, {.over = {{.id = digest_of("x"), .if_held = true}}});
  for (const auto& over : say(*b_).over) EXPECT_FALSE(over.gone);
  EXPECT_EQ(b_->counts()->leased, 1) << "nor while another has it";
  say(*b_, {.over = {{.id = digest_of("x"), .if_held = true}}});
  EXPECT_EQ(b_->counts()->leased, 0) << "its own is";
}

TEST_F(RedisQueueTest, AFrontEndThatIsSilentLosesWhatItHolds) {
  say(*a_, {.added = {item("x"), item("y"), item("z")}});
  EXPECT_EQ(take(*a_, 2).size(), 2u);
  pass(3, *b_);
  EXPECT_TRUE(take(*b_, 1).size() == 1u) << "what waits";
  EXPECT_FALSE(rebuilt_);
  pass(2, *b_);
  EXPECT_TRUE(rebuilt_) << "the lost one may have ended between ledger and queue";
  EXPECT_THAT(take(*b_, 5), testing::UnorderedElementsAre(digest_of("x"), digest_of("y")));
  clock_.advance_ns(500'000'000);
  EXPECT_TRUE(say(*a_).expelled);
  clock_.advance_ns(500'000'000);
  EXPECT_FALSE(say(*a_).expelled) << "and begins anew";
}

TEST_F(RedisQueueTest, WhatWasGivenIsToldThoughTheExchangeFails) {
  b_->leave();
  say(*a_, {.added = {item("x")}});
  const std::string kind = std::string("cpu\x1e") + "1";
  const std::string name = run({"HKEYS", "lathe:fronts"});
  run({"XREADGROUP", "GROUP", "fronts", name, "STREAMS", "lathe:line:" + kind + "\x1f" + "a" + "\x1f" + "0",
       ">"});
  run({"SET", "lathe:lines:" + kind, "what no take can read"});
  for (int i = 0; i < 2; ++i) {  // the second one finds x, over a connection of its own
    clock_.advance_ns(2'500'000'000);
    EXPECT_FALSE(a_->exchange({.wishes = {{{"cpu", "1"}, {1, 0}}}}).ok());
  }
  run({"DEL", "lathe:lines:" + kind});
  clock_.advance_ns(2'500'000'000);
  EXPECT_THAT(take(*a_, 1), testing::ElementsAre(digest_of("x")));
  EXPECT_TRUE(take(*a_, 1).empty()) << "once";
}

TEST_F(RedisQueueTest, WhoWasTakenForGoneIsToldThoughTheExchangeFails) {
  say(*a_, {.added = {item("x")}});
  EXPECT_EQ(take(*a_, 1).size(), 1u);
  pass(5, *b_);
  EXPECT_EQ(take(*b_, 1).size(), 1u) << "it is another's";
  const std::string lines = std::string("lathe:lines:cpu\x1e") + "1";
  run({"SET", lines, "what no take can read"});
  for (int i = 0; i < 2; ++i) {
    clock_.advance_ns(2'500'000'000);
    EXPECT_FALSE(a_->exchange({.wishes = {{{"cpu", "1"}, {1, 0}}}}).ok());
  }
  run({"DEL", lines});
  clock_.advance_ns(2'500'000'000);
  EXPECT_TRUE(say(*a_).expelled) << "the beat went well, what came after did not";
  EXPECT_FALSE(say(*a_).expelled) << "once";
}

TEST_F(RedisQueueTest, WhoWasTakenForGoneIsToldThoughTheFirstReplyIsLost) {
  b_->leave();
  const std::string own = run({"HKEYS", "lathe:fronts"});
  const auto other = open();
  pass(5, *other);
  run({"HSET", "lathe:fronts", own, "77 1"});  // a beat that it knows nothing of
  run({"HSET", "lathe:registered", own, "77"});
  clock_.advance_ns(500'000'000);
  EXPECT_TRUE(say(*a_).expelled);
  clock_.advance_ns(500'000'000);
  EXPECT_FALSE(say(*a_).expelled);
}

TEST_F(RedisQueueTest, AJumpOfTheClockEndsNoLease) {
  say(*a_, {.added = {item("x")}});
  EXPECT_EQ(take(*a_, 1).size(), 1u);
  clock_.advance_ns(100'000'000'000'000);
  say(*b_);
  EXPECT_TRUE(take(*b_, 1).empty());
  EXPECT_FALSE(say(*a_).expelled);
}

TEST_F(RedisQueueTest, AFrontEndThatLeavesGivesBackAtOnce) {
  say(*a_, {.added = {item("x"), item("y")}});
  EXPECT_EQ(take(*a_, 2).size(), 2u);
  say(*a_, {.returned = {digest_of("y")}});
  EXPECT_THAT(take(*b_, 5), testing::ElementsAre(digest_of("y")));
  a_->leave();
  EXPECT_THAT(take(*b_, 5), testing::ElementsAre(digest_of("x")));
}

TEST_F(RedisQueueTest, ClientsShareAndPrioritiesGoFirst) {
  std::vector<SharedQueue::Item> many;
  for (int i = 0; i < 50; ++i) many.push_back(item("greedy" + std::to_string(i), "greedy"));
  many.push_back(item("urgent", "greedy", 5));
  for (int i = 0; i < 3; ++i) many.push_back(item("modest" + std::to_string(i), "modest"));
  say(*a_, {.added = many});
  const auto given = take(*b_, 6);
  EXPECT_EQ(given.size(), 6u);
  EXPECT_THAT(given, testing::Contains(digest_of("urgent")));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(given, testing::Contains(digest_of("modest" + std::to_string(i))));
  const auto counts = b_->counts().value();
  EXPECT_EQ(counts.waiting, 48);
  EXPECT_EQ(counts.by_client.at("greedy"), 51);
}

TEST_F(RedisQueueTest, WhatWasStoppedHasCostItsClientTheTime) {
  std::vector<SharedQueue::Item> many = {item("x", "hasty")};
  say(*a_, {.added = many});
  EXPECT_EQ(take(*a_, 1).size(), 1u);
  say(*a_, {.over = {{digest_of("x"), true, {"hasty"}, 3, false}}});
  many.clear();
  for (const char* one : {"1", "2", "3"})
    for (const char* client : {"hasty", "other"}) many.push_back(item(std::string(client) + one, client));
  say(*a_, {.added = many});
  EXPECT_THAT(take(*b_, 3),
              testing::UnorderedElementsAre(digest_of("other1"), digest_of("other2"), digest_of("other3")));
}

TEST_F(RedisQueueTest, AgeOvertakesPriority) {
  say(*a_, {.added = {item("young", "a", 1, 1'031'000), item("old", "a", 0, 1'000'000)}});
  EXPECT_THAT(take(*b_, 1), testing::ElementsAre(digest_of("old")));
}

TEST_F(RedisQueueTest, KindsAreApartAndWorkAheadIsShared) {
  std::vector<SharedQueue::Item> many;
  for (int i = 0; i < 40; ++i) many.push_back(item(std::to_string(i)));
  SharedQueue::Item other = item("gpu");
  other.kind = {"cuda", "1"};
  many.push_back(other);
  say(*a_, {.added = many});
  EXPECT_EQ(take(*a_, 4, 100).size(), 13u) << "four, and of the rest a quarter: the other may need it";
  EXPECT_EQ(take(*b_, 1, 0, {"cuda", "1"}).size(), 1u);
  EXPECT_TRUE(take(*b_, 1, 0, {"cpu", "2"}).empty());
}

TEST_F(RedisQueueTest, KilledWithAnAppendOnlyFileItKeepsWhatItHad) {
  say(*a_, {.added = {item("x"), item("y")}});
  EXPECT_EQ(take(*a_, 1).size(), 1u);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // its file is synced each second
  server_->kill();
  EXPECT_FALSE(a_->exchange({}).ok());
  ASSERT_TRUE(server_->restart().ok());
  clock_.advance_ns(1'000'000'000);
  EXPECT_TRUE(say(*a_).rebuild) << "the last second may be lost";
  EXPECT_EQ(take(*a_, 5).size(), 1u);
}

TEST_F(RedisQueueTest, WipedItAsksForEverythingAgain) {
  say(*a_, {.added = {item("x")}});
  wipe();
  clock_.advance_ns(500'000'000);
  const auto news = say(*a_);
  EXPECT_TRUE(news.rebuild);
  EXPECT_FALSE(news.expelled) << "its work goes on";
  say(*a_, {.added = {item("x")}});
  EXPECT_THAT(take(*b_, 5), testing::ElementsAre(digest_of("x")));
}

TEST_F(RedisQueueTest, WhoStartsOnAWipedOneWaitsForTheOthersVersions) {
  wipe();
  const auto newer = open("2");
  EXPECT_TRUE(say(*newer).live_versions.empty()) << "it is the first to beat";
  clock_.advance_ns(500'000'000);
  say(*a_);
  EXPECT_TRUE(say(*newer).live_versions.empty());
  for (int i = 0; i < 8; ++i) {
    clock_.advance_ns(500'000'000);
    say(*a_);
    last_ = say(*newer);
  }
  EXPECT_THAT(last_.live_versions, testing::UnorderedElementsAre("1", "2"));
}

TEST_F(RedisQueueTest, WhoStartsBehindTheFirstOnAWipedOneWaitsAsWell) {
  b_->leave();
  wipe();
  const auto newer = open("2"), next = open("2");
  EXPECT_TRUE(say(*newer).live_versions.empty());
  EXPECT_TRUE(say(*next).live_versions.empty()) << "whoever has version 1 beats any moment";
  for (int i = 0; i < 9; ++i) {
    clock_.advance_ns(500'000'000);
    for (SharedQueue* const one : {a_.get(), newer.get()}) say(*one);
    last_ = say(*next);
  }
  EXPECT_THAT(last_.live_versions, testing::UnorderedElementsAre("1", "2", "2"));
}

TEST_F(RedisQueueTest, WipedItForgetsNoVersionThatSomebodyHas) {
  b_->leave();
  const auto newer = open("2");
  say(*newer);
  clock_.advance_ns(500'000'000);
  EXPECT_THAT(say(*a_).live_versions, testing::UnorderedElementsAre("1", "2"));
  wipe();
  clock_.advance_ns(500'000'000);
  const auto news = say(*a_);
  EXPECT_TRUE(news.rebuild);
  EXPECT_THAT(news.live_versions, testing::Contains("2")) << "it has not beaten since";
  say(*newer);
  clock_.advance_ns(500'000'000);
  EXPECT_THAT(say(*a_).live_versions, testing::Contains("2"));
  wipe();
  pass(5, *a_);
  EXPECT_TRUE(rebuilt_);
  EXPECT_THAT(last_.live_versions, testing::ElementsAre("1")) << "but not for ever";
}

TEST_F(RedisQueueTest, TheLastOfAVersionThatLeavesIsMissed) {
  const auto newer = open("2");
  say(*newer);
  pass(1, *a_);
  EXPECT_THAT(last_.live_versions, testing::Contains("2"));
  rebuilt_ = false;
  newer->leave();
  pass(1, *a_);
  EXPECT_FALSE(rebuilt_) << "it may come back at once, as in an update";
  say(*b_);
  pass(4, *a_);
  EXPECT_TRUE(rebuilt_) << "nobody is left for what was asked of it";
  EXPECT_THAT(last_.live_versions, testing::Not(testing::Contains("2")));
  rebuilt_ = false;
  say(*b_);
  pass(2, *a_);
  EXPECT_FALSE(rebuilt_) << "once";
}

TEST_F(RedisQueueTest, ErrorsSayWhereAndNeverThePassword) {
  const TemporaryFolder folder;
  const auto locked = *RedisServer::start(folder.path(), false, "right");
  for (const std::string& url :
       {"redis://:secret@127.0.0.1:" + std::to_string(locked.port()),
        "redis://127.0.0.1:" + std::to_string(locked.port()), std::string("redis://:secret@127.0.0.1:1")}) {
    const auto refused = RedisConnection::open(*parse_redis_url(url));
    ASSERT_FALSE(refused.ok()) << url;
    EXPECT_THAT(refused.error().to_string(), testing::HasSubstr("127.0.0.1:"));
    EXPECT_THAT(refused.error().to_string(), testing::Not(testing::HasSubstr("secret")));
    EXPECT_FALSE(refused.error().hint.empty());
  }
  RecordingSink sink;
  ASSERT_TRUE(open_redis_queue({.url = parse_redis_url(locked.url()).value()}, clock_, sink).ok());
  ASSERT_EQ(sink.events().size(), 1u);
  EXPECT_THAT(sink.events()[0].text, testing::HasSubstr("set appendonly yes"));
}

}  // namespace
}  // namespace lathe::serve
