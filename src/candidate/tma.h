#pragma once

#include "candidate/launch_program.h"

namespace lathe {

/// Fills in packed strides and checks what the hardware asks of a map: errors begin with "bad_tma: ". The map
/// must lie inside the `buffer_bytes` of its base, for its copies are not bound by the buffer.
Status complete_tma(const TmaDecl& declared, std::int64_t buffer_bytes, BoundTma& map);

}  // namespace lathe
