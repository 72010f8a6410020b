#include "conformance/conformance_table.h"

#include <array>

#include "base/fd.h"
#include "task/toml_table.h"

namespace lathe {
namespace {

/// A text, or a list of texts.
Result<std::vector<std::string>> one_or_more(const TomlTable& table, std::string_view key) {
  const toml::node* node = table.get(key);
  if (node && node->is_string()) return std::vector{node->value<std::string>().value()};
  LATHE_TRY(auto texts, table.texts(key));
  if (texts.empty()) return invalid("'" + std::string(key) + "' is missing", {}, table.where());
  return texts;
}

Result<ConformanceCase> read_case(const TomlTable& table) {
  LATHE_CHECK_OK(
      table.allow_only({"file", "task", "expect", "reason", "depth", "at_most", "over", "threads", "naive"},
                       "a conformance case"));
  ConformanceCase result;
  LATHE_TRY(result.file, table.required_text("file"));
  LATHE_TRY(result.task, table.required_text("task"));
  LATHE_TRY(const auto outcomes, one_or_more(table, "expect"));
  for (const std::string& outcome : outcomes) {
    LATHE_TRY(const Outcome parsed, parse_outcome(outcome));
    result.expect.push_back(parsed);
  }
  LATHE_TRY(result.reasons, one_or_more(table, "reason"));
  LATHE_TRY(const std::string depth, table.choice("depth", {"verify", "screen", "final"}));
  LATHE_TRY(result.depth, parse_depth(depth));
  LATHE_TRY(result.at_most, table.real("at_most", 0));
  LATHE_TRY(result.over, table.text("over", ""));
  LATHE_TRY(const double threads, table.real("threads", 1));
  result.threads = static_cast<int>(threads);
  LATHE_TRY(result.naive, table.choice("naive", {"accepted", "faster", "harmed", "any"}));
  return result;
}

}  // namespace

Result<std::vector<ConformanceCase>> read_conformance_table(const std::string& folder) {
  constexpr std::size_t kMostCases = 1000;
  const std::string path = folder + "/expected.toml";
  LATHE_TRY(const std::string text, read_file(path));
  LATHE_TRY(const toml::table parsed, parse_toml(text, path));
  const TomlTable root(parsed, path);
  LATHE_CHECK_OK(root.allow_only({"case"}, "the conformance table"));
  LATHE_TRY(const auto tables, root.tables("case", kMostCases));
  std::vector<ConformanceCase> cases;
  for (const TomlTable& table : tables) {
    LATHE_TRY(ConformanceCase one, read_case(table));
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace lathe
