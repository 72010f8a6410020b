#pragma once

#include <fmt/format.h>

#include <optional>

#include "model/tokenizer.h"
#include "tests/model/byte_model.h"
#include "tests/rl/made_up_table.h"
#include "train/example.h"

namespace lathe::train {

/// The made-up table with prompts and texts: "cache=0 unroll=4 stream=1 rows=2".
inline rl::ScheduleTable written_table(std::size_t tasks) {
  const rl::ScheduleTable made_up = rl::made_up_table(tasks);
  rl::ScheduleTable table{.device = made_up.device, .tasks = {}};
  for (const rl::TableTask& task : made_up.tasks) {
    rl::TableTaskId id = task.id();
    id.prompt = fmt::format("size {}?", task.sites().front().traits.front());
    std::vector<rl::TableRow> rows = task.rows();
    for (rl::TableRow& row : rows)
      for (const auto& [site, value] : row.choices)
        row.schedule += fmt::format("{}{}={}", row.schedule.empty() ? "" : " ", task.sites()[site].knob,
                                    task.sites()[site].allowed[value]);
    table.tasks.push_back(*rl::TableTask::make(std::move(id), task.sites(), std::move(rows)));
  }
  return table;
}

/// Tokens are bytes, so a text is written in one way.
inline TextCoding byte_coding() {
  const TemporaryFolder folder;
  return {.tokenizer = Tokenizer::open(folder.write("bytes.gguf", byte_model_gguf())).value(),
          .chat = {},
          .system = {}};
}

}  // namespace lathe::train
