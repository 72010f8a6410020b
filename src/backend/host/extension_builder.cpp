#include "backend/host/extension_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
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

const std::vector<std::string> kFlagsOfKernels = {"-O3",
                                                  "-std=c++17",
                                                  "-w",
                                                  "-Xcompiler=-fPIC,-w",
                                                  "-D_GLIBCXX_USE_CXX11_ABI=1",
                                                  "-DTORCH_API_INCLUDE_EXTENSION_H",
                                                  "--expt-relaxed-constexpr"};
const std::vector<std::string> kTorchOfKernels = {"torch_cuda",
                                                  "c10_cuda"};  // not of a PyTorch for processors
constexpr double kKernelSeconds = 300;
constexpr const char* kKernelsFolder = "/kernels";  // of headers, in that of the binding's

/// Tensors and what allocates them, in place of all that is declared for torch's users.
constexpr const char* kTensorHeader = R"(#ifndef LATHE_TENSOR_HEADER
#define LATHE_TENSOR_HEADER
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#define AT_PER_OPERATOR_HEADERS
#include <ATen/TensorOperators.h>
#undef AT_PER_OPERATOR_HEADERS
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
namespace torch {
using namespace at;
using Dtype = at::ScalarType;
constexpr auto kUInt8 = at::kByte;
constexpr auto kInt8 = at::kChar;
constexpr auto kInt16 = at::kShort;
constexpr auto kInt32 = at::kInt;
constexpr auto kInt64 = at::kLong;
constexpr auto kFloat16 = at::kHalf;
constexpr auto kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;
}  // namespace torch
#endif
)";
/// And what gives functions of tensors to Python.
constexpr const char* kBindingHeader = R"(#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
)";
constexpr std::array kNamesOfTorch = {"/torch/extension.h", "/torch/types.h", "/torch/all.h",
                                      "/torch/torch.h"};
/// What it declares, of namespaces `torch` and `at`, beside constants.
constexpr std::string_view kTensorNames =
    " ArrayRef BFloat16 DefaultPtrTraits Device DeviceType Dtype Half IntArrayRef MemoryFormat "
    "PackedTensorAccessor32 PackedTensorAccessor64 RestrictPtrTraits Scalar ScalarType Tensor TensorList "
    "TensorOptions cuda device dtype empty empty_like full full_like ones ones_like wrap_pybind_function "
    "zeros zeros_like ";

const std::vector<std::string> kFlagsOfC = {"-x", "c", "-O3", "-fPIC", "-w", "-shared"};

/// What a candidate may add: how code is made, not where anything is.
bool is_harmless(const std::string& flag) {
  static const std::regex known(
      "-O[0-3s]|-Ofast|-m[a-z0-9=.-]+|-f[a-z0-9=-]+|-std=(gnu|c)\\+\\+[0-9a-z]+|-D[A-Za-z_]"
      "[A-Za-z0-9_]*(=[A-Za-z0-9_.]*)?|-W[a-z][a-z0-9=-]*|-g0?|-pthread");
  return std::regex_match(flag, known) && !flag.starts_with("-fplugin") && !flag.starts_with("-fdump") &&
         !flag.starts_with("-fprofile") && !flag.starts_with("-fpreprocessed");
}

/// The same for nvcc. Those that choose a GPU are the device's own.
bool is_harmless_to_nvcc(const std::string& flag) {
  static const std::regex known(
      "-O[0-3]|-?-use_fast_math|-lineinfo|--expt-[a-z-]+|-?-maxrregcount=[0-9]+|"
      "-?-(ftz|fmad|prec-div|prec-sqrt)=(true|false)|-?-extra-device-vectorization|-std=c\\+\\+[0-9a-z]+|"
      "-D[A-Za-z_][A-Za-z0-9_]*(=[A-Za-z0-9_.]*)?");
  return std::regex_match(flag, known);
}
/// False for a text that names something else of torch; one that hides it is compiled again.
bool needs_only_tensors(std::string_view text) {
  const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = text.find("::"); at != std::string_view::npos; at = text.find("::", at + 2)) {
    std::size_t begin = at, end = at + 2;
    while (begin > 0 && in_name(text[begin - 1])) --begin;
    while (end < text.size() && in_name(text[end])) ++end;
    const std::string_view scope = text.substr(begin, at - begin), name = text.substr(at + 2, end - at - 2);
    const bool constant =
        name.size() > 1 && name[0] == 'k' && !std::islower(static_cast<unsigned char>(name[1]));
    const bool known = constant || kTensorNames.find(fmt::format(" {} ", name)) != std::string_view::npos;
    if ((scope == "torch" || scope == "at") && !known) return false;
  }
  return true;
}

