#include "data/fault.h"

#include <gmock/gmock.h>

#include <set>

namespace lathe {
namespace {

constexpr std::string_view kKernel =
    "/*lathe\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"x\", \"y\", \"n\"]\n*/\n"
    "void f(const float* __restrict__ p_x, float* __restrict__ p_y, int64_t n_K) {\n"
    "  const f32v t0 = load(p_x + i * n_K, lanes);\n"
    "  const f32v t1 = t0 - t0;\n"
    "  if (at < stop) body(at, first_lanes(stop - at));\n"
    "}\n";

std::vector<FaultyKernel> drawn(int count, std::uint64_t seed = 1) {
  Rng rng(Seed::from_number(seed));
  return inject_faults(kKernel, count, rng);
}

TEST(Fault, IsOneChangeOfTheKernel) {
  std::set<std::string> texts, faults;
  for (const FaultyKernel& faulty : drawn(6)) {
    EXPECT_NE(faulty.text, kKernel);
    EXPECT_FALSE(faulty.repair.empty());
    texts.insert(faulty.text);
    faults.insert(faulty.fault);
  }
  EXPECT_EQ(texts.size(), 6u);
  EXPECT_EQ(faults.size(), 6u);
}

TEST(Fault, FollowsFromTheSeed) {
  EXPECT_EQ(drawn(3, 4)[2].text, drawn(3, 4)[2].text);
  std::set<std::string> first;
  for (std::uint64_t seed = 0; seed < 20; ++seed) first.insert(drawn(1, seed)[0].text);
  EXPECT_GT(first.size(), 3u);
}

TEST(Fault, OfTextsThatHaveNoPlaceForOneIsNone) {
  Rng rng(Seed::from_number(1));
  EXPECT_TRUE(inject_faults("", 3, rng).empty());
  EXPECT_TRUE(inject_faults("nothing here", 3, rng).empty());
  EXPECT_TRUE(inject_faults("/*lathe", 3, rng).empty());
}

}  // namespace
}  // namespace lathe
