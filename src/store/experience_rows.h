#pragma once

#include "record/experience.h"
#include "store/sqlite.h"

namespace lathe {

/// Inserts the row; the caller holds a transaction. Errors: kInvalid for a (run, sequence) that is
/// there already and for a verdict that could not be read back (a number that is not finite),
/// kNotFound for an unknown run.
Result<std::int64_t> insert_experience(Database& database, const Experience& experience);

/// Column list that read_experience expects.
extern const char* const kExperienceColumns;
Result<Experience> read_experience(const Statement& row, const std::string& path);

/// The experiences that `condition` selects: "SELECT ... FROM experiences e <condition>", its
/// parameters bound by `bind(Statement&)`. Errors: kCorrupt names a row whose checksum fails.
template <class Bind>
Result<std::vector<Experience>> select_experiences(Database& database, const std::string& condition,
                                                   Bind bind) {
  LATHE_TRY(Statement select, database.prepare(std::string("SELECT ") + kExperienceColumns +
                                               " FROM experiences e " + condition));
  bind(select);
  std::vector<Experience> found;
  for (;;) {
    LATHE_TRY(const bool row, select.step());
    if (!row) return found;
    LATHE_TRY(Experience experience, read_experience(select, database.path()));
    found.push_back(std::move(experience));
  }
}

}  // namespace lathe
