#include "rl/choice_actor.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "record/json.h"

namespace lathe::rl {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;  // Adam's, as published
constexpr double kFailedScore =
    -1;  // of a shown kernel that failed: as if it were e times slower than the peer
constexpr std::size_t kShown = 2;

std::vector<bool> open_values(const TableTask::Node& node, std::size_t count) {
  std::vector<bool> open(count, false);
  for (const auto& [value, next] : node.next) open[value] = true;
  return open;
}

}  // namespace

ChoiceActor::ChoiceActor(const ScheduleTable& table, const Seed& seed, const ChoiceActorOptions& options)
    : table_(table),
      options_(options),
      net_(seed, options.hidden),
      gradient_(net_.weights().size(), 0),
      first_moment_(gradient_),
      second_moment_(gradient_) {}

std::vector<ShownChoices> ChoiceActor::shown(const Prompt& prompt) const {
  const TableTask& task = table_.tasks[prompt.task];
  std::vector<ShownChoices> shown;
  for (const auto& attempt : prompt.shown) {
    const TableRow* const row = task.find(attempt->experience.candidate_text);
    if (row == nullptr || shown.size() == kShown) continue;
    ShownChoices& choices = shown.emplace_back();
    choices.score = attempt->fitness > 0 ? std::log(attempt->fitness) : kFailedScore;
    for (const auto& [site, value] : row->choices)
      choices.taken.emplace_back(task.sites()[site], task.sites()[site].allowed[value]);
  }
  return shown;
}

Answer ChoiceActor::walk(const ChoiceNet& net, const Prompt& prompt, Rng* rng) const {
  const TableTask& task = table_.tasks[prompt.task];
  Answer answer;
  if (task.nodes().empty()) return answer;
  const std::vector<ShownChoices> examples = shown(prompt);
  Taken taken;
  for (const TableTask::Node* node = &task.nodes().front();;) {
    const ChoiceSite& site = task.sites()[node->site];
    const auto log_p =
        net.log_probabilities({site, taken, examples}, open_values(*node, site.allowed.size()));
    auto chosen = static_cast<std::size_t>(std::ranges::max_element(log_p) - log_p.begin());
    if (rng != nullptr) {
      double rest = rng->uniform();
      for (const auto& [value, next] : node->next) {
        chosen = value;
        rest -= std::exp(log_p[value]);
        if (rest < 0) break;
      }
    }
    answer.tokens.push_back(static_cast<std::int32_t>(chosen));
    answer.log_probabilities.push_back(log_p[chosen]);
    const std::size_t next = node->next.at(chosen);
    if (node->last) {
      answer.text = task.rows()[next].text();
      return answer;
    }
    taken.emplace_back(site, site.allowed[chosen]);
    node = &task.nodes()[next];
  }
}

/// Symmetric rounding with one scale for all, as a quantised engine would have it.
ChoiceNet ChoiceActor::rollout_net() const {
  ChoiceNet net = net_;
  if (options_.rollout_bits == 0) return net;
  double most = 0;
  for (const double weight : net.weights()) most = std::max(most, std::abs(weight));
  const double scale = most / (std::exp2(options_.rollout_bits - 1) - 1);
  if (!(scale > 0)) return net;
  for (double& weight : net.weights()) weight = std::round(weight / scale) * scale;
  return net;
}

Result<std::vector<Answer>> ChoiceActor::sample(std::span<const Prompt> prompts, const Seed& seed) {
  const ChoiceNet net = rollout_net();
  Rng rng(seed);
  std::vector<Answer> answers;
  for (const Prompt& prompt : prompts) answers.push_back(walk(net, prompt, &rng));
  return answers;
}

Answer ChoiceActor::greedy(const Prompt& prompt) const { return walk(net_, prompt, nullptr); }

template <class Visit>
void ChoiceActor::replay(const PromptedAnswer& answer, Visit visit) const {
  const TableTask& task = table_.tasks[answer.prompt->task];
  if (task.nodes().empty()) return;
  const std::vector<ShownChoices> examples = shown(*answer.prompt);
  const TableTask::Node* node = &task.nodes().front();
  Taken taken;
  for (std::size_t token = 0; token < answer.answer->tokens.size(); ++token) {
    const ChoiceSite& site = task.sites()[node->site];
    const ChoiceView view{site, taken, examples};
    const auto chosen = static_cast<std::size_t>(answer.answer->tokens[token]);
    visit(token, view, net_.log_probabilities(view, open_values(*node, site.allowed.size())), chosen);
    taken.emplace_back(site, site.allowed[chosen]);
    if (!node->last) node = &task.nodes()[node->next.at(chosen)];
  }
}

