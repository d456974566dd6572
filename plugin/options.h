// The plugin's options, as QEMU passes them: key=value, one each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "plugin/format/symbol_table.h"
#include "plugin/record_clock.h"

namespace trapline {

enum class Contexts { kVcpu, kPrivilege, kStack };
enum class Detection { kInstructions, kFramePointer };

struct PluginOptions {
  std::string out = "uftrace.data";
  ClockChoice clock = ClockChoice::kMono;
  Contexts contexts = Contexts::kVcpu;
  Detection mode = Detection::kInstructions;
  bool to_directory = true;
  bool to_ftrace = false;
  std::string tracefs;  // empty: where it is mounted
  std::string instance;
  std::vector<SymbolFileSpec> symbols;
  std::vector<std::string> include;  // name patterns, or ranges 0xSTART-0xEND
  std::vector<std::string> exclude;
  std::vector<AddressRange> code;  // follow what runs here only; empty: all
  bool code_of_symbols = false;    // and what the symbol files' code is
  std::uint64_t min_duration = 0;  // ns
  std::uint64_t max_depth = ~std::uint64_t{0};
  std::string start;  // a function's name or an address
  std::string stop;
  std::uint64_t limit = 0;   // bytes, 0: none
  std::uint64_t buffer = 0;  // bytes of a task's, 0: as fits contexts=
  bool help = false;
};

[[nodiscard]] Result<PluginOptions> parse_plugin_options(std::span<const char* const> arguments);

// One line per option.
[[nodiscard]] std::string plugin_help();

// A decimal or hexadecimal number, followed by K, M or G where given.
[[nodiscard]] bool parse_size(std::string_view text, std::uint64_t& size);

// 0xSTART-0xEND (the end is not part of it).
[[nodiscard]] bool parse_range(std::string_view text, AddressRange& range);

}  // namespace trapline
