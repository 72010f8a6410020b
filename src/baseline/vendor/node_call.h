#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lathe::vendor {

using Extents = std::vector<std::int64_t>;

/// An operand of a node: an earlier node of the call, or one of the caller's buffers.
struct Operand {
  int node = -1;    ///< index into NodeCall::nodes; -1: `buffer`
  int buffer = -1;  ///< index into the pointers given to execute
  Extents shape;
  std::string dtype;
};

struct Node {
  std::string op;
  nlohmann::json attrs;
  std::vector<Operand> in;
  Operand out;  ///< `buffer` is -1 for an internal value
};

/// BoundStep::node_text, parsed and checked: operands refer to earlier nodes, and only the last
/// node's value leaves the call.
struct NodeCall {
  std::string library;
  std::vector<Node> nodes;
};

Result<NodeCall> parse_node_call(std::string_view json);

/// A prepared library call: its memory is allocated and its code generated. `execute` returns 0 or
/// the library's error code.
class PreparedCall {
 public:
  virtual ~PreparedCall() = default;
  virtual int execute(void* const* buffers) = 0;
};

Result<std::unique_ptr<PreparedCall>> prepare_openblas(const NodeCall& call, int threads);
Result<std::unique_ptr<PreparedCall>> prepare_cublas(const NodeCall& call);
Result<std::unique_ptr<PreparedCall>> prepare_cudnn(const NodeCall& call);
/// Sets the CUstream of later calls if the library is in use. Returns 0 or its error code.
int set_cublas_stream(void* stream);
int set_cudnn_stream(void* stream);
Result<std::unique_ptr<PreparedCall>> prepare_onednn(const NodeCall& call, int threads);

std::int64_t count(const Extents& shape);

/// A window's attribute, one number for each axis; `fallback` if the node does not have it.
Extents per_axis(const Node& node, const char* name, std::size_t axes, std::int64_t fallback);

}  // namespace lathe::vendor
