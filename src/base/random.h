#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace lathe {

/// 256 secret bits. Seeds derived by different (label, index) are independent: knowing one reveals
/// nothing about the others.
struct Seed {
  std::array<std::uint8_t, 32> bytes{};

  static Seed from_system();
  static Seed from_number(std::uint64_t number);
  Seed derive(std::string_view label, std::uint64_t index = 0) const;
};

/// xoshiro256++: fast and reproducible on every machine. Not cryptographic: its outputs reveal its
/// state, but not the Seed it was made from.
class Rng {
 public:
  explicit Rng(const Seed& seed);

  std::uint64_t next();
  /// Uniform in [0, bound), bound > 0, unbiased.
  std::uint64_t below(std::uint64_t bound);
  /// Uniform in [low, high], both included.
  std::int64_t between(std::int64_t low, std::int64_t high);
  /// Uniform in [0, 1).
  double uniform();
  /// Standard normal.
  double normal();
  bool chance(double probability) { return uniform() < probability; }

  template <class Container>
  void shuffle(Container& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::array<std::uint64_t, 4> state_;
  double spare_normal_ = 0;
  bool has_spare_ = false;
};

}  // namespace lathe
