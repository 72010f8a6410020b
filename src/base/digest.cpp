#include "base/digest.h"

#include <sodium.h>

#include <cstring>

namespace lathe {
namespace {
crypto_generichash_state* as_state(void* bytes) { return static_cast<crypto_generichash_state*>(bytes); }
}  // namespace

std::string Digest::hex() const {
  std::string text(2 * bytes.size(), '0');
  constexpr char kDigits[] = "0123456789abcdef";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text[2 * i] = kDigits[bytes[i] >> 4];
    text[2 * i + 1] = kDigits[bytes[i] & 15];
  }
  return text;
}

Result<Digest> Digest::from_hex(std::string_view hex) {
  Digest digest;
  std::size_t length = 0;
  if (sodium_hex2bin(digest.bytes.data(), digest.bytes.size(), hex.data(), hex.size(), nullptr, &length,
                     nullptr) != 0 ||
      length != digest.bytes.size() || hex.size() != 2 * digest.bytes.size())
    return invalid("'" + std::string(hex) + "' is not a digest", "a digest is 64 hexadecimal digits");
  return digest;
}

Hasher::Hasher() {
  static_assert(sizeof(crypto_generichash_state) <= sizeof(state_));
  crypto_generichash_init(as_state(state_.data()), nullptr, 0, 32);
}

Hasher& Hasher::add(std::string_view field) {
  const std::uint64_t length = field.size();
  unsigned char prefix[sizeof length];
  std::memcpy(prefix, &length, sizeof length);
  crypto_generichash_update(as_state(state_.data()), prefix, sizeof prefix);
  crypto_generichash_update(as_state(state_.data()), reinterpret_cast<const unsigned char*>(field.data()),
                            field.size());
  return *this;
}

Hasher& Hasher::add(std::int64_t field) {
  char text[sizeof field];
  std::memcpy(text, &field, sizeof field);
  return add(std::string_view(text, sizeof text));
}

Digest Hasher::finish() {
  Digest digest;
  crypto_generichash_final(as_state(state_.data()), digest.bytes.data(), digest.bytes.size());
  return digest;
}

Digest digest_of(std::string_view text) { return Hasher().add(text).finish(); }

}  // namespace lathe
