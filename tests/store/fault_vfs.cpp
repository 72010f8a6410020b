#include "tests/store/fault_vfs.h"

#include <sqlite3.h>

#include <csignal>
#include <map>
#include <memory>

namespace lathe {
namespace {

struct State {
  sqlite3_vfs* real = nullptr;
  sqlite3_vfs shim{};
  Fault fault = Fault::kNone;
  int at = 0;
  int seen = 0;
  std::map<const sqlite3_io_methods*, std::unique_ptr<sqlite3_io_methods>> wrapped;
  sqlite3_io_methods original{};
};

State& state() {
  static State instance;
  return instance;
}

bool due() {
  State& s = state();
  ++s.seen;
  return s.fault == Fault::kDiskFull ? s.seen >= s.at : s.fault != Fault::kNone && s.seen == s.at;
}

int write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  State& s = state();
  if (!due()) return s.original.xWrite(file, bytes, size, offset);
  if (s.fault == Fault::kDiskFull) return SQLITE_FULL;
  if (s.fault == Fault::kKillHalf) s.original.xWrite(file, bytes, size / 2, offset);
  std::raise(SIGKILL);
  return SQLITE_IOERR;
}

int truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (due() && state().fault != Fault::kDiskFull) std::raise(SIGKILL);
  return state().original.xTruncate(file, size);
}

int sync(sqlite3_file* file, int flags) {
  if (due() && state().fault != Fault::kDiskFull) std::raise(SIGKILL);
  return state().original.xSync(file, flags);
}

int open(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  State& s = state();
  const int code = s.real->xOpen(s.real, path, file, flags, out_flags);
  if (code != SQLITE_OK) return code;
  auto& methods = s.wrapped[file->pMethods];
  if (!methods) {
    s.original = *file->pMethods;  // all of the unix VFS's tables share these three functions
    methods = std::make_unique<sqlite3_io_methods>(*file->pMethods);
    methods->xWrite = write;
    methods->xTruncate = truncate;
    methods->xSync = sync;
  }
  file->pMethods = methods.get();
  return SQLITE_OK;
}

}  // namespace

void install_fault(Fault fault, int at) {
  State& s = state();
  if (s.real == nullptr) {
    s.real = sqlite3_vfs_find(nullptr);
    s.shim = *s.real;
    s.shim.zName = "fault";
    s.shim.xOpen = open;
    sqlite3_vfs_register(&s.shim, 1);
  }
  s.fault = fault;
  s.at = at;
  s.seen = 0;
}

int writes_seen() { return state().seen; }

}  // namespace lathe
