#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "policy/openai/completion.h"

namespace {

void must_explain(const lathe::Status& status) {
  if (!status.ok() && status.error().message.empty()) std::abort();
}

void must_be_bounded(const lathe::openai::Completion& completion, std::size_t samples) {
  if (completion.choices.size() > samples) std::abort();
  for (const auto& choice : completion.choices)
    if (!choice.tokens.empty() && choice.tokens.size() != choice.log_probabilities.size()) std::abort();
}

}  // namespace

/// Whatever an endpoint sends, in whatever pieces, is a completion or an error with a message. The
/// first byte says where the stream is cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = bytes.empty() ? 0 : data[0] % (bytes.size() + 1);
  lathe::openai::CompletionReader streamed(2), whole(2);
  const lathe::Status first = streamed.read_stream(bytes.substr(0, cut));
  must_explain(first);
  if (first.ok()) must_explain(streamed.read_stream(bytes.substr(cut)));
  must_explain(streamed.finish_stream());
  must_be_bounded(streamed.take(), 2);
  must_explain(whole.read_whole(bytes));
  must_be_bounded(whole.take(), 2);
  if (lathe::openai::error_text(bytes).size() > 8000) std::abort();
  lathe::openai::model_names(bytes);
  return 0;
}
