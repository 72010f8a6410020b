#include "policy/catalog/emit/program.h"

#include <algorithm>
#include <cctype>

#include "policy/catalog/ir/group.h"

namespace lathe::catalog {
namespace {

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

std::string indent(const std::string& code) {
  std::string text;
  std::size_t depth = 1;
  for (std::size_t at = 0; at < code.size();) {
    const std::size_t end = std::min(code.find('\n', at), code.size());
    const std::string line = code.substr(at, end - at);
    const auto opened = static_cast<std::size_t>(std::ranges::count(line, '{'));
    const auto closed = static_cast<std::size_t>(std::ranges::count(line, '}'));
    if (line.starts_with('}') && depth > 0) --depth;
    if (!line.empty() && line[0] != '#') text.append(2 * depth, ' ');
    text += line + '\n';
    const std::size_t net = depth + opened + (line.starts_with('}') ? 1 : 0);
    depth = net > closed ? net - closed : 0;
    at = end + 1;
  }
  return text;
}

constexpr int kWarpsOfBlock = 4;  // fewer leave a multiprocessor's places empty

/// g++'s words in NVRTC's.
std::string for_cuda(std::string code) {
  const std::string_view unroll = "#pragma GCC unroll", attribute = " __attribute__((always_inline))";
  for (std::size_t at = 0; (at = code.find(unroll, at)) != std::string::npos;)
    code.replace(at, unroll.size(), "#pragma unroll");
  for (std::size_t at = 0; (at = code.find(attribute, at)) != std::string::npos;)
    code.erase(at, attribute.size());
  return code;
}

std::string c_type(DType dtype) { return std::string(info(dtype).c_name); }

}  // namespace

Program::Program(const Graph& graph, const Target& target) : graph_(graph), target_(target) {
  for (const TensorDecl& tensor : graph.task->tensors) dtypes_[tensor.name] = tensor.dtype;
  for (const OutputDecl& output : graph.task->outputs) dtypes_[output.name] = output.dtype;
  for (const OutputDecl& output : graph.task->outputs) {
    const std::string root = root_of(graph, output.name);
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
  if (tensor != nullptr && tensor->role == Role::kScalar) return type + " p_" + buffer;
  // What an earlier kernel wrote must not be read before the wait for it: no promise that it never changes.
  const bool result = tensor == nullptr || std::ranges::find(graph_.task->outputs, buffer,
                                                             &OutputDecl::name) != graph_.task->outputs.end();
  const bool changes = target_.cuda && !written && result;
  return (written ? "" : "const ") + type + (changes ? "* p_" : "* __restrict__ p_") + buffer;
}

Program::Signature Program::signature(const std::string& body, const std::set<std::string>& written) const {
  Signature found;
  for (const std::string& word : identifiers(body)) {
    const bool dim = graph_.dims.contains(word);
    const bool buffer = word.starts_with("p_") && dtypes_.contains(word.substr(2));
    const auto value = values_.find(word);
    if ((dim || value != values_.end()) && target_.fixed) continue;
    if (value != values_.end()) {
      found.parameters += "int64_t " + word + ", ";
      found.args += (found.args.empty() ? "\"" : ", \"") + to_task(graph_, value->second).to_string() + "\"";
      continue;
    }
    if (!dim && !buffer) continue;
    const std::string name = dim ? graph_.dims.at(word) : word.substr(2);
    found.parameters += (dim ? "int64_t " + word : declaration(name, written.contains(name))) + ", ";
    found.args += (found.args.empty() ? "\"" : ", \"") + name + "\"";
  }
  if (target_.fixed) found.fixed = fixed_names(body);
  return found;
}

/// Declarations of the dims and values that a body names. Values depend on dims alone.
std::string Program::fixed_names(const std::string& body) const {
  std::string values, dims;
  for (const std::string& word : identifiers(body))
    if (const auto value = values_.find(word); value != values_.end())
      values += "constexpr int64_t " + word + " = " + value->second.to_string() + ";\n";
  for (const std::string& word : identifiers(body + values))
    if (graph_.dims.contains(word))
      dims += "constexpr int64_t " + word + " = fixed_" + graph_.dims.at(word) + ";\n";
  return dims + values;
}

void Program::launch(const std::string& kernel, const Expr& items, const std::set<std::string>& written,
                     const std::string& body, const std::string& when) {
  if (target_.cuda) return launch_teams(kernel, items, written, body);
  const Signature signed_as = signature(body, written);
  launches_ += "[[launch]]\nkernel = \"" + kernel + "\"\nitems = \"" + to_task(graph_, items).to_string() +
               "\"\nargs = [" + signed_as.args + "]\n";
  if (!when.empty()) launches_ += "when = \"" + when + "\"\n";
  kernels_ += "\nextern \"C\" void " + kernel + "(" + signed_as.parameters +
              "int64_t begin, int64_t end) {\n" + indent(body) + "}\n";
}

/// A warp is a team of its own, in a block of several; larger teams are blocks.
void Program::launch_teams(const std::string& kernel, const Expr& items, const std::set<std::string>& written,
                           const std::string& body) {
  const int teams = target_.team == 32 ? kWarpsOfBlock : 1;
  const std::string count = to_task(graph_, items).to_string();
  const Expr blocks = teams == 1 ? items : Expr::apply("cdiv", items, Expr::constant(teams));
  if (teams == 1)
    return launch_blocks(kernel, items, target_.team, written,
                         "const int64_t begin = item, end = item + 1;\n" + body);
  const Signature signed_as = signature(body, written);
  add_gpu_kernel(kernel, blocks, teams * target_.team,
                 signed_as.args + (signed_as.args.empty() ? "\"" : ", \"") + count + "\"",
                 signed_as.parameters + "int64_t items",
                 signed_as.fixed +
                     "const int64_t begin = first_item(), end = begin < items ? begin + 1 : begin;\n" + body);
}

void Program::launch_blocks(const std::string& kernel, const Expr& items, int threads,
                            const std::set<std::string>& written, const std::string& body,
                            const BlockOptions& options) {
  Signature signed_as = signature(body, written);
  if (signed_as.parameters.ends_with(", ")) signed_as.parameters.resize(signed_as.parameters.size() - 2);
  const bool shared = options.cluster > 1;
  const std::string item = shared ? "blockIdx.x / " + std::to_string(options.cluster) : "blockIdx.x";
  add_gpu_kernel(kernel, shared ? items * Expr::constant(options.cluster) : items, threads, signed_as.args,
                 signed_as.parameters, signed_as.fixed + "const int64_t item = " + item + ";\n" + body,
                 options);
}

void Program::add_gpu_kernel(const std::string& kernel, const Expr& blocks, int threads,
                             const std::string& args, const std::string& parameters, const std::string& body,
                             const BlockOptions& options) {
  const std::string block = std::to_string(threads);
  std::string launch = "[[launch]]\nkernel = \"" + kernel + "\"\ngrid = [\"" +
                       to_task(graph_, blocks).to_string() + "\"]\nblock = [" + block + "]\nargs = [" + args +
                       "]\n";
  if (options.cluster > 1) launch += "cluster = [" + std::to_string(options.cluster) + "]\n";
  if (options.shared_bytes > 0) launch += "smem = " + std::to_string(options.shared_bytes) + "\n";
  gpu_kernels_.push_back({std::move(launch),
                          "\nextern \"C\" __global__ void __launch_bounds__(" + block + ") " + kernel + "(" +
                              parameters + ") {\n",
                          for_cuda(body)});
}

void Program::add_pattern(const std::string& name) { pattern_ += (pattern_.empty() ? "" : "+") + name; }

/// Dims that the kernels need, under names of their own: the plan's macros would change what is included.
std::pair<std::string, std::string> Program::fixed_dims(const std::string& kernels) const {
  std::string names, values;
  for (const auto& [code, name] : graph_.dims) {
    if (!target_.fixed || kernels.find(" = fixed_" + name + ";") == std::string::npos) continue;
    names += (names.empty() ? "\"" : ", \"") + name + "\"";
    values += "enum : long long { fixed_" + name + " = " + name + " };\n#undef " + name + "\n";
  }
  return {names.empty() ? "" : "constants = [" + names + "]\n", values};
}

std::string Program::finish(const Schedule& schedule, bool chained) const {
  std::string launches = launches_, kernels = kernels_;
  for (const GpuKernel& kernel : gpu_kernels_) {
    const bool follows = chained && &kernel != gpu_kernels_.data();
    launches += kernel.launch + (follows ? "programmatic = true\n" : "");
    kernels +=
        kernel.head + indent((chained ? "start_next();\nwait_for_previous();\n" : "") + kernel.body) + "}\n";
  }
  std::string text = "/*lathe\npattern = \"" + pattern_ + "\"\nknobs = \"" + to_text(schedule) + "\"\n";
  const auto [constants, values] = fixed_dims(kernels);
  text += constants;
  for (const Scratch& scratch : scratch_)
    text += "[[scratch]]\nname = \"" + scratch.name + "\"\nbytes = \"" +
            to_task(graph_, scratch.bytes).to_string() + "\"\n" +
            (scratch.counter ? "init = \"counter\"\n" : "");
  text += launches + "*/\n" + values;
  if (target_.cuda)
    text += "#define LATHE_TEAM " + std::to_string(target_.team) + "\n#define LATHE_VECTOR " +
            std::to_string(target_.vector) + "\n#include <lathe/cuda.cuh>\n";
  else
    text += "#include <lathe/cpu.h>\n";
  return text + "\nusing namespace lathe;\n" + kernels;
}

}  // namespace lathe::catalog
