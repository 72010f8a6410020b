#include "baseline/naive/native.h"

#include <algorithm>
#include <filesystem>
#include <regex>

#include "base/fd.h"
#include "baseline/naive/kernel.h"
#include "baseline/naive/nest.h"

namespace lathe::naive {
namespace {

bool is_fp32(const TaskSpec& task) {
  const auto has = [](const auto& tensor) { return tensor.dtype == DType::kF32; };
  return std::ranges::all_of(task.tensors, has) && std::ranges::all_of(task.outputs, has);
}

void append(std::string& list, const std::string& item) { list += (list.empty() ? "" : ", ") + item; }

/// What surrounds the call of the author's function: in fp32 where all operands are, else in fp64
/// as the function is written, with copies of the operands of other dtypes.
class Wrapper {
 public:
  explicit Wrapper(DType computed) : computed_(computed) {}

  void add_input(const TensorDecl& tensor) {
    const Operand operand{tensor.name, tensor.dtype, tensor.shape, tensor.role == Role::kScalar};
    take(operand, operand.by_value ? operand.c_type() + " " : "const " + operand.c_type() + "* ");
    if (operand.dtype == computed_) return append(in_, (operand.by_value ? "&" : "") + operand.name);
    const std::string copy = "naive_of_" + operand.name;
    append(in_, operand.by_value ? "&" + copy : copy);
    if (operand.by_value) {
      before_ += "  const double " + copy + " = static_cast<double>(" + operand.name + ");\n";
      return;
    }
    take_scratch(copy, operand);
    before_ += copy_loop(operand, copy + "[i] = static_cast<double>(" + operand.name + "[i])");
  }

  void add_output(const OutputDecl& output) {
    const Operand operand{output.name, output.dtype, output.shape};
    take(operand, operand.c_type() + "* ");
    if (operand.dtype == computed_) return append(out_, operand.name);
    const std::string copy = "naive_of_" + operand.name;
    append(out_, copy);
    take_scratch(copy, operand);
    behind_ += copy_loop(operand, expand("$name[i] = static_cast<$type>(static_cast<$computed>($copy[i]))",
                                         {{"name", operand.name},
                                          {"type", operand.c_type()},
                                          {"computed", operand.compute_type()},
                                          {"copy", copy}}));
  }

  void add_dim(const std::string& dim) {
    append(args_, "\"" + dim + "\"");
    parameters_ += "int64_t " + dim + ", ";
    append(dims_, dim);
  }

  std::string text(const std::string& source) const {
    const std::string kernel = expand(R"(
extern "C" void naive_reference($parameters int64_t, int64_t) {
$before  const $type* const naive_in[] = {$in};
  $type* const naive_out[] = {$out};
  const long long naive_dims[] = {$dims};
  reference(naive_in, naive_out, naive_dims);
$behind}
)",
                                      {{"parameters", parameters_},
                                       {"before", before_},
                                       {"type", computed_ == DType::kF32 ? "float" : "double"},
                                       {"in", in_},
                                       {"out", out_},
                                       {"dims", dims_.empty() ? "0" : dims_},
                                       {"behind", behind_}});
    return expand(R"(
/*lathe
pattern = "naive"
$scratch
[[launch]]
kernel = "naive_reference"
items = "1"
args = [$args]
*/
#include <stdint.h>

$source
$helpers$kernel)",
                  {{"scratch", scratch_},
                   {"args", args_},
                   {"source", source},
                   {"helpers", helpers_for(kernel)},
                   {"kernel", kernel}});
  }

 private:
  void take(const Operand& operand, const std::string& type) {
    append(args_, "\"" + operand.name + "\"");
    parameters_ += type + operand.name + ", ";
  }
  void take_scratch(const std::string& name, const Operand& operand) {
    append(args_, "\"" + name + "\"");
    parameters_ += "double* " + name + ", ";
    scratch_ += expand("\n[[scratch]]\nname = \"$name\"\nbytes = \"$bytes\"\n",
                       {{"name", name}, {"bytes", (Expr::constant(8) * operand.count()).to_string()}});
  }
  static std::string copy_loop(const Operand& operand, const std::string& statement) {
    return "  for (int64_t i = 0; i < " + factor(operand.count()) + "; ++i) " + statement + ";\n";
  }

  DType computed_;
  std::string args_, parameters_, in_, out_, dims_, scratch_, before_, behind_;
};

}  // namespace

Result<Candidate> native_candidate(const TaskSpec& task) {
  const auto path = std::filesystem::path(task.path).parent_path() / task.reference_source;
  LATHE_TRY(std::string source, read_file(path.string()));
  const bool in_fp32 = is_fp32(task);
  Wrapper wrapper(in_fp32 ? DType::kF32 : DType::kF64);
  for (const TensorDecl& tensor : task.tensors) wrapper.add_input(tensor);
  for (const OutputDecl& output : task.outputs) wrapper.add_output(output);
  for (const std::string& dim : task.dim_names) wrapper.add_dim(dim);
  if (in_fp32) source = std::regex_replace(source, std::regex("\\bdouble\\b"), "float");
  return parse_candidate(wrapper.text(source), "naive");
}

}  // namespace lathe::naive
