// Reads ELF symbol tables through libelf; build-id and debug link through libdw's dwelf functions.
#include <elfutils/libdwelf.h>
#include <fmt/ranges.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

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

// Calls visit(address, size, limit, type, typed, name) for each function in the tables of this type
// (SHT_SYMTAB or SHT_DYNSYM), until it returns false. `limit`: the end of its section; `type`: the
// letter that nm prints for it; `typed`: false for STT_NOTYPE.
void visit_functions(Elf* elf, const std::vector<Section>& sections, GElf_Word table_type,
                     auto&& visit) {
  GElf_Ehdr file{};
  const bool arm = gelf_getehdr(elf, &file) != nullptr && file.e_machine == EM_ARM;
  const std::size_t entry = gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT);
  for (std::size_t table = 1; table < sections.size() && entry != 0; ++table) {
    if (sections[table].header.sh_type != table_type) continue;
    Elf_Data* data = elf_getdata(sections[table].scn, nullptr);
    if (data == nullptr) continue;
    const auto extended = std::ranges::find_if(sections, [table](const Section& one) {
      return one.header.sh_type == SHT_SYMTAB_SHNDX && one.header.sh_link == table;
    });
    Elf_Data* indices = extended == sections.end() ? nullptr : elf_getdata(extended->scn, nullptr);
    const std::size_t count = std::min<std::size_t>(data->d_size / entry, 1U << 28);
    for (std::size_t i = 0; i < count; ++i) {
      GElf_Sym symbol{};
      Elf32_Word section = 0;
      if (gelf_getsymshndx(data, indices, static_cast<int>(i), &symbol, &section) == nullptr)
        continue;
      if (symbol.st_shndx != SHN_XINDEX) section = symbol.st_shndx;
      const auto type = type_of(symbol);
      if (!type || section == SHN_UNDEF || section >= sections.size()) continue;
      const GElf_Shdr& home = sections[section].header;
      if (!is_code(home)) continue;
      const bool typed = GELF_ST_TYPE(symbol.st_info) != STT_NOTYPE;
      if (arm && typed)
        symbol.st_value &= ~std::uint64_t{1};  // Thumb functions are at odd addresses
      const std::uint64_t limit = home.sh_addr + home.sh_size;
      if (symbol.st_value < home.sh_addr || symbol.st_value >= limit) continue;
      const char* name = elf_strptr(elf, sections[table].header.sh_link, symbol.st_name);
      if (name == nullptr || *name == '\0') continue;
      const std::string_view text(name, strnlen(name, kMaxName));
      if (!typed && is_mapping_symbol(text)) continue;
      if (!visit(symbol.st_value, symbol.st_size, limit, *type, typed, text)) return;
    }
  }
}

std::string build_id_of(Elf* elf) {
  const void* bytes = nullptr;
  const ssize_t length = dwelf_elf_gnu_build_id(elf, &bytes);
  if (length <= 0 || length > 64) return {};
  const auto* first = static_cast<const unsigned char*>(bytes);
  return fmt::format("{:02x}", fmt::join(first, first + length, ""));
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
  visit_functions(opened.elf, sections, SHT_SYMTAB, [&has_table](auto&&...) {
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
    return true;
  };
  visit_functions(opened.elf, sections_of(opened.elf), table, send);
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
    const auto* bytes = reinterpret_cast<const Bytef*>(opened.bytes.data());
    checksum.number(static_cast<std::uint32_t>(::crc32_z(0, bytes, opened.bytes.size())));
    answer(MessageKind::kChecksum, checksum.bytes());
  }
}

}  // namespace trapline::worker
