#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serve/message.h"

namespace lathe::serve {

/// How a worker that reaches its front end over HTTP begins.
struct WorkerJoin {
  std::string name;  ///< for logs and metrics: "host/cuda:0"
  WorkerHello hello;
};

/// Messages in the order in which they were sent, numbered from 1 in a session: what is sent again,
/// because nobody knows whether it arrived, counts once.
template <class Message>
struct MessageBatch {
  std::int64_t first = 1;  ///< number of the first one
  std::vector<Message> messages = {};
};
using WorkerBatch = MessageBatch<WorkerMessage>;
using FrontBatch = MessageBatch<FrontMessage>;

inline constexpr std::size_t kMaxMessages = 4096;  ///< of a batch
inline constexpr int kMaxSlots = 1024;             ///< of a worker

std::string encode(const WorkerJoin& join);
std::string encode(const WorkerBatch& batch);
std::string encode(const FrontBatch& batch);
/// Parse the bodies that the other side sent, which may be anything. Errors: kInvalid, which names
/// the field.
Result<WorkerJoin> parse_join(std::string_view body);
Result<WorkerBatch> parse_worker_batch(std::string_view body);
Result<FrontBatch> parse_front_batch(std::string_view body);

}  // namespace lathe::serve
