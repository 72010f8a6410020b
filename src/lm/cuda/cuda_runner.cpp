// Of LibTorch's CUDA part: matrix products, memory, streams and graphs. All else of a step is in
// kernels.cu.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "base/guard.h"
#include "lm/cuda/kernels.h"
#include "lm/cuda/plugin.h"

namespace lathe::lm {
namespace {

constexpr std::size_t kPrefillRows = 2048;  ///< at once
constexpr std::int32_t kDepth = 2;          ///< steps under way: one is computed while one's results are read

cuda::Bf16* bf16(const at::Tensor& tensor) { return static_cast<cuda::Bf16*>(tensor.data_ptr()); }

at::TensorOptions on_device(at::ScalarType type) { return at::TensorOptions(type).device(at::kCUDA); }

Status checked(cudaError_t error, std::string_view action) {
  if (error == cudaSuccess) return Ok{};
  return Error{ErrorCode::kIo, fmt::format("the GPU cannot {}: {}", action, cudaGetErrorString(error)),
               "run nvidia-smi; a smaller --batch or --cache-mib needs less memory"};
}

/// Throws as LibTorch does, for calls between its own.
void require(cudaError_t error, std::string_view action) {
  if (const Status status = checked(error, action); !status.ok())
    throw std::runtime_error(status.error().to_string());
}

class CudaRowOps final : public LayerOps {
 public:
  CudaRowOps(const Decoder& decoder, const at::Tensor& cache, std::int64_t context)
      : cache_(cache),
        shape_{static_cast<int>(decoder.config().heads), static_cast<int>(decoder.config().kv_heads),
               static_cast<int>(decoder.config().head_dim), static_cast<float>(decoder.config().rms_eps)} {
    std::tie(cosine_, sine_) = decoder.rotary_tables(context);
  }

  /// Of the next calls; all stay the caller's.
  void set_rows(const std::int32_t* positions, const std::int32_t* table, int table_stride) {
    view_ = {.positions = positions, .table = table, .table_stride = table_stride};
  }

  at::Tensor linear(const at::Tensor& x, const Linear& matrix) override {
    return at::linear(x, matrix.weight, matrix.bias);
  }

  at::Tensor logits(const at::Tensor& x, const Linear& matrix) override {
    return at::mm(x, matrix.weight.t(), at::kFloat);
  }

  std::pair<at::Tensor, at::Tensor> add_norm(const at::Tensor& x, const at::Tensor& delta,
                                             const at::Tensor& weight) override {
    at::Tensor normed = at::empty_like(x, on_device(at::kBFloat16));
    cuda::add_norm(x.mutable_data_ptr<float>(), delta.defined() ? bf16(delta) : nullptr,
                   weight.const_data_ptr<float>(), bf16(normed), static_cast<int>(x.size(0)),
                   static_cast<int>(x.size(1)), shape_.eps, stream());
    return {x, normed};
  }

  at::Tensor attend(const at::Tensor& qkv, const LayerWeights& layer, std::size_t index) override {
    const std::int64_t rows = qkv.size(0);
    at::Tensor queries = at::empty({rows, shape_.heads * shape_.dim}, qkv.options()),
               to = at::empty_like(queries);
    const auto weights = [](const at::Tensor& norm) {
      return norm.defined() ? norm.const_data_ptr<float>() : nullptr;
    };
    const auto layer_index = static_cast<std::int64_t>(index);
    view_.keys = bf16(cache_.select(0, layer_index).select(0, 0));
    view_.values = bf16(cache_.select(0, layer_index).select(0, 1));
    cuda::rotate_and_store({bf16(qkv), weights(layer.q_norm), weights(layer.k_norm),
                            cosine_.const_data_ptr<float>(), sine_.const_data_ptr<float>(), bf16(queries)},
                           view_, shape_, static_cast<int>(rows), stream());
    cuda::attend(bf16(queries), view_, bf16(to), shape_, static_cast<int>(rows), stream());
    return to;
  }

  at::Tensor gate(const at::Tensor& gate_up) override {
    const std::int64_t count = gate_up.size(1) / 2;
    at::Tensor to = at::empty({gate_up.size(0), count}, gate_up.options());
    cuda::gate(bf16(gate_up), bf16(to), static_cast<int>(gate_up.size(0)), static_cast<int>(count), stream());
    return to;
  }

 private:
  static cudaStream_t stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

