#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"

namespace lathe {

/// Appends fixed-size values and length-prefixed strings in host byte order: both ends are one
/// machine.
class WireWriter {
 public:
  template <class T>
  WireWriter& put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
    return *this;
  }
  WireWriter& text(std::string_view value) {
    put<std::uint32_t>(static_cast<std::uint32_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  template <class T>
  WireWriter& list(const std::vector<T>& values) {
    put(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) put(value);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what WireWriter wrote. The bytes may come from a hostile process: after the first value
/// that does not fit, every read gives zero and ok() is false.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (!ok_ || bytes_.size() < sizeof value) return ok_ = false, value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  std::string text(std::size_t most = 1 << 16) {
    const auto size = get<std::uint32_t>();
    if (!ok_ || size > most || bytes_.size() < size) return ok_ = false, std::string();
    std::string value(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return value;
  }
  /// A byte that is 0 or 1.
  bool flag() {
    const auto value = get<std::uint8_t>();
    if (value > 1) ok_ = false;
    return ok_ && value == 1;
  }
  /// A count of items that each need at least `item_bytes` of the remaining bytes.
  std::size_t count(std::size_t item_bytes) {
    const auto value = get<std::uint32_t>();
    if (!ok_ || value > bytes_.size() / item_bytes) return ok_ = false, 0;
    return value;
  }
  template <class T>
  std::vector<T> list() {
    std::vector<T> values(count(sizeof(T)));
    for (T& value : values) value = get<T>();
    return values;
  }
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace lathe
