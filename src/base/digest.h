#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lathe {

/// A BLAKE2b-256 hash, by which every immutable value is named.
struct Digest {
  std::array<std::uint8_t, 32> bytes{};

  std::string hex() const;
  /// The first 12 hex digits, for display.
  std::string short_hex() const { return hex().substr(0, 12); }
  static Result<Digest> from_hex(std::string_view hex);

  auto operator<=>(const Digest&) const = default;
};

/// Incremental hash. Every field is length-prefixed, so ("ab","c") and ("a","bc") differ.
class Hasher {
 public:
  Hasher();
  Hasher& add(std::string_view field);
  Hasher& add(std::int64_t field);
  Digest finish();

 private:
  alignas(64) std::array<unsigned char, 384> state_;  // crypto_generichash_state, checked in digest.cpp
};

Digest digest_of(std::string_view text);

}  // namespace lathe
