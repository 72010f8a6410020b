#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "model/chat_template.h"

/// Any template is rendered within its bounds, or gives an error with a message and a place.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed =
      lathe::ChatTemplate::parse({reinterpret_cast<const char*>(data), size}, "fuzz", "<s>", "</s>");
  if (!parsed.ok()) {
    if (parsed.error().message.empty()) std::abort();
    return 0;
  }
  static const std::vector<lathe::ChatMessage> conversation = {
      {"system", "s"}, {"user", " caf\xc3\xa9\n"}, {"assistant", "<think>x</think>y"}};
  const auto text = parsed->render(conversation, true);
  if (text.ok() ? text->size() > (std::size_t{64} << 20) : text.error().message.empty()) std::abort();
  return 0;
}
