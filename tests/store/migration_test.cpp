#include <array>

#include "store/schema.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

using testing::HasSubstr;

/// A store as version 1 wrote it. Written out here: it must stay readable whatever the code does
/// later.
constexpr const char* kVersion1Store = R"sql(
CREATE TABLE schema (version INTEGER NOT NULL) STRICT;
INSERT INTO schema VALUES (1);
CREATE TABLE runs (id TEXT PRIMARY KEY NOT NULL, task_name TEXT NOT NULL, task_text TEXT NOT NULL,
  task TEXT NOT NULL, config TEXT NOT NULL, status TEXT NOT NULL, summary TEXT NOT NULL,
  created_unix INTEGER NOT NULL) STRICT;
CREATE TABLE experiences (id INTEGER PRIMARY KEY, run TEXT NOT NULL REFERENCES runs(id),
  sequence INTEGER NOT NULL, task_name TEXT NOT NULL, task TEXT NOT NULL, candidate TEXT NOT NULL,
  candidate_text TEXT NOT NULL, prompt TEXT NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL,
  lineage TEXT NOT NULL, verdict TEXT NOT NULL, cost_seconds REAL NOT NULL, created_unix INTEGER NOT NULL,
  checksum TEXT NOT NULL, UNIQUE (run, sequence)) STRICT;
CREATE INDEX experiences_by_task ON experiences (task, outcome);
CREATE TABLE speedups (experience INTEGER NOT NULL REFERENCES experiences(id) ON DELETE CASCADE,
  baseline TEXT NOT NULL, low REAL NOT NULL, mid REAL NOT NULL, PRIMARY KEY (experience, baseline))
  STRICT, WITHOUT ROWID;
CREATE TABLE facts (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO runs VALUES ('old', 'softmax', 'text',
  '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', '{}', 'done', '{"best":2}', 1600000000);
INSERT INTO experiences VALUES (7, 'old', 0, 'softmax',
  'de7aadf11aa9b97f737447ffe5966e4db0a866d82536ef1459f0b1b4539b74d8',
  '2c92d93b60b5f08a21b34e6088853b40b312d1ffb8a9d8db564f913e8828e9e0', 'text', '', 'PASS', 'ok',
  '{"description":"","operation":"mutate","parents":["08445822f3b54fc407667a844ffea6a0cdde0b45d892cfefbfaa1bcb8299e27f"],"policy":"catalog"}',
  '{"build":{"code_bytes":0,"facts":{},"log":"","seconds":0.0},"candidate":"0000000000000000000000000000000000000000000000000000000000000000","depth":"verify","detail":"","evidence":{"cases":[]},"outcome":"PASS","profile":{},"reason":"ok","speedups":[{"ambiguous":false,"baseline":"naive","high":2.1,"low":1.9,"mid":2.0,"shape":"s"}],"stage_seconds":{},"task":"0000000000000000000000000000000000000000000000000000000000000000","timings":[]}',
  0.25, 1600000001, '4db78afb9561509b672ddf5375e2547b832c8f1bb847de2234b6189b24efe24a');
INSERT INTO speedups VALUES (7, 'naive', 1.9, 2.0);
INSERT INTO facts VALUES ('peak.l2', '1.5e11');
)sql";

void make_database(const std::string& path, const char* sql) {
  auto database = Database::open(path);
  ASSERT_TRUE(database.ok()) << database.error().to_string();
  const Status status = database->execute(sql);
  ASSERT_TRUE(status.ok()) << status.error().to_string();
}

std::string version_in(const std::string& path) {
  auto database = Database::open(path);
  auto select = database->prepare("SELECT version FROM schema");
  if (!select.ok() || !*select->step()) return "none";
  return select->text(0);
}

TEST(Migration, OfAnEmptyFileMakesTheNewestVersion) {
  const TemporaryFolder folder;
  make_database(folder.database(), "");
  ASSERT_NE(open_or_fail(folder.path()), nullptr);
  EXPECT_EQ(version_in(folder.database()), std::to_string(migrations().size()));
}

TEST(Migration, KeepsAVersion1StoreReadable) {
  const TemporaryFolder folder;
  make_database(folder.database(), kVersion1Store);
  const auto store = open_or_fail(folder.path());
  ASSERT_NE(store, nullptr);
  const auto run = store->run("old");
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  EXPECT_EQ(run->summary, R"({"best":2})");
  EXPECT_EQ(**store->get_fact("peak.l2"), "1.5e11");
  const auto kept = store->read({});
  ASSERT_TRUE(kept.ok()) << kept.error().to_string();
  ASSERT_EQ(kept->size(), 1u);
  EXPECT_EQ(kept->front().id, 7);
  EXPECT_EQ(kept->front().verdict.speedup("naive")->mid, 2);
  EXPECT_EQ(kept->front().lineage.operation, "mutate");
  EXPECT_FALSE(kept->front().generation.has_value());
  EXPECT_TRUE(store->append(make_experience("old", 1)).ok());
  EXPECT_EQ(store->experiences("old")->size(), 2u);
}

TEST(Migration, GoesThroughEveryStepAndKeepsACopyOfTheOldStore) {
  const TemporaryFolder folder;
  make_database(folder.database(), kVersion1Store);
  const std::array<const char*, 3> steps = {migrations()[0], "ALTER TABLE runs ADD COLUMN host TEXT",
                                            "UPDATE runs SET host = 'h' || id"};
  {
    auto database = Database::open(folder.database());
    const Status status = migrate(*database, steps);
    ASSERT_TRUE(status.ok()) << status.error().to_string();
    auto select = database->prepare("SELECT host FROM runs");
    ASSERT_TRUE(*select->step());
    EXPECT_EQ(select->text(0), "hold");
  }
  EXPECT_EQ(version_in(folder.database()), "3");
  EXPECT_EQ(version_in(folder.database() + ".v1"), "1");
}

TEST(Migration, ThatFailsHalfWayLeavesTheOldVersion) {
  const TemporaryFolder folder;
  make_database(folder.database(), kVersion1Store);
  const std::array<const char*, 3> steps = {migrations()[0], "ALTER TABLE runs ADD COLUMN host TEXT",
                                            "UPDATE nothing SET x = 1"};
  {
    auto database = Database::open(folder.database());
    EXPECT_FALSE(migrate(*database, steps).ok());
  }
  EXPECT_EQ(version_in(folder.database()), "1");
  EXPECT_TRUE(open_or_fail(folder.path())->run("old").ok());
}

TEST(Migration, RefusesANewerStore) {
  const TemporaryFolder folder;
  make_database(folder.database(), kVersion1Store);
  make_database(folder.database(), "UPDATE schema SET version = 99");
  const auto store = Store::open(folder.path());
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(store.error().message, HasSubstr("version 99"));
  EXPECT_THAT(store.error().hint, HasSubstr("update Lathe"));
  EXPECT_EQ(version_in(folder.database()), "99");
}

TEST(Migration, LeavesSomebodyElsesDatabaseAlone) {
  const TemporaryFolder folder;
  make_database(folder.database(), "CREATE TABLE bookmarks (url TEXT)");
  const auto store = Store::open(folder.path());
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(version_in(folder.database()), "none");
}

}  // namespace
}  // namespace lathe
