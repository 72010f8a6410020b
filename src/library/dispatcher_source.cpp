#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "library/package.h"

namespace lathe {
namespace {

/// Callers have the bits of what is no type of C.
std::string c_type(DType dtype) {
  const std::string_view name = info(dtype).c_name;
  const bool own = name.empty() || name.find("::") != std::string_view::npos;
  return own ? (info(dtype).bytes == 1 ? "uint8_t" : "uint16_t") : std::string(name);
}

/// Type and value as a kernel takes them. Of 16 bits, whole numbers and floating-point ones come in
/// different registers.
std::pair<std::string, std::string> scalar_argument(const TensorDecl& scalar) {
  if (scalar.dtype == DType::kF16)
    return {"lathe::half", "__builtin_bit_cast(lathe::half, a." + scalar.name + ")"};
  return {c_type(scalar.dtype), "a." + scalar.name};
}

const OutputDecl* find_output(const TaskSpec& task, const std::string& name) {
  const auto found = std::find_if(task.outputs.begin(), task.outputs.end(),
                                  [&](const OutputDecl& output) { return output.name == name; });
  return found == task.outputs.end() ? nullptr : &*found;
}

/// The data parameters of the C function, in order: inputs as the task lists them (an inout tensor
/// is passed once), then the other outputs.
std::vector<std::string> data_parameters(const TaskSpec& task) {
  std::vector<std::string> list;
  for (const TensorDecl& tensor : task.tensors) {
    if (tensor.role == Role::kScalar) {
      list.push_back(c_type(tensor.dtype) + " " + tensor.name);
    } else {
      list.push_back((find_output(task, tensor.name) ? "" : "const ") + c_type(tensor.dtype) + "* " +
                     tensor.name);
    }
  }
  for (const OutputDecl& output : task.outputs) {
    if (!task.find_tensor(output.name)) list.push_back(c_type(output.dtype) + "* " + output.name);
  }
  return list;
}

std::vector<std::string> dim_parameters(const TaskSpec& task) {
  std::vector<std::string> list;
  for (const std::string& dim : task.dim_names) list.push_back("int64_t " + dim);
  return list;
}

/// Generates code for a plan. Expressions use d_<dim> and f_<fact>, so that no name of a task
/// collides with one of the dispatcher's.
class PlanWriter {
 public:
  PlanWriter(const ExportRequest& request, const Candidate& candidate, const std::string& package)
      : task_(*request.task), plan_(candidate.plan()), facts_(request.facts), package_(package) {
    for (const std::string& dim : task_.dim_names) names_.emplace(dim, Expr::symbol("d_" + dim));
    for (const auto& [fact, value] : facts_) names_.emplace(fact, Expr::constant(value));
    names_.insert_or_assign("threads", Expr::symbol("f_threads"));
  }

  /// A namespace `name` with serves() and run(), which call one of `variants`, all of this plan.
  Result<std::string> implementation(const std::string& name, std::span<const KernelVariant> variants);

 private:
  Result<std::string> domain();
  Result<std::string> workspace();
  Result<std::string> body(const KernelVariant& variant);
  Result<std::string> code(const Expr& expr, const std::string& index = {}) const;
  /// "    const int64_t <name> = ...;"
  Result<std::string> number(const std::string& name, const Expr& expr, const std::string& index) const;
  Result<std::string> launch(const PlanStep& step, const KernelVariant& variant);
  Result<std::string> step_code(const PlanStep& step, const KernelVariant& variant);
  /// Type and value of an argument that is not an integer.
  Result<std::pair<std::string, std::string>> data_argument(const std::string& name) const;

