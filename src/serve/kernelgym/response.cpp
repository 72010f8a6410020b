#include "serve/kernelgym/response.h"

#include <fmt/format.h>

#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "serve/service.h"

namespace lathe::serve::kernelgym {
namespace {

using nlohmann::json;

constexpr double kNsPerUs = 1e3, kNsPerMs = 1e6;
constexpr const char* kReference = "naive";  // the baseline that is the reference itself

bool compiled(const Verdict& verdict) { return verdict.outcome != Outcome::kBuildFailed; }

json error_code_of(const Verdict& verdict) {
  const std::string& reason = verdict.reason;
  switch (verdict.outcome) {
    case Outcome::kPass:
      return nullptr;
    case Outcome::kBuildFailed:
      if (verdict.detail.find("SyntaxError") != std::string::npos) return "SYNTAX_ERROR";
      if (reason.starts_with("import_")) return "IMPORT_ERROR";
      if (reason == "entry_error" || reason == "state_mismatch") return "INSTANTIATION_ERROR";
      return "COMPILATION_ERROR";
    case Outcome::kCrash:
      return "RUNTIME_ERROR";
    case Outcome::kTimeout:
      return "TIMEOUT_ERROR";
    case Outcome::kInfra:
      return "SYSTEM_ERROR";
    default:
      return "CORRECTNESS_ERROR";
  }
}

std::string first_line(const std::string& text) {
  return text.substr(0, std::min(text.find('\n'), std::size_t{200}));
}

json error_message_of(const Answer& answer) {
  const Verdict& verdict = *answer.verdict;
  if (verdict.passed()) return nullptr;
  if (answer.verbose && !answer.feedback.empty()) return answer.feedback;
  const std::size_t last = verdict.detail.find_last_not_of('\n');
  const std::size_t line = last == std::string::npos ? 0 : verdict.detail.rfind('\n', last) + 1;
  return fmt::format("{} {}: {}", lathe::name(verdict.outcome), verdict.reason,
                     first_line(verdict.detail.substr(line)));
}

/// Inputs whose outputs were compared. Each was computed more than once, and a block that ended
/// early has one case for inputs of "several" distributions, of which nothing was compared.
int correct_trials_of(const Evidence& evidence) {
  std::set<std::pair<std::string, std::string>> inputs;
  for (const CaseEvidence& one : evidence.cases)
    if (one.distribution != "several") inputs.emplace(one.shape, one.distribution);
  return static_cast<int>(inputs.size());
}

/// Whose kernels compute, a call of each shape together: under the names that KernelGYM's trainers
/// read.
void add_profile(const Verdict& verdict, json& metadata, std::vector<std::string>& notes) {
  if (!verdict.passed() || verdict.depth != Depth::kProfile) return;
  std::map<std::string, double> sums;
  for (const ShapeProfile& profile : verdict.profiles) {
    for (const auto& [name, value] : profile.counters) sums[name] += value;
    for (const std::string& why : profile.notes) notes.push_back("enable_profiling: " + why);
  }
  if (!sums.contains("kernels")) {
    notes.emplace_back("enable_profiling: whose kernels compute could not be measured");
    return;
  }
  metadata["num_total_kernels"] = sums["kernels"];
  metadata["num_custom_kernels"] = sums["own_kernels"];
  metadata["total_kernel_run_time_in_profiling_us"] = sums["kernel_ns"] / kNsPerUs;
  metadata["custom_kernel_cuda_time_in_profiling_us"] = sums["own_kernel_ns"] / kNsPerUs;
  if (sums.contains("unknown_kernel_ns"))
    metadata["unknown_kernel_time_in_profiling_us"] = sums["unknown_kernel_ns"] / kNsPerUs;
  if (const auto share = verdict.profile.find("launched_share"); share != verdict.profile.end())
    metadata["launched_share"] = share->second;
}

json metadata_of(const Answer& answer) {
  const Verdict& verdict = *answer.verdict;
  const int trials = correct_trials_of(verdict.evidence);
  int pairs = 0;
  for (const Timing& timing : verdict.timings) pairs += timing.pairs;
  json metadata = {{"device", verdict.provenance.device_name},
                   {"backend", verdict.provenance.device_kind == "host:cuda" ? "cuda" : "cpu"},
                   {"tier", verdict.provenance.tier},
                   {"unchecked", verdict.unchecked},
                   {"outcome", lathe::name(verdict.outcome)},
                   {"reason", verdict.reason},
                   {"evaluation", answer.id},
                   {"gym_version", verdict.provenance.gym_version},
                   {"num_correct_trials", trials},
                   {"num_perf_trials", pairs}};
  if (const auto speedup = verdict.speedup(kReference)) {
    metadata["speedup_low"] = speedup->low;
    metadata["speedup_high"] = speedup->high;
  }
  std::vector<std::string> notes = answer.notes;
  add_profile(verdict, metadata, notes);
  if (verdict.passed() && trials < answer.correct_trials)
    notes.push_back(
        fmt::format("num_correct_trials: {} inputs were drawn, one of each distribution", trials));
  metadata["notes"] = notes;
  return metadata;
}

/// Everything that may be said of a kernel, unsaid.
json blank(const Answer& answer) {
  json document = {{"task_id", answer.task_id}, {"status", status_of(answer)}};
  for (const char* const field :
       {"compiled", "correctness", "decoy_kernel", "reference_runtime", "kernel_runtime", "speedup",
        "error_message", "error_code", "submitted_at", "completed_at", "processing_time"})
    document[field] = nullptr;
  document["metadata"] = {{"evaluation", answer.id}, {"notes", answer.notes}};
  if (answer.submitted_unix_ms > 0) document["submitted_at"] = iso_time(answer.submitted_unix_ms);
  if (answer.finished_unix_ms > 0) {
    document["completed_at"] = iso_time(answer.finished_unix_ms);
    document["processing_time"] =
        static_cast<double>(answer.finished_unix_ms - answer.submitted_unix_ms) / 1000;
  }
  return document;
}

void judge(const Answer& answer, json& document) {
  const Verdict& verdict = *answer.verdict;
  document["metadata"] = metadata_of(answer);
  document["error_message"] = error_message_of(answer);
  document["error_code"] = error_code_of(verdict);
  document["compiled"] = compiled(verdict);
  document["decoy_kernel"] = verdict.outcome == Outcome::kTampered;
  if (verdict.outcome == Outcome::kSuspect) return;  // neither right nor wrong
  document["correctness"] = verdict.passed();
  if (!verdict.passed()) {
    document["speedup"] = 0.0;
    return;
  }
  const auto speedup = verdict.speedup(kReference);
  if (!speedup || verdict.median_ns() <= 0) return;
  document["kernel_runtime"] = verdict.median_ns() / kNsPerMs;
  document["reference_runtime"] = verdict.median_ns() / kNsPerMs * speedup->mid;
  document["speedup"] = speedup->mid;
}

}  // namespace

bool Answer::is_retry() const { return state == "done" && (!verdict || verdict->outcome == Outcome::kInfra); }

std::string status_of(const Answer& answer) {
  if (answer.state == "queued") return "pending";
  if (answer.state == "running") return "processing";
  if (answer.state == "expired") return "timeout";
  return answer.state == "done" && !answer.is_retry() ? "completed" : "failed";
}

json evaluation_json(const Answer& answer) {
  json document = blank(answer);
  if (answer.is_retry()) {
    document["error_code"] = "SYSTEM_ERROR";
    document["error_message"] = "the machine failed, which says nothing of the kernel: send it again";
  } else if (answer.state == "done") {
    judge(answer, document);
  } else if (answer.state == "expired") {
    document["error_code"] = "TIMEOUT_ERROR";
    document["error_message"] = "there was no verdict within the timeout, which includes waiting";
  } else if (answer.state == "cancelled") {
    document["error_code"] = "SYSTEM_ERROR";
    document["error_message"] = "cancelled";
  } else if (answer.state == "failed") {
    const bool of_the_gym = answer.error == "the task could not be prepared" ||
                            answer.error.starts_with("the gym has been updated");
    document["error_code"] = of_the_gym ? "SYSTEM_ERROR" : "VALIDATION_ERROR";
    document["error_message"] = answer.error;
  }
  return document;
}

json status_json(const Answer& answer) {
  const json whole = evaluation_json(answer);
  return {{"task_id", answer.task_id},
          {"status", whole["status"]},
          {"progress", nullptr},
          {"estimated_completion", nullptr},
          {"queue_position", nullptr},
          {"assigned_device", nullptr},
          {"submitted_at", whole["submitted_at"]},
          {"completed_at", whole["completed_at"]},
          {"error_message", whole["error_message"]}};
}

json error_json(const std::string& code, const std::string& message, const std::string& task_id) {
  return {{"error", code == "VALIDATION_ERROR" ? "ValidationError" : "ServiceError"},
          {"message", message},
          {"detail", message},
          {"error_code", code},
          {"task_id", task_id.empty() ? json(nullptr) : json(task_id)},
          {"timestamp", iso_time(unix_milliseconds())}};
}

std::string iso_time(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc{};
  if (gmtime_r(&seconds, &utc) == nullptr) return {};
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", text, unix_ms % 1000);
}

}  // namespace lathe::serve::kernelgym
