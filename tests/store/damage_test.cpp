#include <sqlite3.h>

#include <cstdlib>
#include <fstream>

#include "base/fd.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

using testing::HasSubstr;

void overwrite(const std::string& path, std::int64_t offset, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offset);
  file << bytes;
  ASSERT_TRUE(file.good());
}

/// Two runs of 40 experiences each, closed, so that everything is in the main file.
void fill(const std::string& folder) {
  const auto store = open_or_fail(folder);
  for (const char* run : {"early", "late"}) {
    ASSERT_TRUE(store->create_run(make_run(run)).ok());
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(store->append(make_experience(run, i)).ok());
  }
}

/// Offset of the page that holds the text of an experience.
std::int64_t page_with(const std::string& database, const std::string& text) {
  const std::size_t at = read_file(database)->find(text);
  EXPECT_NE(at, std::string::npos);
  return static_cast<std::int64_t>(at / 4096 * 4096);
}

TEST(DamagedPage, IsReportedWithAWayOutThatWorks) {
  const TemporaryFolder folder;
  fill(folder.path());
  overwrite(folder.database(), page_with(folder.database(), "// variant 30 "), std::string(4096, '\xa5'));

  std::string hint;
  {
    const auto store = open_or_fail(folder.path());
    const auto runs = store->runs(10);
    ASSERT_TRUE(runs.ok()) << "runs can still be listed";
    EXPECT_EQ(runs->size(), 2u);
    const auto rows = store->experiences("early");
    ASSERT_FALSE(rows.ok());
    EXPECT_EQ(rows.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(rows.error().message, HasSubstr(folder.database()));
    hint = rows.error().hint;
  }
  ASSERT_THAT(hint, HasSubstr("rescue what is readable"));
  if (std::system("sqlite3 -version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no sqlite3 command here";
  const std::string command = hint.substr(hint.find("mv '"));
  ASSERT_EQ(std::system((command + " >/dev/null 2>&1").c_str()), 0) << command;
  const auto store = open_or_fail(folder.path());
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->runs(10)->size(), 2u);
  const auto rows = store->experiences("late");
  ASSERT_TRUE(rows.ok()) << rows.error().to_string();
  EXPECT_EQ(rows->size(), 40u);
  EXPECT_TRUE(store->append(make_experience("late", 40)).ok());
  const auto rescued = store->experiences("early");
  ASSERT_TRUE(rescued.ok()) << rescued.error().to_string();
  EXPECT_GT(rescued->size(), 30u) << "only the damaged page's few rows are gone";
}

TEST(DamagedText, ThatSqliteCannotNoticeIsCaughtByTheChecksum) {
  const TemporaryFolder folder;
  fill(folder.path());
  const std::size_t at = read_file(folder.database())->find("// variant 7 ");
  overwrite(folder.database(), static_cast<std::int64_t>(at) + 3, "VARIANT");
  const auto store = open_or_fail(folder.path());
  const auto rows = store->experiences("early");
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(rows.error().message, HasSubstr("experience 7 of run 'early'"));
  EXPECT_THAT(rows.error().hint, HasSubstr("DELETE FROM experiences WHERE id = 8"));
  EXPECT_TRUE(store->experiences("late").ok());
}

TEST(DamagedHeader, IsReportedAtOpen) {
  const TemporaryFolder folder;
  fill(folder.path());
  overwrite(folder.database(), 0, "this is no database");
  const auto store = Store::open(folder.path());
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(store.error().hint, HasSubstr("mv '" + folder.database()));
}

TEST(DamagedBlob, IsNamedAndReplacedByTheNextWriter) {
  const TemporaryFolder folder;
  const auto store = open_or_fail(folder.path());
  const std::string bytes = "artefact";
  const Digest digest = *blobs_of(folder.path()).put(bytes);
  const std::string path =
      folder.path() + "/blobs/" + digest.hex().substr(0, 2) + "/" + digest.hex().substr(2);
  overwrite(path, 0, "X");
  const auto damaged = store->get_blob(digest);
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(damaged.error().message, HasSubstr(path));
  ASSERT_TRUE(blobs_of(folder.path()).put(bytes).ok());
  EXPECT_EQ(*store->get_blob(digest), bytes);
}

TEST(MissingBlob, IsNotFound) {
  const TemporaryFolder folder;
  const auto blob = open_or_fail(folder.path())->get_blob(digest_of("never stored"));
  ASSERT_FALSE(blob.ok());
  EXPECT_EQ(blob.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lathe
