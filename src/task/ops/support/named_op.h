#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "task/op.h"

namespace lathe::ops {

struct OpTraits {
  std::string_view name;
  OpClass op_class;
  int min_inputs;
  int max_inputs;
  std::vector<AttrRule> attr_rules = {};
};

/// An Op whose description is a value.
class NamedOp : public Op {
 public:
  explicit NamedOp(OpTraits traits) : traits_(std::move(traits)) {}
  std::string_view name() const final { return traits_.name; }
  OpClass op_class() const final { return traits_.op_class; }
  int min_inputs() const final { return traits_.min_inputs; }
  int max_inputs() const final { return traits_.max_inputs; }
  std::vector<AttrRule> attr_rules() const final { return traits_.attr_rules; }
  /// Contractions say more; for all else, memory is what no algebra can avoid.
  double essential_flops(const OpSite&) const override { return 0; }

 private:
  OpTraits traits_;
};

}  // namespace lathe::ops
