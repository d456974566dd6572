// Reads System.map, /proc/kallsyms and uftrace .sym files. All three have lines of
//   ADDRESS TYPE NAME            System.map, kallsyms (followed by "\t[module]"), .sym (old)
//   ADDRESS SIZE TYPE NAME       .sym (uftrace 0.15 and newer)
// and .sym files comments (# …) and a closing __sym_end.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "plugin/format/symbol_file.h"

namespace trapline {
namespace {

constexpr std::size_t kMaxFile = 1U << 30;
constexpr std::size_t kMaxLine = 64 * 1024;

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t value = 0;
  if (!take_number(text, value, 16) || !text.empty()) return std::nullopt;
  return value;
}

struct Line {
  RawSymbol symbol;
  std::string_view name;
  std::string_view module;
};

char function_type(char type) {
  constexpr std::string_view kTypes = "TPKtWwi", kStored = "TTTtWWi";
  const std::size_t at = kTypes.find(type);
  // Data and other symbols only end the function before them.
  return at == kTypes.npos ? 'd' : kStored[at];
}

std::optional<Line> parse_line(std::string_view text) {
  Line line;
  const auto address = parse_hex(take_word(text));
  if (!address) return std::nullopt;
  line.symbol.address = *address;
  std::string_view type = take_word(text);
  // A one-letter word is the type; sizes have more digits or are a decimal digit.
  if (type.size() != 1 || (type[0] >= '0' && type[0] <= '9')) {
    const auto size = parse_hex(type);
    if (!size) return std::nullopt;
    line.symbol.size = *size;
    type = take_word(text);
    if (type.size() != 1) return std::nullopt;
  }
  line.symbol.type = function_type(type[0]);
  if (const std::size_t module = text.find("\t["); module != text.npos) {
    line.module = trimmed(text.substr(module));
    text = text.substr(0, module);
  }
  line.name = trimmed(text);
  if (line.name.empty()) return std::nullopt;
  return line;
}

// Limits how far functions without a size extend. The gap before the next module has an unknown
// length, so the last function of a module ends with its page.
void set_limits(std::vector<RawSymbol>& symbols, const std::vector<std::uint32_t>& modules) {
  std::vector<std::size_t> order(symbols.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return symbols[a].address < symbols[b].address;
  });
  for (std::size_t k = 0; k < order.size(); ++k) {
    RawSymbol& s = symbols[order[k]];
    const bool last = k + 1 == order.size() || modules[order[k + 1]] != modules[order[k]];
    s.limit = ~std::uint64_t{0};
    if (last && s.size == 0 && s.address < s.limit - kSymbolPage)
      s.limit = (s.address | (kSymbolPage - 1)) + 1;
  }
}

}  // namespace

Result<RawSymbols> read_text_symbols(int fd, const std::string& path, NameArena& arena) {
  auto content = read_all(fd, path, kMaxFile);
  if (!content) return tl::unexpected(std::move(content).error());
  std::string_view rest = *content;
  RawSymbols result;
  std::vector<std::uint32_t> modules;  // per symbol: the number of its module
  std::unordered_map<std::string_view, std::uint32_t> known_modules;
  std::uint64_t highest = 0;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (text.size() > kMaxLine)
      return fail(ErrorKind::kDamaged, "{}:{}: the line is longer than {} bytes", path, number,
                  kMaxLine);
    if (trimmed(text).empty() || text.front() == '#') continue;
    auto line = parse_line(text);
    if (!line)
      return fail(ErrorKind::kDamaged,
                  "{}:{}: not a symbol line ('{}'); expected ADDRESS TYPE NAME as in System.map, "
                  "/proc/kallsyms or a .sym file",
                  path, number, text.substr(0, 60));
    highest = std::max(highest, line->symbol.address);
    // Modules are numbered in the order of their first symbols.
    const auto number_of = static_cast<std::uint32_t>(known_modules.size());
    modules.push_back(known_modules.try_emplace(line->module, number_of).first->second);
    line->symbol.name = arena.keep(line->name);
    result.symbols.push_back(line->symbol);
  }
  if (!result.symbols.empty() && highest == 0)
    return fail("{}: every address is 0; read /proc/kallsyms as root with kernel.kptr_restrict=0",
                path);
  set_limits(result.symbols, modules);
  return result;
}

}  // namespace trapline
