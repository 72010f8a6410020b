#include "policy/kernel_grammar.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "base/fd.h"
#include "candidate/candidate.h"
#include "policy/catalog/compile.h"
#include "prompt/fence.h"
#include "task/toml_table.h"
#include "tests/task/shipped_tasks.h"

namespace lathe {
namespace {

TaskSpec softmax() { return *load_task(std::string(LATHE_SOURCE_DIR) + "/tasks/softmax_rows.toml"); }

std::string plan(const std::string& front_matter) {
  return "```cpp\n/*lathe\n" + front_matter + "*/\n#include <lathe/cpu.h>\n";
}
const std::string kLaunch = "[[launch]]\nkernel = \"f\"\nitems = \"rows\"\nargs = [\"x\", \"y\", \"cols\"]\n";

TEST(KernelGrammar, HasEveryKernelOfTheCatalogue) {
  int seen = 0;
  for (const std::string& path : shipped_task_files())
    for (const Dialect dialect : {Dialect::kCpu, Dialect::kCuda}) {
      const auto task = *load_task(path);
      const auto graph = catalog::lower(task);
      if (!graph.ok()) continue;
      const TextGrammar grammar = kernel_grammar(task, dialect);
      Rng rng(Seed::from_number(1));
      for (int i = 0; i < 4; ++i) {
        const auto made =
            catalog::compile(*graph, {}, i == 0 ? nullptr : &rng, {.cuda = dialect == Dialect::kCuda});
        if (!made.ok()) continue;
        EXPECT_TRUE(grammar.accepts(fenced(made->text, "cpp")))
            << path << "\n"
            << made->text.substr(0, made->text.find("*/"));
        ++seen;
      }
    }
  EXPECT_GT(seen, 400);
}

TEST(KernelGrammar, HasTheExamplesOfThePrompts) {
  TaskSpec centre = softmax();
  centre.dim_names = {"rows", "cols"};
  for (const auto& [file, dialect] :
       {std::pair{"example_cpu.cpp", Dialect::kCpu}, {"example_cuda.cu", Dialect::kCuda}}) {
    const auto example = read_file(std::string(LATHE_SOURCE_DIR) + "/prompts/" + file);
    ASSERT_TRUE(example.ok());
    EXPECT_TRUE(kernel_grammar(centre, dialect).accepts(fenced(*example, "cpp"))) << file;
  }
}

TEST(KernelGrammar, LetsAModelThinkBeforeTheBlock) {
  const TextGrammar grammar = kernel_grammar(softmax(), Dialect::kCpu);
  EXPECT_TRUE(grammar.accepts(plan(kLaunch)));
  EXPECT_TRUE(
      grammar.accepts("Rows are independent. ``quoted``\n\n" + plan(kLaunch) + "anything ``` at all"));
  EXPECT_FALSE(grammar.accepts("I cannot do that."));
  EXPECT_FALSE(grammar.accepts("```python\nprint()\n```\n" + plan(kLaunch)));
  EXPECT_FALSE(grammar.longest_text().has_value());
}

TEST(KernelGrammar, HasNoFrontMatterThatCannotBeRead) {
  const TextGrammar grammar = kernel_grammar(softmax(), Dialect::kCpu);
  const auto accepts = [&](const std::string& front_matter) { return grammar.accepts(plan(front_matter)); };
  EXPECT_TRUE(accepts("requires = \"cols % 4 == 0 && rows > 1\"\n\n" + kLaunch + "\n" + kLaunch));
  EXPECT_TRUE(
      accepts("[[scratch]]\nname = \"s_sums\"\nbytes = \"4 * (rows + cdiv(cols, 8))\"\n\n"
              "[[launch]]\nkernel = \"f\"\nitems = \"rows\"\nargs = [\"x\", \"s_sums\", \"2 * cols\"]\n"));
  for (const std::string& wrong : {
           std::string(),                                // no step
           std::string("{{launch}}\nkernel = \"f\"\n"),  // no table
           kLaunch + "threads = 4\n",                    // no key
           kLaunch + "\n[[file]]\nname = \"f\"\n",       // no table of a plan
           std::string(
               "[[launch]]\nkernel = \"f\"\nitems = \"rows\nargs = []\n"),  // a quote that does not end
           std::string("[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"x\"]\n"),  // no dim of the task
           std::string("[[launch]]\nkernel = \"f\"\nitems = \"(rows\"\nargs = [\"x\"]\n"),
           std::string("[[launch]]\nkernel = \"f\"\nitems = \"rows\"\nargs = [\"v3\"]\n"),  // no buffer
           std::string("[[launch]]\nkernel = \"f\"\ngrid = [\"rows\"]\nblock = [32]\nargs = [\"x\"]\n"),
       })
    EXPECT_FALSE(accepts(wrong)) << wrong;
}

/// Of each state how many edges it is from code.
std::vector<int> distances(const TextGrammar& grammar) {
  std::vector<int> far(grammar.states.size(), std::numeric_limits<int>::max() / 2);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < far.size(); ++i) {
      int least = grammar.states[i].open ? 0 : far[i];
      for (const auto& edge : grammar.states[i].edges)
        least = std::min(least, far[static_cast<std::size_t>(edge.to)] + 1);
      changed = changed || least != far[i];
      far[i] = least;
    }
  }
  return far;
}

/// A text of the grammar as far as its code: now and then a detour.
std::string walk(const TextGrammar& grammar, const std::vector<int>& far, Rng& rng) {
  std::string text;
  for (std::size_t at = 0; !grammar.states[at].open;) {
    const auto& edges = grammar.states[at].edges;
    const auto to_code = [&](const auto& edge) { return far[static_cast<std::size_t>(edge.to)]; };
    const auto& edge =
        rng.below(5) < 2 ? edges[rng.below(edges.size())] : *std::ranges::min_element(edges, {}, to_code);
    text += edge.text;
    at = static_cast<std::size_t>(edge.to);
  }
  return text;
}

TEST(KernelGrammar, HasNothingButTomlInFrontOfTheCode) {
  Rng rng(Seed::from_number(1));
  int plans = 0, all = 0;
  for (const std::string& path : shipped_task_files())
    for (const Dialect dialect : {Dialect::kCpu, Dialect::kCuda}) {
      const auto task = *load_task(path);
      const TextGrammar grammar = kernel_grammar(task, dialect);
      const std::vector<int> far = distances(grammar);
      for (int i = 0; i < 8; ++i, ++all) {
        const std::string answer = walk(grammar, far, rng) + "\nint f();\n```";
        ASSERT_TRUE(grammar.accepts(answer)) << answer;
        const std::string candidate = candidate_in(answer);
        ASSERT_TRUE(candidate.starts_with("/*lathe\n")) << answer;
        const std::size_t begin = std::string_view("/*lathe\n").size();
        const auto document = TomlDocument::parse(candidate.substr(begin, candidate.find("*/") - begin),
                                                  {"front matter", 1, 1});
        EXPECT_TRUE(document.ok()) << document.error().to_string() << "\n" << answer;
        plans += parse_candidate(candidate, "walk").ok();
      }
    }
  EXPECT_GT(plans, all / 2)
      << "most are plans: names that are declared twice and a function's arguments aside";
}

}  // namespace
}  // namespace lathe
