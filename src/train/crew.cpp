#include "train/crew.h"

#include <ATen/DeviceAccelerator.h>

#include <utility>

#include "base/guard.h"
#include "sandbox/wire.h"

namespace lathe::train {
namespace {

enum class Order : std::uint8_t { kFindOut, kAddGradient, kUpdate, kKeepReference, kLoadState, kCheckEqual };

constexpr std::uint64_t kMostMessageBytes = std::uint64_t{1} << 36;
constexpr std::size_t kMostPathBytes = 1 << 16;

Error nonsense() { return {ErrorCode::kInternal, "a process of the run sent nonsense"}; }

Status send(const Links& links, std::size_t link, const std::string& message) {
  const std::uint64_t size = message.size();
  LATHE_CHECK_OK(links.send(link, std::as_bytes(std::span(&size, 1))));
  return links.send(link, std::as_bytes(std::span(message)));
}

Result<std::string> receive(const Links& links, std::size_t link) {
  std::uint64_t size = 0;
  LATHE_CHECK_OK(links.receive(link, std::as_writable_bytes(std::span(&size, 1))));
  if (size > kMostMessageBytes) return nonsense();
  std::string message(size, '\0');
  LATHE_CHECK_OK(links.receive(link, std::as_writable_bytes(std::span(message))));
  return message;
}

void put(WireWriter& out, const AnswerPass& pass) {
  out.put(static_cast<std::uint32_t>(pass.texts.size()));
  for (const auto& [prompt, answer] : pass.texts) out.list(prompt).list(answer);
  out.put(static_cast<std::uint8_t>(pass.allowed.has_value()));
  if (!pass.allowed) return;
  out.list(pass.allowed->tokens).list(pass.allowed->taken);
  for (const auto& place : pass.allowed->places) out.list(place);
}
AnswerPass get_pass(WireReader& in) {
  AnswerPass pass;
  pass.texts.resize(in.count(2 * sizeof(std::uint32_t)));
  for (auto& [prompt, answer] : pass.texts) prompt = in.list<TokenId>(), answer = in.list<TokenId>();
  if (!in.flag()) return pass;
  AnswerPass::Allowed& allowed = pass.allowed.emplace();
  allowed.tokens = in.list<std::int64_t>(), allowed.taken = in.list<std::int64_t>();
  allowed.places.resize(allowed.taken.size());
  for (auto& place : allowed.places) place = in.list<std::int64_t>();
  return pass;
}

/// The update that all processes do.
Result<double> update_together(Learner& learner, Reducer* reducer, const AdamW& options, double learning_rate,
                               std::int64_t step, double clip_norm) {
  if (reducer) {
    std::vector<at::Tensor> gradients = learner.parameters().gradients();
    LATHE_CHECK_OK(reducer->sum(gradients));
  }
  const double norm = learner.parameters().clip(clip_norm);
  learner.parameters().update(options, learning_rate, step);
  return norm;
}

/// What one of the others computes with, from order to order.
class Follower {
 public:
  Follower(Learner& learner, const CrewSeat& seat) : learner_(learner), seat_(seat) {}

  Status obey(const std::string& message) {
    WireReader in(message);
    switch (in.get<Order>()) {
      case Order::kFindOut:
        return find_out(in);
      case Order::kAddGradient:
        return add_gradient(in);
      case Order::kUpdate: {
        const auto options = in.get<AdamW>();
        const auto learning_rate = in.get<double>(), clip_norm = in.get<double>();
        const auto step = in.get<std::int64_t>();
        LATHE_TRY([[maybe_unused]] const double norm,
                  update_together(learner_, seat_.reducer, options, learning_rate, step, clip_norm));
        return Ok{};
      }
      case Order::kKeepReference: {
        LATHE_TRY(reference_, learner_.freeze());
        return Ok{};
      }
      case Order::kLoadState:
        return learner_.load_state(in.text(kMostPathBytes));
      case Order::kCheckEqual:
        return train::check_equal(*seat_.reducer, learner_.fingerprint(), "weights");
    }
    return nonsense();
  }

