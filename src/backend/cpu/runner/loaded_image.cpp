#include "backend/cpu/runner/loaded_image.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace lathe {
namespace {

template <class F>
std::uint64_t address_of(F* function) {
  return reinterpret_cast<std::uint64_t>(function);
}

#define LATHE_F1(name) \
  { #name, address_of(static_cast <float (*)(float)>(&::name)) }
#define LATHE_F2(name) \
  { #name, address_of(static_cast <float (*)(float, float)>(&::name)) }
#define LATHE_D1(name) \
  { #name, address_of(static_cast <double (*)(double)>(&::name)) }
#define LATHE_D2(name) \
  { #name, address_of(static_cast <double (*)(double, double)>(&::name)) }

const std::map<std::string_view, std::uint64_t>& import_addresses() {
  static const std::map<std::string_view, std::uint64_t> table = {
      {"memcpy", address_of(&std::memcpy)},
      {"memmove", address_of(&std::memmove)},
      {"memset", address_of(&std::memset)},
      {"memcmp", address_of(&std::memcmp)},
      {"fmaf", address_of(static_cast<float (*)(float, float, float)>(&::fmaf))},
      {"fma", address_of(static_cast<double (*)(double, double, double)>(&::fma))},
      LATHE_F1(expf),
      LATHE_F1(exp2f),
      LATHE_F1(expm1f),
      LATHE_F1(logf),
      LATHE_F1(log2f),
      LATHE_F1(log10f),
      LATHE_F1(log1pf),
      LATHE_F2(powf),
      LATHE_F1(sqrtf),
      LATHE_F1(sinf),
      LATHE_F1(cosf),
      LATHE_F1(tanf),
      LATHE_F1(asinf),
      LATHE_F1(acosf),
      LATHE_F1(atanf),
      LATHE_F2(atan2f),
      LATHE_F1(sinhf),
      LATHE_F1(coshf),
      LATHE_F1(tanhf),
      LATHE_F1(erff),
      LATHE_F1(erfcf),
      LATHE_F1(floorf),
      LATHE_F1(ceilf),
      LATHE_F1(roundf),
      LATHE_F1(rintf),
      LATHE_F1(truncf),
      LATHE_F2(fmodf),
      LATHE_F2(fmaxf),
      LATHE_F2(fminf),
      LATHE_D1(exp),
      LATHE_D1(log),
      LATHE_D2(pow),
      LATHE_D1(sqrt),
      LATHE_D1(tanh),
      LATHE_D1(erf),
      LATHE_D1(floor),
      LATHE_D1(ceil),
      LATHE_D2(fmax),
      LATHE_D2(fmin),
      LATHE_D1(sin),
      LATHE_D1(cos)};
  return table;
}

int protection(const ElfImage::Segment& segment) {
  return (segment.readable ? PROT_READ : 0) | (segment.writable ? PROT_WRITE : 0) |
         (segment.executable ? PROT_EXEC : 0);
}

}  // namespace

Result<LoadedImage> LoadedImage::load(std::string_view bytes) {
  LoadedImage loaded;
  LATHE_TRY(loaded.image_, parse_elf(bytes));
  const std::size_t size = round_to_pages(loaded.image_.memory_bytes);
  void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return errno_error("cannot map the kernel");
  loaded.memory_ = Mapping(static_cast<std::byte*>(base), size);
  std::byte* const at = loaded.memory_.data();
  for (const auto& segment : loaded.image_.segments)
    std::memcpy(at + segment.address, bytes.data() + segment.offset, segment.file_bytes);
  for (const auto& relocation : loaded.image_.relocations) {
    std::uint64_t value = reinterpret_cast<std::uint64_t>(at) + static_cast<std::uint64_t>(relocation.addend);
    if (!relocation.symbol.empty())
      value = import_addresses().at(relocation.symbol) + static_cast<std::uint64_t>(relocation.addend);
    std::memcpy(at + relocation.address, &value, sizeof value);
  }
  const std::uint64_t relro_begin = loaded.image_.relro_address / kPageBytes * kPageBytes;
  const std::uint64_t relro_end =
      (loaded.image_.relro_address + loaded.image_.relro_bytes) / kPageBytes * kPageBytes;
  for (const auto& segment : loaded.image_.segments) {
    const std::uint64_t begin = segment.address / kPageBytes * kPageBytes;
    const std::uint64_t end = round_to_pages(segment.address + segment.memory_bytes);
    if (::mprotect(at + begin, end - begin, protection(segment)) != 0)
      return errno_error("cannot protect the kernel");
    if (!segment.writable) continue;
    const std::uint64_t state_begin =
        std::max(begin, relro_end > begin && relro_begin <= begin ? relro_end : begin);
    if (state_begin < end) loaded.pristine_.push_back({at + state_begin, {at + state_begin, at + end}});
  }
  if (relro_end > relro_begin && ::mprotect(at + relro_begin, relro_end - relro_begin, PROT_READ) != 0)
    return errno_error("cannot protect the kernel");
  return loaded;
}

void* LoadedImage::function(std::string_view name) const {
  const auto found = image_.functions.find(name);
  return found == image_.functions.end() ? nullptr : memory_.data() + found->second;
}

void LoadedImage::restore_writable() const {
  for (const Pristine& pristine : pristine_)
    std::memcpy(pristine.at, pristine.bytes.data(), pristine.bytes.size());
}

}  // namespace lathe
