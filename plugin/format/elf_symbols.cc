// ELF symbol tables through libelf; build-id and debug link through libdw's dwelf functions.
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "backend_ftrace/base/unique_fd.h"
#include "plugin/format/symbol_file.h"

namespace trapline {
namespace {

constexpr std::size_t kMaxName = 64 * 1024;

struct ElfCloser {
  void operator()(Elf* elf) const { elf_end(elf); }
};
using ElfHandle = std::unique_ptr<Elf, ElfCloser>;

// Plain reads, not a mapping: a file that shrinks meanwhile would end us with SIGBUS.
ElfHandle open_elf(int fd) {
  elf_version(EV_CURRENT);
  ElfHandle elf(elf_begin(fd, ELF_C_READ, nullptr));
  if (elf && elf_kind(elf.get()) != ELF_K_ELF) elf.reset();
  return elf;
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

// $x, $d, $xrv64i…: marks of the assembler between code and data, not names.
bool is_mapping_symbol(std::string_view name) {
  return name.size() >= 2 && name[0] == '$' && std::strchr("atdx", name[1]) != nullptr &&
         (name.size() == 2 || name[2] == '.' || name.starts_with("$xrv"));
}

std::optional<char> type_of(const GElf_Sym& symbol) {
  const auto type = GELF_ST_TYPE(symbol.st_info);
  if (type == STT_GNU_IFUNC) return 'i';
  if (type != STT_FUNC && type != STT_NOTYPE) return std::nullopt;
  switch (GELF_ST_BIND(symbol.st_info)) {
    case STB_LOCAL:
      return 't';
    case STB_WEAK:
      return 'W';
    default:
      return 'T';
  }
}

class TableReader {
 public:
  TableReader(Elf* elf, const std::vector<Section>& sections, NameArena& arena)
      : elf_(elf), sections_(sections), arena_(arena) {
    GElf_Ehdr header{};
    if (gelf_getehdr(elf, &header) != nullptr) arm_ = header.e_machine == EM_ARM;
  }

  // The functions of every table of this type (SHT_SYMTAB or SHT_DYNSYM).
  std::vector<RawSymbol> read(GElf_Word table_type) {
    std::vector<RawSymbol> out;
    for (std::size_t index = 0; index < sections_.size(); ++index)
      if (sections_[index].scn != nullptr && sections_[index].header.sh_type == table_type)
        read_table(index, out);
    return out;
  }

 private:
  void read_table(std::size_t table, std::vector<RawSymbol>& out) {
    Elf_Data* data = elf_getdata(sections_[table].scn, nullptr);
    const std::size_t entry = gelf_fsize(elf_, ELF_T_SYM, 1, EV_CURRENT);
    if (data == nullptr || entry == 0) return;
    Elf_Data* extended = extended_indices(table);
    const std::size_t count = std::min<std::size_t>(data->d_size / entry, 1U << 28);
    for (std::size_t i = 0; i < count; ++i) {
      GElf_Sym symbol{};
      Elf32_Word section = 0;
      if (gelf_getsymshndx(data, extended, static_cast<int>(i), &symbol, &section) == nullptr)
        continue;
      if (symbol.st_shndx != SHN_XINDEX) section = symbol.st_shndx;
      if (auto raw = function(symbol, section, sections_[table].header.sh_link))
        out.push_back(*raw);
    }
  }

  Elf_Data* extended_indices(std::size_t table) const {
    for (const Section& section : sections_)
      if (section.scn != nullptr && section.header.sh_type == SHT_SYMTAB_SHNDX &&
          section.header.sh_link == table)
        return elf_getdata(section.scn, nullptr);
    return nullptr;
  }

  std::optional<RawSymbol> function(const GElf_Sym& symbol, std::size_t section,
                                    std::size_t strings) {
    const auto type = type_of(symbol);
    if (!type || section == SHN_UNDEF || section >= sections_.size()) return std::nullopt;
    const GElf_Shdr& home = sections_[section].header;
    if (!is_code(home)) return std::nullopt;
    RawSymbol raw;
    raw.address = symbol.st_value;
    raw.typed = GELF_ST_TYPE(symbol.st_info) != STT_NOTYPE;
    if (arm_ && raw.typed) raw.address &= ~std::uint64_t{1};  // Thumb functions have odd addresses
    raw.limit = home.sh_addr + home.sh_size;
    if (raw.address < home.sh_addr || raw.address >= raw.limit) return std::nullopt;
    raw.size = symbol.st_size;
    raw.type = *type;
    const char* name = elf_strptr(elf_, strings, symbol.st_name);
    if (name == nullptr || *name == '\0') return std::nullopt;
    const std::string_view text(name, strnlen(name, kMaxName));
    if (!raw.typed && is_mapping_symbol(text)) return std::nullopt;
    raw.name = arena_.keep(text);
    return raw;
  }

  Elf* elf_;
  const std::vector<Section>& sections_;
  NameArena& arena_;
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

std::uint32_t crc32_of(int fd) {
  std::uint32_t crc = ~0U;
  unsigned char buffer[16384];
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(fd, buffer, sizeof buffer, at);
    if (got <= 0) break;
    at += got;
    for (ssize_t i = 0; i < got; ++i) {
      crc ^= buffer[i];
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320U & (0U - (crc & 1U)));
    }
  }
  return ~crc;
}

// Where distributions and objcopy put separate debug files; the same places as gdb's.
struct DebugCandidate {
  std::string path;
  std::optional<GElf_Word> crc;  // what the debug link demands; by build-id nothing
};
std::vector<DebugCandidate> debug_candidates(Elf* elf, const std::string& path,
                                             const std::string& build_id) {
  std::vector<DebugCandidate> out;
  if (build_id.size() > 2)
    out.push_back({fmt::format("/usr/lib/debug/.build-id/{}/{}.debug", build_id.substr(0, 2),
                               build_id.substr(2)),
                   std::nullopt});
  GElf_Word crc = 0;
  const char* link = dwelf_elf_gnu_debuglink(elf, &crc);
  if (link == nullptr || *link == '\0' || std::strchr(link, '/') != nullptr) return out;
  std::unique_ptr<char, decltype(&::free)> real(::realpath(path.c_str(), nullptr), &::free);
  const std::string whole = real ? real.get() : path;
  const std::size_t slash = whole.rfind('/');
  const std::string folder = slash == whole.npos ? "." : whole.substr(0, slash);
  for (const std::string& prefix :
       {folder + "/", folder + "/.debug/", "/usr/lib/debug" + folder + "/"})
    if (prefix + link != whole) out.push_back({prefix + link, crc});
  return out;
}

// The separate debug file's functions. A file of another build is passed over.
bool read_debug_file(Elf* elf, const std::string& path, NameArena& arena, RawSymbols& result) {
  for (const DebugCandidate& candidate : debug_candidates(elf, path, result.build_id)) {
    UniqueFd fd(::open(candidate.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    ElfHandle debug = open_elf(fd.get());
    if (!debug) continue;
    const std::string id = build_id_of(debug.get());
    if (!id.empty() && !result.build_id.empty()
            ? id != result.build_id
            : candidate.crc && crc32_of(fd.get()) != *candidate.crc)
      continue;
    const auto sections = sections_of(debug.get());
    auto symbols = TableReader(debug.get(), sections, arena).read(SHT_SYMTAB);
    if (symbols.empty()) continue;
    result.symbols = std::move(symbols);
    result.debug_path = candidate.path;
    return true;
  }
  return false;
}

}  // namespace

bool is_elf(int fd) {
  char magic[4] = {};
  return ::pread(fd, magic, sizeof magic, 0) == 4 && std::memcmp(magic, ELFMAG, SELFMAG) == 0;
}

Result<RawSymbols> read_elf_symbols(int fd, const std::string& path, NameArena& arena) {
  ElfHandle elf = open_elf(fd);
  GElf_Ehdr header{};
  if (!elf || gelf_getehdr(elf.get(), &header) == nullptr)
    return fail(ErrorKind::kDamaged, "{} is a damaged ELF file: {}", path, elf_errmsg(-1));
  if (header.e_type == ET_REL)
    return fail(ErrorKind::kUsage,
                "{} is a relocatable object: its sections have no addresses yet; give the linked "
                "file, or the guest's /proc/kallsyms for kernel modules",
                path);
  RawSymbols result;
  result.build_id = build_id_of(elf.get());
  const auto sections = sections_of(elf.get());
  for (const Section& section : sections)
    if (is_code(section.header))
      result.text.push_back(
          {section.header.sh_addr, section.header.sh_addr + section.header.sh_size});
  std::sort(result.text.begin(), result.text.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.start < b.start; });
  TableReader reader(elf.get(), sections, arena);
  result.symbols = reader.read(SHT_SYMTAB);
  if (result.symbols.empty() && !read_debug_file(elf.get(), path, arena, result))
    result.symbols = reader.read(SHT_DYNSYM);
  return result;
}

}  // namespace trapline
