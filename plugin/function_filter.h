// Which functions are recorded and where functions start, made small from the symbols: the names
// themselves are kept only when records are written as text.
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
  // `table` holds all functions at their run-time addresses; those in `return_thunks` do not count.
  // An error when a pattern matches none, or when patterns are given without symbols.
  [[nodiscard]] static Result<SymbolFilter> make(const PluginOptions& options,
                                                 const SymbolTable& table,
                                                 std::span<const std::string_view> return_thunks);
  [[nodiscard]] bool recorded(std::uint64_t function) const override;
  [[nodiscard]] bool is_start(std::uint64_t address) const override;
  // The start of the function that may hold the address; the address itself when none is known.
  [[nodiscard]] std::uint64_t start_of(std::uint64_t address) const;
  [[nodiscard]] bool filters() const { return filters_; }
  [[nodiscard]] bool knows_starts() const { return !starts_.empty(); }

 private:
  [[nodiscard]] std::size_t index_of(std::uint64_t address) const;

  std::vector<std::uint64_t> starts_;
  // By start: a jump there stays in the function that it is a part of.
  std::vector<bool> parts_;
  std::vector<bool> selected_;  // by start
  std::vector<AddressRange> include_;
  std::vector<AddressRange> exclude_;
  bool filters_ = false;
  bool default_ = true;  // for what has no symbol
};

// The address of a function or number; what start= and stop= take.
[[nodiscard]] Result<std::uint64_t> address_of(const std::string& text, const SymbolTable& table);

}  // namespace trapline
