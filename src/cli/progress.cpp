#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "cli/console.h"

namespace lathe::cli {
namespace {

constexpr auto kQuietInterval = std::chrono::seconds(5);

std::string counts_text(const Event& event) {
  std::string text;
  for (const auto& [key, value] : event.fields)
    if (key.starts_with("count."))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", value, key.substr(6));
  return text;
}

/// Columns of the terminal on standard error: a longer line would wrap and could not be
/// overwritten.
std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

ProgressLine::ProgressLine(std::string title) : title_(std::move(title)), terminal_(::isatty(2) == 1) {}

ProgressLine::~ProgressLine() { end_line(); }

void ProgressLine::begin(std::string title) {
  std::lock_guard lock(mutex_);
  end_line();
  title_ = std::move(title);
  last_ = {};
}

void ProgressLine::end_line() {
  if (line_open_) print_error("\n");
  line_open_ = false;
}

void ProgressLine::on_event(const Event& event) {
  std::lock_guard lock(mutex_);
  if (event.severity >= Severity::kWarning) {
    end_line();
    const auto task = event.fields.find("task");
    write_standard_error(fmt::format("{}: {}\n",
                                     visible_line(task == event.fields.end() ? title_ : task->second),
                                     visible_lines(event.text, "  ")));
    return;
  }
  if (event.kind == "search.progress") {
    const auto& fields = event.fields;
    const std::string budget = fields.at("budget") == "0" ? "" : "/" + fields.at("budget");
    const std::string best = fields.at("best") == "0" ? "none yet" : fields.at("best") + "x of the best peer";
    show(fmt::format("{}: {}{} evaluations, best {}, {}, {} s left", title_, fields.at("evaluations"), budget,
                     best, counts_text(event), fields.at("seconds_left")));
  } else if (!event.text.empty() && event.severity == Severity::kInfo) {
    show(fmt::format("{}: {}", title_, event.text));
  }
}

void ProgressLine::show(const std::string& line) {
  const auto now = std::chrono::steady_clock::now();
  if (terminal_) {
    print_error("\r\033[K{}", line.substr(0, terminal_columns() - 1));
    std::fflush(stderr);
    line_open_ = true;
  } else if (now - last_ >= kQuietInterval) {
    print_error("{}\n", line);
    last_ = now;
  }
}

}  // namespace lathe::cli
