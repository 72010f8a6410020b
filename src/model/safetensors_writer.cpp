#include "model/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/output.h"
#include "record/json.h"

namespace lathe {
namespace {

constexpr std::size_t kAlignment = 8;

std::string header_of(std::span<const SafetensorsEntry> entries,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t begin = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::size_t end = begin + entry.bytes.size();
    header[entry.name] = {{"dtype", std::string(info(entry.format).name)},
                          {"shape", entry.shape},
                          {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = json_text(header);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

Status write_to(int fd, const std::string& path, std::span<const SafetensorsEntry> entries,
                const std::string& header) {
  const std::uint64_t length = header.size();
  std::string start(sizeof length, '\0');
  std::memcpy(start.data(), &length, sizeof length);
  LATHE_CHECK_OK(write_all(fd, start + header, path));
  for (const SafetensorsEntry& entry : entries)
    LATHE_CHECK_OK(
        write_all(fd, {reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size()}, path));
  if (::fsync(fd) != 0) return errno_error("cannot write " + path);
  return Ok{};
}

}  // namespace

Status write_safetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                         const std::map<std::string, std::string>& metadata) {
  const std::string partial = path + ".partial";
  const UniqueFd file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) return errno_error("cannot write " + partial);
  Status written = write_to(file.get(), partial, entries, header_of(entries, metadata));
  if (written.ok() && ::rename(partial.c_str(), path.c_str()) != 0)
    written = errno_error("cannot rename " + partial);
  if (!written.ok()) ::unlink(partial.c_str());
  return written;
}

}  // namespace lathe
