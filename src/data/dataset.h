#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/device_record.h"
#include "base/cancel.h"
#include "data/pairs.h"
#include "data/split.h"
#include "store/store.h"

namespace lathe {

/// A task of a data set whose kernels are evaluated; these stay in its store.
struct DataTask {
  Store* store = nullptr;
  RunRecord run;
  std::shared_ptr<const TaskSpec> task;
  Split split = Split::kTrain;
  std::string composition;
  DeviceRecord device;
  std::string best_peer;
  double prepare_seconds = 0;
  double evaluate_seconds = 0;
};

/// The made tasks of a store in order: of the data sets with these seeds, or of all. References
/// into `store` remain. Errors: kNotFound where there are none.
Result<std::vector<DataTask>> read_data(Store& store, const std::vector<std::uint64_t>& seeds);

/// Examples in one language.
struct LanguageData {
  struct Sums {
    std::int64_t count = 0, prompt_tokens = 0, answer_tokens = 0;  ///< tokens as estimated
  };
  std::string language;
  std::map<Split, std::string> lines;                     ///< JSON Lines
  std::map<std::pair<Split, std::string>, Sums> by_kind;  ///< of what `lines` has
};
/// The pairs of all tasks. An example whose prompt and answer an earlier one has is left out.
Result<LanguageData> write_examples(const std::vector<DataTask>& tasks, const ActionLanguage& language,
                                    const Prompter& prompter, const PairOptions& options,
                                    const CancelToken& stop);

/// "train.jsonl" for kernels, "train.schedule.jsonl" for another language.
std::string data_file_name(Split split, std::string_view language);

/// Writes a file for each split and language, the tasks as "tasks/<split>/<name>.toml", and
/// card.md.
Status write_data(const std::vector<DataTask>& tasks, const std::vector<LanguageData>& data,
                  const std::string& folder);

}  // namespace lathe
