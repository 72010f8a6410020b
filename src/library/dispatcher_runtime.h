#pragma once

namespace lathe {

/// fmt template of a package's C header: name, task, data, dims.
extern const char* const kHeaderTemplate;

/// What every dispatcher contains: integers whose expressions have no undefined behaviour, and the sharing of
/// work among a caller's threads.
extern const char* const kDispatcherRuntime;

}  // namespace lathe
