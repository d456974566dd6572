#include "plugin/function_filter.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

bool in_any(const std::vector<AddressRange>& ranges, std::uint64_t address) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [address](const AddressRange& range) { return range.contains(address); });
}

struct Patterns {
  std::vector<std::string_view> names;
  std::vector<AddressRange> ranges;
};

Patterns sort_out(const std::vector<std::string>& texts) {
  Patterns patterns;
  for (const std::string& text : texts) {
    AddressRange range;
    if (parse_range(text, range))
      patterns.ranges.push_back(range);
    else
      patterns.names.push_back(text);
  }
  return patterns;
}

Result<std::vector<bool>> matching(const std::vector<std::string_view>& patterns,
                                   const SymbolTable& table, std::string_view option) {
  std::vector<bool> hit(table.size());
  for (const std::string_view pattern : patterns) {
    bool any = false;
    for (std::uint32_t i = 0; i < table.size(); ++i)
      if (matches(pattern, table[i].name) || matches(pattern, table[i].linkage_name))
        any = hit[i] = true;
    if (!any)
      return fail(
          ErrorKind::kUsage, "{}={}: {}", option, pattern,
          table.empty() ? "a name needs symbols=FILE" : "no function of the symbol files matches");
  }
  return hit;
}

}  // namespace

Result<SymbolFilter> SymbolFilter::make(const PluginOptions& options, const SymbolTable& table,
                                        std::span<const std::string_view> return_thunks) {
  const Patterns include = sort_out(options.include);
  const Patterns exclude = sort_out(options.exclude);
  auto included = matching(include.names, table, "include");
  if (!included) return tl::unexpected(std::move(included).error());
  auto excluded = matching(exclude.names, table, "exclude");
  if (!excluded) return tl::unexpected(std::move(excluded).error());
  SymbolFilter filter;
  filter.include_ = include.ranges;
  filter.exclude_ = exclude.ranges;
  filter.filters_ = !options.include.empty() || !options.exclude.empty();
  filter.default_ = options.include.empty();
  filter.starts_.reserve(table.size());
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    if (std::find(return_thunks.begin(), return_thunks.end(), table[i].name) != return_thunks.end())
      continue;
    filter.starts_.push_back(table[i].address);
    filter.parts_.push_back(table[i].is_part);
    if (!filter.filters_) continue;
    const std::uint64_t at = table[i].address;
    const bool wanted = options.include.empty() || (*included)[i] || in_any(include.ranges, at);
    filter.selected_.push_back(wanted && !(*excluded)[i] && !in_any(exclude.ranges, at));
  }
  return filter;
}

std::size_t SymbolFilter::index_of(std::uint64_t address) const {
  const auto at = std::lower_bound(starts_.begin(), starts_.end(), address);
  return at != starts_.end() && *at == address ? static_cast<std::size_t>(at - starts_.begin())
                                               : starts_.size();
}

bool SymbolFilter::is_start(std::uint64_t address) const {
  const std::size_t index = index_of(address);
  return index != starts_.size() && !parts_[index];
}

std::uint64_t SymbolFilter::start_of(std::uint64_t address) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), address);
  return after == starts_.begin() ? address : after[-1];
}

bool SymbolFilter::recorded(std::uint64_t function) const {
  if (!filters_) return true;
  if (const std::size_t index = index_of(function); index != starts_.size())
    return selected_[index];
  return (default_ || in_any(include_, function)) && !in_any(exclude_, function);
}

Result<std::uint64_t> address_of(const std::string& text, const SymbolTable& table) {
  if (const auto number = parse_number(text)) return *number;
  for (const Symbol& symbol : table.symbols())
    if ((symbol.name == text && !symbol.is_part) || symbol.linkage_name == text)
      return symbol.address;
  return fail(ErrorKind::kUsage, "'{}' is neither an address nor a function of the symbol files",
              text);
}

}  // namespace trapline
