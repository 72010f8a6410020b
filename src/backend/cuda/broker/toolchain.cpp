#include "backend/cuda/broker/toolchain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/cuda/broker/compiler_notes.h"
#include "backend/cuda/broker/cubin_image.h"

namespace lathe::cuda {
namespace {

/// Fills in the facts of the cubin, or why it is refused.
void describe(BuildResult& result) {
  const CubinRefusal refusal = check_cubin(result.artifact.bytes);
  result.ok = refusal.reason.empty();
  result.reason = refusal.reason;
  if (result.ok) {
    result.facts.code_bytes = static_cast<std::int64_t>(parse_cubin(result.artifact.bytes)->code_bytes);
    result.facts.facts = facts_of_cubin(result.artifact.bytes);
    result.facts.facts.merge(facts_of_log(result.facts.log));
    return;
  }
  result.facts.log += refusal.detail;
}

/// What a log of a source that was not compiled does not say by itself.
std::string_view hint_on_source(std::string_view source) {
  return source.find("lathe/cpu.h") == std::string_view::npos
             ? ""
             : "hint: <lathe/cpu.h> is for kernels of the processor: choose it with --device cpu, or include "
               "<lathe/cuda.cuh> and write a kernel of CUDA's, as docs/cuda_candidates.md shows\n";
}

/// The cache key of a build's log, whose performance notes hold for the cached cubin too.
Digest log_key(const Digest& key) { return Hasher().add(key.hex()).add("log").finish(); }

}  // namespace

Result<std::unique_ptr<Toolchain>> Toolchain::create(const ToolchainOptions& options) {
  const Digest headers = folder_digest(options.include_folder);
  std::unique_ptr<Toolchain> toolchain(new Toolchain(options));
  LATHE_TRY(toolchain->shop_, CompileShop::open({.cache_folder = options.cache_folder,
                                                 .header_name = "cuda-include-" + headers.short_hex(),
                                                 .fill_headers =
                                                     [from = options.include_folder](const auto& staging) {
                                                       return copy_folder(from, staging);
                                                     },
                                                 .runner_program = options.runner_program,
                                                 .worker_args =
                                                     [](const auto&, const auto& include) {
                                                       return std::vector<std::string>{"compile", include};
                                                     }}));
  LATHE_TRY(const CompiledObject asked, toolchain->shop_->run({"", {}, options.timeout_seconds}, {}));
  toolchain->version_ = fmt::format("NVRTC {} {} {}", asked.reply.log, options.arch, headers.hex());
  return toolchain;
}

Result<BuildResult> Toolchain::build(const std::string& source, const CancelToken& cancel) {
  protocol::CompileJob job{source, {"-arch=" + options_.arch, kNoteFlags}, options_.timeout_seconds};
  const Digest key = Hasher()
                         .add(version_)
                         .add(shop_->header_folder())
                         .add(fmt::format("{}", fmt::join(job.flags, " ")))
                         .add(source)
                         .finish();
  if (auto bytes = shop_->find(key); bytes && check_cubin(*bytes).reason.empty()) {
    BuildResult hit;
    hit.artifact = {key, *std::move(bytes)};
    hit.facts.log = shop_->find(log_key(key)).value_or("");
    describe(hit);
    return hit;
  }
  LATHE_TRY(BuildResult result, compile(job, cancel));
  result.artifact.key = key;
  if (!result.ok) return result;
  if (!result.facts.log.empty()) shop_->publish(log_key(key), result.facts.log);
  shop_->publish(key, result.artifact.bytes);
  return result;
}

Result<BuildResult> Toolchain::compile(const protocol::CompileJob& job, const CancelToken& cancel) {
  LATHE_TRY(CompiledObject object, shop_->run(job, cancel));
  BuildResult result;
  result.facts.log = std::move(object.reply.log);
  result.facts.seconds = object.reply.seconds;
  result.reason = object.reply.timed_out ? "compile_timeout" : "compile_error";
  if (!object.reply.ok) {
    result.facts.log.insert(0, hint_on_source(job.source));
    return result;
  }
  result.artifact.bytes = std::move(object.bytes);
  describe(result);
  return result;
}

}  // namespace lathe::cuda
