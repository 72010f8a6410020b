#include "task/generate/task_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace lathe {
namespace {

std::string quoted_list(const TaskBuilder::Extents& shape) {
  std::string text;
  for (const std::string& extent : shape) {
    const bool number = extent.find_first_not_of("0123456789") == std::string::npos;
    text += (text.empty() ? "" : ", ") + (number ? extent : "\"" + extent + "\"");
  }
  return "[" + text + "]";
}

}  // namespace

std::string TaskBuilder::fresh(const std::string& stem) {
  std::string name = stem;
  for (int i = 2; std::ranges::find(names_, name) != names_.end(); ++i) name = stem + std::to_string(i);
  names_.push_back(name);
  return name;
}

std::string TaskBuilder::dim(const std::string& stem, std::int64_t extent, std::int64_t low) {
  dims_.push_back({fresh(stem), extent, low});
  return dims_.back().name;
}

std::int64_t TaskBuilder::extent(const std::string& dim) const {
  const auto found = std::ranges::find(dims_, dim, &Dim::name);
  return found == dims_.end() ? 1 : found->extent;
}

void TaskBuilder::halve(const std::string& dim) {
  const auto found = std::ranges::find(dims_, dim, &Dim::name);
  assert(found != dims_.end());
  found->extent = std::max(found->low, found->extent / 2);
}

std::string TaskBuilder::tensor(const std::string& stem, const Extents& shape, const std::string& details) {
  const std::string name = fresh(stem);
  const std::string rest = details.empty() ? "" : ", " + details;
  tensors_.push_back(fmt::format("{{ name = \"{}\", shape = {}{} }}", name, quoted_list(shape), rest));
  values_.push_back({name, shape});
  return name;
}

std::string TaskBuilder::parameter(const std::string& stem, const Extents& shape,
                                   const std::string& generator) {
  const std::string gen = generator.empty() ? "" : ", gen = { " + generator + " }";
  return tensor(stem, shape, "role = \"parameter\"" + gen);
}

void TaskBuilder::start(const std::string& name, Extents shape) {
  current_ = name;
  shape_ = std::move(shape);
}

void TaskBuilder::node(const std::string& op, const std::string& input, const std::string& rest,
                       Extents shape) {
  const std::string out = fresh("v");
  lines_.push_back(fmt::format("{} = {}({}{}{})", out, op, input, rest.empty() ? "" : ", ", rest));
  values_.push_back({out, shape});
  last_op_ = op;
  start(out, std::move(shape));
}

std::string TaskBuilder::side_node(const std::string& op, const std::string& input) {
  const std::string out = fresh("s");
  lines_.push_back(fmt::format("{} = {}({})", out, op, input));
  return out;
}

std::string TaskBuilder::earlier_of_same_shape() {
  std::vector<std::string> found;
  for (const Named& value : values_) {
    if (value.shape == shape_ && value.name != current_) found.push_back(value.name);
  }
  return found.empty() ? "" : found[rng_.below(found.size())];
}

std::string TaskBuilder::to_toml(const std::string& name) const {
  std::vector<std::string> ranges;
  std::string shape;
  for (const Dim& dim : dims_) {
    ranges.push_back(fmt::format("{} = [{}, {}]", dim.name, dim.low, 2 * dim.extent));
    shape += fmt::format("{} = {}\n", dim.name, dim.extent);
  }
  std::string text = fmt::format("name = \"{}\"\ndescription = \"Made by the task generator.\"\n", name);
  text += fmt::format("dims = {{ {} }}\ntensor = [\n", fmt::join(ranges, ", "));
  for (const std::string& tensor : tensors_) text += fmt::format("  {},\n", tensor);
  text += fmt::format("]\ngraph = \"\"\"\n{}\n\"\"\"\n\n[[shape]]\nname = \"base\"\n{}",
                      fmt::join(lines_, "\n"), shape);
  return text;
}

}  // namespace lathe