  const TaskSpec& task_;
  const Plan& plan_;
  const Dims& facts_;
  const std::string& package_;
  std::map<std::string, Expr> names_;
};

Result<std::string> PlanWriter::code(const Expr& expr, const std::string& index) const {
  std::map<std::string, Expr> names = names_;
  if (!index.empty()) names.insert_or_assign(index, Expr::symbol("i_" + index));
  for (const std::string& symbol : expr.symbols()) {
    if (!names.contains(symbol))
      return invalid("the plan uses '" + symbol + "', which is neither a dim nor a known device fact",
                     "export on the machine that found the kernel");
  }
  return "Int(" + expr.substitute(names).to_string() + ")";
}

Result<std::string> PlanWriter::domain() {
  std::string text;
  for (const std::string& dim : task_.dim_names)
    text += fmt::format("  if (!(d_{} > Int(0))) return false;\n", dim);
  for (const std::optional<Expr>& condition : {task_.where, plan_.requires_}) {
    if (!condition) continue;
    LATHE_TRY(const std::string test, code(*condition));
    text += fmt::format("  if (!{}) return false;\n", test);
  }
  return text;
}

Result<std::string> PlanWriter::workspace() {
  std::string text;
  for (const ScratchDecl& scratch : plan_.scratch) {
    LATHE_TRY(const std::string bytes, code(scratch.bytes));
    text += fmt::format("  place(&s->{}, &s->{}_bytes, &end, {});\n", scratch.name, scratch.name, bytes);
  }
  return text;
}

Result<std::pair<std::string, std::string>> PlanWriter::data_argument(const std::string& name) const {
  using Typed = std::pair<std::string, std::string>;
  const bool scratch = std::any_of(plan_.scratch.begin(), plan_.scratch.end(),
                                   [&](const ScratchDecl& decl) { return decl.name == name; });
  if (scratch) return Typed("void*", "s.base_ + s." + name);
  const TensorDecl* tensor = task_.find_tensor(name);
  if (tensor && tensor->role == Role::kScalar) return scalar_argument(*tensor);
  if (find_output(task_, name)) return Typed("void*", "a." + name);
  if (tensor) return Typed("const void*", "a." + name);
  return invalid("the plan passes '" + name + "', which the task does not have");
}

Result<std::string> PlanWriter::number(const std::string& name, const Expr& expr,
                                       const std::string& index) const {
  LATHE_TRY(const std::string value, code(expr, index));
  return fmt::format("    const int64_t {} = take({}, &sound);\n", name, value);
}

Result<std::string> PlanWriter::launch(const PlanStep& step, const KernelVariant& variant) {
  LATHE_TRY(std::string text, number("items", step.items, step.index));
  std::string types, values;
  for (std::size_t i = 0; i < step.args.size(); ++i) {
    const Arg& arg = step.args[i];
    if (arg.expr || names_.contains(arg.name) || (!step.index.empty() && arg.name == step.index)) {
      const std::string name = "n" + std::to_string(i);
      LATHE_TRY(const std::string taken,
                number(name, arg.expr ? *arg.expr : Expr::symbol(arg.name), step.index));
      text += taken;
      types += "int64_t, ";
      values += name + ", ";
    } else {
      LATHE_TRY(const auto typed, data_argument(arg.name));
      types += typed.first + ", ";
      values += typed.second + ", ";
    }
  }
  return text + fmt::format(
                    "    if (!sound || items < 0) return false;\n"
                    "    share(items, p, [&](int64_t begin, int64_t end) {{\n"
                    "      reinterpret_cast<void (*)({}int64_t, int64_t)>({})({}begin, end);\n    }});\n",
                    types, kernel_symbol(package_, variant, step.kernel), values);
}

Result<std::string> PlanWriter::step_code(const PlanStep& step, const KernelVariant& variant) {
  std::string text = "  {\n";
  std::string close = "  }\n";
  if (step.repeat) {
    LATHE_TRY(const std::string repeat, number("repeat", *step.repeat, {}));
    text += repeat + "    if (!sound || repeat < 0 || repeat > 4096) return false;\n" +
            "    for (int64_t i = 0; i < repeat; ++i) {\n";
    if (!step.index.empty()) text += fmt::format("    [[maybe_unused]] const Int i_{}(i);\n", step.index);
    close += "  }\n";
  }
  if (step.when) {
    LATHE_TRY(const std::string when, number("when", *step.when, step.index));
    text += when + "    if (!sound) return false;\n    if (when) {\n";
    close += "  }\n";
  }
  LATHE_TRY(const std::string launched, launch(step, variant));
  return text + launched + close;
}

Result<std::string> PlanWriter::body(const KernelVariant& variant) {
  std::string text = "  [[maybe_unused]] bool sound = true;\n";
  for (const ScratchDecl& scratch : plan_.scratch) {
    if (scratch.init != ScratchInit::kPoison)
      text += fmt::format("  memset(s.base_ + s.{0}, 0, static_cast<size_t>(s.{0}_bytes));\n", scratch.name);
  }
  for (const PlanStep& step : plan_.steps) {
    LATHE_TRY(const std::string code, step_code(step, variant));
    text += code;
  }
  return text + "  return true;\n";
}

/// Prefixes every element.
std::string each(const std::vector<std::string>& list, std::string_view before, std::string_view after) {
  std::string text;
  for (const std::string& item : list) text += fmt::format("{}{}{}", before, item, after);
  return text;
}

std::string parameter_name(const std::string& parameter) {
  return parameter.substr(parameter.rfind(' ') + 1);
}

/// "d_cols.value == 1024"; empty when the plan has no constants.
std::string constants_match(const KernelVariant& variant) {
  std::string test;
  for (const auto& [name, value] : variant.constants)
    test += fmt::format("{}d_{}.value == {}", test.empty() ? "" : " && ", name, value);
  return test;
}

std::string dims_of(const TaskSpec& task, std::string_view before) {
  std::string text;
  for (const std::string& dim : task.dim_names) text += fmt::format("{}{}, ", before, dim);
  return text;
}

Result<std::string> PlanWriter::implementation(const std::string& name,
                                               std::span<const KernelVariant> variants) {
  const std::string names =
      each(task_.dim_names, "[[maybe_unused]] Int d_", ", ") + "[[maybe_unused]] Int f_threads";
  const std::string arguments = dims_of(task_, "d_") + "f_threads";
  LATHE_TRY(const std::string in_domain, domain());
  LATHE_TRY(const std::string layout, workspace());
  std::string scratch, any, choice, text;
  for (const ScratchDecl& decl : plan_.scratch)
    scratch += fmt::format("  int64_t {0} = 0, {0}_bytes = 0;\n", decl.name);
  for (const KernelVariant& variant : variants) {
    LATHE_TRY(const std::string code, body(variant));
    text += fmt::format(
        "bool run{}([[maybe_unused]] const Data& a, [[maybe_unused]] const Scratch& s, {}, "
        "const lathe_parallel* p) {{\n{}}}\n\n",
        variant.suffix, names, code);
    const std::string test = constants_match(variant);
    if (!test.empty()) any += fmt::format("{}({})", any.empty() ? "" : " || ", test);
    choice += fmt::format("  {}return run{}(a, s, {}, p) ? LATHE_OK : LATHE_OUTSIDE_DOMAIN;\n",
                          test.empty() ? "" : "if (" + test + ") ", variant.suffix, arguments);
  }
  if (!any.empty()) choice += "  return LATHE_OUTSIDE_DOMAIN;\n";
  return fmt::format(
      "namespace {0} {{\n\n"
      "struct Scratch {{\n  char* base_ = nullptr;\n  int64_t total_ = 0;\n{1}}};\n\n{2}"
      "/// Whether this plan serves the dims; lays out its scratch.\n"
      "bool serves({3}, Scratch* s) {{\n{4}{5}  Int end(0);\n{6}"
      "  s->total_ = end.value;\n  return end.sound;\n}}\n\n"
      "int run(const Data& a, const Scratch& s, {3}, const lathe_parallel* p) {{\n{7}}}\n\n"
      "}}  // namespace {0}\n\n",
      name, scratch, text, names, in_domain, any.empty() ? "" : "  if (!(" + any + ")) return false;\n",
      layout, choice);
}

std::string entry_points(const TaskSpec& task, const std::string& package,
                         const std::vector<std::string>& implementations) {
  std::string wrapped, sizes, calls, names;
  for (const std::string& dim : task.dim_names) wrapped += fmt::format("  const Int d_{0}({0});\n", dim);
  wrapped += "  const Int f_threads(parallel ? parallel->threads : 1);\n";
  const std::vector<std::string> data = data_parameters(task);
  for (const std::string& parameter : data) names += (names.empty() ? "" : ", ") + parameter_name(parameter);
  const std::string arguments = dims_of(task, "d_") + "f_threads";
  for (const std::string& name : implementations) {
    sizes +=
        fmt::format("  if ({0}::Scratch scratch_; {0}::serves({1}, &scratch_)) return scratch_.total_;\n",
                    name, arguments);
    calls += fmt::format(
        "  if ({0}::Scratch scratch_; {0}::serves({1}, &scratch_)) {{\n"
        "    if (const int error_ = check_call(data_, workspace, scratch_.total_)) return error_;\n"
        "    scratch_.base_ = static_cast<char*>(workspace);\n"
        "    return {0}::run(data_, scratch_, {1}, parallel);\n  }}\n",
        name, arguments);
  }
  return fmt::format(
      "extern \"C\" int64_t lathe_{0}_workspace_bytes({1}const lathe_parallel* parallel) {{\n{2}{3}"
      "  return -1;\n}}\n\n"
      "extern \"C\" int lathe_{0}({4}{1}void* workspace, const lathe_parallel* parallel) {{\n{2}"
      "  const Data data_ = {{{5}}};\n{6}"
      "  return LATHE_OUTSIDE_DOMAIN;\n}}\n",
      package, each(dim_parameters(task), "", ", "), wrapped, sizes, each(data, "", ", "), names, calls);
}

/// "struct Data", and what a call refuses once it is known who serves it.
std::string data_definitions(const TaskSpec& task) {
  std::string checks;
  for (const std::string& parameter : data_parameters(task))
    if (parameter.find('*') != std::string::npos)
      checks += fmt::format("  if (misaligned(a.{})) return LATHE_MISALIGNED;\n", parameter_name(parameter));
  return "struct Data {\n" + each(data_parameters(task), "  ", ";\n") +
         "};\n\nint check_call([[maybe_unused]] const Data& a, void* workspace, int64_t bytes) {\n" + checks +
         "  if (bytes > 0 && !workspace) return LATHE_NO_WORKSPACE;\n"
         "  return misaligned(workspace) ? LATHE_MISALIGNED : LATHE_OK;\n}\n\n";
}

}  // namespace

std::string header_source(const ExportRequest& request, const std::string& package) {
  const TaskSpec& task = *request.task;
  const std::string dims = each(dim_parameters(task), "", ", ");
  return fmt::format(fmt::runtime(kHeaderTemplate), fmt::arg("name", package), fmt::arg("task", task.name),
                     fmt::arg("dims", dims), fmt::arg("data", each(data_parameters(task), "", ", ")));
}

Result<std::string> dispatcher_source(const ExportRequest& request, const std::string& package,
                                      const std::vector<KernelVariant>& variants) {
  std::string text =
      fmt::format("#include \"lathe_{}.h\"\n#include <lathe/cpu/half.h>\n{}", package, kDispatcherRuntime);
  for (const KernelVariant& variant : variants)
    for (const std::string& kernel : kernels_of(variant))
      text += fmt::format("extern \"C\" void {}(void);\n", kernel_symbol(package, variant, kernel));
  text += "\nnamespace {\n\n" + data_definitions(*request.task);
  const std::size_t own = variants.size() - (request.fallback ? 1 : 0);
  LATHE_TRY(const std::string kernel, PlanWriter(request, *request.candidate, package)
                                          .implementation("kernel", std::span(variants).first(own)));
  text += kernel;
  std::vector<std::string> implementations = {"kernel"};
  if (request.fallback) {
    LATHE_TRY(const std::string fallback, PlanWriter(request, *request.fallback, package)
                                              .implementation("fallback", std::span(variants).subspan(own)));
    text += fallback;
    implementations.emplace_back("fallback");
  }
  return text + "}  // namespace\n\n" + entry_points(*request.task, package, implementations);
}

}  // namespace lathe
