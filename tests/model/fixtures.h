#pragma once

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/weight_format.h"

namespace lathe {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lathe-model-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

template <class T>
std::string little_endian(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// Writes GGUF files, sound ones and others. Shapes have the slowest axis first.
class GgufWriter {
 public:
  static std::string text(const std::string& value) {
    return little_endian<std::uint64_t>(value.size()) + value;
  }

  std::uint32_t version = 3;
  std::uint64_t keys = 0;
  std::uint64_t tensors = 0;
  std::string head;
  std::string infos;
  std::string data;

  GgufWriter& raw(const std::string& key, std::uint32_t type, const std::string& value) {
    head += text(key) + little_endian(type) + value;
    ++keys;
    return *this;
  }
  GgufWriter& number(const std::string& key, std::uint32_t value) {
    return raw(key, 4, little_endian(value));
  }
  GgufWriter& real(const std::string& key, float value) { return raw(key, 6, little_endian(value)); }
  GgufWriter& truth(const std::string& key, bool value) { return raw(key, 7, little_endian(value)); }
  GgufWriter& string(const std::string& key, const std::string& value) { return raw(key, 8, text(value)); }
  GgufWriter& strings(const std::string& key, const std::vector<std::string>& values) {
    std::string all = little_endian<std::uint32_t>(8) + little_endian<std::uint64_t>(values.size());
    for (const std::string& value : values) all += text(value);
    return raw(key, 9, all);
  }
  GgufWriter& integers(const std::string& key, const std::vector<std::int32_t>& values) {
    std::string all = little_endian<std::uint32_t>(5) + little_endian<std::uint64_t>(values.size());
    for (const std::int32_t value : values) all += little_endian(value);
    return raw(key, 9, all);
  }
  GgufWriter& tensor(const std::string& name, const std::vector<std::int64_t>& shape, std::uint32_t type,
                     const std::string& bytes) {
    data.resize((data.size() + 31) / 32 * 32);
    tensor_info(name, shape, type, data.size());
    data += bytes;
    return *this;
  }
  GgufWriter& tensor_info(const std::string& name, const std::vector<std::int64_t>& shape, std::uint32_t type,
                          std::uint64_t offset) {
    infos += text(name) + little_endian(static_cast<std::uint32_t>(shape.size()));
    for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent)
      infos += little_endian(static_cast<std::uint64_t>(*extent));
    infos += little_endian(type) + little_endian(offset);
    ++tensors;
    return *this;
  }

  std::string bytes() const {
    std::string file =
        "GGUF" + little_endian(version) + little_endian(tensors) + little_endian(keys) + head + infos;
    file.resize((file.size() + 31) / 32 * 32);
    return file + data;
  }
};

inline std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace lathe
