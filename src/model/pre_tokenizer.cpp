#include "model/pre_tokenizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "base/visible_text.h"

namespace lathe {
namespace {

enum class Kind : std::uint8_t { kEnd, kLetter, kNumber, kSpace, kOther };

struct Character {
  Kind kind = Kind::kEnd;
  std::uint8_t bytes = 0;
};

constexpr Kind ascii_kind(unsigned c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return Kind::kLetter;
  if (c >= '0' && c <= '9') return Kind::kNumber;
  if (c == ' ' || (c >= 9 && c <= 13)) return Kind::kSpace;
  return Kind::kOther;
}

constexpr std::array<Kind, 128> kAscii = [] {
  std::array<Kind, 128> kinds{};
  for (unsigned c = 0; c < 128; ++c) kinds[c] = ascii_kind(c);
  return kinds;
}();

Kind kind_of(std::uint32_t code_point) {
  if (code_point == 0x85) return Kind::kSpace;  // NEL is white space but of the category of controls
  switch (utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return Kind::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return Kind::kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return Kind::kSpace;
    default:
      return Kind::kOther;
  }
}

/// One text under one pattern. Each *_end function takes the place where a piece begins and gives
/// its end.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::size_t gpt2_end(std::size_t at) const {
    if (const std::size_t end = contraction_end(at, false); end != at) return end;
    const std::size_t first = text_[at] == ' ' ? at + 1 : at;
    const Kind kind = character(first).kind;
    if (kind == Kind::kLetter || kind == Kind::kNumber || kind == Kind::kOther) return run_end(first, kind);
    return space_end(at);
  }

  std::size_t llama3_end(std::size_t at, int most_digits) const {
    if (const std::size_t end = contraction_end(at, true); end != at) return end;
    const Character here = character(at);
    if (here.kind == Kind::kLetter) return run_end(at, Kind::kLetter);
    if (here.kind == Kind::kNumber) return number_end(at, most_digits);
    const Kind next = character(at + here.bytes).kind;
    if (next == Kind::kLetter && !is_newline(at)) return run_end(at + here.bytes, Kind::kLetter);
    if (here.kind == Kind::kOther || (text_[at] == ' ' && next == Kind::kOther)) {
      std::size_t end = run_end(here.kind == Kind::kOther ? at : at + 1, Kind::kOther);
      while (is_newline(end)) ++end;
      return end;
    }
    const std::size_t end = run_end(at, Kind::kSpace);
    const std::size_t newline = text_.substr(at, end - at).find_last_of("\r\n");
    return newline == std::string_view::npos ? space_end(at) : at + newline + 1;
  }

  std::size_t next_number(std::size_t at) const {
    for (Character here = character(at); here.kind != Kind::kEnd && here.kind != Kind::kNumber;
         here = character(at))
      at += here.bytes;
    return at;
  }
  std::size_t character_end(std::size_t at) const { return at + character(at).bytes; }

 private:
  Character character(std::size_t at) const {
    if (at >= text_.size()) return {};
    const auto first = static_cast<unsigned char>(text_[at]);
    if (first < 128) return {kAscii[first], 1};
    const auto [code_point, bytes] = next_code_point(text_.substr(at));
    return {kind_of(code_point), static_cast<std::uint8_t>(bytes)};
  }
  bool is_newline(std::size_t at) const {
    return at < text_.size() && (text_[at] == '\n' || text_[at] == '\r');
  }

  std::size_t run_end(std::size_t at, Kind kind) const {
    for (Character here = character(at); here.kind == kind; here = character(at)) at += here.bytes;
    return at;
  }

  std::size_t number_end(std::size_t at, int most) const {
    for (Character here = character(at); here.kind == Kind::kNumber && most > 0; here = character(at), --most)
      at += here.bytes;
    return at;
  }

  /// \s+(?!\S)|\s+: white space up to the last of it before something else, which that may begin
  /// with.
  std::size_t space_end(std::size_t at) const {
    std::size_t last = at;
    std::size_t end = at;
    for (Character here = character(at); here.kind == Kind::kSpace; here = character(end)) {
      last = end;
      end += here.bytes;
    }
    return end == text_.size() || last == at ? end : last;
  }

