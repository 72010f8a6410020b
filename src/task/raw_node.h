#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "task/attrs.h"
#include "task/toml_table.h"

namespace lathe {

inline constexpr std::size_t kMaxNodes = 256;

struct RawAttr {
  std::string name;
  AttrValue value;
  SourcePos where;
};

struct RawInput {
  std::string name;
  SourcePos where;
};

/// A node as written, before any name in it is checked.
struct RawNode {
  std::string out;
  std::string op;
  std::vector<RawInput> in;
  std::vector<RawAttr> attrs;
  SourcePos where;
};

/// The nodes of a task, from its `graph` text or its [[node]] tables (one of them, not both).
Result<std::vector<RawNode>> read_nodes(const TomlTable& task, std::string_view task_text);

/// Parses lines `out = op(in, ..., key = value)`; `where` is the text's first character.
Result<std::vector<RawNode>> parse_graph(std::string_view text, const SourcePos& where);

}  // namespace lathe
