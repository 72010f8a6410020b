#include "model/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "base/visible_text.h"

namespace lathe {
namespace {

enum Type : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kText, kArray, kU64, kI64, kF64 };

constexpr std::size_t kMostDims = 4;
constexpr std::uint64_t kMostAlignment = 1 << 20;
constexpr const char* kDamaged = "the file is damaged or cut short; fetch it again and compare its digest";

/// 0 for text and arrays, which have no fixed size; nothing for unknown types.
std::optional<std::size_t> bytes_of(std::uint32_t type) {
  switch (type) {
    case kU8:
    case kI8:
    case kBool:
      return 1;
    case kU16:
    case kI16:
      return 2;
    case kU32:
    case kI32:
    case kF32:
      return 4;
    case kU64:
    case kI64:
    case kF64:
      return 8;
    case kText:
    case kArray:
      return 0;
    default:
      return std::nullopt;
  }
}

template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, std::string file) : bytes_(bytes) {
    gguf_.file_ = std::move(file);
  }

  Result<Gguf> parse() {
    if (bytes_.size() < 4 || text_of(bytes_.first(4)) != "GGUF")
      return invalid("this is not a GGUF file: it does not begin with 'GGUF'", "give a .gguf file",
                     {gguf_.file_});
    at_ = 4;
    LATHE_TRY(const auto version, take<std::uint32_t>("the version"));
    if (version != 2 && version != 3) {
      const bool swapped = __builtin_bswap32(version) == 2 || __builtin_bswap32(version) == 3;
      return invalid(swapped ? "the file is for big-endian machines"
                             : fmt::format("GGUF version {} is unknown", version),
                     "convert the model to a little-endian GGUF file of version 3", {gguf_.file_});
    }
    LATHE_TRY(const auto tensor_count, take<std::uint64_t>("the number of tensors"));
    LATHE_TRY(const auto key_count, take<std::uint64_t>("the number of keys"));
    for (std::uint64_t i = 0; i < key_count; ++i) LATHE_CHECK_OK(entry());
    LATHE_CHECK_OK(sort_entries());
    for (std::uint64_t i = 0; i < tensor_count; ++i) LATHE_CHECK_OK(tensor());
    LATHE_CHECK_OK(place_tensors());
    return std::move(gguf_);
  }

 private:
  struct Placed {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::size_t tensor;
    std::size_t said_at;
  };

  Error damaged(std::size_t at, const std::string& what) const {
    return {ErrorCode::kCorrupt, fmt::format("byte {}: {}", at, what), kDamaged, {gguf_.file_}};
  }

  Result<std::span<const std::byte>> take_bytes(std::uint64_t count, std::string_view what) {
    if (count > bytes_.size() - at_)
      return damaged(
          at_, fmt::format("{} would take {} bytes, but {} are left", what, count, bytes_.size() - at_));
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }

  template <class T>
  Result<T> take(std::string_view what) {
    LATHE_TRY(const auto bytes, take_bytes(sizeof(T), what));
    return load<T>(bytes, 0);
  }

  Result<std::string_view> take_text(std::string_view what) {
    LATHE_TRY(const auto length, take<std::uint64_t>(what));
    LATHE_TRY(const auto bytes, take_bytes(length, what));
    return text_of(bytes);
  }

  Status entry() {
    const std::size_t begin = at_;
    Gguf::Entry entry;
    LATHE_TRY(entry.key, take_text("a key"));
    const std::string what = "the value of '" + visible_line(entry.key.substr(0, 80)) + "'";
    if (entry.key.empty() || entry.key.size() > 0xffff)
      return damaged(begin, "a key is empty or longer than 65535");
    LATHE_TRY(entry.type, take<std::uint32_t>(what));
    entry.is_array = entry.type == kArray;
    if (entry.is_array) {
      LATHE_TRY(entry.type, take<std::uint32_t>(what));
      LATHE_TRY(entry.count, take<std::uint64_t>(what));
    }
    const std::optional<std::size_t> size = bytes_of(entry.type);
    if (!size || entry.type == kArray)
      return damaged(at_, fmt::format("{} has the unknown type {}{}", what, entry.type,
                                      entry.is_array ? " in an array" : ""));
    const std::size_t least = std::max<std::size_t>(*size, entry.type == kText ? 8 : 1);
    if (entry.count > (bytes_.size() - at_) / least)
      return damaged(at_, fmt::format("{} has {} elements, more than the file", what, entry.count));
    const std::size_t first = at_;
    if (entry.type == kText) {
      for (std::uint64_t i = 0; i < entry.count; ++i) LATHE_CHECK_OK(take_text(what));
    } else {
      LATHE_CHECK_OK(take_bytes(entry.count * *size, what));
    }
    entry.bytes = bytes_.subspan(first, at_ - first);
    gguf_.entries_.push_back(entry);
    return Ok{};
  }

  Status sort_entries() {
    auto& entries = gguf_.entries_;
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                          [](const auto& a, const auto& b) { return a.key == b.key; });
    if (twice == entries.end()) return Ok{};
    return Error{ErrorCode::kCorrupt,
                 "the key '" + visible_line(twice->key) + "' occurs twice",
                 kDamaged,
                 {gguf_.file_}};
  }

  Status tensor() {
    const std::size_t begin = at_;
    LATHE_TRY(const std::string_view name, take_text("a tensor's name"));
    GgufTensor tensor{std::string(name), {}, {}, {}};
    const std::string what = "tensor '" + visible_line(name.substr(0, 80)) + "'";
    if (name.empty() || name.size() > 255)
      return damaged(begin, "a tensor's name is empty or longer than 255");
    LATHE_TRY(const auto dims, take<std::uint32_t>(what));
    if (dims < 1 || dims > kMostDims) return damaged(begin, fmt::format("{} has {} dims", what, dims));
    std::uint64_t elements = 1;
    for (std::uint32_t i = 0; i < dims; ++i) {
      LATHE_TRY(const auto extent, take<std::uint64_t>(what));
      if (extent == 0 || extent > (std::uint64_t{1} << 48) / elements)
        return damaged(begin, fmt::format("{} has an impossible shape: dim {} is {}", what, i, extent));
      elements *= extent;
      tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(extent));
    }
    LATHE_TRY(const auto type, take<std::uint32_t>(what));
    LATHE_TRY(const auto offset, take<std::uint64_t>(what));
    const auto formats = all_weight_formats();
    const auto format =
        std::find_if(formats.begin(), formats.end(), [&](const auto& row) { return row.ggml_type == type; });
    if (format == formats.end())
      return Error{ErrorCode::kInvalid,
                   fmt::format("byte {}: {} is stored in ggml's format {}, which Lathe does not read", begin,
                               what, type),
                   fmt::format("quantise the model to one of: {}", names_of_formats()),
                   {gguf_.file_}};
    tensor.format = format->format;
    if (static_cast<std::uint64_t>(tensor.shape.back()) % format->block_elements != 0)
      return damaged(begin, fmt::format("{}: rows of {} elements are no whole blocks of {}", what,
                                        tensor.shape.back(), format->name));
    placed_.push_back(
        {offset, elements / format->block_elements * format->block_bytes, gguf_.tensors_.size(), begin});
    gguf_.tensors_.push_back(std::move(tensor));
    return Ok{};
  }

  Status place_tensors() {
    std::uint64_t alignment = 32;
    if (gguf_.has("general.alignment")) {
      LATHE_TRY(const std::int64_t said, gguf_.integer("general.alignment"));
      alignment = static_cast<std::uint64_t>(said);
      if (said < 1 || !std::has_single_bit(alignment) || alignment > kMostAlignment)
        return damaged(
            0, fmt::format("general.alignment is {}, not a power of two up to {}", said, kMostAlignment));
    }
    const std::uint64_t data = (at_ + alignment - 1) / alignment * alignment;
    const auto what = [&](const Placed& placed) {
      return "tensor '" + visible_line(gguf_.tensors_[placed.tensor].name) + "'";
    };
    std::sort(placed_.begin(), placed_.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
    std::uint64_t end = 0;
    for (const Placed& placed : placed_) {
      if (placed.offset % alignment != 0)
        return damaged(placed.said_at, fmt::format("{} lies at {}, not at a multiple of {}", what(placed),
                                                   placed.offset, alignment));
      if (placed.offset < end) return damaged(placed.said_at, what(placed) + " overlaps the one before it");
      if (data > bytes_.size() || placed.offset > bytes_.size() - data ||
          placed.bytes > bytes_.size() - data - placed.offset)
        return damaged(placed.said_at, fmt::format("{} of {} bytes reaches beyond the file's end",
                                                   what(placed), placed.bytes));
      end = placed.offset + placed.bytes;
      gguf_.tensors_[placed.tensor].bytes = bytes_.subspan(data + placed.offset, placed.bytes);
    }
    return Ok{};
  }

  static std::string names_of_formats() {
    std::string names;
    for (const WeightFormatInfo& row : all_weight_formats())
      names += (names.empty() ? "" : ", ") + std::string(row.name);
    return names;
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::vector<Placed> placed_;
  Gguf gguf_;
};

Result<Gguf> Gguf::parse(std::span<const std::byte> bytes, std::string file) {
  return GgufParser(bytes, std::move(file)).parse();
}

const Gguf::Entry* Gguf::find(std::string_view key) const {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), key,
                       [](const Entry& entry, std::string_view wanted) { return entry.key < wanted; });
  return found != entries_.end() && found->key == key ? &*found : nullptr;
}

