#pragma once

#include <string>

#include "sandbox/channel.h"

namespace lathe {

/// Serves compile jobs until the broker closes the channel. Each job runs g++ in a child that may
/// write only the job's own folder under `work_folder` and read only the toolchain and
/// `include_folder`.
void serve_compiles(const Channel& channel, const std::string& work_folder,
                    const std::string& include_folder);

}  // namespace lathe
