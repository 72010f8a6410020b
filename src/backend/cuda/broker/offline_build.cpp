#include "backend/cuda/broker/offline_build.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <vector>

#include "backend/cuda/broker/keeper_client.h"
#include "backend/cuda/broker/toolchain.h"
#include "backend/cuda/broker/visible_devices.h"
#include "backend/installation.h"

namespace lathe {
namespace {

using namespace cuda;

/// Facts of each architecture's most common chips: A100, H100 and H200, B200.
const std::map<std::string, Dims>& common_chips() {
  static const std::map<std::string, Dims> chips = {
      {"sm_80",
       {{"sm_count", 108}, {"smem_optin", 166912}, {"l2_bytes", 40 << 20}, {"max_cluster", 1}, {"wgmma", 0}}},
      {"sm_90a",
       {{"sm_count", 132}, {"smem_optin", 232448}, {"l2_bytes", 50 << 20}, {"max_cluster", 8}, {"wgmma", 1}}},
      {"sm_100a",
       {{"sm_count", 148},
        {"smem_optin", 232448},
        {"l2_bytes", 126 << 20},
        {"max_cluster", 8},
        {"wgmma", 0}}}};
  return chips;
}

Result<Dims> facts_of(const std::string& arch) {
  if (const auto found = common_chips().find(arch); found != common_chips().end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, facts] : common_chips()) names.push_back(name);
  return invalid("there is no architecture '" + arch + "'",
                 fmt::format("allowed: {}", fmt::join(names, ", ")));
}

class Builder final : public OfflineBuilder {
 public:
  Builder(std::string arch, Dims facts, std::unique_ptr<Toolchain> toolchain)
      : arch_(std::move(arch)), facts_(std::move(facts)), toolchain_(std::move(toolchain)) {}

  const std::string& arch() const override { return arch_; }
  const Dims& facts() const override { return facts_; }
  Result<BuildResult> build(const Candidate& candidate, const BoundTask& task,
                            const CancelToken& cancel) override {
    return build_plan(candidate, task,
                      [&](const std::string& text) { return toolchain_->build(text, cancel); });
  }

 private:
  std::string arch_;
  Dims facts_;
  std::unique_ptr<Toolchain> toolchain_;
};

}  // namespace

Result<std::unique_ptr<OfflineBuilder>> OfflineBuilder::create(const CudaBackendOptions& given,
                                                               const std::string& asked,
                                                               const Dims& replaced) {
  CudaBackendOptions options = given;
  std::string arch = asked;
  LATHE_TRY(options.runner_program, find_program(options.runner_program, "lathe-cuda-runner"));
  Dims facts;
  if (arch.empty()) {
    LATHE_TRY(auto environment, environment_of(options.device));
    auto keeper =
        KeeperClient::start({.program = options.runner_program, .environment = std::move(environment)});
    if (!keeper.ok()) return Error{keeper.error().code, keeper.error().message, "name a target with --arch"};
    arch = arch_of((*keeper)->facts());
    facts = facts_of((*keeper)->facts());
  } else {
    LATHE_TRY(facts, facts_of(arch));
  }
  for (const auto& [name, value] : replaced) facts.insert_or_assign(name, value);
  facts.insert_or_assign("threads", 1);
  if (options.include_folder.empty()) {
    LATHE_TRY(options.include_folder, device_header_folder());
  }
  if (options.cache_folder.empty()) {
    LATHE_TRY(options.cache_folder, default_cache_folder());
  }
  LATHE_TRY(auto toolchain, Toolchain::create({options.runner_program, options.include_folder,
                                               options.cache_folder, arch, options.build_timeout_seconds}));
  return std::unique_ptr<OfflineBuilder>(
      std::make_unique<Builder>(std::move(arch), std::move(facts), std::move(toolchain)));
}

}  // namespace lathe
