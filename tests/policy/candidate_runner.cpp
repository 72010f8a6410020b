#include "tests/policy/candidate_runner.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
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

struct Call {
  std::array<std::int64_t, 26> words{};  // 24 arguments, begin and end
  std::size_t count = 0;
  std::array<double, 8> reals{};
  std::size_t real_count = 0;

  void add(std::int64_t word) {
    if (count + 2 >= words.size()) fail("too many arguments");
    words[count++] = word;
  }
  void invoke(AnyKernel* f, std::int64_t begin, std::int64_t end) {
    auto w = words;
    w[count] = begin;
    w[count + 1] = end;
    f(reals[0], reals[1], reals[2], reals[3], reals[4], reals[5], reals[6], reals[7], w[0], w[1], w[2], w[3],
      w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15], w[16], w[17], w[18],
      w[19], w[20], w[21], w[22], w[23], w[24], w[25]);
  }
};

}  // namespace

int CandidateRunner::add(const Candidate& candidate) {
  const std::string prefix = "c" + std::to_string(candidates_.size()) + "_";
  std::string text = candidate.text;
  for (const PlanStep& step : candidate.plan().steps) {
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

namespace {

/// One launch program's buffers and calls, ready to be made.
class Frame {
 public:
  Frame(const Candidate& candidate, const BoundTask& task, const std::vector<HostTensor>& inputs, int threads)
      : inputs_(inputs) {
    auto program = compile_plan(candidate, task, {{"threads", threads}});
    if (!program.ok()) fail(program.error().to_string());
    program_ = std::move(*program);
    for (const HostTensor& tensor : inputs) {
      in_.push_back(std::make_unique<GuardedBuffer>(tensor.bytes.size()));
      std::ranges::copy(tensor.bytes, in_.back()->data());
    }
    for (const OutputDecl& output : task.spec->outputs) {
      const auto count = static_cast<std::size_t>(element_count(task.shape_of(output.name)));
      sizes_.push_back(count * info(output.dtype).bytes);
      out_.push_back(std::make_unique<GuardedBuffer>(sizes_.back()));
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (task.spec->tensors[i].name == output.name)
          std::ranges::copy(inputs[i].bytes, out_.back()->data());
    }
    for (const BoundScratch& buffer : program_.scratch)
      scratch_.push_back(std::make_unique<GuardedBuffer>(static_cast<std::size_t>(buffer.bytes)));
  }

  template <class Find>
  void call(const Find& find, int threads) {
    for (const BoundStep& step : program_.steps) {
      Call call = arguments(step);
      AnyKernel* kernel = find(step.kernel);
      for (int t = 0; t < threads; ++t)
        call.invoke(kernel, step.items * t / threads, step.items * (t + 1) / threads);
    }
  }

  std::vector<std::vector<std::byte>> results() const {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (std::memcmp(in_[i]->data(), inputs_[i].bytes.data(), inputs_[i].bytes.size()) != 0)
        fail("an input was written");
    std::vector<std::vector<std::byte>> results;
    for (std::size_t i = 0; i < out_.size(); ++i)
      results.emplace_back(out_[i]->data(), out_[i]->data() + sizes_[i]);
    return results;
  }

 private:
  Call arguments(const BoundStep& step) const {
    Call call;
    for (const BoundArg& arg : step.args) {
      if (const auto* buffer = std::get_if<BufferRef>(&arg)) {
        const auto& from = buffer->kind == BufferRef::Kind::kInput    ? in_
                           : buffer->kind == BufferRef::Kind::kOutput ? out_
                                                                      : scratch_;
        call.add(reinterpret_cast<std::int64_t>(from[static_cast<std::size_t>(buffer->index)]->data()));
      } else if (const auto* scalar = std::get_if<ScalarRef>(&arg)) {
        const auto& bytes = inputs_[static_cast<std::size_t>(scalar->input)].bytes;
        const DType dtype = inputs_[static_cast<std::size_t>(scalar->input)].dtype;
        if (info(dtype).is_float && dtype != DType::kBF16 && info(dtype).bytes > 1) {
          if (call.real_count == call.reals.size()) fail("too many scalars");
          std::memcpy(&call.reals[call.real_count++], bytes.data(), bytes.size());
        } else {
          std::int64_t word = 0;
          std::memcpy(&word, bytes.data(), bytes.size());
          call.add(word);
        }
      } else {
        call.add(std::get<std::int64_t>(arg));
      }
    }
    return call;
  }

  const std::vector<HostTensor>& inputs_;
  LaunchProgram program_;
  std::vector<std::size_t> sizes_;
  std::vector<std::unique_ptr<GuardedBuffer>> in_, out_, scratch_;
};

}  // namespace

std::vector<std::vector<std::byte>> CandidateRunner::run(int index, const BoundTask& task,
                                                         const std::vector<HostTensor>& inputs,
                                                         int threads) const {
  Frame frame(candidates_[static_cast<std::size_t>(index)], task, inputs, threads);
  frame.call([&](const std::string& kernel) { return find(index, kernel); }, threads);
  return frame.results();
}

AnyKernel* CandidateRunner::find(int index, const std::string& kernel) const {
  return library_->function<AnyKernel>("c" + std::to_string(index) + "_" + kernel);
}

double CandidateRunner::best_ns(int index, const BoundTask& task, const std::vector<HostTensor>& inputs,
                                double seconds) const {
  Frame frame(candidates_[static_cast<std::size_t>(index)], task, inputs, 1);
  const auto look = [&](const std::string& kernel) { return find(index, kernel); };
  using Clock = std::chrono::steady_clock;
  double best = 1e18;
  for (const auto start = Clock::now();
       std::chrono::duration<double>(Clock::now() - start).count() < seconds;) {
    const auto before = Clock::now();
    int calls = 0;
    for (; calls < 1000 && Clock::now() - before < std::chrono::milliseconds(1); ++calls) frame.call(look, 1);
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - before).count() / calls);
  }
  return best;
}

}  // namespace lathe
