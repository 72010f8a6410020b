#include <algorithm>
#include <cctype>
#include <utility>

#include "policy/catalog/emit/nest/nest.h"

namespace lathe::catalog {
namespace {

struct How {
  const char* neutral;
  const char* combine;       ///< of {a} and {v}
  const char* fast_combine;  ///< where a NaN shows elsewhere
  const char* horizontal;
};

How how_to(const std::string& reduction) {
  if (reduction == "max") return {"-kInfinity", "max({a}, {v})", "fast_max({v}, {a})", "reduce_max"};
  if (reduction == "min") return {"kInfinity", "min({a}, {v})", "fast_min({v}, {a})", "reduce_min"};
  if (reduction == "prod") return {"1.0f", "{a} * {v}", "{a} * {v}", "reduce_mul"};
  if (reduction == "argmax") return {"-kInfinity", "", "", "extremum_index<true>"};
  if (reduction == "argmin") return {"kInfinity", "", "", "extremum_index<false>"};
  return {"0.0f", "{a} + {v}", "{a} + {v}", "reduce_add"};
}

bool is_index(const Term& term) { return term.node->how.starts_with("arg"); }

std::string fill(std::string text, const std::string& a, const std::string& v) {
  for (const auto& [hole, by] : {std::pair<std::string, const std::string&>{"{a}", a}, {"{v}", v}})
    if (const std::size_t at = text.find(hole); at != std::string::npos) text.replace(at, hole.size(), by);
  return text;
}

}  // namespace

bool mentions(const std::string& code, const std::string& word) {
  for (std::size_t at = code.find(word); at != std::string::npos; at = code.find(word, at + 1)) {
    const auto is_word = [&](std::size_t i) {
      return i < code.size() && (std::isalnum(static_cast<unsigned char>(code[i])) != 0 || code[i] == '_');
    };
    if (!is_word(at + word.size()) && (at == 0 || !is_word(at - 1))) return true;
  }
  return false;
}

std::string NestEmitter::accumulate(int t, const std::string& a) {
  const Term& term = terms_.list[static_cast<std::size_t>(t)];
  if (t == leader_) return {};
  if (t == follower_) return extend_online(a.substr(2 + terms_.name(t).size()));
  const How how = how_to(term.node->how);
  std::string value = terms_.name(term.operands[0]);
  if (mode_ == NestMode::kRows || !guard_.empty()) value = "keep(lanes, " + value + ", " + how.neutral + ")";
  if (is_index(term)) {
    std::string index;
    for (std::size_t l = 0; l < loops_.size(); ++l)
      if (loops_[l].reduced) index = "f32v(static_cast<float>(" + indices_[l] + "))";
    if (mode_ == NestMode::kRows) index += " + lane_index()";
    const std::string largest = term.node->how == "argmax" ? "true" : "false";
    return "update_extremum<" + largest + ">(" + a + ", x_" + a + ", " + value + ", " + index + ");\n";
  }
  bool seen_elsewhere = false;
  for (const Term& user : terms_.list)
    seen_elsewhere |= inner(user) && std::ranges::find(user.operands, t) != user.operands.end();
  return a + " = " + fill(seen_elsewhere && !term.stored ? how.fast_combine : how.combine, a, value) + ";\n";
}

std::string NestEmitter::neutral(int t) const {
  if (t == leader_) return "kLowest";
  return how_to(terms_.list[static_cast<std::size_t>(t)].node->how).neutral;
}

std::string NestEmitter::join(int t, const std::string& a, const std::string& b) const {
  return a + " = " + fill(how_to(terms_.list[static_cast<std::size_t>(t)].node->how).combine, a, b) + ";\n";
}

/// The statements for one vector of one pass, without the accumulators' names being decided.
std::string NestEmitter::pass_body(int stage) {
  std::string code;
  for (const int t : closure(wanted(stage), stage)) code += declare(t, stage, true);
  for (std::size_t t = 0; t < terms_.list.size(); ++t) {
    const Term& term = terms_.list[t];
    const bool stored = term.stored && inner(term) && term.stage == stage;
    if (stored || (!in_kept_ && static_cast<int>(t) == cached_ && term.stage == stage))
      code += store_text(static_cast<int>(t), true);
  }
  return code;
}

std::string NestEmitter::declare_accumulators(const std::vector<int>& reduces) const {
  std::string code;
  const bool columns = mode_ == NestMode::kColumns;
  for (const int t : reduces) {
    if (columns && t == leader_) code += "moments a_" + terms_.name(t) + "[kBlock / kLanes];\n";
    if (columns && (t == leader_ || t == follower_)) continue;
    const Term& term = terms_.list[static_cast<std::size_t>(t)];
    const std::string start = "f32v(" + neutral(t) + ")";
    for (const std::string prefix : {"a_", "x_a_"}) {
      if (prefix == "x_a_" && !is_index(term)) continue;
      const std::string first = prefix == "a_" ? start : "f32v(kInfinity)";
      if (columns) {
        code += "f32v " + prefix + terms_.name(t) + "[kBlock / kLanes];\n";
        code += "for (f32v& a : " + prefix + terms_.name(t) + ") a = " + first + ";\n";
        continue;
      }
      for (int u = 0; u < unroll_; ++u)
        code += "f32v " + prefix + terms_.name(t) + "_" + std::to_string(u) + " = " + first + ";\n";
    }
  }
  return code;
}

/// Reductions that follow each other exchange through different memory.
std::string NestEmitter::turn() { return turns_++ % 2 == 0 ? "<0>" : "<1>"; }

std::string NestEmitter::finish_reductions(const std::vector<int>& reduces) {
  std::string code;
  for (const int t : reduces) {
    const Term& term = terms_.list[static_cast<std::size_t>(t)];
    if (t == leader_) continue;
    if (t == follower_) {
      code += finish_online();
      continue;
    }
    const std::string name = terms_.name(t), a = "a_" + name;
    const How how = how_to(term.node->how);
    if (mode_ == NestMode::kColumns) {
      const std::string result = is_index(term) ? "x_" + a : a;
      code += "f32v (&b_" + name + ")[kBlock / kLanes] = " + result + ";\n";
      continue;
    }
    for (int u = 1; u < unroll_; ++u) {
      const std::string other = a + "_" + std::to_string(u);
      const std::string largest = term.node->how == "argmax" ? "true" : "false";
      code += is_index(term) ? "update_extremum<" + largest + ">(" + a + "_0, x_" + a + "_0, " + other +
                                   ", x_" + other + ");\n"
                             : a + "_0 = " + fill(how.combine, a + "_0", other) + ";\n";
    }
    const std::string args = a + "_0" + (is_index(term) ? ", x_" + a + "_0" : "");
    const std::string use = site_.target.cuda && !is_index(term) ? turn() : "";
    code += "const float " + name + " = " + how.horizontal + use + "(" + args + ");\n";
  }
  return code;
}

/// body(at, lanes, accumulators...) over [from, to): unrolled, then one vector at a time, then a masked tail.
std::string NestEmitter::vector_loop(const std::string& body, const std::vector<int>& reduces,
                                     const std::string& from, const std::string& to) const {
  std::string parameters;
  const auto arguments = [&](int u) {
    std::string text;
    for (const int t : reduces) {
      const std::string a = "a_" + terms_.name(t) + "_" + std::to_string(u);
      text += ", " + a;
      if (is_index(terms_.list[static_cast<std::size_t>(t)])) text += ", x_" + a;
    }
    return text;
  };
  for (const int t : reduces) {
    parameters += ", f32v& a_" + terms_.name(t);
    if (is_index(terms_.list[static_cast<std::size_t>(t)])) parameters += ", f32v& x_a_" + terms_.name(t);
  }
  std::string code = "const auto body = [&](int64_t j, auto lanes" + parameters +
                     ") __attribute__((always_inline)) {\n" + body + "};\n";
  if (site_.target.cuda) {
    const bool share = from == "first";
    const std::string step = std::to_string(unroll_) + " * kLanes", extent = loops_.back().extent.to_string();
    std::string all;
    if (share) all = "(" + extent + ") % " + std::to_string(chunk_) + " == 0";
    if (from == "0" || kept_ > 0) all = "(" + extent + " - " + from + ") % (" + step + ") == 0";
    code += "const int64_t stop = " + to + ";\n#pragma GCC unroll 1\n";
    code += share ? "for (int r = 0; r < " + std::to_string(depth_ / unroll_) +
                        "; ++r) {\nconst int64_t at = first + r * " + step + ";\n"
                  : "for (int64_t at = " + from + "; at < stop; at += " + step + ") {\n";
    for (int u = 0; u < unroll_; ++u) {
      const std::string ahead = u > 0 ? std::to_string(u) + " * kLanes" : "";
      code += "body(at" + (u > 0 ? " + " + ahead : "") + ", " +
              mask("stop - at" + (u > 0 ? " - " + ahead : ""), all) + arguments(u) + ");\n";
    }
    return code + "}\n";
  }
  code += "int64_t at = " + from + ";\nconst int64_t stop = " + to + ";\n";
  if (unroll_ > 1) {
    const std::string step = std::to_string(unroll_) + " * kLanes";
    code += "for (; at + " + step + " <= stop; at += " + step + ") {\n";
    for (int u = 0; u < unroll_; ++u)
      code += "body(at" + (u > 0 ? " + " + std::to_string(u) + " * kLanes" : "") + ", whole()" +
              arguments(u) + ");\n";
    code += "}\n";
  }
  code += "for (; at + kLanes <= stop; at += kLanes) body(at, whole()" + arguments(0) + ");\n";
  return code + "if (at < stop) body(at, first_lanes(stop - at)" + arguments(0) + ");\n";
}

/// Code for each vector of a column block; lane-wise results of earlier passes are read from their arrays.
std::string NestEmitter::per_block(const std::string& code) const {
  std::string text = "#pragma GCC unroll 8\nfor (int u = 0; u < kBlock / kLanes; ++u) {\n";
  const std::string extent = loops_.back().extent.to_string();
  std::string all = "(" + extent + ") % kBlock == 0", left = extent + " - j";
  if (!guard_.empty()) {
    all += " && " + guard_;
    left = "in ? " + left + " : 0";
  }
  text += "const int64_t j = j0 + u * kLanes;\nconst " + std::string(site_.target.cuda ? "auto" : "maskv") +
          " lanes = " + mask(left, all) + ";\n";
  for (std::size_t t = 0; t < terms_.list.size(); ++t) {
    const Term& term = terms_.list[t];
    const std::string name = terms_.name(static_cast<int>(t));
    const bool reduced = term.kind == Term::Kind::kReduce && lanewise(term);
    if (reduced && mentions(code, name)) text += "const f32v " + name + " = b_" + name + "[u];\n";
  }
  return text + code + "}\n";
}

}  // namespace lathe::catalog
