#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace lathe {

/// A file of JSON Lines that a run appends to, one for each write().
class JsonLinesFile {
 public:
  /// Keeps the first `bytes` of what is there: a resumed run goes on where its checkpoint was
  /// taken.
  static Result<JsonLinesFile> open(const std::string& path, std::int64_t bytes);

  Status write(const nlohmann::json& line);
  std::int64_t bytes() const { return bytes_; }

 private:
  JsonLinesFile(std::string path, UniqueFd file, std::int64_t bytes)
      : path_(std::move(path)), file_(std::move(file)), bytes_(bytes) {}

  std::string path_;
  UniqueFd file_;
  std::int64_t bytes_;
};

}  // namespace lathe
