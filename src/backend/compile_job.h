#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sandbox/channel.h"

/// What the broker and a compile worker say to each other.
namespace lathe::protocol {

struct CompileJob {
  std::string source;
  std::vector<std::string> flags;
  double timeout_seconds = 30;
};
std::string encode(const CompileJob& job);
Result<CompileJob> decode_compile_job(std::string_view bytes);

/// Comes with the object in a memfd when ok.
struct CompileReply {
  bool ok = false;
  bool timed_out = false;
  bool infra = false;
  std::string log;
  double seconds = 0;
};
std::string encode(const CompileReply& reply);
Result<CompileReply> decode_compile_reply(std::string_view bytes);

}  // namespace lathe::protocol

namespace lathe {

/// What a worker of a CompilePool does: answers jobs until the broker closes the channel or `answer` fails.
void serve_jobs(const Channel& broker, const std::function<Status(const protocol::CompileJob&)>& answer);

/// Waits for a job's child and kills `victim` (the child, or minus its group) when it ends, at the deadline,
/// or when the broker is gone. The wait status; -1 unless the child ended by itself.
int wait_for_job(pid_t child, pid_t victim, double timeout_seconds, const Channel& broker);

/// What a child wrote into a memory, up to `most` bytes.
std::string read_back(int fd, off_t most);

}  // namespace lathe
