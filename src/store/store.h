#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "record/experience.h"

namespace lathe {

/// One optimisation run as the store keeps it. `config` is opaque JSON that resume reads back.
struct RunRecord {
  std::string id;  ///< sortable by time: "20261121-101502-softmax_rows-3f2a"
  std::string task_name;
  std::string task_text;
  Digest task;
  std::string config;
  std::string status;   ///< "running", "done", "interrupted"
  std::string summary;  ///< JSON, written when the run ends
  std::int64_t created_unix = 0;
  std::int64_t experiences = 0;
};

/// Which experiences to read. A reader that passes the last id it has seen as `after_id` sees every
/// row once, also those that other processes append meanwhile: rows become visible in the order of
/// their ids.
struct Query {
  std::optional<Digest> task = {};  ///< nullopt: of any
  std::string run = {};             ///< empty: of any
  std::int64_t after_id = 0;
  int limit = 1000;
};

/// Lathe's memory on one machine: SQLite in WAL mode, generations' arrays in content-addressed
/// files. Any number of processes may share one. Thread-safe. What append() has returned Ok for
/// survives kill -9. Each commit is synced (an evaluation costs 100 ms or more, a sync a few), so a
/// power cut costs only what had not returned, if the disk keeps its promises.
class Store {
 public:
  /// Opens or creates `folder`; one that this user may not write to is opened to be read, and what
  /// would write fails. Errors: a newer schema, a damaged database (kCorrupt; the hint says
  /// how to recover), a full disk, no permission.
  static Result<std::unique_ptr<Store>> open(const std::string& folder);
  virtual ~Store() = default;

  virtual Status create_run(const RunRecord& run) = 0;
  virtual Status update_run(const std::string& id, const std::string& status, const std::string& summary) = 0;
  virtual Result<RunRecord> run(const std::string& id_or_prefix) = 0;  ///< "last" names the newest
  virtual Result<std::vector<RunRecord>> runs(int limit) = 0;

  /// Appends one evaluation, its generation's blobs first. (run, sequence) is unique: a second
  /// append of the same pair is refused, so nothing is counted twice. Errors: an unknown run, a
  /// verdict with a number that is not finite.
  virtual Result<std::int64_t> append(const Experience& experience) = 0;
  virtual Result<std::vector<Experience>> experiences(const std::string& run) = 0;  ///< by sequence
  virtual Result<std::vector<Experience>> read(const Query& query) = 0;             ///< by id

  /// Errors: kNotFound; kCorrupt, which names the file.
  virtual Result<std::string> get_blob(const Digest& digest) = 0;

  /// Small facts of this machine (measured peaks), keyed by text.
  virtual Status put_fact(const std::string& key, const std::string& value) = 0;
  virtual Result<std::optional<std::string>> get_fact(const std::string& key) = 0;
};

}  // namespace lathe
