#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/fd.h"
#include "task/task_text.h"
#include "tests/task/example_tasks.h"

namespace lathe {
namespace {

using testing::HasSubstr;

/// kLinearTask with one piece replaced.
std::string edited(std::string_view from, std::string_view to) {
  std::string text(kLinearTask);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

Error error_of(std::string_view text) {
  const Result<TaskSpec> spec = parse_task(text, "t.toml");
  if (spec.ok()) {
    ADD_FAILURE() << "parsed, but should not:\n" << text;
    return {};
  }
  return spec.error();
}

TEST(ParseTask, ReadsATaskOfFifteenLines) {
  const TaskSpec spec = task_of(kLinearTask);
  EXPECT_EQ(spec.name, "linear");
  EXPECT_EQ(spec.dim_names, (std::vector<std::string>{"M", "N", "K"}));
  EXPECT_EQ(spec.dim_ranges.at("K").high, 64);
  ASSERT_EQ(spec.tensors.size(), 3U);
  EXPECT_EQ(spec.tensors[1].role, Role::kParameter);
  ASSERT_EQ(spec.nodes.size(), 2U);
  EXPECT_EQ(spec.nodes[0].type.shape[1].to_string(), "N");
  ASSERT_EQ(spec.outputs.size(), 1U);
  EXPECT_EQ(spec.outputs[0].name, "y");
  EXPECT_EQ(spec.outputs[0].compare, CompareKind::kBound);
  EXPECT_EQ(spec.digest, digest_of(kLinearTask));
}

TEST(ParseTask, NodeTablesMeanTheSameAsGraphText) {
  const TaskSpec spec = task_of(edited("graph = \"\"\"\nh = matmul(x, w)\ny = bias_add(h, b)\n\"\"\"",
                                       "node = [{ out = \"h\", op = \"matmul\", in = [\"x\", \"w\"] },\n"
                                       "  { out = \"y\", op = \"bias_add\", in = [\"h\", \"b\"] }]"));
  ASSERT_EQ(spec.nodes.size(), 2U);
  EXPECT_EQ(spec.nodes[1].in, (std::vector<std::string>{"h", "b"}));
}

struct Mistake {
  std::string_view what;
  std::string_view from;
  std::string_view to;
  std::string_view message;
  std::string_view hint;
  int line = 0;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.what; }

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreReportedWithPlaceAndHint) {
  const Mistake& mistake = GetParam();
  const Error error = error_of(edited(mistake.from, mistake.to));
  EXPECT_THAT(error.message, HasSubstr(mistake.message));
  EXPECT_THAT(error.hint, HasSubstr(mistake.hint));
  EXPECT_EQ(error.where.file, "t.toml");
  EXPECT_EQ(error.where.line, mistake.line) << error.to_string();
  EXPECT_GT(error.where.column, 0);
}

INSTANTIATE_TEST_SUITE_P(
    ParseTask, Mistakes,
    testing::Values(
        Mistake{"unknown_key", "name = \"linear\"", "nam = \"linear\"", "unknown key 'nam'",
                "did you mean 'name'", 2},
        Mistake{"bad_toml", "name = \"linear\"", "name = linear", "", "not valid TOML", 2},
        Mistake{"unknown_op", "matmul(x, w)", "matmull(x, w)", "unknown op 'matmull'",
                "did you mean 'matmul'", 10},
        Mistake{"neighbours_swapped", "bias_add(h, b)", "rleu(h)", "unknown op 'rleu'", "did you mean 'relu'",
                11},
        Mistake{"capitals", "bias_add(h, b)", "ReLU(h)", "unknown op 'ReLU'", "did you mean 'relu'", 11},
        Mistake{"foreign_op", "bias_add(h, b)", "index_select(h, b)", "unknown op 'index_select'",
                "write gather(x, index, axis = ...)", 11},
        Mistake{"foreign_attr", "bias_add(h, b)", "bias_add(h, b, dim = 1)", "no attribute 'dim'",
                "bias_add calls it 'axis'", 11},
        Mistake{"foreign_attr_of_another_op", "matmul(x, w)", "matmul(x, w, dim = 1)", "no attribute 'dim'",
                "allowed: transpose_a", 10},
        Mistake{"unknown_input", "bias_add(h, b)", "bias_add(hh, b)", "unknown input 'hh'", "did you mean",
                11},
        Mistake{"later_input", "h = matmul(x, w)", "h = matmul(y, w)", "'y' is used before", "order", 10},
        Mistake{"unknown_attr", "matmul(x, w)", "matmul(x, w, transpos_b = true)",
                "no attribute 'transpos_b'", "did you mean", 10},
        Mistake{"no_number", "bias_add(h, b)", "scale(h, by = nan)", "attribute 'by' is not a number",
                "write one, or inf", 11},
        Mistake{"scalar_that_is_no_number", "tensor = [",
                "tensor = [{ name = \"alpha\", role = \"scalar\", value = nan },",
                "the value of 'alpha' is not a number", "values are drawn", 4},
        Mistake{"wrong_count", "matmul(x, w)", "matmul(x)", "takes", "", 10},
        Mistake{"garbage_in_graph", "h = matmul(x, w)", "h = matmul(x, w) w", "unexpected text", "written",
                10},
        Mistake{"shape_mismatch", "bias_add(h, b)", "bias_add(x, b)", "", "", 11},
        Mistake{"unused_node", "y = bias_add(h, b)", "y = bias_add(h, b)\nz = relu(h)", "'y' is never used",
                "list it under", 11},
        Mistake{"constant_output", "y = bias_add(h, b)",
                "z = bias_add(h, b)\ny = full(shape = [\"M\"], value = 1)\n\"\"\"\noutput = [{ name = \"z\" "
                "}, { name "
                "= \"y\" }]\ndescription = \"\"\"",
                "'y' depends on no input", "drop it", 14},
        Mistake{"unused_tensor", "y = bias_add(h, b)", "y = relu(h)", "tensor 'b' is never used", "drop it",
                7},
        Mistake{"twice", "y = bias_add(h, b)", "h = bias_add(h, b)", "'h' is declared twice", "", 11},
        Mistake{"named_as_a_dim", "y = bias_add(h, b)", "M = relu(h)\ny = bias_add(M, b)",
                "'M' is declared twice", "it names a dim", 11},
        Mistake{"index_without_a_kind", "[\"N\"], role = \"parameter\"",
                "[\"N\"], role = \"index\", gen = { limit = 4 }", "go together",
                "write gen = { kind = \"index\", limit = ... }", 7},
        Mistake{"unknown_dim", "[\"M\", \"K\"]", "[\"M\", \"KK\"]", "'KK' is not a dim", "did you mean", 5},
        Mistake{"bad_expression", "[\"M\", \"K\"]", "[\"M\", \"K+\"]", "ends early", "expressions have", 5},
        Mistake{"bad_dtype", "name = \"x\",", "name = \"x\", dtype = \"fp33\",", "fp33", "", 5},
        Mistake{"bad_role", "role = \"parameter\"", "role = \"param\"", "unknown role", "", 6},
        Mistake{"keyword", "name = \"x\",", "name = \"float\",", "cannot name", "C identifier", 5},
        Mistake{"missing_dim", "M = 32, ", "", "needs an integer for dim 'M'", "add M", 13},
        Mistake{"outside_domain", "name = \"linear\"", "name = \"linear\"\nwhere = \"K % 128 == 0\"",
                "outside the task's domain", "", 14},
        Mistake{"extent_zero", "[\"M\", \"K\"]", "[\"M - 32\", \"K\"]", "extent", "at least 1", 5},
        Mistake{"index_without_limit", "role = \"parameter\"", "role = \"index\"", "needs a limit", "gen", 6},
        Mistake{"no_such_output", "shape = [{ name = \"small\"",
                "output = [{ name = \"q\" }]\nshape = [{ name = \"s\"", "no node computes 'q'", "", 13}),
    [](const auto& mistake) { return std::string(mistake.param.what); });

TEST(ParseTask, PointsIntoGraphTextByColumn) {
  const Error error = error_of(edited("y = bias_add(h, b)", "y = bias_add(h, bb)"));
  EXPECT_EQ(error.where.line, 11);
  EXPECT_EQ(error.where.column, 17);
}

TEST(ParseTask, TellsApartExtentsThatAreEqualOnlyByAccident) {
  std::string text = edited("[\"K\", \"N\"]", "[\"M\", \"N\"]");
  text.replace(text.find("M = 32"), 6, "M = 64");
  EXPECT_EQ(error_of(text).where.line, 10) << "K = M = 64 at the scored shape alone";
  EXPECT_TRUE(parse_task("fixed = true\n" + text, "t.toml").ok());
}

TEST(ParseTask, AnOpMayAskForAnOrderOfItsIndices) {
  const auto error = [](const std::string& op, const std::string& gen, int count = 3) {
    const auto task =
        parse_task(fmt::format("name = \"ordered\"\ntensor = [{{ name = \"b\", shape = [4, 2] }}, {{ name = "
                               "\"i\", shape = [{}], role "
                               "= \"index\", gen = {{ kind = \"index\", limit = 4{} }} }}, {{ name = \"x\", "
                               "shape = [{}, 2] }}]\n"
                               "graph = \"\"\"\ns = {}\ny = {}\n\"\"\"\n",
                               count, gen, count, op, op[0] == 's' && op[1] == 'c' ? "relu(s)" : "add(s, x)"),
                   "ordered.toml");
    return task.ok() ? std::string("none") : task.error().to_string();
  };
  EXPECT_EQ(error("scatter(b, i, x)", ", order = \"distinct\""), "none");
  EXPECT_THAT(error("scatter(b, i, x)", ""), HasSubstr("of which none occurs twice as input 2"));
  EXPECT_THAT(error("scatter(b, i, x)", ", order = \"offsets\""), HasSubstr("order = \"distinct\""));
  EXPECT_THAT(error("scatter(b, i, x)", ", order = \"distinct\"", 5),
              HasSubstr("5 distinct indices below 4"));
  EXPECT_THAT(error("segment_sum(b, i)", ""), HasSubstr("takes offsets as input 2"));
  EXPECT_THAT(error("scatter(b, i, x)", ", order = \"sorted\""), HasSubstr("sorted"));
}

TEST(ParseTask, AChainThatDoublesAnExtentAtEachStepIsRefused) {
  std::string text = "name = \"t\"\ndims = [\"M\"]\ngraph = \'\'\'\nv1 = concat(x, x)\n";
  for (int i = 1; i < 18; ++i) text += fmt::format("v{} = concat(v{}, v{})\n", i + 1, i, i);
  text += "\'\'\'\n[[tensor]]\nname = \"x\"\nshape = [\"M\"]\n[[output]]\nname = \"v18\"\n[[shape]]\nM = 1\n";
  const Error error = error_of(text);
  EXPECT_THAT(error.message, HasSubstr("terms"));
  EXPECT_GT(error.where.line, 4);
}

TEST(ParseTask, ANetworkMayHave192TensorsAnd512Nodes) {
  const auto network = [](int tensors, int nodes) {
    std::string declared = "{ name = \"x0\", shape = [4] }", graph;
    for (int i = 1; i < tensors; ++i) declared += fmt::format(", {{ name = \"x{}\", shape = [4] }}", i);
    for (int i = 1; i <= nodes; ++i)
      graph += fmt::format("h{} = add({}, x{})\n", i, i == 1 ? "x0" : fmt::format("h{}", i - 1),
                           i < tensors ? i : tensors - 1);
    return "name = \"t\"\ntensor = [" + declared + "]\ngraph = \"\"\"\n" + graph + "\"\"\"\n";
  };
  const Result<TaskSpec> most = parse_task(network(192, 512), "t.toml");
  ASSERT_TRUE(most.ok()) << most.error().to_string();
  EXPECT_EQ(most->tensors.size(), 192U);
  EXPECT_EQ(most->nodes.size(), 512U);
  EXPECT_THAT(error_of(network(193, 512)).to_string(), HasSubstr("192"));
  EXPECT_THAT(error_of(network(192, 513)).to_string(), HasSubstr("more than 512 nodes"));
}

TEST(ParseTask, SurvivesRubbish) {
  for (const char* text :
       {"", "a", "[[node]]", "name = 1", "name = \"a\"\ntensor = 3", "graph = \"\"\"\n=\n\"\"\"",
        "name = \"a\"\ngraph = \"y = relu(\"", "name=\"a\"\ngraph='y = relu(x, a=[1,'"}) {
    EXPECT_FALSE(parse_task(text, "t.toml").ok()) << text;
  }
  EXPECT_FALSE(parse_task(std::string(300 * 1024, '#'), "t.toml").ok());
}

TEST(ParseTask, AnOutputIsOfTheDtypeThatItsNodeGives) {
  const auto error = [](const std::string& output) {
    return error_of(
               "name = \"t\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\"] }]\ngraph = \"y = "
               "exp(x)\"\n"
               "output = [{ name = \"y\", " +
               output + " }]\nshape = [{ n = 100 }]")
        .to_string();
  };
  EXPECT_THAT(error("dtype = \"fp16\""), AllOf(HasSubstr("'y' is computed in fp32, not in fp16"),
                                               HasSubstr("cast(y, dtype = \"fp16\")")));
  EXPECT_THAT(error("compare = \"exact\""), HasSubstr("compare = \"bound\""));
}

TEST(ParseTask, AnInoutTensorIsWrittenByANode) {
  const TaskSpec spec = task_of(R"toml(
name = "accumulate"
dims = ["n"]
tensor = [{ name = "sum", shape = ["n"], role = "inout" }, { name = "x", shape = ["n"] }]
graph = "sum = add(sum, x)"
shape = [{ n = 100 }])toml");
  EXPECT_EQ(spec.outputs.front().name, "sum");
}

constexpr std::string_view kProcessTask = R"(
name = "module"
dims = ["n"]

[reference]
kind = "process"
source = "module.py"

[[tensor]]
name = "x"
shape = ["n"]

[[output]]
name = "y"
shape = ["n"]

[[shape]]
n = 8
)";

TEST(ParseTask, AProcessReferenceIsAFileBesideTheTask) {
  const Result<TaskSpec> parsed = parse_task(kProcessTask, "t.toml");
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->reference, ReferenceKind::kProcess);
  EXPECT_EQ(parsed->reference_entry, "Model");
  EXPECT_TRUE(parsed->reference_text.empty());  // no file is opened for text that came from anywhere

