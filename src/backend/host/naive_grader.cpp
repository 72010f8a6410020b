#include "backend/host/naive_grader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "backend/host/host_session.h"
#include "backend/host/parts.h"
#include "backend/object_cache.h"

namespace lathe {
namespace {

using namespace host;

constexpr int kStartMs = 120'000, kEndMs = 8'000;
constexpr double kLeastSeconds = 8;  // Python makes and times modules meanwhile
constexpr const char* kReady = "ready";

class HostNaiveGrader final : public NaiveGrader {
 public:
  explicit HostNaiveGrader(ZygoteOptions options) : options_(std::move(options)) {}

  NaiveAnswer grade(const NaiveJob& job) override {
    auto line = ask(job);
    if (!line.ok()) return {NaiveAnswer::Kind::kHarmed, 0, line.error().message};
    return read_naive_line(*line);
  }

  /// The backend has compiled what there is.
  Result<std::string> compile(const std::string&, double) override {
    return Error{ErrorCode::kUnavailable, "Python candidates have no objects"};
  }

 private:
  Result<std::string> ask(const NaiveJob& job) {
    const TaskSpec& task = *job.task->spec;
    LATHE_TRY(const Extensions extensions, decode_extensions(job.candidate.object));
    const Section section{job.task};
    nlohmann::json document = describe_program({job.candidate.text, job.candidate.entry}, {&section, 1});
    document["reference"] = {{"text", task.reference_text}, {"entry", task.reference_entry}};
    document["extensions"] = extensions.requests;
    LATHE_TRY(const UniqueFd payload, make_sealed_memfd("program", document.dump()));
    std::vector<int> fds = {payload.get()};
    std::vector<UniqueFd> objects;
    for (const std::string& bytes : extensions.objects) {
      LATHE_TRY(UniqueFd object, make_sealed_memfd("extension", bytes));
      fds.push_back(object.get());
      objects.push_back(std::move(object));
    }
    if (!goes_on()) LATHE_CHECK_OK(start());
    LATHE_CHECK_OK(python_->process.channel().send("grade", fds));
    const double seconds = std::max(kLeastSeconds, job.timeout_seconds);
    auto line = python_->process.channel().receive(static_cast<int>(1e3 * seconds));
    if (line.ok() && line->bytes != kReady) return line->bytes;
    python_.reset();
    if (!line.ok()) return line.error();
    return Error{ErrorCode::kUnavailable, "the candidate ended without an answer"};
  }

  /// Whether the job before, whose candidate may have said whatever it liked, has left it as it
  /// was.
  bool goes_on() const {
    if (!python_) return false;
    const auto frame = python_->process.channel().receive(kEndMs);
    return frame.ok() && frame->bytes == kReady;
  }

  Status start() {
    python_.reset();
    LATHE_TRY(WorkFolder work, WorkFolder::make(options_.cache_folder));
    LATHE_TRY(HelperProcess process,
              HelperProcess::spawn(options_.runner_program, runner_arguments(options_, work.path())));
    LATHE_TRY(const Frame hello, process.first_frame(kStartMs));
    if (hello.bytes != kReady) return Error{ErrorCode::kCorrupt, "the naive grader did not start"};
    python_ = Python{std::move(work), std::move(process)};
    return Ok{};
  }

  /// Imports once, and forks for each job.
  struct Python {
    WorkFolder work;
    HelperProcess process;
  };

  const ZygoteOptions options_;
  std::optional<Python> python_;
};

}  // namespace

Result<std::unique_ptr<NaiveGrader>> make_naive_host_grader(const HostBackendOptions& given) {
  LATHE_TRY(HostParts parts, find_parts(given));
  parts.zygotes.script = parts.script_folder + "/naive_grade.py";
  parts.zygotes.gpu = given.gpu != nullptr;
  return std::unique_ptr<NaiveGrader>(std::make_unique<HostNaiveGrader>(std::move(parts.zygotes)));
}

}  // namespace lathe
