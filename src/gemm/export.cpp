#include "gemm/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "backend/installation.h"
#include "base/fd.h"
#include "base/output.h"
#include "base/parallel.h"
#include "base/process.h"
#include "gemm/catalogue.h"
#include "gemm/kernel_source.h"
#include "gemm/tuner.h"

namespace lathe::gemm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);
constexpr const char* kRuntime[] = {"driver.cpp",   "driver.h",      "gemm.cpp",   "launch.cpp",
                                    "launch.h",     "library.h",     "plan.cpp",   "plan.h",
                                    "lathe_gemm.h", "workspace.cpp", "workspace.h"};

constexpr const char* kCubins = R"(    .section .rodata
    .global lathe_gemm_cubins
    .hidden lathe_gemm_cubins
    .balign 64
lathe_gemm_cubins:
    .incbin "cubins.bin"
    .section .note.GNU-stack,"",@progbits
)";

/// The interface, and nothing of the C++ library that was compiled in.
constexpr const char* kExports = "{ global: lathe_*; local: *; };\n";

constexpr const char* kCMake = R"(# Builds lib/liblathe_gemm.so again.
cmake_minimum_required(VERSION 3.20)
project(lathe_gemm LANGUAGES CXX ASM)
file(GLOB sources CONFIGURE_DEPENDS src/gemm/runtime/*.cpp)
add_library(lathe_gemm SHARED ${sources} src/table.cpp src/cubins.S)
target_include_directories(lathe_gemm PRIVATE src)
set_source_files_properties(src/cubins.S PROPERTIES COMPILE_OPTIONS "-Wa,-I${CMAKE_CURRENT_SOURCE_DIR}/src"
                            OBJECT_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/cubins.bin)
target_compile_features(lathe_gemm PRIVATE cxx_std_20)
set_target_properties(lathe_gemm PROPERTIES CXX_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
target_link_options(lathe_gemm PRIVATE "-Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/src/exports.map")
target_link_libraries(lathe_gemm PRIVATE ${CMAKE_DL_LIBS})
)";

constexpr const char* kConfig = R"(# find_package(lathe_gemm) gives lathe::gemm.
get_filename_component(_lathe_gemm "${CMAKE_CURRENT_LIST_DIR}" ABSOLUTE)
if(NOT TARGET lathe::gemm)
  add_library(lathe::gemm SHARED IMPORTED)
  set_target_properties(lathe::gemm PROPERTIES
    IMPORTED_LOCATION "${_lathe_gemm}/lib/liblathe_gemm.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_lathe_gemm}/include")
endif()
unset(_lathe_gemm)
)";

/// What the library is made of: each kernel once.
struct Contents {
  std::vector<Plan> plans;
  std::vector<TunedSize> entries;

  std::size_t add(const Plan& plan) {
    const auto found = std::find(plans.begin(), plans.end(), plan);
    if (found != plans.end()) return static_cast<std::size_t>(found - plans.begin());
    plans.push_back(plan);
    return plans.size() - 1;
  }
};

Result<Contents> contents_of(const std::vector<Journal>& journals) {
  Contents contents;
  for (const Journal& journal : journals)
    for (const Choice& choice : journal.choices()) {
      Plan plan;
      if (!plan_of(choice.kernel, plan))
        return invalid("'" + choice.kernel + "' is no kernel of this version",
                       "tune " + choice.kernel + " again");
      contents.entries.push_back({journal.track(), choice.size, contents.add(plan)});
    }
  // Of two journals of a track the last counts.
  std::stable_sort(contents.entries.begin(), contents.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.track, a.size) < std::tie(b.track, b.size);
  });
  std::reverse(contents.entries.begin(), contents.entries.end());
  const auto twice =
      std::unique(contents.entries.begin(), contents.entries.end(),
                  [](const auto& a, const auto& b) { return a.track == b.track && a.size == b.size; });
  contents.entries.erase(twice, contents.entries.end());
  std::reverse(contents.entries.begin(), contents.entries.end());
  for (const Layout layout : {Layout::kNN, Layout::kTN, Layout::kNT, Layout::kTT})
    for (const auto& plans : {general_plans(layout), broad_plans(layout)})
      for (const Plan& plan : plans) contents.add(plan);
  return contents;
}

Result<std::vector<std::string>> build_all(const Compile& compile, const std::vector<Plan>& plans,
                                           bool (*wanted)(const Plan&)) {
  std::vector<std::string> cubins(plans.size());
  LATHE_CHECK_OK(for_each_index(static_cast<int>(plans.size()), [&](int i) -> Status {
    const auto at = static_cast<std::size_t>(i);
    if (!wanted(plans[at])) return Ok{};
    LATHE_TRY(Build build, compile(kernel_source(plans[at]), Inspect::kYes));
    if (const Status usable = check_code(build, plans[at]); !usable.ok())
      return invalid(name_of(plans[at]) + ": " + usable.error().message);
    cubins[at] = std::move(build.cubin);
    return Ok{};
  }));
  return cubins;
}

/// Appends it at a multiple of 64 bytes, where the driver wants it.
std::size_t append(std::string& bytes, const std::string& cubin) {
  if (cubin.empty()) return kAbsent;
  bytes.resize((bytes.size() + 63) / 64 * 64);
  const std::size_t at = bytes.size();
  bytes += cubin;
  return at;
}

Status write_sources(const std::string& folder, const std::string& table, const std::string& cubins) {
  LATHE_TRY(const std::string runtime, find_data_folder("src/gemm/runtime", "gemm.cpp"));
  std::error_code code;
  fs::create_directories(folder + "/src/gemm/runtime", code);
  fs::create_directories(folder + "/include", code);
  fs::create_directories(folder + "/lib", code);
  for (const char* name : kRuntime) {
    LATHE_TRY(const std::string text, read_file(runtime + "/" + name));
    LATHE_CHECK_OK(replace_file(folder + "/src/gemm/runtime/" + name, text));
  }
  LATHE_TRY(const std::string header, read_file(runtime + "/lathe_gemm.h"));
  LATHE_CHECK_OK(replace_file(folder + "/include/lathe_gemm.h", header));
  LATHE_CHECK_OK(replace_file(folder + "/src/table.cpp", table));
  LATHE_CHECK_OK(replace_file(folder + "/src/cubins.S", kCubins));
  LATHE_CHECK_OK(replace_file(folder + "/src/exports.map", kExports));
  LATHE_CHECK_OK(replace_file(folder + "/src/cubins.bin", cubins));
  LATHE_CHECK_OK(replace_file(folder + "/CMakeLists.txt", kCMake));
  return replace_file(folder + "/lathe_gemmConfig.cmake", kConfig);
}

Status link_library(const std::string& folder) {
  const std::string src = folder + "/src", runtime = src + "/gemm/runtime/";
  const Command command{{"g++",
                         "-std=c++20",
                         "-O2",
                         "-shared",
                         "-fPIC",
                         "-fvisibility=hidden",
                         "-I",
                         src,
                         "-Wa,-I" + src,
                         runtime + "driver.cpp",
                         runtime + "gemm.cpp",
                         runtime + "launch.cpp",
                         runtime + "plan.cpp",
                         runtime + "workspace.cpp",
                         src + "/table.cpp",
                         src + "/cubins.S",
                         "-ldl",
                         "-Wl,-soname,liblathe_gemm.so",
                         "-Wl,--version-script=" + src + "/exports.map",
                         "-o",
                         folder + "/lib/liblathe_gemm.so"}};
  LATHE_TRY(const Completed linked, run_command(command, {}, 300));
  if (linked.status.ok()) return Ok{};
  return Error{ErrorCode::kUnavailable, "g++ cannot build the library: " + linked.errors.substr(0, 2000),
               "install g++ 11 or later"};
}

}  // namespace

std::string table_source(const std::vector<Plan>& plans,
                         const std::vector<std::pair<std::size_t, std::size_t>>& offsets,
                         const std::vector<TunedSize>& entries) {
  std::string text =
      "#include \"gemm/runtime/library.h\"\n\nextern \"C\" const unsigned char lathe_gemm_cubins[];\n\n"
      "namespace lathe::gemm {\nnamespace {\n\nconst unsigned char* const kCubins = lathe_gemm_cubins;\n\n"
      "const Image kImages[] = {\n";
  const auto cubin = [](std::size_t offset) {
    return offset == kAbsent ? "nullptr" : fmt::format("kCubins + {}", offset);
  };
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Plan& p = plans[i];
    text +=
        fmt::format("    // {}\n    {{{{Skeleton{{{}}}, Layout{{{}}}, Edges{{{}}}, {}, {}, {}, {}, {}, {}, ",
                    name_of(p), int(p.skeleton), int(p.layout), int(p.edges), p.persistent, p.plain_store,
                    p.in_turn, p.gathers, p.transposed, p.half_sums);
    text += fmt::format("{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}},\n", p.rows, p.columns, p.depth,
                        p.stages, p.down, p.across, p.slices, p.split, p.share_b, p.share_a, p.band, p.blocks,
                        p.steps);
    text += fmt::format("     {}, {}}},\n", cubin(offsets[i].first), cubin(offsets[i].second));
  }
  text += "};\n\n";
  if (!entries.empty()) {
    text += "constexpr Entry kEntries[] = {\n";
    for (const auto& [track, size, image] : entries)
      text += fmt::format("    {{{{Layout{{{}}}, {}}}, {}, {}, {}, {}}},\n", int(track.layout),
                          track.half_sums, size.m, size.n, size.k, image);
    text += "};\n\n";
  }
  text += fmt::format("const Library kLibrary = {{kImages, {}, {}, {}}};\n\n", plans.size(),
                      entries.empty() ? "nullptr" : "kEntries", entries.size());
  return text +
         "}  // namespace\n\nconst Library& library() { return kLibrary; }\n\n}  // namespace lathe::gemm\n";
}

Result<ExportReport> export_library(const std::vector<Journal>& journals, const ExportTargets& targets,
                                    const std::string& folder) {
  LATHE_TRY(const Contents contents, contents_of(journals));
  LATHE_TRY(const auto sm90, build_all(targets.sm90, contents.plans, [](const Plan&) { return true; }));
  std::vector<std::string> sm80(contents.plans.size());
  if (targets.sm80) {
    LATHE_TRY(sm80, build_all(targets.sm80, contents.plans, [](const Plan& plan) {
                return is_portable(plan) && plan.edges != Edges::kWhole;
              }));
  }
  std::string cubins;
  std::vector<std::pair<std::size_t, std::size_t>> offsets;
  for (std::size_t i = 0; i < contents.plans.size(); ++i) {
    const std::size_t first = append(cubins, sm90[i]);
    offsets.emplace_back(first, append(cubins, sm80[i]));
  }
  LATHE_CHECK_OK(write_sources(folder, table_source(contents.plans, offsets, contents.entries), cubins));
  LATHE_CHECK_OK(link_library(folder));
  return ExportReport{static_cast<int>(contents.plans.size()), static_cast<int>(contents.entries.size()),
                      cubins.size()};
}

}  // namespace lathe::gemm
