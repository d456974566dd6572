// Tells which functions are recorded and where functions start. It is compact: names are kept only
// if records are written as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/call_tracker.h"
#include "plugin/format/symbol_table.h"
#include "plugin/options.h"

namespace trapline {

class SymbolFilter final : public FunctionFilter {
 public:
  // Makes a filter. `table` holds all functions at their run-time addresses; functions in
  // `return_thunks` do not count. An error if a pattern matches no function, or if there are
  // patterns but no symbols.
  [[nodiscard]] static Result<SymbolFilter> make(const PluginOptions& options,
                                                 const SymbolTable& table,
                                                 std::span<const std::string_view> return_thunks);
  [[nodiscard]] bool recorded(std::uint64_t function) const override;
  [[nodiscard]] bool is_start(std::uint64_t address) const override;
  // Returns the start of the function that may contain the address; the address itself if none is
  // known.
  [[nodiscard]] std::uint64_t start_of(std::uint64_t address) const;
  [[nodiscard]] bool filters() const { return filters_; }
  [[nodiscard]] bool knows_starts() const { return !starts_.empty(); }

 private:
  [[nodiscard]] std::size_t index_of(std::uint64_t address) const;

  std::vector<std::uint64_t> starts_;
  // Per start: the compiler split this part off a function, so a jump there stays in the function.
  std::vector<bool> parts_;
  std::vector<bool> selected_;  // per start: the function is recorded
  std::vector<AddressRange> include_;
  std::vector<AddressRange> exclude_;
  bool filters_ = false;
  bool default_ = true;  // for addresses without a symbol
};

// Returns the address of a function name or number, the values of start= and stop=.
[[nodiscard]] Result<std::uint64_t> address_of(const std::string& text, const SymbolTable& table);

}  // namespace trapline
