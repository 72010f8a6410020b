#include "serve/request_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/visible_text.h"
#include "candidate/candidate.h"
#include "prompt/feedback.h"
#include "record/json.h"
#include "record/json_reader.h"

namespace lathe::serve {
namespace {

using nlohmann::json;

/// A body in which null stands for each item of its one list, and the items' texts.
struct Skeleton {
  std::string text;
  std::vector<std::string_view> items;
};
/// Of brackets and quotes alone: whether the texts are JSON, whoever parses them finds out.
Skeleton skeleton_of(std::string_view body) {
  Skeleton skeleton;
  std::size_t depth = 0, begin = 0;  // of what is not in the skeleton yet
  bool quoted = false, in_list = false;
  const auto end_item = [&](std::size_t end) {
    const std::string_view item = body.substr(begin, end - begin);
    begin = end;
    if (item.find_first_not_of(" \t\r\n") == item.npos) return;
    skeleton.items.push_back(item);
    skeleton.text += "null";
  };
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    const bool at_item = in_list && depth == 2;
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth != 2 || c != '[') continue;
      in_list = true;
      skeleton.text += body.substr(begin, i + 1 - begin);
      begin = i + 1;
    } else if (at_item && (c == ',' || c == ']')) {
      end_item(i);
      skeleton.text += c;
      begin = i + 1;
      if (c == ',') continue;
      in_list = false;
      --depth;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  skeleton.text += body.substr(begin);
  return skeleton;
}

/// The items where the body as a whole is no JSON, but all of it besides them is.
std::optional<ListBody> parse_each(std::string_view body, const std::string& name) {
  const Skeleton skeleton = skeleton_of(body);
  auto rest = parse_unambiguous_json(skeleton.text, "the body");
  if (!rest.ok() || !rest->is_object() || !rest->contains(name)) return std::nullopt;
  if ((*rest)[name] != json(json::array_t(skeleton.items.size()))) return std::nullopt;
  ListBody parsed{*std::move(rest), {}};
  for (const std::string_view item : skeleton.items)
    parsed.items.push_back(parse_unambiguous_json(item, "the item"));
  return parsed;
}

Status refuse_unknown(const json& object, const std::string& path, const std::set<std::string>& known) {
  for (const auto& item : object.items())
    if (!known.contains(item.key()))
      return invalid(fmt::format("{} has a field '{}' that is not known", path, visible_line(item.key())),
                     fmt::format("the fields are {}", fmt::join(known, ", ")));
  return Ok{};
}

Result<TaskReference> task_from(const json& node) {
  TaskReference task;
  if (node.is_string()) {
    const auto text = node.get<std::string>();
    if (const auto digest = Digest::from_hex(text); digest.ok()) {
      task.digest = *digest;
    } else {
      task.name = text;
    }
    return task;
  }
  if (!node.is_object() || node.size() != (node.contains("toml") && node.contains("files") ? 2 : 1))
    return invalid("task is neither a name nor one of {\"name\": ...}, {\"digest\": ...}, {\"toml\": ...}",
                   "a process task is {\"toml\": ..., \"files\": {\"NAME.py\": ...}}");
  LATHE_CHECK_OK(refuse_unknown(node, "task", {"name", "digest", "toml", "files"}));
  JsonReader reader(node, "task");
  if (reader.has("name")) reader.read("name", task.name);
  if (reader.has("toml")) reader.read("toml", task.toml);
  if (reader.has("digest")) reader.read("digest", task.digest.emplace());
  if (!reader.status().ok()) return reader.status().error();
  if (node.contains("files")) {
    const json& files = node["files"];
    if (!files.is_object() || files.size() > 1)
      return invalid("task.files is no object with one file, which [reference] names as its source");
    for (const auto& file : files.items()) {
      if (!file.value().is_string()) return invalid("task.files has a file that is no text");
      task.files.emplace(file.key(), file.value().get<std::string>());
      if (task.files.begin()->second.size() > kMaxTaskBytes)
        return invalid(fmt::format("a file is longer than {} bytes", kMaxTaskBytes));
    }
  }
  if (task.name.empty() && task.toml.empty() && !task.digest) return invalid("task is empty");
  if (task.toml.size() > kMaxTaskBytes)
    return invalid(fmt::format("the task's text is longer than {} bytes", kMaxTaskBytes));
  return task;
}

Result<EvaluationItem> item_from(const json& node) {
  if (!node.is_object()) return invalid("an evaluation is no object");
  LATHE_CHECK_OK(
      refuse_unknown(node, "the evaluation",
                     {"task", "candidate", "answer", "depth", "priority", "deadline_seconds", "tag"}));
  EvaluationItem item;
  if (!node.contains("task")) return invalid("the evaluation has no task");
  LATHE_TRY(item.task, task_from(node["task"]));
  JsonReader reader(node, "evaluation");
  if (node.contains("answer") && node.contains("candidate"))
    return invalid("the evaluation has both a candidate and an answer");
  if (node.contains("answer")) {
    std::string answer;
    reader.read("answer", answer);
    item.candidate = candidate_in(answer);
  } else {
    reader.read("candidate", item.candidate);
  }
  if (reader.has("depth")) reader.read_name("depth", item.depth, parse_depth);
  if (reader.has("priority")) reader.read("priority", item.priority);
  if (reader.has("deadline_seconds")) reader.read("deadline_seconds", item.deadline_seconds);
  if (reader.has("tag")) reader.read("tag", item.tag);
  if (!reader.status().ok()) return reader.status().error();
  if (item.candidate.size() > kMaxCandidateBytes)
    return invalid(fmt::format("the candidate is longer than {} bytes", kMaxCandidateBytes));
  if (item.tag.size() > kMaxTagBytes)
    return invalid(fmt::format("the tag is longer than {} bytes", kMaxTagBytes));
  if (item.priority < -kMaxPriority || item.priority > kMaxPriority)  // the least int has no std::abs
    return invalid(fmt::format("the priority is not within {} of 0", kMaxPriority));
  if (item.deadline_seconds < 0 || item.deadline_seconds > 30 * 86400)
    return invalid("deadline_seconds is not between 0 and thirty days");
  return item;
}

json interval_json(const Interval& interval) {
  return {{"low", interval.low}, {"mid", interval.mid}, {"high", interval.high}};
}

json summary_of(const Verdict& verdict) {
  json summary = {{"outcome", lathe::name(verdict.outcome)},
                  {"reason", verdict.reason},
                  {"detail", verdict.detail},
                  {"speedups", json::object()}};
  if (verdict.median_ns() > 0) summary["median_ns"] = verdict.median_ns();
  std::set<std::string> baselines;
  for (const Speedup& speedup : verdict.speedups) baselines.insert(speedup.baseline);
  for (const std::string& baseline : baselines)
    if (const auto speedup = verdict.speedup(baseline))
      summary["speedups"][baseline] = interval_json(*speedup);
  return summary;
}

std::optional<Verdict> verdict_of(const Report& report) {
  if (report.verdict.empty()) return std::nullopt;
  const auto document = parse_json(report.verdict, "verdict");
  if (!document.ok()) return std::nullopt;
  auto verdict = verdict_from_json(*document);
  if (!verdict.ok()) return std::nullopt;
  return *std::move(verdict);
}

Result<double> reward_of(const Verdict& verdict, const RewardQuestion& question) {
  std::set<std::string> baselines;
  for (const Speedup& speedup : verdict.speedups) baselines.insert(speedup.baseline);
  if (!question.peer.empty()) {
    if (!baselines.empty() && !baselines.contains(question.peer))
      return invalid(fmt::format("there is no speedup over '{}'", visible_line(question.peer)),
                     fmt::format("one of: {}", fmt::join(baselines, ", ")));
    return question.reward.function(verdict, question.peer);
  }
  if (baselines.empty()) return question.reward.function(verdict, "");
  std::optional<double> least;
  for (const std::string& baseline : baselines) {
    LATHE_TRY(const double number, question.reward.function(verdict, baseline));
    least = std::min(least.value_or(number), number);
  }
  return *least;
}

Result<json> reward_json(const Verdict& verdict, const RewardQuestion& question) {
  if (verdict.outcome == Outcome::kInfra) return json{{"retry", true}};
  LATHE_CHECK_OK(check_depth(question.reward, verdict.depth));
  const auto number = reward_of(verdict, question);
  if (!number.ok()) return invalid(number.error().message, number.error().hint);
  return json{{"reward", *number}};
}

}  // namespace

