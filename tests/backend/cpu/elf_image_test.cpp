#include "backend/cpu/elf_image.h"

#include <gtest/gtest.h>

#include "base/fd.h"
#include "base/random.h"

namespace lathe {
namespace {

TEST(ElfImage, RefusesAnythingButASharedObject) {
  for (const char* bytes : {"", "\177ELF", "#!/bin/sh\nexit 0\n"}) {
    const auto image = parse_elf(bytes);
    ASSERT_FALSE(image.ok());
    EXPECT_EQ(image.error().reason, "bad_elf");
  }
}

TEST(ElfImage, RefusesALibraryThatDependsOnAnother) {
  const auto bytes = read_file("/proc/self/exe");
  ASSERT_TRUE(bytes.ok());
  const auto image = parse_elf(*bytes);
  ASSERT_FALSE(image.ok());
  EXPECT_NE(image.error().reason, "");
}

TEST(ElfImage, SurvivesDamagedHeaders) {
  auto bytes = read_file("/proc/self/exe");
  ASSERT_TRUE(bytes.ok());
  bytes->resize(1 << 16);
  Rng rng(Seed::from_number(1));
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = *bytes;
    for (int i = 0; i < 8; ++i) damaged[rng.below(1024)] = static_cast<char>(rng.next());
    (void)parse_elf(damaged);
  }
}

}  // namespace
}  // namespace lathe
