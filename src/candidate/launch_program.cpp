#include "candidate/launch_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace lathe {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 32;
constexpr std::int64_t kMaxStride = std::int64_t{1} << 40;
constexpr std::int64_t kMaxBox = 256, kMaxBoxBytes = 227 << 10;
constexpr std::int64_t kAlign = 16;

class TmaCheck {
 public:
  TmaCheck(const TmaDecl& declared, BoundTma& map)
      : declared_(declared), map_(map), element_(static_cast<std::int64_t>(info(map.dtype).bytes)) {}

  Status run(std::int64_t buffer_bytes) {
    for (std::size_t i = 0; i < map_.dims.size(); ++i)
      if (map_.dims[i] < 1 || map_.dims[i] > kMaxExtent)
        return refuse(fmt::format("dims[{}] is {}", i, map_.dims[i]), "it must be in 1..2^32");
    LATHE_CHECK_OK(check_strides());
    LATHE_CHECK_OK(check_box());
    if (map_.fill_nan && !info(map_.dtype).is_float)
      return refuse("fill = \"nan\" needs a floating-point dtype", "use zero");
    return check_span(buffer_bytes);
  }

 private:
  Error refuse(const std::string& what, const std::string& hint) const {
    return refused("bad_tma", fmt::format("map '{}': {}", declared_.name, what), hint, declared_.where);
  }

  Status check_strides() {
    const bool packed = map_.strides.empty();
    std::int64_t stride = element_ * map_.dims[0];
    for (std::size_t i = 0; i + 1 < map_.dims.size(); ++i) {
      if (packed) {
        if (i > 0) stride = stride < kMaxStride / map_.dims[i] ? stride * map_.dims[i] : kMaxStride;
        map_.strides.push_back(stride);
      }
      const std::int64_t given = map_.strides[i];
      if (given < kAlign || given >= kMaxStride || given % kAlign != 0)
        return refuse(
            fmt::format("strides[{}] is {} bytes", i, given),
            "it must be a multiple of 16 below 2^40; `when` or `requires` can keep such shapes away");
    }
    return Ok{};
  }

  Status check_box() {
    std::int64_t bytes = element_;
    for (std::size_t i = 0; i < map_.box.size(); ++i) {
      if (map_.box[i] < 1 || map_.box[i] > kMaxBox)
        return refuse(fmt::format("box[{}] is {}", i, map_.box[i]), "it must be in 1..256");
      bytes *= map_.box[i];
      if (bytes > kMaxBoxBytes) return refuse("the box is larger than shared memory", "at most 227 KiB");
    }
    const std::int64_t inner = element_ * map_.box[0];
    if (inner % kAlign != 0)
      return refuse(fmt::format("the box is {} bytes wide", inner),
                    "box[0] must fill a multiple of 16 bytes");
    const std::int64_t swizzle = map_.swizzle;
    if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
      return refuse(fmt::format("swizzle is {}", swizzle), "allowed: 0, 32, 64, 128");
    if (swizzle != 0 && inner > swizzle)
      return refuse(fmt::format("the box is {} bytes wide, the swizzle {}", inner, swizzle),
                    "copy several narrower boxes");
    return Ok{};
  }

  Status check_span(std::int64_t buffer_bytes) const {
    std::int64_t span = element_ * map_.dims[0];
    for (std::size_t i = 1; i < map_.dims.size() && span <= buffer_bytes; ++i) {
      const std::int64_t steps = map_.dims[i] - 1, stride = map_.strides[i - 1];
      span = steps > buffer_bytes / stride ? buffer_bytes + 1 : span + steps * stride;
    }
    if (span <= buffer_bytes) return Ok{};
    return refuse(fmt::format("it extends beyond the {} bytes of '{}'", buffer_bytes, declared_.base),
                  "dims and strides start with the innermost dim");
  }

  const TmaDecl& declared_;
  BoundTma& map_;
  std::int64_t element_;
};

/// Fills in packed strides and checks the hardware's requirements; errors begin with "bad_tma: ".
/// The map must lie inside the `buffer_bytes` of its base, because the hardware does not check its
/// copies against the buffer.
Status complete_tma(const TmaDecl& declared, std::int64_t buffer_bytes, BoundTma& map) {
  return TmaCheck(declared, map).run(buffer_bytes);
}

