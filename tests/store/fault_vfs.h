#pragma once

namespace lathe {

enum class Fault {
  kNone,
  kKillBefore,  ///< SIGKILL instead of the write
  kKillHalf,    ///< SIGKILL after half of the write's bytes
  kDiskFull,    ///< this and every later write fails for lack of space, until the fault is cleared
};

/// Makes every SQLite connection opened from now on in this process fault at its n-th write, sync
/// or truncation, counted from 1. Replaces the default VFS once; call again to change the fault.
void install_fault(Fault fault, int at);
int writes_seen();

}  // namespace lathe
