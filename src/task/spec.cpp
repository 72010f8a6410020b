#include "task/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/fd.h"
#include "task/bound_task.h"
#include "task/names.h"
#include "task/spec_parse.h"

namespace lathe {
namespace {

constexpr std::size_t kMaxTextBytes = 256 * 1024;
constexpr std::size_t kMaxTensors = 192;  // with the outputs, as many as the frames to a GPU name
constexpr std::size_t kMaxDims = 16;
constexpr std::size_t kMaxShapes = 64;
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 31;

Status check_name(std::string_view name, std::string_view what, const SourcePos& where) {
  if (is_usable_name(name)) return Ok{};
  return invalid(fmt::format("'{}' cannot name {}", name.substr(0, 80), what),
                 "use a C identifier that is no keyword, such as x or row_scale", where);
}

std::vector<std::string> keys_of(const TaskSpec& spec) { return spec.dim_names; }

Status read_range(const TomlTable& dims, const TomlValue& written, TaskSpec& spec) {
  const std::vector<TomlValue>& pair = written.items;
  if (!written.is_list() || pair.size() != 2 || !pair[0].integer() || !pair[1].integer()) {
    return invalid(fmt::format("dim '{}' needs a range of two integers", written.key),
                   "for example M = [1, 4096]", dims.where(written));
  }
  const DimRange range{*pair[0].integer(), *pair[1].integer()};
  if (range.low < 1 || range.high < range.low || range.high > kMaxExtent) {
    return invalid(fmt::format("dim '{}' has an empty or impossible range", written.key),
                   "1 <= low <= high <= 2^31", dims.where(written));
  }
  spec.dim_ranges[written.key] = range;
  return Ok{};
}

/// `dims = ["M", "N"]`, or `dims = { M = [1, 4096] }` with the range of hidden shapes.
Status read_dims(const TomlTable& task, TaskSpec& spec) {
  const TomlValue* written = task.get("dims");
  if (written == nullptr) return Ok{};
  if (written->items.size() > kMaxDims) return invalid("more than 16 dims", {}, task.where("dims"));
  std::vector<std::pair<std::string, SourcePos>> names;
  if (written->is_table()) {
    const TomlTable dims = task.inner(*written);
    for (const TomlValue& dim : dims.members()) {
      LATHE_CHECK_OK(read_range(dims, dim, spec));
      names.emplace_back(dim.key, dims.where(dim));
    }
  } else {
    LATHE_TRY(const std::vector<std::string> list, task.texts("dims"));
    for (const std::string& name : list) names.emplace_back(name, task.where("dims"));
  }
  for (const auto& [name, where] : names) {
    LATHE_CHECK_OK(check_name(name, "a dim", where));
    if (std::count(spec.dim_names.begin(), spec.dim_names.end(), name) > 0) {
      return invalid(fmt::format("dim '{}' is declared twice", name), {}, where);
    }
    spec.dim_names.push_back(name);
  }
  return Ok{};
}

Status check_symbols(const Expr& expr, const TaskSpec& spec, const SourcePos& where) {
  for (const std::string& symbol : expr.symbols()) {
    if (std::count(spec.dim_names.begin(), spec.dim_names.end(), symbol) > 0) continue;
    return invalid(fmt::format("'{}' is not a dim", symbol), did_you_mean(symbol, keys_of(spec)), where);
  }
  return Ok{};
}

Status read_generator(const TomlTable& tensor, const TaskSpec& spec, TensorDecl& decl) {
  const bool is_index = decl.role == Role::kIndex;
  const TomlValue* written = tensor.get("gen");
  if (written == nullptr) {
    if (!is_index) return Ok{};
    return invalid(fmt::format("index tensor '{}' needs a limit", decl.name),
                   "for example gen = { kind = \"index\", limit = \"vocabulary\" }", decl.where);
  }
  if (!written->is_table()) {
    return invalid("'gen' must be a table", "for example gen = { kind = \"uniform\", low = 0, high = 1 }",
                   tensor.where(*written));
  }
  const TomlTable gen = tensor.inner(*written);
  LATHE_CHECK_OK(gen.allow_only({"kind", "mean", "scale", "low", "high", "limit", "order"}, "gen"));
  Generator& out = decl.generator;
  LATHE_TRY(out.kind,
            gen.choice("kind", {"normal", "uniform", "positive", "index", "one_hot", "zeros_ones"}));
  LATHE_TRY(out.mean, gen.real("mean", 0));
  LATHE_TRY(out.scale, gen.real("scale", 1));
  out.bounded = gen.has("low") || gen.has("high");
  const bool uniform = out.kind == "uniform";
  LATHE_TRY(out.low, gen.real("low", uniform ? -1 : 0));
  LATHE_TRY(out.high, gen.real("high", 1));
  out.bounded = out.bounded || uniform;
  if (!(out.scale > 0) || !(std::abs(out.mean) < 1e30) || !(out.scale < 1e30) ||
      (out.bounded && !(out.low < out.high))) {
    return invalid("impossible generator", "scale > 0 and low < high", gen.where());
  }
  if ((out.kind == "index") != is_index || gen.has("limit") != is_index || (gen.has("order") && !is_index)) {
    return invalid("role \"index\", gen.kind \"index\" and gen.limit go together",
                   is_index
                       ? "write gen = { kind = \"index\", limit = ... }"
                       : "write role = \"index\" for a tensor of indices; gen.limit and gen.order are of "
                         "those alone",
                   gen.where());
  }
  if (is_index) {
    LATHE_TRY(out.index_limit, gen.expr(*gen.get("limit")));
    LATHE_CHECK_OK(check_symbols(*out.index_limit, spec, gen.where("limit")));
    LATHE_TRY(const std::string order, gen.choice("order", {"any", "distinct", "offsets"}));
    if (order != "any") out.order = order == "distinct" ? Order::kDistinct : Order::kOffsets;
    if (out.order == Order::kOffsets && decl.shape.size() != 1)
      return invalid("offsets are a vector", "one for each segment, and the end of the last",
                     gen.where("order"));
  }
  return Ok{};
}

Role role_of(const std::string& name) {
  if (name == "parameter") return Role::kParameter;
  if (name == "inout") return Role::kInOut;
  if (name == "scalar") return Role::kScalar;
  return name == "index" ? Role::kIndex : Role::kActivation;
}

Status read_tensor(const TomlTable& table, TaskSpec& spec) {
  LATHE_CHECK_OK(table.allow_only({"name", "dtype", "shape", "role", "gen", "value"}, "[[tensor]]"));
  TensorDecl decl;
  decl.where = table.where();
  LATHE_TRY(decl.name, table.required_text("name"));
  LATHE_CHECK_OK(check_name(decl.name, "a tensor", table.where("name")));
  if (spec.find_tensor(decl.name) != nullptr ||
      std::count(spec.dim_names.begin(), spec.dim_names.end(), decl.name) > 0) {
    return invalid(fmt::format("'{}' is declared twice", decl.name), "tensors and dims share one namespace",
                   table.where("name"));
  }
  LATHE_TRY(const std::string role,
            table.choice("role", {"activation", "parameter", "inout", "scalar", "index"}));
  decl.role = role_of(role);
  LATHE_TRY(decl.dtype, table.dtype("dtype", decl.role == Role::kIndex ? DType::kI32 : DType::kF32));
  LATHE_TRY(decl.shape, table.exprs("shape", kMaxRank));
  if ((decl.role == Role::kScalar) != decl.shape.empty()) {
    return invalid(fmt::format("tensor '{}' has no shape", decl.name),
                   "give shape = [...], or role = \"scalar\" without a shape", decl.where);
  }
  for (const Expr& extent : decl.shape) LATHE_CHECK_OK(check_symbols(extent, spec, table.where("shape")));
  if (table.has("value")) {
    if (decl.role != Role::kScalar) {
      return invalid("only a scalar has a value", "use role = \"scalar\"", table.where("value"));
    }
    LATHE_TRY(decl.value, table.real("value", 0));
    if (std::isnan(*decl.value))
      return invalid(fmt::format("the value of '{}' is not a number", decl.name),
                     "leave it out, and values are drawn", table.where("value"));
  }
  LATHE_CHECK_OK(read_generator(table, spec, decl));
  if (decl.role == Role::kIndex && info(decl.dtype).is_float) {
    return invalid("an index tensor needs an integer dtype", "int32 or int64", table.where("dtype"));
  }
  spec.tensors.push_back(std::move(decl));
  return Ok{};
}

Status read_shape(const TomlTable& table, TaskSpec& spec) {
  std::vector<std::string> keys = spec.dim_names;
  keys.push_back("name");
  LATHE_CHECK_OK(table.allow_only(keys, "[[shape]]"));
  NamedShape shape;
  LATHE_TRY(shape.name, table.text("name", fmt::format("shape{}", spec.shapes.size() + 1)));
  for (const std::string& dim : spec.dim_names) {
    const TomlValue* written = table.get(dim);
    if (written == nullptr || !written->integer()) {
      return invalid(fmt::format("shape '{}' needs an integer for dim '{}'", shape.name, dim),
                     fmt::format("add {} = 1024", dim), table.where(dim));
    }
    const std::int64_t extent = *written->integer();
    if (extent < 1 || extent > kMaxExtent) {
      return invalid(fmt::format("dim '{}' is {}", dim, extent), "1 <= extent <= 2^31", table.where(dim));
    }
    shape.dims[dim] = extent;
  }
  for (const NamedShape& other : spec.shapes) {
    if (other.name == shape.name || other.dims == shape.dims) {
      return invalid(fmt::format("shape '{}' repeats '{}'", shape.name, other.name), {}, table.where());
    }
  }
  spec.shapes.push_back(std::move(shape));
  return Ok{};
}

Status read_shapes(const TomlTable& task, TaskSpec& spec) {
  LATHE_TRY(const std::vector<TomlTable> tables, task.tables("shape", kMaxShapes));
  for (const TomlTable& table : tables) LATHE_CHECK_OK(read_shape(table, spec));
  if (spec.shapes.empty()) {
    if (!spec.dim_names.empty()) {
      return invalid("a task needs at least one [[shape]] to be scored at",
                     "[[shape]] with a value for each dim", task.where());
    }
    spec.shapes.push_back({"only", {}});
  }
  for (const std::string& dim : spec.dim_names) {
    if (spec.dim_ranges.contains(dim)) continue;
    std::int64_t largest = 1;
    for (const NamedShape& shape : spec.shapes) largest = std::max(largest, shape.dims.at(dim));
    spec.dim_ranges[dim] = {1, std::min(kMaxExtent, 2 * largest)};
  }
  return Ok{};
}

/// A process reference is a Python file: its text is part of what the task is.
Status read_process_source(TaskSpec& spec) {
  const auto path = std::filesystem::path(spec.path).parent_path() / spec.reference_source;
  auto text = read_file(path.string(), kMaxTextBytes);
  if (!text.ok())
    return Error{ErrorCode::kNotFound,
                 "no reference source: " + text.error().message,
                 "'source' is relative to the task's file",
                 {spec.path, 0, 0}};
  spec.reference_text = *std::move(text);
  spec.digest = Hasher().add(spec.text).add(spec.reference_text).finish();
  return Ok{};
}

/// `reference = "native"` beside `source`, or a table with `kind`, `source` and, of a process,
/// `entry`.
Status read_reference(const TomlTable& task, TaskSpec& spec) {
  const TomlValue* written = task.get("reference");
  const bool is_table = written != nullptr && written->is_table();
  const TomlTable table = is_table ? task.inner(*written) : task;
  const char* const key = is_table ? "kind" : "reference";
  if (is_table) LATHE_CHECK_OK(table.allow_only({"kind", "source", "entry"}, "[reference]"));
  LATHE_TRY(const std::string kind, table.choice(key, {"graph", "native", "process"}));
  if (kind == "graph") {
    if (!table.has("source")) return Ok{};
    return invalid("'source' is for native and process references", {}, table.where("source"));
  }
  LATHE_TRY(spec.reference_source, table.required_text("source"));
  spec.reference = kind == "native" ? ReferenceKind::kNative : ReferenceKind::kProcess;
  if (spec.reference == ReferenceKind::kNative) return Ok{};
  LATHE_TRY(spec.reference_entry, table.text(is_table ? "entry" : "", "Model"));
  return check_name(spec.reference_entry, "a class", table.where());
}

Status read_header(const TomlTable& task, TaskSpec& spec) {
  LATHE_CHECK_OK(
      task.allow_only({"name", "description", "dims", "tensor", "graph", "node", "output", "shape", "where",
                       "fixed", "tolerance", "denormals", "reference", "source", "baselines"},
                      "the task"));
  LATHE_TRY(spec.name, task.required_text("name"));
  LATHE_CHECK_OK(check_name(spec.name, "a task", task.where("name")));
  LATHE_TRY(spec.description, task.text("description", ""));
  LATHE_TRY(spec.fixed, task.flag("fixed", false));
  LATHE_TRY(spec.denormals, task.flag("denormals", false));
  LATHE_TRY(spec.tolerance, task.real("tolerance", 1));
  if (!(spec.tolerance > 0) || spec.tolerance > 1e6) {
    return invalid("'tolerance' must be between 0 and 1e6",
                   "it scales every error bound; 1 is right for most", task.where("tolerance"));
  }
  LATHE_CHECK_OK(read_reference(task, spec));
  LATHE_TRY(spec.baselines, task.texts("baselines"));
  const std::span<const std::string> known = known_baselines();
  for (const std::string& name : spec.baselines) {
    if (std::count(known.begin(), known.end(), name) > 0) continue;
    return invalid(fmt::format("unknown baseline '{}'", name), did_you_mean(name, known),
                   task.where("baselines"));
  }
  return read_dims(task, spec);
}

Status read_domain(const TomlTable& task, TaskSpec& spec) {
  const TomlValue* written = task.get("where");
  if (written == nullptr) return Ok{};
  LATHE_TRY(spec.where, task.expr(*written));
  return check_symbols(*spec.where, spec, task.where(*written));
}

/// Every scored shape must bind: positive extents, inside the domain, within memory limits.
Status check_shapes(const TomlTable& task, const TaskSpec& spec) {
  for (std::size_t i = 0; i < spec.shapes.size(); ++i) {
    const Result<BoundTask> bound = bind(spec, spec.shapes[i].dims);
    if (bound.ok()) continue;
    Error error = bound.error();
    error.message = fmt::format("shape '{}': {}", spec.shapes[i].name, error.message);
    const TomlValue* shapes = task.get("shape");
    if (error.where.line == 0) error.where = shapes ? task.where(shapes->items[i]) : task.where();
    return error;
  }
  return Ok{};
}

}  // namespace

const TensorDecl* TaskSpec::find_tensor(std::string_view tensor) const {
  const auto found = std::ranges::find(tensors, tensor, &TensorDecl::name);
  return found == tensors.end() ? nullptr : &*found;
}

const NodeDecl* TaskSpec::find_node(std::string_view node) const {
  const auto found = std::ranges::find(nodes, node, &NodeDecl::out);
  return found == nodes.end() ? nullptr : &*found;
}

std::span<const std::string> known_baselines() {
  static const std::vector<std::string> known = {"naive", "openblas", "onednn", "cublas", "cudnn"};
  return known;
}

Result<TaskSpec> parse_task(std::string_view text, const std::string& path) {
  if (text.size() > kMaxTextBytes) return invalid("task longer than 256 KiB", {}, {path, 0, 0});
  LATHE_TRY(const TomlDocument document, TomlDocument::parse(text, {path}));
  const TomlTable task = document.root();
  TaskSpec spec;
  spec.text = text;
  spec.path = path;
  spec.digest = digest_of(text);
  LATHE_CHECK_OK(read_header(task, spec));
  LATHE_CHECK_OK(read_domain(task, spec));
  LATHE_TRY(const std::vector<TomlTable> tensors, task.tables("tensor", kMaxTensors));
  for (const TomlTable& tensor : tensors) LATHE_CHECK_OK(read_tensor(tensor, spec));
  LATHE_CHECK_OK(read_shapes(task, spec));
  LATHE_TRY(const std::vector<RawNode> nodes, read_nodes(task, text));
  LATHE_CHECK_OK(resolve_nodes(nodes, spec));
  LATHE_CHECK_OK(resolve_outputs(task, spec));
  LATHE_CHECK_OK(check_shapes(task, spec));
  return spec;
}

Result<TaskSpec> load_task(const std::string& path) {
  LATHE_TRY(const std::string text, read_file(path, kMaxTextBytes));
  LATHE_TRY(TaskSpec spec, parse_task(text, path));
  if (spec.reference == ReferenceKind::kProcess) LATHE_CHECK_OK(read_process_source(spec));
  return spec;
}

std::vector<std::string> task_files(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code code;
  for (std::filesystem::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    if (it->path().extension() == ".toml") paths.push_back(it->path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace lathe
