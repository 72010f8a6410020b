#include <cmath>

#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

template <class F>
OpCase mean_of(std::string op, Attrs given, Draw a, Draw b, double divisor, F f) {
  OpCase result =
      make_case(std::move(op), {{6, 9}, {6, 9}}, std::move(given), [=](const auto& in, Summer& summer) {
        auto terms = in[0].data;
        using T = std::decay_t<decltype(terms[0])>;
        for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = f(terms[i], in[1].data[i]);
        terms.assign(1, summer.sum(terms) / static_cast<T>(divisor));
        return terms;
      });
  result.draws = {a, b};
  return result;
}

OpCase cross_entropy(double smoothing) {
  const Attrs given = smoothing > 0 ? attrs({{"label_smoothing", smoothing}}) : Attrs{};
  OpCase result =
      make_case("cross_entropy", {{8, 11}, {8}}, given, [smoothing](const auto& in, Summer& summer) {
        auto losses = in[0].data;
        losses.clear();
        for (std::int64_t row = 0; row < 8; ++row) {
          auto terms = in[0].data;
          terms.clear();
          for (std::int64_t c = 0; c < 11; ++c) terms.push_back(std::exp(in[0].at(row, c) - 3));
          const auto whole = 3 + std::log(summer.sum(terms));
          using T = std::decay_t<decltype(whole)>;
          for (std::int64_t c = 0; c < 11; ++c) terms[static_cast<std::size_t>(c)] = whole - in[0].at(row, c);
          const T own = terms[static_cast<std::size_t>(in[1][row])];
          terms.resize(11);
          losses.push_back(T(1 - smoothing) * own + T(smoothing) * summer.sum(terms) / 11);
        }
        losses.assign(1, summer.sum(losses) / 8);
        return losses;
      });
  result.draws = {Draw{-3, 3}, Draw{.index_limit = 11}};
  return result;
}

OpCase nll_loss() {
  OpCase result = make_case("nll_loss", {{8, 11}, {8}}, {}, [](const auto& in, Summer& summer) {
    auto losses = in[0].data;
    losses.clear();
    for (std::int64_t row = 0; row < 8; ++row)
      losses.push_back(-in[0].at(row, static_cast<std::int64_t>(in[1][row])));
    losses.assign(1, summer.sum(losses) / 8);
    return losses;
  });
  result.draws = {Draw{-3, -0.1}, Draw{.index_limit = 11}};
  return result;
}

OpCase triplet_margin(double margin) {
  OpCase result =
      make_case("triplet_margin_loss", {{6, 9}, {6, 9}, {6, 9}}, attrs({{"margin", margin}, {"eps", 1e-3}}),
                [margin](const auto& in, Summer& summer) {
                  auto losses = in[0].data;
                  using T = typename decltype(losses)::value_type;
                  losses.clear();
                  const auto distance = [&](std::int64_t row, std::size_t other) {
                    auto squares = in[0].data;
                    squares.clear();
                    for (std::int64_t i = 0; i < 9; ++i) {
                      const T d = in[0].at(row, i) - in[other].at(row, i) + T(1e-3);
                      squares.push_back(d * d);
                    }
                    return std::sqrt(summer.sum(squares));
                  };
                  for (std::int64_t row = 0; row < 6; ++row)
                    losses.push_back(std::max(T(0), distance(row, 1) - distance(row, 2) + T(margin)));
                  losses.assign(1, summer.sum(losses) / 6);
                  return losses;
                });
  result.draws = {Draw{-3, 3}};
  return result;
}

}  // namespace

std::vector<OpCase> loss_cases() {
  const Draw any{-3, 3};
  const Draw probability{0.05, 0.95};
  return {
      mean_of("mse_loss", {}, any, any, 54, [](auto a, auto b) { return (a - b) * (a - b); }),
      mean_of("l1_loss", {}, any, any, 54, [](auto a, auto b) { return std::abs(a - b); }),
      mean_of("huber_loss", attrs({{"delta", 1.5}}), any, any, 54,
              [](auto a, auto b) {
                using T = decltype(a);
                const T d = std::abs(a - b);
                return d < T(1.5) ? d * d / 2 : T(1.5) * (d - T(0.75));
              }),
      mean_of("smooth_l1_loss", attrs({{"beta", 0.7}}), any, any, 54,
              [](auto a, auto b) {
                using T = decltype(a);
                const T d = std::abs(a - b);
                return d < T(0.7) ? d * d / (2 * T(0.7)) : d - T(0.35);
              }),
      mean_of("hinge_loss", {}, any, any, 54,
              [](auto a, auto b) { return a * b < 1 ? 1 - a * b : decltype(a)(0); }),
      mean_of("bce_with_logits", {}, any, probability, 54,
              [](auto a, auto b) {
                const auto p = 1 / (1 + std::exp(-a));
                return -b * std::log(p) - (1 - b) * std::log(1 - p);
              }),
      mean_of("kl_div", {}, any, probability, 6, [](auto a, auto b) { return b * (std::log(b) - a); }),
      mean_of("poisson_nll_loss", {}, any, Draw{0, 6}, 54,
              [](auto a, auto b) { return std::exp(a) - a * b; }),
      mean_of("soft_margin_loss", {}, any, any, 54,
              [](auto a, auto b) { return std::log1p(std::exp(-a * b)); }),
      nll_loss(),
      triplet_margin(20),
      triplet_margin(0.5),
      cross_entropy(0),
      cross_entropy(0.2),
  };
}

}  // namespace lathe
