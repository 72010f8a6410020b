#include "task/task_text.h"

namespace lathe {
namespace {

constexpr char kSeparator = '\x1e';
constexpr std::size_t kMaxModuleBytes = 256 * 1024;

}  // namespace

Digest TaskText::digest() const {
  return module ? Hasher().add(toml).add(*module).finish() : digest_of(toml);
}

std::string TaskText::joined() const { return module ? toml + kSeparator + *module : toml; }

TaskText TaskText::split(std::string_view joined) {
  const std::size_t end = joined.find(kSeparator);
  if (end == std::string_view::npos) return {std::string(joined)};
  return {std::string(joined.substr(0, end)), std::string(joined.substr(end + 1))};
}

TaskText text_of(const TaskSpec& spec) {
  if (spec.reference != ReferenceKind::kProcess) return {spec.text};
  return {spec.text, spec.reference_text};
}

Result<TaskSpec> parse_task_text(const TaskText& text, const std::string& path) {
  if (text.toml.find(kSeparator) != std::string::npos)
    return invalid("the task's TOML contains a control character", {}, {path, 0, 0});
  LATHE_TRY(TaskSpec spec, parse_task(text.toml, path));
  const bool is_process = spec.reference == ReferenceKind::kProcess;
  if (is_process != text.module.has_value())
    return invalid(is_process ? "the text of the module '" + spec.reference_source + "' is missing"
                              : "the task has no process reference, and yet a module came with it",
                   {}, {path, 0, 0});
  if (!is_process) return spec;
  if (text.module->size() > kMaxModuleBytes)
    return invalid("the module is longer than 256 KiB", {}, {path, 0, 0});
  spec.reference_text = *text.module;
  spec.digest = text.digest();
  return spec;
}

}  // namespace lathe
