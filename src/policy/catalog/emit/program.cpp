#include "policy/catalog/emit/program.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "policy/catalog/ir/group.h"

namespace lathe::catalog {
namespace {

constexpr int kWarpThreads = 32;
constexpr int kWarpsOfBlock = 4;  // fewer leave a multiprocessor's places empty
constexpr std::size_t kLineLength = 100;

constexpr std::string_view kCandidate = R"(
/*lathe
pattern = "$pattern"
knobs = "$knobs"
$constants
$scratch
$maps
$launches
*/
$dims
$include

using namespace lathe;
$kernels
)";

constexpr std::string_view kCpuLaunch = R"(

[[launch]]
kernel = "$name"
items = "$items"
args = [$args]
$when
)";

constexpr std::string_view kGpuLaunch = R"(

[[launch]]
kernel = "$name"
grid = ["$blocks"]
block = [$threads]
args = [$args]
$cluster
$shared
$when
)";

constexpr std::string_view kMap = R"(

[[tma]]
name = "$name"
base = "$base"
$dtype
dims = ["$inner", "$outer"]
box = [$box_inner, $box_outer]
swizzle = 128
)";

constexpr std::string_view kScratch = R"(

[[scratch]]
name = "$name"
bytes = "$bytes"
$init
)";

constexpr std::string_view kIncludeTeam = R"(
#define LATHE_TEAM $team
#define LATHE_VECTOR $vector
#include <lathe/cuda.cuh>
)";

constexpr std::string_view kKernel = R"(

$head {
  $chain
  $body
}
)";

constexpr std::string_view kItems = R"(
for (int64_t item = begin; item < end; ++item) {
  $body
}
)";

constexpr std::string_view kReach = R"(
const auto run = [&](auto reach) {
  $text
};
if$constexpr ($fits) {
  run(wide_reach());
} else {
  run(any_reach());
}
)";

/// Dims that are compiled in come as the plan's macros, which would change what is included.
constexpr std::string_view kFixedDim = R"(
enum : long long { fixed_$dim = $dim };
#undef $dim
)";

/// The identifiers of a C text, in order of first appearance.
std::vector<std::string> identifiers(const std::string& text) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < text.size();) {
    const auto is_word = [&](std::size_t at) {
      return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
    };
    std::size_t end = i;
    while (is_word(end)) ++end;
    if (end == i) {
      ++i;
      continue;
    }
    std::string word = text.substr(i, end - i);
    if (std::ranges::find(found, word) == found.end()) found.push_back(std::move(word));
    i = end;
  }
  return found;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// "void f(int a, int b)", continued below the first parameter where a line would be too long.
std::string signature_text(const std::string& function, const std::vector<std::string>& parameters) {
  std::string text = function + "(";
  const std::string margin(text.size(), ' ');
  std::size_t column = text.size();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool last = i + 1 == parameters.size();
    if (i > 0 && column + parameters[i].size() + 3 > kLineLength) {
      text.back() = '\n';
      text += margin;
      column = margin.size();
    }
    text += parameters[i] + (last ? "" : ", ");
    column += parameters[i].size() + 2;
  }
  return text + ")";
}

}  // namespace

std::string c_type(DType dtype) { return std::string(info(dtype).c_name); }

Program::Program(const Graph& graph, const Target& target)
    : graph_(graph),
      target_(target),
      words_{{"unroll", target.cuda ? "unroll" : "GCC unroll"},
             {"inlined", target.cuda ? "" : " __attribute__((always_inline))"}} {
  for (const TensorDecl& tensor : graph.task->tensors) dtypes_[tensor.name] = tensor.dtype;
  for (const OutputDecl& output : graph.task->outputs) dtypes_[output.name] = output.dtype;
  for (const OutputDecl& output : graph.task->outputs) {
    const std::string root = root_of(graph, graph.result_of(output.name));
    if (!graph.is_input(root)) buffers_.emplace(root, output.name);
  }
}

std::string Program::scratch_name(std::string name) const {
  while (dtypes_.contains(name) || graph_.types.contains(name)) name += '_';
  return name;
}

std::string Program::buffer(const std::string& value) {
  const std::string root = root_of(graph_, value);
  if (const auto found = buffers_.find(root); found != buffers_.end()) return found->second;
  if (graph_.is_input(root)) return root;
  const SymbolicType& type = graph_.type_of(root);
  const std::string name = scratch_name("s_" + root);
  buffers_[root] = name;
  dtypes_[name] = type.dtype;
  scratch_.push_back(
      {name, product(type.shape) * Expr::constant(static_cast<std::int64_t>(info(type.dtype).bytes))});
  return name;
}

