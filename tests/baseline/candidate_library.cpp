#include "tests/baseline/candidate_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/fd.h"
#include "candidate/vendor.h"

namespace lathe {
namespace {

/// Calls a kernel whose arguments lie in memory: buffers as they are, everything else behind its
/// pointer.
constexpr std::string_view kInvoke = R"(#include <stdint.h>
template <class T> struct Take { static T from(void* p) { return *static_cast<T*>(p); } };
template <class T> struct Take<T*> { static T* from(void* p) { return static_cast<T*>(p); } };
template <int... I> struct Indices {};
template <class... A, int... I> void invoke(void (*f)(A...), void** args, Indices<I...>) { f(Take<A>::from(args[I])...); }
template <class... A> void invoke(void (*f)(A...), void** args) { invoke(f, args, Indices<__integer_pack(sizeof...(A))...>{}); }
)";

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// The candidate's code in a namespace, its kernels renamed, each with an entry point that takes
/// void**.
std::string translation(const Candidate& candidate, std::size_t index) {
  std::string code = candidate.text;
  const std::string prefix = fmt::format("c{}_", index);
  replace_all(code, "#include <stdint.h>", "");
  replace_all(code, "extern \"C\" void naive_", "extern \"C\" void " + prefix + "naive_");
  code = fmt::format("namespace n{} {{\n{}\n", index, code);
  for (const PlanStep& step : candidate.plan().steps)
    if (step.kind == PlanStep::Kind::kLaunch)
      code += fmt::format("extern \"C\" void run_{0}{1}(void** args) {{ invoke({0}{1}, args); }}\n", prefix,
                          step.kernel);
  return code + "}\n";
}

struct FreeAligned {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<std::byte, FreeAligned>;

Buffer make_buffer(std::size_t bytes) {
  const std::size_t rounded = (bytes + 127) / 64 * 64;
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
  std::memset(buffer.get(), 0xff, rounded);
  return buffer;
}

/// Everything one call needs at its addresses.
struct Memory {
  std::vector<Buffer> inputs, outputs, scratch;

