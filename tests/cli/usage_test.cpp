#include <sys/wait.h>

#include "tests/cli/program.h"

namespace lathe {
namespace {

/// Arguments that cannot work: the exit code of docs/cli.md, and what the message must name.
struct WrongUse {
  std::string name;
  std::vector<std::string> args;
  int code;
  std::vector<std::string> says;
};

void PrintTo(const WrongUse& use, std::ostream* out) { *out << use.name; }

const std::vector<WrongUse> kWrongUses = {
    {"UnknownVerb", {"optimise", "tiny.toml"}, 2, {"'optimise'", "did you mean 'optimize'?"}},
    {"NoVerb", {}, 2, {"optimize, eval", "--help"}},
    {"UnknownOption", {"optimize", "tiny.toml", "--eval", "3"}, 2, {"--eval", "lathe optimize --help"}},
    {"NoTask", {"optimize"}, 2, {"TASK", "--resume"}},
    {"MissingTask", {"optimize", "nosuch.toml"}, 3, {"nosuch.toml", "hint"}},
    {"BrokenTask", {"optimize", "broken.toml"}, 3, {"broken.toml:5:", "did you mean 'gelu'?"}},
    {"OneBrokenTaskOfTwo", {"optimize", "tiny.toml", "broken.toml"}, 3, {"broken.toml:5:"}},
    {"NoEvaluations",
     {"optimize", "tiny.toml", "--evals", "0"},
     2,
     {"--evals", "'0' is not a whole number from 1"}},
    {"FewerEvaluations", {"optimize", "tiny.toml", "--evals", "-1"}, 2, {"--evals", "'-1' is not"}},
    {"EvaluationsInWords", {"optimize", "tiny.toml", "--evals", "abc"}, 2, {"--evals", "'abc' is not"}},
    {"TooManyEvaluations", {"optimize", "tiny.toml", "--evals", "99999999999"}, 2, {"--evals", "is not"}},
    {"EvaluationsInOctal", {"optimize", "tiny.toml", "--evals", "010"}, 2, {"--evals", "'010' is not a"}},
    {"SecondsThatAreNoNumber",
     {"optimize", "tiny.toml", "--seconds", "nan"},
     2,
     {"--seconds", "'nan' is not"}},
    {"SecondsInOctal",
     {"optimize", "tiny.toml", "--seconds", "010"},
     2,
     {"--seconds", "'010' is not a number"}},
    {"EndlessSeconds",
     {"optimize", "tiny.toml", "--total-seconds", "inf"},
     2,
     {"above 0 and up to 999999999\n"}},
    {"SecondsWithoutAnEnd", {"optimize", "tiny.toml", "--seconds", "1e308"}, 2, {"'1e308' is not a number"}},
    {"TemperatureThatIsNoNumber",
     {"optimize", "tiny.toml", "--temperature", "nan"},
     2,
     {"'nan' is not a number from 0 to 10"}},
    {"NegativeSeed", {"optimize", "tiny.toml", "--seed", "-1"}, 2, {"--seed", "'-1' is not a whole number"}},
    {"SeedBeyondItsBits",
     {"tasks", "generate", "--seed", "18446744073709551616"},
     2,
     {"--seed", "from 0 to 18446744073709551615"}},
    {"ExportIntoNothing", {"export", "last", "--out", ""}, 2, {"--out", "the text is empty"}},
    {"ReportOfTwoKindsInOneFile",
     {"report", "last", "--html", "a", "--json", "./a"},
     2,
     {"--html and --json name the same file"}},
    {"GemmTablesInOneFile",
     {"gemm", "bench", "--out", "a", "--summary", "a"},
     2,
     {"--out and --summary name the same file"}},
    {"ReportOfNothing", {"report", ""}, 2, {"RUN", "the text is empty"}},
    {"JsonIntoNothing", {"eval", "tiny.toml", "a.cpp", "--json", ""}, 2, {"--json", "the text is empty"}},
    {"ServeWithAStoreOfNothing", {"serve", "token", "list", "--store", ""}, 2, {"--store", "is empty"}},
    {"RlIntoNothing",
     {"train", "rl.toml", "--table", "tiny.toml", "--out", ""},
     2,
     {"lathe train: --out", "the text is empty"}},
    {"NegativeSeedOfDrafts", {"data", "draft", "--out", "o", "--seed", "-1"}, 2, {"--seed", "'-1' is not"}},
    {"NegativeGpuOfGemm", {"gemm", "bench", "--gpu", "-1"}, 2, {"--gpu", "'-1' is not a whole number"}},
    {"FolderAsATask", {"tasks", "show", "."}, 3, {"'.' is a folder", "name a file in it"}},
    {"LintOfAModule",
     {"tasks", "lint", "module.toml"},
     4,
     {"module.toml: lint runs no Python", "lathe eval"}},
    {"ACandidateBeforeItsTask",
     {"eval", "twice.cpp", "tiny.toml"},
     3,
     {"'twice.cpp' is a candidate, and the task comes first"}},
    {"ListOfNoFolder", {"tasks", "list", "--folder", "nosuch"}, 3, {"there is no folder 'nosuch'"}},
    {"RunsInAStoreThatCannotBeMade",
     {"optimize", "tiny.toml", "--store", "/proc/runs"},
     4,
     {"'/proc/runs'", "--store or LATHE_STORE"}},
    {"StoreInAFile",
     {"serve", "token", "add", "a", "--store", "tiny.toml"},
     4,
     {"a file of that name", "another"}},
    {"NoThreads",
     {"optimize", "tiny.toml", "--threads", "0"},
     2,
     {"--threads", "'0' is not a whole number from 1 to"}},
    {"TooManyThreads",
     {"optimize", "tiny.toml", "--threads", "1000"},
     2,
     {"--threads", "'1000' is not a whole number from 1 to"}},
    {"UnknownDevice", {"optimize", "tiny.toml", "--device", "tpu"}, 2, {"--device", "'tpu' is no device"}},
    {"NoNumberOfAGpu", {"eval", "tiny.toml", "a.cu", "--device", "cuda:x"}, 2, {"'cuda:x'", "cuda:N"}},
    {"NegativeGpu", {"doctor", "--device", "cuda:-1"}, 2, {"'cuda:-1' is no device"}},
    {"JsonNowhere", {"optimize", "tiny.toml", "--json", "no/such.json"}, 4, {"no/such.json", "hint"}},
    {"JsonIntoAFolder", {"optimize", "tiny.toml", "--json", "."}, 4, {"it is a folder"}},
    {"EvalJsonNowhere", {"eval", "tiny.toml", "tiny.toml", "--json", "no/such.json"}, 3, {"tiny.toml"}},
    {"TwoKindsOfSeconds",
     {"optimize", "tiny.toml", "--seconds", "5", "--total-seconds", "9"},
     2,
     {"--total-seconds", "--seconds"}},
    {"ResumeWithoutAStore", {"optimize", "--resume", "x"}, 3, {"there is no store in '.lathe'", "--store"}},
    {"ResumeWithATask", {"optimize", "tiny.toml", "--resume", "x"}, 2, {"leave out TASK"}},
    {"ResumeWithAnotherSearch",
     {"optimize", "--resume", "x", "--search", "random"},
     2,
     {"leave out --search"}},
    {"NoVerbOfData", {"data"}, 2, {"make, write, draft, exam, table, card", "lathe data --help"}},
    {"TableWithoutAStore", {"data", "table", "--out", "o"}, 3, {"there is no store in '.lathe'"}},
    {"TableInNoLanguage",
     {"data", "table", "--out", "o", "--language", "kernel"},
     2,
     {"--language", "schedule"}},
    {"DataLessTheExamOfNoTable",
     {"data", "write", "--out", "o", "--exam", "nothing.jsonl", "--exam-share", "2"},
     2,
     {"--exam-share"}},
    {"TrainWithoutARecipe", {"train"}, 2, {"RECIPE is required", "lathe train --help"}},
    {"TrainByNoRecipe", {"train", "--out", "o", "nosuch.toml"}, 3, {"'nosuch.toml'", "lathe train --help"}},
    {"RlWithoutATable", {"train", "rl.toml", "--out", "o"}, 2, {"--table"}},
    {"RlOnNoTable",
     {"train", "rl.toml", "--table", "tiny.toml", "--out", "o"},
     3,
     {"tiny.toml: line", "lathe data table"}},
    {"RlOfAnUnknownEstimator",
     {"train", "ppo.toml", "--table", "t", "--out", "o"},
     3,
     {"ppo.toml:2:", "trloo"}},
    {"ChoicesWithoutWeights",
     {"optimize", "tiny.toml", "--policy", "choices"},
     2,
     {"--policy choices needs --model"}},
    {"NoVerbOfPolicy", {"policy"}, 2, {"eval, table, keep", "lathe policy --help"}},
    {"PolicyWithoutTasks", {"policy", "eval", "--out", "o"}, 2, {"TASK"}},
    {"PolicyWithoutAModel",
     {"policy", "eval", "tiny.toml", "--out", "o"},
     2,
     {"--policy local needs --model", "--policy catalog"}},
    {"PolicyWithNobodyToExamine",
     {"policy", "eval", "tiny.toml", "--out", "o", "--policy", "catalog", "--controls", "none"},
     2,
     {"name some with --controls"}},
    {"NaiveOfNoTasks",
     {"policy", "naive", "nothing.jsonl", "--tasks", "nowhere", "--out", "o"},
     3,
     {"nowhere"}},
    {"NaiveOfNoSamples",
     {"policy", "naive", "missing.jsonl", "--tasks", ".", "--out", "o"},
     3,
     {"missing.jsonl"}},
    {"NaiveOfNoJson",
     {"policy", "naive", "tiny.toml", "--tasks", ".", "--out", "o"},
     3,
     {"tiny.toml:2: the line is no JSON"}},
    {"TableOfNoSamples", {"policy", "table", "nothing.jsonl"}, 3, {"policy eval"}},
    {"TableOfNoJson", {"policy", "table", "tiny.toml"}, 3, {"tiny.toml:2: the line is no JSON: parse error"}},
    {"DataOfNoStore", {"data", "write", "--out", "o"}, 3, {"there is no store in '.lathe'"}},
    {"ServeOnNoAddress", {"serve", "--address", "everywhere"}, 2, {"'everywhere' is no IP address"}},
    {"ServeWithTheQueueForAStore",
     {"serve", "--store", "Redis://:secret@q"},
     3,
     {"Redis is the queue", "to --queue", "--store postgres://"}},
    {"ServeWithTheStoreForAQueue",
     {"serve", "--queue", "Postgres://u:secret@d/lathe"},
     3,
     {"PostgreSQL is the store", "to --store"}},
    {"TokenOfAnUnknownStore",
     {"serve", "token", "list", "--store", "mysql://u:secret@d"},
     3,
     {"no mysql://"}},
    {"TokensOfNoStore",
     {"serve", "token", "list", "--store", "typo"},
     3,
     {"there is no service's store in 'typo'"}},
    {"TokenRemovedFromNoStore",
     {"serve", "token", "remove", "a", "--store", "typo"},
     3,
     {"there is no service's store in 'typo'", "token add"}},
    {"ServeWithAStoreOfItsOwnInPostgres",
     {"serve", "--store", "Postgres://u:secret@d/lathe"},
     3,
     {"--queue redis://HOST:PORT"}},
    {"RunsOnAServer",
     {"optimize", "tiny.toml", "--store", "Redis://:secret@q"},
     3,
     {"kept in a folder", "--store"}},
    {"UnknownControl", {"policy", "eval", "t", "--out", "o", "--controls", "luck"}, 2, {"luck"}},
    {"TableOfNoFile", {"policy", "table", "missing.jsonl"}, 3, {"missing.jsonl"}},
    {"DataNowhere", {"data", "make"}, 2, {"--out"}},
    {"NegativeTasksOfData", {"data", "make", "--out", "o", "--tasks", "-1"}, 2, {"--tasks", "-1"}},
    {"CardWithoutAStore", {"data", "card"}, 3, {"there is no store in '.lathe'"}},
    {"NoVerbOfGemm", {"gemm"}, 2, {"tune, bench, export, explain", "lathe gemm --help"}},
    {"NoSizeOfGemm", {"gemm", "tune", "--sizes", "64x64"}, 3, {"'64x64' is no size", "64x128x8192"}},
    {"NegativeSecondsOfGemm", {"gemm", "tune", "--seconds", "-5"}, 2, {"--seconds", "-5"}},
    {"BenchWithoutAJournal",
     {"gemm", "bench", "--journal", "no.jsonl"},
     3,
     {"there is no no.jsonl", "gemm tune"}},
    {"ExportWithoutAJournal",
     {"gemm", "export", "--journal", "no.jsonl", "--out", "o"},
     3,
     {"there is no no.jsonl", "gemm tune"}},
    {"ExplainWithoutAJournal", {"gemm", "explain"}, 3, {"there is no gemm.jsonl", "gemm tune"}},
    {"ProposeForNoShape",
     {"propose", "tiny.toml", "--out", "o", "--shape", "n"},
     3,
     {"'n' is not NAME=NUMBER", "rows=1024,cols=512"}},
    {"ProposeForAShapeOfTwoMinds",
     {"propose", "tiny.toml", "--out", "o", "--shape", "n=1,n=2"},
     3,
     {"'n=1,n=2' gives 'n' twice"}},
    {"OnlySomeOfNoSuite", {"doctor", "--only", "zeros"}, 2, {"--only", "--conformance"}},
    {"RepeatedNeverIsNoSuite", {"doctor", "--conformance", "--repeat", "0"}, 2, {"--repeat", "1 to 1000"}},
    {"BuildForNoArchitecture",
     {"build", "tiny.toml", "tiny.toml", "--out", "o", "--arch", "sm_90"},
     3,
     {"there is no architecture 'sm_90'", "sm_90a"}},
    {"JournalThatIsNone",
     {"gemm", "explain", "--journal", "tiny.toml"},
     3,
     {"tiny.toml:1: this line is no entry of a tuning journal"}},
    {"WorkerOfNoFrontEnd", {"worker", "--front-end", "box"}, 3, {"'box' is no URL", "http://HOST:PORT"}},
    {"WorkerWithAQueue",
     {"worker", "--queue", "redis://:secret@q", "--store", "postgres://u:secret@d/lathe"},
     3,
     {"no queue and no store", "lathe serve --queue"}},
    {"RunsWithoutAStore", {"runs", "list"}, 3, {"there is no store in '.lathe'"}},
    {"ReportWithoutAStore", {"report", "last"}, 3, {"there is no store in '.lathe'"}},
};

class UsageTest : public ProgramTest, public testing::WithParamInterface<WrongUse> {};

TEST_P(UsageTest, IsRefusedWithARemedyAndLeavesNothing) {
  write("broken.toml",
        "name = \"broken\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\"] }]\n\n"
        "node = [{ out = \"y\", op = \"gelo\", in = [\"x\"] }]\n"
        "shape = [{ name = \"s\", n = 16 }]\n");
  write("nothing.jsonl", "");
  write("rl.toml", "[rl]\nsteps = 3\n");
  write("ppo.toml", "[rl]\nestimator = \"ppo\"\n");
  write("module.toml", "name = \"module\"\n[reference]\nkind = \"process\"\nsource = \"module.py\"\n");
  write("module.py", "");
  write("twice.cpp", kTinyKernel);
  const auto before = files();
  Program program(folder_, GetParam().args);
  const int status = program.wait(10);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), GetParam().code);
  EXPECT_EQ(program.err().find("secret"), std::string::npos) << program.err();
  for (const std::string& text : GetParam().says)
    EXPECT_NE(program.err().find(text), std::string::npos) << program.err();
  EXPECT_EQ(program.out(), "");
  EXPECT_EQ(files(), before);
}

