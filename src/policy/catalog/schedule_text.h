#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/catalog/compile.h"

namespace lathe::catalog {

/// A knob where a choice is left.
struct Slot {
  std::string knob;          ///< "g0.unroll"
  std::string name;          ///< "unroll"
  std::vector<int> allowed;  ///< at least two
  int value = 0;
};

/// A line of a schedule's text: a kernel's pattern and its knobs, or knobs of the whole program.
struct ScheduleLine {
  std::string pattern;  ///< empty: the program's
  std::vector<Slot> slots;
};
/// Knobs stand in the order in which they are asked for, so that what may follow depends on what
/// precedes.
std::vector<ScheduleLine> schedule_lines(const Emission& emission);

/// The canonical text of the schedule that was taken:
///
///     fuse=1
///     row_reduce cache=1 unroll=4
std::string schedule_text(const Emission& emission);

/// Compiles a schedule from untrusted text. Blanks, empty lines and the order of a line's knobs are
/// free; what is left out takes its default. read_schedule(schedule_text(e)) has e's schedule.
/// Errors: kInvalid with line and column, and what would be right there.
Result<Emission> read_schedule(const Graph& graph, std::string_view text, const Target& target);

/// Compiles what a schedule of another task says about this one: a kernel takes the knobs of the
/// first line of its pattern that no kernel before it took, else of the last one. Of a value that
/// is not allowed here the nearest is taken, and what is not said has its default. Errors: text
/// that is no schedule's.
Result<Emission> adapt_schedule(const Graph& graph, std::string_view text, const Target& target);

}  // namespace lathe::catalog
