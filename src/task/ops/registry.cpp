#include <algorithm>

#include "task/ops/factories.h"

namespace lathe {
namespace {

/// Sorted by name.
const ops::OpList& registry() {
  static const ops::OpList list = [] {
    ops::OpList ops;
    ops::add_activations(ops);
    ops::add_binary_math(ops);
    ops::add_bias_add(ops);
    ops::add_matmul(ops);
    ops::add_sums(ops);
    ops::add_softmax(ops);
    ops::add_layer_norm(ops);
    std::ranges::sort(ops, {}, [](const auto& op) { return op->name(); });
    return ops;
  }();
  return list;
}

}  // namespace

const Op* find_op(std::string_view name) {
  const auto found =
      std::ranges::lower_bound(registry(), name, {}, [](const auto& op) { return op->name(); });
  return found != registry().end() && (*found)->name() == name ? found->get() : nullptr;
}

std::vector<const Op*> all_ops() {
  std::vector<const Op*> ops;
  for (const auto& op : registry()) ops.push_back(op.get());
  return ops;
}

}  // namespace lathe
