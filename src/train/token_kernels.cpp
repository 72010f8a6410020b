#include "train/token_kernels.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace lathe::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

at::Tensor aten_gate(const at::Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

at::Tensor aten_gate_backward(const at::Tensor& grad, const at::Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, -1);
  return at::cat({at::silu_backward(grad * halves[1], halves[0]), grad * at::silu(halves[0])}, -1);
}

void aten_rotate(const at::Tensor& from, const at::Tensor& cosine, const at::Tensor& sine, bool back,
                 const at::Tensor& to) {
  const auto halves = from.to(at::kFloat).chunk(2, -1);
  const at::Tensor c = cosine.unsqueeze(1), s = back ? sine.neg().unsqueeze(1) : sine.unsqueeze(1);
  to.copy_(at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1));
}

TokenKernels::Norm aten_add_norm(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& weight,
                                 double eps, at::ScalarType type) {
  const at::Tensor sum = delta.defined() ? x + delta : x;
  const at::Tensor inverse_rms = at::rsqrt(sum.square().mean(-1) + eps);
  return {sum, (sum * inverse_rms.unsqueeze(-1) * weight).to(type), inverse_rms};
}

/// With r = 1 / rms and h = grad * weight: r h - x r^3 mean(h x).
TokenKernels::NormGrads aten_add_norm_backward(const at::Tensor& grad_sum, const at::Tensor& grad_normed,
                                               const at::Tensor& weight, const TokenKernels::Norm& forward,
                                               at::ScalarType delta_type) {
  const at::Tensor grad = grad_normed.to(at::kFloat), r = forward.inverse_rms.unsqueeze(-1);
  const at::Tensor scaled = forward.sum * r;
  const at::Tensor h = grad * weight;
  at::Tensor of_x = r * (h - scaled * (h * scaled).mean(-1, true));
  if (grad_sum.defined()) of_x = of_x + grad_sum;
  return {of_x, delta_type == at::ScalarType::Undefined ? at::Tensor() : of_x.to(delta_type),
          (grad * scaled).flatten(0, -2).sum(0)};
}

std::pair<at::Tensor, at::Tensor> aten_log_probs(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor wide = logits.to(at::kFloat);
  const at::Tensor log_masses = at::logsumexp(wide, {1});
  return {wide.gather(1, targets.unsqueeze(1)).squeeze(1) - log_masses, log_masses};
}

at::Tensor aten_log_probs_backward(const at::Tensor& logits, const at::Tensor& targets,
                                   const at::Tensor& log_masses, const at::Tensor& grads) {
  at::Tensor slopes = (logits.to(at::kFloat) - log_masses.unsqueeze(1)).exp_().mul_(grads.neg().unsqueeze(1));
  slopes.scatter_add_(1, targets.unsqueeze(1), grads.unsqueeze(1).contiguous());
  return slopes.to(logits.scalar_type());
}

void remember(AutogradContext* context, const TokenKernels* kernels) {
  context->saved_data["kernels"] = reinterpret_cast<std::int64_t>(kernels);
}
const TokenKernels& kernels_of(AutogradContext* context) {
  return *reinterpret_cast<const TokenKernels*>(context->saved_data["kernels"].toInt());
}

class Gate : public torch::autograd::Function<Gate> {
 public:
  static Variable forward(AutogradContext* context, const TokenKernels* kernels, const Variable& gate_up) {
    context->save_for_backward({gate_up});
    remember(context, kernels);
    return kernels->gate(gate_up);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {{}, kernels_of(context).gate_backward(grads[0].contiguous(), context->get_saved_variables()[0])};
  }
};

class Rotate : public torch::autograd::Function<Rotate> {
 public:
  static Variable forward(AutogradContext* context, const TokenKernels* kernels, const Variable& x,
                          const at::Tensor& cosine, const at::Tensor& sine) {
    context->save_for_backward({cosine, sine});
    remember(context, kernels);
    const at::Tensor turned = at::empty(x.sizes(), x.options());
    kernels->rotate(x, cosine, sine, /*back=*/false, turned);
    return turned;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor grad = grads[0].contiguous(), turned = at::empty_like(grad);
    kernels_of(context).rotate(grad, saved[0], saved[1], /*back=*/true, turned);
    return {{}, turned, {}, {}};
  }
};

class AddNorm : public torch::autograd::Function<AddNorm> {
 public:
  static variable_list forward(AutogradContext* context, const TokenKernels* kernels, const Variable& x,
                               const Variable& delta, const Variable& weight, double eps,
                               at::ScalarType type) {
    const TokenKernels::Norm norm = kernels->add_norm(x, delta, weight, eps, type);
    context->save_for_backward({norm.sum, norm.inverse_rms, weight});
    context->set_materialize_grads(false);
    context->saved_data["delta"] = static_cast<std::int64_t>(delta.scalar_type());
    remember(context, kernels);
    return {norm.sum, norm.normed};
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const auto type = static_cast<at::ScalarType>(context->saved_data["delta"].toInt());
    const auto made = kernels_of(context).add_norm_backward(grads[0], grads[1].contiguous(), saved[2],
                                                            {saved[0], {}, saved[1]}, type);
    return {{}, made.x, made.delta, made.weight, {}, {}};
  }
};

