#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lathe {

/// Writes all bytes; `path` is for the error. A full disk and a limit on the size of files are
/// errors.
Status write_all(int fd, std::string_view bytes, const std::string& path);

/// Writes a temporary file beside `path`, syncs it and renames it over `path`, with these
/// permissions, or with those that the umask leaves.
Status replace_file(const std::string& path, std::string_view bytes,
                    std::optional<mode_t> permissions = std::nullopt);

/// Writes what the user asked for where the user said. Symbolic links are followed. A regular file
/// is replaced atomically and keeps its permissions, or is written in place where its folder does
/// not let it be replaced. Devices, pipes and sockets are written to, and /dev/stdout and /dev/fd/N
/// are the descriptors that they name. A pipe without a reader is waited for.
Status write_output(const std::string& path, std::string_view bytes);

/// Whether write_output() could write now: asked before hours of work. Opens no device and no pipe.
Status check_output(const std::string& path);

}  // namespace lathe
