#include "candidate/candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace lathe {
namespace {

/// How front matter begins and ends: as a comment of C++, or as the docstring of a Python module.
struct Quotes {
  std::string_view open, close;
};
constexpr Quotes kQuotes[] = {{"/*lathe", "*/"}, {"\"\"\"lathe", "\"\"\""}};

/// Where front matter may begin, and which kind begins there; nullptr for none.
const Quotes* quotes_at(std::string_view text, std::size_t open) {
  const auto found = std::find_if(std::begin(kQuotes), std::end(kQuotes), [&](const Quotes& quotes) {
    return open != std::string_view::npos && text.substr(open).starts_with(quotes.open);
  });
  return found == std::end(kQuotes) ? nullptr : found;
}

/// What editors write before text in UTF-8. Compilers don't expect it behind the line that Lathe
/// puts first.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::size_t first_visible(std::string_view text) {
  const std::size_t begin = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  return text.find_first_not_of(" \t\r\n", begin);
}

std::string hint_on_start(std::string_view text) {
  const std::size_t open = first_visible(text);
  const bool fenced = open != std::string_view::npos &&
                      (text.substr(open).starts_with("```") || text.substr(open).starts_with("~~~"));
  return fenced ? "leave out the lines with Markdown's fences (```) around it"
                : "begin with /*lathe, the plan in TOML, then */; a Python module with \"\"\"lathe, a "
                  "[host] table, then \"\"\"";
}

SourcePos position_of(std::string_view text, std::size_t offset, const std::string& file) {
  SourcePos pos{file, 1, 1};
  for (char c : text.substr(0, offset)) {
    if (c == '\n')
      ++pos.line, pos.column = 1;
    else
      ++pos.column;
  }
  return pos;
}

/// The names that a plan's arguments may use.
struct Names {
  std::set<std::string, std::less<>> buffers;
  std::set<std::string, std::less<>> integers;
  std::set<std::string, std::less<>> maps;

  Names(const Candidate& candidate, const TaskSpec& task) {
    for (const TensorDecl& tensor : task.tensors) buffers.insert(tensor.name);
    for (const OutputDecl& output : task.outputs) buffers.insert(output.name);
    if (candidate.has_plan()) {
      for (const ScratchDecl& scratch : candidate.plan().scratch) buffers.insert(scratch.name);
      for (const TmaDecl& map : candidate.plan().maps) maps.insert(map.name);
    }
    integers.insert(task.dim_names.begin(), task.dim_names.end());
    for (const char* fact :
         {"threads", "cores", "l1_bytes", "l2_bytes", "l3_bytes", "vector_bytes", "sm_count", "smem_optin"})
      integers.insert(fact);
  }
};

Status check_expr(const Expr& expr, const Names& names, const std::string& index, const SourcePos& where) {
  for (const std::string& symbol : expr.symbols())
    if (symbol != index && !names.integers.contains(symbol))
      return invalid(
          fmt::format("unknown name '{}' in an expression", symbol),
          fmt::format("known: {}{}", fmt::join(names.integers, ", "), index.empty() ? "" : ", " + index),
          where);
  return Ok{};
}

Status check_launch(const PlanStep& step, const Names& names) {
  for (const Arg& arg : step.args) {
    if (arg.expr) {
      LATHE_CHECK_OK(check_expr(*arg.expr, names, step.index, step.where));
    } else if (!names.buffers.contains(arg.name) && !names.integers.contains(arg.name) &&
               !names.maps.contains(arg.name) && arg.name != step.index) {
      return invalid(fmt::format("unknown argument '{}' of kernel '{}'", arg.name, step.kernel),
                     fmt::format("buffers: {}; integers: {}", fmt::join(names.buffers, ", "),
                                 fmt::join(names.integers, ", ")),
                     step.where);
    }
  }
  LATHE_CHECK_OK(check_expr(step.items, names, step.index, step.where));
  for (const auto* extents : {&step.grid, &step.block, &step.cluster})
    for (const Expr& extent : *extents) LATHE_CHECK_OK(check_expr(extent, names, step.index, step.where));
  for (const auto* size : {&step.smem, &step.carveout})
    if (*size) LATHE_CHECK_OK(check_expr(**size, names, step.index, step.where));
  return Ok{};
}

