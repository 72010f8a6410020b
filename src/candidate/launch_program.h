#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "candidate/candidate.h"
#include "task/bound_task.h"

namespace lathe {

/// A buffer argument: the input, output or scratch buffer with this index in declaration order.
struct BufferRef {
  enum class Kind : std::uint8_t { kInput, kOutput, kScratch };
  Kind kind = Kind::kInput;
  std::int32_t index = 0;
};

/// A task's scalar, passed by value from the trial's data.
struct ScalarRef {
  std::int32_t input = 0;
};

/// A tensor map, by its index in the program.
struct TmaRef {
  std::int32_t map = 0;
};

using BoundArg = std::variant<BufferRef, ScalarRef, std::int64_t, TmaRef>;

struct BoundStep {
  PlanStep::Kind kind = PlanStep::Kind::kLaunch;
  std::string kernel;
  std::int64_t items = 0;
  std::vector<std::int64_t> grid;
  std::vector<std::int64_t> block;
  std::vector<std::int64_t> cluster;
  std::int64_t shared_bytes = 0;
  std::int64_t carveout = -1;  ///< percent; -1 for the driver's choice
  bool non_portable = false;
  bool cooperative = false;
  bool programmatic = false;
  std::vector<BoundArg> args;
  std::string node_text;  ///< kNode: the library call as JSON, see candidate/vendor.h
};

struct BoundScratch {
  std::int64_t bytes = 0;
  ScratchInit init = ScratchInit::kPoison;
};

/// A tensor map at one shape (see TmaDecl). It satisfies the hardware's rules and lies inside its
/// buffer.
struct BoundTma {
  BufferRef base;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> box;
  std::int64_t swizzle = 0;  ///< bytes
  bool fill_nan = false;
};

/// A plan compiled for one shape, as a runner executes it: expressions evaluated, loops unrolled,
/// conditions decided.
struct LaunchProgram {
  std::vector<BoundStep> steps;
  std::vector<BoundScratch> scratch;
  std::vector<BoundTma> maps;  ///< those that steps use
};

/// Whether `requires` holds at the shape. Errors: a bad expression.
Result<bool> in_domain(const Candidate& candidate, const BoundTask& task, const Dims& facts);

/// `facts` are the device's (threads, l2_bytes, ...). Errors: `requires` not met (kUnavailable), a
/// bad expression, and with a reason: "plan_too_large" (more than 4096 steps, 2^20 evaluated terms
/// or a library call for each of the task's nodes), "scratch_too_large" (over 4 GiB, counters over
/// 1 MiB), "bad_tma".
Result<LaunchProgram> compile_plan(const Candidate& candidate, const BoundTask& task, const Dims& facts);

}  // namespace lathe
