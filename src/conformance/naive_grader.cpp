#include "conformance/naive_grader.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "backend/naive_tolerance.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/temporary_folder.h"
#include "sandbox/jail.h"
#include "sandbox/memfd.h"

namespace lathe {
namespace {

constexpr int kWarmUpCalls = 3;
constexpr int kTimedCalls = 30;
constexpr std::size_t kArenaBytes = 64 << 20;
constexpr std::size_t kMaxWords = 16;

/// Reuses freed blocks without clearing them, as the caching allocators of deep-learning frameworks
/// do.
class CachingAllocator {
 public:
  CachingAllocator() : memory_(static_cast<std::byte*>(std::calloc(1, kArenaBytes))) {}
  std::byte* take(std::size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    auto& free_blocks = free_[bytes];
    if (!free_blocks.empty()) {
      std::byte* const block = free_blocks.back();
      free_blocks.pop_back();
      return block;
    }
    std::byte* const block = memory_ + used_ + (64 - reinterpret_cast<std::uintptr_t>(memory_) % 64);
    used_ += bytes;
    return used_ + 4096 < kArenaBytes ? block : nullptr;
  }
  void give_back(std::byte* block, std::size_t bytes) { free_[(bytes + 63) / 64 * 64].push_back(block); }

 private:
  std::byte* memory_;
  std::size_t used_ = 4096;
  std::map<std::size_t, std::vector<std::byte*>> free_;
};

struct Buffers {
  std::vector<std::byte*> inputs, outputs, scratch;
};

void* open_object(const std::string& bytes) {
  auto file = make_sealed_memfd("naive", bytes);
  if (!file.ok()) return nullptr;
  const std::string path = fmt::format("/proc/self/fd/{}", file->release());
  if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_GLOBAL);
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// One launch's arguments in the System V convention, for the few kinds that the suite's plans use.
struct Frame {
  std::array<std::uint64_t, kMaxWords> words{};
  std::array<double, 2> reals{};
  std::size_t word_count = 0, real_count = 0;

  void push(std::uint64_t word) { words[std::min(word_count++, kMaxWords - 1)] = word; }
  void push(float real) { std::memcpy(&reals[std::min<std::size_t>(real_count++, 1)], &real, sizeof real); }
  void call(void* function) const {
    using W = std::uint64_t;
    using Kernel = void (*)(W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, double, double);
    const auto& w = words;
    reinterpret_cast<Kernel>(function)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10],
                                       w[11], w[12], w[13], w[14], w[15], reals[0], reals[1]);
  }
};

class Kernel {
 public:
  Kernel(const NaiveKernel& kernel) : program_(kernel.program), handle_(open_object(kernel.object)) {}

  bool ready() const {
    if (!handle_) return false;
    for (const BoundStep& step : program_.steps)
      if (step.kind != PlanStep::Kind::kLaunch || !::dlsym(handle_, step.kernel.c_str())) return false;
    return true;
  }

  void call(const Buffers& buffers) const {
    for (std::size_t i = 0; i < program_.scratch.size(); ++i)
      if (program_.scratch[i].init == ScratchInit::kZero)
        std::memset(buffers.scratch[i], 0, static_cast<std::size_t>(program_.scratch[i].bytes));
    for (const BoundStep& step : program_.steps) {
      Frame frame;
      for (const BoundArg& arg : step.args) {
        if (const auto* integer = std::get_if<std::int64_t>(&arg))
          frame.push(static_cast<std::uint64_t>(*integer));
        else if (const auto* scalar = std::get_if<ScalarRef>(&arg))
          frame.push(
              *reinterpret_cast<const float*>(buffers.inputs[static_cast<std::size_t>(scalar->input)]));
        else
          frame.push(reinterpret_cast<std::uint64_t>(find(std::get<BufferRef>(arg), buffers)));
      }
      frame.push(std::uint64_t{0});
      frame.push(static_cast<std::uint64_t>(step.items));
      frame.call(::dlsym(handle_, step.kernel.c_str()));
    }
  }

