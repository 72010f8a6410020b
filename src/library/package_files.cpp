#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "library/package.h"
#include "record/json.h"

namespace lathe {
namespace {

constexpr const char* kFlags =
    "-O3 -march=native -ffp-contract=fast -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti -w";

std::string dims_text(const Dims& dims) {
  std::string text;
  for (const auto& [name, value] : dims)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  return text;
}

std::string domain_text(const ExportRequest& request, const std::vector<KernelVariant>& variants) {
  std::string text = "All dims are positive.";
  if (request.task->where) text += " `" + request.task->where->to_string() + "`.";
  if (request.candidate->plan().requires_)
    text += " `" + request.candidate->plan().requires_->to_string() + "`.";
  if (!variants.front().constants.empty()) {
    text += " The kernel is compiled for";
    for (const KernelVariant& variant : variants)
      if (!variant.fallback)
        text +=
            fmt::format("{} {}", &variant == &variants.front() ? "" : " or", dims_text(variant.constants));
    text += ".";
  }
  if (request.fallback)
    return text + " Elsewhere in the task's domain a slower kernel runs, verified as well.";
  return text + " Elsewhere the call returns `LATHE_OUTSIDE_DOMAIN`.";
}

nlohmann::json parameter_json(const std::string& name, std::string_view role, DType dtype,
                              const std::vector<Expr>& shape) {
  nlohmann::json extents = nlohmann::json::array();
  for (const Expr& extent : shape) extents.push_back(extent.to_string());
  return {{"name", name}, {"role", role}, {"dtype", info(dtype).name}, {"shape", std::move(extents)}};
}

/// What a program needs to call the C function, in the order of its parameters.
nlohmann::json interface_json(const TaskSpec& task) {
  nlohmann::json parameters = nlohmann::json::array();
  const auto is_output = [&](const std::string& name) {
    return std::ranges::any_of(task.outputs, [&](const OutputDecl& output) { return output.name == name; });
  };
  for (const TensorDecl& tensor : task.tensors) {
    const char* const role = tensor.role == Role::kScalar ? "scalar"
                             : is_output(tensor.name)     ? "inout"
                                                          : "input";
    parameters.push_back(parameter_json(tensor.name, role, tensor.dtype, tensor.shape));
    if (tensor.value) parameters.back()["value"] = *tensor.value;
  }
  for (const OutputDecl& output : task.outputs)
    if (!task.find_tensor(output.name))
      parameters.push_back(parameter_json(output.name, "output", output.dtype, output.shape));
  return {{"parameters", std::move(parameters)}, {"dims", task.dim_names}, {"flags", kFlags}};
}

std::string speedup_lines(const Verdict& verdict) {
  std::set<std::string> baselines;
  for (const Speedup& speedup : verdict.speedups) baselines.insert(speedup.baseline);
  std::string text;
  for (const std::string& baseline : baselines) {
    const Interval ratio = *verdict.speedup(baseline);
    text += fmt::format("| {} | {:.2f} | {:.2f} to {:.2f} |\n", baseline, ratio.mid, ratio.low, ratio.high);
  }
  if (text.empty()) return "The kernel was verified but not timed.\n";
  return "At depth `" + std::string(name(verdict.depth)) +
         "`, as geometric means over the task's shapes:\n\n| baseline | speedup | interval "
         "|\n|---|---|---|\n" +
         text;
}

constexpr const char* kConfig =
    R"cmake(# Builds the kernel from source for the machine at hand: find_package(lathe_{name}) gives lathe::{name}.
get_filename_component(_lathe_dir "${{CMAKE_CURRENT_LIST_FILE}}" DIRECTORY)
if(NOT TARGET lathe_{name})
  enable_language(CXX)
  add_library(lathe_{name} STATIC "${{_lathe_dir}}/src/dispatch.cpp"{sources})
  add_library(lathe::{name} ALIAS lathe_{name})
  target_include_directories(lathe_{name} PUBLIC "${{_lathe_dir}}/include" PRIVATE "${{_lathe_dir}}/device")
  target_compile_features(lathe_{name} PRIVATE cxx_std_20)
  # The flags that the kernel was verified with.
  target_compile_options(lathe_{name} PRIVATE {flags})
  set_target_properties(lathe_{name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()
unset(_lathe_dir)
)cmake";

constexpr const char* kReadme = R"text(# lathe_{name}

A verified CPU kernel for the task `{task}`, found by Lathe{device}.{description}

```cmake
find_package(lathe_{name} REQUIRED PATHS <this folder> NO_DEFAULT_PATH)
target_link_libraries(app PRIVATE lathe::{name})
```

or `add_subdirectory(<this folder>)`. It builds from source with g++ 11, clang++ 14 or later, with `-march=native`:
build it on the kind of machine that runs it. The processor must have AVX2 and FMA.

The interface is C: `include/lathe_{name}.h`. Ask `lathe_{name}_workspace_bytes` for the size of the workspace,
allocate it at a multiple of 64 bytes (`aligned_alloc(64, ...)`), and call `lathe_{name}`. It returns `LATHE_OK` or an
error code; no call allocates, prints or parses. With a `lathe_parallel` the work is shared among your threads; null
means one thread. Numbers that C has no type for are passed as their bits: `uint16_t` for fp16 and bf16, `uint8_t` for
those of 8 bits and `bool`.

**Domain.** {domain} It was verified within {ranges}.

**Speed.** {speedups}
`evidence.json` holds every verified case, timing and interval. `src/{name}.lathe.cpp` is the candidate as Lathe found
it: `lathe eval` accepts it.
)text";

}  // namespace

std::string cmake_config(const std::string& package, const std::vector<KernelVariant>& variants) {
  std::string sources;
  for (const KernelVariant& variant : variants)
    sources += fmt::format("\n    \"${{_lathe_dir}}/src/kernel{}.cpp\"", variant.suffix);
  return fmt::format(fmt::runtime(kConfig), fmt::arg("name", package), fmt::arg("sources", sources),
                     fmt::arg("flags", kFlags));
}

std::string cmake_lists(const std::string& package) {
  return fmt::format(
      "cmake_minimum_required(VERSION 3.16)\nproject(lathe_{0} LANGUAGES CXX)\n"
      "include(${{CMAKE_CURRENT_SOURCE_DIR}}/lathe_{0}Config.cmake)\n",
      package);
}

std::string evidence_json(const ExportRequest& request, const std::string& package) {
  nlohmann::json document = {{"schema", "lathe.evidence/1"},
                             {"name", package},
                             {"task", request.task->name},
                             {"task_digest", request.task->digest.hex()},
                             {"task_text", request.task->text},
                             {"candidate_digest", request.candidate->digest.hex()},
                             {"device", request.device},
                             {"facts", request.facts},
                             {"interface", interface_json(*request.task)},
                             {"verdict", to_json(*request.verdict)}};
  if (request.fallback) document["fallback_digest"] = request.fallback->digest.hex();
  return json_text(document, 2) + "\n";
}

std::string readme(const ExportRequest& request, const std::string& package,
                   const std::vector<KernelVariant>& variants) {
  const TaskSpec& task = *request.task;
  std::string ranges;
  for (const auto& [dim, range] : task.dim_ranges)
    ranges += fmt::format("{}{} <= {} <= {}", ranges.empty() ? "" : ", ", range.low, dim, range.high);
  if (task.fixed || ranges.empty()) ranges = "the task's own shapes";
  return fmt::format(fmt::runtime(kReadme), fmt::arg("name", package), fmt::arg("task", task.name),
                     fmt::arg("description", task.description.empty() ? "" : " " + task.description),
                     fmt::arg("device", request.device.empty() ? "" : " on " + request.device),
                     fmt::arg("domain", domain_text(request, variants)), fmt::arg("ranges", ranges),
                     fmt::arg("speedups", speedup_lines(*request.verdict)));
}

}  // namespace lathe
