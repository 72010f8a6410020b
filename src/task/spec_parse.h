#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "task/attrs.h"
#include "task/spec.h"
#include "task/toml_table.h"

namespace lathe {

inline constexpr std::size_t kMaxRank = 8;

struct RawAttr {
  std::string name;
  AttrValue value;
  SourcePos where;
};

struct RawInput {
  std::string name;
  SourcePos where;
};

/// A node as written: none of its names is resolved.
struct RawNode {
  std::string out;
  std::string op;
  std::vector<RawInput> in;
  std::vector<RawAttr> attrs;
  SourcePos where;
};

/// The nodes of a task, from its `graph` text or its [[node]] tables (one of them, not both).
Result<std::vector<RawNode>> read_nodes(const TomlTable& task, std::string_view task_text);

/// The dims at which extents are compared: the scored shapes, followed by a few shapes drawn from
/// the domain (unless the task is fixed) that tell accidentally equal extents apart.
std::vector<Dims> probe_shapes(const TaskSpec& spec);

/// Resolves ops, attributes and inputs, infers types: fills spec.nodes.
Status resolve_nodes(const std::vector<RawNode>& raw, TaskSpec& spec);

/// Fills spec.outputs from [[output]], or with the last node, and refuses unused tensors and nodes.
Status resolve_outputs(const TomlTable& task, TaskSpec& spec);

}  // namespace lathe
