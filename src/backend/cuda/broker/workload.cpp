#include "backend/cuda/broker/workload.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/cuda/wire/output_memory.h"
#include "base/random.h"
#include "sandbox/memfd.h"

namespace lathe::cuda {
namespace {

/// In the order of their numbers the last output would be a guest's.
std::vector<std::uint32_t> secret_order(std::uint32_t trials) {
  std::vector<std::uint32_t> rest(trials - 1);
  std::iota(rest.begin(), rest.end(), 1U);
  Rng rng(Seed::from_system());
  rng.shuffle(rest);
  rest.insert(rest.begin(), 0);
  return rest;
}

}  // namespace

Result<std::shared_ptr<const CudaWorkload>> CudaWorkload::make(Workload workload,
                                                               std::shared_ptr<KeeperClient> keeper,
                                                               DeviceLane& lane, int banks) {
  if (workload.trials.empty()) return Error{ErrorCode::kInternal, "a workload needs a trial"};
  auto made = std::make_shared<CudaWorkload>();
  static_cast<Workload&>(*made) = std::move(workload);
  made->keeper_ = std::move(keeper);
  made->most_banks_ = static_cast<std::size_t>(banks);
  made->layout_.trials = static_cast<std::uint32_t>(made->trials.size());
  made->layout_.inputs = region_of(made->input_bytes());
  made->layout_.outputs = region_of(made->output_bytes());
  made->layout_.order = secret_order(made->layout_.trials);
  const auto& tensors = made->task.spec->tensors;
  for (const OutputDecl& output : made->task.spec->outputs) {
    const auto source = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const TensorDecl& tensor) { return tensor.name == output.name; });
    made->layout_.inout_source.push_back(
        source == tensors.end() ? -1 : static_cast<std::int32_t>(source - tensors.begin()));
  }
  made->input_memory_ = device_bytes(made->layout_, 0);
  made->bank_memory_ = device_bytes(made->layout_) - made->input_memory_;
  made->read_scalars();
  LATHE_CHECK_OK(made->upload(lane));
  return std::shared_ptr<const CudaWorkload>(std::move(made));
}

CudaWorkload::~CudaWorkload() {
  if (held_) keeper_->destroy(held_);
}

std::vector<std::uint64_t> CudaWorkload::input_bytes() const {
  std::vector<std::uint64_t> bytes;
  for (const HostTensor& tensor : trials.front().inputs) bytes.push_back(tensor.bytes.size());
  return bytes;
}

std::vector<std::uint64_t> CudaWorkload::output_bytes() const {
  std::vector<std::uint64_t> bytes;
  for (const Expected& output : trials.front().expected) bytes.push_back(output.bytes());
  return bytes;
}

void CudaWorkload::read_scalars() {
  for (const Trial& trial : trials)
    for (std::size_t i = 0; i < trial.inputs.size(); ++i) {
      std::uint64_t bits = 0;
      if (task.spec->tensors[i].role == Role::kScalar)
        std::memcpy(&bits, trial.inputs[i].bytes.data(), std::min(sizeof bits, trial.inputs[i].bytes.size()));
      scalars_.push_back(bits);
    }
}

Status CudaWorkload::upload(DeviceLane& lane) {
  LATHE_TRY(UniqueFd inputs, make_memfd("inputs", layout_.inputs.stride * layout_.trials));
  LATHE_CHECK_OK(move_inputs(inputs, layout_.inputs.stride, layout_.inputs.offsets));
  const auto lease = lane.take(DeviceLane::Use::kWork, DeviceLane::Grain::kBlock);
  LATHE_TRY(held_, keeper_->create(layout_, std::move(inputs)));
  return Ok{};
}

MemoryUse CudaWorkload::memory() const {
  std::lock_guard lock(mutex_);
  std::size_t host = layout_.inputs.stride * layout_.trials;
  for (const Slot& slot : banks_) host += slot.bank->host_bytes();
  const std::uint64_t device = input_memory_ + banks_.size() * bank_memory_;
  MemoryUse use = Workload::memory();
  return use += {static_cast<std::int64_t>(host), static_cast<std::int64_t>(device)};
}

Result<CudaWorkload::Slot*> CudaWorkload::choose_bank() const {
  // Launchers that the thread has used before have its bank's memory mapped already.
  const auto own = std::ranges::find(banks_, std::this_thread::get_id(), &Slot::thread);
  if (own != banks_.end()) return &*own;
  const auto least = std::ranges::min_element(banks_, {}, &Slot::sessions);
  if (least != banks_.end() && (least->sessions == 0 || banks_.size() == most_banks_)) return &*least;
  const auto index = static_cast<std::uint32_t>(banks_.size());
  LATHE_TRY(auto bank, OutputBank::make(*this, layout_, *keeper_, held_, index));
  banks_.push_back({std::move(bank)});
  return &banks_.back();
}

Result<const OutputBank*> CudaWorkload::use_bank() const {
  std::lock_guard lock(mutex_);
  LATHE_TRY(Slot* const slot, choose_bank());
  if (slot->sessions++ == 0) slot->thread = std::this_thread::get_id();
  return slot->bank.get();
}

void CudaWorkload::leave_bank(const OutputBank& bank) const {
  std::lock_guard lock(mutex_);
  --banks_[bank.index()].sessions;
}

}  // namespace lathe::cuda
