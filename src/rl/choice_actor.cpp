#include "rl/choice_actor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/output.h"
#include "record/json.h"
#include "record/json_integer.h"

namespace lathe::rl {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;  // Adam's, as published

/// Names a prompt: two of one key are answered alike.
std::string key_of(const Prompt& prompt) {
  std::string key = std::to_string(prompt.task);
  for (const auto& attempt : prompt.shown)
    key += fmt::format("|{} {}", attempt->experience.candidate_text, attempt->fitness);
  return key;
}

double log_sum(const std::vector<double>& logs) {
  const double highest = *std::ranges::max_element(logs);
  double sum = 0;
  for (const double one : logs) sum += std::exp(one - highest);
  return highest + std::log(sum);
}

}  // namespace

ChoiceActor::ChoiceActor(const ScheduleTable& table, const Seed& seed, const ChoiceActorOptions& options)
    : table_(table),
      options_(options),
      net_(seed, options.hidden, options.joint_temperature),
      gradient_(net_.weights().size(), 0),
      first_moment_(gradient_),
      second_moment_(gradient_) {
  for (const TableTask& task : table.tasks) {
    std::vector<std::vector<std::pair<ChoiceSite, int>>> taken(task.nodes().size());
    auto& inputs = inputs_.emplace_back(task.nodes().size());
    for (std::size_t n = 0; n < task.nodes().size(); ++n) {
      const TableTask::Node& node = task.nodes()[n];
      const ChoiceSite& site = task.sites()[node.site];
      for (std::size_t v = 0; v < site.allowed.size(); ++v)
        inputs[n].push_back(ChoiceNet::input(site, taken[n], v));
      for (const auto& [value, next] : node.next) {
        if (node.last) continue;
        taken[next] = taken[n];
        taken[next].emplace_back(site, site.allowed[value]);
      }
    }
  }
}

std::vector<ShownChoices> ChoiceActor::shown(const Prompt& prompt) const {
  const TableTask& task = table_.tasks[prompt.task];
  std::vector<ShownChoices> shown;
  for (const auto& attempt : prompt.shown) {
    const TableRow* const row = task.find(attempt->experience.candidate_text);
    if (row == nullptr || shown.size() == ShownChoices::kMost) continue;
    ShownChoices& choices = shown.emplace_back();
    choices.score = ShownChoices::score_of(attempt->fitness);
    for (const auto& [site, value] : row->choices)
      choices.taken.emplace_back(task.sites()[site], task.sites()[site].allowed[value]);
  }
  return shown;
}

ChoiceActor::Scored ChoiceActor::score(const ChoiceNet& net, const Prompt& prompt) const {
  const TableTask& task = table_.tasks[prompt.task];
  const std::vector<TableTask::Node>& nodes = task.nodes();
  const std::vector<ShownChoices> examples = shown(prompt);
  Scored scored{.task = prompt.task};
  if (!examples.empty()) scored.shown_inputs = inputs_[prompt.task];
  scored.rows.assign(task.rows().size(), 0);
  scored.masses.assign(nodes.size(), 0);
  std::vector<double> prefix(nodes.size(), 0);
  for (std::size_t n = 0; n < nodes.size(); ++n) {  // a node stands before those below it
    const ChoiceSite& site = task.sites()[nodes[n].site];
    std::vector<double> scores;
    for (std::size_t v = 0; v < site.allowed.size(); ++v) {
      if (!examples.empty()) ChoiceNet::add_shown(scored.shown_inputs[n][v], site, v, examples);
      scores.push_back(net.score(inputs(scored)[n][v]));
    }
    scored.decided.push_back(net.terms(std::move(scores)));
    for (const auto& [value, next] : nodes[n].next)
      (nodes[n].last ? scored.rows : prefix)[next] = prefix[n] + scored.decided[n][value];
  }
  const double all = log_sum(scored.rows);
  for (double& row : scored.rows) row -= all;
  for (std::size_t n = nodes.size(); n-- > 0;) {
    std::vector<double> below;
    for (const auto& [value, next] : nodes[n].next)
      below.push_back((nodes[n].last ? scored.rows : scored.masses)[next]);
    scored.masses[n] = log_sum(below);
  }
  return scored;
}

const ChoiceActor::Scored& ChoiceActor::scored(const Prompt& prompt) {
  std::string key = key_of(prompt);
  const auto known = known_.find(key);
  return known != known_.end() ? known->second
                               : known_.emplace(std::move(key), score(net_, prompt)).first->second;
}

template <class Choose, class Step>
const TableRow& ChoiceActor::walk(const Scored& scored, Choose choose, Step step) const {
  const TableTask& task = table_.tasks[scored.task];
  if (task.nodes().empty()) return task.rows().front();
  for (std::size_t n = 0;;) {
    const TableTask::Node& node = task.nodes()[n];
    const std::vector<double>& below = node.last ? scored.rows : scored.masses;
    auto next = node.next.begin();
    if (node.next.size() > 1) {
      next = choose(node, below, scored.masses[n]);
      step(n, *next, below[next->second] - scored.masses[n]);
    }
    if (node.last) return task.rows()[next->second];
    n = next->second;
  }
}

