#include "plugin/format/symbol_table.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/unique_fd.h"
#include "plugin/format/symbol_file.h"

namespace trapline {
namespace {

bool is_function(char type) { return type == 'T' || type == 't' || type == 'W' || type == 'i'; }

std::uint64_t end_of(std::uint64_t address, std::uint64_t size) {
  const std::uint64_t end = address + size;
  return end < address ? ~std::uint64_t{0} : end;
}

std::size_t leading_underscores(std::string_view name) {
  const std::size_t first = name.find_first_not_of('_');
  return first == name.npos ? name.size() : first;
}

// Ranks the names of one address, lower is better: see the file comment of symbol_table.h.
// Otherwise equal names are ordered by length and then alphabetically, so that the result does not
// depend on the order in the file.
auto preference(const RawSymbol& s) {
  return std::tuple(!is_function(s.type), !s.typed, s.size == 0, s.type == 't',
                    leading_underscores(s.name), s.name.size(), s.name);
}

// Returns where a text file's functions are. Functions less than a megabyte apart share a range.
std::vector<AddressRange> ranges_of(const std::vector<Symbol>& symbols) {
  constexpr std::uint64_t kGap = 1U << 20;
  std::vector<AddressRange> ranges;
  for (const Symbol& symbol : symbols) {
    const std::uint64_t end = end_of(symbol.address, symbol.size);
    if (ranges.empty() ||
        (symbol.address > ranges.back().end && symbol.address - ranges.back().end > kGap))
      ranges.push_back({symbol.address, end});
    ranges.back().end = std::max(ranges.back().end, end);
  }
  return ranges;
}

// The longest name that is kept, in bytes: every call of a function repeats its name.
constexpr std::size_t kLongestName = 4096;

// Returns NAME for NAME.cold, NAME.part.0 and the like; else the whole name.
std::string_view without_part(std::string_view name) {
  for (const std::string_view suffix : {".cold", ".part"}) {
    const std::size_t at = name.find(suffix), end = at + suffix.size();
    if (at != name.npos && at != 0 && (end == name.size() || name[end] == '.'))
      name = name.substr(0, at);
  }
  return name;
}

}  // namespace

std::string_view NameArena::keep(std::string_view text) {
  if (text.size() > kBlock - used_ || blocks_.empty()) {
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(std::max(kBlock, text.size())));
    used_ = 0;
  }
  char* place = blocks_.back().get() + used_;
  std::memcpy(place, text.data(), text.size());
  used_ = std::min(kBlock, used_ + text.size());
  return {place, text.size()};
}

std::vector<Symbol> resolve_symbols(std::vector<RawSymbol> raw) {
  std::sort(raw.begin(), raw.end(), [](const RawSymbol& a, const RawSymbol& b) {
    if (a.address != b.address) return a.address < b.address;
    return preference(a) < preference(b);
  });
  raw.erase(
      std::unique(raw.begin(), raw.end(),
                  [](const RawSymbol& a, const RawSymbol& b) { return a.address == b.address; }),
      raw.end());
  std::vector<Symbol> functions;
  functions.reserve(raw.size());
  std::uint64_t sized_until = 0;  // a label below this address is inside a sized function
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const RawSymbol& s = raw[i];
    if (!is_function(s.type)) continue;
    std::uint64_t end = end_of(s.address, s.size);
    if (s.size == 0) {
      if (s.address < sized_until) continue;
      end = s.limit;
      if (i + 1 < raw.size()) end = std::min(end, raw[i + 1].address);
    } else {
      end = std::min(end, s.limit);
      sized_until = std::max(sized_until, end);
    }
    if (end > s.address)
      functions.push_back({s.address, end - s.address, s.name, s.name, s.type, false});
  }
  functions.shrink_to_fit();
  return functions;
}

Result<SymbolFileSpec> parse_symbol_file_spec(std::string_view text) {
  if (text.empty())
    return fail(ErrorKind::kUsage, "no symbol file given; write FILE or FILE@OFFSET");
  const std::size_t at = text.rfind('@');
  if (at == text.npos) return SymbolFileSpec{std::string(text), 0};
  std::string_view number = text.substr(at + 1);
  const bool negative = number.starts_with('-');
  if (negative) number.remove_prefix(1);
  const auto offset = parse_number(number);
  if (offset && at > 0)
    return SymbolFileSpec{std::string(text.substr(0, at)), negative ? 0 - *offset : *offset};
  // The name of a file may contain an @.
  const std::string whole(text);
  if (is_there(whole)) return SymbolFileSpec{whole, 0};
  return fail(ErrorKind::kUsage, "'{}': '{}' is not an offset; write FILE@0x1000 or FILE@-0x1000",
              text, text.substr(at + 1));
}

