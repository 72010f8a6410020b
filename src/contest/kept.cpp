#include "contest/kept.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "contest/runs.h"
#include "record/json.h"
#include "reward/reward.h"

namespace lathe {
namespace {

using nlohmann::json;

template <class T>
Result<std::vector<T>> array_of(Store& store, const Blob& blob) {
  LATHE_TRY(const std::string bytes, store.get_blob(blob.digest));
  return unpack<T>(bytes);
}

Result<json> example_of(Store& store, const Experience& experience) {
  const Generation& generation = *experience.generation;
  LATHE_TRY(const auto prompt, array_of<std::int32_t>(store, generation.prompt_tokens));
  LATHE_TRY(const auto answer, array_of<std::int32_t>(store, generation.answer_tokens));
  LATHE_TRY(const auto log_probs, array_of<float>(store, generation.answer_log_probabilities));
  LATHE_TRY(const auto mask, array_of<std::uint8_t>(store, generation.loss_mask));
  return json{{"kind", "kept"},
              {"prompt_tokens", prompt},
              {"answer_tokens", answer},
              {"log_probabilities", log_probs},
              {"loss_mask", mask},
              {"experience", experience.id},
              {"run", experience.run},
              {"sequence", experience.sequence},
              {"task_name", experience.task_name},
              {"task", experience.task.hex()},
              {"candidate", experience.candidate.hex()},
              {"lineage", to_json(experience.lineage)},
              {"generation", to_json(generation)}};
}

}  // namespace

Result<Kept> keep_successes(Store& store, const std::string& contest, const std::string& entrant,
                            const KeepOptions& options) {
  LATHE_TRY(const auto runs, contest_runs(store, contest));
  Kept kept;
  for (const ContestRun& run : runs) {
    if (run.settings.entrant != entrant) continue;
    LATHE_TRY(std::vector<Experience> experiences, store.experiences(run.record.id));
    std::erase_if(experiences, [](const Experience& experience) {
      return !experience.generation || !experience.generation->answer_tokens.exists();
    });
    kept.samples += static_cast<int>(experiences.size());
    const auto low = [&](const Experience& experience) {
      return experience.verdict.passed() ? speedup_low(experience.verdict, run.settings.peer) : 0.0;
    };
    std::erase_if(experiences, [&](const Experience& experience) { return low(experience) <= 0; });
    std::ranges::stable_sort(experiences, std::ranges::greater{}, low);
    std::set<Digest> texts;
    for (const Experience& experience : experiences) {
      if (static_cast<int>(texts.size()) >= options.most) break;
      if (low(experience) < options.near_best * low(experiences.front())) break;
      if (!texts.insert(experience.candidate).second) continue;
      LATHE_TRY(const json example, example_of(store, experience));
      kept.lines += json_text(example) + "\n";
    }
    kept.examples += static_cast<int>(texts.size());
    kept.tasks += !texts.empty();
  }
  if (kept.samples == 0)
    return Error{ErrorCode::kNotFound,
                 fmt::format("the contest '{}' has no samples of '{}' with their tokens", contest, entrant),
                 "sample with: lathe policy eval --policy local --controls none"};
  return kept;
}

}  // namespace lathe
