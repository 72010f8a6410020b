#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/process.h"
#include "base/temporary_folder.h"
#include "task/reference.h"

namespace lathe {
namespace {

constexpr double kCompileSeconds = 60;
constexpr double kRunSeconds = 60;
constexpr std::string_view kEntry = "reference";
constexpr std::uint64_t kUnwritten = 0x7ff8'6c61'7468'6521;  // of a NaN that no arithmetic makes

/// The driver program: reads the dims, each input after its size, what unwritten elements hold, and
/// the size of each output; writes the outputs.
constexpr std::string_view kMain = R"cpp(
#include <unistd.h>
#include <bit>
#include <cstdlib>
#include <vector>
  extern "C" void reference(const double* const* in, double* const* out, const long long* dims);
  static void get(void* to, std::size_t bytes) {
    for (char* at = static_cast<char*>(to); bytes > 0;) {
      const ssize_t got = read(0, at, bytes);
      if (got <= 0) std::exit(3);
      at += got, bytes -= static_cast<std::size_t>(got);
    }
  }
  static void put(const void* from, std::size_t bytes) {
    for (const char* at = static_cast<const char*>(from); bytes > 0;) {
      const ssize_t sent = write(1, at, bytes);
      if (sent <= 0) std::exit(4);
      at += sent, bytes -= static_cast<std::size_t>(sent);
    }
  }
  static long long number() {
    long long value = 0;
    get(&value, sizeof value);
    return value;
  }
  int main() {
    std::vector<long long> dims(static_cast<std::size_t>(number()));
    for (long long& dim : dims) dim = number();
    std::vector<std::vector<double>> in(static_cast<std::size_t>(number()));
    for (auto& tensor : in) {
      tensor.resize(static_cast<std::size_t>(number()));
      get(tensor.data(), tensor.size() * sizeof(double));
    }
    std::vector<std::vector<double>> out(static_cast<std::size_t>(number()));
    const double unwritten = std::bit_cast<double>(number());
    for (auto& tensor : out) tensor.assign(static_cast<std::size_t>(number()), unwritten);
    std::vector<const double*> from;
    std::vector<double*> to;
    for (const auto& tensor : in) from.push_back(tensor.data());
    for (auto& tensor : out) to.push_back(tensor.data());
    reference(from.data(), to.data(), dims.data());
    for (const auto& tensor : out) put(tensor.data(), tensor.size() * sizeof(double));
  }
)cpp";

class Message {
 public:
  void add(std::int64_t number) { append(&number, sizeof number); }
  void add(std::span<const double> values) {
    add(static_cast<std::int64_t>(values.size()));
    append(values.data(), values.size_bytes());
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void append(const void* from, std::size_t size) { bytes_.append(static_cast<const char*>(from), size); }
  std::string bytes_;
};

Message request_of(const BoundTask& task, std::span<const HostTensor> inputs) {
  Message message;
  message.add(static_cast<std::int64_t>(task.spec->dim_names.size()));
  for (const std::string& dim : task.spec->dim_names) message.add(task.dims.at(dim));
  message.add(static_cast<std::int64_t>(inputs.size()));
  for (const HostTensor& input : inputs) message.add(input.decode());
  message.add(static_cast<std::int64_t>(task.spec->outputs.size()));
  message.add(static_cast<std::int64_t>(kUnwritten));
  for (const OutputDecl& output : task.spec->outputs) message.add(element_count(task.shape_of(output.name)));
  return message;
}

/// There is no error analysis, so the tolerance is a few roundings of the element and of the
/// largest element.
void add_tolerance(const TaskSpec& spec, const Numerics& numerics, Expected& expected) {
  if (expected.compare != CompareKind::kBound) return;
  const DTypeInfo& type = info(expected.dtype);
  const double u = std::max(type.unit_roundoff, type.dtype == DType::kF64 ? 0.0 : numerics.unit_roundoff);
  double largest = 0;
  for (const double y : expected.value.data)
    largest = std::isfinite(y) ? std::max(largest, std::fabs(y)) : largest;
  for (const double y : expected.value.data) {
    const double step = 2 * type.unit_roundoff * type.smallest_normal;
    expected.value.err.push_back(spec.tolerance * (64 * u * std::fabs(y) + 8 * u * largest + step));
  }
}

std::string shape_of(const BoundTask& task) {
  std::vector<std::string> dims;
  for (const std::string& dim : task.spec->dim_names)
    dims.push_back(fmt::format("{}={}", dim, task.dims.at(dim)));
  return dims.empty() ? "" : fmt::format(" at {}", fmt::join(dims, ", "));
}

/// "y[2, 3]"
std::string element_of(const Expected& output, std::size_t element) {
  std::vector<std::size_t> place;
  for (std::size_t axis = output.value.shape.size(); axis-- > 0;) {
    const auto extent = static_cast<std::size_t>(output.value.shape[axis]);
    place.insert(place.begin(), element % extent);
    element /= extent;
  }
  return fmt::format("{}[{}]", output.name, fmt::join(place, ", "));
}

std::optional<std::size_t> first_unwritten(std::span<const double> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::bit_cast<std::uint64_t>(values[i]) == kUnwritten) return i;
  return std::nullopt;
}

class NativeReference final : public Reference {
 public:
  NativeReference(std::string source, TemporaryFolder folder)
      : source_(std::move(source)), folder_(std::move(folder)) {}

