#include "model/text_grammar.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

namespace lathe {
namespace {

/// The grammar byte by byte, made deterministic: a place is the set of edges that a text may be in.
class BytePlaces {
 public:
  static constexpr std::int32_t kNone = -1;
  using Next = std::array<std::int32_t, 256>;  ///< by byte: a place, or kNone

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
      auto numbers = std::make_unique<Next>();
      numbers->fill(kNone);
      for (auto& [byte, to] : reached) (*numbers)[byte] = add(std::move(to));
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
    std::unique_ptr<const Next> next = {};
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

/// The bytes of all tokens but special ones, beginnings shared.
class TokenTree {
 public:
  explicit TokenTree(const Tokenizer& tokenizer) {
    std::vector<std::pair<std::string_view, TokenId>> words;
    for (TokenId token = 0; token < tokenizer.size(); ++token)
      if (const auto bytes = tokenizer.bytes(token); !bytes.empty() && !tokenizer.is_special(token))
        words.push_back({bytes, token});
    std::ranges::sort(words);
    std::vector<std::size_t> path;  // nodes from the first byte to the last one of the word before
    std::string_view before;
    for (const auto& [bytes, token] : words) {
      const std::size_t same = bytes == before ? bytes.size() - 1 : shared(bytes, before);
      leave(path, same);
      for (std::size_t i = same; i < bytes.size(); ++i) {
        path.push_back(nodes_.size());
        nodes_.push_back({static_cast<unsigned char>(bytes[i])});
      }
      nodes_.back().token = token;
      before = bytes;
    }
    leave(path, 0);
  }

  /// Calls `found(token, place)` for each token that leads from `place` to another.
  template <class Found>
  void each_token(BytePlaces& places, std::int32_t place, const Found& found) const {
    walk(places, place, 0, nodes_.size(), found);
  }

 private:
  struct Node {
    unsigned char byte = 0;
    TokenId token = kNoToken;  ///< that ends here
    std::size_t end = 0;       ///< the first node behind those that begin with this one
  };
  static constexpr TokenId kNoToken = -1;

  static std::size_t shared(std::string_view a, std::string_view b) {
    return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  }
  void leave(std::vector<std::size_t>& path, std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes_[path.back()].end = nodes_.size();
  }

  template <class Found>
  void walk(BytePlaces& places, std::int32_t place, std::size_t node, std::size_t end,
            const Found& found) const {
    const bool open = places.is_open(place);
    const BytePlaces::Next* const next = open ? nullptr : &places.next(place);
    for (; node < end; node = open ? node + 1 : nodes_[node].end) {
      const Node& here = nodes_[node];
      const std::int32_t to = open ? place : (*next)[here.byte];
      if (to == BytePlaces::kNone) continue;
      if (here.token != kNoToken) found(here.token, to);
      if (!open) walk(places, to, node + 1, here.end, found);
    }
  }

  std::vector<Node> nodes_;  ///< a node's own follow it
};

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
    place = places.next(place)[static_cast<unsigned char>(c)];
    if (place == BytePlaces::kNone) return false;
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
  const TokenTree tree(tokenizer);
  BytePlaces places(grammar);
  const auto automaton = std::make_shared<TokenAutomaton>();
  std::vector<std::int32_t> reached;  // places where tokens end
  std::vector<std::int32_t> numbers;  // by place: of the state
  const auto number_of = [&](std::int32_t place) {
    const auto at = static_cast<std::size_t>(place);
    if (at >= numbers.size()) numbers.resize(2 * at + 1, BytePlaces::kNone);
    if (numbers[at] == BytePlaces::kNone) {
      numbers[at] = static_cast<std::int32_t>(reached.size());
      reached.push_back(place);
    }
    return numbers[at];
  };
  number_of(places.begin());
  constexpr std::int32_t kOver = -2;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    TokenAutomaton::State state;
    if (places.is_open(reached[i])) {
      state.otherwise = static_cast<std::int32_t>(i);
      state.arrows.push_back({end, kOver});
      automaton->states.push_back(std::move(state));
      continue;
    }
    tree.each_token(places, reached[i], [&](TokenId token, std::int32_t place) {
      state.arrows.push_back({token, number_of(place)});
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
