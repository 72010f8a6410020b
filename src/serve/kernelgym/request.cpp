#include "serve/kernelgym/request.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/visible_text.h"
#include "serve/request_json.h"
#include "task/names.h"

namespace lathe::serve::kernelgym {
namespace {

using nlohmann::json;

constexpr const char* kTask = R"toml(name = "kernelgym"
[reference]
kind = "process"
source = "reference.py"
entry = "{}"
)toml";
// On the kernel's first line: its lines keep their numbers.
constexpr const char* kFrontMatter =
    "\"\"\"lathe host = {{ language = \"python\", entry = \"{}New\" }} \"\"\"";

/// Reads optional fields. The first thing wrong is kept; null is as good as absent.
class Fields {
 public:
  explicit Fields(const json& node) : node_(node) {}

  const json* find(const std::string& name) {
    known_.insert(name);
    const auto found = node_.find(name);
    return found == node_.end() || found->is_null() ? nullptr : &*found;
  }
  std::string text(const std::string& name, std::string otherwise) {
    const json* const found = find(name);
    if (!found) return otherwise;
    if (!found->is_string()) return refuse(name, "is no text"), otherwise;
    return found->get<std::string>();
  }
  std::optional<bool> flag(const std::string& name) {
    const json* const found = find(name);
    if (!found) return std::nullopt;
    if (!found->is_boolean()) return refuse(name, "is neither true nor false"), std::nullopt;
    return found->get<bool>();
  }
  int number(const std::string& name, int otherwise, int low, int high) {
    const json* const found = find(name);
    if (!found) return otherwise;
    if (!found->is_number_integer() || *found < low || *found > high)
      return refuse(name, fmt::format("is no integer from {} to {}", low, high)), otherwise;
    return found->get<int>();
  }
  /// A field that has one value here.
  void only(const std::string& name, const std::set<std::string>& values, const std::string& why) {
    if (const std::string written = text(name, *values.begin()); !values.contains(written))
      refuse(name, fmt::format("is '{}': {}", visible_line(written.substr(0, 64)), why));
  }
  void never(const std::string& name, bool value, const std::string& why) {
    if (flag(name) == value) refuse(name, fmt::format("is {}: {}", value, why));
  }
  void absent(const std::string& name, const std::string& why) {
    const json* const found = find(name);
    if (found && !found->empty() && *found != "") refuse(name, "is given: " + why);
  }
  void refuse(const std::string& name, const std::string& why) {
    if (status_.ok()) status_ = invalid(name + " " + why);
  }
  /// Of everything that was read, and of what nobody knows.
  Status status() {
    for (const auto& field : node_.items())
      if (status_.ok() && !known_.contains(field.key()))
        status_ = invalid(fmt::format("there is no field '{}'", visible_line(field.key().substr(0, 64))),
                          "what nobody reads is refused, for whoever sends it expects something");
    return status_;
  }

 private:
  const json& node_;
  std::set<std::string> known_;
  Status status_ = Ok{};
};

std::string code(Fields& fields, const std::string& name) {
  const std::string text = fields.text(name, "");
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) fields.refuse(name, "is missing or empty");
  if (text.size() > kMaxCodeBytes) fields.refuse(name, fmt::format("is longer than {} bytes", kMaxCodeBytes));
  return text;
}

int priority_of(Fields& fields) {
  const std::string name = fields.text("priority", "normal");
  if (name == "low") return -10;
  if (name == "high") return 10;
  if (name != "normal") fields.refuse("priority", "is none of low, normal and high");
  return 0;
}

bool names_gpu(std::string_view device) {
  for (const std::string_view kind : {"cuda", "gpu", "host:cuda"})
    if (device == kind || (device.starts_with(kind) && device[kind.size()] == ':')) return true;
  return false;
}

void refuse_other_devices(Fields& fields, Request& request, Computes where) {
  if (where == Computes::kOnProcessor) {
    fields.only("backend", {"cpu"},
                "this service runs PyTorch modules on the processor (--device host:cpu), neither Triton nor "
                "CUDA; send \"cpu\" or leave it out");
    fields.only("device_preference", {"cpu", "host:cpu"}, "the device here is the processor");
    fields.never("enable_profiling", true, "there are no device counters on this device; send false");
    fields.never("run_triton_detection", true, "there is no Triton on this device; send false");
    fields.never("enable_triton_detection", true, "there is no Triton on this device; send false");
  } else {
    fields.only("backend", {"triton", "cuda", "pytorch"}, "the device here is a GPU (--device host:cuda)");
    if (fields.find("backend"))
      request.notes.emplace_back("backend: a module may do what its device can, whatever is said here");
    const std::string device = fields.text("device_preference", "cuda");
    if (!names_gpu(device))
      fields.refuse("device_preference",
                    fmt::format("is '{}': the device here is a GPU", visible_line(device.substr(0, 64))));
    else if (device.find(':') != std::string::npos && device != "host:cuda")
      request.notes.emplace_back("device_preference: which of its GPUs serves, the service chooses");
    for (const char* const detection : {"run_triton_detection", "enable_triton_detection"})
      if (fields.flag(detection) == true)
        request.notes.push_back(fmt::format(
            "{}: a module that computes with PyTorch alone is judged as any other, by its speed", detection));
  }
}

