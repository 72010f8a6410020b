#pragma once

#include <dlfcn.h>

namespace lathe {

/// Opens the library at the first path that loads; nullptr if none does.
template <class Places>
void* open_library(const Places& places) {
  for (const char* place : places)
    if (void* library = ::dlopen(place, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

/// Binds function pointers to a loaded library's symbols and records the first missing one.
class SymbolBinder {
 public:
  explicit SymbolBinder(void* library) : library_(library) {}

  template <class Function>
  void bind(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

}  // namespace lathe
