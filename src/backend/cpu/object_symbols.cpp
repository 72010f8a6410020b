#include "backend/cpu/object_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace lathe {
namespace {

constexpr std::uint64_t kMaxSections = 4096, kMaxSymbols = 20'000, kMaxShownName = 512;

template <class T>
std::optional<T> read_at(std::string_view bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string_view part_of(std::string_view bytes, const Elf64_Shdr& section) {
  if (section.sh_offset > bytes.size() || section.sh_size > bytes.size() - section.sh_offset) return {};
  return bytes.substr(section.sh_offset, section.sh_size);
}

std::vector<Elf64_Shdr> sections_of(std::string_view bytes) {
  std::vector<Elf64_Shdr> sections;
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  if (!header || header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shnum > kMaxSections ||
      header->e_shoff > bytes.size())
    return sections;
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = read_at<Elf64_Shdr>(bytes, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) return {};
    sections.push_back(*section);
  }
  return sections;
}

std::string_view name_at(std::string_view names, std::uint64_t index) {
  if (index >= names.size()) return {};
  const std::string_view rest = names.substr(index, kMaxShownName);
  const std::size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

std::optional<ObjectSymbol> symbol_of(const Elf64_Sym& entry, std::string_view name,
                                      const std::vector<Elf64_Shdr>& sections) {
  using Kind = ObjectSymbol::Kind;
  ObjectSymbol symbol{std::string(name), Kind::kUndefined, entry.st_size};
  const auto type = ELF64_ST_TYPE(entry.st_info);
  if (entry.st_shndx == SHN_UNDEF) return symbol;
  if (entry.st_shndx >= sections.size()) return std::nullopt;
  const Elf64_Shdr& section = sections[entry.st_shndx];
  symbol.starts_as_zero = section.sh_type == SHT_NOBITS;
  symbol.writable = (section.sh_flags & SHF_WRITE) != 0;
  if (type == STT_TLS || (section.sh_flags & SHF_TLS) != 0)
    symbol.kind = Kind::kThreadLocal;
  else if (type == STT_FUNC)
    symbol.kind = Kind::kFunction;
  else if (type == STT_OBJECT)
    symbol.kind = Kind::kVariable;
  else
    return std::nullopt;
  return symbol;
}

}  // namespace

std::vector<ObjectSymbol> symbols_of(std::string_view object) {
  std::vector<ObjectSymbol> symbols;
  const std::vector<Elf64_Shdr> sections = sections_of(object);
  const auto table =
      std::ranges::find_if(sections, [](const auto& section) { return section.sh_type == SHT_SYMTAB; });
  if (table == sections.end() || table->sh_link >= sections.size()) return symbols;
  const std::string_view entries = part_of(object, *table), names = part_of(object, sections[table->sh_link]);
  const std::uint64_t count = std::min(entries.size() / sizeof(Elf64_Sym), kMaxSymbols);
  for (std::uint64_t i = 1; i < count; ++i) {
    const auto entry = *read_at<Elf64_Sym>(entries, i * sizeof(Elf64_Sym));
    const std::string_view name = name_at(names, entry.st_name);
    if (name.empty()) continue;
    if (auto symbol = symbol_of(entry, name, sections)) symbols.push_back(*std::move(symbol));
  }
  return symbols;
}

}  // namespace lathe
