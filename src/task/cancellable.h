#pragma once

#include <memory>

#include "base/cancel.h"
#include "task/reference.h"

namespace lathe {

Error cancelled_error();

/// A reference that evaluates nothing more once the token is raised, and ends what another process
/// evaluates: kCancelled. `inner` must outlive it.
std::unique_ptr<Reference> make_cancellable(const Reference& inner, CancelToken cancel);

}  // namespace lathe
