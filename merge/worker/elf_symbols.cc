// Reads ELF symbol tables through libelf; build-id and debug link through libdw's dwelf functions.
#include <elfutils/libdwelf.h>
#include <fmt/format.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "merge/worker/channel.h"
#include "merge/worker/elf_parts.h"

namespace trapline::worker {
namespace {

constexpr std::size_t kMaxName = 64 * 1024;

// A mapped file. If the file shrinks while it is read, only the worker process ends.
struct ElfFile {
  std::span<std::byte> bytes;
  Elf* elf = nullptr;
};
ElfFile opened;

std::span<std::byte> mapped(int fd) {
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size <= 0) return {};
  // libelf may write to memory when it changes the byte order, so this is a private copy.
  void* memory =
      ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (memory == MAP_FAILED) return {};
  return {static_cast<std::byte*>(memory), static_cast<std::size_t>(size)};
}

Elf* open_elf(std::span<std::byte> bytes) {
  elf_version(EV_CURRENT);
  Elf* elf =
      bytes.empty() ? nullptr : elf_memory(reinterpret_cast<char*>(bytes.data()), bytes.size());
  GElf_Ehdr header{};
  if (elf != nullptr && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) != nullptr)
    return elf;
  elf_end(elf);
  return nullptr;
}

struct Section {
  GElf_Shdr header{};
  Elf_Scn* scn = nullptr;
};

std::vector<Section> sections_of(Elf* elf) {
  std::vector<Section> sections(1);  // index 0 is the null section
  for (Elf_Scn* scn = elf_nextscn(elf, nullptr); scn != nullptr; scn = elf_nextscn(elf, scn)) {
    Section section;
    section.scn = scn;
    if (gelf_getshdr(scn, &section.header) == nullptr) section.header = {};
    sections.push_back(section);
  }
  return sections;
}

bool is_code(const GElf_Shdr& header) {
  return (header.sh_flags & SHF_EXECINSTR) != 0 && (header.sh_flags & SHF_ALLOC) != 0 &&
         header.sh_size != 0 && header.sh_addr + header.sh_size > header.sh_addr;
}

// Returns whether the symbol is a mark of the assembler between code and data, not a name: $x, $d,
// $xrv64i….
bool is_mapping_symbol(std::string_view name) {
  return name.size() >= 2 && name[0] == '$' && std::strchr("atdx", name[1]) != nullptr &&
         (name.size() == 2 || name[2] == '.' || name.starts_with("$xrv"));
}

std::optional<char> type_of(const GElf_Sym& symbol) {
  const auto type = GELF_ST_TYPE(symbol.st_info);
  if (type == STT_GNU_IFUNC) return 'i';
  if (type != STT_FUNC && type != STT_NOTYPE) return std::nullopt;
  const auto bind = GELF_ST_BIND(symbol.st_info);
  return bind == STB_LOCAL ? 't' : bind == STB_WEAK ? 'W' : 'T';
}

// Reads the functions in symbol tables, row by row.
class TableReader {
 public:
  TableReader(Elf* elf, const std::vector<Section>& sections) : elf_(elf), sections_(sections) {
    GElf_Ehdr header{};
    if (gelf_getehdr(elf, &header) != nullptr) arm_ = header.e_machine == EM_ARM;
  }

  // Calls visit(symbol, limit, type, typed, name) for each function in the tables of this type
  // (SHT_SYMTAB or SHT_DYNSYM), until it returns false. `limit`: the end of its section;
  // `type`: the letter that nm prints for it; `typed`: false for STT_NOTYPE.
  void read(GElf_Word table_type, auto visit) const {
    for (std::size_t index = 0; index < sections_.size(); ++index) {
      if (sections_[index].scn == nullptr || sections_[index].header.sh_type != table_type)
        continue;
      if (!read_table(index, visit)) return;
    }
  }

 private:
  bool read_table(std::size_t table, auto& visit) const {
    Elf_Data* data = elf_getdata(sections_[table].scn, nullptr);
    const std::size_t entry = gelf_fsize(elf_, ELF_T_SYM, 1, EV_CURRENT);
    if (data == nullptr || entry == 0) return true;
    Elf_Data* extended = extended_indices(table);
    const std::size_t count = std::min<std::size_t>(data->d_size / entry, 1U << 28);
    for (std::size_t i = 0; i < count; ++i) {
      GElf_Sym symbol{};
      Elf32_Word section = 0;
      if (gelf_getsymshndx(data, extended, static_cast<int>(i), &symbol, &section) == nullptr)
        continue;
      if (symbol.st_shndx != SHN_XINDEX) section = symbol.st_shndx;
      if (!function(symbol, section, sections_[table].header.sh_link, visit)) return false;
    }
    return true;
  }

  Elf_Data* extended_indices(std::size_t table) const {
    for (const Section& section : sections_)
      if (section.scn != nullptr && section.header.sh_type == SHT_SYMTAB_SHNDX &&
          section.header.sh_link == table)
        return elf_getdata(section.scn, nullptr);
    return nullptr;
  }

