#include "store/experience_rows.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "record/json.h"

namespace lathe {

const char* const kExperienceColumns =
    "e.id, e.run, e.sequence, e.task_name, e.task, e.candidate, e.candidate_text, e.prompt, e.lineage, "
    "e.verdict, e.cost_seconds, e.created_unix, e.checksum";

namespace {

std::string checksum(const Experience& e, std::string_view lineage, std::string_view verdict) {
  Hasher hasher;
  hasher.add(e.run).add(e.sequence).add(e.task_name).add(e.task.hex()).add(e.candidate.hex());
  hasher.add(e.candidate_text).add(e.prompt).add(lineage).add(verdict);
  hasher.add(std::bit_cast<std::int64_t>(e.cost_seconds)).add(e.created_unix);
  return hasher.finish().hex();
}

Error insertion_error(const Database& database, const Experience& e) {
  const std::string which = "experience " + std::to_string(e.sequence) + " of run '" + e.run + "'";
  switch (database.extended_code()) {
    case SQLITE_CONSTRAINT_UNIQUE:
      return invalid(which + " is stored already", "each sequence number of a run is appended once");
    case SQLITE_CONSTRAINT_FOREIGNKEY:
      return {ErrorCode::kNotFound, which + ": there is no such run", "create the run first"};
    default:
      return database.error("cannot append to");
  }
}

Status insert_speedups(Database& database, std::int64_t id, const Verdict& verdict) {
  std::set<std::string> baselines;
  for (const Speedup& speedup : verdict.speedups) baselines.insert(speedup.baseline);
  for (const std::string& baseline : baselines) {
    const Interval ratio = *verdict.speedup(baseline);
    LATHE_TRY(Statement insert, database.prepare("INSERT INTO speedups VALUES (?, ?, ?, ?)"));
    LATHE_CHECK_OK(insert.bind(id).bind(baseline).bind(ratio.low).bind(ratio.mid).run());
  }
  return Ok{};
}

}  // namespace

Result<std::int64_t> insert_experience(Database& database, const Experience& e) {
  const nlohmann::json verdict = to_json(e.verdict);
  LATHE_TRY(const Verdict readable, verdict_from_json(verdict));
  const std::string verdict_text = json_text(verdict);
  const std::string lineage_text = json_text(to_json(e.lineage));
  LATHE_TRY(Statement insert,
            database.prepare("INSERT INTO experiences (run, sequence, task_name, task, candidate, "
                             "candidate_text, prompt, outcome, reason, lineage, verdict, cost_seconds, "
                             "created_unix, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insert.bind(e.run).bind(e.sequence).bind(e.task_name).bind(e.task.hex()).bind(e.candidate.hex());
  insert.bind(e.candidate_text).bind(e.prompt).bind(name(e.verdict.outcome)).bind(e.verdict.reason);
  insert.bind(lineage_text).bind(verdict_text).bind(e.cost_seconds).bind(e.created_unix);
  insert.bind(checksum(e, lineage_text, verdict_text));
  if (!insert.run().ok()) return insertion_error(database, e);
  const std::int64_t id = database.last_row();
  LATHE_CHECK_OK(insert_speedups(database, id, readable));
  return id;
}

Result<Experience> read_experience(const Statement& row, const std::string& path) {
  Experience e;
  e.id = row.integer(0);
  e.run = row.text(1);
  e.sequence = row.integer(2);
  e.task_name = row.text(3);
  const auto task = Digest::from_hex(row.text(4));
  const auto candidate = Digest::from_hex(row.text(5));
  if (task.ok()) e.task = *task;
  if (candidate.ok()) e.candidate = *candidate;
  e.candidate_text = row.text(6);
  e.prompt = row.text(7);
  const std::string lineage_text = row.text(8);
  const std::string verdict_text = row.text(9);
  e.cost_seconds = row.real(10);
  e.created_unix = row.integer(11);
  if (!task.ok() || !candidate.ok() || checksum(e, lineage_text, verdict_text) != row.text(12)) {
    const std::string id = std::to_string(e.id);
    return Error{
        ErrorCode::kCorrupt,
        "experience " + std::to_string(e.sequence) + " of run '" + e.run + "' in '" + path + "' is damaged",
        "give it up with: sqlite3 '" + path + "' 'DELETE FROM experiences WHERE id = " + id + "'"};
  }
  LATHE_TRY(const auto lineage, parse_json(lineage_text, "lineage"));
  LATHE_TRY(e.lineage, lineage_from_json(lineage));
  LATHE_TRY(const auto verdict, parse_json(verdict_text, "verdict"));
  LATHE_TRY(e.verdict, verdict_from_json(verdict));
  return e;
}

}  // namespace lathe
