#include "tests/policy/candidate_runner.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lathe {
namespace {

constexpr std::size_t kPage = 4096;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

/// 64-byte aligned memory right before a page that cannot be touched.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes) : bytes_(bytes), room_((bytes + 63) / 64 * 64) {
    mapped_ = (room_ + kPage - 1) / kPage * kPage + 2 * kPage;
    void* base = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) fail("mmap");
    base_ = static_cast<std::byte*>(base);
    mprotect(base_, kPage, PROT_NONE);
    mprotect(base_ + mapped_ - kPage, kPage, PROT_NONE);
    std::memset(data(), 0xff, room_);
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() {
    for (std::size_t i = bytes_; i < room_; ++i)
      if (data()[i] != std::byte{0xff}) fail("a kernel wrote past its buffer");
    munmap(base_, mapped_);
  }
  std::byte* data() const { return base_ + mapped_ - kPage - room_; }

 private:
  std::size_t bytes_, room_, mapped_ = 0;
  std::byte* base_ = nullptr;
};

/// Integers and pointers travel apart from floats in the System V ABI, so one type calls every kernel.
using AnyKernel = void(float, float, float, float, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t, std::int64_t, std::int64_t, std::int64_t);

struct Call {
  std::array<std::int64_t, 20> words{};
  std::size_t count = 0;
  std::array<float, 4> reals{};
  std::size_t real_count = 0;

  void add(std::int64_t word) {
    if (count + 2 >= words.size()) fail("too many arguments");
    words[count++] = word;
  }
  void invoke(AnyKernel* f, std::int64_t begin, std::int64_t end) {
    auto w = words;
    w[count] = begin;
    w[count + 1] = end;
    f(reals[0], reals[1], reals[2], reals[3], w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9],
      w[10], w[11], w[12], w[13], w[14], w[15], w[16], w[17], w[18], w[19]);
  }
};

}  // namespace

int CandidateRunner::add(const Candidate& candidate) {
  const std::string prefix = "c" + std::to_string(candidates_.size()) + "_";
  std::string text = candidate.text;
  for (const PlanStep& step : candidate.plan.steps) {
    const std::string from = "void " + step.kernel + "(";
    const std::size_t at = text.find(from);
    if (at == std::string::npos) fail("no kernel " + step.kernel);
    text.replace(at, from.size(), "void " + prefix + step.kernel + "(");
  }
  candidates_.push_back(candidate);
  text_ += text;
  return static_cast<int>(candidates_.size()) - 1;
}

void CandidateRunner::build() { library_ = std::make_unique<SharedObject>(text_); }

std::vector<std::vector<std::byte>> CandidateRunner::run(int index, const BoundTask& task,
                                                         const std::vector<HostTensor>& inputs,
                                                         int threads) const {
  const Candidate& candidate = candidates_[static_cast<std::size_t>(index)];
  const auto program = compile_plan(candidate, task, {{"threads", threads}});
  if (!program.ok()) fail(program.error().to_string());
  std::vector<std::unique_ptr<GuardedBuffer>> in, out, scratch;
  for (const HostTensor& tensor : inputs) {
    in.push_back(std::make_unique<GuardedBuffer>(tensor.bytes.size()));
    std::ranges::copy(tensor.bytes, in.back()->data());
  }
  std::vector<std::size_t> sizes;
  for (const OutputDecl& output : task.spec->outputs) {
    sizes.push_back(static_cast<std::size_t>(element_count(task.shape_of(output.name))) *
                    info(output.dtype).bytes);
    out.push_back(std::make_unique<GuardedBuffer>(sizes.back()));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (task.spec->tensors[i].name == output.name) std::ranges::copy(inputs[i].bytes, out.back()->data());
  }
  for (const BoundScratch& buffer : program->scratch)
    scratch.push_back(std::make_unique<GuardedBuffer>(static_cast<std::size_t>(buffer.bytes)));
  for (const BoundStep& step : program->steps) {
    Call call;
    for (const BoundArg& arg : step.args) {
      if (const auto* buffer = std::get_if<BufferRef>(&arg)) {
        const auto& from = buffer->kind == BufferRef::Kind::kInput    ? in
                           : buffer->kind == BufferRef::Kind::kOutput ? out
                                                                      : scratch;
        call.add(reinterpret_cast<std::int64_t>(from[static_cast<std::size_t>(buffer->index)]->data()));
      } else if (const auto* scalar = std::get_if<ScalarRef>(&arg)) {
        std::memcpy(&call.reals[call.real_count++],
                    inputs[static_cast<std::size_t>(scalar->input)].bytes.data(), 4);
      } else {
        call.add(std::get<std::int64_t>(arg));
      }
    }
    auto* kernel = library_->function<AnyKernel>("c" + std::to_string(index) + "_" + step.kernel);
    for (int t = 0; t < threads; ++t)
      call.invoke(kernel, step.items * t / threads, step.items * (t + 1) / threads);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (std::memcmp(in[i]->data(), inputs[i].bytes.data(), inputs[i].bytes.size()) != 0)
      fail("an input was written");
  std::vector<std::vector<std::byte>> results;
  for (std::size_t i = 0; i < out.size(); ++i)
    results.emplace_back(out[i]->data(), out[i]->data() + sizes[i]);
  return results;
}

}  // namespace lathe
