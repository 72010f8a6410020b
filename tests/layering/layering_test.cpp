#include <gmock/gmock.h>

#include <regex>

#include "base/fd.h"
#include "tests/layering/include_rules.h"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

FolderOrder read_order(const std::string& path, const std::string& variable) {
  return read_folder_order(read_file(std::string(LATHE_SOURCE_DIR) + path).value(), variable);
}

HouseOrder real_order() {
  return {read_order("/src/CMakeLists.txt", "LATHE_FOLDERS"),
          read_order("/src/backend/cuda/CMakeLists.txt", "LATHE_CUDA_FOLDERS"),
          read_order("/src/policy/catalog/CMakeLists.txt", "LATHE_CATALOG_FOLDERS")};
}

std::vector<std::string> check(const std::string& path, const std::string& line) {
  return include_violations({{path, "#pragma once\n" + line + "\n"}}, real_order());
}

TEST(Layering, TheOrderIsTheHouses) {
  EXPECT_THAT(real_order().folders,
              ElementsAre("base", "task", "candidate", "record", "reward", "store", "sandbox", "backend",
                          "baseline", "gym", "conformance", "library", "prompt", "model", "policy", "search",
                          "data", "gemm", "serve", "report", "contest", "rl", "cli", "lm", "train"));
  EXPECT_THAT(real_order().cuda_folders, ElementsAre("wire", "broker", "runner"));
  EXPECT_THAT(real_order().catalog_folders, ElementsAre("ir", "lower", "fuse", "schedule", "cost", "emit"));
}

TEST(Layering, NoFileOfTheTreeIncludesUpwards) {
  const SourceTree tree = read_source_tree(std::string(LATHE_SOURCE_DIR) + "/src");
  ASSERT_GT(tree.size(), 100u);
  EXPECT_THAT(include_violations(tree, real_order()), IsEmpty());
}

TEST(Layering, OnlyOneFilePrintsAndSoNothingUntrustedIsPrintedAsItIs) {
  static const std::regex prints(R"(fmt::print\(|std::c(out|err|log)\b|\b(v?f?printf|f?put[sc]|fwrite)\()");
  std::vector<std::string> found;
  for (const auto& [path, text] : read_source_tree(std::string(LATHE_SOURCE_DIR) + "/src"))
    if (!path.starts_with("cli/console.") && std::regex_search(text, prints)) found.push_back(path);
  EXPECT_THAT(found, IsEmpty());
}

TEST(Layering, NothingThrowsWhereThereIsNoFolderForTemporaryFiles) {
  static const std::regex throws(R"(temp_directory_path\(\s*\))");
  std::vector<std::string> found;
  for (const auto& [path, text] : read_source_tree(std::string(LATHE_SOURCE_DIR) + "/src"))
    if (std::regex_search(text, throws)) found.push_back(path);
  EXPECT_THAT(found, IsEmpty()) << "base/temporary_folder.h makes folders";
}

TEST(Layering, AnUpwardIncludeIsNamedWithItsLine) {
  EXPECT_THAT(check("base/clock.h", "#include \"task/spec.h\""),
              ElementsAre("base/clock.h:2: includes task/spec.h, which stands above it"));
  EXPECT_THAT(check("backend/cpu/session.cpp", "  #  include <gym/verify.h>"),
              ElementsAre(HasSubstr("stands above")));
}

TEST(Layering, DownwardAndForeignIncludesAreFine) {
  EXPECT_THAT(check("gym/verify.cpp", "#include \"base/result.h\""), IsEmpty());
  EXPECT_THAT(check("gym/verify.cpp", "#include \"gym/verify.h\""), IsEmpty());
  EXPECT_THAT(check("gym/verify.cpp", "#include <sys/wait.h>"), IsEmpty());
  EXPECT_THAT(check("base/clock.h", "// #include \"task/spec.h\""), IsEmpty());
}

TEST(Layering, BackendsDoNotKnowEachOther) {
  EXPECT_THAT(check("backend/cpu/session.cpp", "#include \"backend/fake/fake.h\""),
              ElementsAre(HasSubstr("cli")));
  EXPECT_THAT(check("backend/backend.cpp", "#include \"backend/cpu/slots.h\""),
              ElementsAre(HasSubstr("cli")));
  EXPECT_THAT(check("backend/cpu/runner/main.cpp", "#include \"backend/cpu/protocol.h\""), IsEmpty());
}

TEST(Layering, ACompilersStageKnowsNoLaterOne) {
  EXPECT_THAT(check("policy/catalog/fuse/partition.cpp", "#include \"policy/catalog/emit/program.h\""),
              ElementsAre(HasSubstr("inside policy/catalog/")));
  EXPECT_THAT(check("policy/catalog/emit/pool.cpp", "#include \"policy/catalog/compile.h\""),
              ElementsAre(HasSubstr("inside policy/catalog/")));
  EXPECT_THAT(check("policy/catalog/emit/cpu/tile.cpp", "#include \"policy/catalog/cost/register_tile.h\""),
              IsEmpty());
  EXPECT_THAT(check("policy/catalog/compile.cpp", "#include \"policy/catalog/emit/program.h\""), IsEmpty());
}

TEST(Layering, BrokerAndRunnerMeetOnTheWireOnly) {
  EXPECT_THAT(check("backend/cuda/runner/keeper.cpp", "#include \"backend/cuda/broker/session.h\""),
              ElementsAre(HasSubstr("other side")));
  EXPECT_THAT(check("backend/cuda/broker/session.cpp", "#include \"backend/cuda/runner/keeper.h\""),
              ElementsAre(HasSubstr("other side")));
  EXPECT_THAT(check("backend/cuda/wire/protocol.cpp", "#include \"backend/cuda/runner/driver_api.h\""),
              ElementsAre(HasSubstr("other side")));
  EXPECT_THAT(check("backend/cuda/stray.cpp", "#include \"backend/cuda/wire/protocol.h\""),
              ElementsAre(HasSubstr("no place")));
  EXPECT_THAT(check("backend/cuda/runner/keeper.cpp", "#include \"backend/cuda/wire/protocol.h\""),
              IsEmpty());
  EXPECT_THAT(check("backend/cuda/broker/session.cpp", "#include \"backend/cuda/broker/device_log.h\""),
              IsEmpty());
}

TEST(Layering, OnlyTheCliChoosesABackendOrAPolicyByName) {
  EXPECT_THAT(check("gym/evaluator.cpp", "#include \"backend/cpu/cpu_backend.h\""),
              ElementsAre(HasSubstr("cli")));
  EXPECT_THAT(check("search/search.cpp", "#include \"policy/catalog/catalog.h\""),
              ElementsAre(HasSubstr("cli")));
  EXPECT_THAT(check("cli/optimize.cpp", "#include \"backend/cpu/cpu_backend.h\""), IsEmpty());
}

TEST(Layering, OpsDoNotKnowWhatIsBuiltOnThem) {
  EXPECT_THAT(check("task/ops/matmul.cpp", "#include \"task/lint/lint.h\""),
              ElementsAre(HasSubstr("inside task/")));
  EXPECT_THAT(check("task/spec.cpp", "#include \"task/ops/factories.h\""),
              ElementsAre(HasSubstr("inside task/")));
  EXPECT_THAT(check("task/generate/generate.cpp", "#include \"task/lint/lint.h\""), IsEmpty());
}

}  // namespace
}  // namespace lathe
