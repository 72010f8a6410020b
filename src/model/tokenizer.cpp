#include "model/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <queue>
#include <unordered_map>

#include "base/visible_text.h"
#include "model/tokenizer_builder.h"

namespace lathe {
namespace {

constexpr std::int32_t kNoRank = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kShortPiece = 64;  // bytes up to which looking at all pairs beats a queue
constexpr std::size_t kMostTokens = 1 << 24;

}  // namespace

/// (left, right) -> (rank, merged), open addressing.
class MergeTable {
 public:
  struct Merge {
    std::int32_t rank = kNoRank;
    TokenId merged = 0;
  };

  void reserve(std::size_t count) {
    std::size_t size = 16;
    while (size < 2 * count) size *= 2;
    slots_.assign(size, {});
  }

  /// Whether the pair is new.
  bool add(TokenId left, TokenId right, Merge merge) {
    Slot& slot = slots_[place(key_of(left, right))];
    if (slot.key == key_of(left, right)) return false;
    slot = {key_of(left, right), merge};
    return true;
  }

  Merge find(TokenId left, TokenId right) const {
    const std::uint64_t key = key_of(left, right);
    const Slot& slot = slots_[place(key)];
    return slot.key == key ? slot.merge : Merge{};
  }

 private:
  static constexpr std::uint64_t kEmpty = std::numeric_limits<std::uint64_t>::max();
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };

