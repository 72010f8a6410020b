#pragma once

#include <string>

namespace lathe {

/// C++ text compiled with the flags of candidates and loaded into this process.
class SharedObject {
 public:
  /// Aborts the test program when the text does not compile: it is the test's own. `flags` come
  /// last.
  explicit SharedObject(const std::string& text, const std::string& flags = "");
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  void* symbol(const std::string& name) const;
  template <class Function>
  Function* function(const std::string& name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace lathe