const Symbol* SymbolFile::by_name(std::string_view name) const {
  for (const Symbol& symbol : symbols)
    if ((symbol.name == name && !symbol.is_part) || symbol.linkage_name == name) return &symbol;
  return nullptr;
}

bool is_elf_file(const std::string& path) {
  const UniqueFd fd = open_to_read(path, O_NONBLOCK);
  return fd && is_elf(fd.get());
}

Result<SymbolFile> load_symbol_file(const std::string& path) {
  UniqueFd fd = open_to_read(path, O_NONBLOCK);
  if (!fd) return fail("cannot open {}: {}", path, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return fail("{} is not a file; give an ELF file, System.map, kallsyms or a .sym file", path);
  auto arena = std::make_shared<NameArena>();
  SymbolFile file;
  file.path = path;
  file.is_elf = is_elf(fd.get());
  auto raw = file.is_elf ? read_elf_symbols(fd.get(), path, *arena)
                         : read_text_symbols(fd.get(), path, *arena);
  if (!raw) return tl::unexpected(std::move(raw).error());
  file.build_id = std::move(raw->build_id);
  file.debug_path = std::move(raw->debug_path);
  file.text = std::move(raw->text);
  file.symbols = resolve_symbols(std::move(raw->symbols));
  if (auto named = demangle_symbols(file.symbols, path, *arena); !named)
    return tl::unexpected(std::move(named).error());
  for (Symbol& symbol : file.symbols) {
    symbol.is_part = without_part(symbol.linkage_name).size() != symbol.linkage_name.size();
    symbol.name = without_part(symbol.name).substr(0, kLongestName);
    symbol.linkage_name = symbol.linkage_name.substr(0, kLongestName);
  }
  file.names = std::move(arena);
  if (!file.is_elf) file.text = ranges_of(file.symbols);
  if (file.symbols.empty())
    return fail(ErrorKind::kDamaged,
                "{} has no function symbols; give the unstripped file or its debug file", path);
  return file;
}

void SymbolTable::add(const SymbolFile& file, std::uint64_t offset) {
  symbols_.reserve(symbols_.size() + file.symbols.size());
  for (Symbol symbol : file.symbols) {
    symbol.address += offset;
    symbols_.push_back(symbol);
  }
  names_.push_back(file.names);
}

// Walks over the functions in order of their start. `open` holds those that cover the current
// address, the innermost last.
void SymbolTable::build() {
  std::stable_sort(symbols_.begin(), symbols_.end(), [](const Symbol& a, const Symbol& b) {
    return a.address != b.address ? a.address < b.address : a.size > b.size;
  });
  starts_.clear();
  owners_.clear();
  starts_.reserve(symbols_.size() + symbols_.size() / 8 + 2);
  owners_.reserve(starts_.capacity());
  std::vector<std::uint32_t> open;
  const auto end_at = [this](std::uint32_t i) {
    return end_of(symbols_[i].address, symbols_[i].size);
  };
  const auto close_until = [&](std::uint64_t address) {
    while (!open.empty() && end_at(open.back()) <= address) {
      const std::uint64_t end = end_at(open.back());
      while (!open.empty() && end_at(open.back()) <= end) open.pop_back();
      emit(end, open.empty() ? kNone : open.back());
    }
  };
  for (std::uint32_t i = 0; i < symbols_.size(); ++i) {
    close_until(symbols_[i].address);
    emit(symbols_[i].address, i);
    open.push_back(i);
  }
  close_until(~std::uint64_t{0});
}

void SymbolTable::emit(std::uint64_t start, std::uint32_t owner) {
  if (!starts_.empty() && starts_.back() == start) {
    owners_.back() = owner;
  } else if (owners_.empty() || owners_.back() != owner) {
    starts_.push_back(start);
    owners_.push_back(owner);
  }
}

std::uint32_t SymbolTable::index_of(std::uint64_t address) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), address);
  if (after == starts_.begin()) return kNone;
  return owners_[static_cast<std::size_t>(after - starts_.begin()) - 1];
}

Result<SymbolTable> SymbolTable::load(std::span<const SymbolFileSpec> files) {
  SymbolTable table;
  for (const SymbolFileSpec& spec : files) {
    auto file = load_symbol_file(spec.path);
    if (!file) return tl::unexpected(std::move(file).error());
    table.add(*file, spec.offset);
  }
  table.build();
  return table;
}

}  // namespace trapline
