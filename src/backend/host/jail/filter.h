#pragma once

namespace lathe::host {

/// What a candidate's process computes on, besides the processor.
enum class Accelerator { kNone, kGpu };

/// Allows all threads of the calling process the system calls that computing in Python takes, and
/// no others. What no computation tries (processes, sockets, signals to others, timers, other
/// processes' memory) kills the process with SIGSYS; the rest fails with EPERM. Files can be read,
/// as far as the jail shows any, and not written. Returns 0 or an errno. Irreversible.
///
/// Memory is not remapped: an output made of the pages of the inputs would be there before its call
/// begins. What is resident of a file, and locks, would tell one process what another did.
///
/// The process is stopped and continued by signals, so whatever may send SIGCONT later, when nobody
/// runs, is forbidden: timers, message queues, asynchronous I/O, leases, owners of descriptors.
///
/// A GPU's driver opens its device files for writing, asks them by ioctl and waits on descriptors
/// of its own, and Triton keeps files: with kGpu that is allowed, and Landlock must say which they
/// are.
int apply_filter(Accelerator accelerator);

}  // namespace lathe::host
