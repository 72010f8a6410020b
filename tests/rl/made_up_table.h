#pragma once

#include <cmath>
#include <string>

#include "rl/table.h"

namespace lathe::rl {

/// A table of `tasks` tasks of 64 schedules each. What is best follows from a kernel's size: large
/// ones want to be unrolled, small ones do not, and streaming pays only where nothing is cached.
/// One schedule of each is wrong. `noise` is the relative half-width of the intervals.
inline ScheduleTable made_up_table(std::size_t tasks, double noise = 0.02) {
  ScheduleTable table{.device = "made up", .tasks = {}};
  for (std::size_t t = 0; t < tasks; ++t) {
    const auto size = static_cast<float>(12 + 2 * (t % 8));
    const auto site = [&](const char* knob, std::vector<int> allowed, int usual) {
      return ChoiceSite{.kernel = 0,
                        .pattern = "map",
                        .traits = {size, size + 1, 0},
                        .knob = knob,
                        .allowed = std::move(allowed),
                        .usual = usual};
    };
    const std::vector<ChoiceSite> sites = {site("cache", {0, 1}, 0), site("unroll", {1, 2, 4, 8}, 1),
                                           site("stream", {0, 1}, 0), site("rows", {1, 2, 4, 8}, 2)};
    std::vector<TableRow> rows;
    for (std::size_t code = 0; code < 64; ++code) {
      const std::size_t cache = code % 2, unroll = code / 2 % 4, stream = code / 8 % 2, rows_of = code / 16;
      TableRow row{.choices = {{0, cache}, {1, unroll}, {2, stream}, {3, rows_of}},
                   .outcome = Outcome::kPass};
      const double wanted = size > 18 ? 3 : 0;
      double log_speed = -0.25 * std::abs(static_cast<double>(unroll) - wanted);
      log_speed += stream == 1 ? (cache == 1 ? -0.4 : 0.3) : 0;
      log_speed -= 0.1 * std::abs(static_cast<double>(rows_of) - 1);
      const double mid = std::exp(log_speed);
      row.speedup = {mid * (1 - noise), mid, mid * (1 + noise)};
      if (cache == 1 && unroll == 3 && stream == 1 && rows_of == 3)
        row = {.choices = row.choices, .outcome = Outcome::kWrong, .reason = "bound"};
      rows.push_back(std::move(row));
    }
    const std::string name = "task_" + std::to_string(t);
    auto task = TableTask::make({name, "map of " + name, digest_of(name), "naive"}, sites, std::move(rows));
    table.tasks.push_back(*std::move(task));
  }
  return table;
}

}  // namespace lathe::rl
