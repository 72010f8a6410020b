#pragma once

#include <charconv>
#include <string>
#include <vector>

#include "policy/policy.h"

namespace lathe {

/// Kernels on a ladder: fresh draws reach only its lowest rungs, a variation climbs one. Two cells: even and
/// odd rungs.
class LadderPolicy final : public Policy {
 public:
  explicit LadderPolicy(int fresh_rungs) : fresh_rungs_(fresh_rungs) {}

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

  std::string name() const override { return "ladder"; }
  Result<std::vector<Proposal>> propose(const PolicyContext&, int count, Rng& rng) override {
    std::vector<Proposal> proposals;
    for (int i = 0; i < count; ++i)
      proposals.push_back({text(static_cast<int>(rng.below(static_cast<std::uint64_t>(fresh_rungs_)))),
                           {{}, name(), "random", ""}});
    return proposals;
  }
  Result<Proposal> draw(const PolicyContext& context, Rng& rng) override {
    LATHE_TRY(const auto proposals, propose(context, 1, rng));
    return proposals.front();
  }
  Result<Proposal> vary(const PolicyContext&, const Experience& parent, const Experience*, Rng&) override {
    return Proposal{text(rung_of(parent.candidate_text) + 1),
                    {{parent.candidate}, name(), "mutate", "one up"}};
  }
  std::vector<int> behaviour(const PolicyContext&, const Candidate& candidate) override {
    return {rung_of(candidate.text) % 2};
  }

 private:
  int fresh_rungs_;
};

}  // namespace lathe
