// Reads ELF files through a worker, which parses them; the code here finds the files and checks the
// worker's answers.
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/base/worker.h"
#include "plugin/format/symbol_file.h"
#include "plugin/format/symbol_writer.h"

namespace trapline {
namespace {

constexpr std::size_t kMaxName = 64 * 1024;
constexpr std::size_t kSmallestEntry = 16;  // bytes of a symbol table's entry: Elf32_Sym
constexpr std::size_t kMaxBuildId = 128;    // in characters
constexpr std::size_t kMaxSections = 65536;

// A file that a worker has open, with the worker's facts about it.
struct ElfFile {
  Worker worker;
  std::uint64_t size = 0;
  std::string build_id;
  std::string debug_link;
  std::uint32_t checksum = 0;  // the checksum that the debug link requires
  bool has_table = false;      // the file has a .symtab with functions
  std::vector<AddressRange> text;
};

bool is_hexadecimal(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == text.npos;
}

Result<ElfFile> open_elf(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail("{}: {}", path, std::strerror(errno));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  auto worker = Worker::start("symbols", path, WorkerLimits::for_file(size));
  if (!worker) return tl::unexpected(std::move(worker).error());
  const auto answer = worker->ask(MessageKind::kFile, {}, MessageKind::kFile, fd);
  if (!answer) return tl::unexpected(answer.error());
  ElfFile file{std::move(*worker), size, {}, {}, 0, false, {}};
  MessageReader facts(answer->payload);
  file.build_id = facts.text().value_or("");
  file.debug_link = facts.text().value_or("");
  file.checksum = facts.number<std::uint32_t>().value_or(0);
  file.has_table = facts.number<std::uint32_t>().value_or(0) != 0;
  while (!facts.at_end() && file.text.size() < kMaxSections) {
    const auto start = facts.number<std::uint64_t>();
    const auto end = facts.number<std::uint64_t>();
    if (end && *start < *end) file.text.push_back({*start, *end});
  }
  if (facts.failed() || file.build_id.size() > kMaxBuildId || !is_hexadecimal(file.build_id) ||
      file.debug_link.find('\0') != std::string::npos)
    return file.worker.impossible("the file's facts");
  std::sort(file.text.begin(), file.text.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.start < b.start; });
  return file;
}

// Calls take(rows), which reads one row, until the end of the answer. If it returns false, the
// answer is impossible.
template <typename Take>
Result<void> each_row(Worker& worker, MessageKind kind, Take take) {
  for (;;) {
    const auto message = worker.receive();
    if (!message) return tl::unexpected(message.error());
    if (message->kind == MessageKind::kEnd) return {};
    if (message->kind != kind) return worker.impossible("its kind");
    MessageReader rows(message->payload);
    while (!rows.at_end())
      if (!take(rows)) return worker.impossible("a row");
  }
}

Result<std::vector<RawSymbol>> read_table(ElfFile& file, const std::string& path, bool dynamic,
                                          NameArena& arena) {
  MessageWriter request;
  request.number(std::uint32_t{dynamic});
  if (auto sent = file.worker.send(MessageKind::kSymbols, request.bytes()); !sent)
    return tl::unexpected(std::move(sent).error());
  // Each symbol has an entry in the file. Names may share text there; all names together are about
  // as long as the file.
  const std::uint64_t most = file.size / kSmallestEntry;
  std::uint64_t room = 4 * file.size + (1u << 20);
  bool too_much = false;
  std::vector<RawSymbol> symbols;
  const auto take = [&](MessageReader& rows) {
    RawSymbol symbol;
    symbol.address = rows.number<std::uint64_t>().value_or(0);
    symbol.size = rows.number<std::uint64_t>().value_or(0);
    symbol.limit = rows.number<std::uint64_t>().value_or(0);
    symbol.type = static_cast<char>(rows.number<std::uint32_t>().value_or(0));
    symbol.typed = rows.number<std::uint32_t>().value_or(0) != 0;
    const auto name = rows.text();
    if (!name || name->empty() || symbol.limit <= symbol.address ||
        std::string_view("TtWi").find(symbol.type) == std::string_view::npos)
      return false;
    too_much = symbols.size() >= most || name->size() > std::min<std::uint64_t>(room, kMaxName);
    if (too_much) return false;
    room -= name->size();
    symbol.name = arena.keep(*name);
    symbols.push_back(symbol);
    return true;
  };
  auto done = each_row(file.worker, MessageKind::kSymbols, take);
  if (too_much) {
    return fail(ErrorKind::kDamaged,
                "{}: more symbols, or longer names, than a file of its size can have", path);
  }
  if (!done) return tl::unexpected(std::move(done).error());
  return symbols;
}

// A place where distributions and objcopy put separate debug files; the same places as gdb's.
struct DebugCandidate {
  std::string path;
  // The checksum that the debug link requires; none for a build-id.
  std::optional<std::uint32_t> crc;
};
std::vector<DebugCandidate> debug_candidates(const ElfFile& file, const std::string& path) {
  std::vector<DebugCandidate> out;
  const std::string& id = file.build_id;
  if (id.size() > 2)
    out.push_back(
        {fmt::format("/usr/lib/debug/.build-id/{}/{}.debug", id.substr(0, 2), id.substr(2)),
         std::nullopt});
  const std::string& link = file.debug_link;
  if (link.empty() || link.find('/') != link.npos) return out;
  const std::string whole = real_path(path);
  const std::size_t slash = whole.rfind('/');
  const std::string folder = slash == whole.npos ? "." : whole.substr(0, slash);
  for (const std::string& prefix :
       {folder + "/", folder + "/.debug/", "/usr/lib/debug" + folder + "/"})
    if (prefix + link != whole) out.push_back({prefix + link, file.checksum});
  return out;
}

bool is_debug_file_of(ElfFile& debug, const ElfFile& file, const DebugCandidate& candidate) {
  if (!debug.build_id.empty() && !file.build_id.empty()) return debug.build_id == file.build_id;
  if (!candidate.crc) return true;
  const auto answer = debug.worker.ask(MessageKind::kChecksum, {}, MessageKind::kChecksum);
  return answer && MessageReader(answer->payload).number<std::uint32_t>() == candidate.crc;
}

// Reads the functions of a separate debug file. False if the file cannot be read or is of another
// build.
bool read_debug_file(const ElfFile& file, const std::string& path, NameArena& arena,
                     RawSymbols& result) {
  for (const DebugCandidate& candidate : debug_candidates(file, path)) {
    UniqueFd fd = open_to_read(candidate.path, O_NONBLOCK);
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    auto debug = open_elf(fd.get(), candidate.path);
    if (!debug || !debug->has_table || !is_debug_file_of(*debug, file, candidate)) continue;
    auto symbols = read_table(*debug, candidate.path, false, arena);
    if (!symbols || symbols->empty()) continue;
    result.symbols = std::move(*symbols);
    result.debug_path = candidate.path;
    return true;
  }
  return false;
}

bool is_mangled(std::string_view name) {
  return name.starts_with("_Z") || name.starts_with("__Z") || name.starts_with("_R");
}

// Sends the names of `some` and stores the names that come back. Returns how many the worker
// answered.
Result<std::size_t> demangle(Worker& worker, std::span<Symbol* const> some, std::uint64_t& room,
                             NameArena& arena) {
  MessageWriter names;
  for (const Symbol* symbol : some) names.text(symbol->linkage_name);
  const auto answer = worker.ask(MessageKind::kDemangle, names.bytes(), MessageKind::kTexts);
  if (!answer) return tl::unexpected(answer.error());
  MessageReader texts(answer->payload);
  std::size_t done = 0;
  for (; done < some.size() && !texts.at_end(); ++done) {
    const auto name = texts.text();
    if (!name || name->size() > kMaxName) return worker.impossible("a name");
    if (name->empty() || name->size() > room) continue;
    room -= name->size();
    some[done]->name = arena.keep(*name);
  }
  return done;
}

}  // namespace

