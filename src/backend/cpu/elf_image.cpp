#include "backend/cpu/elf_image.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "backend/cpu/imports.h"

namespace lathe {
namespace {

constexpr std::uint64_t kMaxImageBytes = 64u << 20;
constexpr std::uint64_t kMaxWritableBytes = 1u << 20;
// Symbols' names may overlap in the file, so that a small table stands for terabytes.
constexpr std::uint64_t kMaxNameBytes = 64u << 10, kMaxNamesBytes = 16u << 20;

constexpr std::uint64_t kPageBytes = 4096;

Error refuse(std::string_view reason, std::string detail,
             std::string_view remedy = "a candidate is self-contained code without load-time actions") {
  return refused(reason, std::move(detail), std::string(remedy));
}

Error refuse_ifunc(const std::string& what) {
  return refuse("ifunc", what + " is resolved by code at load time",
                "leave target_clones and ifunc out: code is compiled for this machine's processor");
}

Error refuse_forbidden(const std::string& name) {
  return refuse("forbidden_symbol",
                fmt::format("'{}' is not among the functions a candidate may call", name));
}

Error refuse_unknown(const std::string& name) {
  return refuse("unknown_function", fmt::format("'{}' is not among the functions a candidate may call", name),
                "call C's mathematical functions, memcpy, memmove, memset and memcmp; write others out");
}

Error refuse_writable(std::uint64_t bytes) {
  return refuse("writable_state",
                fmt::format("{} bytes of variables that can be written; at most 1 MiB, for they are put back "
                            "before every call",
                            bytes),
                "declare a [[scratch]] buffer in the plan and take it as an argument, or use local arrays");
}

/// Bounds-checked views into the file.
class ElfParser {
 public:
  explicit ElfParser(std::string_view bytes) : bytes_(bytes) {}

  Result<ElfImage> parse() {
    LATHE_CHECK_OK(read_header());
    LATHE_CHECK_OK(read_segments());
    LATHE_CHECK_OK(read_dynamic());
    LATHE_CHECK_OK(read_symbols());
    LATHE_CHECK_OK(read_relocations(rela_, rela_bytes_));
    LATHE_CHECK_OK(read_relocations(jump_rela_, jump_rela_bytes_));
    // target_clones has a constructor too, and is better told by what it asked for.
    if (has_constructor_)
      return refuse("constructor", "code would run when the object is loaded or unloaded");
    std::sort(image_.imports.begin(), image_.imports.end());
    return std::move(image_);
  }

 private:
  template <class T>
  bool read_at(std::uint64_t offset, T& value) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return true;
  }

  /// Finds the file offset of a loaded address. False unless the file holds `size` bytes from
  /// there.
  bool locate(std::uint64_t address, std::uint64_t size, std::uint64_t& offset) const {
    for (const auto& segment : image_.segments) {
      if (address < segment.address || address - segment.address > segment.file_bytes) continue;
      if (size > segment.file_bytes - (address - segment.address)) continue;
      offset = segment.offset + (address - segment.address);
      return true;
    }
    return false;
  }

  Status read_header() {
    if (!read_at(0, header_)) return refuse("bad_elf", "the file is too short");
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 || header_.e_ident[EI_CLASS] != ELFCLASS64 ||
        header_.e_type != ET_DYN || header_.e_machine != EM_X86_64 ||
        header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_phnum > 64)
      return refuse("bad_elf", "not a shared object for x86-64");
    return Ok{};
  }

