#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/digest.h"
#include "base/fd.h"
#include "base/random.h"
#include "bench/serve/http_client.h"
#include "bench/serve/servers.h"
#include "serve/postgres_connection.h"
#include "tests/serve/submission.h"

namespace lathe::serve {
namespace {

using nlohmann::json;

/// A disk of a fixed size in a mount namespace of this thread's own, and of what it starts.
class SmallDisk {
 public:
  SmallDisk(std::string folder, const std::string& size) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
    is_mounted_ = ::unshare(CLONE_NEWNS) == 0 &&
                  ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                  ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, ("mode=755,size=" + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (is_mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return is_mounted_; }
  /// All but some bytes are taken from now on.
  void fill(std::uint64_t but_bytes) const {
    struct statvfs disk {};
    ::statvfs(folder_.c_str(), &disk);
    const std::uint64_t free_bytes = disk.f_bavail * disk.f_frsize;
    const UniqueFd ballast(::open(path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::posix_fallocate(ballast.get(), 0, static_cast<off_t>(free_bytes - but_bytes)), 0);
  }
  void make_room() const { std::filesystem::remove(path()); }

 private:
  std::string path() const { return folder_ + "/ballast"; }
  std::string folder_;
  bool is_mounted_ = false;
};

/// That no compression makes small.
std::string large_text(Rng& rng, int number) {
  std::string text = fmt::format("large {} ", number);
  while (text.size() < 300'000) text += static_cast<char>('!' + rng.below(90));
  return text;
}

class FullPostgresTest : public ProgramTest {
 protected:
  HttpClient client() const { return HttpClient(port_); }
  int ready() const {
    const auto answer = client().get("/readyz");
    return answer.ok() ? answer->status : 0;
  }
  /// What is acknowledged before and after the disk is full is answered, and nothing else.
  void run(bool log_is_full);

  const int port_ = free_port();
};

void FullPostgresTest::run(bool log_is_full) {
  const SmallDisk disk(path("postgres"), "256m");
  if (!disk.is_mounted()) GTEST_SKIP() << "mounting a tmpfs is not permitted here";
  auto redis = RedisServer::start(path("redis"), true);
  auto postgres = PostgresServer::start(path("postgres"));
  ASSERT_TRUE(redis.ok() && postgres.ok());
  Program front(folder_, {"serve", "--port", std::to_string(port_), "--device", "cpu", "--queue",
                          redis->url(), "--store", postgres->url(), "--worker-program", FAKE_WORKER});
  ASSERT_TRUE(eventually(60, [&] { return ready() == 200; })) << front.err();
  Rng rng(Seed::from_number(2));
  std::vector<std::string> texts, ids;
  int acknowledged = 0;
  const auto submit = [&](const std::string& text) {
    const auto answer = client().post("/v1/evaluations", submission(text));
    if (!answer.ok() || answer->status >= 400) return answer.ok() ? answer->status : 0;
    texts.push_back(text);
    ids.push_back(json::parse(answer->body)["id"]);
    ++acknowledged;
    return 202;
  };
  ASSERT_EQ(submit("before sleep=2"), 202) << "its answer comes while the disk is full";
  disk.fill(log_is_full ? 0 : 1 << 20);
  if (log_is_full) {  // its next file has no room, which the server does not survive
    const auto connection = PostgresConnection::open(postgres->url());
    ASSERT_TRUE(connection.ok());
    (void)(*connection)->execute("SELECT pg_switch_wal()");
  }
  int status = 202;
  std::string refused;
  for (int i = 0; i < 200 && status == 202; ++i) status = submit(refused = large_text(rng, i));
  EXPECT_EQ(status, 503);
  EXPECT_LE(acknowledged, 10);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  EXPECT_EQ(submit(refused), 503) << "it is still full";
  EXPECT_EQ(ready(), 503);
  EXPECT_EQ(client().get("/healthz")->status, 200);
  EXPECT_THAT(front.err(),
              testing::HasSubstr(log_is_full ? "PostgreSQL at" : "make room on the server's disk"));

  disk.make_room();
  EXPECT_EQ(postgres->is_running(), !log_is_full);
  const bool is_up = postgres->is_running() || postgres->restart().ok();
  ASSERT_TRUE(is_up);
  EXPECT_TRUE(eventually(15, [&] { return ready() == 200; })) << front.err();
  EXPECT_EQ(submit(refused), 202);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    json last;
    EXPECT_TRUE(eventually(30, [&] {
      const auto answer = client().get("/v1/evaluations/" + ids[i] + "?wait=1");
      if (answer.ok() && answer->status == 200) last = json::parse(answer->body);
      return last.value("state", "") == "done";
    })) << last;
    EXPECT_EQ(last["verdict"]["reason"], digest_of(texts[i]).short_hex());
  }
  const json all = json::parse(client().get("/v1/evaluations?limit=1000")->body);
  for (const json& item : all["items"]) EXPECT_TRUE(seen.insert(item["id"].get<std::string>()).second);
  EXPECT_EQ(seen.size(), std::set<std::string>(ids.begin(), ids.end()).size());
}

TEST_F(FullPostgresTest, AcknowledgesNothingAndGoesOnWhenThereIsRoom) { run(false); }

TEST_F(FullPostgresTest, OfWhichTheServerEndsLosesNothingEither) { run(true); }

}  // namespace
}  // namespace lathe::serve