std::string Program::scratch(const std::string& name, const Expr& floats) {
  const std::string unique = scratch_name("s_" + name);
  dtypes_[unique] = DType::kF32;
  scratch_.push_back({unique, floats * Expr::constant(4)});
  return unique;
}

std::string Program::counters(const std::string& name, const Expr& count) {
  const std::string unique = scratch_name("s_" + name);
  dtypes_[unique] = DType::kI32;
  scratch_.push_back({unique, count * Expr::constant(4), true});
  return unique;
}

std::string Program::declaration(const std::string& buffer, bool written) const {
  const TensorDecl* tensor = graph_.task->find_tensor(buffer);
  const std::string type = c_type(dtypes_.at(buffer));
  if (tensor != nullptr && tensor->role == Role::kScalar) return type + " ";
  // What an earlier kernel wrote must not be read before the wait for it: no promise that it never
  // changes.
  const bool result = tensor == nullptr || std::ranges::find(graph_.task->outputs, buffer,
                                                             &OutputDecl::name) != graph_.task->outputs.end();
  const bool changes = target_.cuda && !written && result;
  return (written ? "" : "const ") + type + (changes ? "* " : "* __restrict__ ");
}

/// Dims and values, then buffers: inputs, scratch and outputs, each in the task's order.
Program::Signature Program::signature(const Kernel& kernel) const {
  const std::string text = kernel.before + kernel.body + kernel.reach;
  const std::vector<std::string> list = identifiers(text);
  std::set<std::string> named(list.begin(), list.end());
  Signature found;
  const auto add = [&](const std::string& word, const std::string& type, const std::string& arg) {
    if (named.erase(word) == 0) return;
    found.parameters.push_back(type + word);
    found.args.push_back('"' + arg + '"');
  };
  if (!target_.fixed) {
    for (const std::string& dim : graph_.task->dim_names) add(name_in_code(dim), "int64_t ", dim);
    for (const auto& [name, expr] : values_) add(name, "int64_t ", in_task(expr));
  }
  const auto add_buffer = [&](const std::string& buffer) {
    add("p_" + buffer, declaration(buffer, kernel.written.contains(buffer)), buffer);
  };
  for (const TensorDecl& tensor : graph_.task->tensors) add_buffer(tensor.name);
  for (const Scratch& buffer : scratch_) add_buffer(buffer.name);
  for (const OutputDecl& output : graph_.task->outputs) add_buffer(output.name);
  if (target_.fixed) found.fixed = fixed_names(text);
  return found;
}

/// Declarations of the dims and values that a text names. Values depend on dims alone.
std::string Program::fixed_names(const std::string& text) const {
  std::string values, dims;
  for (const std::string& word : identifiers(text))
    if (const auto value = values_.find(word); value != values_.end())
      values += "constexpr int64_t " + word + " = " + value->second.to_string() + ";\n";
  for (const std::string& word : identifiers(text + values))
    if (const auto dim = graph_.dims.find(word); dim != graph_.dims.end())
      dims += "constexpr int64_t " + word + " = fixed_" + dim->second + ";\n";
  return dims + values;
}

/// A GPU's text with vectors, and without where some tensor has no place for them. Of fixed dims it
/// is known which of the two runs.
std::string Program::for_each_reach(const Kernel& kernel, const std::string& text) const {
  if (kernel.reach.empty()) return text;
  return expand(kReach,
                {{"text", text}, {"constexpr", target_.fixed ? " constexpr" : ""}, {"fits", kernel.reach}});
}

void Program::launch(const Kernel& kernel) {
  Kernel looped = kernel;
  looped.body = expand(kItems, {{"body", kernel.body}});
  launch_ranges(looped);
}

void Program::launch_ranges(const Kernel& kernel) {
  if (!target_.cuda) return add_cpu_kernel(kernel, kernel.before + kernel.body);
  const std::string text = kernel.before + for_each_reach(kernel, kernel.body);
  if (target_.team != kWarpThreads)
    return add_gpu_kernel(kernel, kernel.items, {.threads = target_.team}, signature(kernel),
                          "const int64_t begin = blockIdx.x, end = begin + 1;\n" + text);
  // A warp is a team of its own, in a block of several; larger teams are blocks.
  Signature all = signature(kernel);
  all.parameters.emplace_back("int64_t items");
  all.args.push_back('"' + in_task(kernel.items) + '"');
  add_gpu_kernel(kernel, Expr::apply("cdiv", kernel.items, Expr::constant(kWarpsOfBlock)),
                 {.threads = kWarpsOfBlock * target_.team}, std::move(all),
                 "const int64_t begin = first_item(), end = begin < items ? begin + 1 : begin;\n" + text);
}

