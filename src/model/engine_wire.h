#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "model/engine.h"
#include "sandbox/channel.h"

/// What lathe and lathe-torch tell each other. Both are Lathe's own and of one build; frames are
/// checked all the same.
namespace lathe::engine_wire {

struct Hello {
  EngineInfo info;
};
struct Failed {  ///< of a request, or with request 0 of the engine
  std::uint64_t request = 0;
  Error error;
};
struct Submit {
  std::uint64_t request = 0;  ///< the client's name for it
  GenerationRequest body;
};
struct Cancel {
  std::uint64_t request = 0;
};
struct News {
  std::uint64_t request = 0;
  GenerationNews news;
};
using Message = std::variant<Hello, Failed, Submit, Cancel, News>;

/// Messages longer than a frame travel in memory of their own.
Status send(const Channel& channel, const Message& message);
/// Errors as Channel::receive()'s; kCorrupt for what is no message.
Result<Message> receive(const Channel& channel, int timeout_ms);

std::string encode(const Message& message);
Result<Message> decode(std::string_view bytes);

}  // namespace lathe::engine_wire
