#include "cli/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/exit_code.h"

namespace lathe::cli {
namespace {

std::atomic<int> g_output_errno = 0;  // the FILE of standard output, itself global, keeps only a flag

void remember_failure() {
  int none = 0;
  g_output_errno.compare_exchange_strong(none, errno);
}

}  // namespace

bool open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    const int mode = stream == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", mode) != stream) return false;  // the lowest free number
  }
  return true;
}

void write_standard_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) remember_failure();
}

void flush_standard_output() {
  if (std::fflush(stdout) != 0) remember_failure();
}

void write_standard_error(std::string_view text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

void print_error(const Error& error, std::string_view what) {
  const Error shown{.message = visible_lines(error.message, "    "),
                    .hint = visible_lines(error.hint, "    "),
                    .where = {visible_line(error.where.file), error.where.line, error.where.column}};
  write_standard_error(
      fmt::format("lathe: {}{}{}\n", visible_line(what), what.empty() ? "" : ": ", shown.to_string()));
}

void print_block(std::string_view indent, std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  write_standard_output(fmt::format("{}{}\n", indent, visible_lines(text, indent)));
}

void print_json(const nlohmann::json& document) {
  write_standard_output(document.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

int finish_output(int code) {
  if (std::fclose(stdout) != 0) remember_failure();
  if (g_output_errno == 0) return code;
  if (g_output_errno != EPIPE)
    print_error(
        "lathe: cannot write to standard output: {}\n  hint: check its free space, or send it elsewhere\n",
        std::strerror(g_output_errno));
  return code == kSuccess || code == kNothingPassed ? kMachine : code;
}

}  // namespace lathe::cli