/// What its gym never does.
void refuse_what_is_not_here(Fields& fields) {
  fields.only("workflow", {"kernelbench"}, "the workflow here is kernelbench");
  fields.only("toolkit", {"kernelbench"}, "the toolkit here is kernelbench");
  fields.only("backend_adapter", {"kernelbench"}, "the adapter here is kernelbench");
  fields.only("reference_backend", {"pytorch"}, "the reference runs eagerly: torch.compile is not available");
  fields.never("run_correctness", false, "there is no verdict without verification");
  fields.absent("cases", "the gym draws inputs itself");
  fields.absent("cases_code", "the gym draws inputs itself");
  fields.absent("resources", "a kernel has the processors and the GPU that the service was started with");
}

void note_what_is_different(Fields& fields, Request& request, Computes where) {
  const auto note = [&](const char* text) { request.notes.emplace_back(text); };
  if (fields.find("num_warmup"))
    note("num_warmup: each process makes two calls on inputs of its own before the clock starts");
  fields.number("num_warmup", 3, 0, 100);
  if (fields.find("num_perf_trials"))
    note("num_perf_trials: the gym times pairs with the reference until the interval is narrow enough");
  fields.number("num_perf_trials", 100, 1, 1000);
  if (fields.flag("force_refresh") == true)
    note("force_refresh: a verdict is known by its code, and is never stale");
  if (fields.flag("use_reference_cache") == true)
    note("use_reference_cache: the reference is timed beside the kernel, every time");
  if (!fields.text("uuid", "").empty()) note("uuid: there is no cache of references that it could name");
  if (fields.flag("is_valid") == true) note("is_valid: there is no cache of references that it could choose");
  if (fields.flag("detect_decoy_kernel"))
    note(
        where == Computes::kOnGpu
            ? "detect_decoy_kernel: tampering is always looked for; whose kernels compute is told with "
              "enable_profiling, and is no judgement"
            : "detect_decoy_kernel: tampering is always looked for; whose kernels compute is not measured on "
              "a processor");
}

/// Whether whose kernels compute is to be measured.
bool is_profiled(Fields& fields, Request& request) {
  if (fields.flag("enable_profiling") != true) return false;
  if (!request.timed)
    request.notes.emplace_back("enable_profiling: a kernel that is not timed has no profile");
  return request.timed;
}

}  // namespace

Result<Request> parse_request(const json& node, Computes where) {
  if (!node.is_object()) return invalid("the request is no object");
  Fields fields(node);
  Request request;
  request.task_id = fields.text("task_id", "");
  if (request.task_id.empty() || request.task_id.size() > kMaxTaskIdBytes)
    fields.refuse("task_id", fmt::format("is not of 1 to {} bytes", kMaxTaskIdBytes));
  const std::string reference = code(fields, "reference_code");
  const std::string kernel = code(fields, "kernel_code");
  const std::string entry = fields.text("entry_point", "Model");
  if (!is_usable_name(entry) || !is_usable_name(entry + "New"))
    fields.refuse("entry_point", "cannot name a class");
  refuse_other_devices(fields, request, where);
  refuse_what_is_not_here(fields);
  note_what_is_different(fields, request, where);
  request.correct_trials = fields.number("num_correct_trials", 5, 1, 20);
  const int timeout = fields.number("timeout", 300, 10, 3600);
  const int priority = priority_of(fields);
  request.verbose = fields.flag("verbose_errors").value_or(true);
  const std::optional<bool> measured = fields.flag("measure_performance");
  request.timed = fields.flag("run_performance").value_or(measured.value_or(true));
  const bool profiled = is_profiled(fields, request);
  LATHE_CHECK_OK(fields.status());
  request.evaluation = {
      {"task", {{"toml", fmt::format(fmt::runtime(kTask), entry)}, {"files", {{"reference.py", reference}}}}},
      {"candidate", fmt::format(fmt::runtime(kFrontMatter), entry) + kernel},
      {"depth", profiled        ? "profile"
                : request.timed ? "screen"
                                : "verify"},
      {"priority", priority},
      {"deadline_seconds", timeout},
      {"tag", request.task_id}};
  return request;
}

Result<BatchRequest> parse_batch(std::string_view body) {
  LATHE_TRY(ListBody parsed, parse_list_body(body, "tasks", kMaxBatch));
  Fields fields(parsed.rest);
  BatchRequest batch{.batch_id = {}, .tasks = std::move(parsed.items)};
  const json* const id = fields.find("batch_id");
  if (!id || !id->is_string()) return invalid("batch_id is missing or no text");
  batch.batch_id = id->get<std::string>();
  LATHE_CHECK_OK(fields.status());
  return batch;
}

}  // namespace lathe::serve::kernelgym
