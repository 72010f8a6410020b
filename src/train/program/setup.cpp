#include "train/program/setup.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>

#include "base/processors.h"
#include "lm/known_shapes.h"
#include "model/find_model.h"
#include "train/gpu.h"

namespace lathe::train {
namespace {

constexpr std::string_view kRandom = "random:";

}  // namespace

Result<UniqueFd> lock_run(const std::string& folder) {
  LATHE_CHECK_OK(make_directories(folder));
  const std::string path = folder + "/run.lock";
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock.valid()) return errno_error("cannot open " + path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  return Error{ErrorCode::kUnavailable, "another process works on the run in " + folder,
               "wait until it ends, or stop it with Ctrl-C"};
}

Result<Placement> placement_of(const TrainOptions& options, std::optional<lm::Precision> wanted) {
  const int processors = static_cast<int>(usable_processors().size());
  at::set_num_threads(options.threads > 0 ? options.threads : std::max(1, processors / options.devices));
  const TokenKernels* gpu = nullptr;
  if (options.device != "cpu") {
    std::error_code ignored;
    const bool may = options.device == "cuda" || std::filesystem::exists("/dev/nvidiactl", ignored);
    const auto usable = may ? load_gpu(options.rank) : Result<const TokenKernels*>(nullptr);
    if (!usable.ok() && options.device == "cuda") return usable.error();
    if (usable.ok()) gpu = *usable;
    if (gpu && gpu_count() < options.devices)
      return Error{ErrorCode::kUnavailable,
                   fmt::format("LibTorch finds {} GPUs, not {}", gpu_count(), options.devices),
                   "give fewer --devices"};
  }
  if (!options.precision.empty())
    wanted = options.precision == "bf16" ? lm::Precision::kBF16 : lm::Precision::kF32;
  const lm::Precision precision = wanted.value_or(gpu ? lm::Precision::kBF16 : lm::Precision::kF32);
  if (gpu && precision == lm::Precision::kF32)
    return invalid("training on a GPU computes in bf16 only", "use --precision bf16 or --device cpu");
  Placement placement{
      {.precision = precision,
       .device = gpu ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(options.rank)) : at::kCPU}};
  if (gpu) placement.kernels = gpu;
  return placement;
}

Result<std::unique_ptr<Reducer>> reducer_of(const Placement& placement, const Links& links) {
  if (links.size() == 1) return std::unique_ptr<Reducer>(std::make_unique<SoloReducer>());
  const std::byte mine{placement.decoder.device.is_cuda()};
  std::byte first = mine;
  LATHE_CHECK_OK(links.spread({&first, 1}));
  if (first != mine)
    return Error{ErrorCode::kUnavailable, "this process has no GPU, and the first one has",
                 "use --device cpu"};
  if (placement.decoder.device.is_cuda()) return join_gpus(links);
  return std::unique_ptr<Reducer>(std::make_unique<LinkReducer>(links));
}

std::string name_on_card(const std::string& model) {
  const std::filesystem::path path(model);
  return path.extension() == ".gguf" ? path.stem().string() : model;
}

Result<OpenedModel> open_model(const ModelSource& source, const lm::DecoderOptions& placement) {
  if (source.model.starts_with(kRandom)) {
    LATHE_TRY(const ModelConfig config, lm::known_shape(source.model.substr(kRandom.size())));
    return OpenedModel{lm::Decoder::random(config, placement, source.seed), {}};
  }
  LATHE_TRY(const std::string path, find_model(source.model));
  LATHE_TRY(const Checkpoint checkpoint, Checkpoint::open(path));
  LATHE_TRY(lm::Decoder decoder, lm::Decoder::load(checkpoint, placement));
  OpenedModel opened{std::move(decoder), {.system = source.system}};
  const auto tokenizer = Tokenizer::open(path);
  if (!tokenizer.ok() && tokenizer.error().code != ErrorCode::kNotFound) return tokenizer.error();
  if (tokenizer.ok()) opened.coding.tokenizer = *tokenizer;
  if (!source.chat) return opened;
  auto chat = ChatTemplate::open(path);
  if (!chat.ok() && chat.error().code != ErrorCode::kNotFound) return chat.error();
  if (chat.ok()) opened.coding.chat = *chat;
  return opened;
}

}  // namespace lathe::train