Result<json> parse_body(std::string_view body) {
  if (json_nesting(body) > kMaxNesting)
    return invalid(fmt::format("the body is nested deeper than {} levels", kMaxNesting));
  return parse_unambiguous_json(body, "the body");
}

Result<EvaluationItem> parse_evaluation(std::string_view body) {
  LATHE_TRY(const json document, parse_body(body));
  return item_from(document);
}

Result<ListBody> parse_list_body(std::string_view body, const std::string& name, std::size_t most) {
  ListBody parsed;
  if (auto whole = parse_body(body); whole.ok()) {
    if (!whole->is_object() || !whole->contains(name) || !(*whole)[name].is_array())
      return invalid(fmt::format("the body is no object with a list of {}", name));
    parsed.rest = *std::move(whole);
    for (json& item : parsed.rest[name]) parsed.items.emplace_back(std::move(item));
  } else {
    auto each = json_nesting(body) > kMaxNesting ? std::nullopt : parse_each(body, name);
    if (!each) return whole.error();
    parsed = *std::move(each);
  }
  parsed.rest.erase(name);
  if (parsed.items.empty() || parsed.items.size() > most)
    return invalid(fmt::format("a batch has 1 to {} {}", most, name));
  return parsed;
}

Result<std::vector<Result<EvaluationItem>>> parse_batch(std::string_view body) {
  LATHE_TRY(const ListBody parsed, parse_list_body(body, "items", kMaxBatch));
  LATHE_CHECK_OK(refuse_unknown(parsed.rest, "the body", {"items"}));
  std::vector<Result<EvaluationItem>> items;
  for (const Result<json>& node : parsed.items) items.push_back(node.ok() ? item_from(*node) : node.error());
  return items;
}

