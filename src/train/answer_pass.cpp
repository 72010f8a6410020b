#include "train/answer_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>

#include "train/example.h"
#include "train/to_tensor.h"

namespace lathe::train {
namespace {

/// Of all tokens of the answers, one after the other.
struct Forward {
  at::Tensor log_probabilities, entropies;
};

Forward forward_among(const AnswerPass::Allowed& allowed, const Scorer& scorer, const Batch& batch) {
  const auto places = static_cast<std::int64_t>(allowed.places.size());
  const std::size_t columns = allowed.tokens.size();
  at::Tensor forbidden = at::ones({places, static_cast<std::int64_t>(columns)}, at::kBool);
  bool* const cells = forbidden.mutable_data_ptr<bool>();
  for (std::size_t place = 0; place < allowed.places.size(); ++place)
    for (const std::int64_t column : allowed.places[place])
      cells[place * columns + static_cast<std::size_t>(column)] = false;
  const at::Device device = scorer.decoder().options().device;
  forbidden = forbidden.to(device);

  const at::Tensor logits =
      scorer.logits(batch, allowed.tokens).masked_fill(forbidden, -std::numeric_limits<float>::infinity());
  const at::Tensor logs = at::log_softmax(logits, 1);
  return {.log_probabilities = logs.gather(1, to_tensor(allowed.taken, device).unsqueeze(1)).squeeze(1),
          .entropies = -(logs.exp() * logs.masked_fill(forbidden, 0)).sum(1)};
}

Forward forward(const Scorer& scorer, const AnswerPass& pass) {
  std::vector<Example> examples;
  Row row;
  for (const AnswerPass::Text& text : pass.texts) {
    row.push_back(examples.size());
    examples.push_back({.prompt = text.prompt,
                        .answer = text.answer,
                        .weights = std::vector<float>(text.answer.size(), 1.0F)});
  }
  const Batch batch = make_batch(examples, std::span(&row, 1));
  if (pass.allowed) return forward_among(*pass.allowed, scorer, batch);
  const at::Tensor logs = scorer.log_probs(batch, std::nullopt, Logits::kF32);
  return {.log_probabilities = logs, .entropies = -logs.detach()};
}

std::vector<double> to_doubles(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* const first = plain.const_data_ptr<double>();
  return {first, first + plain.numel()};
}

}  // namespace

PassFindings find_out(const Scorer& scorer, const AnswerPass& pass) {
  const at::NoGradGuard no_grad;
  const Forward computed = forward(scorer, pass);
  return {to_doubles(computed.log_probabilities), to_doubles(computed.entropies)};
}

void add_gradient(Learner& learner, const AnswerPass& pass, const PassSlopes& slopes) {
  const at::Device device = learner.decoder().options().device;
  const Forward computed = forward(learner.scorer(), pass);
  at::Tensor loss = (computed.log_probabilities * to_tensor(slopes.by_log_probability, device)).sum();
  if (!slopes.by_entropy.empty())
    loss = loss + (computed.entropies * to_tensor(slopes.by_entropy, device)).sum();
  learner.backward(loss);
}

}  // namespace lathe::train
