#include "record/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "base/visible_text.h"
#include "record/json_reader.h"

namespace lathe {

using nlohmann::json;

namespace {

constexpr std::size_t kDeepestJson = 512;

json to_json(const BuildFacts& build) {
  return {{"log", build.log},
          {"seconds", build.seconds},
          {"code_bytes", build.code_bytes},
          {"facts", json(build.facts)}};
}

void read_build(JsonReader& reader, BuildFacts& build) {
  reader.read("log", build.log);
  reader.read("seconds", build.seconds);
  reader.read("code_bytes", build.code_bytes);
  reader.read("facts", build.facts);
}

json to_json(const CaseEvidence& c) {
  return {{"shape", c.shape},   {"distribution", c.distribution}, {"hidden", c.hidden},      {"pass", c.pass},
          {"reason", c.reason}, {"worst_ratio", c.worst_ratio},   {"rms_error", c.rms_error}};
}

void read_case(JsonReader& reader, CaseEvidence& c) {
  reader.read("shape", c.shape);
  reader.read("distribution", c.distribution);
  reader.read("hidden", c.hidden);
  reader.read("pass", c.pass);
  reader.read("reason", c.reason);
  reader.read("worst_ratio", c.worst_ratio);
  reader.read("rms_error", c.rms_error);
}

json to_json(const Timing& t) {
  return {{"shape", t.shape},
          {"median_ns", t.median_ns},
          {"spread", t.spread},
          {"pairs", t.pairs},
          {"processes", t.processes}};
}

void read_timing(JsonReader& reader, Timing& t) {
  reader.read("shape", t.shape);
  reader.read("median_ns", t.median_ns);
  reader.read("spread", t.spread);
  reader.read("pairs", t.pairs);
  reader.read("processes", t.processes);
}

json to_json(const Speedup& s) {
  json object = {{"baseline", s.baseline}, {"shape", s.shape},     {"low", s.ratio.low},
                 {"mid", s.ratio.mid},     {"high", s.ratio.high}, {"ambiguous", s.ambiguous}};
  if (s.roof > 0) object["roof"] = s.roof;
  return object;
}

void read_speedup(JsonReader& reader, Speedup& s) {
  reader.read("baseline", s.baseline);
  reader.read("shape", s.shape);
  reader.read("low", s.ratio.low);
  reader.read("mid", s.ratio.mid);
  reader.read("high", s.ratio.high);
  reader.read("ambiguous", s.ambiguous);
  if (reader.has("roof")) reader.read("roof", s.roof);
}

json to_json(const Bottleneck& b) { return {{"name", b.name}, {"share", b.share}, {"detail", b.detail}}; }

void read_bottleneck(JsonReader& reader, Bottleneck& b) {
  reader.read("name", b.name);
  reader.read("share", b.share);
  reader.read("detail", b.detail);
}

template <class T>
json list(const std::vector<T>& values) {
  json array = json::array();
  for (const T& value : values) array.push_back(to_json(value));
  return array;
}

json to_json(const Provenance& p) {
  return {{"device_kind", p.device_kind},
          {"device_name", p.device_name},
          {"device_uuid", p.device_uuid},
          {"driver", p.driver},
          {"compiler", p.compiler},
          {"gym_version", p.gym_version},
          {"jail", p.jail},
          {"tier", p.tier}};
}

void read_provenance(JsonReader& reader, Provenance& p) {
  reader.read("device_kind", p.device_kind);
  reader.read("device_name", p.device_name);
  reader.read("device_uuid", p.device_uuid);
  reader.read("driver", p.driver);
  reader.read("compiler", p.compiler);
  reader.read("gym_version", p.gym_version);
  if (reader.has("jail")) reader.read("jail", p.jail);
  if (reader.has("tier")) reader.read("tier", p.tier);
}

void read_profile(JsonReader& reader, ShapeProfile& p) {
  reader.read("shape", p.shape);
  reader.read("counters", p.counters);
  reader.read_list("bottlenecks", p.bottlenecks, read_bottleneck);
  reader.read("notes", p.notes);
}

/// The parser repeats all of a token that it cannot read, which may be a whole kernel.
std::string shortened(std::string_view why) {
  constexpr std::string_view kToken = "last read: '";
  constexpr std::size_t kShownBytes = 60;
  const std::size_t found = why.find(kToken);
  if (found == why.npos || why.size() - found - kToken.size() <= kShownBytes) return std::string(why);
  return fmt::format("{}...{}", why.substr(0, found + kToken.size()), why.substr(why.size() - kShownBytes));
}

}  // namespace

json to_json(const ShapeProfile& p) {
  return {{"shape", p.shape},
          {"counters", json(p.counters)},
          {"bottlenecks", list(p.bottlenecks)},
          {"notes", json(p.notes)}};
}

json to_json(const Verdict& v) {
  json object = {{"outcome", name(v.outcome)},
                 {"reason", v.reason},
                 {"detail", v.detail},
                 {"depth", name(v.depth)},
                 {"candidate", v.candidate.hex()},
                 {"task", v.task.hex()},
                 {"build", to_json(v.build)},
                 {"evidence", {{"cases", list(v.evidence.cases)}}},
                 {"timings", list(v.timings)},
                 {"speedups", list(v.speedups)},
                 {"profile", json(v.profile)},
                 {"stage_seconds", json(v.stage_seconds)}};
  if (v.text_bytes > 0) object["text_bytes"] = v.text_bytes;
  if (!v.uncovered.empty()) object["uncovered"] = v.uncovered;
  if (v.provenance != Provenance{}) object["provenance"] = to_json(v.provenance);
  if (!v.unchecked.empty()) object["unchecked"] = v.unchecked;
  if (!v.profiles.empty()) object["profiles"] = list(v.profiles);
  return object;
}

Result<Verdict> verdict_from_json(const json& object) {
  Verdict v;
  JsonReader reader(object, "verdict");
  reader.read_name("outcome", v.outcome, parse_outcome);
  reader.read("reason", v.reason);
  reader.read("detail", v.detail);
  reader.read_name("depth", v.depth, parse_depth);
  reader.read("candidate", v.candidate);
  reader.read("task", v.task);
  reader.read_object("build", [&](JsonReader& inner) { read_build(inner, v.build); });
  reader.read_object("evidence",
                     [&](JsonReader& inner) { inner.read_list("cases", v.evidence.cases, read_case); });
  reader.read_list("timings", v.timings, read_timing);
  reader.read_list("speedups", v.speedups, read_speedup);
  reader.read("profile", v.profile);
  reader.read("stage_seconds", v.stage_seconds);
  if (object.contains("text_bytes")) reader.read("text_bytes", v.text_bytes);
  if (object.contains("profiles")) reader.read_list("profiles", v.profiles, read_profile);
  if (object.contains("uncovered")) reader.read("uncovered", v.uncovered);
  if (object.contains("unchecked")) reader.read("unchecked", v.unchecked);
  if (object.contains("provenance"))
    reader.read_object("provenance", [&](JsonReader& inner) { read_provenance(inner, v.provenance); });
  LATHE_CHECK_OK(reader.status());
  return v;
}

json to_json(const Lineage& lineage) {
  json parents = json::array();
  for (const Digest& parent : lineage.parents) parents.push_back(parent.hex());
  json object = {{"parents", std::move(parents)},
                 {"policy", lineage.policy},
                 {"operation", lineage.operation},
                 {"description", lineage.description}};
  if (lineage.branch >= 0) {
    object["branch"] = lineage.branch;
    object["turn"] = lineage.turn;
  }
  return object;
}

Result<Lineage> lineage_from_json(const json& object) {
  Lineage lineage;
  JsonReader reader(object, "lineage");
  reader.read("parents", lineage.parents);
  reader.read("policy", lineage.policy);
  reader.read("operation", lineage.operation);
  reader.read("description", lineage.description);
  if (reader.has("branch")) {
    reader.read("branch", lineage.branch);
    reader.read("turn", lineage.turn);
  }
  LATHE_CHECK_OK(reader.status());
  return lineage;
}

json to_json(const Generation& generation) {
  json blobs = json::object();
  for (const auto& [name, blob] : kGenerationBlobs)
    if ((generation.*blob).exists()) blobs[name] = (generation.*blob).digest.hex();
  json object = {{"model", generation.model},
                 {"tokenizer", generation.tokenizer},
                 {"sampling", json(generation.sampling)},
                 {"group", generation.group},
                 {"turn", generation.turn},
                 {"blobs", std::move(blobs)}};
  if (!generation.cost.empty()) object["cost"] = json(generation.cost);
  return object;
}

Result<Generation> generation_from_json(const json& object) {
  Generation generation;
  JsonReader reader(object, "generation");
  reader.read("model", generation.model);
  reader.read("tokenizer", generation.tokenizer);
  reader.read("sampling", generation.sampling);
  reader.read("group", generation.group);
  reader.read("turn", generation.turn);
  if (reader.has("cost")) reader.read("cost", generation.cost);
  std::map<std::string, Digest> digests;
  reader.read("blobs", digests);
  LATHE_CHECK_OK(reader.status());
  for (const auto& [name, blob] : kGenerationBlobs)
    if (const auto found = digests.find(name); found != digests.end())
      (generation.*blob).digest = found->second;
  return generation;
}

std::string json_text(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::size_t json_nesting(std::string_view text) {
  std::size_t depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

namespace {

Result<json> parse_json_with(const json::parser_callback_t& callback, std::string_view text,
                             std::string_view what) {
  // Copying, writing and comparing a value takes a frame of the stack for each level.
  if (json_nesting(text) > kDeepestJson)
    return invalid(fmt::format("{} is nested deeper than {} levels", what, kDeepestJson));
  try {
    return json::parse(text, callback);
  } catch (const json::exception& e) {
    std::string_view why = e.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
    if (const auto end = why.find("] "); end != why.npos) why.remove_prefix(end + 2);
    return invalid(fmt::format("{} is no JSON: {}", what, shortened(why)));
  }
}

}  // namespace

Result<json> parse_json(std::string_view text, std::string_view what) {
  return parse_json_with(nullptr, text, what);
}

Result<json> parse_unambiguous_json(std::string_view text, std::string_view what) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::optional<std::string> repeated;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event != json::parse_event_t::key || repeated) return true;
    auto key = parsed.get<std::string>();
    if (!keys.back().insert(key).second) repeated = std::move(key);
    return true;
  };
  auto document = parse_json_with(watch, text, what);
  if (document.ok() && repeated)
    return invalid(fmt::format("{} has the field '{}' twice", what,
                               visible_line(std::string_view(*repeated).substr(0, 80))));
  return document;
}

}  // namespace lathe
