#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "backend/cpu/elf_image.h"
#include "sandbox/memfd.h"

namespace lathe {

/// A validated shared object mapped into this process. Loading runs none of its code: it has no
/// constructors.
class LoadedImage {
 public:
  static Result<LoadedImage> load(std::string_view bytes);

  /// nullptr if the object defines no such function.
  void* function(std::string_view name) const;
  /// Restores the initial values of writable globals, so that no call sees an earlier one's state.
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