template <class Choose>
Answer ChoiceActor::answer_of(const Scored& scored, Choose choose) const {
  Answer answer;
  answer.text = walk(scored, choose, [&](std::size_t, const auto& next, double log_probability) {
                  answer.tokens.push_back(static_cast<std::int32_t>(next.first));
                  answer.log_probabilities.push_back(log_probability);
                }).text();
  return answer;
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

Result<std::vector<Answer>> ChoiceActor::sample(std::span<const Prompt> prompts, const Seed& seed,
                                                const OnAnswer&) {
  const ChoiceNet rounded = rollout_net();
  std::map<std::string, Scored> by_rounded;
  Rng rng(seed);
  std::vector<Answer> answers;
  for (const Prompt& prompt : prompts) {
    const Scored* scores = nullptr;
    if (options_.rollout_bits == 0) {
      scores = &scored(prompt);
    } else {
      const auto [found, fresh] = by_rounded.try_emplace(key_of(prompt));
      if (fresh) found->second = score(rounded, prompt);
      scores = &found->second;
    }
    answers.push_back(answer_of(*scores, [&](const TableTask::Node& node, const auto& below, double mass) {
      double rest = rng.uniform();
      auto chosen = node.next.begin();
      for (auto next = node.next.begin(); next != node.next.end() && rest >= 0; ++next) {
        chosen = next;
        rest -= std::exp(below[next->second] - mass);
      }
      return chosen;
    }));
  }
  return answers;
}

Result<Answer> ChoiceActor::greedy(const Prompt& prompt) {
  const Scored& scores = scored(prompt);
  const TableTask& task = table_.tasks[prompt.task];
  const auto best = std::ranges::max_element(scores.rows) - scores.rows.begin();
  return Answer{
      .text = task.rows()[static_cast<std::size_t>(best)].text(), .tokens = {}, .log_probabilities = {}};
}

Result<std::vector<std::vector<double>>> ChoiceActor::log_probabilities(
    std::span<const PromptedAnswer> answers) {
  std::vector<std::vector<double>> all;
  for (const auto& [prompt, answer] : answers) all.push_back(log_probabilities(scored(*prompt), *answer));
  return all;
}

std::vector<double> ChoiceActor::log_probabilities(const Scored& scored, const Answer& answer) const {
  std::vector<double> logs;
  auto token = answer.tokens.begin();
  walk(
      scored,
      [&](const TableTask::Node& node, const auto&, double) {
        return node.next.find(static_cast<std::size_t>(*token++));
      },
      [&](std::size_t, const auto&, double log_probability) { logs.push_back(log_probability); });
  return logs;
}

Status ChoiceActor::keep_reference() {
  reference_ = net_;
  return Ok{};
}

Result<std::vector<std::vector<double>>> ChoiceActor::reference_log_probabilities(
    std::span<const PromptedAnswer> answers) {
  if (!reference_) return Error{ErrorCode::kInternal, "no weights were kept as a reference"};
  std::map<std::string, Scored> by_reference;
  std::vector<std::vector<double>> all;
  for (const auto& [prompt, answer] : answers) {
    const auto [found, fresh] = by_reference.try_emplace(key_of(*prompt));
    if (fresh) found->second = score(*reference_, *prompt);
    all.push_back(log_probabilities(found->second, *answer));
  }
  return all;
}

/// A token's log-probability is that of the rows below its value less that of the rows below its
/// node, and the logarithm of a mass of rows has by each of them the derivative p(row) / mass.
Result<double> ChoiceActor::add_gradient(std::span<const PromptedAnswer> answers,
                                         std::span<const std::vector<double>> by_log_probability,
                                         double entropy) {
  struct Coefficients {
    const Scored* scored = nullptr;
    std::vector<double> by_row, by_mass;  ///< of a node: of the logarithm of its mass
    double answers = 0;
  };
  std::map<std::string, Coefficients> prompts;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Coefficients& own = prompts[key_of(*answers[i].prompt)];
    if (own.scored == nullptr) {
      own.scored = &scored(*answers[i].prompt);
      own.by_row.assign(own.scored->rows.size(), 0);
      own.by_mass.assign(own.scored->masses.size(), 0);
    }
    own.answers += 1;
    std::size_t token = 0;
    const auto& nodes = table_.tasks[own.scored->task].nodes();
    walk(
        *own.scored,
        [&](const TableTask::Node& node, const auto&, double) {
          return node.next.find(static_cast<std::size_t>(answers[i].answer->tokens[token]));
        },
        [&](std::size_t n, const auto& next, double) {
          const double weight = by_log_probability[i][token++];
          (nodes[n].last ? own.by_row : own.by_mass)[next.second] += weight;
          own.by_mass[n] -= weight;
        });
  }
  double entropies = 0;
  const auto count = static_cast<double>(answers.size());
  for (auto& [key, own] : prompts) {
    const Scored& scores = *own.scored;
    const auto& nodes = table_.tasks[scores.task].nodes();
    for (std::size_t n = 0; n < nodes.size(); ++n)  // from a node to what is below it
      for (const auto& [value, next] : nodes[n].next) {
        const double log_p = (nodes[n].last ? scores.rows : scores.masses)[next];
        (nodes[n].last ? own.by_row : own.by_mass)[next] +=
            own.by_mass[n] * std::exp(log_p - scores.masses[n]);
      }
    double own_entropy = 0;
    for (const double log_p : scores.rows) own_entropy -= std::exp(log_p) * log_p;
    entropies += own.answers * own_entropy;
    for (std::size_t r = 0; r < scores.rows.size(); ++r)
      own.by_row[r] +=
          entropy * own.answers / count * std::exp(scores.rows[r]) * (scores.rows[r] + own_entropy);
    add_rows_gradient(scores, own.by_row);
  }
  return count > 0 ? entropies / count : 0;
}

