#include "backend/vendor_library.h"

#include <dlfcn.h>

#include <array>

namespace lathe {

Result<VendorLibrary> VendorLibrary::open(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Error{ErrorCode::kUnavailable, ::dlerror(),
                 "install OpenBLAS and oneDNN (libopenblas0, libdnnl2), or build Lathe whole"};
  VendorLibrary library;
  library.prepare_ =
      reinterpret_cast<decltype(&lathe_vendor_prepare)>(::dlsym(handle, "lathe_vendor_prepare"));
  library.execute_ =
      reinterpret_cast<decltype(&lathe_vendor_execute)>(::dlsym(handle, "lathe_vendor_execute"));
  library.set_stream_ =
      reinterpret_cast<decltype(&lathe_vendor_set_stream)>(::dlsym(handle, "lathe_vendor_set_stream"));
  library.find_cudnn_ =
      reinterpret_cast<decltype(&lathe_vendor_find_cudnn)>(::dlsym(handle, "lathe_vendor_find_cudnn"));
  if (!library.prepare_ || !library.execute_)
    return Error{ErrorCode::kCorrupt, "'" + path + "' is not a Lathe vendor library"};
  return library;
}

Result<lathe_vendor_call*> VendorLibrary::prepare(const std::string& json, int threads) const {
  lathe_vendor_error error{};
  if (lathe_vendor_call* const call = prepare_(json.c_str(), threads, &error)) return call;
  if (error.no_library) return Error{ErrorCode::kUnavailable, error.text, {}, {}, "no_library"};
  return refused("library_refuses", error.text);
}

Result<std::string> VendorLibrary::find_cudnn(const std::string& first_place) const {
  if (!find_cudnn_) return Error{ErrorCode::kUnavailable, "this vendor library has no cuDNN support"};
  std::array<char, 4096> text{};
  if (find_cudnn_(first_place.c_str(), text.data(), text.size()) == 0)
    return Error{ErrorCode::kUnavailable, text.data()};
  return std::string(text.data());
}

}  // namespace lathe
