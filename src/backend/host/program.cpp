#include "backend/host/program.h"

#include <algorithm>

#include "backend/host/jail/desk.h"

namespace lathe::host {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::uint64_t kMostBytes = std::uint64_t{8} << 30;  // of a child's memory, besides its data
constexpr std::uint64_t kLeastHeap = 4 << 20, kMostHeap = 512 << 20, kHeapCopies = 6;
constexpr std::uint64_t kCopies = 24;  // of the data that an honest module may hold

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
  layout.bytes += (size + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

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
  std::size_t input_bytes = 0, output_bytes = 0;
  nlohmann::json shapes = nlohmann::json::array();
  for (const Section& section : sections) {
    const Layout inputs = lay_out_inputs(*section.task), outputs = lay_out_outputs(*section.task);
    const Model& model = section.model ? *section.model : nothing;
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
