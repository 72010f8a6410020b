#include <algorithm>

#include "baseline/naive/emitters.h"

namespace lathe::naive {
namespace {

/// Whether the operand's extents are the result's, so that both share one flat index.
bool is_flat(const Operand& operand, const Operand& out) {
  if (operand.by_value) return true;
  if (operand.rank() != out.rank()) return false;
  for (std::size_t axis = 0; axis < out.shape.size(); ++axis)
    if (is_one(operand.shape[axis]) && !is_one(out.shape[axis])) return false;
  return true;
}

/// A vector along `axis` of the result, as an operand that broadcasts.
Operand along(Operand vector, std::int64_t axis, int rank) {
  std::vector<Expr> shape(static_cast<std::size_t>(rank), Expr::constant(1));
  shape[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = vector.shape[0];
  vector.shape = std::move(shape);
  return vector;
}

std::vector<Operand> operands_of(const Site& site) {
  std::vector<Operand> operands = site.in;
  const auto axis = site.op.channel_axis(site.attrs);
  if (axis)
    for (Operand& operand : operands)
      if (operand.rank() == 1) operand = along(operand, *axis, site.out.rank());
  return operands;
}

/// Loads each operand once, then stores the op's expression.
std::string statement(const Site& site, const std::vector<Operand>& operands,
                      const std::vector<std::string>& positions, const std::string& out_position) {
  std::string code;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool to_float = info(site.out.dtype).is_float && !info(operands[i].dtype).is_float;
    names.push_back("v" + std::to_string(i));
    code += "const " + (to_float ? site.out : operands[i]).compute_type() + " " + names.back() + " = " +
            operands[i].at(positions[i]) + ";\n";
  }
  const std::string value = site.op.c_expression(site.attrs, names);
  const bool same = site.out.c_type() == site.out.compute_type();
  return code + site.out.at(out_position) + " = " +
         (same ? value : "static_cast<" + site.out.c_type() + ">(" + value + ")") + ";\n";
}

}  // namespace

LoopNest emit_elementwise(const Site& site) {
  const Operand& out = site.out;
  const std::vector<Operand> operands = operands_of(site);
  const auto flat = [&](const Operand& operand) { return is_flat(operand, out); };
  if (std::all_of(operands.begin(), operands.end(), flat)) {
    const std::vector<std::string> positions(operands.size(), "item");
    return {out.count(), statement(site, operands, positions, "item")};
  }
  const std::vector<std::string> indices = index_names(out.rank());
  const std::string flat_position =
      out.rank() == 1 ? indices.back() : "item * " + out.extent(-1) + " + " + indices.back();
  std::vector<std::string> positions;
  bool uses_outer_indices = false;
  for (const Operand& operand : operands) {
    positions.push_back(flat(operand) ? flat_position : broadcast_position(operand, indices));
    for (int axis = 0; axis + 1 < operand.rank() && !flat(operand); ++axis)
      uses_outer_indices |= !is_one(operand.shape[static_cast<std::size_t>(axis)]);
  }
  std::string body;
  const std::vector<Expr> outer(out.shape.begin(), out.shape.end() - 1);
  if (uses_outer_indices) body = unflatten("item", outer, {indices.begin(), indices.end() - 1});
  body += loop(indices.back(), out.shape.back(), statement(site, operands, positions, flat_position));
  return {out.count(0, out.rank() - 1), body};
}

}  // namespace lathe::naive
