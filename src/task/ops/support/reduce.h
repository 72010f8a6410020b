#pragma once

#include <span>
#include <vector>

#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {

/// The elements reduced to one result; `err` may be empty.
struct ReduceRow {
  std::span<const double> x;
  std::span<const double> err;

  double error_at(std::size_t i) const { return err.empty() ? 0 : err[i]; }
};

struct Bounded {
  double value = 0;
  double error = 0;
  double terms = 0;  ///< see Value::terms
};

/// A reduction over `axis`, the list `axes`, or all axes; `keepdims` keeps reduced axes with extent
/// 1.
struct Reduction {
  std::string_view name;
  double flops_per_element;
  Bounded (*reduce)(const ReduceRow& row, const Attrs& attrs, const Numerics& numerics);
  bool float_only = false;
  std::vector<AttrRule> attr_rules = {};  ///< besides axis, axes and keepdims
  bool of_masks = false;                  ///< an element may settle its row's result
};

class ReduceOp final : public NamedOp {
 public:
  explicit ReduceOp(const Reduction& reduction);
  Result<SymbolicType> infer(const InferContext& context) const override;
  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override;
  double flops(const OpSite& site) const override;
  std::int64_t needs(const OpSite& site, const Demand& demand) const override;
  /// "skipped_tail": the last eighth of each row is not read.
  std::vector<OpMutant> mutants() const override;

 private:
  void reduce_rows(const OpSite& site, const Value& x, const Numerics& numerics, std::int64_t skipped,
                   Value& out) const;
  Reduction reduction_;
};

}  // namespace lathe::ops
