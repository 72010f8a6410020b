#pragma once

#include <cstddef>
#include <string>

namespace lathe::rl {

/// made_up_table() as a file has it, for tests that know nothing else of rl.
std::string made_up_table_text(std::size_t tasks);

}  // namespace lathe::rl
