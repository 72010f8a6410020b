#include "policy/kernel_grammar.h"

#include <string>
#include <utility>
#include <vector>

namespace lathe {
namespace {

using State = std::int32_t;
using Texts = std::vector<std::string>;

constexpr int kDeepest = 6;  // brackets in brackets of an expression
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_";
constexpr std::string_view kWord = "abcdefghijklmnopqrstuvwxyz_0123456789";
constexpr std::string_view kMetadata = "abcdefghijklmnopqrstuvwxyz_0123456789.,=+-";

const Texts kOperators = {" + ", " - ",  " * ", " / ",  " % ",  " << ", " >> ", " == ", " != ",
                          " < ", " <= ", " > ", " >= ", " && ", " || ", " ? ",  " : "};
const Texts kCalls = {"(", "cdiv(", "min(", "max(", "align("};
/// Of the device, as prompts name them.
const Texts kCpuFacts = {"threads", "vector_bytes"}, kGpuFacts = {"sm_count", "smem_optin"};

/// Writes a grammar from its beginning to its end: each member begins in the state that the one
/// before has led to, and returns the next.
class PlanGrammar {
 public:
  PlanGrammar(const TaskSpec& task, Dialect dialect)
      : cuda_(dialect == Dialect::kCuda), integers_(cuda_ ? kGpuFacts : kCpuFacts) {
    integers_.insert(integers_.end(), task.dim_names.begin(), task.dim_names.end());
    for (const TensorDecl& tensor : task.tensors) buffers_.push_back(tensor.name);
    for (const OutputDecl& output : task.outputs) buffers_.push_back(output.name);
    for (const NodeDecl& node : task.nodes) nodes_.push_back(node.out);
  }

  TextGrammar write() {
    const State begin = add(), block = add();
    node(begin).edges.push_back({"```", block, true});
    State at = text(block, "cpp\n/*lathe\n");
    at = optional(at, [&](State from) { return metadata(metadata(from, "pattern"), "knobs"); });
    at = optional(at, [&](State from) { return text(quoted(text(from, "requires = ")), "\n"); });
    at = optional(at, [&](State from) {
      return text(list(text(from, "constants = "), [&](State each) { return named(each, integers_); }), "\n");
    });
    at = any_number(at, [&](State from) { return scratch(from); });
    if (cuda_) at = any_number(at, [&](State from) { return map(from); });
    at = any_number(step(at), [&](State from) { return step(from); });
    const State code = text(at, "*/");
    node(code).open = true;
    return std::move(grammar_);
  }

 private:
  State add() {
    grammar_.states.emplace_back();
    return static_cast<State>(grammar_.states.size()) - 1;
  }
  TextGrammar::State& node(State state) { return grammar_.states[static_cast<std::size_t>(state)]; }
  void join(State from, std::string_view written, State to) {
    node(from).edges.push_back({std::string(written), to});
  }

  State text(State from, std::string_view written) {
    const State to = add();
    join(from, written, to);
    return to;
  }
  State one_of(State from, const Texts& texts) {
    const State to = add();
    for (const std::string& each : texts) join(from, each, to);
    return to;
  }
  template <class Part>
  State optional(State from, const Part& part) {
    const State to = part(from);
    join(from, "", to);
    return to;
  }
  template <class Part>
  State any_number(State from, const Part& part) {
    const State at = text(from, "");
    join(part(at), "", at);
    return at;
  }
  /// One or more of `characters`, then `end`.
  State some_of(State from, std::string_view characters, std::string_view end) {
    const State inside = add();
    for (const char c : characters) {
      join(from, {&c, 1}, inside);
      join(inside, {&c, 1}, inside);
    }
    return text(inside, end);
  }
  /// What may be empty: a kernel without knobs has none to tell.
  State metadata(State from, std::string_view name) {
    const State begin = text(from, std::string(name) + " = \""), over = some_of(begin, kMetadata, "\"\n");
    join(begin, "\"\n", over);
    return over;
  }
  State identifier(State from, std::string_view prefix) {
    const State begin = text(from, prefix), inside = add();
    for (const char c : kWord) {
      if (c < '0' || c > '9') join(begin, {&c, 1}, inside);
      join(inside, {&c, 1}, inside);
    }
    return text(inside, "");
  }
  /// Without zeros in front, as TOML wants it.
  State number(State from) {
    const State begun = add(), over = text(begun, "");
    for (const char digit : kDigits) {
      join(from, {&digit, 1}, digit == '0' ? over : begun);
      join(begun, {&digit, 1}, begun);
    }
    return over;
  }
  State named(State from, const Texts& names) { return text(one_of(text(from, "\""), names), "\""); }

