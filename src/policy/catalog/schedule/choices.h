#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace lathe::catalog {

/// Named integers that steer an emitter: "fuse" -> 1, "g0.unroll" -> 4.
using Schedule = std::map<std::string, int>;

/// The allowed values of each knob.
using KnobSpace = std::map<std::string, std::vector<int>>;

std::string to_text(const Schedule& schedule);   ///< "fuse=1,g0.unroll=4"
Schedule parse_schedule(std::string_view text);  ///< ignores what it does not understand

/// Hands out knob values while a candidate is emitted, and so learns the knob space: what was asked
/// for, and from which values.
class Choices {
 public:
  explicit Choices(Schedule wanted, Rng* random = nullptr) : wanted_(std::move(wanted)), random_(random) {}

  /// The wanted value if it is allowed; else a random one, if there is a generator; else
  /// `fallback`.
  int pick(const std::string& name, const std::vector<int>& allowed, int fallback);

  const Schedule& taken() const { return taken_; }
  const KnobSpace& space() const { return space_; }
  /// Knobs as they were first asked for: which ones are asked for, and from which values, depends
  /// on what was taken before.
  const std::vector<std::string>& order() const { return order_; }

 private:
  Schedule wanted_;
  Rng* random_;
  Schedule taken_;
  KnobSpace space_;
  std::vector<std::string> order_;
};

}  // namespace lathe::catalog
