#include "baseline/naive/kernel.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

namespace lathe::naive {
namespace {

/// The locals of emitted code: a value of such a name gets an underscore. (Tasks refuse C++'s own words.)
const std::set<std::string, std::less<>>& reserved_names() {
  static const std::set<std::string, std::less<>> names = {
      "item", "base", "i", "j", "k", "row", "left", "sum", "peak", "mean", "scale", "best", "lathe"};
  return names;
}

/// Letters followed by digits (i0, v1) are the emitters' own, too.
std::string c_name(const std::string& name) {
  const bool numbered =
      name.size() > 1 && (name[0] == 'i' || name[0] == 'v') &&
      std::all_of(name.begin() + 1, name.end(), [](unsigned char c) { return std::isdigit(c); });
  return numbered || reserved_names().contains(name) ? name + "_" : name;
}

std::vector<Expr> renamed(const TaskSpec& task, const std::vector<Expr>& shape) {
  std::map<std::string, Expr> names;
  for (const std::string& dim : task.dim_names) names.insert_or_assign(dim, Expr::symbol(c_name(dim)));
  std::vector<Expr> result;
  for (const Expr& extent : shape) result.push_back(extent.substitute(names));
  return result;
}

Operand operand_of(const TaskSpec& task, const std::string& name) {
  if (const TensorDecl* tensor = task.find_tensor(name))
    return {c_name(name), tensor->dtype, renamed(task, tensor->shape), tensor->role == Role::kScalar};
  const NodeDecl& node = *task.find_node(name);
  return {c_name(name), node.type.dtype, renamed(task, node.type.shape), false};
}

/// An expression over C names back in the task's.
Expr restored(const TaskSpec& task, const Expr& expr) {
  std::map<std::string, Expr> names;
  for (const std::string& dim : task.dim_names) names.insert_or_assign(c_name(dim), Expr::symbol(dim));
  return expr.substitute(names);
}

bool mentions(std::string_view code, std::string_view word) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = code.find(word); at != code.npos; at = code.find(word, at + 1)) {
    const bool starts = at == 0 || !is_word(code[at - 1]);
    const std::size_t end = at + word.size();
    if (starts && (end == code.size() || !is_word(code[end]))) return true;
  }
  return false;
}

struct Parameters {
  std::vector<std::string> args;
  std::string text;

  void add(const std::string& arg, const std::string& declaration) {
    args.push_back(arg);
    text += declaration + ", ";
  }
};

Parameters parameters_of(const TaskSpec& task, const NodeDecl& node, const Site& site,
                         const std::string& body) {
  Parameters parameters;
  std::set<std::string> seen{node.out};
  bool in_place = false;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    in_place |= node.in[i] == node.out;
    if (!seen.insert(node.in[i]).second || !mentions(body, site.in[i].name)) continue;
    const Operand& operand = site.in[i];
    parameters.add(node.in[i], operand.by_value ? operand.c_type() + " " + operand.name
                                                : "const " + operand.c_type() + "* " + operand.name);
  }
  parameters.add(node.out, site.out.c_type() + (in_place ? "* " : "* __restrict ") + site.out.name);
  for (const std::string& dim : task.dim_names)
    if (mentions(body, c_name(dim))) parameters.add(dim, "int64_t " + c_name(dim));
  return parameters;
}

/// Whether `code` calls `function` outside any namespace.
bool calls_plainly(std::string_view code, std::string_view function) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ':';
  };
  for (std::size_t at = code.find(function); at != code.npos; at = code.find(function, at + 1))
    if ((at == 0 || !is_word(code[at - 1])) && code.substr(at + function.size()).starts_with('('))
      return true;
  return false;
}

struct Helper {
  std::string_view call;
  std::string_view definition;
};