  const std::string folder = testing::TempDir() + "lathe-process-task";
  const std::string path = folder + "/t.toml";
  ASSERT_TRUE(make_directories(folder).ok());
  ASSERT_TRUE(write_file_atomically(path, kProcessTask).ok());
  ASSERT_TRUE(write_file_atomically(folder + "/module.py", "class Model: pass").ok());
  const Result<TaskSpec> one = load_task(path);
  ASSERT_TRUE(one.ok()) << one.error().to_string();
  EXPECT_EQ(one->reference_text, "class Model: pass");
  ASSERT_TRUE(write_file_atomically(folder + "/module.py", "class Model: ...").ok());
  const Result<TaskSpec> other = load_task(path);
  ASSERT_TRUE(other.ok()) << other.error().to_string();
  EXPECT_NE(one->digest, other->digest) << "the module is part of what the task is";
}

TEST(ParseTask, ATaskTravelsWithItsModule) {
  const std::string folder = testing::TempDir() + "lathe-travelling-task";
  ASSERT_TRUE(make_directories(folder).ok());
  ASSERT_TRUE(write_file_atomically(folder + "/t.toml", kProcessTask).ok());
  ASSERT_TRUE(write_file_atomically(folder + "/module.py", "class Model: pass").ok());
  const Result<TaskSpec> on_disk = load_task(folder + "/t.toml");
  ASSERT_TRUE(on_disk.ok()) << on_disk.error().to_string();
  const TaskText text = TaskText::split(text_of(*on_disk).joined());
  EXPECT_EQ(text.digest(), on_disk->digest);
  const Result<TaskSpec> sent = parse_task_text(text, "t");
  ASSERT_TRUE(sent.ok()) << sent.error().to_string();
  EXPECT_EQ(sent->digest, on_disk->digest);
  EXPECT_EQ(sent->reference_text, "class Model: pass");

  const auto refused = [](const TaskText& wrong) {
    const auto parsed = parse_task_text(wrong, "t");
    return parsed.ok() ? "" : parsed.error().message;
  };
  EXPECT_THAT(refused({std::string(kProcessTask)}), HasSubstr("is missing"));
  EXPECT_THAT(
      refused({"name = \"t\"\ntensor = [{ name = \"x\", shape = [4] }]\ngraph = \"y = exp(x)\"", "text"}),
      HasSubstr("no process reference"));
  EXPECT_THAT(refused({"# \x1e", "text"}), HasSubstr("control character"));
  EXPECT_THAT(refused({std::string(kProcessTask), std::string(300 << 10, ' ')}), HasSubstr("256 KiB"));
}

