#include "policy/openai/sse.h"

#include <utility>

namespace lathe::openai {

Status SseReader::read(std::string_view bytes) {
  for (const char byte : bytes) {
    const bool joins_return = after_return_ && byte == '\n';
    after_return_ = byte == '\r';
    if (joins_return) continue;
    if (byte == '\n' || byte == '\r') {
      LATHE_CHECK_OK(take_line());
      continue;
    }
    line_.push_back(byte);
    if (line_.size() + data_.size() > kMaxEventBytes)
      return Error{ErrorCode::kCorrupt, "the stream has an event of more than 4 MiB"};
  }
  return Ok{};
}

Status SseReader::finish() {
  if (!line_.empty()) LATHE_CHECK_OK(take_line());
  return dispatch();
}

Status SseReader::take_line() {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) return dispatch();
  std::string_view rest = line;
  if (!rest.starts_with("data")) return Ok{};  // comments, names and ids of events
  rest.remove_prefix(4);
  if (!rest.empty() && rest.front() != ':') return Ok{};
  if (!rest.empty()) rest.remove_prefix(1);
  if (rest.starts_with(" ")) rest.remove_prefix(1);
  if (has_data_) data_.push_back('\n');
  data_.append(rest);
  has_data_ = true;
  return Ok{};
}

Status SseReader::dispatch() {
  if (!has_data_) return Ok{};
  const std::string data = std::exchange(data_, {});
  has_data_ = false;
  return on_event_(data);
}

}  // namespace lathe::openai
