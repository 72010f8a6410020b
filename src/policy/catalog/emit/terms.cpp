#include "policy/catalog/emit/terms.h"

#include <algorithm>

#include "candidate/template.h"

namespace lathe::catalog {
namespace {

class Collector {
 public:
  Collector(const Graph& graph, const Group& group, const std::vector<Loop>& loops)
      : graph_(graph), group_(group), loops_(loops) {}

  Terms run(const std::string& given) {
    for (const int index : group_.nodes) {
      const Primitive& node = graph_.nodes[static_cast<std::size_t>(index)];
      if (node.out == given) {
        push({.kind = Term::Kind::kGiven, .value = node.out, .node = &node});
      } else {
        add(node);
      }
    }
    int last = 0;
    for (const Term& term : terms_.list) last = std::max(last, term.stored ? term.stage : 0);
    terms_.stages = last + 1;
    return std::move(terms_);
  }

 private:
  int push(Term term) {
    for (const Loop& loop : loops_) term.runs.push_back(runs_along(group_, term.value, loop));
    if (exact_) term.type = exact_type(graph_.type_of(term.value).dtype);
    term.stored = term.kind != Term::Kind::kLeaf && is_needed_outside(graph_, group_, *term.node);
    terms_.list.push_back(std::move(term));
    return static_cast<int>(terms_.list.size()) - 1;
  }

  int find(const std::string& value) {
    const Primitive* inside = computed_in(graph_, group_, value);
    const std::string& name = inside != nullptr ? inside->out : value;
    for (std::size_t i = 0; i < terms_.list.size(); ++i)
      if (terms_.list[i].value == name) return static_cast<int>(i);
    return push({.kind = Term::Kind::kLeaf, .value = name});
  }

  void add(const Primitive& node) {
    Term term{.kind = node.kind == Kind::kReduce ? Term::Kind::kReduce : Term::Kind::kApply,
              .value = node.out,
              .node = &node};
    for (const std::string& operand : node.in) {
      term.operands.push_back(find(operand));
      term.stage = std::max(term.stage, terms_.list[static_cast<std::size_t>(term.operands.back())].stage);
    }
    if (term.kind == Term::Kind::kReduce) ++term.stage;
    push(std::move(term));
    if (terms_.list.back().kind == Term::Kind::kApply) {
      const std::string text = formula_text(terms_, terms_.list.back());
      terms_.list.back().calls = text.find("lathe::") != std::string::npos;
      for (const char* name : {"exp", "log", "tanh", "erf", "sigmoid", "pow", "sin", "cos", "expm1", "tan",
                               "asin", "acos", "atan"})
        if (text.find("lathe::" + std::string(name)) != std::string::npos) terms_.list.back().heavy = true;
    }
  }

  const Graph& graph_;
  const Group& group_;
  const std::vector<Loop>& loops_;
  const bool exact_ = graph_.nodes[static_cast<std::size_t>(group_.nodes[0])].exact;
  Terms terms_;
};

}  // namespace

Terms collect_terms(const Graph& graph, const Group& group, const std::vector<Loop>& loops,
                    const std::string& given) {
  return Collector(graph, group, loops).run(given);
}

std::string exact_type(DType dtype) {
  if (dtype == DType::kF64) return "double";
  if (info(dtype).is_float) return "float";
  return dtype == DType::kI64 ? "int64_t" : "int32_t";
}

std::string formula_text(const Terms& terms, const Term& term) {
  const auto is_float = [](const std::string& type) { return type == "float" || type == "double"; };
  std::vector<std::string> names;
  bool wide = term.type == "double";
  for (const int operand : term.operands) {
    const std::string& type = terms.list[static_cast<std::size_t>(operand)].type;
    const std::string name = terms.name(operand);
    const bool becomes_float = is_float(term.type) && !is_float(type);
    names.push_back(becomes_float ? "static_cast<" + term.type + ">(" + name + ")" : name);
    wide |= type == "double";
  }
  std::string text = term.node->formula(names);
  if (!wide) return text;
  constexpr std::string_view kNarrow = "static_cast<float>";
  for (std::size_t at = text.find(kNarrow); at != std::string::npos; at = text.find(kNarrow, at))
    text.replace(at, kNarrow.size(), "static_cast<double>");
  return with_wide_numbers(text);
}

std::string iota_text(const Group&, const std::vector<Loop>& loops, const Term& term,
                      const std::vector<std::string>& indices, bool vectors) {
  for (std::size_t l = 0; l < loops.size(); ++l) {
    if (!term.runs[l]) continue;
    const std::string first = "static_cast<" + term.type + ">(" + indices[l] + ")";
    return vectors && l + 1 == loops.size() ? "f32v(" + first + ") + lane_index()" : first;
  }
  return term.type == "float" ? "0.0f" : "0";
}

}  // namespace lathe::catalog
