#include "lm/open_model.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "lm/cuda/plugin.h"
#include "model/checkpoint.h"
#include "model/find_model.h"
#include "sandbox/process.h"

namespace lathe::lm {
namespace {

constexpr std::int64_t kDefaultCpuCacheBytes = std::int64_t{4} << 30;

}  // namespace

Result<const CudaPlugin*> cuda_plugin() {
  static const Result<const CudaPlugin*> plugin = []() -> Result<const CudaPlugin*> {
    LATHE_TRY(const std::string path, sibling_program("liblathe-torch-cuda.so"));
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return Error{ErrorCode::kUnavailable, std::string("no GPU can be used: ") + ::dlerror(),
                   "install torch " LATHE_TORCH_VERSION " with its CUDA libraries, or use --device cpu"};
    using Get = const CudaPlugin* (*)();
    const auto get = reinterpret_cast<Get>(::dlsym(library, "lathe_torch_cuda_plugin"));
    if (!get) return Error{ErrorCode::kInternal, path + " is of another version"};
    return get();
  }();
  return plugin;
}

Status check_cuda() {
  LATHE_TRY(const CudaPlugin* plugin, cuda_plugin());
  return plugin->check();
}

std::string why_no_gpu(const OpenOptions& options) {
  std::error_code code;
  if (options.device != DeviceKind::kAuto || !std::filesystem::exists("/dev/nvidiactl", code)) return "";
  const Status usable = check_cuda();
  return usable.ok() ? "" : usable.error().message;
}

Result<DecoderOptions> choose_placement(const OpenOptions& options) {
  bool cuda = false;
  if (options.device != DeviceKind::kCpu) {
    const Status usable = check_cuda();
    if (!usable.ok() && options.device == DeviceKind::kCuda) return usable.error();
    cuda = usable.ok();
  }
  const Precision precision = options.precision.value_or(cuda ? Precision::kBF16 : Precision::kF32);
  return DecoderOptions{.precision = precision, .device = cuda ? at::kCUDA : at::kCPU, .packed = !cuda};
}

Result<RunnerOptions> choose_runner(const Decoder& decoder, const OpenOptions& options) {
  const ModelConfig& config = decoder.config();
  RunnerOptions runner{.max_batch = options.max_batch};
  const auto own = static_cast<std::int32_t>(std::min<std::int64_t>(config.context, kLongestContext));
  runner.context = options.context > 0 ? options.context : own;
  if (runner.context > config.context)
    return invalid(
        fmt::format("a context of {} tokens, but the model has {}", runner.context, config.context));
  const std::int64_t page_bytes = cache_bytes_per_token(decoder) * kPageTokens;
  const std::int64_t wanted = std::int64_t{pages_for(runner.context) + 2} * runner.max_batch + 1;
  std::int64_t most_bytes = options.cache_bytes;
  if (most_bytes == 0 && decoder.options().device.is_cpu()) most_bytes = kDefaultCpuCacheBytes;
  if (most_bytes == 0) {
    LATHE_TRY(const CudaPlugin* plugin, cuda_plugin());
    most_bytes = plugin->free_bytes() / 2;
  }
  runner.pages = static_cast<std::int32_t>(std::min(wanted, most_bytes / page_bytes));
  if (runner.pages < 3)
    return Error{ErrorCode::kUnavailable, fmt::format("a cache of {} bytes holds no sequence", most_bytes),
                 "give more with --cache-mib"};
  return runner;
}

Result<std::unique_ptr<Runner>> make_runner(std::shared_ptr<const Decoder> decoder,
                                            const RunnerOptions& options) {
  if (decoder->options().device.is_cpu()) return make_cpu_runner(std::move(decoder), options);
  LATHE_TRY(const CudaPlugin* plugin, cuda_plugin());
  return plugin->make_runner(std::move(decoder), options);
}

Result<OpenedModel> open_model(const std::string& name, const OpenOptions& options) {
  LATHE_TRY(const std::string path, find_model(name));
  LATHE_TRY(const DecoderOptions placement, choose_placement(options));
  LATHE_TRY(const Checkpoint checkpoint, Checkpoint::open(path));
  std::optional<Adapter> adapter;
  if (!options.adapter.empty()) {
    LATHE_TRY(adapter, read_adapter(options.adapter));
  }
  LATHE_TRY(Decoder loaded, Decoder::load(checkpoint, placement, adapter ? &*adapter : nullptr));
  const auto decoder = std::make_shared<const Decoder>(std::move(loaded));
  LATHE_TRY(const RunnerOptions runner_options, choose_runner(*decoder, options));
  LATHE_TRY(auto runner, make_runner(decoder, runner_options));

  LocalEngineOptions engine{.runner = runner_options};
  engine.info = {.model = path,
                 .device = runner->device(),
                 .precision = std::string(name_of(placement.precision)),
                 .no_gpu = why_no_gpu(options),
                 .vocab = static_cast<std::int32_t>(checkpoint.config().vocab),
                 .context = runner_options.context,
                 .max_batch = runner_options.max_batch};
  LATHE_TRY(engine.info.weights, digest_of_weights(checkpoint));
  if (adapter) engine.info.weights = digest_with(engine.info.weights, *adapter);
  LATHE_TRY(const Tokenizer tokenizer, Tokenizer::open(path));
  engine.info.tokenizer = tokenizer.digest();
  engine.end_tokens = tokenizer.stops();
  engine.token_bytes = [tokenizer](TokenId token) { return tokenizer.bytes(token); };
  return OpenedModel{make_local_engine(std::move(runner), std::move(engine)), tokenizer};
}

}  // namespace lathe::lm
