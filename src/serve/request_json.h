#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "record/verdict.h"
#include "reward/reward.h"
#include "serve/evaluation.h"

namespace lathe::serve {

inline constexpr std::size_t kMaxNesting = 32;
inline constexpr std::size_t kMaxBatch = 1024;
inline constexpr std::size_t kMaxTaskBytes = 256 << 10;
inline constexpr std::size_t kMaxTagBytes = 256;
inline constexpr int kMaxPriority = 100;

/// How a request names its task: by one of these.
struct TaskReference {
  std::string name;
  std::optional<Digest> digest;
  std::string toml;
  std::map<std::string, std::string> files = {};  ///< beside it: what `source` names, by name
};

/// One item as a client wrote it.
struct EvaluationItem {
  TaskReference task;
  std::string candidate;
  Depth depth = Depth::kScreen;
  int priority = 0;
  double deadline_seconds = 0;
  std::string tag;
};

/// The JSON of an untrusted body. Errors: kInvalid, also where it is nested deeper than kMaxNesting
/// or an object has a key twice.
Result<nlohmann::json> parse_body(std::string_view body);

/// A body with a list whose items are parsed one by one: an item that is no JSON, such as a text
/// with a lone surrogate, does not spoil the others.
struct ListBody {
  nlohmann::json rest;  ///< without the list
  std::vector<Result<nlohmann::json>> items;
};
/// The list is the body's field `name`. Errors: kInvalid.
Result<ListBody> parse_list_body(std::string_view body, const std::string& name, std::size_t most);

/// Parse the bodies of POST requests, which are untrusted. Errors: kInvalid, which names the field;
/// fields that are not known are refused, for a client that sends them expects something.
Result<EvaluationItem> parse_evaluation(std::string_view body);
/// An item that is wrong does not spoil the others.
Result<std::vector<Result<EvaluationItem>>> parse_batch(std::string_view body);

/// What GET /v1/evaluations/{id} shows.
nlohmann::json to_json(const Report& report);

/// Which number a client wants of a verdict.
struct RewardQuestion {
  Reward reward;
  std::string peer;  ///< empty: of the rewards over every baseline the smallest
};
/// Parses "reward" and "peer" of a query; absent without "reward". Errors: kInvalid, also for a
/// peer that no device has.
Result<std::optional<RewardQuestion>> parse_reward(const std::map<std::string, std::string>& query);
/// Errors: kInvalid where verdicts of that depth say too little for the reward, whatever their
/// outcome: a trainer must not be paid for failures alone.
Status check_depth(const Reward& reward, Depth depth);

/// The whole verdict, what a kernel's author should know of it, and "reward" where one is asked
/// for. Of INFRA there is none but "retry". Errors: kInvalid where the verdict lacks what the
/// reward needs.
Result<nlohmann::json> evidence_json(const Report& report,
                                     const std::optional<RewardQuestion>& question = {});

/// "reward" of its verdict, of INFRA "retry"; empty where it has none yet. Errors: as
/// evidence_json().
Result<nlohmann::json> reward_json(const Report& report, const RewardQuestion& question);

/// By how much the report's kernel is faster than the base's: {"low", "mid", "high"}, the quotient
/// of their speedups over the naive build, with the outermost bounds. Null where either was not
/// timed or did not pass. Errors: kInvalid where they are evaluations of different tasks or
/// devices.
Result<nlohmann::json> over_base_json(const Report& report, const Report& base);

}  // namespace lathe::serve
