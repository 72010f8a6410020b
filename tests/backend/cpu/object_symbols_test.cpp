#include "backend/cpu/object_symbols.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/fd.h"
#include "base/random.h"

int lathe_test_counter_of_objects = 0;

namespace lathe {
namespace {

TEST(ObjectSymbols, TellVariablesFromFunctions) {
  const auto bytes = read_file("/proc/self/exe");
  ASSERT_TRUE(bytes.ok());
  const auto symbols = symbols_of(*bytes);
  const auto counter = std::ranges::find(symbols, "lathe_test_counter_of_objects", &ObjectSymbol::name);
  ASSERT_NE(counter, symbols.end());
  EXPECT_EQ(counter->kind, ObjectSymbol::Kind::kVariable);
  // AddressSanitizer pads variables up to 64 bytes.
  EXPECT_GE(counter->bytes, sizeof lathe_test_counter_of_objects);
  EXPECT_LE(counter->bytes, 64u);
  EXPECT_TRUE(counter->writable && counter->starts_as_zero);
  const auto entry = std::ranges::find(symbols, "main", &ObjectSymbol::name);
  ASSERT_NE(entry, symbols.end());
  EXPECT_NE(entry->kind, ObjectSymbol::Kind::kVariable);
  EXPECT_FALSE(entry->writable);
}

TEST(ObjectSymbols, OfWhatIsNoObjectAreNone) {
  for (const char* bytes : {"", "\177ELF", "#!/bin/sh\nexit 0\n"}) EXPECT_TRUE(symbols_of(bytes).empty());
}

TEST(ObjectSymbols, SurviveDamage) {
  const auto bytes = read_file("/proc/self/exe");
  ASSERT_TRUE(bytes.ok());
  Elf64_Ehdr header;
  std::memcpy(&header, bytes->data(), sizeof header);
  const std::size_t sections = header.e_shnum * sizeof(Elf64_Shdr);
  // Small: a header, and the table of sections behind it.
  std::string small = bytes->substr(0, 4096) + bytes->substr(header.e_shoff, sections);
  header.e_shoff = 4096;
  std::memcpy(small.data(), &header, sizeof header);
  Rng rng(Seed::from_number(1));
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = small;
    for (int i = 0; i < 8; ++i) damaged[rng.below(damaged.size())] = static_cast<char>(rng.next());
    (void)symbols_of(damaged);
    (void)symbols_of(std::string_view(damaged).substr(0, rng.below(damaged.size())));
  }
}

}  // namespace
}  // namespace lathe
