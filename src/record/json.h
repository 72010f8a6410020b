#pragma once

#include <nlohmann/json_fwd.hpp>

#include "record/experience.h"

namespace lathe {

/// The stable JSON form of records (docs/json.md). Parsing is strict: it rejects unknown outcomes and
/// non-finite numbers, and names the field.
nlohmann::json to_json(const Verdict& verdict);
Result<Verdict> verdict_from_json(const nlohmann::json& json);
nlohmann::json to_json(const Lineage& lineage);
Result<Lineage> lineage_from_json(const nlohmann::json& json);

}  // namespace lathe