/// Whether a name that nvcc does not know is one of torch's functions, which an argument's type
/// finds.
bool lacks_function(const Python& python, std::string_view log) {
  constexpr std::string_view kBefore = "identifier \"", kBehind = "\" is undefined";
  for (std::size_t at = log.find(kBefore); at != std::string_view::npos; at = log.find(kBefore, at + 1)) {
    const std::string_view rest = log.substr(at + kBefore.size());
    const std::string name(rest.substr(0, rest.find('"')));
    if (!rest.substr(name.size()).starts_with(kBehind) || name.find('/') != std::string::npos) continue;
    for (const std::string& folder : python.includes)
      if (std::filesystem::exists(folder + "/ATen/ops/" + name + ".h")) return true;
  }
  return false;
}

/// Whether what did not compile may do so with more of torch.
bool may_lack_a_header(const Python& python, std::string_view log, std::string_view text) {
  const auto has = [](std::string_view all, std::string_view part) {
    return all.find(part) != std::string_view::npos;
  };
  for (const char* const said :
       {"has no member", "is not a member of", "incomplete type", "was not declared in this scope",
        "expected constructor", "no match for", "no matching function", "no operator \"", "no instance of",
        "does not name a type", "has not been declared"})
    if (has(log, said)) return true;
  return lacks_function(python, log) || (has(log, "is undefined") && has(text, "using "));
}

bool chooses_gpu(const std::string& flag) {
  return flag.starts_with("-arch") || flag.starts_with("-gencode") || flag.starts_with("--gpu-");
}

/// Empty where there is none.
std::string find_nvcc() {
  std::vector<std::string> folders = {"/usr/local/cuda", "/usr"};
  if (const char* const home = std::getenv("CUDA_HOME"); home && *home) folders.insert(folders.begin(), home);
  for (const std::string& folder : folders) {
    std::error_code code;
    if (const auto found = std::filesystem::canonical(folder + "/bin/nvcc", code); !code) return found;
  }
  return {};
}

std::string toolkit_of(const std::string& nvcc) {
  return std::filesystem::path(nvcc).parent_path().parent_path().string();
}

/// Of programs with kernels, beside those of the others.
std::vector<std::string> libraries_of_kernels(const Python& python, const std::string& nvcc) {
  std::vector<std::string> flags;
  for (const char* folder : {"/../lib64", "/../targets/x86_64-linux/lib"})
    flags.push_back("-L" + std::filesystem::path(nvcc).parent_path().string() + folder);
  for (const std::string& name : kTorchOfKernels)
    if (std::ranges::any_of(python.libraries, [&](const std::string& folder) {
          return std::filesystem::exists(folder + "/lib" + name + ".so");
        }))
      flags.push_back("-l" + name);
  flags.emplace_back("-lcudart");
  return flags;
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

/// For units with tensors alone: kernels include what their binding does, less Python.
Status fill_few_headers(const Python& python, const std::string& staging) {
  for (const std::string& folder : {staging, staging + kKernelsFolder})
    LATHE_CHECK_OK(make_directories(folder + "/torch"));
  for (const std::string name : kNamesOfTorch) {
    LATHE_CHECK_OK(write_file_atomically(staging + name, std::string(kTensorHeader) + kBindingHeader));
    LATHE_CHECK_OK(write_file_atomically(staging + kKernelsFolder + name, kTensorHeader));
  }
  return precompile(python, staging);
}

Status fill_all_headers(const Python& python, const std::string& staging) {
  for (const std::string& folder : {staging, staging + kKernelsFolder})
    LATHE_CHECK_OK(make_directories(folder + "/torch"));
  LATHE_CHECK_OK(
      write_file_atomically(staging + "/torch/extension.h", "#include_next <torch/extension.h>\n"));
  LATHE_CHECK_OK(
      write_file_atomically(staging + kKernelsFolder + "/torch/extension.h", "#include <torch/types.h>\n"));
  return precompile(python, staging);
}

/// Empty where there is none: the document is the candidate's.
std::string text_in(const nlohmann::json& document, const char* key) {
  const auto found = document.find(key);
  return found != document.end() && found->is_string() ? found->get<std::string>() : "";
}

/// The candidate's. An Error for one that is not allowed.
template <class IsAllowed>
Result<std::vector<std::string>> flags_in(const nlohmann::json& document, const char* key,
                                          IsAllowed is_allowed) {
  std::vector<std::string> flags;
  for (const auto& given : document.value(key, nlohmann::json::array())) {
    std::string flag = given.is_string() ? given.get<std::string>() : "";
    if (flag.size() > kLongestFlag) flag.clear();  // std::regex takes the stack for each character
    if (!is_allowed(flag))
      return invalid("the flag " + json_text(given).substr(0, kLongestFlag) + " is not allowed");
    flags.push_back(std::move(flag));
  }
  return flags;
}

CompiledExtension refused(std::string reason, std::string log) {
  return {false, std::move(reason), std::move(log), {}};
}

}  // namespace

