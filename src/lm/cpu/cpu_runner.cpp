#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "lm/cpu/draw.h"
#include "lm/cpu/row_ops.h"
#include "lm/runner.h"

namespace lathe::lm {
namespace {

constexpr std::size_t kPrefillRows = 240;  ///< at once: bounds the memory of activations

class CpuRunner final : public Runner {
 public:
  CpuRunner(std::shared_ptr<const Decoder> decoder, const RunnerOptions& options)
      : decoder_(std::move(decoder)),
        cache_(decoder_->config(), options.pages),
        ops_(*decoder_, cache_, options.context),
        slots_(static_cast<std::size_t>(options.max_batch)),
        drawn_(slots_.size()) {}

  void prefill(std::span<const TokenId> tokens, std::int32_t first,
               std::span<const std::int32_t> pages) override {
    const c10::InferenceMode inference;
    for (std::size_t begin = 0; begin < tokens.size(); begin += kPrefillRows) {
      const auto part = tokens.subspan(begin, std::min(kPrefillRows, tokens.size() - begin));
      rows_.clear();
      for (std::size_t i = 0; i < part.size(); ++i)
        rows_.push_back({first + static_cast<std::int32_t>(begin + i), pages});
      ops_.set_rows(rows_);
      (void)decoder_->hidden(as_tensor(part), ops_);
    }
  }

  void copy_page(std::int32_t from, std::int32_t to) override { cache_.copy_page(from, to); }

  void start_row(std::int32_t row, const RowStart& start) override {
    slots_[static_cast<std::size_t>(row)] = {.active = true,
                                             .token = start.token,
                                             .position = start.position,
                                             .pages = {start.pages.begin(), start.pages.end()},
                                             .grammar = start.grammar,
                                             .state = {start.sampling, start.stream, 0, start.grammar.get()}};
  }
  void stop_row(std::int32_t row) override { slots_[static_cast<std::size_t>(row)].active = false; }

  void launch(std::int32_t rows) override {
    const c10::InferenceMode inference;
    rows_.clear();
    std::vector<TokenId> tokens;
    std::vector<std::size_t> active;
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
      if (!slots_[i].active) continue;
      active.push_back(i);
      tokens.push_back(slots_[i].token);
      rows_.push_back({slots_[i].position, slots_[i].pages});
    }
    launched_ = static_cast<std::size_t>(rows);
    std::ranges::fill(drawn_, Drawn{});
    if (active.empty()) return;
    ops_.set_rows(rows_);
    const at::Tensor logits = decoder_->logits(decoder_->hidden(as_tensor(tokens), ops_), ops_);
    const auto vocab = static_cast<std::size_t>(logits.size(1));
    const float* const values = logits.const_data_ptr<float>();
    at::parallel_for(0, static_cast<std::int64_t>(active.size()), 1,
                     [&](std::int64_t first, std::int64_t last) {
                       std::vector<float> scratch;
                       for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i)
                         advance(active[i], {values + i * vocab, vocab}, scratch);
                     });
  }

  Result<std::span<const Drawn>> collect() override {
    const auto drawn = std::span<const Drawn>(drawn_).first(launched_);
    if (std::ranges::find(drawn, kNoToken, &Drawn::token) != drawn.end())
      return Error{
          ErrorCode::kUnavailable, "the model's logits are not finite",
          "its weights, or an adapter's with its lora_alpha, are out of range: fetch or train them again"};
    return drawn;
  }
  std::int32_t depth() const override { return 1; }
  std::string device() const override { return fmt::format("cpu ({} threads)", at::get_num_threads()); }

 private:
  struct Slot {
    bool active = false;
    TokenId token = 0;
    std::int32_t position = 0;
    std::vector<std::int32_t> pages = {};
    std::shared_ptr<const TokenAutomaton> grammar = {};
    DrawState state = {};
  };

  static at::Tensor as_tensor(std::span<const TokenId> tokens) {
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(tokens.size())}, at::kInt);
    std::ranges::copy(tokens, tensor.mutable_data_ptr<TokenId>());
    return tensor;
  }

  void advance(std::size_t row, std::span<const float> logits, std::vector<float>& scratch) {
    Slot& slot = slots_[row];
    drawn_[row] = draw(logits, slot.state, scratch);
    if (drawn_[row].token == kNoToken) return;
    slot.token = drawn_[row].token;
    ++slot.position;
    ++slot.state.counter;
    if (slot.state.grammar)
      slot.state.grammar_state = slot.state.grammar->next(slot.state.grammar_state, slot.token);
  }

  std::shared_ptr<const Decoder> decoder_;
  CpuCache cache_;
  CpuRowOps ops_;
  std::vector<Slot> slots_;
  std::vector<Drawn> drawn_;
  std::vector<CpuRow> rows_;
  std::size_t launched_ = 0;
};

}  // namespace

std::int64_t cache_bytes_per_token(const Decoder& decoder) {
  const ModelConfig& config = decoder.config();
  const std::int64_t bytes = decoder.options().device.is_cpu() ? 4 : 2;
  return config.layers * config.kv_heads * config.head_dim * 2 * bytes;
}

Result<std::unique_ptr<Runner>> make_cpu_runner(std::shared_ptr<const Decoder> decoder,
                                                const RunnerOptions& options) {
  return std::unique_ptr<Runner>(std::make_unique<CpuRunner>(std::move(decoder), options));
}

}  // namespace lathe::lm
