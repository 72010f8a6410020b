#include "backend/naive_grading.h"

#include <cstdlib>

namespace lathe {

std::string_view name(NaiveAnswer::Kind kind) {
  switch (kind) {
    case NaiveAnswer::Kind::kAccepted:
      return "accepted";
    case NaiveAnswer::Kind::kRejected:
      return "rejected";
    case NaiveAnswer::Kind::kHarmed:
      return "harmed";
    case NaiveAnswer::Kind::kUnavailable:
      return "unavailable";
  }
  return "unavailable";
}

NaiveAnswer read_naive_line(const std::string& line) {
  if (line.starts_with("PASS "))
    return {NaiveAnswer::Kind::kAccepted, std::strtod(line.c_str() + 5, nullptr), line};
  return {line.starts_with("FAIL") ? NaiveAnswer::Kind::kRejected : NaiveAnswer::Kind::kHarmed, 0, line};
}

}  // namespace lathe