TEST(ParseTask, AProcessTaskMayLeaveItsTensorsToItsModule) {
  const std::string header = "name = \"module\"\n[reference]\nkind = \"process\"\nsource = \"module.py\"\n";
  const Result<TaskSpec> parsed = parse_task(header, "t.toml");
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_TRUE(parsed->fixed) << "nobody knows how its shapes may change";
  EXPECT_TRUE(parsed->tensors.empty());
  EXPECT_TRUE(parsed->outputs.empty());
  EXPECT_THAT(error_of(header + "[[tensor]]\nname = \"x\"\nshape = [4]\n").to_string(),
              HasSubstr("[[output]]"));
}

TEST(ParseTask, ARefusedReferenceSaysWhy) {
  const auto refused = [](std::string_view from, std::string_view to) {
    std::string text(kProcessTask);
    text.replace(text.find(from), from.size(), to);
    return error_of(text).to_string();
  };
  EXPECT_THAT(refused("\"process\"", "\"magic\""), HasSubstr("process"));
  EXPECT_THAT(refused("source = \"module.py\"", ""), HasSubstr("source"));
  EXPECT_THAT(refused("kind = \"process\"", "kind = \"process\"\nentry = \"a b\""), HasSubstr("a class"));
}

/// C leaves other shifts undefined, so no input may hold one.
TEST(Shifts, ByAnInputNeedItsDeclaredRange) {
  const auto error = [](const std::string& gen) {
    const auto task = parse_task(
        "name = \"t\"\ntensor = [{ name = \"x\", shape = [4], dtype = \"int8\" }, { name = \"s\", shape = "
        "[4], "
        "dtype = \"int8\"" +
            gen + " }]\ngraph = \"y = shift_left(x, s)\"\n",
        "t.toml");
    return task.ok() ? "none" : task.error().to_string();
  };
  EXPECT_THAT(error(""), HasSubstr("gen = { kind = \"uniform\", low = 0, high = 7 }"));
  EXPECT_THAT(error(", gen = { kind = \"uniform\", low = 0, high = 8 }"), HasSubstr("values from 0 to 7"));
  EXPECT_EQ(error(", gen = { kind = \"uniform\", low = 1, high = 7 }"), "none");
  EXPECT_EQ(error(", gen = { kind = \"zeros_ones\" }"), "none");
}

