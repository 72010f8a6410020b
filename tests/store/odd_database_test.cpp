#include <sqlite3.h>

#include <filesystem>

#include "base/fd.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

using testing::HasSubstr;

/// Runs statements on a store as a hand would, past all of Lathe's code.
void edit(const std::string& path, const char* sql) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
  sqlite3_close(handle);
}

/// Everything that reads, on a store that was edited. Each must give an error or a value.
void read_all(const std::string& folder) {
  const auto store = Store::open(folder);
  if (!store.ok()) return;
  (void)(*store)->run("last");
  (void)(*store)->runs(10);
  (void)(*store)->experiences("r");
  (void)(*store)->read({});
  (void)(*store)->get_fact("key");
  (void)(*store)->put_fact("key", "value");
  (void)(*store)->append(make_experience("r", 7));
  (void)(*store)->update_run("r", "done", "{}");
}

class OddDatabase : public testing::Test {
 protected:
  OddDatabase() {
    const auto store = open_or_fail(folder_.path());
    EXPECT_TRUE(store->create_run(make_run("r")).ok());
    EXPECT_TRUE(store->append(make_experience("r", 0)).ok());
  }
  const TemporaryFolder folder_;
};

TEST_F(OddDatabase, AMissingColumnIsDamageWithARemedy) {
  edit(folder_.database(), "ALTER TABLE runs DROP COLUMN summary");
  const auto store = Store::open(folder_.path());
  ASSERT_TRUE(store.ok()) << store.error().to_string();
  const auto runs = (*store)->runs(10);
  ASSERT_FALSE(runs.ok());
  EXPECT_EQ(runs.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(runs.error().message, HasSubstr("no such column"));
  EXPECT_THAT(runs.error().hint, HasSubstr("restore the file from a copy"));
}

TEST_F(OddDatabase, NoEditOfItEndsTheProgram) {
  for (const char* sql :
       {"DROP TABLE facts", "DROP TABLE experiences", "DELETE FROM schema", "UPDATE schema SET version = 99",
        "UPDATE experiences SET verdict = '{'", "UPDATE experiences SET task = 'no digest'",
        "UPDATE runs SET created_unix = -1", "UPDATE runs SET created_unix = 9223372036854775807",
        "UPDATE runs SET config = '[1', summary = CAST(x'ff00fe' AS TEXT)"}) {
    const TemporaryFolder folder;
    std::filesystem::copy(folder_.path(), folder.path(), std::filesystem::copy_options::recursive);
    edit(folder.database(), sql);
    read_all(folder.path());
  }
}

TEST_F(OddDatabase, ATruncatedFileIsDamage) {
  const std::string bytes = *read_file(folder_.database());
  for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{4096}, bytes.size() / 2}) {
    const TemporaryFolder folder;
    ASSERT_TRUE(write_file_atomically(folder.database(), bytes.substr(0, size)).ok());
    read_all(folder.path());
  }
}

TEST(StoreFolder, WhatIsNoFileIsAnError) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_directories(folder.database()).ok());
  const auto store = Store::open(folder.path());
  ASSERT_FALSE(store.ok());
  EXPECT_THAT(store.error().message, HasSubstr(folder.database()));
  EXPECT_NE(store.error().hint, "");
}

}  // namespace
}  // namespace lathe
