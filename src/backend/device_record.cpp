#include "backend/device_record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "record/json_reader.h"

namespace lathe {

using nlohmann::json;

namespace {

constexpr int kMostLanes = 1024;

}  // namespace

json to_json(const DeviceRecord& record) {
  json levels = json::array();
  for (const DevicePeaks::Level& level : record.peaks.levels)
    levels.push_back({{"name", level.name},
                      {"capacity_bytes", level.capacity_bytes},
                      {"bytes_per_second", level.bytes_per_second}});
  json facts = json::object();
  for (const auto& [name, value] : record.device.facts) facts[name] = value;
  return {{"kind", record.device.kind},
          {"cuda", record.device.dialect == Dialect::kCuda},
          {"name", record.device.name},
          {"jail", record.device.jail},
          {"threads", record.device.threads},
          {"lanes", record.device.lanes},
          {"facts", facts},
          {"flops_per_second", record.peaks.flops_per_second},
          {"tensor_flops_per_second", record.peaks.tensor_flops_per_second},
          {"levels", levels}};
}

Result<DeviceRecord> device_record_from_json(const json& object) {
  DeviceRecord record;
  JsonReader reader(object, "device");
  bool cuda = false;
  std::map<std::string, double> facts;
  reader.read("kind", record.device.kind);
  reader.read("cuda", cuda);
  reader.read("name", record.device.name);
  if (reader.has("jail")) reader.read("jail", record.device.jail);
  reader.read("threads", record.device.threads);
  if (reader.has("lanes")) reader.read("lanes", record.device.lanes);
  reader.read("facts", facts);
  reader.read("flops_per_second", record.peaks.flops_per_second);
  reader.read("tensor_flops_per_second", record.peaks.tensor_flops_per_second);
  reader.read_list("levels", record.peaks.levels, [](JsonReader& level, DevicePeaks::Level& to) {
    level.read("name", to.name);
    level.read("capacity_bytes", to.capacity_bytes);
    level.read("bytes_per_second", to.bytes_per_second);
  });
  LATHE_CHECK_OK(reader.status());
  if (record.device.lanes < 1 || record.device.lanes > kMostLanes)
    return invalid(fmt::format("device.lanes is not from 1 to {}", kMostLanes));
  record.device.dialect = cuda ? Dialect::kCuda : Dialect::kCpu;
  for (const auto& [name, value] : facts) record.device.facts[name] = static_cast<std::int64_t>(value);
  return record;
}

}  // namespace lathe
