#include "report/documents.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "record/json.h"
#include "record/json_reader.h"
#include "report/model_summary.h"

namespace lathe {

using nlohmann::json;

namespace {

json finite(double x) { return std::isfinite(x) ? json(x) : json(nullptr); }

json positive(double x) { return x > 0 ? finite(x) : json(nullptr); }

void put_interval(json& to, const std::string& name, const std::optional<Interval>& interval) {
  to[name] = interval ? finite(interval->mid) : json(nullptr);
  to[name + "_low"] = interval ? finite(interval->low) : json(nullptr);
  to[name + "_high"] = interval ? finite(interval->high) : json(nullptr);
}

const std::string& naive_name(const ReportExtras& extras) {
  static const std::string kNaive = "naive";
  return extras.baselines.empty() ? kNaive : extras.baselines.front().name;
}

/// The fields common to `best` of optimize and each item of eval.
json verdict_summary(const Verdict& verdict, const ReportExtras& extras) {
  json summary = {{"verdict", name(verdict.outcome)},
                  {"reason", verdict.reason},
                  {"detail", verdict.detail},
                  {"depth", name(verdict.depth)},
                  {"jail", verdict.provenance.jail},
                  {"tier", verdict.provenance.tier},
                  {"unchecked", verdict.unchecked},
                  {"median_ns", positive(verdict.median_ns())},
                  {"candidate_digest", verdict.candidate.hex()}};
  put_interval(summary, "speedup", verdict.speedup(naive_name(extras)));
  put_interval(summary, "speedup_best", verdict.speedup(extras.best_baseline));
  return summary;
}

json timing_json(const Timing& timing) {
  return {{"shape", timing.shape},
          {"median_ns", finite(timing.median_ns)},
          {"spread", finite(timing.spread)},
          {"pairs", timing.pairs},
          {"processes", timing.processes}};
}

json baselines_json(const ReportExtras& extras) {
  json list = json::array();
  for (const BaselineTime& baseline : extras.baselines) {
    json timings = json::array();
    for (const Timing& timing : baseline.timings) timings.push_back(timing_json(timing));
    list.push_back(
        {{"name", baseline.name}, {"median_ns", finite(baseline.median_ns)}, {"timings", timings}});
  }
  return list;
}

json work_json(const ReportExtras& extras) {
  json list = json::array();
  for (const ShapeWork& work : extras.work) {
    list.push_back({{"shape", work.shape},
                    {"flops", finite(work.flops)},
                    {"bytes", finite(work.bytes)},
                    {"floor_ns", finite(work.floor_ns)}});
  }
  return list;
}

json peaks_json(const DevicePeaks& peaks) {
  json levels = json::array();
  for (const DevicePeaks::Level& level : peaks.levels) {
    levels.push_back({{"name", level.name},
                      {"capacity_bytes", finite(level.capacity_bytes)},
                      {"bytes_per_second", finite(level.bytes_per_second)}});
  }
  return {{"flops_per_second", finite(peaks.flops_per_second)}, {"levels", levels}};
}

void read_timing(JsonReader& reader, Timing& timing) {
  reader.read("shape", timing.shape);
  reader.read("median_ns", timing.median_ns);
  reader.read("spread", timing.spread);
  reader.read("pairs", timing.pairs);
  reader.read("processes", timing.processes);
}

void read_baseline(JsonReader& reader, BaselineTime& baseline) {
  reader.read("name", baseline.name);
  reader.read("median_ns", baseline.median_ns);
  reader.read_list("timings", baseline.timings, read_timing);
}

void read_work(JsonReader& reader, ShapeWork& work) {
  reader.read("shape", work.shape);
  reader.read("flops", work.flops);
  reader.read("bytes", work.bytes);
  reader.read("floor_ns", work.floor_ns);
}

void read_level(JsonReader& reader, DevicePeaks::Level& level) {
  reader.read("name", level.name);
  reader.read("capacity_bytes", level.capacity_bytes);
  reader.read("bytes_per_second", level.bytes_per_second);
}

}  // namespace

json optimize_document(const RunRecord& run, const std::vector<Experience>& experiences,
                       const ReportExtras& extras) {
  json verdicts = json::object();
  for (int i = 0; i <= static_cast<int>(Outcome::kInfra); ++i) verdicts[name(static_cast<Outcome>(i))] = 0;
  for (const Experience& e : experiences) {
    json& count = verdicts[name(e.verdict.outcome)];
    count = count.get<int>() + 1;
  }
  json best = nullptr;
  if (const Experience* winner = best_experience(experiences, extras.best_baseline)) {
    best = verdict_summary(winner->verdict, extras);
    best["candidate"] = winner->candidate_text;
    best["candidate_digest"] = winner->candidate.hex();
    best["evaluation"] = winner->sequence + 1;
  }
  return {{"schema", kOptimizeSchema},
          {"run", run.id},
          {"status", run.status},
          {"task", run.task_name},
          {"task_digest", run.task.hex()},
          {"device", extras.device},
          {"evaluations", experiences.size()},
          {"seconds", finite(extras.seconds)},
          {"device_seconds", finite(device_seconds(experiences))},
          {"verdicts", verdicts},
          {"best_baseline", extras.best_baseline},
          {"baselines", baselines_json(extras)},
          {"left_out", extras.left_out},
          {"best", best},
          {"model", to_json(model_summary(experiences, extras.best_baseline))},
          {"work", work_json(extras)},
          {"peaks", peaks_json(extras.peaks)}};
}

Result<ReportExtras> extras_from_document(const json& document) {
  ReportExtras extras;
  JsonReader reader(document, "optimize");
  const auto check_schema = [](std::string_view schema) -> Result<std::string> {
    if (schema == kOptimizeSchema) return std::string(schema);
    return invalid("unknown schema '" + std::string(schema) + "'",
                   "this Lathe reads " + std::string(kOptimizeSchema));
  };
  std::string schema;
  reader.read_name("schema", schema, check_schema);
  reader.read("device", extras.device);
  reader.read("seconds", extras.seconds);
  reader.read("best_baseline", extras.best_baseline);
  reader.read_list("baselines", extras.baselines, read_baseline);
  if (reader.has("left_out")) reader.read("left_out", extras.left_out);
  reader.read_list("work", extras.work, read_work);
  reader.read_object("peaks", [&](JsonReader& inner) {
    inner.read("flops_per_second", extras.peaks.flops_per_second);
    inner.read_list("levels", extras.peaks.levels, read_level);
  });
  LATHE_CHECK_OK(reader.status());
  return extras;
}

json eval_document(const std::string& task_name, const std::vector<NamedVerdict>& verdicts,
                   const ReportExtras& extras) {
  json list = json::array();
  for (const NamedVerdict& named : verdicts) {
    json item = verdict_summary(named.verdict, extras);
    item["schema"] = kEvalSchema;
    item["task"] = task_name;
    item["device"] = extras.device;
    item["candidate"] = named.candidate;
    item["best_baseline"] = extras.best_baseline;
    item["left_out"] = extras.left_out;
    const json verdict = to_json(named.verdict);
    item["stage_seconds"] = verdict["stage_seconds"];
    item["provenance"] = verdict.value("provenance", json::object());
    item["cases"] = verdict["evidence"]["cases"];
    item["device_state"] = verdict["profile"];
    item["profiles"] = verdict.value("profiles", json::array());
    list.push_back(std::move(item));
  }
  return list;
}

using nlohmann::json;

namespace {

/// The form of each kind of argument; a kind without one does not compile.
struct ArgJson {
  json operator()(std::int64_t integer) const { return {{"integer", integer}}; }
  json operator()(ScalarRef scalar) const { return {{"scalar", scalar.input}}; }
  json operator()(TmaRef map) const { return {{"map", map.map}}; }
  json operator()(BufferRef buffer) const {
    const bool input = buffer.kind == BufferRef::Kind::kInput;
    const bool output = buffer.kind == BufferRef::Kind::kOutput;
    return {{input ? "input" : output ? "output" : "scratch", buffer.index}};
  }
};

json arg_json(const BoundArg& arg) { return std::visit(ArgJson{}, arg); }

json map_json(const BoundTma& map) {
  return {{"base", ArgJson{}(map.base)},
          {"dtype", info(map.dtype).name},
          {"dims", map.dims},
          {"strides", map.strides},
          {"box", map.box},
          {"swizzle", map.swizzle},
          {"fill", map.fill_nan ? "nan" : "zero"}};
}

json step_json(const BoundStep& step) {
  if (step.kind == PlanStep::Kind::kNode) return {{"node", json::parse(step.node_text)}};
  json args = json::array();
  for (const BoundArg& arg : step.args) args.push_back(arg_json(arg));
  return {{"kernel", step.kernel},
          {"grid", step.grid},
          {"block", step.block},
          {"cluster", step.cluster},
          {"smem", step.shared_bytes},
          {"cooperative", step.cooperative},
          {"programmatic", step.programmatic},
          {"args", args}};
}

const char* name_of(ScratchInit init) {
  if (init == ScratchInit::kZero) return "zero";
  return init == ScratchInit::kCounter ? "counter" : "poison";
}

}  // namespace

json build_document(const BoundTask& task, const LaunchProgram& program, const std::string& arch,
                    const std::string& object) {
  json document = {{"schema", kBuildSchema},   {"task", task.spec->name},
                   {"shape", task.dims},       {"arch", arch},
                   {"object", object},         {"inputs", json::array()},
                   {"outputs", json::array()}, {"scratch", json::array()},
                   {"maps", json::array()},    {"steps", json::array()}};
  for (const TensorDecl& tensor : task.spec->tensors)
    document["inputs"].push_back(
        {{"name", tensor.name}, {"dtype", info(tensor.dtype).name}, {"shape", task.shape_of(tensor.name)}});
  for (const OutputDecl& output : task.spec->outputs)
    document["outputs"].push_back(
        {{"name", output.name}, {"dtype", info(output.dtype).name}, {"shape", task.shape_of(output.name)}});
  for (const BoundScratch& scratch : program.scratch)
    document["scratch"].push_back({{"bytes", scratch.bytes}, {"init", name_of(scratch.init)}});
  for (const BoundTma& map : program.maps) document["maps"].push_back(map_json(map));
  for (const BoundStep& step : program.steps) document["steps"].push_back(step_json(step));
  return document;
}

}  // namespace lathe