  Status read_segments() {
    for (unsigned i = 0; i < header_.e_phnum; ++i) {
      Elf64_Phdr part;
      if (header_.e_phoff > kMaxImageBytes || !read_at(header_.e_phoff + i * sizeof part, part))
        return refuse("bad_elf", "program headers lie outside the file");
      if (part.p_type == PT_TLS)
        return refuse("thread_local", "thread-local variables keep state between calls");
      if (part.p_type == PT_GNU_STACK && (part.p_flags & PF_X))
        return refuse("writable_code", "the object requests an executable stack");
      if (part.p_type == PT_GNU_RELRO) image_.relro_address = part.p_vaddr, image_.relro_bytes = part.p_memsz;
      if (part.p_type == PT_DYNAMIC) dynamic_address_ = part.p_vaddr, dynamic_bytes_ = part.p_filesz;
      if (part.p_type == PT_LOAD) LATHE_CHECK_OK(add_segment(part));
    }
    if (image_.segments.empty() || !dynamic_address_)
      return refuse("bad_elf", "no loadable or dynamic segment");
    // Linkers round its end up to a page.
    const std::uint64_t end = (image_.memory_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    if (image_.relro_address > end || image_.relro_bytes > end - image_.relro_address)
      return refuse("bad_elf", "the read-only part lies outside the image");
    return check_writable();
  }

  Status add_segment(const Elf64_Phdr& part) {
    const bool writable = part.p_flags & PF_W, executable = part.p_flags & PF_X;
    if (part.p_offset > bytes_.size() || part.p_filesz > bytes_.size() - part.p_offset ||
        part.p_filesz > part.p_memsz)
      return refuse("bad_elf", "a segment lies outside the file");
    if (writable && !executable && part.p_memsz > kMaxImageBytes) return refuse_writable(part.p_memsz);
    if (part.p_vaddr > kMaxImageBytes || part.p_memsz > kMaxImageBytes)
      return refuse("bad_elf", "a segment has more than 64 MiB", "keep less than that in constants");
    if (!image_.segments.empty()) {
      const auto& last = image_.segments.back();
      if (part.p_vaddr / kPageBytes < (last.address + last.memory_bytes + kPageBytes - 1) / kPageBytes)
        return refuse("bad_elf", "segments overlap");
    }
    if (writable && executable) return refuse("writable_code", "a segment is writable and executable");
    // Alignments are powers of two; 0 is none.
    if (part.p_align > kMaxImageBytes || std::popcount(part.p_align) > 1)
      return refuse("bad_elf", "a segment has an unusual alignment", "align variables to less than 64 MiB");
    image_.alignment = std::max(image_.alignment, part.p_align);
    image_.segments.push_back({part.p_offset, part.p_vaddr, part.p_filesz, part.p_memsz,
                               (part.p_flags & PF_R) != 0, writable, executable});
    image_.memory_bytes = part.p_vaddr + part.p_memsz;
    if (executable) image_.code_bytes += part.p_filesz;
    if (writable) image_.writable_bytes += part.p_memsz;
    return Ok{};
  }

  Status check_writable() {
    image_.writable_bytes -= std::min(image_.writable_bytes, image_.relro_bytes);
    if (image_.writable_bytes > kMaxWritableBytes) return refuse_writable(image_.writable_bytes);
    return Ok{};
  }

  Status read_dynamic() {
    std::uint64_t offset = 0;
    if (!locate(dynamic_address_, dynamic_bytes_, offset))
      return refuse("bad_elf", "the dynamic segment lies outside the file");
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic_bytes_; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      if (!read_at(offset + at, entry)) return refuse("bad_elf", "a dynamic entry lies outside the file");
      if (entry.d_tag == DT_NULL) break;
      LATHE_CHECK_OK(read_dynamic_entry(entry));
    }
    return Ok{};
  }

  Status read_dynamic_entry(const Elf64_Dyn& entry) {
    switch (entry.d_tag) {
      case DT_INIT:
      case DT_FINI:
      case DT_INIT_ARRAY:
      case DT_FINI_ARRAY:
      case DT_PREINIT_ARRAY:
        has_constructor_ = true;
        break;
      case DT_NEEDED:
        return refuse("forbidden_symbol", "the object depends on another library");
      case DT_TEXTREL:
        return refuse("writable_code", "relocations inside code");
      case DT_REL:
      case DT_RELR:
        return refuse("bad_elf", "an unusual relocation table");
      case DT_STRTAB:
        strings_ = entry.d_un.d_ptr;
        break;
      case DT_STRSZ:
        strings_bytes_ = entry.d_un.d_val;
        break;
      case DT_SYMTAB:
        symbols_ = entry.d_un.d_ptr;
        break;
      case DT_HASH:
        hash_ = entry.d_un.d_ptr;
        break;
      case DT_RELA:
        rela_ = entry.d_un.d_ptr;
        break;
      case DT_RELASZ:
        rela_bytes_ = entry.d_un.d_val;
        break;
      case DT_JMPREL:
        jump_rela_ = entry.d_un.d_ptr;
        break;
      case DT_PLTRELSZ:
        jump_rela_bytes_ = entry.d_un.d_val;
        break;
      default:
        break;
    }
    return Ok{};
  }

  Result<std::string> string_at(std::uint64_t index) const {
    std::uint64_t offset = 0;
    if (!locate(strings_, strings_bytes_, offset) || index >= strings_bytes_)
      return refuse("bad_elf", "a name lies outside the string table");
    const std::string_view table = bytes_.substr(offset, strings_bytes_);
    const std::size_t end = table.find('\0', index);
    if (end == std::string_view::npos) return refuse("bad_elf", "a name is not terminated");
    return std::string(table.substr(index, end - index));
  }