json to_json(const Report& report) {
  json document = {{"id", report.id.hex()},
                   {"state", name(report.state)},
                   {"tag", report.tag},
                   {"priority", report.priority},
                   {"task", report.key.task.hex()},
                   {"candidate", report.key.candidate.hex()},
                   {"depth", lathe::name(report.key.depth)},
                   {"device_kind", report.key.device_kind},
                   {"gym_version", report.key.gym_version},
                   {"submitted_unix_ms", report.submitted_unix_ms}};
  if (is_final(report.state)) {
    document["finished_unix_ms"] = report.finished_unix_ms;
    document["sequence"] = report.sequence;
  }
  if (const auto verdict = verdict_of(report)) document["verdict"] = summary_of(*verdict);
  if (!report.error.empty()) document["error"] = report.error;
  return document;
}

Result<std::optional<RewardQuestion>> parse_reward(const std::map<std::string, std::string>& query) {
  const auto reward = query.find("reward"), peer = query.find("peer");
  if (reward == query.end()) {
    if (peer != query.end()) return invalid("there is a peer and no reward");
    return std::optional<RewardQuestion>();
  }
  LATHE_TRY(const Reward found, find_reward(visible_line(reward->second)));
  RewardQuestion question{found, peer == query.end() ? "" : peer->second};
  const auto known = known_baselines();
  if (!question.peer.empty() && std::ranges::find(known, question.peer) == known.end())
    return invalid(fmt::format("unknown peer '{}'", visible_line(question.peer)),
                   fmt::format("one of: {}", fmt::join(known, ", ")));
  return std::optional(std::move(question));
}

Status check_depth(const Reward& reward, Depth depth) {
  if (depth >= reward.least_depth) return Ok{};
  return invalid(fmt::format("the reward '{}' needs depth {}, this is {}", reward.name,
                             lathe::name(reward.least_depth), lathe::name(depth)));
}

Result<json> evidence_json(const Report& report, const std::optional<RewardQuestion>& question) {
  json document = {{"id", report.id.hex()}, {"state", name(report.state)}};
  const auto verdict = verdict_of(report);
  if (!verdict) return document;
  document["verdict"] = lathe::to_json(*verdict);
  document["feedback"] = feedback_text(*verdict);
  if (!question) return document;
  LATHE_TRY(const json reward, reward_json(*verdict, *question));
  document.update(reward);
  return document;
}

Result<json> reward_json(const Report& report, const RewardQuestion& question) {
  const auto verdict = verdict_of(report);
  return verdict ? reward_json(*verdict, question) : json::object();
}

Result<json> over_base_json(const Report& report, const Report& base) {
  if (report.key.task != base.key.task || report.key.device_kind != base.key.device_kind)
    return invalid("the base is an evaluation of another task or device");
  const auto speedup_of = [](const Report& one) -> std::optional<Interval> {
    const auto verdict = verdict_of(one);
    return verdict && verdict->passed() ? verdict->covered_speedup("naive") : std::nullopt;
  };
  const auto own = speedup_of(report), other = speedup_of(base);
  if (!own || !other || !(other->low > 0)) return json(nullptr);
  return interval_json({own->low / other->high, own->mid / other->mid, own->high / other->low});
}

}  // namespace lathe::serve
