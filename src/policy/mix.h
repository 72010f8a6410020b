#pragma once

#include "policy/policy.h"

namespace lathe {

/// Two policies as one, named "mix(A, B)": where there is a history to learn from, `writer` is
/// asked; of other requests a share goes to `beginner`, drawn by the request's seed. So a catalogue
/// gives a model kernels to improve. It varies nothing itself.
std::unique_ptr<Policy> make_mixed_policy(std::unique_ptr<Policy> beginner, std::unique_ptr<Policy> writer,
                                          double beginner_share = 0.5);

}  // namespace lathe
