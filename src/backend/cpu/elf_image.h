#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lathe {

/// A shared object from the compile jail, parsed as untrusted input: every offset is checked.
struct ElfImage {
  struct Segment {
    std::uint64_t offset = 0;
    std::uint64_t address = 0;
    std::uint64_t file_bytes = 0;
    std::uint64_t memory_bytes = 0;
    bool readable = false;
    bool writable = false;
    bool executable = false;
  };
  struct Relocation {
    std::uint64_t address = 0;
    std::int64_t addend = 0;
    std::string symbol;  ///< empty: relative to the load address
  };

  std::vector<Segment> segments;
  std::vector<Relocation> relocations;
  std::map<std::string, std::uint64_t, std::less<>> functions;  ///< defined, global
  std::vector<std::string> imports;
  std::uint64_t relro_address = 0;
  std::uint64_t relro_bytes = 0;
  std::uint64_t memory_bytes = 0;  ///< of the whole image, from address 0
  std::uint64_t alignment = 1;     ///< of address 0, a power of two
  std::uint64_t code_bytes = 0;
  std::uint64_t writable_bytes = 0;  ///< outside RELRO, where calls could keep state
};

/// Parses and checks. A refusal's Error has a reason: "bad_elf", "constructor", "ifunc",
/// "thread_local", "forbidden_symbol", "unknown_function", "writable_code", "writable_state".
Result<ElfImage> parse_elf(std::string_view bytes);

}  // namespace lathe
