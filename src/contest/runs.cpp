#include "contest/runs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "record/json.h"
#include "record/json_reader.h"

namespace lathe {
namespace {

Result<ContestSettings> settings_of(const RunRecord& run) {
  const std::string where = "the settings of " + run.id;
  LATHE_TRY(const nlohmann::json config, parse_json(run.config, where));
  ContestSettings settings;
  JsonReader reader(config, where);
  reader.read("contest", settings.contest);
  reader.read("entrant", settings.entrant);
  reader.read("language", settings.language);
  reader.read("device", settings.device);
  reader.read("group", settings.group);
  reader.read("peer", settings.peer);
  reader.read("ordered", settings.ordered);
  reader.read("threads", settings.threads);
  if (reader.has("origin")) reader.read("origin", settings.origin);
  LATHE_CHECK_OK(reader.status());
  return settings;
}

}  // namespace

std::string to_text(const ContestSettings& settings) {
  return json_text({{"contest", settings.contest},
                    {"entrant", settings.entrant},
                    {"language", settings.language},
                    {"device", settings.device},
                    {"group", settings.group},
                    {"peer", settings.peer},
                    {"ordered", settings.ordered},
                    {"threads", settings.threads},
                    {"origin", settings.origin}});
}

Result<std::vector<ContestRun>> contest_runs(Store& store, const std::string& contest) {
  LATHE_TRY(std::vector<RunRecord> records, store.runs(1'000'000));
  std::ranges::sort(records, {}, &RunRecord::id);
  std::vector<ContestRun> runs;
  for (RunRecord& record : records) {
    if (!record.id.starts_with("contest-" + contest + "-")) continue;
    LATHE_TRY(ContestSettings settings, settings_of(record));
    runs.push_back({std::move(record), std::move(settings)});
  }
  return runs;
}

}  // namespace lathe