TEST(TaskSpec, AnOpLikeNoOtherIsToldWhereAllAre) {
  const auto task = parse_task(
      "name = \"f\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\"] }]\ngraph = \"y = "
      "hypergeometric(x)\"\nshape = [{ n = 4 }]\n",
      "f.toml");
  ASSERT_FALSE(task.ok());
  EXPECT_THAT(task.error().hint, HasSubstr("docs/tasks.md"));
  EXPECT_THAT(task.error().hint, HasSubstr("native"));
}

/// Hidden shapes may have any extent of the domain, however rarely it is drawn.
TEST(TaskSpec, AnOpMustSuitTheEndsOfTheDomain) {
  const auto task = [](const std::string& domain) {
    return parse_task("name = \"top\"\n" + domain +
                          "\ntensor = [{ name = \"x\", shape = [\"M\", \"N\"] }]\n"
                          "graph = \"y = slice(x, stop = 2)\"\nshape = [{ M = 64, N = 1024 }]\n",
                      "top.toml");
  };
  const auto refused = task("dims = [\"M\", \"N\"]");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("for M = 64, N = 1"));
  EXPECT_THAT(refused.error().hint, HasSubstr("where"));
  EXPECT_TRUE(task("dims = [\"M\", \"N\"]\nwhere = \"N >= 2\"").ok());
  EXPECT_TRUE(task("dims = { M = [1, 64], N = [2, 1024] }").ok());
}

TEST(TaskDocumentation, NamesEveryOpAndAttribute) {
  const Result<std::string> text = read_file(LATHE_SOURCE_DIR "/docs/tasks.md");
  ASSERT_TRUE(text.ok());
  for (const Op* op : all_ops()) {
    EXPECT_THAT(*text, HasSubstr("`" + std::string(op->name()) + "`"));
    for (const AttrRule& rule : op->attr_rules())
      EXPECT_THAT(*text, HasSubstr("`" + std::string(rule.name) + "`"));
  }
}

TEST(TaskDocumentation, ShowsATaskThatParses) {
  const Result<std::string> text = read_file(LATHE_SOURCE_DIR "/docs/tasks.md");
  ASSERT_TRUE(text.ok());
  const std::size_t begin = text->find("```toml\n") + 8;
  task_of(std::string_view(*text).substr(begin, text->find("```", begin) - begin));
}

}  // namespace
}  // namespace lathe