  bool function(const GElf_Sym& symbol, std::size_t section, std::size_t strings,
                auto& visit) const {
    const auto type = type_of(symbol);
    if (!type || section == SHN_UNDEF || section >= sections_.size()) return true;
    const GElf_Shdr& home = sections_[section].header;
    if (!is_code(home)) return true;
    const bool typed = GELF_ST_TYPE(symbol.st_info) != STT_NOTYPE;
    GElf_Sym placed = symbol;
    if (arm_ && typed) placed.st_value &= ~std::uint64_t{1};  // Thumb functions have odd addresses
    const std::uint64_t limit = home.sh_addr + home.sh_size;
    if (placed.st_value < home.sh_addr || placed.st_value >= limit) return true;
    const char* name = elf_strptr(elf_, strings, symbol.st_name);
    if (name == nullptr || *name == '\0') return true;
    const std::string_view text(name, strnlen(name, kMaxName));
    if (!typed && is_mapping_symbol(text)) return true;
    return visit(placed, limit, *type, typed, text);
  }

  Elf* elf_;
  const std::vector<Section>& sections_;
  bool arm_ = false;
};

std::string build_id_of(Elf* elf) {
  const void* bytes = nullptr;
  const ssize_t length = dwelf_elf_gnu_build_id(elf, &bytes);
  std::string text;
  if (length <= 0 || length > 64) return text;
  for (ssize_t i = 0; i < length; ++i)
    text += fmt::format("{:02x}", static_cast<const unsigned char*>(bytes)[i]);
  return text;
}

std::uint32_t crc32_of(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0U;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320U & (0U - (crc & 1U)));
  }
  return ~crc;
}

void open_file(const UniqueFd& descriptor) {
  opened.bytes = mapped(descriptor.get());
  opened.elf = open_elf(opened.bytes);
  if (opened.elf == nullptr)
    return refuse(ErrorKind::kDamaged, std::string("a damaged ELF file: ") + elf_errmsg(-1));
  GElf_Ehdr header{};
  gelf_getehdr(opened.elf, &header);
  if (header.e_type == ET_REL) {
    return refuse(
        ErrorKind::kUsage,
        "a relocatable object: its sections have no addresses yet; give the linked file, or the "
        "guest's /proc/kallsyms for kernel modules");
  }
  GElf_Word checksum = 0;
  const char* link = dwelf_elf_gnu_debuglink(opened.elf, &checksum);
  bool has_table = false;
  const auto sections = sections_of(opened.elf);
  TableReader(opened.elf, sections).read(SHT_SYMTAB, [&has_table](auto&&...) {
    has_table = true;
    return false;
  });
  MessageWriter facts;
  facts.text(build_id_of(opened.elf));
  facts.text(link == nullptr ? std::string_view() : std::string_view(link, ::strnlen(link, 4096)));
  facts.number(std::uint32_t{checksum});
  facts.number(std::uint32_t{has_table});
  for (const Section& section : sections) {
    if (!is_code(section.header)) continue;
    facts.number(std::uint64_t{section.header.sh_addr});
    facts.number(std::uint64_t{section.header.sh_addr + section.header.sh_size});
  }
  answer(MessageKind::kFile, facts.bytes());
}

void send_symbols(MessageReader& request) {
  const GElf_Word table =
      request.number<std::uint32_t>().value_or(0) == 0 ? SHT_SYMTAB : SHT_DYNSYM;
  MessageWriter rows;
  const auto send = [&rows](std::uint64_t address, std::uint64_t size, std::uint64_t limit,
                            char type, bool typed, std::string_view name) {
    rows.number(address);
    rows.number(size);
    rows.number(limit);
    rows.number(static_cast<std::uint32_t>(type));
    rows.number(std::uint32_t{typed});
    rows.text(name);
    answer_piece(MessageKind::kSymbols, rows);
  };
  const auto sections = sections_of(opened.elf);
  TableReader(opened.elf, sections)
      .read(table, [&send](const GElf_Sym& symbol, std::uint64_t limit, char type, bool typed,
                           std::string_view name) {
        send(symbol.st_value, symbol.st_size, limit, type, typed, name);
        return true;
      });
  for (const LinkageEntry& entry : linkage_entries(opened.elf))
    send(entry.address, entry.size, entry.limit, 'T', true, entry.name);
  answer_end(MessageKind::kSymbols, rows);
}

}  // namespace

void read_symbols(Request&& request) {
  MessageReader payload(request.payload);
  if (request.kind == MessageKind::kDemangle) return demangle_names(payload);
  if (request.kind == MessageKind::kFile) return open_file(request.file);
  if (opened.elf == nullptr) return refuse(ErrorKind::kDamaged, "not an ELF file");
  if (request.kind == MessageKind::kSymbols) send_symbols(payload);
  if (request.kind == MessageKind::kLines) send_source_lines(opened.elf);
  if (request.kind == MessageKind::kChecksum) {
    MessageWriter checksum;
    checksum.number(crc32_of(opened.bytes));
    answer(MessageKind::kChecksum, checksum.bytes());
  }
}

}  // namespace trapline::worker
