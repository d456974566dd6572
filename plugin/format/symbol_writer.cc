#include "plugin/format/symbol_writer.h"

#include <algorithm>
#include <map>

#include "backend_ftrace/base/text.h"
#include "plugin/format/record.h"

namespace trapline {
namespace {

// A gap shorter than this between two functions is alignment, which the first may keep.
constexpr std::uint64_t kNotPadding = 64;

struct Part {
  std::uint64_t start = 0;  // 48 bits, a multiple of the page size
  std::uint64_t end = 0;
  std::vector<const Symbol*> symbols;
};

// Code after a larger gap gets a map line of its own, so that the addresses in the gap belong to no
// function.
constexpr std::uint64_t kGap = 256U << 20;

std::vector<Part> parts_of(const PlacedSymbols& placed) {
  std::vector<std::pair<std::uint64_t, const Symbol*>> sorted;
  for (const Symbol& symbol : placed.file->symbols)
    sorted.emplace_back((symbol.address + placed.offset) & Record::kAddressMask, &symbol);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Part> parts;
  for (const auto& [address, symbol] : sorted) {
    if (parts.empty() || address > parts.back().end + kGap)
      parts.push_back({address & ~(kSymbolPage - 1), 0, {}});
    Part& part = parts.back();
    const std::uint64_t end = std::min(address + symbol->size, Record::kAddressMask);
    part.end = std::max(part.end,
                        std::min((end + kSymbolPage) & ~(kSymbolPage - 1), Record::kAddressMask));
    part.symbols.push_back(symbol);
  }
  return parts;
}

// Formats a .sym file. uftrace ends a function at the next line, so a mark in each gap between two
// functions keeps the gap from counting as the first one's.
std::string sym_text(const Part& part, const PlacedSymbols& placed, const std::string& path) {
  std::string lines;
  std::size_t count = 0;
  std::uint64_t covered = ~std::uint64_t{0};
  for (const Symbol* symbol : part.symbols) {
    const std::uint64_t at =
        ((symbol->address + placed.offset) & Record::kAddressMask) - part.start;
    if (covered < at && at - covered >= kNotPadding)
      lines += fmt::format("{:016x} ? __sym_end\n", covered), ++count;
    const char type = symbol->type == 't' ? 't' : symbol->type == 'W' ? 'w' : 'T';
    lines += fmt::format("{:016x} {} {}{}\n", at, type, placed.prefix, flat_name(symbol->name));
    ++count;
    covered = at + symbol->size;
  }
  lines += fmt::format("{:016x} ? __sym_end\n", covered);
  std::string head = fmt::format("# symbols: {}\n# path name: {}\n", count + 1, path);
  if (!placed.file->build_id.empty())
    head += fmt::format("# build-id: {}\n", placed.file->build_id);
  return head + lines;
}

std::string dbg_text(const Part& part, const PlacedSymbols& placed, const std::string& path,
                     const std::vector<SourceLine>& source) {
  std::string out = fmt::format("# path name: {}\n", path);
  if (!placed.file->build_id.empty()) out += fmt::format("# build-id: {}\n", placed.file->build_id);
  for (const Symbol* symbol : part.symbols) {
    const auto line = std::lower_bound(
        source.begin(), source.end(), symbol->address,
        [](const SourceLine& a, std::uint64_t address) { return a.address < address; });
    if (line == source.end() || line->address != symbol->address) continue;
    const std::uint64_t at =
        ((symbol->address + placed.offset) & Record::kAddressMask) - part.start;
    out += fmt::format("F: {:x} {}{}\nL: {} {}\n", at, placed.prefix, flat_name(symbol->name),
                       line->line, flat_name(line->file));
  }
  return out;
}

}  // namespace

std::string flat_name(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (c == ';' || static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '_';
  return out;
}

Result<SymbolFiles> format_symbol_files(const std::vector<PlacedSymbols>& placed, bool with_lines) {
  SymbolFiles result;
  std::map<std::string, int> used;  // uftrace finds .sym files by basename: it must be unique
  for (const PlacedSymbols& one : placed) {
    std::vector<SourceLine> source;
    if (with_lines && one.file->is_elf) {
      auto lines = read_source_lines(*one.file);
      if (lines) source = std::move(*lines);
      // A file without debug information has no lines; only a worker's failure is an error.
      if (!lines && lines.error().kind == ErrorKind::kDamaged)
        return tl::unexpected(std::move(lines).error());
    }
    for (const Part& part : parts_of(one)) {
      std::string name = flat_name(basename_of(one.file->path));
      std::replace(name.begin(), name.end(), ' ', '_');
      if (const int before = used[name]++; before > 0) name += fmt::format(".{}", before + 1);
      const std::string path = "/vm/" + name;
      result.map.push_back({part.start, part.end, "r-xp", path, {}});
      result.files.push_back({name + ".sym", sym_text(part, one, path)});
      if (!source.empty())
        result.files.push_back({name + ".dbg", dbg_text(part, one, path, source)});
    }
  }
  std::sort(result.map.begin(), result.map.end(),
            [](const MapLine& a, const MapLine& b) { return a.start < b.start; });
  for (std::size_t i = 1; i < result.map.size(); ++i)
    if (result.map[i].start < result.map[i - 1].end)
      return fail(ErrorKind::kUsage,
                  "{} and {} overlap at 0x{:x}; give each file the offset at which it is loaded "
                  "(FILE@OFFSET)",
                  result.map[i - 1].path, result.map[i].path, result.map[i].start);
  return result;
}

}  // namespace trapline