constexpr std::int64_t kMaxRepeat = 4096;
constexpr std::size_t kMaxProgramSteps = 4096;
constexpr std::int64_t kMaxTerms = std::int64_t{1} << 20;  ///< evaluated, about a tenth of a second
constexpr std::size_t kMaxNodeTextBytes = 1 << 20;
constexpr std::size_t kMaxOperands = 256;  ///< of a library step: as many as runners accept
constexpr std::int64_t kMaxItems = std::int64_t{1} << 40;
constexpr std::int64_t kMaxScratchBytes = std::int64_t{4} << 30;
constexpr std::int64_t kMaxCounterBytes = std::int64_t{1} << 20;

nlohmann::json attrs_json(const Attrs& attrs) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : attrs.all())
    std::visit([&, key = name](const auto& v) { json[key] = v; }, value);
  return json;
}

/// Turns the plan's names and expressions into indices and numbers for one shape.
class PlanCompiler {
 public:
  PlanCompiler(const Candidate& candidate, const BoundTask& task, const Dims& facts)
      : candidate_(candidate), task_(task), names_(facts) {
    for (const auto& [name, value] : task.dims) names_.insert_or_assign(name, value);
  }

  Result<bool> in_domain() {
    if (!candidate_.requirement()) return true;
    LATHE_TRY(const std::int64_t holds, evaluate(*candidate_.requirement()));
    return holds != 0;
  }

  Result<LaunchProgram> compile() {
    const Plan& plan = candidate_.plan();
    LATHE_TRY(const bool inside, in_domain());
    if (!inside)
      return Error{
          ErrorCode::kUnavailable,
          fmt::format("the shape is outside the candidate's domain: {}", plan.requires_->to_string()),
          {},
          {candidate_.name}};
    LATHE_CHECK_OK(compile_scratch());
    for (const PlanStep& step : plan.steps) LATHE_CHECK_OK(compile_step(step));
    return std::move(program_);
  }

 private:
  Error too_large(std::string what, std::string remedy, const SourcePos& where) const {
    return refused("plan_too_large", std::move(what), std::move(remedy), where);
  }

  /// Counts what it costs, because untrusted plans must not occupy the broker for long.
  Result<std::int64_t> evaluate(const Expr& expr) {
    terms_left_ -= expr.terms();
    if (terms_left_ < 0)
      return too_large(fmt::format("the plan evaluates more than {} terms of expressions", kMaxTerms),
                       "write shorter expressions or repeat steps less often", {candidate_.name});
    return expr.evaluate(names_);
  }

  Status compile_scratch() {
    std::int64_t total = 0;
    for (const ScratchDecl& scratch : candidate_.plan().scratch) {
      LATHE_TRY(const std::int64_t bytes, evaluate(scratch.bytes));
      if (bytes < 0 || bytes > kMaxScratchBytes - total)
        return refused("scratch_too_large", fmt::format("'{}' wants {} bytes", scratch.name, bytes),
                       "all scratch buffers together may take at most 4 GiB", {candidate_.name});
      if (scratch.init == ScratchInit::kCounter && bytes > kMaxCounterBytes)
        return refused(
            "scratch_too_large", fmt::format("the counters '{}' want {} bytes", scratch.name, bytes),
            "counters, which are read back after each block, may take at most 1 MiB", {candidate_.name});
      total += bytes;
      program_.scratch.push_back({bytes, scratch.init});
    }
    return Ok{};
  }

  Status compile_step(const PlanStep& step) {
    std::int64_t repeat = 1;
    if (step.repeat) {
      LATHE_TRY(repeat, evaluate(*step.repeat));
      if (repeat < 0 || repeat > kMaxRepeat)
        return invalid(fmt::format("repeat is {}", repeat), "it must be in 0..4096", step.where);
    }
    for (std::int64_t i = 0; i < repeat; ++i) {
      if (!step.index.empty()) names_.insert_or_assign(step.index, i);
      if (step.when) {
        LATHE_TRY(const std::int64_t holds, evaluate(*step.when));
        if (!holds) continue;
      }
      LATHE_TRY(BoundStep bound,
                step.kind == PlanStep::Kind::kLaunch ? compile_launch(step) : compile_node(step));
      program_.steps.push_back(std::move(bound));
      if (program_.steps.size() > kMaxProgramSteps)
        return too_large(fmt::format("the plan unrolls to more than {} steps", kMaxProgramSteps),
                         "merge launches", step.where);
    }
    if (!step.index.empty()) names_.erase(step.index);
    return Ok{};
  }