Result<std::vector<std::vector<double>>> ChoiceActor::log_probabilities(
    std::span<const PromptedAnswer> answers) {
  std::vector<std::vector<double>> all;
  for (const PromptedAnswer& answer : answers) {
    std::vector<double>& own = all.emplace_back();
    replay(answer, [&](std::size_t, const ChoiceView&, const std::vector<double>& log_p, std::size_t chosen) {
      own.push_back(log_p[chosen]);
    });
  }
  return all;
}

Result<double> ChoiceActor::add_gradient(std::span<const PromptedAnswer> answers,
                                         std::span<const std::vector<double>> by_log_probability,
                                         double entropy) {
  double decisions = 0, entropies = 0;
  for (const PromptedAnswer& answer : answers) decisions += static_cast<double>(answer.answer->tokens.size());
  for (std::size_t i = 0; i < answers.size(); ++i)
    replay(answers[i], [&](std::size_t token, const ChoiceView& view, const std::vector<double>& log_p,
                           std::size_t chosen) {
      double own_entropy = 0;
      for (const double one : log_p)
        if (std::isfinite(one)) own_entropy -= std::exp(one) * one;
      entropies += own_entropy;
      const double weight = by_log_probability[i][token], bonus = entropy / decisions;
      if (weight == 0 && bonus == 0) return;
      std::vector<double> by_score(log_p.size(), 0);
      for (std::size_t v = 0; v < log_p.size(); ++v) {
        if (!std::isfinite(log_p[v])) continue;
        const double p = std::exp(log_p[v]);
        by_score[v] = -weight * p + bonus * p * (log_p[v] + own_entropy);
      }
      by_score[chosen] += weight;
      net_.add_gradient(view, by_score, gradient_);
    });
  return decisions > 0 ? entropies / decisions : 0;
}

double ChoiceActor::update(double learning_rate, double clip_norm) {
  double squares = 0;
  for (const double g : gradient_) squares += g * g;
  const double norm = std::sqrt(squares);
  const double scale = clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1;
  ++updates_;
  const double correction1 = 1 - std::pow(kBeta1, updates_), correction2 = 1 - std::pow(kBeta2, updates_);
  std::vector<double>& weights = net_.weights();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double g = scale * gradient_[i];
    first_moment_[i] = kBeta1 * first_moment_[i] + (1 - kBeta1) * g;
    second_moment_[i] = kBeta2 * second_moment_[i] + (1 - kBeta2) * g * g;
    weights[i] -= learning_rate * (first_moment_[i] / correction1) /
                  (std::sqrt(second_moment_[i] / correction2) + kEpsilon);
    gradient_[i] = 0;
  }
  return norm;
}

std::string ChoiceActor::save() const {
  return nlohmann::json{{"net", net_.to_text()},
                        {"updates", updates_},
                        {"first_moment", first_moment_},
                        {"second_moment", second_moment_}}
      .dump();
}

Status ChoiceActor::restore(const std::string& state) {
  LATHE_TRY(const nlohmann::json json, parse_json(state, "the actor's state"));
  try {
    LATHE_TRY(ChoiceNet net, ChoiceNet::from_text(json.at("net").get<std::string>()));
    auto first = json.at("first_moment").get<std::vector<double>>();
    auto second = json.at("second_moment").get<std::vector<double>>();
    if (net.weights().size() != net_.weights().size() || first.size() != first_moment_.size() ||
        second.size() != second_moment_.size())
      return invalid("the actor's state is of another network", "resume with the recipe it was made by");
    updates_ = json.at("updates").get<std::int64_t>();
    net_ = std::move(net), first_moment_ = std::move(first), second_moment_ = std::move(second);
  } catch (const nlohmann::json::exception& error) {
    return invalid(error.what());
  }
  std::ranges::fill(gradient_, 0);
  return Ok{};
}

}  // namespace lathe::rl