TEST_F(ProgramTest, ATaskThatCannotBeReadKeepsNoOtherFromListAndLint) {
  write("broken.toml", "name = \n");
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"tasks", "list", "--folder", "."},
        std::vector<std::string>{"tasks", "lint", "broken.toml", "tiny.toml"}}) {
    Program program(folder_, args);
    const int status = program.wait(10);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 3);
    EXPECT_NE(program.out().find("tiny"), std::string::npos) << program.out();
    EXPECT_NE(program.err().find("broken.toml:1:"), std::string::npos) << program.err();
  }
}

TEST_F(ProgramTest, ATaskThatTheCatalogueCannotTakeIsTheTasksFault) {
  write("native.toml",
        "name = \"native\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\"] }]\n"
        "output = [{ name = \"y\", shape = [\"n\"] }]\nreference = \"native\"\nsource = \"native.cpp\"\n"
        "shape = [{ n = 16 }]\n");
  write("native.cpp",
        "extern \"C\" void reference(const double* const* in, double* const* out, const long long* dims) {\n"
        "  for (long long i = 0; i < dims[0]; ++i) out[0][i] = in[0][i];\n}\n");
  Program program(folder_, {"optimize", "native.toml", "--device", "cpu", "--evals", "1"});
  const int status = program.wait(60);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3) << program.err();
  EXPECT_NE(program.err().find("'native' has none"), std::string::npos) << program.err();
}

INSTANTIATE_TEST_SUITE_P(, UsageTest, testing::ValuesIn(kWrongUses),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace lathe
