#include "model/text_grammar.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <span>

namespace lathe {
namespace {

/// The grammar byte by byte, made deterministic: a place is the set of edges that a text may be in.
class BytePlaces {
 public:
  explicit BytePlaces(const TextGrammar& grammar) : grammar_(grammar) {
    Place first;
    enter(0, first);
    begin_ = add(std::move(first));
  }

  std::int32_t begin() const { return begin_; }
  bool may_end(std::int32_t place) const { return places_[static_cast<std::size_t>(place)].end; }

  const std::map<unsigned char, std::int32_t>& next(std::int32_t place) {
    const auto at = static_cast<std::size_t>(place);
    if (!places_[at].next) {
      std::map<unsigned char, Place> reached;
      for (const Position& position : places_[at].positions) {
        const TextGrammar::Edge& edge = edge_of(position);
        Place& to = reached[static_cast<unsigned char>(edge.text[position.offset])];
        if (position.offset + 1 < edge.text.size())
          to.positions.insert({position.state, position.edge, position.offset + 1});
        else
          enter(edge.to, to);
      }
      std::map<unsigned char, std::int32_t> numbers;
      for (auto& [byte, to] : reached) numbers[byte] = add(std::move(to));
      places_[at].next = std::move(numbers);
    }
    return *places_[at].next;
  }

 private:
  struct Position {
    std::int32_t state = 0;
    std::size_t edge = 0, offset = 0;
    auto operator<=>(const Position&) const = default;
  };
  struct Place {
    std::set<Position> positions;
    bool end = false;
    std::optional<std::map<unsigned char, std::int32_t>> next = {};
  };

  const TextGrammar::Edge& edge_of(const Position& position) const {
    return grammar_.states[static_cast<std::size_t>(position.state)].edges[position.edge];
  }
  void enter(std::int32_t state, Place& place) const {
    const TextGrammar::State& entered = grammar_.states[static_cast<std::size_t>(state)];
    place.end = place.end || entered.end;
    for (std::size_t edge = 0; edge < entered.edges.size(); ++edge) place.positions.insert({state, edge, 0});
  }
  std::int32_t add(Place place) {
    const auto [found, fresh] =
        numbers_.try_emplace({place.positions, place.end}, static_cast<std::int32_t>(places_.size()));
    if (fresh) places_.push_back(std::move(place));
    return found->second;
  }

  const TextGrammar& grammar_;
  std::deque<Place> places_;
  std::map<std::pair<std::set<Position>, bool>, std::int32_t> numbers_;
  std::int32_t begin_ = 0;
};

using Word = std::pair<std::string_view, TokenId>;

/// Calls `found(token, place)` for each token that leads from `place` to another; `words` are
/// sorted and agree in their first `depth` bytes.
template <class Found>
void each_token(BytePlaces& places, std::int32_t place, std::span<const Word> words, std::size_t depth,
                const Found& found) {
  for (; !words.empty() && words.front().first.size() == depth; words = words.subspan(1))
    if (depth > 0) found(words.front().second, place);
  if (words.empty()) return;
  for (const auto& [byte, to] : places.next(place)) {
    const auto byte_of = [depth](const Word& word) { return static_cast<unsigned char>(word.first[depth]); };
    const auto first = std::ranges::lower_bound(words, byte, {}, byte_of);
    const auto last = std::ranges::upper_bound(words, byte, {}, byte_of);
    each_token(places, to, {first, last}, depth + 1, found);
  }
}

}  // namespace

bool TextGrammar::accepts(std::string_view text) const {
  BytePlaces places(*this);
  std::int32_t place = places.begin();
  for (const char c : text) {
    const auto& next = places.next(place);
    const auto found = next.find(static_cast<unsigned char>(c));
    if (found == next.end()) return false;
    place = found->second;
  }
  return places.may_end(place);
}

std::int64_t TextGrammar::longest_text() const {
  std::vector<std::int64_t> longest(states.size(), -1);
  const auto measure = [&](const auto& self, std::int32_t state) -> std::int64_t {
    std::int64_t& known = longest[static_cast<std::size_t>(state)];
    if (known >= 0) return known;
    std::int64_t most = 0;
    for (const Edge& edge : states[static_cast<std::size_t>(state)].edges)
      most = std::max(most, static_cast<std::int64_t>(edge.text.size()) + self(self, edge.to));
    return known = most;
  };
  return measure(measure, 0);
}

Result<std::shared_ptr<const TokenAutomaton>> token_automaton(const TextGrammar& grammar,
                                                              const Tokenizer& tokenizer, TokenId end) {
  std::vector<Word> words;
  for (TokenId token = 0; token < tokenizer.size(); ++token)
    if (const auto bytes = tokenizer.bytes(token); !bytes.empty() && !tokenizer.is_special(token))
      words.push_back({bytes, token});
  std::ranges::sort(words);

  BytePlaces places(grammar);
  const auto automaton = std::make_shared<TokenAutomaton>();
  std::map<std::int32_t, std::int32_t> numbers = {{places.begin(), 0}};  // of places where tokens end
  std::vector<std::int32_t> reached = {places.begin()};
  constexpr std::int32_t kOver = -2;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    TokenAutomaton::State state;
    each_token(places, reached[i], words, 0, [&](TokenId token, std::int32_t place) {
      const auto [found, fresh] = numbers.try_emplace(place, static_cast<std::int32_t>(reached.size()));
      if (fresh) reached.push_back(place);
      state.arrows.push_back({token, found->second});
    });
    if (places.may_end(reached[i])) state.arrows.push_back({end, kOver});
    if (state.arrows.empty()) return invalid("the tokenizer cannot write all texts of a grammar");
    std::ranges::sort(state.arrows, {}, &TokenAutomaton::Arrow::token);
    automaton->states.push_back(std::move(state));
  }
  const auto over = static_cast<std::int32_t>(automaton->states.size());
  for (auto& state : automaton->states)
    for (auto& arrow : state.arrows)
      if (arrow.to == kOver) arrow.to = over;
  automaton->states.emplace_back();
  return std::shared_ptr<const TokenAutomaton>(automaton);
}

}  // namespace lathe
