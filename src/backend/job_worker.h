#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "backend/compile_job.h"
#include "sandbox/channel.h"

namespace lathe {

/// What a worker of a CompilePool does: answers jobs until the broker closes the channel or `answer` fails.
void serve_jobs(const Channel& broker, const std::function<Status(const protocol::CompileJob&)>& answer);

/// Waits for a job's child and kills `victim` (the child, or minus its group) when it ends, at the deadline,
/// or when the broker is gone. The wait status; -1 unless the child ended by itself.
int wait_for_job(pid_t child, pid_t victim, double timeout_seconds, const Channel& broker);

/// What a child wrote into a memory, up to `most` bytes.
std::string read_back(int fd, off_t most);

}  // namespace lathe
