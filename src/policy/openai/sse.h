#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lathe::openai {

/// Splits a stream of server-sent events into the data of its events. Bytes may come in any pieces.
class SseReader {
 public:
  static constexpr std::size_t kMaxEventBytes = std::size_t{4} << 20;

  /// `on_event` gets each event's data, lines joined by newlines; its error ends the reading.
  /// Errors of the reader's own: kCorrupt for an event that is longer than the limit.
  explicit SseReader(std::function<Status(std::string_view)> on_event) : on_event_(std::move(on_event)) {}
  Status read(std::string_view bytes);
  /// The stream has ended: an event without its blank line counts.
  Status finish();

 private:
  Status take_line();
  Status dispatch();

  const std::function<Status(std::string_view)> on_event_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_return_ = false;  ///< the last byte was \r, whose \n belongs to it
};

}  // namespace lathe::openai