  Result<std::vector<Expected>> evaluate(const BoundTask& task, std::span<const HostTensor> inputs,
                                         const Numerics& numerics) const override {
    return evaluate_unless({}, task, inputs, numerics);
  }

  Result<std::vector<Expected>> evaluate_unless(const CancelToken& cancel, const BoundTask& task,
                                                std::span<const HostTensor> inputs,
                                                const Numerics& numerics) const override {
    std::vector<Expected> all;
    std::size_t output_bytes = 0;
    for (const OutputDecl& output : task.spec->outputs) {
      Expected expected{
          .name = output.name, .dtype = output.dtype, .compare = output.compare, .value = {}, .source = {}};
      expected.value.shape = task.shape_of(output.name);
      expected.value.data.resize(static_cast<std::size_t>(element_count(expected.value.shape)));
      output_bytes += expected.value.data.size() * sizeof(double);
      all.push_back(std::move(expected));
    }
    const auto run = run_command({.argv = {program()}, .own_group = true}, request_of(task, inputs).bytes(),
                                 kRunSeconds, output_bytes, cancel);
    if (!run.ok()) return failed_run(task, run.error(), output_bytes);
    if (!run->status.ok()) return fault(task, "ended early: " + run->status.to_string(), run->errors);
    if (run->output.size() != output_bytes)
      return fault(task, "ended before all of its outputs were written");
    const char* from = run->output.data();
    for (Expected& expected : all) {
      const std::size_t bytes = expected.value.data.size() * sizeof(double);
      std::memcpy(expected.value.data.data(), from, bytes);
      from += bytes;
      if (const auto element = first_unwritten(expected.value.data))
        return fault(task, fmt::format("does not write {}", element_of(expected, *element)),
                     "it writes each element of each output, and reads none before");
      add_tolerance(*task.spec, numerics, expected);
    }
    return all;
  }

  std::string program() const { return folder_.path() + "/" + std::string(kEntry); }

 private:
  Error fault(const BoundTask& task, const std::string& what, const std::string& hint = {}) const {
    return invalid(fmt::format("the native reference {} {}{}", source_, what, shape_of(task)), hint,
                   {task.spec->path, 0, 0});
  }

  Error failed_run(const BoundTask& task, const Error& error, std::size_t output_bytes) const {
    if (error.code == ErrorCode::kTimeout)
      return fault(task, fmt::format("did not end within {} s", kRunSeconds), "score smaller shapes");
    if (error.code == ErrorCode::kInvalid)
      return fault(task, fmt::format("wrote more than the {} bytes of its outputs", output_bytes),
                   "standard output is where they go: print nothing there");
    return error;
  }

  std::string source_;
  TemporaryFolder folder_;
};

}  // namespace

Result<std::unique_ptr<Reference>> make_native_reference(const TaskSpec& spec) {
  const std::filesystem::path source = std::filesystem::path(spec.path).parent_path() / spec.reference_source;
  const SourcePos where{spec.path, 0, 0};
  if (!std::filesystem::exists(source)) {
    return Error{ErrorCode::kNotFound, fmt::format("no reference source {}", source.string()),
                 "'source' is relative to the task's file", where};
  }
  LATHE_TRY(TemporaryFolder folder, TemporaryFolder::make("lathe-reference"));
  const std::string main = folder.path() + "/main.cpp";
  LATHE_CHECK_OK(write_file_atomically(main, kMain));
  LATHE_TRY(const Completed built, run_command({{"g++", "-std=c++20", "-O2", main, source.string(), "-o",
                                                 folder.path() + "/" + std::string(kEntry)}},
                                               {}, kCompileSeconds));
  if (!built.status.ok()) {
    return invalid(
        fmt::format("the reference {} does not compile: {}", source.string(), built.status.to_string()),
        built.errors.substr(0, 2000), where);
  }
  return std::unique_ptr<Reference>(new NativeReference(source.string(), std::move(folder)));
}

}  // namespace lathe
