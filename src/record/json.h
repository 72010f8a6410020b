#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "record/experience.h"

namespace lathe {

/// The stable JSON form of records (docs/json.md). Parsing is strict: it rejects unknown outcomes
/// and non-finite numbers, and names the field; fields it does not know are tolerated.
nlohmann::json to_json(const Verdict& verdict);
Result<Verdict> verdict_from_json(const nlohmann::json& json);
nlohmann::json to_json(const ShapeProfile& profile);
nlohmann::json to_json(const Lineage& lineage);
Result<Lineage> lineage_from_json(const nlohmann::json& json);
/// Blobs by their digests: those that do not exist are left out.
nlohmann::json to_json(const Generation& generation);
Result<Generation> generation_from_json(const nlohmann::json& json);

/// Text of any JSON value. Never throws: bytes that are not UTF-8 (a kernel may hold any) become
/// U+FFFD, and non-finite numbers become null, which parsing a record then rejects. `indent` < 0:
/// one line.
std::string json_text(const nlohmann::json& json, int indent = -1);
/// `what` names the text in errors. Errors (kInvalid) give the byte where parsing stopped.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view what);
/// parse_json() that also refuses an object with a key that occurs twice: readers take either
/// value.
Result<nlohmann::json> parse_unambiguous_json(std::string_view text, std::string_view what);
/// The deepest nesting of a text that may be JSON: what strangers sent is measured before it is
/// parsed.
std::size_t json_nesting(std::string_view text);

}  // namespace lathe