 private:
  Status find_out(WireReader& in) {
    const bool by_reference = in.get<Weights>() == Weights::kReference;
    if (by_reference && !reference_)
      return Error{ErrorCode::kInternal, "no weights were kept as a reference"};
    const Scorer& scorer = by_reference ? *reference_ : learner_.scorer();
    WireWriter out;
    while (in.ok() && !in.finished()) {
      const AnswerPass pass = get_pass(in);
      if (!in.ok()) return nonsense();
      const PassFindings found = train::find_out(scorer, pass);
      out.list(found.log_probabilities).list(found.entropies);
    }
    return send(*seat_.links, 0, out.take());
  }
  Status add_gradient(WireReader& in) {
    while (in.ok() && !in.finished()) {
      const AnswerPass pass = get_pass(in);
      PassSlopes slopes{.by_log_probability = in.list<float>()};
      slopes.by_entropy = in.list<float>();
      if (!in.ok()) return nonsense();
      train::add_gradient(learner_, pass, slopes);
    }
    return Ok{};
  }

  Learner& learner_;
  const CrewSeat& seat_;
  std::optional<Scorer> reference_;
};

}  // namespace

Status Crew::tell_all(const std::string& order) const {
  for (std::size_t link = 0; link < others(); ++link) LATHE_CHECK_OK(send(*seat_.links, link, order));
  return Ok{};
}

template <class Put>
Status Crew::share_out(std::size_t passes, const WireWriter& head, const Put& put_pass) const {
  for (std::size_t rank = 1; rank < size(); ++rank) {
    WireWriter order = head;
    for (std::size_t i = rank; i < passes; i += size()) put_pass(order, i);
    LATHE_CHECK_OK(send(*seat_.links, rank - 1, order.take()));
  }
  return Ok{};
}

Result<std::vector<PassFindings>> Crew::find_out(std::span<const AnswerPass> passes, Weights whose) {
  LATHE_CHECK_OK(share_out(passes.size(), WireWriter().put(Order::kFindOut).put(whose),
                           [&](WireWriter& order, std::size_t i) { put(order, passes[i]); }));
  std::vector<PassFindings> found(passes.size());
  const Scorer& scorer = whose == Weights::kReference ? *reference_ : learner_.scorer();
  for (std::size_t i = 0; i < passes.size(); i += size()) found[i] = train::find_out(scorer, passes[i]);
  for (std::size_t rank = 1; rank < size(); ++rank) {
    LATHE_TRY(const std::string answer, receive(*seat_.links, rank - 1));
    WireReader in(answer);
    for (std::size_t i = rank; i < passes.size(); i += size()) {
      found[i].log_probabilities = in.list<double>();
      found[i].entropies = in.list<double>();
    }
    if (!in.finished()) return nonsense();
  }
  return found;
}

Status Crew::add_gradient(std::span<const AnswerPass> passes, std::span<const PassSlopes> slopes) {
  LATHE_CHECK_OK(
      share_out(passes.size(), WireWriter().put(Order::kAddGradient), [&](WireWriter& order, std::size_t i) {
        put(order, passes[i]);
        order.list(slopes[i].by_log_probability).list(slopes[i].by_entropy);
      }));
  for (std::size_t i = 0; i < passes.size(); i += size()) train::add_gradient(learner_, passes[i], slopes[i]);
  return Ok{};
}

Result<double> Crew::update(const AdamW& options, double learning_rate, std::int64_t step, double clip_norm) {
  LATHE_CHECK_OK(tell_all(
      WireWriter().put(Order::kUpdate).put(options).put(learning_rate).put(clip_norm).put(step).take()));
  return update_together(learner_, others() > 0 ? seat_.reducer : nullptr, options, learning_rate, step,
                         clip_norm);
}

Status Crew::keep_reference() {
  LATHE_CHECK_OK(tell_all(WireWriter().put(Order::kKeepReference).take()));
  LATHE_TRY(reference_, learner_.freeze());
  return Ok{};
}

Status Crew::load_state(const std::string& path) {
  LATHE_CHECK_OK(tell_all(WireWriter().put(Order::kLoadState).text(path).take()));
  return learner_.load_state(path);
}

Status Crew::check_equal() {
  if (others() == 0) return Ok{};
  LATHE_CHECK_OK(tell_all(WireWriter().put(Order::kCheckEqual).take()));
  return train::check_equal(*seat_.reducer, learner_.fingerprint(), "weights");
}

Status serve_crew(Learner& learner, const CrewSeat& seat) {
  Follower follower(learner, seat);
  const at::Device device = learner.decoder().options().device;
  for (;;) {
    const auto order = receive(*seat.links, 0);
    if (!order.ok() && order.error().code == ErrorCode::kUnavailable) return Ok{};
    if (!order.ok()) return order.error();
    const std::shared_ptr<void> turn = seat.take_turn ? seat.take_turn() : nullptr;
    LATHE_CHECK_OK(without_exceptions([&] { return follower.obey(*order); }));
    if (turn && !device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
  }
}

}  // namespace lathe::train
