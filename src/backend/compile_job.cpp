#include "backend/compile_job.h"

#include "sandbox/wire.h"

namespace lathe::protocol {
namespace {

constexpr std::size_t kMaxText = 4u << 20;

}  // namespace

std::string encode(const CompileJob& job) {
  WireWriter out;
  out.text(job.source).put(job.timeout_seconds).put(static_cast<std::uint32_t>(job.flags.size()));
  for (const std::string& flag : job.flags) out.text(flag);
  return out.take();
}

Result<CompileJob> decode_compile_job(std::string_view bytes) {
  WireReader in(bytes);
  CompileJob job;
  job.source = in.text(kMaxText);
  job.timeout_seconds = in.get<double>();
  job.flags.resize(in.count(4));
  for (std::string& flag : job.flags) flag = in.text();
  if (!in.finished()) return Error{ErrorCode::kCorrupt, "a damaged frame: compile job"};
  return job;
}

std::string encode(const CompileReply& reply) {
  WireWriter out;
  for (const bool flag : {reply.ok, reply.timed_out, reply.infra}) out.put(static_cast<std::uint8_t>(flag));
  return out.text(reply.log).put(reply.seconds).take();
}

Result<CompileReply> decode_compile_reply(std::string_view bytes) {
  WireReader in(bytes);
  CompileReply reply;
  reply.ok = in.flag();
  reply.timed_out = in.flag();
  reply.infra = in.flag();
  reply.log = in.text();
  reply.seconds = in.get<double>();
  if (!in.finished()) return Error{ErrorCode::kCorrupt, "a damaged frame: compile reply"};
  return reply;
}

}  // namespace lathe::protocol