  const at::Tensor cache_;
  const cuda::Shape shape_;
  at::Tensor cosine_, sine_;
  cuda::CacheView view_;
};

/// Everything that one of the runner's methods computes is in inference mode and on its stream.
struct Scope {
  explicit Scope(const c10::cuda::CUDAStream& stream) : on_stream(stream) {}
  c10::InferenceMode inference;
  c10::cuda::CUDAStreamGuard on_stream;
};

cuda::DrawRow row_of(const DrawState& state) {
  return {.seed = state.sampling.seed,
          .stream = state.stream,
          .counter = state.counter,
          .state = state.grammar_state,
          .active = 1,
          .temperature = state.sampling.temperature,
          .top_p = state.sampling.top_p,
          .top_k = state.sampling.top_k};
}

at::Tensor to_device(std::span<const std::int32_t> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  at::Tensor here = at::empty({count}, at::kInt);
  std::ranges::copy(values, here.mutable_data_ptr<std::int32_t>());
  return here.to(at::kCUDA);
}

/// A grammar's tables on the device.
struct Grammar {
  at::Tensor states, arrows;

  static Grammar upload(const TokenAutomaton& automaton) {
    std::vector<std::int32_t> states, arrows;
    for (const auto& state : automaton.states) {
      states.insert(states.end(), {static_cast<std::int32_t>(arrows.size() / 2),
                                   static_cast<std::int32_t>(state.arrows.size()), state.otherwise});
      for (const auto& arrow : state.arrows) arrows.insert(arrows.end(), {arrow.token, arrow.to});
    }
    return {to_device(states), to_device(arrows)};
  }
  void attach_to(cuda::DrawRow& row) const {
    row.states = static_cast<const cuda::GrammarState*>(states.data_ptr());
    row.arrows = static_cast<const cuda::GrammarArrow*>(arrows.data_ptr());
  }
};

class CudaRunner final : public Runner {
 public:
  CudaRunner(std::shared_ptr<const Decoder> decoder, const RunnerOptions& options)
      : decoder_(std::move(decoder)),
        stream_(c10::cuda::getStreamFromPool()),
        batch_(options.max_batch),
        table_stride_(pages_for(options.context + kDepth) + 1),
        grammars_(static_cast<std::size_t>(batch_)) {
    const Scope scope(stream_);
    const ModelConfig& config = decoder_->config();
    cache_ = at::zeros({config.layers, 2, options.pages, config.kv_heads, kPageTokens, config.head_dim},
                       on_device(at::kBFloat16));
    // Rows run on for some steps after their answer's end.
    ops_ = std::make_unique<CudaRowOps>(*decoder_, cache_, std::int64_t{table_stride_} * kPageTokens);
    tokens_ = at::zeros({batch_}, on_device(at::kInt));
    positions_ = at::zeros({batch_}, on_device(at::kInt));
    table_ = at::zeros({batch_, table_stride_}, on_device(at::kInt));
    rows_ = at::zeros({batch_, static_cast<std::int64_t>(sizeof(cuda::DrawRow))}, on_device(at::kByte));
    drawn_ = at::zeros({batch_, 3}, on_device(at::kInt));
    for (Results& results : results_) {
      const std::size_t bytes = static_cast<std::size_t>(batch_) * sizeof(cuda::DrawnToken);
      require(cudaHostAlloc(reinterpret_cast<void**>(&results.drawn), bytes, cudaHostAllocDefault),
              "pin memory");
      require(cudaEventCreateWithFlags(&results.done, cudaEventDisableTiming), "make an event");
    }
    require(cudaStreamSynchronize(stream_.stream()), "prepare the cache");
  }

  ~CudaRunner() override {
    (void)cudaStreamSynchronize(stream_.stream());
    for (Results& results : results_) {
      (void)cudaFreeHost(results.drawn);
      (void)cudaEventDestroy(results.done);
    }
  }

  void prefill(std::span<const TokenId> tokens, std::int32_t first,
               std::span<const std::int32_t> pages) override {
    const Scope scope(stream_);
    const at::Tensor table = to_device(pages);
    for (std::size_t begin = 0; begin < tokens.size(); begin += kPrefillRows) {
      const auto part = tokens.subspan(begin, std::min(kPrefillRows, tokens.size() - begin));
      const auto at_first = static_cast<std::int64_t>(first) + static_cast<std::int64_t>(begin);
      const at::Tensor positions =
          at::arange(at_first, at_first + static_cast<std::int64_t>(part.size()), on_device(at::kInt));
      ops_->set_rows(positions.const_data_ptr<std::int32_t>(), table.const_data_ptr<std::int32_t>(), 0);
      (void)decoder_->hidden(to_device(part), *ops_);
    }
  }

  void copy_page(std::int32_t from, std::int32_t to) override {
    const Scope scope(stream_);
    cache_.select(2, to).copy_(cache_.select(2, from));
  }

