#pragma once

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "store/blob_folder.h"
#include "store/store.h"

namespace lathe {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lathe-store-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string database() const { return path_ + "/lathe.db"; }

 private:
  std::string path_;
};

/// Where a store in `folder` keeps its blobs.
inline BlobFolder blobs_of(const std::string& folder) { return BlobFolder(folder + "/blobs"); }

inline RunRecord make_run(const std::string& id, std::int64_t created_unix = 1'700'000'000) {
  return {.id = id,
          .task_name = "softmax",
          .task_text = "name = \"softmax\"\n",
          .task = digest_of("softmax"),
          .config = R"({"seed":7})",
          .status = "running",
          .summary = "",
          .created_unix = created_unix};
}

/// A passed experience, 3 times as fast as naive with a lower bound of `low`.
inline Experience make_experience(const std::string& run, std::int64_t sequence, double low = 2.9) {
  Experience e;
  e.run = run;
  e.sequence = sequence;
  e.task_name = "softmax";
  e.task = digest_of("softmax");
  e.candidate_text = "/*lathe\n*/\n// variant " + std::to_string(sequence) + std::string(500, ' ');
  e.candidate = digest_of(e.candidate_text);
  e.lineage = {.parents = {digest_of("parent")}, .policy = "catalog", .operation = "mutate"};
  e.verdict.outcome = Outcome::kPass;
  e.verdict.reason = "ok";
  e.verdict.speedups = {{.baseline = "naive", .shape = "s", .ratio = {low, 3, 3.2}}};
  e.cost_seconds = 0.25;
  e.created_unix = 1'700'000'001;
  return e;
}

inline std::unique_ptr<Store> open_or_fail(const std::string& folder) {
  auto store = Store::open(folder);
  if (!store.ok()) {
    ADD_FAILURE() << store.error().to_string();
    return nullptr;
  }
  return *std::move(store);
}

/// Runs `body` in a forked process; its return value is the exit status.
inline pid_t fork_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return child;
}

inline int wait_status(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace lathe