  std::size_t contraction_end(std::size_t at, bool any_case) const {
    if (text_[at] != '\'') return at;
    const std::string_view rest = text_.substr(at + 1);
    for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
      if (rest.size() < ending.size()) continue;
      const bool equal = std::equal(ending.begin(), ending.end(), rest.begin(), [&](char want, char have) {
        return want == have || (any_case && want == (have | 0x20) && have >= 'A' && have <= 'Z');
      });
      if (equal) return at + 1 + ending.size();
    }
    if (any_case && rest.starts_with("\u017f")) return at + 3;  // the long s is an s of another case
    return at;
  }

  std::string_view text_;
};

struct Named {
  std::string_view name;
  PreTokenizer kind;
};
constexpr std::array<Named, 8> kNames = {{
    {"gpt-2", PreTokenizer::kGpt2},
    {"gpt2", PreTokenizer::kGpt2},
    {"smollm", PreTokenizer::kSmolLm},
    {"qwen2", PreTokenizer::kQwen2},
    {"deepseek-r1-qwen", PreTokenizer::kQwen2},
    {"llama-bpe", PreTokenizer::kLlama3},
    {"llama3", PreTokenizer::kLlama3},
    {"llama-v3", PreTokenizer::kLlama3},
}};

}  // namespace

std::string_view split_pattern(PreTokenizer kind) {
  switch (kind) {
    case PreTokenizer::kQwen2:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
             R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case PreTokenizer::kLlama3:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
             R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
    default:
      return {};
  }
}

Result<PreTokenizer> parse_pre_tokenizer(std::string_view ggml_name) {
  std::string known;
  for (const Named& named : kNames) {
    if (named.name == ggml_name) return named.kind;
    known += (known.empty() ? "" : ", ") + std::string(named.name);
  }
  return invalid(fmt::format("the pre-tokenizer '{}' is unknown", visible_line(ggml_name.substr(0, 80))),
                 "Lathe knows: " + known);
}

void split_text(PreTokenizer kind, std::string_view text, std::vector<std::string_view>& pieces) {
  const auto split = [&](std::string_view part, auto end_of) {
    const Scanner scanner(part);
    for (std::size_t at = 0; at < part.size();) {
      const std::size_t end = end_of(scanner, at);
      pieces.push_back(part.substr(at, end - at));
      at = end;
    }
  };
  const auto gpt2 = [](const Scanner& scanner, std::size_t at) { return scanner.gpt2_end(at); };
  switch (kind) {
    case PreTokenizer::kGpt2:
      return split(text, gpt2);
    case PreTokenizer::kSmolLm: {
      const Scanner scanner(text);
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t number = scanner.next_number(at);
        split(text.substr(at, number - at), gpt2);
        at = scanner.character_end(number);
        if (at != number) pieces.push_back(text.substr(number, at - number));
      }
      return;
    }
    case PreTokenizer::kQwen2:
      return split(text, [](const Scanner& scanner, std::size_t at) { return scanner.llama3_end(at, 1); });
    case PreTokenizer::kLlama3:
      return split(text, [](const Scanner& scanner, std::size_t at) { return scanner.llama3_end(at, 3); });
  }
}

TextRun next_run(std::string_view text) {
  const auto bad = [&](std::size_t at) {
    return next_code_point(text.substr(at)) == std::pair<std::uint32_t, std::size_t>{0xfffd, 1};
  };
  std::size_t end = 0;
  while (end < text.size()) {
    if (static_cast<unsigned char>(text[end]) < 128) {
      ++end;
    } else if (!bad(end)) {
      end += next_code_point(text.substr(end)).second;
    } else {
      break;
    }
  }
  if (end > 0) return {text.substr(0, end), true};
  while (end < text.size() && bad(end)) ++end;
  return {text.substr(0, end), false};
}

bool may_need_nfc(std::string_view text) {
  // Nothing below U+0300, whose first byte is 0xcc, changes or composes by itself.
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0xcc; });
}

std::string to_nfc(std::string_view text) {
  utf8proc_uint8_t* composed = nullptr;
  const auto bytes = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                  static_cast<utf8proc_ssize_t>(text.size()), &composed,
                                  static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, std::free);
  if (bytes < 0) return std::string(text);  // valid UTF-8 fails for want of memory alone
  return {reinterpret_cast<const char*>(composed), static_cast<std::size_t>(bytes)};
}

}  // namespace lathe
