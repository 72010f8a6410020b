#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "record/verdict.h"

namespace lathe {

struct BuildRefusal {
  Outcome outcome = Outcome::kBuildFailed;
  std::string reason;
  std::string text;
};

/// What a candidate is told whose object parse_elf() refused: what in `source` is the cause, in
/// which line, and what to write instead. TAMPERED is only what nobody writes by mistake.
BuildRefusal explain_refusal(const Error& refusal, std::string_view object, std::string_view source);

/// "hint: ..." lines for what compilers and linkers say of code that would be right elsewhere; ""
/// where their messages suffice.
std::string hints_on_log(std::string_view log, std::string_view source);

}  // namespace lathe
