#pragma once

namespace lathe::host {

/// Allows all threads of the calling process the system calls that computing in Python takes, and
/// no others. What no computation tries (processes, sockets, signals to others, timers, other
/// processes' memory) kills the process with SIGSYS; the rest fails with EPERM. Files can be read,
/// as far as the jail shows any, and not written. Returns 0 or an errno. Irreversible.
///
/// The process is stopped and continued by signals, so whatever may send SIGCONT later, when nobody
/// runs, is forbidden: timers, message queues, asynchronous I/O, leases, owners of descriptors.
int apply_filter();

}  // namespace lathe::host
