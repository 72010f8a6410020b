// What the suites' tables say of their cases, without running any.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "base/fd.h"
#include "conformance/conformance.h"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kSuites = LATHE_SOURCE_DIR "/tests/conformance";

Result<std::vector<ConformanceCase>> table_of(const std::string& text) {
  const std::string folder =
      testing::TempDir() + "lathe-" + testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/expected.toml") << text;
  return read_conformance_table(folder);
}

std::string case_of_class(const std::string& line) {
  return "[[case]]\nfile = \"zeros.cpp\"\n" + line +
         "\ntask = \"softmax\"\nexpect = \"WRONG\"\nreason = \"bound\"\n";
}

/// The names in the first columns of the tables below a heading of docs/conformance.md.
std::set<std::string> named_below(const std::string& heading) {
  const Result<std::string> text = read_file(LATHE_SOURCE_DIR "/docs/conformance.md");
  if (!text.ok()) return {};
  const std::size_t begin = text->find("\n## " + heading + "\n");
  if (begin == std::string::npos) return {};
  std::istringstream lines(text->substr(begin + 1, text->find("\n## ", begin + 1) - begin - 1));
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ")) continue;
    std::istringstream cell(line.substr(2, line.find(" |") - 2));
    for (std::string name; std::getline(cell >> std::ws, name, ',');) names.insert(name);
  }
  return names;
}

std::set<std::string> cases_of(const std::vector<std::string>& suites, bool honest) {
  std::set<std::string> names;
  for (const std::string& suite : suites) {
    const auto cases = read_conformance_table(kSuites + suite);
    EXPECT_TRUE(cases.ok()) << cases.error().to_string();
    if (!cases.ok()) continue;
    for (const ConformanceCase& one : *cases)
      if ((one.class_name == "honest kernels") == honest)
        names.insert(std::filesystem::path(one.file).stem().string());
  }
  return names;
}

/// A heading's tables name the cases of the suites, and nothing that no suite has.
void expect_named(const std::string& heading, const std::vector<std::string>& suites, bool honest) {
  SCOPED_TRACE(heading);
  std::set<std::string> named = named_below(heading);
  named.erase(honest ? "Kernels" : "Exploits");
  const std::set<std::string> cases = cases_of(suites, honest);
  std::vector<std::string> missing, unknown;
  std::ranges::set_difference(cases, named, std::back_inserter(missing));
  std::ranges::set_difference(named, cases, std::back_inserter(unknown));
  EXPECT_THAT(missing, IsEmpty());
  EXPECT_THAT(unknown, IsEmpty());
}

ConformanceResult result_of(const std::string& file, const std::string& class_name, bool held) {
  ConformanceResult result;
  result.spec.file = file;
  result.spec.class_name = class_name;
  result.as_expected = held;
  return result;
}

TEST(ConformanceTable, EachCaseBelongsToAClass) {
  const auto cases = table_of(case_of_class("class = \"work left out\""));
  ASSERT_TRUE(cases.ok()) << cases.error().to_string();
  EXPECT_EQ(cases->front().class_name, "work left out");
}

TEST(ConformanceTable, ACaseWithoutAClassIsRefused) {
  const auto cases = table_of(case_of_class(""));
  ASSERT_FALSE(cases.ok());
  EXPECT_THAT(cases.error().message, HasSubstr("'class' is missing"));
  EXPECT_EQ(cases.error().where.line, 1);
}

TEST(ConformanceTable, AClassThatDoesNotExistIsRefusedWithTheNearest) {
  const auto cases = table_of(case_of_class("class = \"hiden shapes\""));
  ASSERT_FALSE(cases.ok());
  EXPECT_THAT(cases.error().message, HasSubstr("unknown class 'hiden shapes'"));
  EXPECT_THAT(cases.error().hint, HasSubstr("'hidden shapes'"));
  EXPECT_EQ(cases.error().where.line, 3);
}

TEST(ConformanceReport, CountsCasesByClassAndNamesThoseThatDidNotHold) {
  ConformanceReport report;
  report.results = {result_of("kahan.cpp", "honest kernels", true),
                    result_of("zeros.cpp", "work left out", true),
                    result_of("skip_tile.cpp", "work left out", false),
                    result_of("racy_reduction.cpp", "work left out", false)};
  report.results.back().skipped = true;
  const std::vector<ClassTally> tallies = report.by_class();
  ASSERT_EQ(tallies.size(), 2u);
  EXPECT_EQ(tallies[0].name, "work left out");
  EXPECT_EQ(tallies[0].held, 1);
  EXPECT_EQ(tallies[0].skipped, 1);
  EXPECT_THAT(tallies[0].missed, ElementsAre("skip_tile"));
  EXPECT_EQ(tallies[1].name, "honest kernels");
  EXPECT_EQ(tallies[1].held, 1);
  EXPECT_THAT(tallies[1].missed, IsEmpty());
}

TEST(ConformanceDocumentation, SaysOfEachExploitWhatRefusesIt) {
  expect_named("Defences on the CPU", {""}, false);
  expect_named("Defences on a GPU", {"/cuda"}, false);
  expect_named("Defences of the HOST tier", {"/host", "/host/cuda"}, false);
}

TEST(ConformanceDocumentation, NamesEachHonestKernel) {
  expect_named("Honest kernels", {"", "/cuda", "/host", "/host/cuda"}, true);
}

TEST(ConformanceDocumentation, DescribesEachClass) {
  std::set<std::string> described = named_below("Classes");
  described.erase("Class");
  EXPECT_EQ(described, std::set<std::string>(conformance_classes().begin(), conformance_classes().end()));
}

}  // namespace
}  // namespace lathe
