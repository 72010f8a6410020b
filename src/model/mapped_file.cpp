#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/fd.h"

namespace lathe {

Result<MappedFile> MappedFile::open(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    Error error = errno_error("cannot open '" + path + "'");
    if (errno == ENOENT) error.code = ErrorCode::kNotFound;
    return error;
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return errno_error("cannot examine '" + path + "'");
  if (!S_ISREG(status.st_mode)) return invalid("'" + path + "' is not a regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return MappedFile(path, {});
  void* begin = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (begin == MAP_FAILED) return errno_error("cannot map '" + path + "'");
  return MappedFile(path, {static_cast<const std::byte*>(begin), size});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace lathe
