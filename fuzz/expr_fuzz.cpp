#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "task/expr.h"

/// Any text must parse or be refused; what parses must print as text that parses to an equal value.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const lathe::Result<lathe::Expr> expr = lathe::Expr::parse(text);
  if (!expr.ok()) return 0;
  const std::string printed = expr->to_string();
  if (printed.size() > 4096) return 0;
  const lathe::Result<lathe::Expr> again = lathe::Expr::parse(printed);
  if (!again.ok()) std::abort();
  const lathe::Dims names = {{"M", 5}, {"K", -3}, {"N", INT64_MAX}, {"z", 0}};
  const lathe::Result<std::int64_t> want = expr->evaluate(names);
  const lathe::Result<std::int64_t> got = again->evaluate(names);
  if (want.ok() != got.ok() || (want.ok() && *want != *got)) std::abort();
  return 0;
}
