#include <gmock/gmock.h>

#include "serve/redis_connection.h"

namespace lathe::serve {
namespace {

TEST(RedisUrl, HasUserPasswordHostPortAndDatabase) {
  const RedisUrl url = parse_redis_url("redis://me:a%40b%3a@example.org:7000/3").value();
  EXPECT_EQ(url.user, "me");
  EXPECT_EQ(url.password, "a@b:");
  EXPECT_EQ(url.place(), "example.org:7000/3");
  EXPECT_EQ(parse_redis_url("redis://").value().place(), "127.0.0.1:6379/0");
  EXPECT_EQ(parse_redis_url("redis://:p@h").value().password, "p");
  EXPECT_EQ(parse_redis_url("redis://[::1]:7000").value().host, "::1");
  EXPECT_EQ(parse_redis_url("Redis://h").value().host, "h") << "schemes mean the same in any case";
}

TEST(RedisUrl, WrongOnesAreRefusedWithoutTheirText) {
  for (const char* const text :
       {"http://secret", "REDISS://:secret@h", "Postgres://secret@h", "secret", "://secret",
        "redis://:secret@h:port", "redis://:secret%4@h", "redis://:secret%zz@h", "redis://:secret@h/one",
        "redis://:secret@h:70000", "rediss://:secret@h"}) {
    const auto url = parse_redis_url(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_THAT(url.error().to_string(), testing::Not(testing::HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace lathe::serve
