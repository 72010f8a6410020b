#pragma once

#include <charconv>
#include <string>
#include <vector>

#include "policy/policy.h"

namespace lathe {

/// Kernels on a ladder: fresh draws reach only its lowest rungs, a variation climbs one. Two cells:
/// even and odd rungs.
class Ladder final : public Variation {
 public:
  static constexpr const char* kName = "ladder";

  static std::string text(int rung) {
    return "/*lathe\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"x\", \"y\", \"n\"]\n*/\n// rung " +
           std::to_string(rung) + "\nextern \"C\" void f();\n";
  }
  static int rung_of(const std::string& text) {
    const std::string_view mark = "// rung ";
    int rung = -1;
    const std::size_t at = text.find(mark);
    if (at != std::string::npos)
      std::from_chars(text.data() + at + mark.size(), text.data() + text.size(), rung);
    return rung;
  }
  static Proposal proposal(int rung) { return {text(rung), {{}, kName, "random", ""}}; }

  Result<Proposal> mutate(const PolicyContext&, const Experience& parent, Rng&) override {
    return Proposal{text(rung_of(parent.candidate_text) + 1),
                    {{parent.candidate}, kName, "mutate", "one up"}};
  }
  Result<Proposal> cross(const PolicyContext& context, const Experience& parent, const Experience&,
                         Rng& rng) override {
    return mutate(context, parent, rng);
  }
  std::vector<int> cell(const Candidate& candidate) override { return {rung_of(candidate.text) % 2}; }
};

/// Draws from the lowest `fresh_rungs`.
inline std::unique_ptr<Policy> make_ladder(int fresh_rungs) {
  const auto draw = [fresh_rungs](const ProposalRequest& request) -> Result<std::vector<Proposal>> {
    Rng rng(request.seed);
    std::vector<Proposal> proposals;
    for (int i = 0; i < request.count; ++i)
      proposals.push_back(
          Ladder::proposal(static_cast<int>(rng.below(static_cast<std::uint64_t>(fresh_rungs)))));
    return proposals;
  };
  return make_policy(Ladder::kName, draw, RunsOn::kCaller, std::make_shared<Ladder>());
}

}  // namespace lathe
