#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

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
