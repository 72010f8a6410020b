#include "candidate/vendor.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>

#include "baseline/vendor/node_call.h"

struct lathe_vendor_call {
  std::unique_ptr<lathe::vendor::PreparedCall> call;
};

namespace lathe::vendor {
namespace {

std::size_t element_bytes(const std::string& dtype) {
  if (dtype == "fp64" || dtype == "int64") return 8;
  if (dtype == "fp16" || dtype == "bf16") return 2;
  if (dtype == "int8" || dtype == "uint8" || dtype == "bool" || dtype.starts_with("fp8")) return 1;
  return 4;
}

/// The libraries allocate workspaces with malloc on every call. To avoid system calls, malloc must
/// serve them from the heap, never return freed memory, and have 64 MiB more of it than the caller
/// uses.
void keep_freed_memory() {
  constexpr int kLargestWorkspace = 32 << 20;  // glibc's largest M_MMAP_THRESHOLD
  mallopt(M_MMAP_THRESHOLD, kLargestWorkspace);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  // Never touched, so it costs only address space; a call's allocations reuse it.
  std::array<void*, 8> reserve;
  for (void*& memory : reserve) memory = std::malloc(kLargestWorkspace - 4096);
  for (void* memory : reserve) std::free(memory);
}

/// Zeroed substitutes for the caller's buffers in the trial run. Allocated with mmap, because
/// memory freed to malloc stays with the process (see keep_freed_memory).
class RehearsalBuffers {
 public:
  explicit RehearsalBuffers(const NodeCall& call) {
    for (const Node& node : call.nodes) {
      for (const Operand& operand : node.in) note_size(operand);
      note_size(node.out);
    }
    for (std::size_t bytes : sizes_) {
      void* memory = mmap(nullptr, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) throw std::bad_alloc();
      pointers_.push_back(memory);
    }
  }
  RehearsalBuffers(const RehearsalBuffers&) = delete;
  RehearsalBuffers& operator=(const RehearsalBuffers&) = delete;
  ~RehearsalBuffers() {
    for (std::size_t i = 0; i < pointers_.size(); ++i) munmap(pointers_[i], sizes_[i] + 1);
  }
  void* const* pointers() const { return pointers_.data(); }

 private:
  void note_size(const Operand& operand) {
    if (operand.buffer < 0) return;
    const auto index = static_cast<std::size_t>(operand.buffer);
    if (sizes_.size() <= index) sizes_.resize(index + 1);
    const std::size_t bytes = static_cast<std::size_t>(count(operand.shape)) * element_bytes(operand.dtype);
    sizes_[index] = std::max(sizes_[index], bytes);
  }

  std::vector<std::size_t> sizes_;
  std::vector<void*> pointers_;
};

Result<std::unique_ptr<PreparedCall>> prepare(const char* json, int threads) {
  const auto parsed = parse_node_call(json);
  if (!parsed.ok()) return parsed.error();
  const NodeCall& call = *parsed;
  const auto prepare_in = call.library == "openblas" ? prepare_openblas : prepare_onednn;
  if (call.library != "openblas" && call.library != "onednn")
    return invalid("unknown library '" + call.library + "'", "known: openblas, onednn");
  LATHE_TRY(auto prepared, prepare_in(call, threads));
  const RehearsalBuffers buffers(call);
  for (int i = 0; i < 3; ++i)
    if (const int status = prepared->execute(buffers.pointers()))
      return invalid("the rehearsal of a library call failed with code " + std::to_string(status));
  return prepared;
}

}  // namespace
}  // namespace lathe::vendor

lathe_vendor_call* lathe_vendor_prepare(const char* json, int threads, lathe_vendor_error* error) {
  lathe::vendor::keep_freed_memory();
  std::string message;
  try {
    auto prepared = lathe::vendor::prepare(json, threads);
    lathe::vendor::keep_freed_memory();
    if (prepared.ok()) return new lathe_vendor_call{std::move(*prepared)};
    message = prepared.error().message;
  } catch (const std::exception& exception) {
    message = exception.what();
  }
  error->no_library = 0;  // both libraries are linked
  error->text[message.copy(error->text, sizeof(error->text) - 1)] = 0;
  return nullptr;
}

int lathe_vendor_execute(lathe_vendor_call* call, void* const* buffers) {
  return call->call->execute(buffers);
}

void lathe_vendor_release(lathe_vendor_call* call) { delete call; }