Status check_scratch(const Candidate& candidate, const TaskSpec& task, const Names& names) {
  const SourcePos top{candidate.name, 1, 1};
  std::set<std::string> seen;
  for (const ScratchDecl& scratch : candidate.plan().scratch) {
    if (task.find_tensor(scratch.name))
      return invalid(fmt::format("scratch '{}' has an input's name", scratch.name), "rename it", top);
    if (std::any_of(task.outputs.begin(), task.outputs.end(),
                    [&](const OutputDecl& output) { return output.name == scratch.name; }))
      return invalid(fmt::format("scratch '{}' has an output's name", scratch.name), "rename it", top);
    if (!seen.insert(scratch.name).second)
      return invalid(fmt::format("scratch '{}' is declared twice", scratch.name), "rename one", top);
    LATHE_CHECK_OK(check_expr(scratch.bytes, names, "", top));
  }
  return Ok{};
}

Status check_maps(const Candidate& candidate, const TaskSpec& task, const Names& names) {
  std::set<std::string> seen;
  for (const TmaDecl& map : candidate.plan().maps) {
    if (names.buffers.contains(map.name) || names.integers.contains(map.name) ||
        !seen.insert(map.name).second)
      return invalid(fmt::format("map '{}' has the name of something else", map.name), "rename it",
                     map.where);
    const TensorDecl* tensor = task.find_tensor(map.base);
    if (!names.buffers.contains(map.base) || (tensor && tensor->role == Role::kScalar))
      return invalid(fmt::format("the base '{}' of map '{}' is not a buffer", map.base, map.name),
                     fmt::format("buffers: {}", fmt::join(names.buffers, ", ")), map.where);
    for (const auto* exprs : {&map.dims, &map.strides, &map.box})
      for (const Expr& expr : *exprs) LATHE_CHECK_OK(check_expr(expr, names, "", map.where));
    if (map.swizzle) LATHE_CHECK_OK(check_expr(*map.swizzle, names, "", map.where));
  }
  return Ok{};
}

/// Whether a kernel's argument is the buffer `name` or a map of it.
bool reaches(const Plan& plan, const Arg& arg, const std::string& name) {
  return arg.name == name || std::any_of(plan.maps.begin(), plan.maps.end(), [&](const TmaDecl& map) {
           return map.name == arg.name && map.base == name;
         });
}

Status check_step(const PlanStep& step, const Names& names, const TaskSpec& task) {
  if (names.integers.contains(step.index) || names.buffers.contains(step.index) ||
      names.maps.contains(step.index))
    return invalid(fmt::format("index '{}' hides another name", step.index), "rename it", step.where);
  if (step.kind == PlanStep::Kind::kLaunch) {
    LATHE_CHECK_OK(check_launch(step, names));
  } else {
    for (const std::string& node : step.nodes)
      if (!task.find_node(node))
        return invalid(fmt::format("the task '{}' has no node '{}'", task.name, node),
                       "name nodes of the task's graph", step.where);
  }
  if (step.when) LATHE_CHECK_OK(check_expr(*step.when, names, step.index, step.where));
  if (step.repeat) LATHE_CHECK_OK(check_expr(*step.repeat, names, "", step.where));
  return Ok{};
}

}  // namespace

bool Candidate::has_kernels() const {
  return !has_plan() || std::any_of(plan().steps.begin(), plan().steps.end(), [](const PlanStep& step) {
    return step.kind == PlanStep::Kind::kLaunch;
  });
}