  std::vector<std::byte*> take_scratch(CachingAllocator& allocator) const {
    std::vector<std::byte*> scratch;
    for (const BoundScratch& buffer : program_.scratch)
      scratch.push_back(allocator.take(static_cast<std::size_t>(buffer.bytes)));
    return scratch;
  }

 private:
  static std::byte* find(const BufferRef& ref, const Buffers& buffers) {
    const auto index = static_cast<std::size_t>(ref.index);
    if (ref.kind == BufferRef::Kind::kInput) return buffers.inputs[index];
    return ref.kind == BufferRef::Kind::kOutput ? buffers.outputs[index] : buffers.scratch[index];
  }

  const LaunchProgram& program_;
  void* handle_;
};

/// A task's outputs, in whatever types they are.
class Outputs {
 public:
  explicit Outputs(const NaiveJob& job) {
    for (const OutputDecl& output : job.task->spec->outputs) {
      const auto count = static_cast<std::size_t>(element_count(job.task->shape_of(output.name)));
      outputs_.push_back({&info(output.dtype), count});
    }
  }

  std::vector<std::byte*> take(CachingAllocator& allocator) const {
    std::vector<std::byte*> blocks;
    for (const Output& output : outputs_) blocks.push_back(allocator.take(output.bytes()));
    return blocks;
  }
  void give_back(const std::vector<std::byte*>& blocks, CachingAllocator& allocator) const {
    for (std::size_t i = blocks.size(); i-- > 0;) allocator.give_back(blocks[i], outputs_[i].bytes());
  }
  /// All values, one output behind the other.
  std::vector<double> read(const std::vector<std::byte*>& blocks) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      values.resize(values.size() + outputs_[i].count);
      outputs_[i].type->decode(blocks[i], std::span(values).last(outputs_[i].count));
    }
    return values;
  }

 private:
  struct Output {
    const DTypeInfo* type;
    std::size_t count;

    std::size_t bytes() const { return count * type->bytes; }
  };
  std::vector<Output> outputs_;
};

double mean_ns(const Kernel& kernel, const Buffers& buffers) {
  for (int i = 0; i < kWarmUpCalls; ++i) kernel.call(buffers);
  const auto begin = steady_clock().now_ns();
  for (int i = 0; i < kTimedCalls; ++i) kernel.call(buffers);
  return static_cast<double>(std::max<std::int64_t>(1, steady_clock().now_ns() - begin)) / kTimedCalls;
}

/// The part of the naive grader that shares its process with the candidate. Returns the line that
/// it would print: "PASS <speedup>" or "FAIL <why>".
std::string grade_in_this_process(const NaiveJob& job) {
  const Kernel honest(job.honest), candidate(job.candidate);
  if (!honest.ready()) return "FAIL the honest kernel does not load";
  if (!candidate.ready()) return fmt::format("FAIL the candidate does not load: {}", ::dlerror());
  CachingAllocator allocator;
  Buffers buffers;
  for (const HostTensor& tensor : job.inputs) {
    buffers.inputs.push_back(allocator.take(tensor.bytes.size()));
    std::memcpy(buffers.inputs.back(), tensor.bytes.data(), tensor.bytes.size());
  }
  const Outputs outputs(job);
  buffers.outputs = outputs.take(allocator);
  buffers.scratch = honest.take_scratch(allocator);
  const double honest_ns = mean_ns(honest, buffers);
  outputs.give_back(buffers.outputs, allocator);

  Buffers mine{buffers.inputs, outputs.take(allocator), candidate.take_scratch(allocator)};
  const double candidate_ns = mean_ns(candidate, mine);
  buffers.outputs = outputs.take(allocator);
  for (int i = 0; i < kWarmUpCalls; ++i) honest.call(buffers);
  const double share = naive_share_right(outputs.read(mine.outputs), outputs.read(buffers.outputs));
  if (share < kNaiveShareWanted) return fmt::format("FAIL {:.1f}% of the values are right", 100 * share);
  return fmt::format("PASS {:.3f}", honest_ns / candidate_ns);
}

