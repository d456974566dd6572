#include "merge/source/uftrace/values.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <regex.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr std::size_t kMostSpecs = 4096, kMostItems = 32;
// Limits for patterns, since each is tried on each function; names are compared. uftrace writes a
// pattern if its user gave one, and a name for each function that it knows itself.
constexpr std::size_t kMostPatterns = 32, kLongestPattern = 256, kLongestMatched = 512;

std::uint64_t load(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

std::int64_t with_sign(std::uint64_t value, unsigned size) {
  const unsigned unused = size >= 8 ? 0 : 64 - 8 * size;
  return static_cast<std::int64_t>(value << unused) >> unused;
}

std::string number_text(char format, unsigned size, std::span<const std::byte> bytes) {
  const std::uint64_t value = load(bytes);
  const std::int64_t number = with_sign(value, size);
  switch (format) {
    case 'i':
      return std::to_string(number);
    case 'u':
      return std::to_string(value);
    case 'o':
      return fmt::format("{:#o}", value);
    case 'x':
    case 'p':
      return value == 0 ? "0" : fmt::format("{:#x}", value);
    case 'c': {
      const char character = static_cast<char>(value);
      return fmt::format("'{}'", printable(std::string_view(&character, 1)));
    }
    case 'f':
      if (size == 4) {
        float real = 0;
        std::memcpy(&real, bytes.data(), sizeof real);
        return fmt::format("{:f}", real);
      }
      if (size == 8) {
        double real = 0;
        std::memcpy(&real, bytes.data(), sizeof real);
        return fmt::format("{:f}", real);
      }
      return "?";  // the x87's 80 bits
    default: {
      // Without a format the value may be anything: small ones are printed as numbers, others as
      // addresses.
      constexpr std::int64_t kSmall = 100'000;
      if (-kSmall <= number && number <= kSmall) return std::to_string(number);
      return fmt::format("{:#x}", size == 8 ? value : value & ((std::uint64_t{1} << 8 * size) - 1));
    }
  }
}

bool is_string(char format) { return format == 's' || format == 'S'; }

std::string string_text(std::span<const std::byte> bytes) {
  constexpr unsigned char kNull[4] = {0xff, 0xff, 0xff, 0xff};
  if (bytes.size() == sizeof kNull && std::memcmp(bytes.data(), kNull, sizeof kNull) == 0)
    return "NULL";
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text = text.substr(0, text.find('\0'));
  return fmt::format("\"{}\"", printable(text));
}

// Returns whether regcomp() and regexec() cannot need much time or memory for the pattern.
bool is_plain_regex(const std::string& pattern) {
  return pattern.size() <= kLongestPattern && pattern.find_first_of("\\{}") == std::string::npos;
}

}  // namespace

UftraceValues::UftraceValues(const UftraceInfo& info)
    : glob_(info.pattern_type == "glob"), regex_(info.pattern_type != "simple" && !glob_) {
  for (const std::string& list : info.argspecs) add(list, given_[0]);
  for (const std::string& list : info.retspecs) add(list, given_[1]);
  add(info.argauto, automatic_[0]);
  add(info.retauto, automatic_[1]);
}

// Parses "arg2/x32%rsi": the place, after a slash format and bits, then the register that it was
// in.
std::optional<UftraceValues::Item> UftraceValues::parse_item(std::string_view text) {
  text = text.substr(0, text.find('%'));
  const auto slash = text.find('/');
  Item item;
  item.place = text.substr(0, slash);
  const auto is_place = [&](std::string_view kind) {
    return item.place.starts_with(kind) && item.place.size() > kind.size() &&
           item.place.find_first_not_of("0123456789", kind.size()) == std::string::npos;
  };
  if (is_place("fparg")) {
    item.format = 'f';
  } else if (!is_place("arg") && item.place != "retval") {
    return std::nullopt;  // another action, or a module
  }
  if (slash == text.npos) return item;
  std::string_view how = text.substr(slash + 1);
  if (!how.empty() && (how.front() < '0' || how.front() > '9')) {
    item.format = how.front();
    how.remove_prefix(1);
  }
  if (item.format == 'e') return item;  // "e:NAME" is an enum, printed as its number
  if (std::string_view("diuxoscfSp").find(item.format) == std::string_view::npos) {
    item.size = 0;  // a structure by value, or an item of a later uftrace
    return item;
  }
  if (item.format == 'c') item.size = 1;
  if (how.empty()) return item;
  unsigned bits = 0;
  if (!take_number(how, bits)) bits = 0;
  const bool fits =
      bits == 8 || bits == 16 || bits == 32 || bits == 64 || (bits == 80 && item.format == 'f');
  item.size = fits ? bits / 8 : 0;
  return item;
}