constexpr std::array kHelpers = {
    Helper{"lathe::exp(", "inline float exp(float x) { return __builtin_expf(x); }"},
    Helper{"lathe::exp2(", "inline float exp2(float x) { return __builtin_exp2f(x); }"},
    Helper{"lathe::expm1(", "inline float expm1(float x) { return __builtin_expm1f(x); }"},
    Helper{"lathe::log(", "inline float log(float x) { return __builtin_logf(x); }"},
    Helper{"lathe::log2(", "inline float log2(float x) { return __builtin_log2f(x); }"},
    Helper{"lathe::log1p(", "inline float log1p(float x) { return __builtin_log1pf(x); }"},
    Helper{"lathe::tanh(", "inline float tanh(float x) { return __builtin_tanhf(x); }"},
    Helper{"lathe::erf(", "inline float erf(float x) { return __builtin_erff(x); }"},
    Helper{"lathe::sin(", "inline float sin(float x) { return __builtin_sinf(x); }"},
    Helper{"lathe::cos(", "inline float cos(float x) { return __builtin_cosf(x); }"},
    Helper{"lathe::floor(", "inline float floor(float x) { return __builtin_floorf(x); }"},
    Helper{"lathe::ceil(", "inline float ceil(float x) { return __builtin_ceilf(x); }"},
    Helper{"lathe::round(", "inline float round(float x) { return __builtin_rintf(x); }"},
    Helper{"lathe::sqrt(", "inline float sqrt(float x) { return __builtin_sqrtf(x); }"},
    Helper{"lathe::rsqrt(", "inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }"},
    Helper{"lathe::sigmoid(", "inline float sigmoid(float x) { return 1.0f / (1.0f + __builtin_expf(-x)); }"},
    Helper{"lathe::abs(", "inline float abs(float x) { return __builtin_fabsf(x); }"},
    Helper{"lathe::pow(", "inline float pow(float x, float y) { return __builtin_powf(x, y); }"},
    Helper{"lathe::copysign(",
           "inline float copysign(float x, float y) { return __builtin_copysignf(x, y); }"},
    Helper{"lathe::fma(", "inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }"},
    Helper{"lathe::max(", "template <class T> T max(T x, T y) { return x > y || x != x ? x : y; }"},
    Helper{"lathe::min(", "template <class T> T min(T x, T y) { return x < y || x != x ? x : y; }"},
    Helper{"lathe::is_nan(", "inline bool is_nan(float x) { return x != x; }"},
    Helper{"lathe::lt(", "inline bool lt(float x, float y) { return x < y; }"},
    Helper{"lathe::le(", "inline bool le(float x, float y) { return x <= y; }"},
    Helper{"lathe::gt(", "inline bool gt(float x, float y) { return x > y; }"},
    Helper{"lathe::ge(", "inline bool ge(float x, float y) { return x >= y; }"},
    Helper{"lathe::eq(", "inline bool eq(float x, float y) { return x == y; }"},
    Helper{"lathe::ne(", "inline bool ne(float x, float y) { return x != y; }"},
    Helper{"lathe::select(", "inline float select(bool m, float x, float y) { return m ? x : y; }"},
};

constexpr std::array kIntegerHelpers = {
    Helper{"cdiv", "static inline int64_t cdiv(int64_t x, int64_t y) { return (x + y - 1) / y; }"},
    Helper{"min", "static inline int64_t min(int64_t x, int64_t y) { return x < y ? x : y; }"},
    Helper{"max", "static inline int64_t max(int64_t x, int64_t y) { return x > y ? x : y; }"},
    Helper{"align", "static inline int64_t align(int64_t x, int64_t y) { return (x + y - 1) / y * y; }"},
};

}  // namespace

Result<Kernel> make_kernel(const TaskSpec& task, const NodeDecl& node) {
  const Emitter emit = find_emitter(*node.op);
  if (!emit) return invalid("the naive build has no loop nest for op '" + node.op_name + "'", {}, node.where);
  Site site{*node.op, node.attrs, {}, operand_of(task, node.out)};
  for (const std::string& name : node.in) site.in.push_back(operand_of(task, name));
  site.out.dtype = node.type.dtype;
  site.out.shape = renamed(task, node.type.shape);
  site.out.by_value = false;
  const LoopNest nest = emit(site);
  const Parameters parameters = parameters_of(task, node, site, nest.body);
  Kernel kernel{"naive_" + node.out, restored(task, nest.items), parameters.args, {}};
  kernel.code = indent(fill(R"(extern "C" void $name($parameters) {
for (int64_t item = begin; item < end; ++item) {
$body}
}
)",
                            {{"name", kernel.name},
                             {"parameters", parameters.text + "int64_t begin, int64_t end"},
                             {"body", nest.body}}));
  return kernel;
}

std::string helpers_for(std::string_view code) {
  std::string text;
  for (const Helper& helper : kIntegerHelpers)
    if (calls_plainly(code, helper.call)) text += std::string(helper.definition) + "\n";
  std::string named;
  for (const Helper& helper : kHelpers)
    if (code.find(helper.call) != code.npos) named += std::string(helper.definition) + "\n";
  if (!named.empty()) text += "namespace lathe {\n" + named + "}  // namespace lathe\n";
  return text;
}

}  // namespace lathe::naive
