#include "backend/host/extension_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/fd.h"
#include "base/process.h"
#include "record/json.h"

namespace lathe::host {
namespace {

constexpr double kPrecompileSeconds = 300;
constexpr std::size_t kLongestFlag = 200;
const std::vector<std::string> kFlags = {"-O3",
                                         "-march=native",
                                         "-std=c++17",
                                         "-fPIC",
                                         "-w",
                                         "-D_GLIBCXX_USE_CXX11_ABI=1",
                                         "-DTORCH_API_INCLUDE_EXTENSION_H"};
const std::vector<std::string> kLibraries = {"-shared", "-Wl,--no-as-needed", "-lc10", "-ltorch_cpu",
                                             "-ltorch", "-ltorch_python"};

const std::vector<std::string> kFlagsOfC = {"-x", "c", "-O3", "-fPIC", "-w", "-shared"};

/// What a candidate may add: how code is made, not where anything is.
bool is_harmless(const std::string& flag) {
  static const std::regex known(
      "-O[0-3s]|-Ofast|-m[a-z0-9=.-]+|-f[a-z0-9=-]+|-std=(gnu|c)\\+\\+[0-9a-z]+|-D[A-Za-z_]"
      "[A-Za-z0-9_]*(=[A-Za-z0-9_.]*)?|-W[a-z][a-z0-9=-]*|-g0?|-pthread");
  return std::regex_match(flag, known) && !flag.starts_with("-fplugin") && !flag.starts_with("-fdump") &&
         !flag.starts_with("-fprofile") && !flag.starts_with("-fpreprocessed");
}

std::vector<std::string> include_flags(const Python& python) {
  std::vector<std::string> flags;
  for (const std::string& folder : python.includes) {
    flags.emplace_back("-isystem");
    flags.push_back(folder);
  }
  return flags;
}

Status precompile(const Python& python, const std::string& staging) {
  LATHE_CHECK_OK(make_directories(staging + "/torch"));
  LATHE_CHECK_OK(
      write_file_atomically(staging + "/torch/extension.h", "#include_next <torch/extension.h>\n"));
  std::vector<std::string> argv = {"/usr/bin/g++"};
  argv.insert(argv.end(), kFlags.begin(), kFlags.end());
  argv.emplace_back("-I.");
  for (std::string& flag : include_flags(python)) argv.push_back(std::move(flag));
  argv.insert(argv.end(), {"-x", "c++-header", "torch/extension.h", "-o", "torch/extension.h.gch"});
  LATHE_TRY(const Completed run, run_command({.argv = argv, .folder = staging}, {}, kPrecompileSeconds));
  if (!run.status.ok())
    return Error{ErrorCode::kUnavailable, "torch's headers cannot be compiled: " + run.errors.substr(0, 2000),
                 "Debian: apt-get install g++ libtorch-dev pybind11-dev python3-dev"};
  return Ok{};
}

/// Empty where there is none: the document is the candidate's.
std::string text_in(const nlohmann::json& document, const char* key) {
  const auto found = document.find(key);
  return found != document.end() && found->is_string() ? found->get<std::string>() : "";
}

CompiledExtension refused(std::string reason, std::string log) {
  return {false, std::move(reason), std::move(log), {}};
}

}  // namespace

/// How requests of a kind are compiled.
struct ExtensionBuilder::Language {
  std::vector<std::string> flags, libraries;
  std::string before;  ///< the source
  bool precompiled = false;
};

Result<CompileShop*> ExtensionBuilder::shop(bool precompiled) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<CompileShop>& shop = precompiled ? shop_ : plain_shop_;
  if (shop) return shop.get();
  const Digest headers =
      Hasher().add(python_.version).add(fmt::format("{}", fmt::join(kFlags, " "))).finish();
  const auto fill = [this, precompiled](const std::string& staging) {
    return precompiled ? precompile(python_, staging) : make_directories(staging + "/none");
  };
  const auto arguments = [this](const std::string& work, const std::string& include) {
    std::vector<std::string> args = {"compile", std::string(name(options_.jail)), work, include};
    for (const auto* folders : {&python_.folders, &python_.includes})
      for (const std::string& folder : *folders)
        if (!folder.starts_with("/usr/")) args.push_back(folder);
    return args;
  };
  LATHE_TRY(shop, CompileShop::open({.cache_folder = options_.cache_folder,
                                     .header_name = precompiled ? "include-torch-" + headers.short_hex()
                                                                : std::string("include-none"),
                                     .fill_headers = fill,
                                     .runner_program = options_.compile_program,
                                     .worker_args = arguments,
                                     .worker_processors = options_.processors}));
  return shop.get();
}

Result<CompiledExtension> ExtensionBuilder::build(const std::string& request, const CancelToken& cancel) {
  const auto document = parse_json(request, "a load_inline request");
  if (!document.ok() || !document->is_object()) return refused("bad_extension", "the request cannot be read");
  const std::string label = text_in(*document, "name");
  if (!std::regex_match(label, std::regex("[A-Za-z_][A-Za-z0-9_]{0,63}")))
    return refused("bad_extension", "an extension's name must be an identifier");
  // A precompiled header serves only as the first thing in a unit.
  const std::string header =
      "#include <torch/extension.h>\n#define TORCH_EXTENSION_NAME " + label + "\n#line 1 \"" + label + "\"\n";
  if (text_in(*document, "kind") == "c") return compile({kFlagsOfC, {}, "", false}, *document, cancel);
  return compile({kFlags, kLibraries, header, true}, *document, cancel);
}

Result<CompiledExtension> ExtensionBuilder::compile(const Language& language, const nlohmann::json& document,
                                                    const CancelToken& cancel) {
  protocol::CompileJob job;
  job.timeout_seconds = options_.timeout_seconds;
  job.flags = language.flags;
  for (std::string& flag : include_flags(python_)) job.flags.push_back(std::move(flag));
  for (const auto& given : document.value("flags", nlohmann::json::array())) {
    std::string flag = given.is_string() ? given.get<std::string>() : "";
    if (flag.size() > kLongestFlag) flag.clear();  // std::regex takes the stack for each character
    if (!is_harmless(flag))
      return refused("bad_extension",
                     "the flag " + json_text(given).substr(0, kLongestFlag) + " is not allowed");
    job.flags.push_back(flag);
  }
  for (const std::string& folder : python_.libraries) job.flags.push_back("-L" + folder);
  job.flags.insert(job.flags.end(), language.libraries.begin(), language.libraries.end());
  job.source = language.before + text_in(document, "source");
  LATHE_TRY(CompileShop* const shop, this->shop(language.precompiled));
  Hasher hasher;
  hasher.add(python_.version).add(shop->header_folder()).add(job.source);
  for (const std::string& flag : job.flags) hasher.add(flag);
  const Digest key = hasher.finish();
  if (auto known = shop->find(key)) return CompiledExtension{.ok = true, .object = *std::move(known)};
  LATHE_TRY(CompiledObject object, shop->run(std::move(job), cancel));
  CompiledExtension result{object.reply.ok, object.reply.timed_out ? "compile_timeout" : "compile_error",
                           std::move(object.reply.log), std::move(object.bytes), object.reply.seconds};
  if (result.ok) shop->publish(key, result.object);
  return result;
}

}  // namespace lathe::host