/// `by_row`: derivatives of the loss by the sums of rows' terms.
void ChoiceActor::add_rows_gradient(const Scored& scored, const std::vector<double>& by_row) {
  const auto& nodes = table_.tasks[scored.task].nodes();
  std::vector<double> below(nodes.size(), 0);
  for (std::size_t n = nodes.size(); n-- > 0;) {
    const std::vector<double>& decided = scored.decided[n];
    std::vector<double> by_value(decided.size(), 0);
    for (const auto& [value, next] : nodes[n].next) {
      by_value[value] = (nodes[n].last ? by_row : below)[next];
      below[n] += by_value[value];
    }
    for (std::size_t v = 0; v < decided.size(); ++v) {
      const double joint = net_.joint_temperature();
      const double by_score = joint > 0 ? by_value[v] / joint : by_value[v] - std::exp(decided[v]) * below[n];
      if (by_score != 0) net_.add_gradient(inputs(scored)[n][v], by_score, gradient_);
    }
  }
}

std::vector<std::string> ChoiceActor::ranked(const Prompt& prompt) {
  const std::vector<double>& log_p = scored(prompt).rows;
  std::vector<std::size_t> order(log_p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t row) { return log_p[row]; });
  std::vector<std::string> texts;
  for (const std::size_t row : order) texts.push_back(table_.tasks[prompt.task].rows()[row].text());
  return texts;
}

double ChoiceActor::add_imitation_gradient(std::size_t task, double temperature, double weight) {
  const std::vector<TableRow>& rows = table_.tasks[task].rows();
  if (std::ranges::none_of(rows, [](const TableRow& row) { return row.speedup.low > 0; })) return 0;
  std::vector<double> wanted;
  for (const TableRow& row : rows) wanted.push_back(std::log(row.speedup.low) / temperature);
  const Scored& scores = scored({.task = task});
  wanted = log_softmax(std::move(wanted));
  double relative_entropy = 0;
  std::vector<double> by_row;
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    const double p = std::exp(wanted[r]);
    if (p > 0) relative_entropy += p * (wanted[r] - scores.rows[r]);
    by_row.push_back(weight * (std::exp(scores.rows[r]) - p));
  }
  add_rows_gradient(scores, by_row);
  return relative_entropy;
}

Result<double> ChoiceActor::update(double learning_rate, double clip_norm) {
  double squares = 0;
  for (const double g : gradient_) squares += g * g;
  const double norm = std::sqrt(squares);
  const double scale = clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1;
  ++updates_;
  known_.clear();
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

Result<std::string> ChoiceActor::save(const std::string&) {
  nlohmann::json state{{"net", net_.to_text()},
                       {"updates", updates_},
                       {"first_moment", first_moment_},
                       {"second_moment", second_moment_}};
  if (reference_) state["reference"] = reference_->to_text();
  return state.dump();
}

Status ChoiceActor::restore(const std::string& state, const std::string&) {
  LATHE_TRY(const nlohmann::json json, parse_json(state, "the actor's state"));
  try {
    LATHE_TRY(ChoiceNet net, ChoiceNet::from_text(json.at("net").get<std::string>()));
    std::optional<ChoiceNet> reference;
    if (reference_) {
      LATHE_TRY(reference, ChoiceNet::from_text(json.at("reference").get<std::string>()));
    }
    auto first = json.at("first_moment").get<std::vector<double>>();
    auto second = json.at("second_moment").get<std::vector<double>>();
    if (net.joint_temperature() != net_.joint_temperature() ||
        net.weights().size() != net_.weights().size() || first.size() != first_moment_.size() ||
        second.size() != second_moment_.size() ||
        (reference && reference->weights().size() != net_.weights().size()))
      return invalid("the actor's state is of another network", "resume with the recipe it was made by");
    updates_ = json_integer<std::int64_t>(json.at("updates"));
    net_ = std::move(net), reference_ = std::move(reference), first_moment_ = std::move(first),
    second_moment_ = std::move(second);
  } catch (const nlohmann::json::exception& error) {
    return invalid(error.what());
  }
  known_.clear();
  std::ranges::fill(gradient_, 0);
  return Ok{};
}

Status ChoiceActor::write_result(const std::string& folder) const {
  return replace_file(folder + "/weights.json", weights());
}

}  // namespace lathe::rl
