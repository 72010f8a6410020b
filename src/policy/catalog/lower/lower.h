#pragma once

#include "policy/catalog/ir/graph.h"

namespace lathe::catalog {

/// How a product takes factors of fp16 or bf16: from copies in fp32, or as tensor cores do.
enum class NarrowProducts { kWidened, kAsTheyAre };

/// The task as primitives. Errors: an op or a dtype that the catalogue does not know.
Result<Graph> lower(const TaskSpec& task, NarrowProducts products = NarrowProducts::kWidened);

}  // namespace lathe::catalog
