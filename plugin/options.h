// The plugin's options, which QEMU passes as key=value, one argument each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "plugin/arch/architecture.h"
#include "plugin/format/symbol_table.h"
#include "plugin/record_clock.h"

namespace trapline {

enum class Contexts { kVcpu, kPrivilege, kStack };
enum class Detection { kInstructions, kFramePointer };

struct PluginOptions {
  std::string out = "uftrace.data";
  ClockChoice clock = ClockChoice::kMono;
  Contexts contexts = Contexts::kVcpu;
  LevelNames level_names = LevelNames::kTrapline;
  Detection mode = Detection::kInstructions;
  bool to_directory = true;
  bool to_ftrace = false;
  std::string tracefs;  // empty: search for it
  std::string instance;
  std::vector<SymbolFileSpec> symbols;
  std::vector<std::string> include;  // name patterns, or ranges 0xSTART-0xEND
  std::vector<std::string> exclude;
  std::vector<AddressRange> code;  // follow only code in these ranges; empty: all code
  bool code_of_symbols = false;    // follow the code of the symbol files too
  std::uint64_t min_duration = 0;  // ns
  std::uint64_t max_depth = ~std::uint64_t{0};
  std::string start;  // name of a function, or an address
  std::string stop;
  std::uint64_t limit = 0;   // bytes; 0: no limit
  std::uint64_t buffer = 0;  // bytes per task; 0: chosen to suit contexts=
  bool help = false;
};

[[nodiscard]] Result<PluginOptions> parse_plugin_options(std::span<const char* const> arguments);

// Returns help with one line per option.
[[nodiscard]] std::string plugin_help();

// Parses 0xSTART-0xEND; the end is not part of the range.
[[nodiscard]] bool parse_range(std::string_view text, AddressRange& range);

}  // namespace trapline
