#include "backend/host/naive_grader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/host/host_session.h"
#include "backend/host/parts.h"
#include "backend/object_cache.h"

namespace lathe {
namespace {

using namespace host;

constexpr int kStartMs = 120'000;
constexpr double kLeastSeconds = 8;  // Python imports, makes and times modules meanwhile

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
  Result<std::string> ask(const NaiveJob& job) const {
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
    LATHE_TRY(const WorkFolder work, WorkFolder::make(options_.cache_folder));
    LATHE_TRY(const HelperProcess process, start_python(options_, work.path()));
    LATHE_CHECK_OK(process.channel().send("grade", fds));
    LATHE_TRY(const Frame frame, process.channel().receive(
                                     static_cast<int>(1e3 * std::max(kLeastSeconds, job.timeout_seconds))));
    return frame.bytes;
  }

  static Result<HelperProcess> start_python(const ZygoteOptions& options, const std::string& work) {
    LATHE_TRY(HelperProcess process,
              HelperProcess::spawn(options.runner_program, runner_arguments(options, work)));
    LATHE_TRY(const Frame hello, process.first_frame(kStartMs));
    if (hello.bytes != "ready") return Error{ErrorCode::kCorrupt, "the naive grader did not start"};
    return process;
  }

  const ZygoteOptions options_;
};

}  // namespace

Result<std::unique_ptr<NaiveGrader>> make_naive_host_grader(const HostBackendOptions& given) {
  LATHE_TRY(HostParts parts, find_parts(given));
  parts.zygotes.script = parts.script_folder + "/naive_grade.py";
  parts.zygotes.gpu = given.gpu != nullptr;
  return std::unique_ptr<NaiveGrader>(std::make_unique<HostNaiveGrader>(std::move(parts.zygotes)));
}

}  // namespace lathe
