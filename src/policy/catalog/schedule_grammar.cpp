#include "policy/catalog/schedule_grammar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <deque>
#include <unordered_map>

#include "policy/catalog/schedule_text.h"

namespace lathe::catalog {
namespace {

constexpr std::size_t kMostStates = 20'000;
constexpr std::uint64_t kRandomContinuations = 3;

/// What a text has behind its first `chosen` knobs: the literals between the slots, and these.
struct Rest {
  std::vector<std::string> literals;  ///< one more than slots
  std::vector<Slot> slots;
};

Rest rest_of(const Emission& emission, std::size_t chosen) {
  Rest rest;
  std::string literal;
  bool begun = false;
  std::size_t passed = 0;
  for (ScheduleLine& line : schedule_lines(emission)) {
    if (begun) literal += '\n';
    begun = true;
    literal += line.pattern;
    bool first = line.pattern.empty();
    for (Slot& slot : line.slots) {
      if (!first) literal += ' ';
      first = false;
      literal += slot.name + "=";
      if (passed++ >= chosen) {
        rest.literals.push_back(std::exchange(literal, ""));
        rest.slots.push_back(std::move(slot));
      } else {
        literal.clear();
      }
    }
  }
  rest.literals.push_back(literal);
  return rest;
}

void describe(const Rest& rest, std::string& text) {
  for (std::size_t i = 0; i < rest.slots.size(); ++i)
    text += fmt::format("{}{},", rest.literals[i], fmt::join(rest.slots[i].allowed, "|"));
  text += rest.literals.back() + "\f";
}

class GrammarBuilder {
 public:
  GrammarBuilder(const Graph& graph, const Target& target) : graph_(graph), target_(target) {}

  Result<TextGrammar> build() {
    LATHE_TRY(const std::int32_t begin, state_of({}, 0));
    if (const Beginning& root = beginnings_.front(); root.rest.slots.empty()) {
      const std::int32_t over = end();
      grammar_.states[0].edges.push_back({root.rest.literals.back(), over});
      return std::move(grammar_);
    }
    for (auto at = static_cast<std::size_t>(begin); at < beginnings_.size(); ++at) {
      if (beginnings_.size() > kMostStates)
        return invalid(
            fmt::format("the schedules of '{}' have too many forms for a grammar", graph_.task->name));
      const Beginning here = beginnings_[at];
      const Slot& slot = here.rest.slots.front();
      for (const int value : slot.allowed) {
        Schedule schedule = here.schedule;
        schedule[slot.knob] = value;
        LATHE_TRY(const std::int32_t to, state_of(std::move(schedule), here.chosen + 1));
        grammar_.states[static_cast<std::size_t>(here.state)].edges.push_back(
            {fmt::format("{}{}{}", here.rest.literals.front(), value, tail_), to});
      }
    }
    return std::move(grammar_);
  }

 private:
  /// A beginning of a text, for all that have the same rest.
  struct Beginning {
    Schedule schedule;
    std::size_t chosen = 0;
    std::int32_t state = 0;
    Rest rest;
  };

  /// The state behind a beginning; sets `tail_` to what follows it where nothing is left to choose.
  Result<std::int32_t> state_of(Schedule schedule, std::size_t chosen) {
    LATHE_TRY(const Emission usual, compile(graph_, schedule, nullptr, target_));
    Rest rest = rest_of(usual, chosen);
    tail_ = rest.slots.empty() ? rest.literals.back() : "";
    if (rest.slots.empty() && chosen > 0) return end();
    std::string signature = fmt::format("{}:", chosen);
    describe(rest, signature);
    for (std::uint64_t i = 1; i <= kRandomContinuations; ++i) {
      Rng rng(Seed::from_number(i));
      LATHE_TRY(const Emission random, compile(graph_, schedule, &rng, target_));
      describe(rest_of(random, chosen), signature);
    }
    const auto [found, fresh] = states_.try_emplace(std::move(signature), 0);
    if (fresh) {
      found->second = add_state();
      beginnings_.push_back({std::move(schedule), chosen, found->second, std::move(rest)});
    }
    return found->second;
  }

  std::int32_t add_state() {
    grammar_.states.emplace_back();
    return static_cast<std::int32_t>(grammar_.states.size()) - 1;
  }
  std::int32_t end() {
    if (end_ < 0) {
      end_ = add_state();
      grammar_.states.back().end = true;
    }
    return end_;
  }

  const Graph& graph_;
  const Target& target_;
  TextGrammar grammar_;
  std::deque<Beginning> beginnings_;
  std::unordered_map<std::string, std::int32_t> states_;
  std::string tail_;
  std::int32_t end_ = -1;
};

}  // namespace

Result<TextGrammar> schedule_grammar(const Graph& graph, const Target& target) {
  return GrammarBuilder(graph, target).build();
}

}  // namespace lathe::catalog
