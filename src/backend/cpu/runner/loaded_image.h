#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "backend/cpu/elf_image.h"
#include "sandbox/memfd.h"

namespace lathe {

/// A checked shared object in this process's memory. Its code has not run: it has no constructors.
class LoadedImage {
 public:
  static Result<LoadedImage> load(std::string_view bytes);

  /// nullptr if the object defines no such function.
  void* function(std::string_view name) const;
  /// Puts the writable globals back to their state at load, so that no call sees what an earlier one left.
  void restore_writable() const;

 private:
  struct Pristine {
    std::byte* at;
    std::vector<std::byte> bytes;
  };
  ElfImage image_;
  Mapping memory_;
  std::vector<Pristine> pristine_;
};

}  // namespace lathe