  void* at(BufferRef ref) const {
    const auto& buffers = ref.kind == BufferRef::Kind::kInput    ? inputs
                          : ref.kind == BufferRef::Kind::kOutput ? outputs
                                                                 : scratch;
    return buffers[static_cast<std::size_t>(ref.index)].get();
  }
};

Memory allocate(const BoundTask& task, std::span<const HostTensor> inputs, const LaunchProgram& program) {
  Memory memory;
  for (const HostTensor& input : inputs) {
    memory.inputs.push_back(make_buffer(input.bytes.size()));
    std::memcpy(memory.inputs.back().get(), input.bytes.data(), input.bytes.size());
  }
  for (const OutputDecl& output : task.spec->outputs) {
    const auto count = static_cast<std::size_t>(element_count(task.shape_of(output.name)));
    memory.outputs.push_back(make_buffer(count * info(output.dtype).bytes));
    for (std::size_t i = 0; i < task.spec->tensors.size(); ++i)
      if (task.spec->tensors[i].name == output.name)
        std::memcpy(memory.outputs.back().get(), inputs[i].bytes.data(), inputs[i].bytes.size());
  }
  for (const BoundScratch& scratch : program.scratch) {
    memory.scratch.push_back(make_buffer(static_cast<std::size_t>(scratch.bytes)));
    if (scratch.init != ScratchInit::kPoison)
      std::memset(memory.scratch.back().get(), 0, static_cast<std::size_t>(scratch.bytes));
  }
  return memory;
}

void run_launch(const BoundStep& step, const Memory& memory, void (*entry)(void**)) {
  std::vector<std::int64_t> integers(step.args.size());
  std::vector<void*> args;
  for (std::size_t i = 0; i < step.args.size(); ++i) {
    if (const auto* buffer = std::get_if<BufferRef>(&step.args[i])) {
      args.push_back(memory.at(*buffer));
    } else if (const auto* scalar = std::get_if<ScalarRef>(&step.args[i])) {
      args.push_back(memory.at({BufferRef::Kind::kInput, scalar->input}));
    } else {
      integers[i] = std::get<std::int64_t>(step.args[i]);
      args.push_back(&integers[i]);
    }
  }
  const std::int64_t third = step.items / 3;
  std::int64_t bounds[] = {0, third, third + 1, step.items};
  for (std::size_t part = 0; part < 3; ++part) {
    if (bounds[part] >= bounds[part + 1] || bounds[part + 1] > step.items) continue;
    std::vector<void*> with_range = args;
    with_range.push_back(&bounds[part]);
    with_range.push_back(&bounds[part + 1]);
    entry(with_range.data());
  }
}

Status run_node(const BoundStep& step, const Memory& memory) {
  lathe_vendor_error error;
  lathe_vendor_call* call = lathe_vendor_prepare(step.node_text.c_str(), 1, &error);
  if (!call) return invalid(std::string(error.text) + " in " + step.node_text);
  std::vector<void*> buffers;
  for (const BoundArg& arg : step.args) buffers.push_back(memory.at(std::get<BufferRef>(arg)));
  const int status = lathe_vendor_execute(call, buffers.data());
  lathe_vendor_release(call);
  if (status != 0) return invalid(fmt::format("the library call gave {}", status));
  return Ok{};
}

}  // namespace

CandidateLibrary::CandidateLibrary(std::vector<Candidate> candidates) : candidates_(std::move(candidates)) {
  std::string source(kInvoke);
  for (std::size_t i = 0; i < candidates_.size(); ++i) source += translation(candidates_[i], i);
  char folder[] = "/tmp/lathe_baseline_XXXXXX";
  if (!mkdtemp(folder)) std::abort();
  const std::string base = std::string(folder) + "/all";
  if (!write_file_atomically(base + ".cpp", source).ok()) std::abort();
  const std::string command = fmt::format(
      "g++ -O3 -march=native -std=c++20 -fno-exceptions -fno-rtti -nostdlib -shared -fPIC -w {0}.cpp -o "
      "{0}.so",
      base);
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "does not compile: %s.cpp\n", base.c_str());
    std::abort();
  }
  handle_ = dlopen((base + ".so").c_str(), RTLD_NOW);
  if (!handle_) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  std::system(fmt::format("rm -r {}", folder).c_str());
}

CandidateLibrary::~CandidateLibrary() { dlclose(handle_); }

Result<std::vector<std::vector<std::byte>>> CandidateLibrary::run(std::size_t index, const BoundTask& task,
                                                                  std::span<const HostTensor> inputs) const {
  LATHE_TRY(const LaunchProgram program, compile_plan(candidates_[index], task, {{"threads", 1}}));
  const Memory memory = allocate(task, inputs, program);
  for (const BoundStep& step : program.steps) {
    if (step.kind == PlanStep::Kind::kNode) {
      LATHE_CHECK_OK(run_node(step, memory));
      continue;
    }
    const std::string entry = fmt::format("run_c{}_{}", index, step.kernel);
    void* symbol = dlsym(handle_, entry.c_str());
    if (!symbol) return invalid("no kernel " + entry);
    run_launch(step, memory, reinterpret_cast<void (*)(void**)>(symbol));
  }
  std::vector<std::vector<std::byte>> outputs;
  for (std::size_t i = 0; i < task.spec->outputs.size(); ++i) {
    const OutputDecl& output = task.spec->outputs[i];
    const auto bytes =
        static_cast<std::size_t>(element_count(task.shape_of(output.name))) * info(output.dtype).bytes;
    outputs.emplace_back(memory.outputs[i].get(), memory.outputs[i].get() + bytes);
  }
  return outputs;
}

}  // namespace lathe
