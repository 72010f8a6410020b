#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/weight_format.h"

namespace lathe {

/// A tensor as a GGUF file names it. `shape` has the slowest axis first, unlike the file.
struct GgufTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  WeightFormat format = WeightFormat::kF32;
  std::span<const std::byte> bytes;
};

/// The directory of a GGUF file (versions 2 and 3): metadata and tensors, all checked against the
/// file's bytes. Views point into these bytes. Values that were not asked for are not decoded.
class Gguf {
 public:
  /// `bytes` must outlive the value; `file` names them in errors. Errors (kCorrupt, kInvalid) name
  /// the byte.
  static Result<Gguf> parse(std::span<const std::byte> bytes, std::string file);

  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// Errors: kNotFound, and kInvalid for a value of another type; both name file and key.
  Result<std::string_view> text(std::string_view key) const;
  Result<std::int64_t> integer(std::string_view key) const;  ///< any integer type that fits
  Result<double> number(std::string_view key) const;         ///< float or integer, finite
  Result<bool> boolean(std::string_view key) const;
  Result<std::vector<std::string_view>> texts(std::string_view key) const;
  Result<std::vector<std::int64_t>> integers(std::string_view key) const;

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const std::string& file() const { return file_; }

 private:
  struct Entry {
    std::string_view key;
    std::uint32_t type = 0;  ///< of the value, or of an array's elements
    bool is_array = false;
    std::uint64_t count = 1;
    std::span<const std::byte> bytes;  ///< of the value; of an array without its type and count
  };
  friend class GgufParser;

  const Entry* find(std::string_view key) const;
  Result<const Entry*> get(std::string_view key, bool is_array) const;
  Result<std::int64_t> integer_at(const Entry& entry, std::size_t index) const;
  Error wrong_type(const Entry& entry, std::string_view wanted) const;

  std::string file_;
  std::vector<Entry> entries_;  ///< by key
  std::vector<GgufTensor> tensors_;
};

}  // namespace lathe