bool is_elf(int fd) {
  char magic[4] = {};
  return ::pread(fd, magic, sizeof magic, 0) == 4 && std::memcmp(magic, ELFMAG, SELFMAG) == 0;
}

Result<RawSymbols> read_elf_symbols(int fd, const std::string& path, NameArena& arena) {
  auto file = open_elf(fd, path);
  if (!file) return tl::unexpected(std::move(file).error());
  RawSymbols result;
  result.build_id = file->build_id;
  result.text = file->text;
  if (!file->has_table && read_debug_file(*file, path, arena, result)) return result;
  auto symbols = read_table(*file, path, !file->has_table, arena);
  if (!symbols) return tl::unexpected(std::move(symbols).error());
  result.symbols = std::move(*symbols);
  return result;
}

Result<void> demangle_symbols(std::vector<Symbol>& symbols, const std::string& path,
                              NameArena& arena) {
  constexpr std::size_t kAtOnce = 1024;
  constexpr int kMostWorkers = 8;
  std::vector<Symbol*> mangled;
  std::uint64_t size = 0;
  for (Symbol& symbol : symbols) {
    if (!is_mangled(symbol.linkage_name)) continue;
    mangled.push_back(&symbol);
    size += symbol.linkage_name.size();
  }
  std::uint64_t room = 16 * size + (1u << 20);  // substitutions make some names longer
  std::optional<Worker> worker;
  int workers = 0;
  for (std::span<Symbol*> rest = mangled; !rest.empty();) {
    if (!worker) {
      // The remaining names stay if no child is allowed, or if several names took too long.
      if (!Worker::forbidden().empty() || workers++ == kMostWorkers) return {};
      auto started = Worker::start("symbols", path, WorkerLimits::for_file(size));
      if (!started) return tl::unexpected(std::move(started).error());
      worker.emplace(std::move(*started));
    }
    const auto some = rest.first(std::min(kAtOnce, rest.size()));
    const auto done = demangle(*worker, some, room, arena);
    if (!done) return tl::unexpected(done.error());
    const bool all = *done == some.size();
    if (!all) worker.reset();  // the worker ended at the next name, which stays as it is
    rest = rest.subspan(all ? *done : *done + 1);
  }
  return {};
}

