#include "plugin/guest_program.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/unique_fd.h"
#include "plugin/format/map.h"

namespace trapline {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kMostSegments = 1024;

struct Segment {
  std::uint64_t offset = 0;  // offset in the file
  std::uint64_t size = 0;
  std::uint64_t address = 0;
};
struct Layout {
  std::uint64_t entry = 0;
  std::vector<Segment> segments;  // the segments that are loaded
};

// Returns the layout of a 64-bit little-endian ELF file; no segments for any other file.
Layout layout_of(const std::string& path) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / 4;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Elf64_Ehdr header{};
  if (!fd || ::pread(fd.get(), &header, sizeof header, 0) != sizeof header ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_phentsize != sizeof(Elf64_Phdr) ||
      header.e_phoff > kMost)
    return {};
  Layout layout{header.e_entry, {}};
  for (std::size_t i = 0; i < std::min<std::size_t>(header.e_phnum, kMostSegments); ++i) {
    Elf64_Phdr one{};
    const auto at = static_cast<off_t>(header.e_phoff + i * sizeof one);
    if (::pread(fd.get(), &one, sizeof one, at) != sizeof one) break;
    if (one.p_type == PT_LOAD && one.p_filesz < kMost && one.p_offset < kMost)
      layout.segments.push_back({one.p_offset, one.p_filesz, one.p_vaddr});
  }
  return layout;
}

// Returns the address of a byte of the file.
std::optional<std::uint64_t> address_of(const Layout& layout, std::uint64_t offset) {
  for (const Segment& segment : layout.segments) {
    const std::uint64_t begin = segment.offset & ~(kPage - 1);
    if (offset >= begin && offset < segment.offset + segment.size)
      return segment.address - segment.offset + offset;
  }
  return std::nullopt;
}

// Consecutive lines of one file in the maps: one mapping.
struct Mapping {
  std::string path;
  std::uint64_t start = 0;
  std::uint64_t offset = 0;
  bool executable = false;
};

std::vector<Mapping> mappings_of(std::string_view maps) {
  std::vector<Mapping> mappings;
  const auto lines = parse_map(maps, "/proc/self/maps");
  if (!lines) return mappings;
  for (const MapLine& line : *lines) {
    if (mappings.empty() || mappings.back().path != line.path || line.offset == 0)
      mappings.push_back({line.path, line.start, line.offset, false});
    mappings.back().executable |= line.protection.find('x') != std::string::npos;
  }
  return mappings;
}

// An ELF file that the host does not execute, with the offset to its addresses on the host.
struct Loaded {
  SymbolFileSpec file;
  std::uint64_t entry = 0;  // address on the host
};
std::vector<Loaded> loaded_files(std::string_view maps) {
  std::vector<Loaded> loaded;
  for (const Mapping& one : mappings_of(maps)) {
    if (one.executable) continue;
    const Layout layout = layout_of(one.path);
    const auto address = address_of(layout, one.offset);
    if (!address) continue;
    const std::uint64_t offset = one.start - *address;
    loaded.push_back({{one.path, offset}, layout.entry + offset});
  }
  return loaded;
}

}  // namespace

std::optional<GuestProgram> find_guest_program(std::string_view maps,
                                               std::span<const std::string> words,
                                               std::uint64_t pc) {
  const std::vector<Loaded> loaded = loaded_files(maps);
  const auto at_entry = std::find_if(loaded.begin(), loaded.end(), [pc](const Loaded& one) {
    return one.entry >= pc && (one.entry - pc) % kPage == 0;
  });
  if (at_entry == loaded.end()) return std::nullopt;
  const std::uint64_t base = at_entry->entry - pc;
  for (const std::string& word : words.subspan(std::min<std::size_t>(1, words.size()))) {
    const std::string path = real_path(word);
    for (const Loaded& one : loaded)
      if (one.file.path == path) return GuestProgram{{path, one.file.offset - base}, base};
  }
  return std::nullopt;
}

std::vector<SymbolFileSpec> files_of_program(std::string_view maps, std::uint64_t base) {
  std::vector<SymbolFileSpec> files;
  for (Loaded& one : loaded_files(maps)) {
    one.file.offset -= base;
    if (std::find(files.begin(), files.end(), one.file) == files.end())
      files.push_back(std::move(one.file));
  }
  return files;
}

}  // namespace trapline
