#include "library/export.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/output.h"
#include "library/package.h"
#include "record/json.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

bool is_identifier(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

Status check_fallback(const Candidate& fallback, const TaskSpec& task) {
  LATHE_CHECK_OK(check_exportable(fallback, task));
  if (!serves_whole_domain(fallback))
    return invalid("the fallback does not serve the whole domain", "give one without requires and constants");
  return Ok{};
}

Status check(const ExportRequest& request, const std::string& package) {
  if (!is_identifier(package))
    return invalid("'" + package + "' cannot name a C function", "give a name of letters, digits and _");
  if (!request.verdict->passed())
    return invalid("the kernel's verdict is " + std::string(name(request.verdict->outcome)),
                   "only a kernel that passed can be exported");
  if (request.verdict->candidate != request.candidate->digest)
    return invalid("the verdict is not this candidate's", "evaluate the candidate first");
  if (request.task->shapes.empty()) return invalid("the task '" + request.task->name + "' has no shape");
  if (request.fallback) LATHE_CHECK_OK(check_fallback(*request.fallback, *request.task));
  return check_exportable(*request.candidate, *request.task);
}

/// Where a package is until it is whole; what an export that was killed left there is nobody's.
std::string staging_in(const std::string& folder) { return folder + "/.lathe-export.partial"; }

Status check_folder(const std::string& folder) {
  std::error_code ignored;
  fs::remove_all(staging_in(folder), ignored);
  if (fs::exists(folder, ignored) && !fs::is_empty(folder, ignored) &&
      !fs::exists(folder + "/evidence.json", ignored))
    return invalid("'" + folder + "' is not empty and holds no earlier export", "name a new folder");
  return Ok{};
}

Status copy_headers(const std::string& from, const std::string& to) {
  std::error_code code;
  for (fs::recursive_directory_iterator it(from + "/lathe", code), end; !code && it != end;
       it.increment(code)) {
    std::error_code ignored;
    if (!it->is_regular_file(ignored) || it->path().extension() != ".h") continue;
    const std::string target = to + "/" + it->path().lexically_relative(from).string();
    LATHE_TRY(const std::string bytes, read_file(it->path().string()));
    LATHE_CHECK_OK(make_directories(fs::path(target).parent_path().string()));
    LATHE_CHECK_OK(write_output(target, bytes));
  }
  if (code)
    return Error{ErrorCode::kIo, "cannot read the device headers in '" + from + "': " + code.message(),
                 "check the installation"};
  return Ok{};
}

Status write_package(const ExportRequest& request, const std::string& package, const std::string& out_dir) {
  const std::vector<KernelVariant> variants = kernel_variants(request);
  LATHE_TRY(const std::string dispatcher, dispatcher_source(request, package, variants));
  for (const char* folder : {"/include", "/src", "/device"})
    LATHE_CHECK_OK(make_directories(out_dir + folder));
  LATHE_CHECK_OK(copy_headers(request.device_headers, out_dir + "/device"));
  std::map<std::string, std::string> files = {
      {"include/lathe_" + package + ".h", header_source(request, package)},
      {"src/dispatch.cpp", dispatcher},
      {"CMakeLists.txt", cmake_lists(package)},
      {"lathe_" + package + "Config.cmake", cmake_config(package, variants)},
      {"README.md", readme(request, package, variants)},
      {"evidence.json", evidence_json(request, package)},
  };
  for (const KernelVariant& variant : variants) {
    files["src/kernel" + variant.suffix + ".cpp"] = variant_source(package, variant);
    files["src/" + text_file(package, variant)] = variant.candidate->text;
  }
  for (const auto& [path, bytes] : files) LATHE_CHECK_OK(write_output(out_dir + "/" + path, bytes));
  return Ok{};
}

/// The kernels and the names of an earlier export, which may have had another name; not what else
/// somebody put there.
void remove_earlier(const std::string& folder) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(folder + "/src", ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".lathe.cpp") || (name.starts_with("kernel_") && name.ends_with(".cpp")))
      files.push_back(it->path());
  }
  if (const auto text = read_file(folder + "/evidence.json"); text.ok())
    if (const auto evidence = parse_json(*text, "evidence"); evidence.ok() && evidence->is_object())
      if (const auto name = evidence->find("name"); name != evidence->end() && name->is_string())
        if (const auto package = name->get<std::string>(); is_identifier(package)) {
          files.emplace_back(folder + "/include/lathe_" + package + ".h");
          files.emplace_back(folder + "/lathe_" + package + "Config.cmake");
        }
  fs::remove_all(folder + "/device/lathe", ignored);
  for (const fs::path& file : files) fs::remove(file, ignored);
}

/// Takes no room on the disk, so a package that could be written can be put in its place.
Status move_into(const std::string& folder) {
  const std::string staging = staging_in(folder);
  std::error_code code;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator it(staging, code), end; !code && it != end; it.increment(code))
    if (std::error_code ignored; it->is_regular_file(ignored)) files.push_back(it->path());
  for (const fs::path& file : files) {
    const fs::path target = folder / file.lexically_relative(staging);
    LATHE_CHECK_OK(make_directories(target.parent_path().string()));
    if (!code) fs::rename(file, target, code);
  }
  if (code)
    return Error{ErrorCode::kIo, "cannot write '" + folder + "': " + code.message(), "check its permissions"};
  return Ok{};
}

}  // namespace

bool serves_whole_domain(const Candidate& candidate) {
  return candidate.has_plan() && !candidate.plan().requires_ && candidate.plan().constants.empty();
}

Status check_exportable(const Candidate& candidate, const TaskSpec& task) {
  if (!candidate.has_plan())
    return Error{ErrorCode::kUnavailable, "a package cannot carry a host program",
                 "export a kernel that has a plan"};
  for (const PlanStep& step : candidate.plan().steps) {
    if (!step.grid.empty() || !step.block.empty())
      return Error{ErrorCode::kUnavailable,
                   "'" + step.kernel + "' is launched on a GPU, and packages are for processors",
                   "compile it with lathe build", step.where};
    if (step.kind == PlanStep::Kind::kNode)
      return Error{ErrorCode::kUnavailable,
                   "the kernel calls " + step.library + ", which a package cannot carry",
                   "export a kernel whose plan has only [[launch]] steps", step.where};
  }
  return check_plan(candidate, task);
}

Status export_kernel(const ExportRequest& request, const std::string& out_dir) {
  const std::string package = request.name.empty() ? request.task->name : request.name;
  LATHE_CHECK_OK(check(request, package));
  std::error_code ignored;
  const bool is_new = !fs::exists(out_dir, ignored);
  LATHE_CHECK_OK(check_folder(out_dir));
  Status written = write_package(request, package, staging_in(out_dir));
  if (written.ok()) {
    remove_earlier(out_dir);
    written = move_into(out_dir);
  }
  fs::remove_all(staging_in(out_dir), ignored);
  // Half a package would only keep the next export from its place.
  if (!written.ok() && is_new) fs::remove_all(out_dir, ignored);
  return written;
}

}  // namespace lathe