Result<const Gguf::Entry*> Gguf::get(std::string_view key, bool is_array) const {
  const Entry* entry = find(key);
  if (entry == nullptr)
    return Error{ErrorCode::kNotFound,
                 fmt::format("the file says nothing of '{}'", key),
                 "give a GGUF file that a current converter wrote",
                 {file_}};
  if (entry->is_array != is_array) return wrong_type(*entry, is_array ? "an array" : "a single value");
  return entry;
}

Error Gguf::wrong_type(const Entry& entry, std::string_view wanted) const {
  return invalid(fmt::format("'{}' is not {}", visible_line(entry.key), wanted),
                 "give a GGUF file that a current converter wrote", {file_});
}

Result<std::int64_t> Gguf::integer_at(const Entry& entry, std::size_t index) const {
  const auto value = [&]<class T>(T) -> std::int64_t {
    return static_cast<std::int64_t>(load<T>(entry.bytes, index * sizeof(T)));
  };
  switch (entry.type) {
    case kU8:
      return value(std::uint8_t{});
    case kI8:
      return value(std::int8_t{});
    case kU16:
      return value(std::uint16_t{});
    case kI16:
      return value(std::int16_t{});
    case kU32:
      return value(std::uint32_t{});
    case kI32:
      return value(std::int32_t{});
    case kI64:
      return value(std::int64_t{});
    case kU64:
      if (load<std::uint64_t>(entry.bytes, index * 8) <= std::numeric_limits<std::int64_t>::max())
        return value(std::uint64_t{});
      break;
    default:
      break;
  }
  return wrong_type(entry, "an integer of 63 bits");
}

