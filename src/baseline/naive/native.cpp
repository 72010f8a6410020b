#include "baseline/naive/native.h"

#include <filesystem>
#include <regex>

#include "base/fd.h"
#include "baseline/naive/nest.h"

namespace lathe::naive {
namespace {

Status check_fp32(const TaskSpec& task) {
  const auto refuse = [](const std::string& name, const SourcePos& where) {
    return invalid("the naive build of a native task takes fp32 alone, unlike '" + name + "'",
                   "write the task as a graph", where);
  };
  for (const TensorDecl& tensor : task.tensors)
    if (tensor.dtype != DType::kF32) return refuse(tensor.name, tensor.where);
  for (const OutputDecl& output : task.outputs)
    if (output.dtype != DType::kF32) return refuse(output.name, output.where);
  return Ok{};
}

void append(std::string& list, const std::string& item) { list += (list.empty() ? "" : ", ") + item; }

}  // namespace

Result<Candidate> native_candidate(const TaskSpec& task) {
  LATHE_CHECK_OK(check_fp32(task));
  const auto path = std::filesystem::path(task.path).parent_path() / task.reference_source;
  LATHE_TRY(const std::string source, read_file(path.string()));
  std::string args, parameters, in, out, dims;
  for (const TensorDecl& tensor : task.tensors) {
    const bool by_value = tensor.role == Role::kScalar;
    append(args, "\"" + tensor.name + "\"");
    parameters += (by_value ? "float " : "const float* ") + tensor.name + ", ";
    append(in, (by_value ? "&" : "") + tensor.name);
  }
  for (const OutputDecl& output : task.outputs) {
    append(args, "\"" + output.name + "\"");
    parameters += "float* " + output.name + ", ";
    append(out, output.name);
  }
  for (const std::string& dim : task.dim_names) {
    append(args, "\"" + dim + "\"");
    parameters += "int64_t " + dim + ", ";
    append(dims, dim);
  }
  std::string text = expand(R"(
/*lathe
pattern = "naive"

[[launch]]
kernel = "naive_reference"
items = "1"
args = [$args]
*/
#include <stdint.h>

$source
extern "C" void naive_reference($parameters int64_t, int64_t) {
  const float* const naive_in[] = {$in};
  float* const naive_out[] = {$out};
  const long long naive_dims[] = {$dims};
  reference(naive_in, naive_out, naive_dims);
}
)",
                            {{"args", args},
                             {"source", std::regex_replace(source, std::regex("\\bdouble\\b"), "float")},
                             {"parameters", parameters},
                             {"in", in},
                             {"out", out},
                             {"dims", dims.empty() ? "0" : dims}});
  return parse_candidate(std::move(text), "naive");
}

}  // namespace lathe::naive
