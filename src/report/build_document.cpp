#include <nlohmann/json.hpp>

#include "report/documents.h"

namespace lathe {

using nlohmann::json;

namespace {

json arg_json(const BoundArg& arg) {
  if (const auto* integer = std::get_if<std::int64_t>(&arg)) return {{"integer", *integer}};
  if (const auto* scalar = std::get_if<ScalarRef>(&arg)) return {{"scalar", scalar->input}};
  const auto& buffer = std::get<BufferRef>(arg);
  const bool input = buffer.kind == BufferRef::Kind::kInput, output = buffer.kind == BufferRef::Kind::kOutput;
  return {{input ? "input" : output ? "output" : "scratch", buffer.index}};
}

json step_json(const BoundStep& step) {
  if (step.kind == PlanStep::Kind::kNode) return {{"node", json::parse(step.node_text)}};
  json args = json::array();
  for (const BoundArg& arg : step.args) args.push_back(arg_json(arg));
  return {{"kernel", step.kernel},
          {"grid", step.grid},
          {"block", step.block},
          {"cluster", step.cluster},
          {"smem", step.shared_bytes},
          {"cooperative", step.cooperative},
          {"programmatic", step.programmatic},
          {"args", args}};
}

const char* name_of(ScratchInit init) {
  if (init == ScratchInit::kZero) return "zero";
  return init == ScratchInit::kCounter ? "counter" : "poison";
}

}  // namespace

json build_document(const BoundTask& task, const LaunchProgram& program, const std::string& arch,
                    const std::string& object) {
  json document = {{"schema", kBuildSchema},   {"task", task.spec->name},
                   {"shape", task.dims},       {"arch", arch},
                   {"object", object},         {"inputs", json::array()},
                   {"outputs", json::array()}, {"scratch", json::array()},
                   {"steps", json::array()}};
  for (const TensorDecl& tensor : task.spec->tensors)
    document["inputs"].push_back(
        {{"name", tensor.name}, {"dtype", info(tensor.dtype).name}, {"shape", task.shape_of(tensor.name)}});
  for (const OutputDecl& output : task.spec->outputs)
    document["outputs"].push_back(
        {{"name", output.name}, {"dtype", info(output.dtype).name}, {"shape", task.shape_of(output.name)}});
  for (const BoundScratch& scratch : program.scratch)
    document["scratch"].push_back({{"bytes", scratch.bytes}, {"init", name_of(scratch.init)}});
  for (const BoundStep& step : program.steps) document["steps"].push_back(step_json(step));
  return document;
}

}  // namespace lathe