constexpr std::string_view kNoJail = "JAIL ";

JailSpec jail() {
  JailSpec spec;
  spec.readable = {"/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/proc", "/sys/devices/system/cpu"};
  spec.max_address_bytes = std::uint64_t{8} << 30;
  spec.max_cpu_seconds = 5;
  spec.max_file_bytes = 256 << 20;
  return spec;
}

Status confine() {
  LATHE_CHECK_OK(restrict_resources(jail()));
  LATHE_CHECK_OK(restrict_files(jail()));
  return deny_dangerous_calls();
}

[[noreturn]] void say(const std::string& line) {
  const std::string text = line + "\n";
  ::_exit(::write(STDOUT_FILENO, text.data(), text.size()) < 0 ? 1 : 0);
}

/// Forks `depth` times. The last child returns; every other process waits for its own. The first is
/// the namespace's init, which signals from inside cannot kill.
void nest(int depth) {
  for (int i = 0; i < depth; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      continue;
    }
    int status = 0;
    while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    ::_exit(0);
  }
}

[[noreturn]] void run_grader(const NaiveJob& job, int out_fd) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(out_fd, STDOUT_FILENO);
  ::close_range(3, ~0u, 0);
  if (const Status entered = enter_namespaces(); !entered.ok())
    say(std::string(kNoJail) + entered.error().message);
  nest(1);
  if (const Status confined = confine(); !confined.ok()) say(std::string(kNoJail) + confined.error().message);
  nest(2);
  say(grade_in_this_process(job));
}

/// The first line that anybody wrote. Trusting it is one of the grader's mistakes.
std::string first_line(int fd, double timeout_seconds) {
  const std::int64_t deadline_ns = steady_clock().now_ns() + static_cast<std::int64_t>(timeout_seconds * 1e9);
  std::string text;
  while (text.find('\n') == std::string::npos) {
    const auto left_ms = (deadline_ns - steady_clock().now_ns()) / 1'000'000;
    pollfd waiting{fd, POLLIN, 0};
    if (left_ms <= 0 || ::poll(&waiting, 1, static_cast<int>(left_ms)) == 0) return "HUNG";
    char buffer[256];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) return "DIED";
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text.substr(0, text.find('\n'));
}

NaiveAnswer grade_naively(const NaiveJob& job) {
  int ends[2];
  if (::pipe(ends) != 0) return {NaiveAnswer::Kind::kUnavailable, 0, "cannot make a pipe"};
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return {NaiveAnswer::Kind::kUnavailable, 0, "cannot fork"};
  if (child == 0) run_grader(job, write_end.get());
  write_end.reset();
  const std::string line = first_line(read_end.get(), job.timeout_seconds);
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (line.starts_with(kNoJail)) return {NaiveAnswer::Kind::kUnavailable, 0, line};
  return read_naive_line(line);
}

Result<std::string> compile_naively(const std::string& source, double timeout_seconds) {
  LATHE_TRY(const TemporaryFolder folder, TemporaryFolder::make("lathe-naive"));
  LATHE_CHECK_OK(write_file_atomically(folder.path() + "/candidate.cpp", source));
  const std::string command = fmt::format(
      "cd '{}' && ulimit -v 4194304 && exec timeout -k 1 {} g++ -O2 -march=native -std=c++20 -shared -fPIC "
      "-w -o out.so candidate.cpp >/dev/null 2>&1",
      folder.path(), timeout_seconds);
  const int status = std::system(command.c_str());
  if (status != 0) return Error{ErrorCode::kTimeout, "the compiler failed or timed out"};
  return read_file(folder.path() + "/out.so");
}

class CpuNaiveGrader final : public NaiveGrader {
 public:
  NaiveAnswer grade(const NaiveJob& job) override { return grade_naively(job); }
  Result<std::string> compile(const std::string& source, double timeout_seconds) override {
    return compile_naively(source, timeout_seconds);
  }
};

}  // namespace

std::unique_ptr<NaiveGrader> make_naive_grader() { return std::make_unique<CpuNaiveGrader>(); }

}  // namespace lathe
