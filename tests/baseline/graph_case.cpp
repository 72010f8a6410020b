#include "tests/baseline/graph_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace lathe {

Result<TaskSpec> parse_case(const GraphCase& graph_case) {
  std::string names;
  for (std::size_t at = 0; at < graph_case.dims.size();) {
    const std::size_t equals = graph_case.dims.find(" = ", at);
    names += (names.empty() ? "\"" : ", \"") + graph_case.dims.substr(at, equals - at) + "\"";
    const std::size_t comma = graph_case.dims.find(", ", equals);
    at = comma == std::string::npos ? graph_case.dims.size() : comma + 2;
  }
  std::string text = fmt::format("name = \"{}\"\ndims = [{}]\ngraph = \"\"\"\n{}\n\"\"\"\n", graph_case.name,
                                 names, graph_case.graph);
  for (const std::string& input : graph_case.inputs) {
    const std::size_t colon = input.find(": ");
    const std::size_t semicolon = std::min(input.find("; "), input.size());
    std::string shape = input.substr(colon + 2, semicolon - colon - 2);
    std::string quoted;
    for (std::size_t at = 0; at < shape.size();) {
      const std::size_t comma = std::min(shape.find(", ", at), shape.size());
      quoted += (quoted.empty() ? "\"" : ", \"") + shape.substr(at, comma - at) + "\"";
      at = comma + 2;
    }
    text += fmt::format("[[tensor]]\nname = \"{}\"\n", input.substr(0, colon));
    if (shape != "scalar") text += fmt::format("shape = [{}]\n", quoted);
    if (semicolon < input.size()) text += input.substr(semicolon + 2) + "\n";
  }
  for (const std::string& output : graph_case.outputs)
    text += fmt::format("[[output]]\nname = \"{}\"\n", output);
  text += "[[shape]]\n";
  for (char c : graph_case.dims) text += c == ',' ? '\n' : c;
  return parse_task(text + "\n", graph_case.name + ".toml");
}

GraphCase retyped(GraphCase graph_case, const std::string& dtype) {
  graph_case.name += "_" + dtype;
  for (std::string& input : graph_case.inputs) {
    const bool fixed = input.find("dtype") != input.npos || input.find("\"index\"") != input.npos;
    if (!fixed) input += (input.find("; ") == input.npos ? "; " : "\n") + ("dtype = \"" + dtype + "\"");
  }
  return graph_case;
}

bool computes_here(const TaskSpec& task, std::string_view library) {
  const auto is_bf16 = [](const auto& decl) { return decl.dtype == DType::kBF16; };
  const auto gives_bf16 = [](const NodeDecl& node) { return node.type.dtype == DType::kBF16; };
  const bool wants_bf16 =
      std::ranges::any_of(task.tensors, is_bf16) || std::ranges::any_of(task.nodes, gives_bf16);
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return library != "onednn" || !wants_bf16 || has_avx512;
}

TaskSpec make_task(const GraphCase& graph_case) {
  auto task = parse_case(graph_case);
  if (!task.ok()) {
    std::fprintf(stderr, "%s\n", task.error().to_string().c_str());
    std::abort();
  }
  return *std::move(task);
}

}  // namespace lathe
