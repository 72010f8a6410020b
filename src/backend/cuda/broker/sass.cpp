#include "backend/cuda/broker/sass.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace lathe::cuda {
namespace {

constexpr std::array<std::string_view, 19> kKinds = {
    "HGMMA", "IGMMA", "QGMMA", "HMMA", "IMMA", "DMMA", "FFMA", "DFMA",    "HFMA2",  "MUFU",
    "LDG",   "STG",   "LDS",   "STS",  "LDL",  "STL",  "LDSM", "UTMALDG", "UTMASTG"};

bool is_tensor_core(std::string_view kind) {
  return kind.ends_with("MMA") && kind != "FFMA" && kind != "DMMA";
}

/// The n-th part of "HGMMA.64x256x16.F32"; empty if there are fewer.
std::string_view part(std::string_view opcode, int n) {
  for (; n > 0; --n) {
    const std::size_t dot = opcode.find('.');
    if (dot == opcode.npos) return {};
    opcode.remove_prefix(dot + 1);
  }
  return opcode.substr(0, opcode.find('.'));
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

/// The opcode of a line "  /*0b60*/  @!P0 HGMMA.64x256x16.F32 R24, ...;"; empty if it holds no
/// instruction.
std::string_view opcode_of(std::string_view line) {
  const std::size_t open = line.find("/*"), close = line.find("*/");
  if (open == line.npos || close == line.npos || close < open + 3) return {};
  const std::string_view address = line.substr(open + 2, close - open - 2);
  if (address.find_first_not_of("0123456789abcdef") != address.npos) return {};
  line.remove_prefix(close + 2);
  const auto skip_spaces = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  skip_spaces();
  if (line.starts_with('@')) {
    line.remove_prefix(std::min(line.find(' '), line.size()));
    skip_spaces();
  }
  return line.substr(0, line.find_first_of(" \t;"));
}

}  // namespace

std::map<std::string, double> facts_of_sass(std::string_view text) {
  std::map<std::string, double> facts;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view opcode = opcode_of(line);
    if (opcode.empty() || std::isupper(static_cast<unsigned char>(opcode[0])) == 0) continue;
    ++facts["instructions"];
    const std::string_view kind = part(opcode, 0);
    if (std::find(kKinds.begin(), kKinds.end(), kind) == kKinds.end()) continue;
    const std::string_view accumulator = part(opcode, 2);
    const bool typed = is_tensor_core(kind) && (accumulator == "F32" || accumulator == "F16");
    ++facts[lower(kind) + (typed ? "_" + lower(accumulator) : "")];
    if ((kind == "LDG" || kind == "STG") && opcode.find(".128") != opcode.npos) ++facts[lower(kind) + "_128"];
  }
  return facts;
}

}  // namespace lathe::cuda