Result<std::vector<SourceLine>> read_source_lines(const SymbolFile& file) {
  const std::string& path = file.debug_path.empty() ? file.path : file.debug_path;
  UniqueFd fd = open_to_read(path);
  if (!fd) return fail("cannot open {}: {}", path, std::strerror(errno));
  auto elf = open_elf(fd.get(), path);
  if (!elf) return tl::unexpected(std::move(elf).error());
  if (auto sent = elf->worker.send(MessageKind::kLines, {}); !sent)
    return tl::unexpected(std::move(sent).error());
  std::uint64_t room = 64 * elf->size + (1u << 20);  // many lines share a path in the file
  std::vector<SourceLine> lines;
  const auto take = [&](MessageReader& rows) {
    SourceLine line;
    line.address = rows.number<std::uint64_t>().value_or(0);
    line.line = rows.number<std::uint32_t>().value_or(0);
    const auto name = rows.text();
    const std::uint64_t cost = sizeof line + (name ? name->size() : 0);
    if (!name || name->size() > kMaxName || cost > room) return false;
    room -= cost;
    line.file = *name;
    lines.push_back(std::move(line));
    return true;
  };
  if (auto done = each_row(elf->worker, MessageKind::kLines, take); !done)
    return tl::unexpected(std::move(done).error());
  std::sort(lines.begin(), lines.end(),
            [](const SourceLine& a, const SourceLine& b) { return a.address < b.address; });
  return lines;
}

}  // namespace trapline
