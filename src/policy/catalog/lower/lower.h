#pragma once

#include "policy/catalog/ir/graph.h"

namespace lathe::catalog {

/// Which factors of fp16 or bf16 a product takes as they are; the others are copied in fp32.
enum class NarrowProducts { kWidened, kBf16AsTheyAre, kAsTheyAre };

/// The task as primitives. Errors: an op or a dtype that the catalogue does not know.
Result<Graph> lower(const TaskSpec& task, NarrowProducts products = NarrowProducts::kWidened);

}  // namespace lathe::catalog