void Program::launch_blocks(const Kernel& kernel, const Block& block) {
  const bool shared = block.cluster > 1;
  const std::string item = shared ? "blockIdx.x / " + std::to_string(block.cluster) : "blockIdx.x";
  const std::string body = kernel.before + for_each_reach(kernel, kernel.body);
  const std::vector<std::string> named = identifiers(body);
  Signature all = signature(kernel);
  for (const TensorMapDecl& map : kernel.maps) {
    const std::string base = buffer(map.value);
    const bool scratch = std::ranges::find(scratch_, base, &Scratch::name) != scratch_.end();
    maps_.push_back(expand(
        kMap, {{"name", map.name},
               {"base", base},
               {"dtype", scratch ? "dtype = \"" + std::string(info(dtypes_.at(base)).name) + "\"" : ""},
               {"inner", in_task(map.dims[0])},
               {"outer", in_task(map.dims[1])},
               {"box_inner", std::to_string(map.box[0])},
               {"box_outer", std::to_string(map.box[1])}}));
    all.parameters.push_back("const __grid_constant__ TensorMap " + map.name);
    all.args.push_back('"' + map.name + '"');
  }
  const bool asks = std::ranges::find(named, "item") != named.end();
  add_gpu_kernel(kernel, shared ? kernel.items * Expr::constant(block.cluster) : kernel.items, block,
                 std::move(all), (asks ? "const int64_t item = " + item + ";\n" : "") + body);
}

void Program::add_cpu_kernel(const Kernel& kernel, const std::string& text) {
  Signature all = signature(kernel);
  all.parameters.insert(all.parameters.end(), {"int64_t begin", "int64_t end"});
  kernels_.push_back(
      {expand(kCpuLaunch, {{"name", kernel.name},
                           {"items", in_task(kernel.items)},
                           {"args", joined(all.args)},
                           {"when", kernel.when.empty() ? "" : "when = \"" + kernel.when + "\""}}),
       signature_text("extern \"C\" void " + kernel.name, all.parameters), text});
}

void Program::add_gpu_kernel(const Kernel& kernel, const Expr& blocks, const Block& block,
                             Signature signature, const std::string& text) {
  const std::string threads = std::to_string(block.threads);
  const std::string cluster = "cluster = [" + std::to_string(block.cluster) + "]";
  const std::string shared = "smem = " + std::to_string(block.shared_bytes);
  const std::string least = block.blocks > 1 ? ", " + std::to_string(block.blocks) : "";
  kernels_.push_back(
      {expand(kGpuLaunch, {{"name", kernel.name},
                           {"blocks", in_task(blocks)},
                           {"threads", threads},
                           {"args", joined(signature.args)},
                           {"cluster", block.cluster > 1 ? cluster : ""},
                           {"shared", block.shared_bytes > 0 ? shared : ""},
                           {"when", kernel.when.empty() ? "" : "when = \"" + kernel.when + "\""}}),
       signature_text(
           "extern \"C\" __global__ void __launch_bounds__(" + threads + least + ") " + kernel.name,
           signature.parameters),
       signature.fixed + text});
}

std::string Program::finish(const Schedule& schedule, bool chained) const {
  std::string launches, kernels, scratch, constants, dims;
  for (const Finished& kernel : kernels_) {
    const bool follows = chained && &kernel != kernels_.data();
    launches += kernel.launch + (follows ? "programmatic = true\n" : "");
    kernels += expand(kKernel, {{"head", kernel.head},
                                {"chain", chained ? "start_next();\nwait_for_previous();\n" : ""},
                                {"body", kernel.body}});
  }
  for (const auto& [code, name] : graph_.dims) {
    if (!target_.fixed || kernels.find(" = fixed_" + name + ";") == std::string::npos) continue;
    constants += (constants.empty() ? "\"" : ", \"") + name + "\"";
    dims += expand(kFixedDim, {{"dim", name}});
  }
  for (const Scratch& buffer : scratch_)
    scratch += expand(kScratch, {{"name", buffer.name},
                                 {"bytes", in_task(buffer.bytes)},
                                 {"init", buffer.counter ? "init = \"counter\"" : ""}});
  std::string include = target_.cuda ? expand(kIncludeTeam, {{"team", std::to_string(target_.team)},
                                                             {"vector", std::to_string(target_.vector)}})
                                     : "#include <lathe/cpu.h>\n";
  for (const std::string& header : headers_) include += "#include <" + header + ">\n";
  return expand(kCandidate, {{"pattern", fmt::format("{}", fmt::join(patterns_, "+"))},
                             {"knobs", to_text(schedule)},
                             {"constants", constants.empty() ? "" : "constants = [" + constants + "]"},
                             {"scratch", scratch},
                             {"maps", fmt::format("{}", fmt::join(maps_, ""))},
                             {"launches", launches},
                             {"dims", dims},
                             {"include", include},
                             {"kernels", kernels}});
}

}  // namespace lathe::catalog
