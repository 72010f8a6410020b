#include "baseline/vendor/onednn.h"

#include <algorithm>

/// Declared here because oneDNN uses libgomp, whichever compiler builds this file.
extern "C" void omp_set_num_threads(int threads);

namespace lathe::vendor {

Extents row_major_strides(const Extents& shape) {
  Extents strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Type type_of(const NodeCall& call) { return call.nodes[0].out.dtype == "bf16" ? Type::bf16 : Type::f32; }

class OnednnBuilder::Call final : public PreparedCall {
 public:
  explicit Call(const dnnl::engine& engine) : stream_(engine) {}

  /// Calls the C interface with prebuilt argument lists, so that nothing is allocated.
  int execute(void* const* buffers) override {
    for (const auto& [memory, buffer] : callers_)
      if (dnnl_memory_set_data_handle(memory.get(), buffers[buffer]) != dnnl_success)
        return dnnl_runtime_error;
    for (const Stage& stage : stages_) {
      const dnnl_status_t status = dnnl_primitive_execute(
          stage.primitive.get(), stream_.get(), static_cast<int>(stage.args.size()), stage.args.data());
      if (status != dnnl_success) return status;
    }
    return dnnl_stream_wait(stream_.get());
  }

  struct Stage {
    dnnl::primitive primitive;
    std::vector<dnnl::memory> keep_alive;
    std::vector<dnnl_exec_arg_t> args;
  };
  dnnl::stream stream_;
  std::vector<std::pair<dnnl::memory, int>> callers_;
  std::vector<Stage> stages_;
};

OnednnBuilder::OnednnBuilder(const NodeCall& call)
    : type_(type_of(call)), engine_(dnnl::engine::kind::cpu, 0), call_(std::make_unique<Call>(engine_)) {}
OnednnBuilder::~OnednnBuilder() = default;

Desc OnednnBuilder::plain(const Extents& shape) const {
  const Extents dims = shape.empty() ? Extents{1} : shape;
  return {dims, type_, row_major_strides(dims)};
}

Desc OnednnBuilder::any(const Extents& shape) const { return {shape, type_, dnnl::memory::format_tag::any}; }

dnnl::memory OnednnBuilder::caller(const Operand& operand, const Desc& desc) {
  dnnl::memory memory(desc, engine_, DNNL_MEMORY_NONE);
  call_->callers_.emplace_back(memory, operand.buffer);
  return memory;
}

dnnl::memory OnednnBuilder::own(const Desc& desc) { return {desc, engine_}; }

dnnl::memory OnednnBuilder::to_layout(const dnnl::memory& memory, const Desc& desc) {
  if (memory.get_desc() == desc) return memory;
  const dnnl::memory copy = own(desc);
  reorder(memory, copy);
  return copy;
}

void OnednnBuilder::reorder(const dnnl::memory& from, const dnnl::memory& to) {
  const dnnl::reorder::primitive_desc desc(engine_, from.get_desc(), engine_, to.get_desc(), attributes());
  add(desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

dnnl::primitive_attr OnednnBuilder::attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

void OnednnBuilder::append(dnnl::primitive primitive, ExecArgs args) {
  Call::Stage stage{std::move(primitive), {}, {}};
  for (auto& [index, memory] : args) {
    stage.args.push_back({index, memory.get()});
    stage.keep_alive.push_back(std::move(memory));
  }
  call_->stages_.push_back(std::move(stage));
}

std::unique_ptr<PreparedCall> OnednnBuilder::finish() { return std::move(call_); }

namespace {

bool computes_bf16() {
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kNeeded) == kNeeded;
}

}  // namespace

Result<std::unique_ptr<PreparedCall>> prepare_onednn(const NodeCall& call, int threads) {
  const std::string& dtype = call.nodes[0].out.dtype;
  for (const Node& node : call.nodes) {
    const auto is_of_it = [&](const Operand& operand) { return operand.dtype == dtype; };
    if ((dtype != "fp32" && dtype != "bf16") || !is_of_it(node.out) ||
        !std::ranges::all_of(node.in, is_of_it))
      return invalid("the oneDNN adapter takes fp32 or bf16, one of them for all");
  }
  if (dtype == "bf16" && !computes_bf16())
    return invalid("oneDNN computes in bf16 only on processors with AVX-512");
  omp_set_num_threads(threads);
  for (const auto prepare : {onednn_matmul, onednn_attention, onednn_convolution, onednn_deconvolution,
                             onednn_pooling, onednn_softmax, onednn_layer_norm, onednn_batch_norm,
                             onednn_reduction, onednn_transpose, onednn_concat, onednn_pointwise}) {
    LATHE_TRY(auto prepared, prepare(call));
    if (prepared) return prepared;
  }
  return invalid("oneDNN has no primitive for op '" + call.nodes[0].op + "' at these shapes");
}

}  // namespace lathe::vendor
