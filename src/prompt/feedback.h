#pragma once

#include <string>
#include <string_view>

#include "record/experience.h"

namespace lathe {

/// The parts of a verdict that the author of the next kernel should know, as templates' holes. All
/// are fenced or on one line; empty where the verdict has nothing to say.
struct FeedbackParts {
  std::string template_name;  ///< of prompts/: "feedback_wrong", ...
  std::string outcome, reason, detail;
  std::string log;         ///< the compiler's first errors with their source lines
  std::string pattern;     ///< which of the cases are wrong
  std::string speeds;      ///< a line a peer and one a shape
  std::string bottleneck;  ///< of the profile, the strongest first
  std::string facts;       ///< of the machine code
};

/// Hidden shapes stay hidden.
FeedbackParts feedback_parts(const Verdict& verdict, std::string_view candidate_text);

/// The same as one text, for those who write prompts of their own: the outcome, then every part
/// that is not empty.
std::string feedback_text(const Verdict& verdict, std::string_view candidate_text = {});

/// A verdict in one line: what remains where there is no room for more.
std::string feedback_line(const Verdict& verdict);

/// The first errors of a compiler's log, each with its place and source line; other lines are left
/// out. Logs of g++ and of NVRTC are understood; the beginning of any other. At most `max_bytes`,
/// on whole lines.
std::string compiler_cause(std::string_view log, std::string_view source, std::size_t max_bytes = 1500);

}  // namespace lathe
