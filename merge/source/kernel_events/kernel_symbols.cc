#include "merge/source/kernel_events/kernel_symbols.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "backend_ftrace/base/text.h"

namespace trapline::kernel_events {

KernelSymbols::KernelSymbols(std::string text) : text_(std::move(text)) {
  if (text_.size() > std::numeric_limits<std::uint32_t>::max()) text_.clear();
  for (std::string_view rest = text_; !rest.empty();) {
    std::string_view line = take_line(rest);
    std::uint64_t address = 0;
    constexpr std::size_t kName = 3;  // " T "
    if (!take_number(line, address, 16) || address == 0 || line.size() <= kName) continue;
    if (std::string_view("tTwW").find(line[1]) == std::string_view::npos) continue;
    const std::string_view name = line.substr(kName, line.find('\t') - kName);
    symbols_.push_back({address, static_cast<std::uint32_t>(name.data() - text_.data()),
                        static_cast<std::uint32_t>(name.size())});
  }
  std::ranges::stable_sort(symbols_, {}, &Symbol::address);
}

std::string_view KernelSymbols::function_at(std::uint64_t address) const {
  auto after = std::ranges::upper_bound(symbols_, address, {}, &Symbol::address);
  if (after == symbols_.begin()) return {};
  const std::uint64_t start = (after - 1)->address;
  if (address - start > kMostBefore) return {};
  // If an address has several names, the first of them is taken.
  const auto symbol = std::ranges::lower_bound(symbols_, start, {}, &Symbol::address);
  return std::string_view(text_).substr(symbol->at, symbol->size);
}

}  // namespace trapline::kernel_events
