#include "backend/cuda/broker/cubin_image.h"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

namespace lathe::cuda {
namespace {

constexpr std::uint16_t kMachineCuda = 190;
constexpr std::string_view kText = ".text.";
constexpr std::uint64_t kMaxInitialisedBytes = 64 << 10;
// Constants that are zero lie among the variables, and the format does not tell which is which. So
// few bytes are worth nothing to a variable: a block finds them zero again.
constexpr std::uint64_t kMaxZeroBytes = 256;

// Attributes in .nv.info: a header of four bytes (format, attribute, size), then the value.
constexpr std::uint8_t kSizedValue = 4;
constexpr std::uint8_t kFrameSize = 0x11, kRegisterCount = 0x2f;
constexpr std::string_view kShared = ".nv.shared.", kReserved = "reserved.0";
constexpr std::int64_t kReservedBytes = 1024;  // of each block's shared memory, from sm_90 on

class CubinParser {
 public:
  explicit CubinParser(std::string_view bytes) : bytes_(bytes) {}

  Result<CubinImage> parse() {
    if (!read_at(0, header_) || std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
        header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_machine != kMachineCuda ||
        header_.e_shentsize != sizeof(Elf64_Shdr))
      return invalid("not a cubin");
    if (header_.e_shnum == 0 || !read_section(header_.e_shstrndx, names_))
      return invalid("the cubin's sections lie outside the file");
    for (unsigned i = 0; i < header_.e_shnum; ++i) LATHE_CHECK_OK(read(i));
    for (const Attribute& attribute : attributes_) add(attribute);
    for (const auto& [kernel, bytes] : shared_)
      if (kernel != kReserved)
        resources_of(kernel).shared_bytes = std::max<std::int64_t>(
            0, bytes - (shared_.contains(std::string(kReserved)) ? kReservedBytes : 0));
    return std::move(image_);
  }

 private:
  template <class T>
  bool read_at(std::uint64_t offset, T& value) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return true;
  }

  bool read_section(unsigned index, Elf64_Shdr& section) const {
    return index < header_.e_shnum && header_.e_shoff <= bytes_.size() &&
           read_at(header_.e_shoff + index * sizeof section, section);
  }

  /// The text at `offset` of a string table; empty if it lies outside.
  std::string_view text(const Elf64_Shdr& table, std::uint64_t offset) const {
    if (table.sh_offset > bytes_.size() || table.sh_size > bytes_.size() - table.sh_offset ||
        offset >= table.sh_size)
      return {};
    const std::string_view rest = bytes_.substr(table.sh_offset + offset, table.sh_size - offset);
    return rest.substr(0, rest.find('\0'));
  }

  Status read(unsigned index) {
    Elf64_Shdr section;
    if (!read_section(index, section)) return invalid("the cubin's sections lie outside the file");
    const std::string_view name = text(names_, section.sh_name);
    if (name.starts_with(kText)) {
      image_.kernels.emplace_back(name.substr(kText.size()));
      image_.code_bytes += section.sh_size;
    }
    if (name.starts_with(kShared))
      shared_[std::string(name.substr(kShared.size()))] =
          static_cast<std::int64_t>(std::min<std::uint64_t>(section.sh_size, 1 << 20));
    if (name == ".nv.info") read_attributes(section);
    if (name == ".nv.global") image_.variable_bytes += section.sh_size;
    if (name == ".nv.global.init") image_.initialised_bytes += section.sh_size;
    return section.sh_type == SHT_SYMTAB ? read_symbols(section) : Status(Ok{});
  }

  /// An attribute of the symbol numbered `symbol`.
  struct Attribute {
    std::uint8_t code;
    std::uint32_t symbol, value;
  };

  void read_attributes(const Elf64_Shdr& section) {
    std::uint64_t at = section.sh_offset;
    const std::uint64_t end = at + std::min<std::uint64_t>(section.sh_size, bytes_.size());
    std::array<std::uint8_t, 4> head;
    while (at < end && read_at(at, head)) {
      at += head.size();
      if (head[0] != kSizedValue) continue;
      const std::uint64_t size = head[2] | head[3] << 8;
      Attribute attribute{head[1], 0, 0};
      if (size == 8 && read_at(at, attribute.symbol) && read_at(at + 4, attribute.value) &&
          (head[1] == kFrameSize || head[1] == kRegisterCount))
        attributes_.push_back(attribute);
      at += size;
    }
  }

  void add(const Attribute& attribute) {
    const auto name = symbols_.find(attribute.symbol);
    if (name == symbols_.end()) return;
    KernelResources& kernel = resources_of(name->second);
    (attribute.code == kFrameSize ? kernel.stack_bytes : kernel.registers) = attribute.value;
  }

  KernelResources& resources_of(const std::string& kernel) {
    auto& all = image_.resources;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const KernelResources& r) { return r.name == kernel; });
    if (found != all.end()) return *found;
    all.push_back({.name = kernel});
    return all.back();
  }

  Status read_symbols(const Elf64_Shdr& table) {
    Elf64_Shdr strings;
    if (!read_section(table.sh_link, strings)) return invalid("the cubin has a symbol table without names");
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (table.sh_offset > bytes_.size() || !read_at(table.sh_offset + at, symbol))
        return invalid("the cubin's symbols lie outside the file");
      const std::string_view name = text(strings, symbol.st_name);
      symbols_[static_cast<std::uint32_t>(at / sizeof symbol)] = name;
      if (symbol.st_shndx == SHN_UNDEF && !name.empty() && !name.starts_with(".nv."))
        image_.imports.emplace_back(name);
    }
    return Ok{};
  }

  std::string_view bytes_;
  Elf64_Ehdr header_{};
  Elf64_Shdr names_{};
  CubinImage image_;
  std::vector<Attribute> attributes_;
  std::map<std::uint32_t, std::string> symbols_;
  std::map<std::string, std::int64_t> shared_;  ///< bytes by kernel
};

}  // namespace

Result<CubinImage> parse_cubin(std::string_view bytes) { return CubinParser(bytes).parse(); }

CubinRefusal check_cubin(std::string_view bytes) {
  const auto image = parse_cubin(bytes);
  if (!image.ok()) return {"bad_cubin", image.error().message};
  if (!image->imports.empty())
    return {"forbidden_symbol", fmt::format("the code calls {}: no printf, no malloc, no launches",
                                            fmt::join(image->imports, ", "))};
  if (image->variable_bytes > kMaxZeroBytes || image->initialised_bytes > kMaxInitialisedBytes)
    return {"writable_state",
            fmt::format("{} bytes of __device__ variables, in which calls could keep state: use scratch, or "
                        "__constant__ for tables",
                        image->variable_bytes + image->initialised_bytes)};
  return {};
}

}  // namespace lathe::cuda
