// A stand-in for CUPTI and the driver: "kernels" run in no time, and take as long as they say.

#include "fake_cupti.h"

#include <cstring>
#include <vector>

namespace {

using Callback = void (*)(void*, int, std::uint32_t, const void*);
using WantsBuffer = void (*)(std::uint8_t**, std::size_t*, std::size_t*);
using GivesBuffer = void (*)(void*, std::uint32_t, std::uint8_t*, std::size_t, std::size_t);

constexpr int kEnter = 0, kExit = 1, kDriver = 1;
constexpr std::uint32_t kKernel = 10, kMemcpy = 1;
constexpr std::size_t kRecordBytes = 208;

struct Record {
  std::uint32_t kind, correlation;
  std::uint64_t ns;
};

Callback g_callback = nullptr;
WantsBuffer g_wants_buffer = nullptr;
GivesBuffer g_gives_buffer = nullptr;
std::vector<Record> g_records;
std::uint32_t g_correlation = 0;

}  // namespace

extern "C" {

int cuptiActivityRegisterCallbacks(WantsBuffer wants, GivesBuffer gives) {
  g_wants_buffer = wants;
  g_gives_buffer = gives;
  return 0;
}
int cuptiSubscribe(void**, Callback callback, void*) {
  g_callback = callback;
  return 0;
}
int cuptiEnableDomain(std::uint32_t, void*, int) { return 0; }
int cuptiActivityEnable(int kind) { return kind == static_cast<int>(kKernel) ? 0 : 1; }

int cuptiActivityFlushAll(std::uint32_t) {
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0, most = 0;
  g_wants_buffer(&buffer, &size, &most);
  std::size_t used = 0;
  for (const Record& record : g_records) {
    const std::uint64_t begin = 1000, end = begin + record.ns;
    std::memset(buffer + used, 0xab, kRecordBytes);
    std::memcpy(buffer + used, &record.kind, sizeof record.kind);
    std::memcpy(buffer + used + kBegin, &begin, sizeof begin);
    std::memcpy(buffer + used + kEnd, &end, sizeof end);
    std::memcpy(buffer + used + kCorrelation, &record.correlation, sizeof record.correlation);
    used += kRecordBytes;
  }
  g_records.clear();
  g_gives_buffer(nullptr, 0, buffer, size, used);
  return 0;
}

int cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, std::uint8_t** record) {
  std::uint8_t* const next = *record == nullptr ? buffer : *record + kRecordBytes;
  if (next + kRecordBytes > buffer + valid) return 12;
  *record = next;
  return 0;
}

/// What the driver does at a call of that name, which launches a kernel if it takes any time.
void fake_call(const char* function, std::uint64_t ns) {
  Call call = {kEnter, function, nullptr, nullptr, nullptr, nullptr, 0, nullptr, ++g_correlation};
  const auto number = static_cast<std::uint32_t>(std::strlen(function));
  g_callback(nullptr, kDriver, number, &call);
  if (ns > 0) g_records.push_back({kKernel, call.correlation, ns});
  g_records.push_back({kMemcpy, call.correlation, 7});
  call.site = kExit;
  g_callback(nullptr, kDriver, number, &call);
}

}  // extern "C"
