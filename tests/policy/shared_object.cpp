#include "tests/policy/shared_object.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lathe {

SharedObject::SharedObject(const std::string& text, const std::string& flags) {
  char folder[] = "/tmp/lathe_catalog_XXXXXX";
  if (mkdtemp(folder) == nullptr) std::abort();
  const std::string base = std::string(folder) + "/kernel";
  std::ofstream(base + ".cpp") << text;
  const std::string command =
      "g++ -O3 -march=native -std=c++20 -ffp-contract=fast -fno-exceptions -fno-rtti -fPIC -nostdlib -shared "
      "-I" LATHE_SOURCE_DIR "/device " +
      base + ".cpp -w -o " + base + ".so -Wl,--no-as-needed -lm " + flags;
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "cannot compile:\n%.4000s\n", text.c_str());
    std::abort();
  }
  handle_ = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) std::fprintf(stderr, "%s\n", dlerror()), std::abort();
  std::filesystem::remove_all(folder);
}

SharedObject::~SharedObject() { dlclose(handle_); }

void* SharedObject::symbol(const std::string& name) const {
  void* found = dlsym(handle_, name.c_str());
  if (found == nullptr) std::fprintf(stderr, "no symbol %s\n", name.c_str()), std::abort();
  return found;
}

}  // namespace lathe
