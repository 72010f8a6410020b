#include "task/ops/support/move.h"
#include "task/ops/support/needs.h"

namespace lathe::ops {
namespace {

/// A vector [..., N] as the diagonal of a matrix [..., N, N] of zeros.
class Diag final : public MoveOp {
 public:
  Diag() : MoveOp({"diag", OpClass::kMove, 1, 1}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    SymbolicType result = context.in[0];
    if (result.shape.empty()) return invalid("input 1 must have rank 1 or more, got a scalar");
    result.shape.push_back(result.shape.back());
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    prepare_move(site, in, out);
    Block to = Block::whole(site.out);
    to.strides.pop_back();
    to.strides.back() += 1;
    copy_block(site.in[0], Block::whole(site.in[0]), *in[0], to, out);
  }
};

/// The elements of a matrix [..., M, N] on one side of a diagonal, with zeros on the other.
/// `diagonal` 0 is the main diagonal, which both ops keep; 1 is the one to its right.
class Triangle final : public MoveOp {
 public:
  Triangle(std::string_view name, bool upper)
      : MoveOp({name, OpClass::kMove, 1, 1, {{"diagonal", AttrKind::kInteger}}}), upper_(upper) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    if (context.in[0].shape.size() >= 2) return context.in[0];
    return invalid("input 1 must have rank 2 or more, got " + describe(context.in[0]));
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    out = *in[0];
    const std::int64_t diagonal = site.attrs.integer("diagonal", 0);
    const std::int64_t columns = site.out.back();
    const std::int64_t rows = site.out[site.out.size() - 2];
    for (std::int64_t i = 0; i < element_count(site.out); ++i) {
      const std::int64_t offset = i % columns - i / columns % rows;
      if (upper_ ? offset >= diagonal : offset <= diagonal) continue;
      out.data[static_cast<std::size_t>(i)] = 0;
      if (!out.err.empty()) out.err[static_cast<std::size_t>(i)] = 0;
    }
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    return without(kept(site), element_count(site.out) - demand.wanted, 1);
  }
  /// The side that stays.
  std::int64_t kept(const OpSite& site) const override {
    const std::int64_t columns = site.out.back(), rows = site.out[site.out.size() - 2];
    const std::int64_t diagonal = site.attrs.integer("diagonal", 0);
    std::int64_t lower = 0;  // of one matrix: offset <= diagonal, or < for the upper triangle's complement
    for (std::int64_t row = 0; row < rows; ++row)
      lower += std::clamp<std::int64_t>(row + diagonal + (upper_ ? 0 : 1), 0, columns);
    const std::int64_t matrices = element_count(site.out) / (rows * columns);
    return matrices * (upper_ ? rows * columns - lower : lower);
  }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    return std::min(element_count(site.out), element_count(site.out) - kept(site) + in[0]);
  }

  std::vector<OpMutant> mutants() const override {
    return {{"not_masked", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               out.shape = site.out;
               out.data = in[0]->data;
             }}};
  }

 private:
  bool upper_;
};

}  // namespace

void add_diag(OpList& list) {
  list.push_back(std::make_unique<Diag>());
  list.push_back(std::make_unique<Triangle>("triu", true));
  list.push_back(std::make_unique<Triangle>("tril", false));
}

}  // namespace lathe::ops
