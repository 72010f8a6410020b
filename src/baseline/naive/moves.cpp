#include <functional>

#include "baseline/naive/emitters.h"

namespace lathe::naive {
namespace {

using Indices = std::vector<std::string>;

/// Walks the result in order, one row an item (one element, if it is a vector); `value` gives the C
/// expression of the element with these indices.
LoopNest for_each_element(const Operand& out, const std::function<std::string(const Indices&)>& value) {
  Indices indices = index_names(out.rank());
  if (out.rank() == 1) {
    indices[0] = "item";
    return {out.count(), out.at("item") + " = " + value(indices) + ";\n"};
  }
  const std::vector<Expr> outer(out.shape.begin(), out.shape.end() - 1);
  const std::string to = out.at("item * " + out.extent(-1) + " + " + indices.back());
  return {out.count(0, out.rank() - 1),
          unflatten("item", outer, {indices.begin(), indices.end() - 1}) +
              loop(indices.back(), out.shape.back(), to + " = " + value(indices) + ";\n")};
}

std::string element(const Operand& operand, const Indices& indices) {
  return operand.at(position(operand.shape, indices));
}

/// A number in the operand's own type, which may have no conversion from wider ones.
std::string converted(const Operand& operand, const std::string& number) {
  const std::string computed = "static_cast<" + operand.compute_type() + ">(" + number + ")";
  return operand.c_type() == operand.compute_type()
             ? computed
             : "static_cast<" + operand.c_type() + ">(" + computed + ")";
}

}  // namespace

/// One index of the axes in front an item: there the inputs lie as blocks, one after another.
LoopNest emit_concat(const Site& site) {
  const Operand& out = site.out;
  const auto axis = static_cast<int>(site.axis("axis", -1, out.rank()));
  LoopNest nest{out.count(0, axis), {}};
  Expr offset = Expr::constant(0);
  for (const Operand& in : site.in) {
    const Expr block = in.count(axis, in.rank());
    const std::string to = "item * " + factor(out.count(axis, out.rank())) + " + " + factor(offset) + " + j";
    nest.body += loop("j", block, out.at(to) + " = " + in.at("item * " + factor(block) + " + j") + ";\n");
    offset = offset + block;
  }
  return nest;
}

LoopNest emit_diag(const Site& site) {
  return for_each_element(site.out, [&](const Indices& indices) {
    const Indices own(indices.begin(), indices.end() - 1);
    return indices.back() + " == " + own.back() + " ? " + element(site.in[0], own) + " : " +
           converted(site.in[0], "0");
  });
}

LoopNest emit_triangle(const Site& site) {
  const std::string diagonal = factor(site.expression("diagonal", Expr::constant(0)));
  const std::string order = site.op.name() == "triu" ? " >= " : " <= ";
  return for_each_element(site.out, [&](const Indices& indices) {
    return indices.back() + " - " + indices[indices.size() - 2] + order + diagonal + " ? " +
           element(site.in[0], indices) + " : " + converted(site.in[0], "0");
  });
}

LoopNest emit_full(const Site& site) {
  if (std::holds_alternative<std::string>(site.attrs.all().find("value")->second)) {
    const std::string value = factor(site.expression("value", Expr::constant(0)));
    return {site.out.count(), site.out.at("item") + " = " + converted(site.out, value) + ";\n"};
  }
  const double value = site.attrs.real("value", 0);
  std::string text = literal(value);
  if (!info(site.out.dtype).is_float) text = std::to_string(static_cast<std::int64_t>(value));
  return {site.out.count(), site.out.at("item") + " = " + converted(site.out, text) + ";\n"};
}

LoopNest emit_iota(const Site& site) {
  const std::size_t axis = site.axis("axis", -1, site.out.rank());
  return for_each_element(site.out,
                          [&](const Indices& indices) { return converted(site.out, indices[axis]); });
}

LoopNest emit_flip(const Site& site) {
  const std::size_t axis = site.axis("axis", -1, site.out.rank());
  return for_each_element(site.out, [&](Indices indices) {
    indices[axis] = "(" + factor(site.out.shape[axis]) + " - 1 - " + indices[axis] + ")";
    return element(site.in[0], indices);
  });
}

LoopNest emit_gather(const Site& site) {
  const auto axis = static_cast<std::ptrdiff_t>(site.axis("axis", 0, site.in[0].rank()));
  return for_each_element(site.out, [&](const Indices& indices) {
    const auto names = indices.begin() + axis;
    Indices own(indices.begin(), names);
    own.push_back(element(site.in[1], {names, names + site.in[1].rank()}));
    own.insert(own.end(), names + site.in[1].rank(), indices.end());
    return element(site.in[0], own);
  });
}

LoopNest emit_pad(const Site& site) {
  const std::size_t axis = site.axis("axis", -1, site.out.rank());
  const std::string before = factor(site.expression("before", Expr::constant(0)));
  const std::string mode = site.attrs.text("mode", "constant");
  if (mode != "constant") {
    const std::string_view place = mode == "reflect"
                                       ? "($at < 0 ? -$at : $at < $n ? $at : 2 * ($n - 1) - $at)"
                                   : mode == "replicate" ? "($at < 0 ? 0 : $at < $n ? $at : $n - 1)"
                                                         : "(($at + $n) % $n)";
    return for_each_element(site.out, [&](Indices indices) {
      indices[axis] = expand(
          place, {{"at", "(" + indices[axis] + " - " + before + ")"}, {"n", factor(site.in[0].shape[axis])}});
      return element(site.in[0], indices);
    });
  }
  return for_each_element(site.out, [&](Indices indices) {
    const std::string at = indices[axis];
    indices[axis] = "(" + at + " - " + before + ")";
    return at + " >= " + before + " && " + at + " < " + before + " + " + factor(site.in[0].shape[axis]) +
           " ? " + element(site.in[0], indices) + " : " + literal(site.attrs.real("value", 0));
  });
}

LoopNest emit_repeat_interleave(const Site& site) {
  const std::size_t axis = site.axis("axis", -1, site.out.rank());
  const std::string times = factor(site.expression("times", Expr::constant(1)));
  return for_each_element(site.out, [&](Indices indices) {
    indices[axis] = "(" + indices[axis] + " / " + times + ")";
    return element(site.in[0], indices);
  });
}

LoopNest emit_roll(const Site& site) {
  const std::size_t axis = site.axis("axis", -1, site.out.rank());
  const std::string extent = factor(site.out.shape[axis]);
  const std::string shift = factor(site.expression("shift", Expr::constant(0)));
  return for_each_element(site.out, [&](Indices indices) {
    indices[axis] =
        "(((" + indices[axis] + " - " + shift + ") % " + extent + " + " + extent + ") % " + extent + ")";
    return element(site.in[0], indices);
  });
}

LoopNest emit_same_elements(const Site& site) {
  return {site.out.count(), site.out.at("item") + " = " + site.in[0].at("item") + ";\n"};
}

LoopNest emit_slice(const Site& site) {
  const std::size_t axis = site.axis("axis", -1, site.out.rank());
  const std::string start = factor(site.expression("start", Expr::constant(0)));
  return for_each_element(site.out, [&](Indices indices) {
    indices[axis] = "(" + indices[axis] + " + " + start + ")";
    return element(site.in[0], indices);
  });
}

LoopNest emit_take_along(const Site& site) {
  const std::size_t axis = site.axis("axis", -1, site.out.rank());
  return for_each_element(site.out, [&](Indices indices) {
    indices[axis] = element(site.in[1], indices);
    return element(site.in[0], indices);
  });
}

LoopNest emit_tile(const Site& site) {
  const std::size_t axis = site.axis("axis", -1, site.out.rank());
  return for_each_element(site.out, [&](Indices indices) {
    indices[axis] = "(" + indices[axis] + " % " + factor(site.in[0].shape[axis]) + ")";
    return element(site.in[0], indices);
  });
}

LoopNest emit_transpose(const Site& site) {
  const auto rank = static_cast<std::size_t>(site.out.rank());
  std::vector<std::int64_t> perm;
  if (site.attrs.has("perm")) perm = site.integers("perm", rank, 0);
  if (perm.empty()) {
    for (std::size_t axis = 0; axis < rank; ++axis) perm.push_back(static_cast<std::int64_t>(axis));
    std::swap(perm[rank - 1], perm[rank - 2]);
  }
  return for_each_element(site.out, [&](const Indices& indices) {
    Indices own(rank);
    for (std::size_t axis = 0; axis < rank; ++axis)
      own[static_cast<std::size_t>(perm[axis] < 0 ? perm[axis] + site.out.rank() : perm[axis])] =
          indices[axis];
    return element(site.in[0], own);
  });
}

}  // namespace lathe::naive
