#include "model/text_grammar.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <tuple>

namespace lathe {
namespace {

/// The grammar byte by byte, made deterministic: a place is the set of edges that a text may be in.
class BytePlaces {
 public:
  using Next = std::map<unsigned char, std::int32_t>;

  explicit BytePlaces(const TextGrammar& grammar) : grammar_(grammar) {
    Place first;
    enter(0, first);
    begin_ = add(std::move(first));
  }

  std::int32_t begin() const { return begin_; }
  bool may_end(std::int32_t place) const { return at(place).end; }
  bool is_open(std::int32_t place) const { return at(place).open; }

  /// Not of an open place, which every byte leads back to.
  const Next& next(std::int32_t place) {
    if (!at(place).next) {
      std::map<unsigned char, Place> reached;
      for (const Position& position : at(place).positions) step(position, reached);
      Next numbers;
      for (auto& [byte, to] : reached) numbers[byte] = add(std::move(to));
      places_[static_cast<std::size_t>(place)].next = std::move(numbers);
    }
    return *at(place).next;
  }

 private:
  struct Position {
    std::int32_t state = 0;
    std::size_t edge = 0, offset = 0;
    auto operator<=>(const Position&) const = default;
  };
  struct Place {
    std::set<Position> positions = {};
    bool end = false, open = false;
    std::set<std::int32_t> entered = {};
    std::optional<Next> next = {};
  };

  const Place& at(std::int32_t place) const { return places_[static_cast<std::size_t>(place)]; }

  /// How much of `text` has been written when `byte` follows its first `offset` bytes.
  static std::size_t matched(std::string_view text, std::size_t offset, unsigned char byte) {
    const std::string written = std::string(text.substr(0, offset)) + static_cast<char>(byte);
    std::size_t length = written.size();
    while (!written.ends_with(text.substr(0, length))) --length;
    return length;
  }

  void step(const Position& position, std::map<unsigned char, Place>& reached) const {
    const TextGrammar::Edge& edge =
        grammar_.states[static_cast<std::size_t>(position.state)].edges[position.edge];
    const auto go_on = [&](unsigned char byte, std::size_t offset) {
      if (offset < edge.text.size())
        reached[byte].positions.insert({position.state, position.edge, offset});
      else
        enter(edge.to, reached[byte]);
    };
    if (!edge.late) return go_on(static_cast<unsigned char>(edge.text[position.offset]), position.offset + 1);
    for (int byte = 0; byte < 256; ++byte)
      go_on(static_cast<unsigned char>(byte),
            matched(edge.text, position.offset, static_cast<unsigned char>(byte)));
  }

  void enter(std::int32_t state, Place& place) const {
    if (!place.entered.insert(state).second) return;
    const TextGrammar::State& entered = grammar_.states[static_cast<std::size_t>(state)];
    place.open = place.open || entered.open;
    place.end = place.end || entered.end || entered.open;
    for (std::size_t edge = 0; edge < entered.edges.size(); ++edge)
      if (entered.edges[edge].text.empty())
        enter(entered.edges[edge].to, place);
      else
        place.positions.insert({state, edge, 0});
  }

  std::int32_t add(Place place) {
    if (place.open) place.positions.clear();
    const auto [found, fresh] = numbers_.try_emplace({place.positions, place.end, place.open},
                                                     static_cast<std::int32_t>(places_.size()));
    if (fresh) places_.push_back(std::move(place));
    return found->second;
  }

  const TextGrammar& grammar_;
  std::deque<Place> places_;
  std::map<std::tuple<std::set<Position>, bool, bool>, std::int32_t> numbers_;
  std::int32_t begin_ = 0;
};

using Word = std::pair<std::string_view, TokenId>;

/// Calls `found(token, place)` for each token that leads from `place` to another; `words` are
/// sorted and agree in their first `depth` bytes.
template <class Found>
void each_token(BytePlaces& places, std::int32_t place, std::span<const Word> words, std::size_t depth,
                const Found& found) {
  if (places.is_open(place)) {
    for (const Word& word : words) found(word.second, place);
    return;
  }
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

/// The same state with as few arrows as possible: where most tokens lead to one place, the others
/// are its exceptions.
TokenAutomaton::State shortened(TokenAutomaton::State state, TokenId tokens) {
  std::map<std::int32_t, std::size_t> counts;
  for (const auto& arrow : state.arrows) ++counts[arrow.to];
  const auto most = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
  if (most == counts.end()) return state;
  const std::size_t exceptions = static_cast<std::size_t>(tokens) - most->second;
  if (exceptions >= state.arrows.size()) return state;
  TokenAutomaton::State shorter{.arrows = {}, .otherwise = most->first};
  auto arrow = state.arrows.begin();
  for (TokenId token = 0; token < tokens; ++token) {
    const bool named = arrow != state.arrows.end() && arrow->token == token;
    const std::int32_t to = named ? (arrow++)->to : TokenAutomaton::kForbidden;
    if (to != shorter.otherwise) shorter.arrows.push_back({token, to});
  }
  return shorter;
}

}  // namespace

bool TextGrammar::accepts(std::string_view text) const {
  BytePlaces places(*this);
  std::int32_t place = places.begin();
  for (const char c : text) {
    if (places.is_open(place)) return true;
    const auto& next = places.next(place);
    const auto found = next.find(static_cast<unsigned char>(c));
    if (found == next.end()) return false;
    place = found->second;
  }
  return places.may_end(place);
}

std::optional<std::int64_t> TextGrammar::longest_text() const {
  constexpr std::int64_t kUnknown = -1, kEntered = -2, kEndless = -3;
  std::vector<std::int64_t> longest(states.size(), kUnknown);
  const auto measure = [&](const auto& self, std::int32_t state) -> std::int64_t {
    std::int64_t& known = longest[static_cast<std::size_t>(state)];
    if (known == kEntered) return known = kEndless;
    if (known != kUnknown) return known;
    known = kEntered;
    const State& here = states[static_cast<std::size_t>(state)];
    std::int64_t most = here.open ? kEndless : 0;
    for (const Edge& edge : here.edges) {
      const std::int64_t rest = self(self, edge.to);
      if (edge.late || rest == kEndless) most = kEndless;
      if (most != kEndless) most = std::max(most, static_cast<std::int64_t>(edge.text.size()) + rest);
    }
    return known = most;
  };
  const std::int64_t most = measure(measure, 0);
  return most == kEndless ? std::nullopt : std::optional(most);
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
    if (places.is_open(reached[i])) {
      state.otherwise = static_cast<std::int32_t>(i);
      state.arrows.push_back({end, kOver});
      automaton->states.push_back(std::move(state));
      continue;
    }
    each_token(places, reached[i], words, 0, [&](TokenId token, std::int32_t place) {
      const auto [found, fresh] = numbers.try_emplace(place, static_cast<std::int32_t>(reached.size()));
      if (fresh) reached.push_back(place);
      state.arrows.push_back({token, found->second});
    });
    if (places.may_end(reached[i])) state.arrows.push_back({end, kOver});
    if (state.arrows.empty()) return invalid("the tokenizer cannot write all texts of a grammar");
    std::ranges::sort(state.arrows, {}, &TokenAutomaton::Arrow::token);
    automaton->states.push_back(shortened(std::move(state), tokenizer.size()));
  }
  const auto over = static_cast<std::int32_t>(automaton->states.size());
  for (auto& state : automaton->states)
    for (auto& arrow : state.arrows)
      if (arrow.to == kOver) arrow.to = over;
  automaton->states.emplace_back();
  return std::shared_ptr<const TokenAutomaton>(automaton);
}

}  // namespace lathe