  Result<BoundStep> compile_launch(const PlanStep& step) {
    BoundStep bound;
    bound.kernel = step.kernel;
    bound.cooperative = step.cooperative;
    bound.programmatic = step.programmatic;
    bound.non_portable = step.non_portable;
    LATHE_TRY(bound.items, evaluate(step.items));
    if (bound.items < 0 || bound.items > kMaxItems)
      return invalid(fmt::format("items is {}", bound.items), "it must be in 0..2^40", step.where);
    LATHE_TRY(bound.grid, evaluate_all(step.grid));
    LATHE_TRY(bound.block, evaluate_all(step.block));
    LATHE_TRY(bound.cluster, evaluate_all(step.cluster));
    if (step.smem) {
      LATHE_TRY(bound.shared_bytes, evaluate(*step.smem));
    }
    if (step.carveout) {
      LATHE_TRY(bound.carveout, evaluate(*step.carveout));
      if (bound.carveout < 0 || bound.carveout > 100)
        return invalid(fmt::format("carveout is {}", bound.carveout), "it must be in 0..100", step.where);
    }
    for (const Arg& arg : step.args) {
      LATHE_TRY(BoundArg value, compile_arg(arg, step));
      bound.args.push_back(value);
    }
    return bound;
  }

  Result<std::vector<std::int64_t>> evaluate_all(const std::vector<Expr>& exprs) {
    std::vector<std::int64_t> values;
    for (const Expr& expr : exprs) {
      LATHE_TRY(const std::int64_t value, evaluate(expr));
      values.push_back(value);
    }
    return values;
  }

  Result<BoundArg> compile_arg(const Arg& arg, const PlanStep& step) {
    if (arg.expr) {
      LATHE_TRY(const std::int64_t value, evaluate(*arg.expr));
      return BoundArg(value);
    }
    if (const auto found = names_.find(arg.name); found != names_.end()) return BoundArg(found->second);
    const auto& maps = candidate_.plan().maps;
    const auto map =
        std::find_if(maps.begin(), maps.end(), [&](const TmaDecl& m) { return m.name == arg.name; });
    if (map != maps.end()) return compile_map(*map);
    const auto& tensors = task_.spec->tensors;
    const auto tensor =
        std::find_if(tensors.begin(), tensors.end(), [&](const TensorDecl& t) { return t.name == arg.name; });
    if (tensor != tensors.end() && tensor->role == Role::kScalar)
      return BoundArg(ScalarRef{static_cast<std::int32_t>(tensor - tensors.begin())});
    const auto buffer = find_buffer(arg.name);
    if (!buffer) return invalid(fmt::format("unknown argument '{}'", arg.name), {}, step.where);
    return BoundArg(*buffer);
  }

  /// Maps are built on first use: one whose steps `when` excludes may be invalid at this shape.
  Result<BoundArg> compile_map(const TmaDecl& map) {
    const auto [known, fresh] =
        maps_.emplace(map.name, TmaRef{static_cast<std::int32_t>(program_.maps.size())});
    if (!fresh) return BoundArg(known->second);
    const auto base = find_buffer(map.base);
    if (!base) return invalid(fmt::format("unknown base '{}'", map.base), {}, map.where);
    const bool scratch = base->kind == BufferRef::Kind::kScratch;
    if (scratch && !map.dtype && !task_.spec->find_node(map.base))
      return refused("bad_tma", fmt::format("map '{}' of a scratch buffer needs a dtype", map.name), {},
                     map.where);
    BoundTma bound;
    bound.base = *base;
    bound.dtype = map.dtype ? *map.dtype : dtype_of(map.base, *base);
    LATHE_TRY(bound.dims, evaluate_all(map.dims));
    LATHE_TRY(bound.strides, evaluate_all(map.strides));
    LATHE_TRY(bound.box, evaluate_all(map.box));
    if (map.swizzle) {
      LATHE_TRY(bound.swizzle, evaluate(*map.swizzle));
    }
    bound.fill_nan = map.fill_nan;
    const std::int64_t bytes = scratch ? program_.scratch[static_cast<std::size_t>(base->index)].bytes
                                       : element_count(task_.shape_of(map.base)) *
                                             static_cast<std::int64_t>(info(dtype_of(map.base, *base)).bytes);
    LATHE_CHECK_OK(complete_tma(map, bytes, bound));
    program_.maps.push_back(std::move(bound));
    return BoundArg(known->second);
  }

