#pragma once

#include "backend/cuda/wire/protocol.h"
#include "candidate/launch_program.h"
#include "task/spec.h"

namespace lathe::cuda {

/// The part of a Load that does not depend on a workload: a plan's scratch buffers, tensor maps and
/// steps. Errors with kInvalid are the candidate's fault.
Result<Load> program_load(const LaunchProgram& program, const TaskSpec& spec);

}  // namespace lathe::cuda