std::string with_constants(const std::string& text, const Dims& constants) {
  if (constants.empty()) return text;
  std::string defines, hide, show;
  for (const auto& [name, value] : constants) {
    defines += fmt::format("#define {} {}\n", name, value);
    // NVRTC has no push_macro. Whose text has undefined a name before keeps it so.
    hide += fmt::format("#ifdef {0}\n#undef {0}\n#define LATHE_HIDDEN_{0}\n#endif\n", name);
    show += fmt::format("#ifdef LATHE_HIDDEN_{0}\n#undef LATHE_HIDDEN_{0}\n#define {0} {1}\n#endif\n", name,
                        value);
  }
  const auto is_header_of_lathe = [](std::string_view line) {
    const std::size_t begin = line.find_first_not_of(" \t");
    return begin != line.npos && line[begin] == '#' && line.find("include") != line.npos &&
           line.find("<lathe/") != line.npos;
  };
  // Front matter may quote a header.
  const std::size_t close = starts_with_front_matter(text) ? text.find("*/") : std::string::npos;
  std::string made = defines + "#line 1\n";
  int number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const bool wraps = (close == std::string::npos || begin > close) && is_header_of_lathe(line);
    if (wraps) made += fmt::format("{}#line {}\n", hide, number);
    made += line;
    if (wraps) made += fmt::format("{}{}#line {}\n", line.ends_with('\n') ? "" : "\n", show, number + 1);
    begin = end;
  }
  return made;
}

bool starts_with_front_matter(std::string_view text) {
  return quotes_at(text, first_visible(text)) != nullptr;
}

Result<Candidate> parse_candidate(std::string text, std::string name) {
  if (text.size() > kMaxCandidateBytes)
    return invalid(fmt::format("{} bytes are too many for a candidate", text.size()), "at most 1 MiB",
                   {name});
  if (text.find('\0') != std::string::npos)
    return invalid("the candidate holds a zero byte: it is no text, or one in UTF-16", "save it as UTF-8",
                   {name});
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  const std::size_t open = first_visible(text);
  const Quotes* const quotes = quotes_at(text, open);
  if (!quotes)
    return invalid("the candidate does not start with /*lathe or \"\"\"lathe", hint_on_start(text),
                   {name, 1, 1});
  const std::size_t begin = open + quotes->open.size();
  const std::size_t end = text.find(quotes->close, begin);
  if (end == std::string::npos)
    return invalid(fmt::format("the {} comment has no end", quotes->open),
                   fmt::format("close it with {} before the code", quotes->close),
                   position_of(text, open, name));
  LATHE_TRY(Program program, parse_front_matter(std::string_view(text).substr(begin, end - begin),
                                                position_of(text, begin, name)));
  if (quotes->open != kQuotes[0].open && std::holds_alternative<Plan>(program))
    return invalid("front matter in a docstring must have a [host] table",
                   "add [host] with language = \"python\" and entry = \"ModelNew\"",
                   position_of(text, open, name));
  const Digest digest = digest_of(text);
  return Candidate{std::move(text), std::move(name), std::move(program), digest};
}

Status check_plan(const Candidate& candidate, const TaskSpec& task) {
  const Names names(candidate, task);
  const SourcePos top{candidate.name, 1, 1};
  if (candidate.requirement()) LATHE_CHECK_OK(check_expr(*candidate.requirement(), names, "", top));
  if (!candidate.has_plan()) return Ok{};
  LATHE_CHECK_OK(check_scratch(candidate, task, names));
  LATHE_CHECK_OK(check_maps(candidate, task, names));
  for (const std::string& constant : candidate.plan().constants)
    if (std::find(task.dim_names.begin(), task.dim_names.end(), constant) == task.dim_names.end())
      return invalid(fmt::format("constant '{}' is not a dim of task '{}'", constant, task.name),
                     fmt::format("dims: {}", fmt::join(task.dim_names, ", ")), top);
  for (const PlanStep& step : candidate.plan().steps) LATHE_CHECK_OK(check_step(step, names, task));
  for (const OutputDecl& output : task.outputs) {
    const bool written =
        std::any_of(candidate.plan().steps.begin(), candidate.plan().steps.end(), [&](const PlanStep& step) {
          const bool as_arg = std::any_of(step.args.begin(), step.args.end(), [&](const Arg& arg) {
            return reaches(candidate.plan(), arg, output.name);
          });
          return as_arg || std::find(step.nodes.begin(), step.nodes.end(), output.name) != step.nodes.end();
        });
    if (!written)
      return invalid(fmt::format("no step takes the output '{}'", output.name), "pass it to a kernel", top);
  }
  return Ok{};
}

}  // namespace lathe
