#include "sandbox/memfd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "tests/sandbox/child.h"

namespace lathe {
namespace {

TEST(Memfd, KeepsItsSize) {
  const UniqueFd memory = make_memfd("sized", 2 * kPageBytes).value();
  EXPECT_EQ(::lseek(memory.get(), 0, SEEK_END), static_cast<off_t>(2 * kPageBytes));
  EXPECT_NE(::ftruncate(memory.get(), 0), 0);
  EXPECT_NE(::ftruncate(memory.get(), 4 * kPageBytes), 0);
}

TEST(Memfd, MappingsShareTheirBytes) {
  const UniqueFd memory = make_memfd("shared", kPageBytes).value();
  const Mapping writer = map_shared(memory, kPageBytes, true).value();
  const Mapping reader = map_shared(memory, kPageBytes, false).value();
  std::memcpy(writer.data(), "hello", 6);
  EXPECT_STREQ(reinterpret_cast<const char*>(reader.data()), "hello");
}

TEST(Memfd, TakesBytesAnywhereWithinItsSize) {
  const UniqueFd memory = make_memfd("written", kPageBytes).value();
  const std::array bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(write_at(memory, kPageBytes - bytes.size(), bytes).ok());
  const Mapping reader = map_shared(memory, kPageBytes, false).value();
  EXPECT_EQ(reader.data()[kPageBytes - 4], std::byte{0});
  EXPECT_EQ(reader.data()[kPageBytes - 1], std::byte{3});
  EXPECT_FALSE(write_at(memory, kPageBytes - 1, bytes).ok());
}

TEST(SealedMemfd, HoldsItsBytesAgainstEveryChange) {
  const UniqueFd memory = make_sealed_memfd("sealed", "text").value();
  EXPECT_EQ(::pwrite(memory.get(), "x", 1, 0), -1);
  EXPECT_NE(::ftruncate(memory.get(), 2), 0);
  EXPECT_NE(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  EXPECT_FALSE(map_shared(memory, 4, true).ok());
  const Mapping bytes = map_shared(memory, 4, false).value();
  EXPECT_EQ(std::memcmp(bytes.data(), "text", 4), 0);
}

TEST(SealedMemfd, MayBeEmpty) {
  const UniqueFd memory = make_sealed_memfd("empty", "").value();
  EXPECT_EQ(::lseek(memory.get(), 0, SEEK_END), 0);
  EXPECT_EQ(map_shared(memory, 0, false)->size(), 0u);
}

TEST(ReadOnlyMemfd, CannotBeMappedForWritingWhileTheOriginalCan) {
  const UniqueFd memory = make_memfd("inputs", kPageBytes).value();
  const UniqueFd view = reopen_read_only(memory).value();
  EXPECT_FALSE(map_shared(view, kPageBytes, true).ok());
  EXPECT_TRUE(map_shared(memory, kPageBytes, true).ok());
  const Mapping bytes = map_shared(view, kPageBytes, false).value();
  EXPECT_NE(::mprotect(bytes.data(), kPageBytes, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(outcome_of_child([&] {
              ::signal(SIGSEGV, SIG_DFL);
              *reinterpret_cast<volatile char*>(bytes.data()) = 1;
              return 0;
            }),
            -SIGSEGV);
}

TEST(RoundToPages, RoundsUp) {
  EXPECT_EQ(round_to_pages(0), 0u);
  EXPECT_EQ(round_to_pages(1), kPageBytes);
  EXPECT_EQ(round_to_pages(kPageBytes), kPageBytes);
}

}  // namespace
}  // namespace lathe
