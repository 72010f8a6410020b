#pragma once

#include <span>

#include "backend/backend.h"
#include "backend/cpu/protocol.h"
#include "backend/cpu/slots.h"

namespace lathe {

/// What a block's process reported of the signal that ended it. Every one of these can happen to an
/// honest kernel, and none gains anything: memory that is not the block's is not mapped.
BlockOutcome describe_fault(const protocol::Control& control, int signal, const CpuWorkload& workload,
                            std::span<const int> trials);

BlockOutcome describe_self_end(const protocol::Control& control, protocol::SelfEnd end);

/// Of a process that no handler of signals could report for.
BlockOutcome describe_signal(int signal);

BlockOutcome describe_overrun(const CpuWorkload::Overrun& overrun, const CpuWorkload& workload);

}  // namespace lathe
