#include "contest/sample.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "record/json.h"
#include "record/json_lines.h"
#include "record/json_reader.h"

namespace lathe {

using nlohmann::json;

json to_json(const ContestSample& sample) {
  return {{"entrant", sample.entrant},
          {"ordered", sample.ordered},
          {"device", sample.device},
          {"language", sample.language},
          {"threads", sample.threads},
          {"group", sample.group},
          {"task_name", sample.task_name},
          {"task", sample.task.hex()},
          {"number", sample.number},
          {"candidate", sample.candidate.hex()},
          {"outcome", name(sample.outcome)},
          {"reason", sample.reason},
          {"peer", sample.peer},
          {"speedup_low", sample.speedup_low},
          {"speedup", sample.speedup},
          {"answer_tokens", sample.answer_tokens},
          {"write_seconds", sample.write_seconds}};
}

Result<ContestSample> sample_from_json(const json& object) {
  ContestSample sample;
  JsonReader reader(object, "sample");
  reader.read("entrant", sample.entrant);
  reader.read("ordered", sample.ordered);
  reader.read("device", sample.device);
  reader.read("language", sample.language);
  reader.read("threads", sample.threads);
  reader.read("group", sample.group);
  reader.read("task_name", sample.task_name);
  reader.read("task", sample.task);
  reader.read("number", sample.number);
  reader.read("candidate", sample.candidate);
  reader.read_name("outcome", sample.outcome, parse_outcome);
  reader.read("reason", sample.reason);
  reader.read("peer", sample.peer);
  reader.read("speedup_low", sample.speedup_low);
  reader.read("speedup", sample.speedup);
  reader.read("answer_tokens", sample.answer_tokens);
  reader.read("write_seconds", sample.write_seconds);
  LATHE_CHECK_OK(reader.status());
  if (sample.threads < 1 || sample.number < 0 || sample.speedup_low < 0)
    return invalid("a sample with a negative number");
  return sample;
}

Result<std::vector<ContestSample>> read_samples(const std::string& path) {
  LATHE_TRY(const std::string text, read_file(path));
  std::vector<ContestSample> samples;
  LATHE_CHECK_OK(for_each_json_line(text, path, [&](const json& line) -> Status {
    LATHE_TRY(ContestSample sample, sample_from_json(line));
    samples.push_back(std::move(sample));
    return Ok{};
  }));
  return samples;
}

}  // namespace lathe
