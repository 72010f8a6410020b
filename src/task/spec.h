#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "task/op.h"

namespace lathe {

enum class Role { kActivation, kParameter, kInOut, kScalar, kIndex };

/// How test inputs for one tensor are drawn; `low`/`high` bound every distribution when `bounded`.
struct Generator {
  std::string kind = "normal";  ///< normal, uniform, positive, index, one_hot, zeros_ones
  double mean = 0;
  double scale = 1;
  bool bounded = false;
  double low = 0;
  double high = 0;
  std::optional<Expr> index_limit;  ///< for kind "index": values are in [0, limit)
  Order order = Order::kAny;        ///< for kind "index"
};

struct TensorDecl {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Expr> shape;  ///< empty for a scalar
  Role role = Role::kActivation;
  Generator generator;
  std::optional<double> value;  ///< a kScalar's fixed value; drawn from the generator when absent
  SourcePos where;
};

struct NodeDecl {
  std::string out;
  std::string op_name;
  const Op* op = nullptr;
  std::vector<std::string> in;
  Attrs attrs;
  SymbolicType type;  ///< inferred
  SourcePos where;
};

enum class CompareKind {
  kBound,    ///< |error| <= the propagated bound, NaN and Inf masks equal, RMS <= 8x naive
  kExact,    ///< equal bits after decoding
  kArgmax,   ///< the element at the returned index is the largest, within the bound
  kArgsort,  ///< the element at the returned index has this rank, within the bound, and no index of a line is
             ///< returned twice
};

struct OutputDecl {
  std::string name;  ///< a node's result (or an inout tensor that a node overwrites)
  DType dtype = DType::kF32;
  CompareKind compare = CompareKind::kBound;
  std::vector<Expr> shape;
  SourcePos where;
};

struct NamedShape {
  std::string name;
  Dims dims;
};

struct DimRange {
  std::int64_t low = 1;
  std::int64_t high = 1;
};

enum class ReferenceKind { kGraph, kNative, kProcess };

/// A computation to find a fast kernel for. Immutable; named by the digest of its text.
struct TaskSpec {
  std::string name;
  std::string description;
  std::vector<std::string> dim_names;
  std::map<std::string, DimRange> dim_ranges;  ///< where hidden shapes are drawn
  std::vector<TensorDecl> tensors;             ///< inputs, in the order kernels list them
  std::vector<NodeDecl> nodes;                 ///< topological order
  std::vector<OutputDecl> outputs;
  std::optional<Expr> where;       ///< the domain
  std::vector<NamedShape> shapes;  ///< scored; the first is the headline
  bool fixed = false;              ///< no hidden shapes
  double tolerance = 1;            ///< scales every error bound
  bool denormals = false;          ///< whether kernels must keep results too small for normal numbers
  ReferenceKind reference = ReferenceKind::kGraph;
  std::string reference_source;        ///< for kNative and kProcess: the file, relative to the task's
  std::string reference_text;          ///< for kProcess: what is in it; part of the digest
  std::string reference_entry;         ///< for kProcess: the class in it, "Model"
  std::vector<std::string> baselines;  ///< "naive", "onednn", "cudnn"...; empty: all that apply
  std::string text;
  std::string path;
  Digest digest;

  const TensorDecl* find_tensor(std::string_view tensor) const;
  const NodeDecl* find_node(std::string_view node) const;
};

/// What `baselines` may name, whatever the device.
std::span<const std::string> known_baselines();

/// Parses and checks a task. Errors carry file:line:column and a hint (a similar name, the allowed
/// values). It opens no file: a process reference has no text then.
Result<TaskSpec> parse_task(std::string_view text, const std::string& path);
Result<TaskSpec> load_task(const std::string& path);
/// The files of a folder that end with ".toml", by name; of one that cannot be read, those found.
std::vector<std::string> task_files(const std::string& folder);

}  // namespace lathe
