#include "store/blob_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

namespace lathe {
namespace {

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// Makes the names in a folder as durable as the files' bytes.
Status sync_folder(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) return errno_error("cannot sync '" + folder + "'");
  return Ok{};
}

}  // namespace

std::string BlobFolder::path_of(const Digest& digest) const {
  const std::string hex = digest.hex();
  return folder_ + "/" + hex.substr(0, 2) + "/" + hex.substr(2);
}

Result<Digest> BlobFolder::put(std::string_view bytes) const {
  const Digest digest = digest_of(bytes);
  const std::string path = path_of(digest);
  const std::string own_folder = parent_of(path);
  if (const auto present = read_file(path); !present.ok() || *present != bytes) {
    LATHE_CHECK_OK(make_directories(own_folder));
    LATHE_CHECK_OK(write_file_atomically(path, bytes));
  }
  // Of a sound copy too: another process may have written it a moment ago.
  for (const std::string& folder : {own_folder, folder_, parent_of(folder_)})
    LATHE_CHECK_OK(sync_folder(folder));
  return digest;
}

Result<std::string> BlobFolder::get(const Digest& digest) const {
  const std::string path = path_of(digest);
  LATHE_TRY(std::string bytes, read_file(path));
  if (digest_of(bytes) != digest) {
    return Error{ErrorCode::kCorrupt, "'" + path + "' does not hold the bytes that its name promises",
                 "delete the file: it is written again the next time it is made"};
  }
  return bytes;
}

}  // namespace lathe
