#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "model/checkpoint_builder.h"
#include "model/gguf.h"
#include "model/safetensors.h"

namespace {

void must_lie_within(std::span<const std::byte> part, std::span<const std::byte> whole) {
  if (part.data() < whole.data() || part.data() + part.size() > whole.data() + whole.size()) std::abort();
}

/// Small weights are read: every stored byte may be anything.
void read_weights(lathe::Result<lathe::Checkpoint> checkpoint) {
  if (!checkpoint.ok()) {
    if (checkpoint.error().message.empty()) std::abort();
    return;
  }
  for (const lathe::WeightInfo& info : checkpoint->weights()) {
    if (info.elements() > 4096) continue;
    std::vector<float> values(static_cast<std::size_t>(info.elements()));
    (void)checkpoint->read(info.name, values);
  }
}

}  // namespace

/// A model file of any bytes gives tensors that lie within it and that read without faults, or an
/// error with a message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto gguf = lathe::Gguf::parse(bytes, "fuzz");
  if (gguf.ok()) {
    for (const lathe::GgufTensor& tensor : gguf->tensors()) must_lie_within(tensor.bytes, bytes);
    for (const char* key : {"a", "tokenizer.ggml.tokens"}) {
      (void)gguf->text(key);
      (void)gguf->number(key);
      (void)gguf->boolean(key);
      (void)gguf->texts(key);
      (void)gguf->integers(key);
    }
    read_weights(lathe::checkpoint_of(*gguf, {}));
  }
  const auto entries = lathe::parse_safetensors(bytes, "fuzz");
  if (!entries.ok()) return 0;
  for (const lathe::SafetensorsEntry& entry : *entries) must_lie_within(entry.bytes, bytes);
  return 0;
}