// Returns null if the text is a name, or a pattern that cannot be compiled.
UftraceValues::Pattern UftraceValues::compiled(const std::string& pattern) const {
  if (glob_ && pattern.size() <= kLongestPattern && pattern.find_first_of("*?[") != pattern.npos) {
    return [pattern](const std::string& function) {
      return ::fnmatch(pattern.c_str(), function.c_str(), 0) == 0;
    };
  }
  if (!regex_ || pattern.find_first_of(".?*+-^|$()[]{}\\") == pattern.npos ||
      !is_plain_regex(pattern))
    return nullptr;
  auto made = std::make_unique<regex_t>();
  if (::regcomp(made.get(), pattern.c_str(), REG_NOSUB | REG_EXTENDED) != 0) return nullptr;
  const std::shared_ptr<regex_t> regex(made.release(), [](regex_t* one) {
    ::regfree(one);
    delete one;
  });
  return [regex](const std::string& function) {
    return ::regexec(regex.get(), function.c_str(), 0, nullptr, 0) == 0;
  };
}

void UftraceValues::add(std::string_view list, Specs& specs) const {
  for (const std::string_view text : split(list, ';')) {
    const auto at = text.find('@');
    if (at == text.npos || at == 0 || specs.all.size() >= kMostSpecs) continue;
    Spec spec{std::string(text.substr(0, at)), nullptr, {}};
    for (const std::string_view item : split(text.substr(at + 1), ',')) {
      if (spec.items.size() >= kMostItems) break;
      if (auto parsed = parse_item(item)) spec.items.push_back(std::move(*parsed));
    }
    if (spec.items.empty()) continue;
    if (specs.patterns < kMostPatterns) spec.matches = compiled(spec.pattern);
    if (spec.matches) ++specs.patterns;
    specs.all.push_back(std::move(spec));
  }
}

// Returns the items (arguments) that the function's specifications name. If two specifications name
// the same item, it stays where the first has it, with the format of the later one; but a
// specification by name takes precedence over a pattern.
UftraceValues::Items UftraceValues::collect(const Specs& specs, const std::string& function) {
  Items items;
  std::vector<bool> exact;
  for (const Spec& spec : specs.all) {
    const bool is_exact = spec.pattern == function;
    if (!is_exact &&
        (!spec.matches || function.size() > kLongestMatched || !spec.matches(function)))
      continue;
    for (const Item& item : spec.items) {
      const auto same = std::ranges::find(items, item.place, &Item::place);
      if (same == items.end()) {
        if (items.size() >= kMostItems) continue;
        items.push_back(item);
        exact.push_back(is_exact);
      } else if (const auto at = static_cast<std::size_t>(same - items.begin());
                 is_exact || !exact[at]) {
        *same = item;
        exact[at] = is_exact;
      }
    }
  }
  return items;
}

const UftraceValues::Items& UftraceValues::items_of(std::string_view function, bool is_return) {
  auto& known = functions_[is_return];
  const auto found = known.find(function);
  if (found != known.end()) return found->second;
  if (known.size() >= kMostFunctions) known.clear();
  const std::string name(function);
  Items items = collect(given_[is_return], name);
  if (items.empty()) items = collect(automatic_[is_return], name);
  return known.emplace(name, std::move(items)).first->second;
}

std::optional<std::span<const std::byte>> UftraceValues::take(const Item& item,
                                                              std::span<const std::byte> bytes,
                                                              std::size_t& at) {
  std::size_t size = item.size;
  if (size == 0 || at > bytes.size()) return std::nullopt;
  if (is_string(item.format)) {
    if (bytes.size() - at < 2) return std::nullopt;
    size = static_cast<std::size_t>(load(bytes.subspan(at, 2)));
    at += 2;
  }
  if (bytes.size() - at < size) return std::nullopt;
  const auto value = bytes.subspan(at, size);
  at = (at + size + 3) / 4 * 4;
  return value;
}

std::size_t UftraceValues::size(std::string_view function, bool is_return,
                                std::span<const std::byte> bytes) {
  std::size_t at = 0;
  for (const Item& item : items_of(function, is_return))
    if (!take(item, bytes, at)) return 0;
  const std::size_t size = (at + 7) / 8 * 8;
  return size <= bytes.size() ? size : 0;  // 0: the padding was cut off
}

std::optional<std::string> UftraceValues::text(std::string_view function, bool is_return,
                                               std::span<const std::byte> bytes) {
  const Items& items = items_of(function, is_return);
  std::string text;
  std::size_t at = 0;
  for (const Item& item : items) {
    const auto value = take(item, bytes, at);
    if (!value) return std::nullopt;
    if (!text.empty()) text += ", ";
    text +=
        is_string(item.format) ? string_text(*value) : number_text(item.format, item.size, *value);
  }
  if (items.empty() || (at + 7) / 8 * 8 != bytes.size()) return std::nullopt;
  return is_return ? " = " + text : "(" + text + ")";
}

}  // namespace trapline
