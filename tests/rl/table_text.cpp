#include "tests/rl/table_text.h"

#include "tests/rl/made_up_table.h"

namespace lathe::rl {

std::string made_up_table_text(std::size_t tasks) { return to_text(made_up_table(tasks)); }

}  // namespace lathe::rl
