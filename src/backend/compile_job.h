#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sandbox/channel.h"

/// Messages between the broker and a compile worker, and the worker's main loop.
namespace lathe::protocol {

/// Kernels that nvcc compiles for a shared library of C++.
struct CudaUnit {
  std::string nvcc;  ///< its whole path, by which it finds what it starts; empty: there is no such unit
  std::string source;
  std::vector<std::string> flags;
};

struct CompileJob {
  std::string source;
  std::vector<std::string> flags;
  double timeout_seconds = 30;
  CudaUnit cuda = {};
};
std::string encode(const CompileJob& job);
Result<CompileJob> decode_compile_job(std::string_view bytes);

/// Accompanied by the object in a memfd if `ok`.
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

/// The main loop of a CompilePool's worker: answers jobs until the broker closes the channel or
/// `answer` fails.
void serve_jobs(const Channel& broker, const std::function<Status(const protocol::CompileJob&)>& answer);

/// A job's seconds are the processor's. By the clock it may take so many times as long, for others
/// may be computing beside it, and that is no fault of a candidate's.
inline constexpr double kMostWait = 4;

/// Waits until `child` exits, has taken kMostWait times `cpu_seconds`, or the broker disconnects,
/// then kills `victim` (the child's pid, or its negated process group) and reaps the child. Returns
/// its wait status, or -1 if it did not exit by itself or failed after `cpu_seconds` of a
/// processor.
int wait_for_job(pid_t child, pid_t victim, double cpu_seconds, const Channel& broker);

/// Reads what a child wrote into `fd`, at most `most` bytes.
std::string read_back(int fd, off_t most);

}  // namespace lathe
