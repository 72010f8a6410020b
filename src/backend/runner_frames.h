#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

/// Messages between the broker and a runner that all devices have in common.
namespace lathe::protocol {

enum class ScratchFill : std::uint8_t { kPoison, kZero, kCounter };

struct Scratch {
  std::uint64_t bytes = 0;
  ScratchFill fill = ScratchFill::kPoison;
};

struct LoadReply {
  bool ok = false;
  bool candidate_fault = false;
  std::string reason = {}, text = {};  ///< of an Error; empty when ok
};
std::string encode(const LoadReply& reply);
LoadReply refusal(const Error& error);
Error error_of(const LoadReply& reply);
Result<LoadReply> decode_load_reply(std::string_view bytes);

struct Block {
  std::uint8_t poison = 0xff;
  std::vector<std::uint32_t> trials;
};
std::string encode(const Block& block);
Result<Block> decode_block(std::string_view bytes);

}  // namespace lathe::protocol
