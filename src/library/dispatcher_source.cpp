#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "library/package.h"

namespace lathe {
namespace {

std::string c_type(DType dtype) {
  const std::string_view name = info(dtype).c_name;
  return name.empty() ? "uint16_t" : std::string(name);
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
  PlanWriter(const ExportRequest& request, const std::string& package)
      : task_(*request.task), plan_(request.candidate->plan()), facts_(request.facts), package_(package) {
    for (const std::string& dim : task_.dim_names) names_.emplace(dim, Expr::symbol("d_" + dim));
    for (const auto& [fact, value] : facts_) names_.emplace(fact, Expr::constant(value));
    names_.insert_or_assign("threads", Expr::symbol("f_threads"));
  }

  Result<std::string> domain();
  Result<std::string> workspace();
  Result<std::string> body(const KernelVariant& variant);

 private:
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
  if (tensor && tensor->role == Role::kScalar) return Typed(c_type(tensor->dtype), "a." + name);
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

std::string struct_definitions(const ExportRequest& request) {
  std::string scratch = "  char* base_ = nullptr;\n";
  for (const ScratchDecl& decl : request.candidate->plan().scratch)
    scratch += fmt::format("  int64_t {0} = 0, {0}_bytes = 0;\n", decl.name);
  return "struct Data {\n" + each(data_parameters(*request.task), "  ", ";\n") + "};\n\nstruct Scratch {\n" +
         scratch + "};\n\n";
}

/// "if (d_cols.value == 1024) ..." for each variant; an unconditional one when the plan has no
/// constants.
std::string choose_variant(const std::vector<KernelVariant>& variants, const std::string& arguments) {
  std::string text;
  for (const KernelVariant& variant : variants) {
    std::string test;
    for (const auto& [name, value] : variant.constants)
      test += fmt::format("{}d_{}.value == {}", test.empty() ? "" : " && ", name, value);
    text += fmt::format("  {}return run{}({}) ? LATHE_OK : LATHE_OUTSIDE_DOMAIN;\n",
                        test.empty() ? "" : "if (" + test + ") ", variant.suffix, arguments);
    if (test.empty()) return text;
  }
  return text + "  return LATHE_OUTSIDE_DOMAIN;\n";
}

std::string dims_of(const TaskSpec& task, std::string_view before) {
  std::string text;
  for (const std::string& dim : task.dim_names) text += fmt::format("{}{}, ", before, dim);
  return text;
}

std::string entry_points(const ExportRequest& request, const std::string& package,
                         const std::vector<KernelVariant>& variants) {
  const TaskSpec& task = *request.task;
  const auto data = data_parameters(task);
  std::string checks, names;
  for (const std::string& parameter : data) {
    const std::string name = parameter_name(parameter);
    names += (names.empty() ? "" : ", ") + name;
    if (parameter.find('*') != std::string::npos)
      checks += fmt::format("  if (misaligned({})) return LATHE_MISALIGNED;\n", name);
  }
  std::string wrapped;
  for (const std::string& dim : task.dim_names) wrapped += fmt::format("  const Int d_{0}({0});\n", dim);
  const std::string arguments = dims_of(task, "d_") + "f_threads";
  return fmt::format(
      "extern \"C\" int64_t lathe_{0}_workspace_bytes({1}const lathe_parallel* parallel) {{\n{2}"
      "  const Int f_threads(parallel ? parallel->threads : 1);\n"
      "  Scratch scratch_;\n  int64_t bytes_ = 0;\n"
      "  return in_domain({3}) && lay_out({3}, &scratch_, &bytes_) ? bytes_ : -1;\n}}\n\n"
      "extern \"C\" int lathe_{0}({4}{1}void* workspace, const lathe_parallel* parallel) {{\n{2}"
      "  const Int f_threads(parallel ? parallel->threads : 1);\n"
      "  Scratch scratch_;\n  int64_t bytes_ = 0;\n"
      "  if (!in_domain({3}) || !lay_out({3}, &scratch_, &bytes_)) return LATHE_OUTSIDE_DOMAIN;\n{5}"
      "  if (bytes_ > 0 && !workspace) return LATHE_NO_WORKSPACE;\n"
      "  if (misaligned(workspace)) return LATHE_MISALIGNED;\n"
      "  scratch_.base_ = static_cast<char*>(workspace);\n  const Data data_ = {{{6}}};\n{7}}}\n",
      package, each(dim_parameters(task), "", ", "), wrapped, arguments, each(data, "", ", "), checks, names,
      choose_variant(variants, "data_, scratch_, " + arguments + ", parallel"));
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
  PlanWriter writer(request, package);
  const std::string names =
      each(request.task->dim_names, "[[maybe_unused]] Int d_", ", ") + "[[maybe_unused]] Int f_threads";
  LATHE_TRY(const std::string domain, writer.domain());
  LATHE_TRY(const std::string workspace, writer.workspace());
  std::string text = fmt::format("#include \"lathe_{}.h\"\n{}", package, kDispatcherRuntime);
  std::set<std::string> kernels;
  for (const PlanStep& step : request.candidate->plan().steps) kernels.insert(step.kernel);
  for (const KernelVariant& variant : variants) {
    for (const std::string& kernel : kernels)
      text += fmt::format("extern \"C\" void {}(void);\n", kernel_symbol(package, variant, kernel));
  }
  text += "\nnamespace {\n\n" + struct_definitions(request);
  text += fmt::format("bool in_domain({}) {{\n{}  return true;\n}}\n\n", names, domain);
  text += fmt::format(
      "bool lay_out({}, [[maybe_unused]] Scratch* s, int64_t* bytes) {{\n  Int end(0);\n{}"
      "  *bytes = end.value;\n  return end.sound;\n}}\n\n",
      names, workspace);
  for (const KernelVariant& variant : variants) {
    LATHE_TRY(const std::string body, writer.body(variant));
    text += fmt::format(
        "bool run{}([[maybe_unused]] const Data& a, [[maybe_unused]] const Scratch& s, {}, "
        "const lathe_parallel* p) {{\n{}}}\n\n",
        variant.suffix, names, body);
  }
  return text + "}  // namespace\n\n" + entry_points(request, package, variants);
}

}  // namespace lathe
