#pragma once

#include <string>
#include <vector>

#include "sandbox/channel.h"

namespace lathe {

struct CompileFolders {
  std::string work;                        ///< where each job has a folder of its own
  std::string include;                     ///< the headers
  std::vector<std::string> readable = {};  ///< further folders of headers and libraries
};

/// What exists for a compile worker: the tool chain, the headers and the jobs' folders.
/// __has_include, which asks for names only, learns nothing of other files.
std::vector<std::string> visible_to_compilers(const CompileFolders& folders);

/// Serves compile jobs until the broker closes the channel. Each job runs g++ in a child that may
/// write only the job's own folder and read only the toolchain and the headers.
void serve_compiles(const Channel& channel, const CompileFolders& folders);

}  // namespace lathe
