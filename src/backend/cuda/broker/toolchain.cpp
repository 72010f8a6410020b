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
  result.outcome = refusal.reason == "bad_cubin" ? Outcome::kBuildFailed : Outcome::kTampered;
}

/// The cache key of a build's log, whose performance notes hold for the cached cubin too.
Digest log_key(const Digest& key) { return Hasher().add(key.hex()).add("log").finish(); }

}  // namespace

Result<std::unique_ptr<Toolchain>> Toolchain::create(const ToolchainOptions& options) {
  LATHE_TRY(ObjectCache cache, ObjectCache::open(options.cache_folder));
  const Digest headers = folder_digest(options.include_folder);
  LATHE_TRY(const std::string header_folder,
            cache.publish_folder("cuda-include-" + headers.short_hex(), [&](const std::string& staging) {
              return copy_folder(options.include_folder, staging);
            }));
  std::unique_ptr<Toolchain> toolchain(new Toolchain(options, std::move(cache), header_folder));
  LATHE_TRY(const CompiledObject asked, toolchain->workers_.run({"", {}, options.timeout_seconds}, {}));
  toolchain->version_ = fmt::format("NVRTC {} {} {}", asked.reply.log, options.arch, headers.hex());
  return toolchain;
}

Result<BuildResult> Toolchain::build(const std::string& source, const Dims& constants,
                                     const CancelToken& cancel) {
  protocol::CompileJob job{
      source, {"-arch=" + options_.arch, "-I" + header_folder_, kNoteFlags}, options_.timeout_seconds};
  for (const auto& [name, value] : constants) job.flags.push_back(fmt::format("-D{}={}", name, value));
  const Digest key =
      Hasher().add(version_).add(fmt::format("{}", fmt::join(job.flags, " "))).add(source).finish();
  if (auto bytes = cache_.find(key); bytes && check_cubin(*bytes).reason.empty()) {
    BuildResult hit;
    hit.artifact = {key, *std::move(bytes)};
    hit.facts.log = cache_.find(log_key(key)).value_or("");
    describe(hit);
    return hit;
  }
  LATHE_TRY(BuildResult result, compile(job, cancel));
  result.artifact.key = key;
  if (!result.ok) return result;
  if (!result.facts.log.empty()) cache_.publish(log_key(key), result.facts.log);
  cache_.publish(key, result.artifact.bytes);
  return result;
}

Result<BuildResult> Toolchain::compile(const protocol::CompileJob& job, const CancelToken& cancel) {
  LATHE_TRY(CompiledObject object, workers_.run(job, cancel));
  BuildResult result;
  result.facts.log = std::move(object.reply.log);
  result.facts.seconds = object.reply.seconds;
  result.reason = object.reply.timed_out ? "compile_timeout" : "compile_error";
  if (!object.reply.ok) return result;
  result.artifact.bytes = std::move(object.bytes);
  describe(result);
  return result;
}

}  // namespace lathe::cuda
