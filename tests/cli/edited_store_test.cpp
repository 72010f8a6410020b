#include <sys/wait.h>

#include "store/store.h"
#include "tests/cli/program.h"

namespace lathe {
namespace {

/// What a hand, or another version, may have left in a run's row.
struct Edit {
  std::string name;
  std::string config;
  std::string summary;
};

void PrintTo(const Edit& edit, std::ostream* out) { *out << edit.name; }

const std::vector<Edit> kEdits = {
    {"NoJson", "config", "summary"},
    {"Lists", "[1]", "[1]"},
    {"WrongTypes", R"({"threads": "many", "evals": {}, "seed": "x"})",
     R"({"schema": "lathe.optimize/1", "best_baseline": 7, "baselines": 1})"},
    {"NoProcessors", R"({"threads": -3})", "null"},
    {"TooManyProcessors", R"({"threads": 1000000})", "7"},
    {"NoSuchSearch", R"({"threads": 1, "device": 5})", R"({"best_baseline": null})"},
    {"Latin", "{\"policy\": \"caf\xe9\"}", "{\"best_baseline\": \"\xe9\"}"},
    {"TooLarge", R"({"evals": 1e300, "seed": -1})", R"({"best_baseline": "naive", "seconds": 1e999})"},
};

class EditedStoreTest : public ProgramTest, public testing::WithParamInterface<Edit> {};

TEST_P(EditedStoreTest, IsReadOrRefusedByEveryVerb) {
  {
    const auto store = Store::open(path(".lathe"));
    ASSERT_TRUE(store.ok());
    RunRecord run;
    run.id = "edited";
    run.task_name = "tiny";
    run.task_text = kTinyTask;
    run.config = GetParam().config;
    run.summary = GetParam().summary;
    run.status = "running";
    run.created_unix = std::int64_t{1} << 62;
    ASSERT_TRUE((*store)->create_run(run).ok());
  }
  const std::vector<std::vector<std::string>> verbs = {{"runs", "list"},
                                                       {"runs", "show", "last"},
                                                       {"report", "last", "--json", "-"},
                                                       {"optimize", "--resume", "last"}};
  for (const auto& verb : verbs) {
    Program program(folder_, verb);
    const int status = program.wait(60);
    ASSERT_TRUE(WIFEXITED(status)) << verb[0] << ": " << program.err();
    const int code = WEXITSTATUS(status);
    EXPECT_TRUE(verb[0] == "runs" ? code == 0 : code == 3 || code == 4)
        << verb[0] << " ends with " << code << ": " << program.err();
  }
}

using OtherRunTest = ProgramTest;

TEST_F(OtherRunTest, ARunOfAnotherVerbIsSaidToBeOne) {
  {
    const auto store = Store::open(path(".lathe"));
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE((*store)
                    ->create_run({.id = "data-1-0",
                                  .task_name = "tiny",
                                  .task_text = kTinyTask,
                                  .config = R"({"data_seed":1,"index":0})",
                                  .status = "running"})
                    .ok());
  }
  const std::vector<std::vector<std::string>> verbs = {
      {"report", "last"}, {"export", "last", "--out", "o"}, {"optimize", "--resume", "last"}};
  for (const auto& verb : verbs) {
    Program program(folder_, verb);
    EXPECT_EQ(WEXITSTATUS(program.wait(60)), 3) << verb[0];
    EXPECT_NE(program.err().find("run data-1-0 is one of lathe data make"), std::string::npos)
        << program.err();
  }
}

INSTANTIATE_TEST_SUITE_P(, EditedStoreTest, testing::ValuesIn(kEdits),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace lathe
