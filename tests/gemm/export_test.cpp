#include "gemm/export.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd.h"
#include "base/output.h"
#include "base/process.h"
#include "gemm/runtime/lathe_gemm.h"
#include "gemm/tuner.h"

namespace lathe::gemm {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kTuned = "direct_tn_16x16x32_w1x1_g2_s1_c1_m1_n1_b1_o1_k1_vectors";

constexpr const char* kUser = R"(
#include <lathe_gemm.h>
#include <string.h>
int main(void) {
  lathe_gemm_handle handle;
  return lathe_gemm_create(&handle) == LATHE_GEMM_NO_DEVICE && strlen(lathe_gemm_last_error()) > 0 &&
                 strstr(lathe_gemm_kernel(LATHE_GEMM_TN, 64, 64, 64, 0), "direct_tn_16x16")
             ? 0
             : 1;
}
)";

/// Its kernels are no machine code: nothing loads them here.
class GemmExport : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    auto journal = Journal::open(folder_ + "/journal.jsonl");
    ASSERT_TRUE(journal.ok());
    ASSERT_TRUE(journal->add(Choice{.size = {64, 64, 64}, .kernel = kTuned}).ok());
    const auto report = export_library({*journal}, {compile_, compile_}, folder_ + "/package");
    ASSERT_TRUE(report.ok()) << report.error().to_string();
    EXPECT_EQ(report->tuned_sizes, 1);
    EXPECT_GT(report->kernels, 40);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string run(const std::string& command) {
    const auto done = run_command({{"sh", "-c", command}}, {}, 120);
    EXPECT_TRUE(done.ok() && done->status.ok()) << command << "\n"
                                                << (done.ok() ? done->errors : done.error().message);
    return done.ok() ? done->output : "";
  }

  const std::string folder_ = testing::TempDir() + "gemm_export_test" + std::to_string(::getpid());
  const Compile compile_ = [](const std::string& source, Inspect) -> Result<Build> {
    return Build{"cubin of " + source, {}};
  };
};

TEST_F(GemmExport, ALibraryOfItsOwnWithNothingButItsInterface) {
  const std::string library = folder_ + "/package/lib/liblathe_gemm.so";
  EXPECT_EQ(run("nm -D --defined-only " + library + " | grep -c ' T lathe_'"), "10\n");
  EXPECT_EQ(run("nm -D --defined-only " + library + " | grep -vc lathe_ || true"), "0\n")
      << run("nm -DC --defined-only " + library);
  EXPECT_EQ(run("readelf -d " + library +
                " | grep NEEDED | grep -vcE 'libstdc|libgcc|libc\\.|libm\\.|ld-linux' || true"),
            "0\n");
}

TEST_F(GemmExport, ACProgramFindsAndUsesThePackage) {
  fs::create_directories(folder_ + "/user");
  ASSERT_TRUE(replace_file(folder_ + "/user/main.c", kUser).ok());
  ASSERT_TRUE(replace_file(folder_ + "/user/CMakeLists.txt",
                           "cmake_minimum_required(VERSION 3.20)\nproject(user LANGUAGES C)\n"
                           "find_package(lathe_gemm REQUIRED)\nadd_executable(user main.c)\n"
                           "target_link_libraries(user PRIVATE lathe::gemm)\n")
                  .ok());
  run("cmake -G Ninja -S " + folder_ + "/user -B " + folder_ + "/build -Dlathe_gemm_DIR=" + folder_ +
      "/package >/dev/null && cmake --build " + folder_ +
      "/build >/dev/null && CUDA_VISIBLE_DEVICES= " + folder_ + "/build/user");
}

TEST_F(GemmExport, AJournalOfEachTrackGoesIntoOneTable) {
  const DeviceFacts gpu{"a GPU", 132};
  std::vector<Journal> journals;
  for (const Track& track : {Track{Layout::kTN, true}, Track{Layout::kNT, false}, Track{Layout::kTN, true}}) {
    auto journal = Journal::open(folder_ + "/" + std::to_string(journals.size()) + ".jsonl");
    ASSERT_TRUE(journal->begin(gpu, track).ok());
    const std::string stages = journals.size() == 2 ? "s8" : "s6";
    const std::string kernel = std::string("wgmma_") + name_of(track.layout) + "_64x64x64_w1x1_g1_" + stages +
                               "_c1_m1_n1_b0_o1_k0_" + (track.half_sums ? "half_vectors" : "vectors");
    ASSERT_TRUE(journal->add(Choice{.size = {64, 64, 512}, .kernel = kernel}).ok());
    journals.push_back(*std::move(journal));
  }
  const auto report = export_library(journals, {compile_, {}}, folder_ + "/tracks");
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_EQ(report->tuned_sizes, 2);
  const std::string table = read_file(folder_ + "/tracks/src/table.cpp").value();
  const auto fp16 = table.find("{{Layout{1}, true}, 64, 64, 512, 2}"),
             nt = table.find("{{Layout{2}, false}, 64, 64, 512, 1}");
  ASSERT_NE(fp16, table.npos) << "the last journal's choice, " << table.substr(table.find("kEntries"));
  ASSERT_NE(nt, table.npos);
  EXPECT_LT(fp16, nt);
}

TEST_F(GemmExport, AKernelThatNoLongerExistsIsNamed) {
  auto journal = Journal::open(folder_ + "/other.jsonl");
  ASSERT_TRUE(journal->add(Choice{.size = {64, 64, 64}, .kernel = "magic"}).ok());
  EXPECT_THAT(export_library({*journal}, {compile_, {}}, folder_ + "/none").error().message,
              HasSubstr("magic"));
  EXPECT_FALSE(fs::exists(folder_ + "/none"));
}

}  // namespace
}  // namespace lathe::gemm