Result<std::string_view> Gguf::text(std::string_view key) const {
  LATHE_TRY(const Entry* entry, get(key, false));
  if (entry->type != kText) return wrong_type(*entry, "text");
  return text_of(entry->bytes.subspan(8));
}

Result<std::int64_t> Gguf::integer(std::string_view key) const {
  LATHE_TRY(const Entry* entry, get(key, false));
  return integer_at(*entry, 0);
}

Result<double> Gguf::number(std::string_view key) const {
  LATHE_TRY(const Entry* entry, get(key, false));
  double value = 0;
  if (entry->type == kF32) {
    value = static_cast<double>(load<float>(entry->bytes, 0));
  } else if (entry->type == kF64) {
    value = load<double>(entry->bytes, 0);
  } else {
    LATHE_TRY(const std::int64_t integer, integer_at(*entry, 0));
    value = static_cast<double>(integer);
  }
  if (!std::isfinite(value)) return wrong_type(*entry, "a finite number");
  return value;
}

Result<bool> Gguf::boolean(std::string_view key) const {
  LATHE_TRY(const Entry* entry, get(key, false));
  const auto value = entry->type == kBool ? load<std::uint8_t>(entry->bytes, 0) : std::uint8_t{2};
  if (value > 1) return wrong_type(*entry, "true or false");
  return value == 1;
}

Result<std::vector<std::string_view>> Gguf::texts(std::string_view key) const {
  LATHE_TRY(const Entry* entry, get(key, true));
  if (entry->type != kText) return wrong_type(*entry, "an array of texts");
  std::vector<std::string_view> texts(entry->count);
  std::size_t at = 0;
  for (std::string_view& text : texts) {
    const auto length = load<std::uint64_t>(entry->bytes, at);
    text = text_of(entry->bytes.subspan(at + 8, length));
    at += 8 + length;
  }
  return texts;
}

Result<std::vector<std::int64_t>> Gguf::integers(std::string_view key) const {
  LATHE_TRY(const Entry* entry, get(key, true));
  std::vector<std::int64_t> values(entry->count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    LATHE_TRY(values[i], integer_at(*entry, i));
  }
  return values;
}

}  // namespace lathe