  /// An output shadows an input of the same name: an inout tensor is passed as an output.
  std::optional<BufferRef> find_buffer(const std::string& name) const {
    const auto search = [&](const auto& declarations, BufferRef::Kind kind) -> std::optional<BufferRef> {
      for (std::size_t i = 0; i < declarations.size(); ++i)
        if (declarations[i].name == name) return BufferRef{kind, static_cast<std::int32_t>(i)};
      return std::nullopt;
    };
    if (auto found = search(task_.spec->outputs, BufferRef::Kind::kOutput)) return found;
    if (auto found = search(task_.spec->tensors, BufferRef::Kind::kInput)) return found;
    return search(candidate_.plan().scratch, BufferRef::Kind::kScratch);
  }

  Result<BoundStep> compile_node(const PlanStep& step) {
    BoundStep bound;
    bound.kind = PlanStep::Kind::kNode;
    nlohmann::json call = {{"library", step.library}, {"nodes", nlohmann::json::array()}};
    for (const std::string& name : step.nodes) {
      const NodeDecl& node = *task_.spec->find_node(name);
      const auto index = static_cast<std::size_t>(&node - task_.spec->nodes.data());
      nlohmann::json entry = {
          {"op", node.op_name}, {"attrs", attrs_json(task_.attrs[index])}, {"in", nlohmann::json::array()}};
      for (const std::string& input : node.in) {
        const auto inner = std::find(step.nodes.begin(), step.nodes.end(), input);
        if (inner != step.nodes.end())
          entry["in"].push_back({{"node", inner - step.nodes.begin()}});
        else {
          LATHE_TRY(auto operand, operand_json(input, bound, step));
          entry["in"].push_back(std::move(operand));
        }
      }
      if (find_buffer(name)) {
        LATHE_TRY(entry["out"], operand_json(name, bound, step));
      } else {
        entry["out"] = {{"shape", task_.shape_of(name)}, {"dtype", info(node.type.dtype).name}};
      }
      call["nodes"].push_back(std::move(entry));
    }
    if (bound.args.size() > kMaxOperands)
      return too_large(fmt::format("a library step has {} operands", bound.args.size()),
                       fmt::format("at most {}: make several steps of it", kMaxOperands), step.where);
    bound.node_text = call.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    library_calls_.insert(bound.node_text);
    if (library_calls_.size() > task_.spec->nodes.size())
      return too_large(fmt::format("the plan prepares more library calls than the task's {} nodes",
                                   task_.spec->nodes.size()),
                       "compute every node once", step.where);
    node_text_bytes_ += bound.node_text.size();
    if (node_text_bytes_ > kMaxNodeTextBytes)
      return too_large("the plan's library steps are too many", "repeat them less often", step.where);
    return bound;
  }

  Result<nlohmann::json> operand_json(const std::string& name, BoundStep& bound, const PlanStep& step) const {
    const auto buffer = find_buffer(name);
    if (!buffer)
      return invalid(fmt::format("the library step needs '{}', which has no buffer", name),
                     fmt::format("declare [[scratch]] name = \"{}\", or compute it in the same step", name),
                     step.where);
    nlohmann::json operand = {{"buffer", bound.args.size()}, {"shape", task_.shape_of(name)}};
    operand["dtype"] = info(dtype_of(name, *buffer)).name;
    bound.args.emplace_back(*buffer);
    return operand;
  }

  DType dtype_of(const std::string& name, BufferRef buffer) const {
    if (buffer.kind == BufferRef::Kind::kOutput)
      return task_.spec->outputs[static_cast<std::size_t>(buffer.index)].dtype;
    const TensorDecl* tensor = task_.spec->find_tensor(name);
    return tensor ? tensor->dtype : task_.spec->find_node(name)->type.dtype;
  }

  const Candidate& candidate_;
  const BoundTask& task_;
  Dims names_;
  std::int64_t terms_left_ = kMaxTerms;
  std::set<std::string> library_calls_;
  std::size_t node_text_bytes_ = 0;
  std::map<std::string, TmaRef> maps_;
  LaunchProgram program_;
};

}  // namespace

Result<bool> in_domain(const Candidate& candidate, const BoundTask& task, const Dims& facts) {
  return PlanCompiler(candidate, task, facts).in_domain();
}

Result<LaunchProgram> compile_plan(const Candidate& candidate, const BoundTask& task, const Dims& facts) {
  if (!candidate.has_plan())
    return invalid("a host program has no plan to compile", {}, {candidate.name, 1, 1});
  return PlanCompiler(candidate, task, facts).compile();
}

}  // namespace lathe
