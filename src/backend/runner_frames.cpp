#include "backend/runner_frames.h"

#include "sandbox/wire.h"

namespace lathe::protocol {

std::string encode(const LoadReply& reply) {
  return WireWriter()
      .put(static_cast<std::uint8_t>(reply.ok))
      .put(static_cast<std::uint8_t>(reply.candidate_fault))
      .text(reply.reason)
      .text(reply.text)
      .take();
}

LoadReply refusal(const Error& error) {
  return {false, error.code == ErrorCode::kInvalid, error.reason, error.message};
}

Error error_of(const LoadReply& reply) {
  return {reply.candidate_fault ? ErrorCode::kInvalid : ErrorCode::kUnavailable,
          reply.text,
          {},
          {},
          reply.reason};
}

Result<LoadReply> decode_load_reply(std::string_view bytes) {
  WireReader in(bytes);
  LoadReply reply;
  reply.ok = in.flag();
  reply.candidate_fault = in.flag();
  reply.reason = in.text();
  reply.text = in.text();
  if (!in.finished()) return Error{ErrorCode::kCorrupt, "a damaged frame: load reply"};
  return reply;
}

std::string encode(const Block& block) { return WireWriter().put(block.poison).list(block.trials).take(); }

Result<Block> decode_block(std::string_view bytes) {
  WireReader in(bytes);
  Block block;
  block.poison = in.get<std::uint8_t>();
  block.trials = in.list<std::uint32_t>();
  if (!in.finished()) return Error{ErrorCode::kCorrupt, "a damaged frame: block"};
  return block;
}

}  // namespace lathe::protocol
