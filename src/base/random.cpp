#include "base/random.h"

#include <sodium.h>

#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/digest.h"

namespace lathe {

Seed Seed::from_system() {
  Seed seed;
  randombytes_buf(seed.bytes.data(), seed.bytes.size());
  return seed;
}

Seed Seed::from_number(std::uint64_t number) {
  return {Hasher().add("seed").add(static_cast<std::int64_t>(number)).finish().bytes};
}

Seed Seed::derive(std::string_view label, std::uint64_t index) const {
  const std::string_view self(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {Hasher().add(self).add(label).add(static_cast<std::int64_t>(index)).finish().bytes};
}

Rng::Rng(const Seed& seed) {
  std::memcpy(state_.data(), seed.bytes.data(), sizeof state_);
  if (state_ == std::array<std::uint64_t, 4>{}) state_[0] = 1;  // the one state that repeats itself for ever
}

std::uint64_t Rng::next() {
  const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Rng::below(std::uint64_t bound) {
  assert(bound > 0);
  const std::uint64_t reject_under = -bound % bound;
  std::uint64_t draw = next();
  while (draw < reject_under) draw = next();
  return draw % bound;
}

std::int64_t Rng::between(std::int64_t low, std::int64_t high) {
  assert(low <= high);
  return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
}

double Rng::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double Rng::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_normal_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

}  // namespace lathe
