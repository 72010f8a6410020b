#include "backend/cuda/broker/naive_grader.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/broker/program_load.h"
#include "backend/cuda/broker/visible_devices.h"
#include "backend/cuda/wire/naive_frames.h"
#include "backend/installation.h"
#include "sandbox/memfd.h"
#include "sandbox/process.h"

namespace lathe {
namespace {

using namespace cuda;

constexpr int kGraderStartTimeoutMs = 20'000;

NaiveAnswer unavailable(const Error& error) {
  return {NaiveAnswer::Kind::kUnavailable, 0, error.to_string()};
}

Layout layout_of(const NaiveJob& job) {
  std::vector<std::uint64_t> inputs, outputs;
  for (const HostTensor& tensor : job.inputs) inputs.push_back(tensor.bytes.size());
  for (const OutputDecl& output : job.task->spec->outputs)
    outputs.push_back(static_cast<std::uint64_t>(element_count(job.task->shape_of(output.name))) *
                      sizeof(float));
  Layout layout;
  layout.trials = 1;
  layout.inputs = region_of(inputs);
  layout.outputs = region_of(outputs);
  layout.inout_source.assign(outputs.size(), -1);
  return layout;
}

std::vector<std::uint64_t> scalars_of(const NaiveJob& job) {
  std::vector<std::uint64_t> scalars(job.inputs.size());
  for (std::size_t i = 0; i < scalars.size(); ++i)
    std::memcpy(&scalars[i], job.inputs[i].bytes.data(),
                std::min(sizeof scalars[i], job.inputs[i].bytes.size()));
  return scalars;
}

Result<UniqueFd> load_memory(const NaiveKernel& kernel, const NaiveJob& job) {
  LATHE_TRY(Load load, program_load(kernel.program, *job.task->spec));
  load.layout = layout_of(job);
  load.scalars = scalars_of(job);
  return make_sealed_memfd("load", encode(load));
}

class CudaNaiveGrader final : public NaiveGrader {
 public:
  CudaNaiveGrader(std::string program, std::string include_folder, std::vector<std::string> environment)
      : program_(std::move(program)),
        include_folder_(std::move(include_folder)),
        environment_(std::move(environment)) {}

  NaiveAnswer grade(const NaiveJob& job) override {
    const Result<Frame> frame = ask(job);
    if (!frame.ok() && frame.error().code == ErrorCode::kUnavailable) return unavailable(frame.error());
    return read_naive_line(frame.ok() ? frame->bytes : "HUNG");
  }

  Result<std::string> compile(const std::string& source, double timeout_seconds) override {
    LATHE_TRY(const HelperProcess process, start());
    LATHE_TRY(const UniqueFd text, make_sealed_memfd("source", source));
    LATHE_CHECK_OK(process.channel().send(kNaiveCompile, {text.get()}));
    LATHE_TRY(const Frame frame, process.channel().receive(static_cast<int>(timeout_seconds * 1000)));
    if (frame.fds.empty()) return Error{ErrorCode::kInvalid, frame.bytes};
    const off_t size = ::lseek(frame.fds[0].get(), 0, SEEK_END);
    LATHE_TRY(const Mapping object, map_shared(frame.fds[0], static_cast<std::size_t>(size), false));
    return std::string(reinterpret_cast<const char*>(object.data()), object.size());
  }

 private:
  Result<HelperProcess> start() {
    while (waiting_.size() < 2) {
      LATHE_TRY(HelperProcess one, HelperProcess::spawn(program_, {"grade", include_folder_}, environment_));
      waiting_.push_back(std::move(one));
    }
    HelperProcess process = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    LATHE_TRY(const Frame ready, process.first_frame(kGraderStartTimeoutMs));
    if (ready.bytes != kNaiveReady) return Error{ErrorCode::kUnavailable, "the naive grader did not start"};
    return process;
  }

  Result<Frame> ask(const NaiveJob& job) {
    LATHE_TRY(const HelperProcess process, start());
    LATHE_TRY(const UniqueFd mine, load_memory(job.candidate, job));
    LATHE_TRY(const UniqueFd my_object, make_sealed_memfd("cubin", job.candidate.object));
    LATHE_TRY(const UniqueFd honest, load_memory(job.honest, job));
    LATHE_TRY(const UniqueFd honest_object, make_sealed_memfd("cubin", job.honest.object));
    const Region region = layout_of(job).inputs;
    std::string bytes(region.stride, '\0');
    for (std::size_t i = 0; i < job.inputs.size(); ++i)
      std::memcpy(bytes.data() + region.offsets[i], job.inputs[i].bytes.data(), job.inputs[i].bytes.size());
    LATHE_TRY(const UniqueFd inputs, make_sealed_memfd("inputs", bytes));
    LATHE_CHECK_OK(process.channel().send(
        kNaiveGrade, {mine.get(), my_object.get(), honest.get(), honest_object.get(), inputs.get()}));
    return process.channel().receive(static_cast<int>(job.timeout_seconds * 1000));
  }

  std::string program_, include_folder_;
  std::vector<std::string> environment_;
  std::vector<HelperProcess> waiting_;  ///< their contexts are created while others grade
};

}  // namespace

Result<std::unique_ptr<NaiveGrader>> make_naive_cuda_grader(const CudaBackendOptions& options) {
  LATHE_TRY(std::string program, find_program(options.runner_program, "lathe-cuda-runner"));
  std::string folder = options.include_folder;
  if (folder.empty()) {
    LATHE_TRY(folder, device_header_folder());
  }
  LATHE_TRY(auto environment, environment_of(options.device));
  return std::unique_ptr<NaiveGrader>(
      std::make_unique<CudaNaiveGrader>(std::move(program), std::move(folder), std::move(environment)));
}

}  // namespace lathe
