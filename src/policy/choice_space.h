#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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

/// A decision and the value that was taken.
using TakenChoice = std::pair<ChoiceSite, int>;

/// The way to one kernel, decision by decision: which comes next depends on those before it.
class ChoiceWalk {
 public:
  virtual ~ChoiceWalk() = default;
  /// Another walk from where this one is.
  virtual std::unique_ptr<ChoiceWalk> clone() const = 0;
  /// The open decision; nullopt: the kernel is decided.
  virtual const std::optional<ChoiceSite>& site() const = 0;
  /// Decides. Errors: kInvalid where the value is not allowed or nothing is open.
  virtual Status take(int value) = 0;
  /// The candidate's text; what is not decided takes its usual value.
  virtual const std::string& text() const = 0;
};

/// All kernels that a policy can write for a task, as sequences of choices. Pure; may be used by
/// several threads at once.
class ChoiceSpace {
 public:
  virtual ~ChoiceSpace() = default;
  /// Refers to the space.
  virtual std::unique_ptr<ChoiceWalk> begin() const = 0;
  /// The decisions that lead to a candidate of this space, in order. Errors: kInvalid for another's
  /// text.
  virtual Result<std::vector<TakenChoice>> decisions_of(const std::string& text) const = 0;
};

}  // namespace lathe
