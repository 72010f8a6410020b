#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/policy.h"

namespace lathe {

/// The size of a kernel at the task's headline shape, as base-2 logarithms of one plus: bytes
/// moved, flops, special functions.
using KernelTraits = std::array<float, 3>;

/// A decision on the way to a kernel: one of at least two values for a knob.
struct ChoiceSite {
  int kernel = -1;           ///< of the program; -1: the decision is the whole program's
  std::string pattern = {};  ///< of that kernel
  KernelTraits traits = {};
  std::string knob = {};  ///< "unroll"
  std::vector<int> allowed = {};
  int usual = 0;  ///< what is taken where nobody chooses

  bool operator==(const ChoiceSite&) const = default;
};

/// All kernels that a policy can write for a task, as sequences of choices: which decision comes
/// next depends on those before it. Pure; may be used by several threads at once.
class ChoiceSpace {
 public:
  virtual ~ChoiceSpace() = default;
  /// The decision that follows these values; nullopt: the kernel is decided. Errors: kInvalid for a
  /// value that is not allowed.
  virtual Result<std::optional<ChoiceSite>> next(std::span<const int> taken) const = 0;
  /// The candidate's text; what is not decided takes its usual value.
  virtual Result<std::string> text(std::span<const int> taken) const = 0;
  /// The values that lead to a candidate of this space. Errors: kInvalid for another's text.
  virtual Result<std::vector<int>> choices_of(const std::string& text) const = 0;
};

}  // namespace lathe