/// Of x alone: it stays what it is, and its own gradient does not pass through here.
class NormOnly : public torch::autograd::Function<NormOnly> {
 public:
  static Variable forward(AutogradContext* context, const TokenKernels* kernels, const Variable& x,
                          const Variable& weight, double eps, at::ScalarType type) {
    const TokenKernels::Norm norm = kernels->add_norm(x, {}, weight, eps, type);
    context->save_for_backward({x, norm.inverse_rms, weight});
    remember(context, kernels);
    return norm.normed;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const auto made = kernels_of(context).add_norm_backward(
        {}, grads[0].contiguous(), saved[2], {saved[0], {}, saved[1]}, at::ScalarType::Undefined);
    return {{}, made.x, made.weight, {}, {}};
  }
};

/// Of logits that exist at a time.
constexpr std::int64_t kLogitBytesOnCpu = std::int64_t{64} << 20, kLogitBytesOnGpu = std::int64_t{2} << 30;

/// Calls step(first, count) over all rows.
template <class Step>
void by_chunks(const at::Tensor& hidden, const at::Tensor& head, Logits kind, const Step& step) {
  const std::int64_t bytes = hidden.is_cpu() ? kLogitBytesOnCpu : kLogitBytesOnGpu;
  const std::int64_t of_logit = kind == Logits::kF32 ? 4 : static_cast<std::int64_t>(head.element_size());
  const std::int64_t most = std::max<std::int64_t>(1, bytes / (of_logit * head.size(0)));
  for (std::int64_t first = 0; first < hidden.size(0); first += most)
    step(first, std::min(most, hidden.size(0) - first));
}

at::Tensor logits_of(const at::Tensor& hidden, const at::Tensor& head, Logits kind) {
  if (kind == Logits::kAsHidden || hidden.scalar_type() == at::kFloat) return at::linear(hidden, head);
  if (hidden.is_cuda()) return at::mm(hidden, head.t(), at::kFloat);
  return at::linear(hidden.to(at::kFloat), head.to(at::kFloat));
}

class TokenLogProbs : public torch::autograd::Function<TokenLogProbs> {
 public:
  static Variable forward(AutogradContext* context, const TokenKernels* kernels, const Variable& hidden,
                          const Variable& head, const at::Tensor& targets, Logits kind) {
    const at::Tensor log_probs = at::empty({hidden.size(0)}, hidden.options().dtype(at::kFloat));
    const at::Tensor log_masses = at::empty_like(log_probs);
    by_chunks(hidden, head, kind, [&](std::int64_t first, std::int64_t count) {
      const auto [chosen, mass] = kernels->log_probs(logits_of(hidden.narrow(0, first, count), head, kind),
                                                     targets.narrow(0, first, count));
      log_probs.narrow(0, first, count).copy_(chosen);
      log_masses.narrow(0, first, count).copy_(mass);
    });
    context->save_for_backward({hidden, head, targets, log_masses});
    context->saved_data["kind"] = static_cast<std::int64_t>(kind);
    remember(context, kernels);
    return log_probs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &hidden = saved[0], &head = saved[1], &targets = saved[2], &log_masses = saved[3];
    const auto kind = static_cast<Logits>(context->saved_data["kind"].toInt());
    const bool wants_head = head.requires_grad();
    const at::Tensor grad = grads[0].contiguous();
    const at::Tensor grad_hidden = at::empty_like(hidden);
    at::Tensor grad_head;
    by_chunks(hidden, head, kind, [&](std::int64_t first, std::int64_t count) {
      const auto own = [&](const at::Tensor& rows) { return rows.narrow(0, first, count); };
      const at::Tensor slopes = kernels_of(context)
                                    .log_probs_backward(logits_of(own(hidden), head, kind), own(targets),
                                                        own(log_masses), own(grad))
                                    .to(head.scalar_type());
      own(grad_hidden).copy_(at::mm(slopes, head));
      if (!wants_head) return;
      const at::Tensor part = at::mm(slopes.t(), own(hidden)).to(at::kFloat);
      grad_head = grad_head.defined() ? grad_head.add_(part) : part;
    });
    return {{}, grad_hidden, wants_head ? grad_head.to(head.scalar_type()) : at::Tensor(), {}, {}};
  }
};

}  // namespace

const TokenKernels& aten_kernels() {
  static const TokenKernels kernels{
      aten_gate,      aten_gate_backward,     aten_rotate, aten_add_norm, aten_add_norm_backward,
      aten_log_probs, aten_log_probs_backward};
  return kernels;
}

at::Tensor gate(const TokenKernels& kernels, const at::Tensor& gate_up) {
  return Gate::apply(&kernels, gate_up);
}

at::Tensor rotate(const TokenKernels& kernels, const at::Tensor& x, const at::Tensor& cosine,
                  const at::Tensor& sine) {
  return Rotate::apply(&kernels, x, cosine, sine);
}

std::pair<at::Tensor, at::Tensor> add_norm(const TokenKernels& kernels, const at::Tensor& x,
                                           const at::Tensor& delta, const at::Tensor& weight, double eps,
                                           at::ScalarType type) {
  if (!delta.defined()) return {x, NormOnly::apply(&kernels, x, weight, eps, type)};
  const auto both = AddNorm::apply(&kernels, x, delta, weight, eps, type);
  return {both[0], both[1]};
}

at::Tensor token_log_probs(const TokenKernels& kernels, const at::Tensor& hidden, const at::Tensor& head,
                           const at::Tensor& targets, Logits logits) {
  return TokenLogProbs::apply(&kernels, hidden, head, targets, logits);
}

}  // namespace lathe::train
