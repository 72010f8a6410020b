#pragma once

#include <memory>
#include <vector>

#include "policy/choice_net.h"
#include "policy/policy.h"

namespace lathe {

/// Writes kernels by drawing each of a schedule's choices from what a trained network makes of it;
/// the first two kernels of the history are shown to it. Unless it draws independently, a task's
/// first kernel is the catalogue's default, then come the likeliest, and none comes twice. Of
/// several networks, at least one, what more of them find likely comes first. Varies kernels as the
/// catalogue does, so that it can propose inside evolution.
std::unique_ptr<Policy> make_choice_policy(std::vector<ChoiceNet> nets);

}  // namespace lathe