  Status read_symbols() {
    std::uint64_t offset = 0;
    std::array<std::uint32_t, 2> counts{};
    if (!hash_ || !locate(hash_, sizeof counts, offset) || !read_at(offset, counts))
      return refuse("bad_elf", "no symbol hash table");
    if (counts[1] > 100'000) return refuse("bad_elf", "too many symbols");
    for (std::uint32_t i = 1; i < counts[1]; ++i) LATHE_CHECK_OK(read_symbol(i));
    // A forbidden one among them was told first.
    return unknown_import_.empty() ? Status(Ok{}) : Status(refuse_unknown(unknown_import_));
  }

  Status read_symbol(std::uint32_t index) {
    Elf64_Sym symbol;
    std::uint64_t offset = 0;
    if (!locate(symbols_ + index * sizeof symbol, sizeof symbol, offset) || !read_at(offset, symbol))
      return refuse("bad_elf", "a symbol lies outside the file");
    LATHE_TRY(std::string name, string_at(symbol.st_name));
    names_bytes_ += name.size();
    if (name.size() > kMaxNameBytes || names_bytes_ > kMaxNamesBytes)
      return refuse("bad_elf", "the names of symbols are too long");
    const auto type = ELF64_ST_TYPE(symbol.st_info);
    if (type == STT_GNU_IFUNC) return refuse_ifunc(fmt::format("'{}'", name));
    if (type == STT_TLS) return refuse("thread_local", fmt::format("'{}' is thread-local", name));
    if (symbol.st_shndx == SHN_UNDEF) {
      if (reaches_outside(name)) return refuse_forbidden(name);
      if (unknown_import_.empty() && !std::ranges::binary_search(allowed_imports(), name))
        unknown_import_ = name;
      image_.imports.push_back(name);
    } else if (type == STT_FUNC) {
      const bool in_code =
          std::any_of(image_.segments.begin(), image_.segments.end(), [&](const auto& segment) {
            return segment.executable && symbol.st_value >= segment.address &&
                   symbol.st_value - segment.address < segment.file_bytes;
          });
      if (!in_code) return refuse("bad_elf", fmt::format("function '{}' lies outside the code", name));
      image_.functions.emplace(name, symbol.st_value);
    }
    names_.resize(std::max<std::size_t>(names_.size(), index + 1));
    names_[index] = {name, symbol.st_shndx == SHN_UNDEF ? 0 : symbol.st_value, symbol.st_shndx != SHN_UNDEF};
    return Ok{};
  }

  Status read_relocations(std::uint64_t address, std::uint64_t size) {
    if (size == 0) return Ok{};
    std::uint64_t offset = 0;
    if (!locate(address, size, offset)) return refuse("bad_elf", "relocations lie outside the file");
    for (std::uint64_t at = 0; at + sizeof(Elf64_Rela) <= size; at += sizeof(Elf64_Rela)) {
      Elf64_Rela entry;
      if (!read_at(offset + at, entry)) return refuse("bad_elf", "a relocation lies outside the file");
      LATHE_CHECK_OK(add_relocation(entry));
    }
    return Ok{};
  }

  Status add_relocation(const Elf64_Rela& entry) {
    const bool in_writable =
        std::any_of(image_.segments.begin(), image_.segments.end(), [&](const auto& segment) {
          return segment.writable && entry.r_offset >= segment.address && segment.memory_bytes >= 8 &&
                 entry.r_offset - segment.address <= segment.memory_bytes - 8;
        });
    if (!in_writable) return refuse("bad_elf", "a relocation changes read-only bytes");
    const auto type = ELF64_R_TYPE(entry.r_info);
    const auto symbol = ELF64_R_SYM(entry.r_info);
    if (type == R_X86_64_RELATIVE) {
      image_.relocations.push_back({entry.r_offset, entry.r_addend, ""});
    } else if (type == R_X86_64_GLOB_DAT || type == R_X86_64_JUMP_SLOT || type == R_X86_64_64) {
      if (symbol >= names_.size()) return refuse("bad_elf", "a relocation names no symbol");
      const NamedSymbol& named = names_[symbol];
      const std::int64_t addend = type == R_X86_64_64 ? entry.r_addend : 0;
      if (named.defined)
        image_.relocations.push_back({entry.r_offset, static_cast<std::int64_t>(named.value) + addend, ""});
      else
        image_.relocations.push_back({entry.r_offset, addend, named.name});
    } else {
      if (type == R_X86_64_IRELATIVE) return refuse_ifunc("a function");
      return refuse("bad_elf", fmt::format("relocation of type {}", type));
    }
    return Ok{};
  }

  struct NamedSymbol {
    std::string name;
    std::uint64_t value = 0;
    bool defined = false;
  };

  std::string_view bytes_;
  Elf64_Ehdr header_{};
  ElfImage image_;
  bool has_constructor_ = false;
  std::string unknown_import_;
  std::vector<NamedSymbol> names_;
  std::uint64_t names_bytes_ = 0;
  std::uint64_t dynamic_address_ = 0, dynamic_bytes_ = 0, strings_ = 0, strings_bytes_ = 0, symbols_ = 0,
                hash_ = 0;
  std::uint64_t rela_ = 0, rela_bytes_ = 0, jump_rela_ = 0, jump_rela_bytes_ = 0;
};

}  // namespace

Result<ElfImage> parse_elf(std::string_view bytes) { return ElfParser(bytes).parse(); }

}  // namespace lathe
