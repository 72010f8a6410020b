#include "store/store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "record/json.h"
#include "store/sqlite.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

using testing::HasSubstr;

class StoreTest : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = open_or_fail(folder_.path());
};

TEST_F(StoreTest, GivesBackARunWithItsProgress) {
  ASSERT_TRUE(store_->create_run(make_run("r")).ok());
  ASSERT_TRUE(store_->append(make_experience("r", 0)).ok());
  ASSERT_TRUE(store_->update_run("r", "done", R"({"best":3})").ok());
  const auto run = store_->run("r");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->status, "done");
  EXPECT_EQ(run->summary, R"({"best":3})");
  EXPECT_EQ(run->config, R"({"seed":7})");
  EXPECT_EQ(run->task, digest_of("softmax"));
  EXPECT_EQ(run->experiences, 1);
}

TEST_F(StoreTest, FindsRunsByPrefixAndByAge) {
  ASSERT_TRUE(store_->create_run(make_run("20261121-a", 100)).ok());
  ASSERT_TRUE(store_->create_run(make_run("20261121-ab", 300)).ok());
  ASSERT_TRUE(store_->create_run(make_run("20261020-c", 200)).ok());
  EXPECT_EQ(store_->run("last")->id, "20261121-ab");
  EXPECT_EQ(store_->run("202610")->id, "20261020-c");
  EXPECT_EQ(store_->run("20261121-a")->id, "20261121-a") << "a whole name beats a longer one";
  const auto runs = store_->runs(2);
  ASSERT_EQ(runs->size(), 2u);
  EXPECT_EQ((*runs)[1].id, "20261020-c");

  const auto ambiguous = store_->run("2026");
  ASSERT_FALSE(ambiguous.ok());
  EXPECT_THAT(ambiguous.error().hint, HasSubstr("20261121-ab"));
  EXPECT_EQ(store_->run("%").error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, AnEmptyStoreSaysHowToFillIt) {
  EXPECT_THAT(store_->run("last").error().hint, HasSubstr("lathe optimize"));
}

TEST_F(StoreTest, RefusesARunTwiceAndUpdatesOfNone) {
  ASSERT_TRUE(store_->create_run(make_run("r")).ok());
  EXPECT_EQ(store_->create_run(make_run("r")).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(store_->update_run("s", "done", "").error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, GivesBackExperiencesBySequenceWithEveryByte) {
  ASSERT_TRUE(store_->create_run(make_run("r")).ok());
  Experience odd = make_experience("r", 3);
  odd.candidate_text = std::string("a\0b\xff", 4);
  odd.task_name = "'; DROP TABLE runs; --";
  ASSERT_TRUE(store_->append(odd).ok());
  ASSERT_TRUE(store_->append(make_experience("r", 1)).ok());
  const auto rows = store_->experiences("r");
  ASSERT_TRUE(rows.ok()) << rows.error().to_string();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].sequence, 1);
  const Experience& back = (*rows)[1];
  EXPECT_EQ(back.candidate_text, odd.candidate_text);
  EXPECT_EQ(back.task_name, odd.task_name);
  EXPECT_FALSE(back.generation.has_value());
  EXPECT_EQ(back.candidate, odd.candidate);
  EXPECT_EQ(back.lineage.parents, odd.lineage.parents);
  EXPECT_EQ(to_json(back.verdict), to_json(odd.verdict));
  EXPECT_EQ(back.cost_seconds, odd.cost_seconds);
  EXPECT_EQ(back.created_unix, odd.created_unix);
  EXPECT_GT(back.id, 0);
}

TEST_F(StoreTest, RefusesASequenceNumberTwice) {
  ASSERT_TRUE(store_->create_run(make_run("r")).ok());
  ASSERT_TRUE(store_->append(make_experience("r", 0)).ok());
  const auto again = store_->append(make_experience("r", 0));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(again.error().message, HasSubstr("experience 0 of run 'r' is stored already"));
  EXPECT_EQ(store_->experiences("r")->size(), 1u);
}

TEST_F(StoreTest, RefusesAnExperienceOfNoRun) {
  EXPECT_EQ(store_->append(make_experience("nobody", 0)).error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, RefusesAVerdictThatCouldNotBeReadBack) {
  ASSERT_TRUE(store_->create_run(make_run("r")).ok());
  Experience endless = make_experience("r", 0);
  endless.verdict.speedups[0].ratio.high = HUGE_VAL;
  const auto appended = store_->append(endless);
  ASSERT_FALSE(appended.ok());
  EXPECT_THAT(appended.error().message, HasSubstr("speedups[0].high"));
  EXPECT_TRUE(store_->experiences("r")->empty());
}

TEST_F(StoreTest, KeepsAGenerationWithItsArrays) {
  ASSERT_TRUE(store_->create_run(make_run("r")).ok());
  Experience written = make_experience("r", 0);
  const std::vector<float> log_probabilities = {-0.25F, -3.5F};
  written.generation = Generation{.model = "qwen@1f2e",
                                  .group = 4,
                                  .turn = 1,
                                  .prompt = Blob::of("write a kernel"),
                                  .answer_log_probabilities = pack(log_probabilities)};
  ASSERT_TRUE(store_->append(written).ok());
  const auto rows = open_or_fail(folder_.path())->experiences("r");
  ASSERT_TRUE(rows.ok()) << rows.error().to_string();
  const Generation& back = rows->at(0).generation.value();
  EXPECT_EQ(back.model, "qwen@1f2e");
  EXPECT_EQ(back.turn, 1);
  EXPECT_EQ(*store_->get_blob(back.prompt.digest), "write a kernel");
  EXPECT_EQ(*unpack<float>(*store_->get_blob(back.answer_log_probabilities.digest)), log_probabilities);
  EXPECT_FALSE(back.loss_mask.exists());
}

class CursorTest : public StoreTest {
 protected:
  void SetUp() override {
    for (const char* run : {"a", "b"}) ASSERT_TRUE(store_->create_run(make_run(run)).ok());
    for (int i = 0; i < 3; ++i) append("a", i, "softmax");
    for (int i = 0; i < 2; ++i) append("b", i, "gemm");
    append("b", 2, "softmax");
  }
  void append(const char* run, int sequence, const char* task) {
    Experience experience = make_experience(run, sequence);
    experience.task = digest_of(task);
    ASSERT_TRUE(store_->append(experience).ok());
  }
  /// "a0 a1 ...": what a query finds.
  std::string found(const Query& query) {
    const auto rows = store_->read(query);
    if (!rows.ok()) return rows.error().to_string();
    std::string text;
    for (const Experience& e : *rows) text += (text.empty() ? "" : " ") + e.run + std::to_string(e.sequence);
    return text;
  }
};

TEST_F(CursorTest, ReadsOfATaskOrARunOrBothOrAllInOrderOfArrival) {
  EXPECT_EQ(found({}), "a0 a1 a2 b0 b1 b2");
  EXPECT_EQ(found({.task = digest_of("softmax")}), "a0 a1 a2 b2");
  EXPECT_EQ(found({.run = "b"}), "b0 b1 b2");
  EXPECT_EQ(found({.task = digest_of("gemm"), .run = "b"}), "b0 b1");
  EXPECT_EQ(found({.task = digest_of("gemm"), .run = "a"}), "");
}

TEST_F(CursorTest, GoesOnAfterTheLastIdThatWasSeen) {
  Query query{.task = digest_of("softmax"), .limit = 3};
  const auto first = store_->read(query);
  ASSERT_EQ(first->size(), 3u);
  query.after_id = first->back().id;
  EXPECT_EQ(found(query), "b2");
  append("a", 3, "softmax");
  EXPECT_EQ(found(query), "b2 a3") << "what was appended meanwhile";
}

TEST_F(CursorTest, AnIdThatWasSeenNeverComesBack) {
  const std::int64_t last = store_->read({})->back().id;
  auto database = Database::open(folder_.database());
  ASSERT_TRUE(database->execute("DELETE FROM experiences WHERE run = 'b'").ok());
  append("a", 3, "softmax");
  EXPECT_GT(store_->read({})->back().id, last);
}

TEST_F(StoreTest, KeepsFactsAcrossProcesses) {
  EXPECT_FALSE(store_->get_fact("peak")->has_value());
  ASSERT_TRUE(store_->put_fact("peak", "1").ok());
  ASSERT_TRUE(store_->put_fact("peak", "2").ok());
  EXPECT_EQ(**open_or_fail(folder_.path())->get_fact("peak"), "2");
}

/// What `check` returns in a process that may read the folder and not write to it.
bool holds_for_a_reader(const std::string& folder, const std::function<bool()>& check) {
  namespace fs = std::filesystem;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    fs::permissions(entry.path(), entry.is_directory() ? fs::perms(0555) : fs::perms(0444));
  fs::permissions(folder, fs::perms(0555));
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(2);
    ::_exit(check() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  fs::permissions(folder, fs::perms(0755));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(StoreTest, WhoMayOnlyReadReads) {
  ASSERT_TRUE(store_->create_run(make_run("a")).ok());
  const auto reads = [&] {
    const auto store = Store::open(folder_.path());
    return store.ok() && (*store)->run("a").ok() &&
           (*store)->create_run(make_run("b")).error().code == ErrorCode::kIo;
  };
  EXPECT_TRUE(holds_for_a_reader(folder_.path(), reads)) << "while another process has it open";
  const TemporaryFolder closed;
  ASSERT_TRUE(open_or_fail(closed.path())->create_run(make_run("a")).ok());
  EXPECT_TRUE(holds_for_a_reader(closed.path(), [&] {
    const auto store = Store::open(closed.path());
    return store.ok() && (*store)->run("a").ok();
  })) << "while nobody has it open";
}

TEST_F(StoreTest, BlobsAreNamedByTheirBytes) {
  const std::string bytes(100'000, '\0');
  const auto digest = blobs_of(folder_.path()).put(bytes);
  ASSERT_TRUE(digest.ok());
  EXPECT_EQ(*digest, digest_of(bytes));
  EXPECT_EQ(*blobs_of(folder_.path()).put(bytes), *digest);
  EXPECT_EQ(*store_->get_blob(*digest), bytes);
}

}  // namespace
}  // namespace lathe