  /// An expression over integers. What may stand in one pair of brackets may in any: how many
  /// arguments a function takes is not said.
  State expression(State from, int depth = kDeepest) {
    const State term = text(from, ""), after = one_of(term, integers_);
    join(number(term), "", after);
    join(number(text(term, "-")), "", after);
    for (const std::string& each : kOperators) join(after, each, term);
    if (depth == 0) return after;
    const State inside = one_of(term, kCalls), over = expression(inside, depth - 1);
    join(over, ", ", inside);
    join(over, ")", after);
    return after;
  }
  State quoted(State from) { return text(expression(text(from, "\"")), "\""); }
  /// A value of a key that takes expressions: quoted, or a number as it is.
  State value(State from) {
    const State to = quoted(from);
    join(number(from), "", to);
    return to;
  }
  template <class Item>
  State list(State from, const Item& item) {
    const State begin = text(from, "["), to = item(begin);
    join(to, ", ", begin);
    return text(to, "]");
  }
  State values(State from) {
    return list(from, [this](State each) { return value(each); });
  }

  /// A buffer of the task or of the plan's own.
  State buffer(State from) {
    const State to = one_of(from, buffers_);
    join(identifier(from, "s_"), "", to);
    return to;
  }
  /// Of a map: m_..., or as the catalogue's kernels number theirs, g0_...
  State map_name(State from) {
    const State to = identifier(from, "m_");
    join(identifier(some_of(text(from, "g"), kDigits, "_"), ""), "", to);
    return to;
  }
  State argument(State from) {
    const State begin = text(from, "\""), to = buffer(begin);
    if (cuda_) join(map_name(begin), "", to);
    join(expression(begin), "", to);
    return text(to, "\"");
  }
  State arguments(State from) {
    return list(from, [this](State each) { return argument(each); });
  }

  template <class Part>
  State key(State from, std::string_view name, const Part& part) {
    return text(part(text(from, std::string(name) + " = ")), "\n");
  }
  template <class Part>
  State optional_key(State from, std::string_view name, const Part& part) {
    return optional(from, [&](State at) { return key(at, name, part); });
  }
  State optional_flag(State from, std::string_view name) {
    return optional_key(from, name, [this](State at) { return text(at, "true"); });
  }
  State table(State from, std::string_view name) {
    const State begin = optional(from, [this](State at) { return text(at, "\n"); });
    return text(begin, "[[" + std::string(name) + "]]\n");
  }

  State scratch(State from) {
    State at = text(identifier(text(table(from, "scratch"), "name = \""), "s_"), "\"\n");
    at = key(at, "bytes", [this](State each) { return value(each); });
    return optional_key(at, "init", [this](State each) {
      return named(each, {"poison", "zero", "counter"});
    });
  }

  State map(State from) {
    const auto all = [this](State each) { return values(each); };
    State at = text(map_name(text(table(from, "tma"), "name = \"")), "\"\n");
    at = text(buffer(text(at, "base = \"")), "\"\n");
    at = optional_key(at, "dtype", [this](State each) { return some_of(text(each, "\""), kMetadata, "\""); });
    at = optional_key(key(at, "dims", all), "strides", all);
    at = optional_key(key(at, "box", all), "swizzle", [this](State each) { return value(each); });
    return optional_key(at, "fill", [this](State each) { return named(each, {"zero", "nan"}); });
  }

  /// A launch, or nodes of the task by a library.
  State step(State from) {
    const auto one = [this](State each) { return value(each); };
    const auto all = [this](State each) { return values(each); };
    State at = text(identifier(text(table(from, "launch"), "kernel = \""), ""), "\"\n");
    if (cuda_)
      at = key(key(at, "grid", all), "block", all);
    else
      at = key(at, "items", one);
    at = key(at, "args", [this](State each) { return arguments(each); });
    if (cuda_) {
      at = optional_key(optional_key(at, "cluster", all), "smem", one);
      at = optional_flag(at, "cooperative");
    }
    at = optional_key(at, "when", [this](State each) { return quoted(each); });
    if (cuda_) at = optional_flag(at, "programmatic");
    join(library_step(from), "", at);
    return at;
  }

  State library_step(State from) {
    State at = some_of(text(table(from, "node"), "library = \""), kLetters, "\"\n");
    at = key(at, "nodes",
             [this](State each) { return list(each, [this](State one) { return named(one, nodes_); }); });
    return optional_key(at, "when", [this](State each) { return quoted(each); });
  }

  const bool cuda_;
  Texts integers_, buffers_, nodes_;
  TextGrammar grammar_;
};

}  // namespace

TextGrammar kernel_grammar(const TaskSpec& task, Dialect dialect) {
  return PlanGrammar(task, dialect).write();
}

}  // namespace lathe
