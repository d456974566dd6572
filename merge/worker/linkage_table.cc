#include "merge/worker/elf_parts.h"

#include <gelf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <span>

namespace trapline::worker {
namespace {

constexpr std::size_t kLongestName = 64 * 1024;

// Names of imported functions, by the address of the word (in the GOT) that the loader fills in.
using Bindings = std::map<std::uint64_t, std::string_view>;

Bindings bindings_of(Elf* elf) {
  Bindings bindings;
  for (Elf_Scn* scn = elf_nextscn(elf, nullptr); scn != nullptr; scn = elf_nextscn(elf, scn)) {
    GElf_Shdr header{}, symbols{};
    if (gelf_getshdr(scn, &header) == nullptr || header.sh_type != SHT_RELA) continue;
    Elf_Scn* table = elf_getscn(elf, header.sh_link);
    Elf_Data* rows = elf_getdata(scn, nullptr);
    if (table == nullptr || rows == nullptr || gelf_getshdr(table, &symbols) == nullptr ||
        symbols.sh_type != SHT_DYNSYM)
      continue;
    Elf_Data* bound = elf_getdata(table, nullptr);
    const std::size_t entry = gelf_fsize(elf, ELF_T_RELA, 1, EV_CURRENT);
    const std::size_t count = bound == nullptr || entry == 0 ? 0 : rows->d_size / entry;
    for (std::size_t i = 0; i < count; ++i) {
      GElf_Rela row{};
      GElf_Sym symbol{};
      if (gelf_getrela(rows, static_cast<int>(i), &row) == nullptr || GELF_R_SYM(row.r_info) == 0 ||
          gelf_getsym(bound, static_cast<int>(GELF_R_SYM(row.r_info)), &symbol) == nullptr)
        continue;
      const char* name = elf_strptr(elf, symbols.sh_link, symbol.st_name);
      if (name != nullptr && *name != '\0')
        bindings.emplace(row.r_offset, std::string_view(name, ::strnlen(name, kLongestName)));
    }
  }
  return bindings;
}

struct Code {
  std::span<const std::uint8_t> bytes;
  std::uint64_t address;

  [[nodiscard]] std::uint32_t word(std::size_t at) const {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value |= std::uint32_t{bytes[at + i]} << (8 * i);
    return value;
  }
  [[nodiscard]] bool has(std::size_t at, std::size_t size) const {
    return at <= bytes.size() && size <= bytes.size() - at;
  }
};

// The address of the word that an entry jumps through, and the entry's size in bytes.
struct Jump {
  std::uint64_t through;
  std::size_t size;
};

// Parses [endbr64] [bnd] jmp *DISTANCE(%rip).
std::optional<Jump> x86_jump(const Code& code, std::size_t begin) {
  constexpr std::array<std::uint8_t, 4> kEndBranch{0xf3, 0x0f, 0x1e, 0xfa};
  std::size_t at = begin;
  if (code.has(at, 4) && std::equal(kEndBranch.begin(), kEndBranch.end(), &code.bytes[at])) at += 4;
  if (code.has(at, 1) && code.bytes[at] == 0xf2) ++at;
  if (!code.has(at, 6) || code.bytes[at] != 0xff || code.bytes[at + 1] != 0x25) return std::nullopt;
  const auto distance = static_cast<std::int32_t>(code.word(at + 2));
  const std::uint64_t next = code.address + at + 6;
  return Jump{next + static_cast<std::uint64_t>(std::int64_t{distance}), at + 6 - begin};
}

// Parses [bti c] adrp x16, PAGE; ldr x17, [x16, OFFSET]; add …; br x17.
std::optional<Jump> arm_jump(const Code& code, std::size_t begin) {
  constexpr std::uint32_t kBtiC = 0xd503245f;
  std::size_t at = begin;
  if (code.has(at, 4) && code.word(at) == kBtiC) at += 4;
  if (!code.has(at, 16)) return std::nullopt;
  const std::uint32_t page = code.word(at), load = code.word(at + 4);
  if ((page & 0x9f00001f) != 0x90000010 || (load & 0xffc003ff) != 0xf9400211) return std::nullopt;
  const std::uint32_t pages = (page >> 5 & 0x7ffff) << 2 | (page >> 29 & 3);
  const std::int64_t distance = (std::int64_t{pages} ^ 0x100000) - 0x100000;
  const std::uint64_t here = (code.address + at) & ~std::uint64_t{0xfff};
  return Jump{here + static_cast<std::uint64_t>(distance * 4096) + (load >> 10 & 0xfff) * 8,
              at + 16 - begin};
}

}  // namespace

std::vector<LinkageEntry> linkage_entries(Elf* elf) {
  GElf_Ehdr file{};
  std::size_t section_names = 0;
  if (gelf_getehdr(elf, &file) == nullptr || elf_getshdrstrndx(elf, &section_names) != 0 ||
      file.e_ident[EI_DATA] != ELFDATA2LSB)
    return {};
  const bool x86 = file.e_machine == EM_X86_64;
  if (!x86 && file.e_machine != EM_AARCH64) return {};
  std::vector<LinkageEntry> entries;
  std::optional<Bindings> bindings;
  for (Elf_Scn* scn = elf_nextscn(elf, nullptr); scn != nullptr; scn = elf_nextscn(elf, scn)) {
    GElf_Shdr header{};
    if (gelf_getshdr(scn, &header) == nullptr || header.sh_type != SHT_PROGBITS) continue;
    const char* name = elf_strptr(elf, section_names, header.sh_name);
    if (name == nullptr || !std::string_view(name).starts_with(".plt")) continue;
    Elf_Data* data = elf_getdata(scn, nullptr);
    if (data == nullptr || data->d_buf == nullptr) continue;
    if (!bindings) bindings = bindings_of(elf);
    const Code code{{static_cast<const std::uint8_t*>(data->d_buf), data->d_size}, header.sh_addr};
    const std::uint64_t limit = header.sh_addr + data->d_size;
    // Entries of x86 have 8 or 16 bytes, those of AArch64 any number of instructions.
    const std::size_t step = x86 ? 8 : 4;
    for (std::size_t at = 0; at < data->d_size;) {
      const auto jump = x86 ? x86_jump(code, at) : arm_jump(code, at);
      const auto bound = jump ? bindings->find(jump->through) : bindings->end();
      if (bound != bindings->end())
        entries.push_back({code.address + at, jump->size, limit, bound->second});
      at += bound != bindings->end() ? (jump->size + step - 1) / step * step : step;
    }
  }
  return entries;
}

}  // namespace trapline::worker
