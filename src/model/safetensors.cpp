#include "model/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/guard.h"
#include "base/visible_text.h"

namespace lathe {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMostHeaderBytes = 64 << 20;
constexpr std::size_t kMostSafetensorsDims = 8;
constexpr int kHeaderDepth = 3;  // {name: {"shape": [..]}}

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  Result<std::vector<SafetensorsEntry>> parse() {
    std::uint64_t header_bytes = 0;
    if (bytes_.size() < sizeof header_bytes) return damaged("the file ends within its first 8 bytes");
    std::memcpy(&header_bytes, bytes_.data(), sizeof header_bytes);
    if (header_bytes > kMostHeaderBytes || header_bytes > bytes_.size() - sizeof header_bytes)
      return damaged(
          fmt::format("byte 0: the header would take {} bytes of {}", header_bytes, bytes_.size()));
    data_ = bytes_.subspan(sizeof header_bytes + header_bytes);
    LATHE_TRY(
        const Json header,
        read_header({reinterpret_cast<const char*>(bytes_.data()) + sizeof header_bytes, header_bytes}));
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") continue;
      LATHE_TRY(SafetensorsEntry entry, read_entry(name, value));
      entries.push_back(std::move(entry));
    }
    LATHE_CHECK_OK(check_overlaps(entries));
    return entries;
  }

 private:
  Error damaged(std::string what) const {
    return {
        ErrorCode::kCorrupt, std::move(what), "the file is damaged or cut short; fetch it again", {file_}};
  }

  Result<Json> read_header(std::string_view text) const {
    std::set<std::string> names;
    std::string twice;
    bool too_deep = false;
    const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (event == Json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second)
        twice = parsed.get<std::string>();
      too_deep = too_deep || depth > kHeaderDepth;
      return true;
    };
    Json header = Json::parse(text, watch, false);
    if (!header.is_object()) return damaged("the header is no JSON object");
    if (too_deep) return damaged("the header is nested too deeply");
    if (!twice.empty())
      return damaged(fmt::format("the tensor '{}' occurs twice", visible_line(twice.substr(0, 80))));
    return header;
  }

  Result<SafetensorsEntry> read_entry(const std::string& name, const Json& value) const {
    const std::string what = "tensor '" + visible_line(name.substr(0, 80)) + "'";
    const auto is_count = [](const Json& number) { return number.is_number_unsigned(); };
    const auto is_counts = [&](const char* key) {
      return value.contains(key) && value[key].is_array() &&
             std::all_of(value[key].begin(), value[key].end(), is_count);
    };
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
        !is_counts("shape") || !is_counts("data_offsets") || value["data_offsets"].size() != 2)
      return damaged(what + " has no dtype, shape and data_offsets");
    SafetensorsEntry entry;
    entry.name = name;
    const auto& dtype = value["dtype"].get_ref<const std::string&>();
    const auto formats = all_weight_formats();
    const auto format = std::find_if(formats.begin(), formats.end(), [&](const auto& row) {
      return row.name == dtype && row.block_elements == 1;
    });
    if (format == formats.end())
      return invalid(fmt::format("{} is stored as {}", what, visible_line(dtype.substr(0, 40))),
                     "Lathe reads F32, F16 and BF16; convert the model", {file_});
    entry.format = format->format;
    std::uint64_t elements = 1;
    if (value["shape"].empty() || value["shape"].size() > kMostSafetensorsDims)
      return damaged(fmt::format("{} has {} dims", what, value["shape"].size()));
    for (const Json& json_extent : value["shape"]) {
      const auto extent = json_extent.get<std::uint64_t>();
      if (extent == 0 || extent > (std::uint64_t{1} << 48) / elements)
        return damaged(what + " has an impossible shape");
      elements *= extent;
      entry.shape.push_back(static_cast<std::int64_t>(extent));
    }
    const auto begin = value["data_offsets"][0].get<std::uint64_t>();
    const auto end = value["data_offsets"][1].get<std::uint64_t>();
    if (begin > end || end > data_.size())
      return damaged(
          fmt::format("{} lies from {} to {}, but the data has {} bytes", what, begin, end, data_.size()));
    if (end - begin != elements * format->block_bytes)
      return damaged(fmt::format("{} has {} bytes where its shape and dtype ask for {}", what, end - begin,
                                 elements * format->block_bytes));
    entry.bytes = data_.subspan(begin, end - begin);
    return entry;
  }

  Status check_overlaps(const std::vector<SafetensorsEntry>& entries) const {
    std::vector<const SafetensorsEntry*> order;
    for (const SafetensorsEntry& entry : entries) order.push_back(&entry);
    std::sort(order.begin(), order.end(),
              [](const auto* a, const auto* b) { return a->bytes.data() < b->bytes.data(); });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (order[i - 1]->bytes.data() + order[i - 1]->bytes.size() > order[i]->bytes.data())
        return damaged(fmt::format("the tensors '{}' and '{}' overlap",
                                   visible_line(order[i - 1]->name.substr(0, 80)),
                                   visible_line(order[i]->name.substr(0, 80))));
    return Ok{};
  }

  std::span<const std::byte> bytes_;
  std::span<const std::byte> data_;
  const std::string& file_;
};

}  // namespace

Result<std::vector<SafetensorsEntry>> parse_safetensors(std::span<const std::byte> bytes,
                                                        const std::string& file) {
  return without_exceptions([&] { return Parser(bytes, file).parse(); });
}

}  // namespace lathe