/// How requests of a kind are compiled.
struct ExtensionBuilder::Language {
  std::vector<std::string> flags, libraries;
  std::string before;     ///< the source
  std::string nvcc = {};  ///< for kernels beside it
  double timeout_seconds = 0;
};

Result<CompileShop*> ExtensionBuilder::shop(Headers headers) {
  const bool few = headers == Headers::kTensor, none = headers == Headers::kNone;
  Place& place = shops_[none ? 0 : few ? 1 : 2];
  std::lock_guard lock(place.mutex);
  if (place.shop) return place.shop.get();
  const Digest digest = Hasher()
                            .add(python_.version)
                            .add(fmt::format("{}", fmt::join(kFlags, " ")))
                            .add(kTensorHeader)
                            .finish();
  const auto fill = [this, few, none](const std::string& staging) {
    if (none) return make_directories(staging + "/none");
    return few ? fill_few_headers(python_, staging) : fill_all_headers(python_, staging);
  };
  const auto arguments = [this](const std::string& work, const std::string& include) {
    std::vector<std::string> args = {"compile", std::string(name(options_.jail)), work, include};
    for (const auto* folders : {&python_.folders, &python_.includes})
      for (const std::string& folder : *folders)
        if (!folder.starts_with("/usr/")) args.push_back(folder);
    if (const std::string nvcc = find_nvcc(); !options_.arch.empty() && !nvcc.starts_with("/usr/"))
      args.push_back(toolkit_of(nvcc));
    return args;
  };
  const std::string folder = none ? "include-none" : few ? "include-tensor-" : "include-torch-";
  LATHE_TRY(place.shop, CompileShop::open({.cache_folder = options_.cache_folder,
                                           .header_name = none ? folder : folder + digest.short_hex(),
                                           .fill_headers = fill,
                                           .runner_program = options_.compile_program,
                                           .worker_args = arguments,
                                           .worker_processors = options_.processors}));
  return place.shop.get();
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
  const std::string kind = text_in(*document, "kind");
  if (kind == "c")
    return compile({kFlagsOfC, {}, "", {}, options_.timeout_seconds}, *document, Headers::kNone, cancel);
  Language language{kFlags, kLibraries, header, {}, options_.timeout_seconds};
  if (kind != "cuda") return compile_with_few(language, *document, cancel);
  language.nvcc = find_nvcc();
  if (options_.arch.empty()) return refused("bad_extension", "this device runs no CUDA sources");
  if (language.nvcc.empty())
    return refused("bad_extension", "this machine has no nvcc: set CUDA_HOME, or install CUDA's toolkit");
  language.timeout_seconds = kKernelSeconds;
  // What torch includes of CUDA is the toolkit's; Triton's folder has headers of another version.
  // Those of /usr are found anyway.
  if (const std::string toolkit = toolkit_of(language.nvcc); toolkit != "/usr") {
    language.flags.emplace_back("-isystem");
    language.flags.push_back(toolkit + "/include");
  }
  for (std::string& flag : libraries_of_kernels(python_, language.nvcc))
    language.libraries.push_back(std::move(flag));
  return compile_with_few(language, *document, cancel);
}

Result<CompiledExtension> ExtensionBuilder::compile_with_few(const Language& language,
                                                             const nlohmann::json& document,
                                                             const CancelToken& cancel) {
  const std::string text = text_in(document, "source") + text_in(document, "kernels");
  std::vector<Headers> attempts = {Headers::kAll};
  if (!language.nvcc.empty()) attempts.insert(attempts.begin(), Headers::kTypes);
  if (needs_only_tensors(text)) attempts.insert(attempts.begin(), Headers::kTensor);
  CompiledExtension made;
  for (const Headers headers : attempts) {
    LATHE_TRY(made, compile(language, document, headers, cancel));
    if (made.ok || made.reason != "compile_error" || !may_lack_a_header(python_, made.log, text)) break;
  }
  return made;
}

