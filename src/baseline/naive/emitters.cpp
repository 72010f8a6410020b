#include <algorithm>
#include <array>

#include "baseline/naive/nest.h"

namespace lathe::naive {
namespace {

struct Entry {
  std::string_view op;
  Emitter emitter;
};

constexpr std::array kEmitters = {
    Entry{"matmul", emit_matmul},   Entry{"sum", emit_reduction},         Entry{"mean", emit_reduction},
    Entry{"softmax", emit_softmax}, Entry{"layer_norm", emit_layer_norm},
};

}  // namespace

Emitter find_emitter(const Op& op) {
  const auto entry =
      std::find_if(kEmitters.begin(), kEmitters.end(), [&](const Entry& e) { return e.op == op.name(); });
  if (entry != kEmitters.end()) return entry->emitter;
  return op.op_class() == OpClass::kElementwise ? emit_elementwise : nullptr;
}

}  // namespace lathe::naive
