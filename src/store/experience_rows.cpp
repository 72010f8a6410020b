#include "store/experience_rows.h"

#include <bit>
#include <nlohmann/json.hpp>

#include "record/json.h"

namespace lathe {

const char* const kExperienceColumns =
    "e.id, e.run, e.sequence, e.task_name, e.task, e.candidate, e.candidate_text, e.lineage, "
    "e.generation, e.verdict, e.cost_seconds, e.created_unix, e.checksum";

namespace {

/// The JSON columns of a row.
struct Columns {
  std::string lineage;
  std::string generation;  ///< empty for none
  std::string verdict;
};

std::string checksum(const Experience& e, const Columns& columns) {
  Hasher hasher;
  hasher.add(e.run).add(e.sequence).add(e.task_name).add(e.task.hex()).add(e.candidate.hex());
  hasher.add(e.candidate_text).add("").add(columns.lineage).add(columns.verdict);  // "": version 1's prompt
  hasher.add(std::bit_cast<std::int64_t>(e.cost_seconds)).add(e.created_unix);
  if (!columns.generation.empty()) hasher.add(columns.generation);  // version 1 has none
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

}  // namespace

Result<std::int64_t> insert_experience(Database& database, const Experience& e) {
  const nlohmann::json verdict = to_json(e.verdict);
  if (const auto readable = verdict_from_json(verdict); !readable.ok()) return readable.error();
  const Columns columns{json_text(to_json(e.lineage)), e.generation ? json_text(to_json(*e.generation)) : "",
                        json_text(verdict)};
  LATHE_TRY(Statement insert,
            database.prepare("INSERT INTO experiences (run, sequence, task_name, task, candidate, "
                             "candidate_text, outcome, reason, lineage, generation, verdict, cost_seconds, "
                             "created_unix, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insert.bind(e.run).bind(e.sequence).bind(e.task_name).bind(e.task.hex()).bind(e.candidate.hex());
  insert.bind(e.candidate_text).bind(name(e.verdict.outcome)).bind(e.verdict.reason);
  insert.bind(columns.lineage).bind(columns.generation).bind(columns.verdict);
  insert.bind(e.cost_seconds).bind(e.created_unix).bind(checksum(e, columns));
  if (!insert.run().ok()) return insertion_error(database, e);
  return database.last_row();
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
  const Columns columns{row.text(7), row.text(8), row.text(9)};
  e.cost_seconds = row.real(10);
  e.created_unix = row.integer(11);
  if (!task.ok() || !candidate.ok() || checksum(e, columns) != row.text(12)) {
    const std::string id = std::to_string(e.id);
    return Error{
        ErrorCode::kCorrupt,
        "experience " + std::to_string(e.sequence) + " of run '" + e.run + "' in '" + path + "' is damaged",
        "give it up with: sqlite3 '" + path + "' 'DELETE FROM experiences WHERE id = " + id + "'"};
  }
  LATHE_TRY(const auto lineage, parse_json(columns.lineage, "lineage"));
  LATHE_TRY(e.lineage, lineage_from_json(lineage));
  if (!columns.generation.empty()) {
    LATHE_TRY(const auto generation, parse_json(columns.generation, "generation"));
    LATHE_TRY(e.generation, generation_from_json(generation));
  }
  LATHE_TRY(const auto verdict, parse_json(columns.verdict, "verdict"));
  LATHE_TRY(e.verdict, verdict_from_json(verdict));
  return e;
}

}  // namespace lathe