Result<protocol::CudaUnit> ExtensionBuilder::kernels_of(const Language& language,
                                                        const nlohmann::json& document,
                                                        const std::string& own_headers) const {
  protocol::CudaUnit unit{language.nvcc, {}, kFlagsOfKernels};
  // By -arch it would make code for another one as well.
  const std::string number = options_.arch.substr(options_.arch.find('_'));
  unit.flags.push_back("-gencode=arch=compute" + number + ",code=sm" + number);
  unit.flags.push_back("-DTORCH_EXTENSION_NAME=" + text_in(document, "name"));
  if (!own_headers.empty()) unit.flags.push_back("-I" + own_headers);
  for (std::string& flag : include_flags(python_)) unit.flags.push_back(std::move(flag));
  LATHE_TRY(auto own, flags_in(document, "kernel_flags", [](const std::string& flag) {
              return chooses_gpu(flag) || is_harmless_to_nvcc(flag);
            }));
  std::erase_if(own, chooses_gpu);
  unit.flags.insert(unit.flags.end(), own.begin(), own.end());
  unit.source = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n#line 1 \"" +
                text_in(document, "name") + ".cu\"\n" + text_in(document, "kernels");
  return unit;
}

Result<CompiledExtension> ExtensionBuilder::compile(const Language& language, const nlohmann::json& document,
                                                    Headers headers, const CancelToken& cancel) {
  protocol::CompileJob job;
  job.timeout_seconds = language.timeout_seconds;
  job.flags = language.flags;
  for (std::string& flag : include_flags(python_)) job.flags.push_back(std::move(flag));
  const auto own = flags_in(document, "flags", is_harmless);
  if (!own.ok()) return refused("bad_extension", own.error().message);
  job.flags.insert(job.flags.end(), own->begin(), own->end());
  for (const std::string& folder : python_.libraries) job.flags.push_back("-L" + folder);
  job.flags.insert(job.flags.end(), language.libraries.begin(), language.libraries.end());
  job.source = language.before + text_in(document, "source");
  LATHE_TRY(CompileShop* const shop, this->shop(headers));
  if (!language.nvcc.empty()) {
    auto kernels = kernels_of(language, document,
                              headers == Headers::kAll ? "" : shop->header_folder() + kKernelsFolder);
    if (!kernels.ok()) return refused("bad_extension", kernels.error().message);
    job.cuda = *std::move(kernels);
  }
  Hasher hasher;
  hasher.add(python_.version)
      .add(shop->header_folder())
      .add(job.source)
      .add(job.cuda.nvcc)
      .add(job.cuda.source);
  for (const auto* flags : {&job.flags, &job.cuda.flags})
    for (const std::string& flag : *flags) hasher.add(flag);
  const Digest key = hasher.finish();
  return compile_once(*shop, key, std::move(job), cancel);
}

/// A candidate is built at all of its shapes side by side: the first compiles, the others take what
/// it got.
struct ExtensionBuilder::Making {
  std::mutex mutex;
  std::optional<CompiledExtension> made;
};

Result<CompiledExtension> ExtensionBuilder::compile_once(CompileShop& shop, const Digest& key,
                                                         protocol::CompileJob job,
                                                         const CancelToken& cancel) {
  std::shared_ptr<Making> making;
  {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Making>& known = making_[key];
    if (!known) known = std::make_shared<Making>();
    making = known;
  }
  std::lock_guard turn(making->mutex);
  if (making->made) return *making->made;
  auto made = [&]() -> Result<CompiledExtension> {
    if (auto known = shop.find(key)) return CompiledExtension{.ok = true, .object = *std::move(known)};
    const double limit_seconds = job.timeout_seconds;
    LATHE_TRY(auto object, shop.run(std::move(job), cancel));
    CompiledExtension own{object.reply.ok, object.reply.timed_out ? "compile_timeout" : "compile_error",
                          std::move(object.reply.log), std::move(object.bytes)};
    if (object.reply.timed_out) own.log += fmt::format("not compiled after {:.0f} s", limit_seconds);
    own.seconds = object.reply.seconds;
    if (own.ok) shop.publish(key, own.object);
    return own;
  }();
  if (made.ok()) {
    making->made = *made;
    making->made->seconds = 0;  // spent once
  }
  std::lock_guard lock(mutex_);  // whoever waits for a cancelled one tries itself
  if (const auto found = making_.find(key); found != making_.end() && found->second == making)
    making_.erase(found);
  return made;
}

}  // namespace lathe::host
