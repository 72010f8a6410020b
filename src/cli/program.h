#pragma once

#include <span>

#include "cli/verbs.h"

namespace lathe::cli {

using AddVerb = void (*)(CLI::App& app, Run& run);

/// A program's main(): parses the arguments for these verbs and does what was asked. Returns the
/// exit code; no exception leaves it.
int run_program(int argc, char** argv, std::span<const AddVerb> verbs);

}  // namespace lathe::cli
