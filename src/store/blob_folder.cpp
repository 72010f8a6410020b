#include "store/blob_folder.h"

#include "base/fd.h"

namespace lathe {

std::string BlobFolder::path_of(const Digest& digest) const {
  const std::string hex = digest.hex();
  return folder_ + "/" + hex.substr(0, 2) + "/" + hex.substr(2);
}

Result<Digest> BlobFolder::put(std::string_view bytes) const {
  const Digest digest = digest_of(bytes);
  const std::string path = path_of(digest);
  if (const auto present = read_file(path); present.ok() && *present == bytes) return digest;
  LATHE_CHECK_OK(make_directories(path.substr(0, path.rfind('/'))));
  LATHE_CHECK_OK(write_file_atomically(path, bytes));
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