  static std::uint64_t key_of(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t place(std::uint64_t key) const {
    std::size_t at = (key * 0x9e3779b97f4a7c15) >> 20 & (slots_.size() - 1);
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;
};

struct Tokenizer::Tables {
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  bool normalises_nfc = false;
  bool ignores_merges = false;
  std::string text;  ///< of all tokens; views below point into it
  std::vector<std::string_view> bytes;
  std::vector<bool> special;
  std::unordered_map<std::string_view, TokenId> ids;  ///< of what merging makes
  std::array<TokenId, 256> byte_ids{};                ///< -1: no such token
  MergeTable merges;
  /// User-defined tokens and specials by their first byte, longest first.
  std::array<std::vector<TokenId>, 256> whole;
  std::unordered_map<std::string_view, TokenId> whole_ids;
  std::optional<TokenId> bos;
  bool adds_bos = false;
  std::vector<TokenId> stops;
  Digest digest;
};

namespace {

/// Merges the bytes of one piece, the pair of lowest rank first and of equal ones the leftmost.
class Merger {
 public:
  Merger(const MergeTable& merges, const std::array<TokenId, 256>& byte_ids)
      : merges_(merges), byte_ids_(byte_ids) {}

  void merge(std::string_view piece, std::vector<TokenId>& to) {
    ids_.clear();
    for (const char c : piece) {
      const TokenId id = byte_ids_[static_cast<unsigned char>(c)];
      if (id >= 0) ids_.push_back(id);
    }
    if (ids_.size() <= kShortPiece) {
      merge_short();
      to.insert(to.end(), ids_.begin(), ids_.end());
    } else {
      merge_long(to);
    }
  }

 private:
  struct Symbol {
    TokenId id;
    std::int32_t before;
    std::int32_t after;  ///< -1: none
  };
  struct Pair {
    std::int32_t rank;
    std::int32_t left;
    std::int32_t right;
    TokenId left_id;
    TokenId right_id;
    TokenId merged;
    bool operator>(const Pair& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

  void merge_short() {
    pairs_.clear();
    for (std::size_t i = 0; i + 1 < ids_.size(); ++i) pairs_.push_back(merges_.find(ids_[i], ids_[i + 1]));
    const auto lower = [](const auto& a, const auto& b) { return a.rank < b.rank; };
    while (!pairs_.empty()) {
      const auto best = std::min_element(pairs_.begin(), pairs_.end(), lower);
      if (best->rank == kNoRank) return;
      const auto at = static_cast<std::size_t>(best - pairs_.begin());
      ids_[at] = best->merged;
      ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      pairs_.erase(best);
      if (at > 0) pairs_[at - 1] = merges_.find(ids_[at - 1], ids_[at]);
      if (at < pairs_.size()) pairs_[at] = merges_.find(ids_[at], ids_[at + 1]);
    }
  }

  void merge_long(std::vector<TokenId>& to) {
    symbols_.clear();
    const auto count = static_cast<std::int32_t>(ids_.size());
    for (std::int32_t i = 0; i < count; ++i)
      symbols_.push_back({ids_[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
    const auto at = [&](std::int32_t i) -> Symbol& { return symbols_[static_cast<std::size_t>(i)]; };
    std::priority_queue<Pair, std::vector<Pair>, std::greater<>> queue;
    const auto offer = [&](std::int32_t left, std::int32_t right) {
      if (left < 0 || right < 0) return;
      const MergeTable::Merge merge = merges_.find(at(left).id, at(right).id);
      if (merge.rank != kNoRank)
        queue.push({merge.rank, left, right, at(left).id, at(right).id, merge.merged});
    };
    for (std::int32_t i = 0; i + 1 < count; ++i) offer(i, i + 1);
    while (!queue.empty()) {
      const Pair pair = queue.top();
      queue.pop();
      Symbol& left = at(pair.left);
      Symbol& right = at(pair.right);
      if (left.id != pair.left_id || right.id != pair.right_id || left.after != pair.right) continue;
      left.id = pair.merged;
      left.after = right.after;
      right.id = -1;
      if (left.after >= 0) at(left.after).before = pair.left;
      offer(left.before, pair.left);
      offer(pair.left, left.after);
    }
    for (const Symbol& symbol : symbols_)
      if (symbol.id >= 0) to.push_back(symbol.id);
  }

  const MergeTable& merges_;
  const std::array<TokenId, 256>& byte_ids_;
  std::vector<TokenId> ids_;
  std::vector<MergeTable::Merge> pairs_;
  std::vector<Symbol> symbols_;
};

/// Pieces of this text that were merged before: where in the result their ids stand.
class PieceCache {
 public:
  explicit PieceCache(std::size_t text_bytes) : slots_(text_bytes < 4096 ? 0 : kSlots) {}

  struct Slot {
    std::string_view piece;
    std::size_t first = 0;
    std::size_t count = 0;
  };
  /// Where `piece` is kept or would be kept; nullptr if nothing is kept.
  Slot* slot_of(std::string_view piece) {
    if (slots_.empty() || piece.size() > kShortPiece) return nullptr;
    return &slots_[std::hash<std::string_view>()(piece) % kSlots];
  }

 private:
  static constexpr std::size_t kSlots = 1 << 13;
  std::vector<Slot> slots_;
};

}  // namespace

std::vector<TokenId> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  const Tables& tables = *tables_;
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 4);
  Merger merger(tables.merges, tables.byte_ids);
  PieceCache cache(text.size());
  std::vector<std::string_view> pieces;
  std::deque<std::string> composed;  // the cache points into these

  const auto add_piece = [&](std::string_view piece) {
    if (tables.ignores_merges) {
      if (const auto found = tables.ids.find(piece); found != tables.ids.end())
        return ids.push_back(found->second);
    }
    PieceCache::Slot* slot = cache.slot_of(piece);
    if (slot != nullptr && slot->piece == piece) {
      for (std::size_t i = 0; i < slot->count; ++i) ids.push_back(ids[slot->first + i]);
      return;
    }
    const std::size_t first = ids.size();
    merger.merge(piece, ids);
    if (slot != nullptr) *slot = {piece, first, ids.size() - first};
  };
  const auto add_valid = [&](std::string_view part) {
    if (tables.normalises_nfc && may_need_nfc(part)) {
      std::string normal = to_nfc(part);
      if (normal != part) part = composed.emplace_back(std::move(normal));
    }
    pieces.clear();
    split_text(tables.pre_tokenizer, part, pieces);
    for (const std::string_view piece : pieces) add_piece(piece);
  };
  const auto add_text = [&](std::string_view part) {
    while (!part.empty()) {
      const TextRun run = next_run(part);
      run.is_valid ? add_valid(run.text) : add_piece(run.text);
      part.remove_prefix(run.text.size());
    }
  };

  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto& here = tables.whole[static_cast<unsigned char>(text[at])];
    if (here.empty()) continue;
    const auto found = std::find_if(here.begin(), here.end(), [&](TokenId id) {
      return (special == SpecialTokens::kParse || !is_special(id)) && text.substr(at).starts_with(bytes(id));
    });
    if (found == here.end()) continue;
    add_text(text.substr(begin, at - begin));
    ids.push_back(*found);
    begin = at + bytes(*found).size();
    at = begin - 1;
  }
  add_text(text.substr(begin));
  return ids;
}

std::int32_t Tokenizer::size() const { return static_cast<std::int32_t>(tables_->bytes.size()); }

std::string_view Tokenizer::bytes(TokenId id) const {
  return id >= 0 && id < size() ? tables_->bytes[static_cast<std::size_t>(id)] : std::string_view();
}

bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && id < size() && tables_->special[static_cast<std::size_t>(id)];
}

std::optional<TokenId> Tokenizer::find(std::string_view token_bytes) const {
  for (const auto* map : {&tables_->whole_ids, &tables_->ids})
    if (const auto found = map->find(token_bytes); found != map->end()) return found->second;
  return std::nullopt;
}

std::optional<TokenId> Tokenizer::bos() const { return tables_->bos; }
bool Tokenizer::adds_bos() const { return tables_->adds_bos; }
const std::vector<TokenId>& Tokenizer::stops() const { return tables_->stops; }
const Digest& Tokenizer::digest() const { return tables_->digest; }

std::string Tokenizer::decode(std::span<const TokenId> ids, bool with_special) const {
  std::string text;
  for (const TokenId id : ids)
    if (with_special || !is_special(id)) text += bytes(id);
  return text;
}

Result<Tokenizer> TokenizerBuilder::build() && {
  const auto damaged = [&](std::string what) {
    return Error{
        ErrorCode::kCorrupt, std::move(what), "the tokenizer is damaged; fetch the model again", {file}};
  };
  if (tokens.empty() || tokens.size() > kMostTokens)
    return damaged(fmt::format("the vocabulary has {} tokens", tokens.size()));
  const auto count = static_cast<TokenId>(tokens.size());
  const auto exists = [&](TokenId id) {
    return id >= 0 && id < count && tokens[static_cast<std::size_t>(id)].kind != Kind::kNone;
  };

  auto tables = std::make_shared<Tokenizer::Tables>();
  tables->pre_tokenizer = pre_tokenizer;
  tables->normalises_nfc = normalises_nfc;
  tables->ignores_merges = ignores_merges;
  std::size_t text_bytes = 0;
  for (const Token& token : tokens) text_bytes += token.bytes.size();
  tables->text.reserve(text_bytes);
  tables->byte_ids.fill(-1);
  tables->ids.reserve(tokens.size());
  Hasher hasher;
  hasher.add("lathe tokenizer 1").add(static_cast<std::int64_t>(pre_tokenizer));
  hasher.add(std::int64_t{normalises_nfc}).add(std::int64_t{ignores_merges});
  for (TokenId id = 0; id < count; ++id) {
    const Token& token = tokens[static_cast<std::size_t>(id)];
    const std::size_t begin = tables->text.size();
    if (token.kind != Kind::kNone) tables->text += token.bytes;
    const std::string_view bytes = std::string_view(tables->text).substr(begin);
    tables->bytes.push_back(bytes);
    tables->special.push_back(token.kind == Kind::kControl);
    hasher.add(bytes).add(static_cast<std::int64_t>(token.kind));
    if (token.kind == Kind::kNone) continue;
    if (bytes.empty()) return damaged(fmt::format("token {} is empty", id));
    auto& map = token.kind == Kind::kText ? tables->ids : tables->whole_ids;
    if (const auto [other, is_new] = map.emplace(bytes, id); !is_new)
      return damaged(fmt::format("tokens {} and {} are the same, '{}'", other->second, id,
                                 visible_line(bytes.substr(0, 80))));
    if (token.kind == Kind::kText) {
      if (bytes.size() == 1) tables->byte_ids[static_cast<unsigned char>(bytes[0])] = id;
    } else {
      tables->whole[static_cast<unsigned char>(bytes[0])].push_back(id);
    }
  }
  for (auto& whole : tables->whole)
    std::stable_sort(whole.begin(), whole.end(), [&](TokenId a, TokenId b) {
      return tokens[static_cast<std::size_t>(a)].bytes.size() >
             tokens[static_cast<std::size_t>(b)].bytes.size();
    });

  tables->merges.reserve(merges.size());
  std::string both;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = merges[rank];
    if (!exists(left) || !exists(right))
      return damaged(fmt::format("merge {} joins tokens that do not exist", rank));
    both.assign(tables->bytes[static_cast<std::size_t>(left)])
        .append(tables->bytes[static_cast<std::size_t>(right)]);
    const auto merged = tables->ids.find(both);
    if (merged == tables->ids.end())
      return damaged(
          fmt::format("merge {} makes '{}', which is no token", rank, visible_line(both.substr(0, 80))));
    if (!tables->merges.add(left, right, {static_cast<std::int32_t>(rank), merged->second}))
      return damaged(fmt::format("merge {} occurred before", rank));
    hasher.add(left).add(right);
  }
  for (const TokenId id : stops)
    if (!exists(id)) return damaged(fmt::format("the token that ends a text, {}, does not exist", id));
  if (bos && !exists(*bos))
    return damaged(fmt::format("the token that begins a text, {}, does not exist", *bos));
  for (const std::string_view name :
       {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"})
    if (const auto found = tables->whole_ids.find(name); found != tables->whole_ids.end())
      stops.push_back(found->second);
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  tables->bos = bos;
  tables->adds_bos = adds_bos && bos;
  tables->stops = std::move(stops);
  tables->digest = hasher.finish();
  return Tokenizer(std::move(tables));
}

std::optional<std::string> bytes_of_printable(std::string_view text) {
  // Printable bytes of Latin-1 stand for themselves; the others, in order, are U+0100 and up.
  static constexpr auto kBytes = [] {
    std::array<std::int16_t, 0x144> bytes{};
    bytes.fill(-1);
    std::size_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      bytes[printable ? static_cast<std::size_t>(byte) : next++] = static_cast<std::int16_t>(byte);
    }
    return bytes;
  }();
  std::string bytes;
  while (!text.empty()) {
    const auto [code_point, length] = next_code_point(text);
    if (code_point >= kBytes.size() || kBytes[code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(kBytes[code_point]);
    text.remove_prefix(length);
  }
  return bytes;
}

namespace {

/// How many bytes at the end may be the beginning of a character.
std::size_t unfinished_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t length = byte > 0xf4 || byte < 0xc2 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const TextRun run = next_run(text);
    if (run.is_valid) valid += run.text;
    for (std::size_t i = 0; !run.is_valid && i < run.text.size(); ++i) valid += "\ufffd";
    text.remove_prefix(run.text.size());
  }
  return valid;
}

}  // namespace

std::string StreamDecoder::push(TokenId id) {
  if (tokenizer_.is_special(id)) return {};
  pending_ += tokenizer_.bytes(id);
  const std::size_t ready = pending_.size() - unfinished_bytes(pending_);
  std::string text = valid_utf8(std::string_view(pending_).substr(0, ready));
  pending_.erase(0, ready);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text = valid_utf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace lathe