  void start_row(std::int32_t row, const RowStart& start) override {
    const Scope scope(stream_);
    cuda::DrawRow draw = row_of({start.sampling, start.stream, 0, start.grammar.get()});
    auto& grammar = grammars_[static_cast<std::size_t>(row)];
    grammar = start.grammar ? uploaded(start.grammar) : nullptr;
    if (grammar) grammar->tables.attach_to(draw);
    set(tokens_, row, &start.token, sizeof start.token);
    set(positions_, row, &start.position, sizeof start.position);
    set(rows_, row, &draw, sizeof draw);
    set(table_, row, start.pages.data(),
        std::min(start.pages.size(), static_cast<std::size_t>(table_stride_)) * sizeof(std::int32_t));
  }

  /// An idle row is computed like the others, as a sequence of one token in page 0.
  void stop_row(std::int32_t row) override {
    const Scope scope(stream_);
    const cuda::DrawRow idle{};
    const std::int32_t zero = 0;
    set(rows_, row, &idle, sizeof idle);
    set(positions_, row, &zero, sizeof zero);
    set(table_, row, &zero, sizeof zero);
  }

  void launch(std::int32_t rows) override {
    const Scope scope(stream_);
    const std::int32_t padded = std::min(batch_, padded_rows(rows));
    auto& graph = graphs_[padded];
    if (!graph.met) {
      graph.met = true;  // what libraries allocate at their first call must not lie in a graph
      step(padded);
    } else {
      if (!graph.captured) {
        graph.captured = std::make_unique<at::cuda::CUDAGraph>();
        graph.captured->capture_begin();
        step(padded);
        graph.captured->capture_end();
      }
      graph.captured->replay();
    }
    Results& results = results_[launched_++ % kDepth];
    results.rows = static_cast<std::size_t>(rows);
    require(cudaMemcpyAsync(results.drawn, drawn_.data_ptr(), results.rows * sizeof(cuda::DrawnToken),
                            cudaMemcpyDeviceToHost, stream_.stream()),
            "copy a step's tokens");
    require(cudaEventRecord(results.done, stream_.stream()), "record an event");
  }

  Result<std::span<const Drawn>> collect() override {
    const Results& results = results_[collected_++ % kDepth];
    LATHE_CHECK_OK(checked(cudaEventSynchronize(results.done), "compute a step"));
    drawn_rows_.clear();
    for (std::size_t i = 0; i < results.rows; ++i)
      drawn_rows_.push_back(
          {results.drawn[i].token, results.drawn[i].log_prob, results.drawn[i].model_log_prob});
    return std::span<const Drawn>(drawn_rows_);
  }

  std::int32_t depth() const override { return kDepth; }
  void settle() override { require(cudaStreamSynchronize(stream_.stream()), "end a step"); }
  std::string device() const override {
    return fmt::format("cuda: {}", static_cast<const char*>(at::cuda::getCurrentDeviceProperties()->name));
  }

 private:
  struct Graph {
    bool met = false;
    std::unique_ptr<at::cuda::CUDAGraph> captured = nullptr;
  };
  struct Results {
    cuda::DrawnToken* drawn = nullptr;
    cudaEvent_t done = nullptr;
    std::size_t rows = 0;
  };
  struct RowGrammar {
    std::shared_ptr<const TokenAutomaton> automaton;
    Grammar tables;
  };
  /// A few sizes, each with a graph of its own.
  static std::int32_t padded_rows(std::int32_t rows) {
    std::int32_t size = 1;
    while (size < rows) size *= 2;
    const std::int32_t three_quarters = size / 4 * 3;
    return size >= 32 && rows <= three_quarters ? three_quarters : size;
  }

  void step(std::int32_t rows) {
    ops_->set_rows(positions_.const_data_ptr<std::int32_t>(), table_.const_data_ptr<std::int32_t>(),
                   table_stride_);
    const at::Tensor logits = decoder_->logits(decoder_->hidden(tokens_.narrow(0, 0, rows), *ops_), *ops_);
    cuda::draw(logits.const_data_ptr<float>(), static_cast<int>(logits.size(1)),
               static_cast<cuda::DrawRow*>(rows_.data_ptr()), tokens_.mutable_data_ptr<std::int32_t>(),
               positions_.mutable_data_ptr<std::int32_t>(), static_cast<cuda::DrawnToken*>(drawn_.data_ptr()),
               rows, c10::cuda::getCurrentCUDAStream().stream());
  }

  /// A group's rows share one upload, which is megabytes for a kernel's grammar.
  std::shared_ptr<const RowGrammar> uploaded(const std::shared_ptr<const TokenAutomaton>& automaton) {
    for (const auto& there : grammars_)
      if (there && there->automaton == automaton) return there;
    return std::make_shared<const RowGrammar>(RowGrammar{automaton, Grammar::upload(*automaton)});
  }

