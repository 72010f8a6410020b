#include "backend/cuda/broker/compiler_notes.h"

#include <algorithm>
#include <charconv>

#include "backend/cuda/broker/cubin_image.h"

namespace lathe::cuda {
namespace {

/// The number before `unit` in a line: "552 bytes spill stores".
double number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == line.npos) return 0;
  const std::size_t begin = line.substr(0, end).find_last_not_of("0123456789") + 1;
  double value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

void note(const std::string& kernel, bool several, const char* name, std::int64_t value,
          std::map<std::string, double>& facts) {
  const auto number = static_cast<double>(value);
  facts[name] = std::max(facts[name], number);
  if (several) facts[std::string(name) + " of " + kernel] = number;
}

}  // namespace

std::map<std::string, double> facts_of_log(std::string_view log) {
  std::map<std::string, double> facts;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    if (!line.starts_with("ptxas")) continue;
    if (const double bytes =
            number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
        bytes > 0)
      facts["spill_bytes"] += bytes;
    if (line.find("wgmma.mma_async instructions are serialized") != line.npos) ++facts["wgmma_serialised"];
    if (line.find("'setmaxnreg' ignored") != line.npos) ++facts["setmaxnreg_ignored"];
  }
  return facts;
}

std::map<std::string, double> facts_of_cubin(std::string_view cubin) {
  std::map<std::string, double> facts;
  const auto image = parse_cubin(cubin);
  if (!image.ok()) return facts;
  const bool several = image->resources.size() > 1;
  for (const KernelResources& kernel : image->resources) {
    note(kernel.name, several, "registers", kernel.registers, facts);
    note(kernel.name, several, "stack_bytes", kernel.stack_bytes, facts);
    note(kernel.name, several, "shared_bytes", kernel.shared_bytes, facts);
  }
  return facts;
}

}  // namespace lathe::cuda
