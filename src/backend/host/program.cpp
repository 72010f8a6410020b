#include "backend/host/program.h"

#include <algorithm>

#include "backend/host/jail/desk.h"
#include "task/generate_inputs.h"

namespace lathe::host {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::uint64_t kMostBytes = std::uint64_t{8} << 30;  // of a child's memory, besides its data
constexpr std::uint64_t kLeastHeap = 4 << 20, kMostHeap = 512 << 20, kHeapCopies = 6;
constexpr std::uint64_t kCopies = 24;  // of the data that an honest module may hold

std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

void add(Layout& layout, const std::string& name, DType dtype, const Shape& shape, bool scalar) {
  const std::size_t size = static_cast<std::size_t>(element_count(shape)) * info(dtype).bytes;
  layout.tensors.push_back({{"name", name},
                            {"dtype", info(dtype).name},
                            {"shape", shape},
                            {"scalar", scalar},
                            {"offset", layout.bytes},
                            {"bytes", size}});
  layout.offsets.push_back(layout.bytes);
  layout.sizes.push_back(size);
  layout.bytes += aligned(size);
}

/// Whether a module may fail on numbers that the task does not draw: a divisor of zero, an index
/// beyond its table, an extent.
bool is_restricted(const TensorDecl& tensor) {
  return tensor.role == Role::kScalar || !info(tensor.dtype).is_float || tensor.generator.bounded ||
         tensor.generator.kind != "normal";
}

/// Tells the inputs of a section where their samples lie, from `end` on, which it moves.
void place_samples(const Model& model, nlohmann::json& inputs, std::size_t& end) {
  for (std::size_t i = 0; i < model.samples.size() && i < inputs.size(); ++i) {
    if (model.samples[i].empty()) continue;
    inputs[i]["sample"] = end;
    end += aligned(model.samples[i].size());
  }
}

}  // namespace

std::vector<std::string> sample_inputs(const BoundTask& task) {
  const std::vector<TensorDecl>& tensors = task.spec->tensors;
  std::vector<std::string> samples(tensors.size());
  if (std::ranges::none_of(tensors, is_restricted)) return samples;
  const std::vector<HostTensor> drawn =
      generate_inputs(task, Distribution::kNormal, Seed::from_number(1).derive("warm up"));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (is_restricted(tensors[i]))
      samples[i].assign(reinterpret_cast<const char*>(drawn[i].bytes.data()), drawn[i].bytes.size());
  return samples;
}

std::string samples_of(std::span<const Section> sections) {
  std::string all;
  for (const Section& section : sections) {
    if (!section.model) continue;
    for (const std::string& sample : section.model->samples) {
      all += sample;
      all.resize(aligned(all.size()));
    }
  }
  return all;
}

Layout lay_out_inputs(const BoundTask& task) {
  Layout layout;
  for (const TensorDecl& tensor : task.spec->tensors)
    add(layout, tensor.name, tensor.dtype, task.shape_of(tensor.name), tensor.role == Role::kScalar);
  layout.bytes = round_to_pages(layout.bytes);
  return layout;
}

Layout lay_out_outputs(const BoundTask& task) {
  Layout layout;
  for (const OutputDecl& output : task.spec->outputs)
    add(layout, output.name, output.dtype, task.shape_of(output.name), false);
  layout.bytes = round_to_pages(layout.bytes);
  return layout;
}

nlohmann::json describe_program(const ProgramText& program, std::span<const Section> sections) {
  const Model nothing;
  std::size_t input_bytes = 0, output_bytes = 0, sample_bytes = 0;
  nlohmann::json shapes = nlohmann::json::array();
  for (const Section& section : sections) {
    Layout inputs = lay_out_inputs(*section.task);
    const Layout outputs = lay_out_outputs(*section.task);
    const Model& model = section.model ? *section.model : nothing;
    place_samples(model, inputs.tensors, sample_bytes);
    shapes.push_back({{"dims", section.task->dims},
                      {"init", model.init},
                      {"state", model.state},
                      {"inputs", inputs.tensors},
                      {"outputs", outputs.tensors}});
    input_bytes = std::max(input_bytes, inputs.bytes);
    output_bytes = std::max(output_bytes, outputs.bytes);
  }
  return {{"text", program.text},
          {"entry", program.entry},
          {"trusted", program.trusted},
          {"seed", program.seed},
          {"sections", std::move(shapes)},
          {"output_stride", output_bytes},
          {"extensions", nlohmann::json::array()},
          {"threads", 1},
          {"cpus", nlohmann::json::array()},
          {"warm_up_calls", 0},
          {"memory_bytes", kMostBytes + kCopies * (input_bytes + output_bytes)},
          {"heap_bytes", std::min(kMostHeap, kLeastHeap + kHeapCopies * output_bytes)},
          {"text_size_at", offsetof(Control, text_bytes)}};
}

}  // namespace lathe::host