  /// From pageable memory: the bytes are read before the call returns.
  void set(const at::Tensor& tensor, std::int32_t row, const void* from, std::size_t bytes) {
    auto* const to = static_cast<char*>(tensor.data_ptr()) +
                     row * tensor.stride(0) * static_cast<std::int64_t>(tensor.element_size());
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_.stream()), "set up a row");
  }

  const std::shared_ptr<const Decoder> decoder_;
  const c10::cuda::CUDAStream stream_;
  const std::int32_t batch_, table_stride_;
  at::Tensor cache_;  // [layers, 2, pages, kv_heads, kPageTokens, head_dim]
  std::unique_ptr<CudaRowOps> ops_;
  at::Tensor tokens_, positions_, table_, rows_, drawn_;
  std::vector<std::shared_ptr<const RowGrammar>> grammars_;
  std::map<std::int32_t, Graph> graphs_;
  std::array<Results, kDepth> results_;
  std::vector<Drawn> drawn_rows_;
  std::uint64_t launched_ = 0, collected_ = 0;
};

Status check() {
  return without_exceptions([]() -> Status {
    if (c10::cuda::device_count() == 0)
      return Error{ErrorCode::kUnavailable, "this machine has no GPU that CUDA can use",
                   "use --device cpu, or check nvidia-smi"};
    at::globalContext().lazyInitDevice(at::kCUDA);
    return Ok{};
  });
}

std::int64_t free_bytes() {
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return 0;
  return static_cast<std::int64_t>(free);
}

Result<std::unique_ptr<Runner>> make_runner(std::shared_ptr<const Decoder> decoder,
                                            const RunnerOptions& options) {
  const ModelConfig& config = decoder->config();
  if (decoder->options().precision != Precision::kBF16)
    return invalid("a GPU computes in bf16 only", "use --precision bf16, or --device cpu");
  if (!cuda::supports({static_cast<int>(config.heads), static_cast<int>(config.kv_heads),
                       static_cast<int>(config.head_dim), 0}))
    return Error{ErrorCode::kUnavailable,
                 fmt::format("no attention kernel for heads of {} dimensions: 64 and 128 are possible",
                             config.head_dim),
                 "use --device cpu"};
  return without_exceptions([&]() -> Result<std::unique_ptr<Runner>> {
    return std::unique_ptr<Runner>(std::make_unique<CudaRunner>(std::move(decoder), options));
  });
}

Result<std::vector<Drawn>> draw_rows(const at::Tensor& logits, std::span<const DrawState> rows) {
  return without_exceptions([&]() -> Result<std::vector<Drawn>> {
    const auto count = static_cast<std::int64_t>(rows.size());
    std::vector<cuda::DrawRow> here;
    std::vector<Grammar> grammars;
    for (const DrawState& state : rows) {
      here.push_back(row_of(state));
      if (!state.grammar) continue;
      grammars.push_back(Grammar::upload(*state.grammar));
      grammars.back().attach_to(here.back());
    }
    const at::Tensor there =
        at::empty({count, static_cast<std::int64_t>(sizeof(cuda::DrawRow))}, on_device(at::kByte));
    require(cudaMemcpy(there.data_ptr(), here.data(), there.nbytes(), cudaMemcpyHostToDevice), "set up rows");
    const at::Tensor tokens = at::zeros({2, count}, on_device(at::kInt)),
                     drawn = at::zeros({count, 3}, on_device(at::kInt));
    cuda::draw(logits.const_data_ptr<float>(), static_cast<int>(logits.size(1)),
               static_cast<cuda::DrawRow*>(there.data_ptr()), tokens[0].mutable_data_ptr<std::int32_t>(),
               tokens[1].mutable_data_ptr<std::int32_t>(), static_cast<cuda::DrawnToken*>(drawn.data_ptr()),
               static_cast<int>(count), c10::cuda::getCurrentCUDAStream().stream());
    std::vector<cuda::DrawnToken> results(rows.size());
    require(cudaMemcpy(results.data(), drawn.data_ptr(), drawn.nbytes(), cudaMemcpyDeviceToHost), "draw");
    std::vector<Drawn> all;
    for (const auto& result : results) all.push_back({result.token, result.log_prob, result.model_log_prob});
    return all;
  });
}

}  // namespace
}  // namespace lathe::lm

extern "C" [[gnu::visibility("default")]] const lathe::lm::CudaPlugin* lathe_torch_cuda_plugin() {
  static const lathe::lm::CudaPlugin plugin{lathe::lm::check, lathe::lm::free_bytes, lathe::lm::draw_rows,
                                            lathe::lm::make_runner};
  return &plugin;
}
