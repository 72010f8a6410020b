#include "train/run_state.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/guard.h"
#include "record/json.h"
#include "record/json_integer.h"

namespace lathe::train {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr std::size_t kMostStateBytes = 1 << 20;

std::string state_path(const std::string& folder) { return folder + "/state.json"; }

Json identity_json(const RunIdentity& identity) {
  return {{"recipe", identity.recipe.hex()},
          {"data", identity.data.hex()},
          {"parameters", identity.parameters.hex()},
          {"precision", identity.precision},
          {"threads", identity.threads},
          {"processes", identity.processes}};
}

void remove_other_numbers(const std::string& folder, const std::string& kept) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator it(folder, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with("numbers-") && name != kept) {
      std::error_code not_removed;
      std::filesystem::remove(it->path(), not_removed);
    }
  }
}

}  // namespace

Status save_run(const std::string& folder, const RunState& state, const Learner& learner) {
  LATHE_CHECK_OK(make_directories(folder));
  const std::string numbers = fmt::format("numbers-{:08}.safetensors", state.steps_done);
  LATHE_CHECK_OK(learner.save_state(folder + "/" + numbers));
  const Json json = {{"version", kVersion},
                     {"steps_done", state.steps_done},
                     {"metrics_bytes", state.metrics_bytes},
                     {"numbers", numbers},
                     {"identity", identity_json(state.identity)}};
  LATHE_CHECK_OK(write_file_atomically(state_path(folder), json_text(json, 2) + "\n"));
  remove_other_numbers(folder, numbers);
  return Ok{};
}

Result<std::optional<RunState>> resume_run(const std::string& folder, const RunIdentity& expected,
                                           Learner& learner) {
  const std::string path = state_path(folder);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::optional<RunState>();
  return without_exceptions([&]() -> Result<std::optional<RunState>> {
    LATHE_TRY(const std::string text, read_file(path, kMostStateBytes));
    LATHE_TRY(const Json json, parse_json(text, path));
    if (json.at("version") != kVersion)
      return invalid("the run was saved by another version of Lathe", "start it anew", {path});
    Json saved = json.at("identity");
    if (!saved.contains("processes")) saved["processes"] = 1;  // as earlier versions wrote it
    const Json wanted = identity_json(expected);
    for (const auto& [key, value] : wanted.items())
      if (saved.at(key) != value)
        return invalid(fmt::format("the saved run has other {}: {}, not {}", key, json_text(saved.at(key)),
                                   json_text(value)),
                       "resume with what it was started with, or start anew in another folder", {path});
    const auto numbers = json.at("numbers").get<std::string>();
    if (numbers.find('/') != std::string::npos) return invalid("'numbers' is no file's name", {}, {path});
    LATHE_CHECK_OK(learner.load_state(folder + "/" + numbers));
    return std::optional(RunState{json_integer<std::int64_t>(json.at("steps_done")),
                                  json_integer<std::int64_t>(json.at("metrics_bytes")), expected});
  });
}

}  // namespace lathe::train
